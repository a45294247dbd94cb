//! The start of an engine: three lists (the store, the live shims, the exit records) are read, the core makes a plan of
//! them, and this carries it out. Nothing is taken on before.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use subagent_core::recover::{Found, Plan, Step, plan};
use subagent_model::request::RecoverySummary;
use subagent_model::{AttemptKey, AttemptNumber, SubagentId};
use subagent_process::{LiveShim, Shim, ShimState, exit_record, leftovers};

use super::attempt::{self, Begin};
use super::{Inner, StartError, output};

/// How long what is left in one group may take to go.
const GROUP: std::time::Duration = std::time::Duration::from_secs(2);

/// Recovers everything live and begins what it needs.
///
/// Gives the attempts that are about to end: their processes are known to be gone.
pub(crate) async fn recover(inner: &Arc<Inner>) -> Result<Vec<(SubagentId, AttemptNumber)>, StartError> {
    // In this order: an attempt that began in between must not look like a child that nobody knows.
    let mut shims = survey(inner).await;
    let groups: HashSet<PathBuf> =
        shims.values().filter_map(|live| live.shim.cgroup().map(Path::to_owned)).collect();
    let page = inner.store.live()?;
    let mut found: BTreeMap<AttemptKey, Found> = BTreeMap::new();
    for (key, shim) in &shims {
        let state = if shim.status.state == ShimState::Exited { Found::Exited } else { Found::Running };
        found.insert(*key, state);
    }
    let mut launched = BTreeSet::new();
    for state in &page.items {
        let Some(key) = state.attempt_key() else { continue };
        let dir = inner.paths.attempt_of(state, key);
        // A closure in a daemon that died may have begun its work.
        let in_process = state.spec.exec.is_none() && state.process_hold().is_some() && !dir.exists();
        if in_process || dir.join(output::FIRST_SEGMENT).exists() {
            launched.insert(key);
        }
        if !found.contains_key(&key) && matches!(exit_record::read(&dir), Ok(Some(_))) {
            found.insert(key, Found::Exited);
        }
    }
    let plan = plan(page.items.iter().map(|state| &**state), &found, &launched);
    {
        let mut live = inner.live.write().unwrap_or_else(PoisonError::into_inner);
        live.extend(page.items.iter().map(|state| (state.id, Arc::clone(state))));
    }
    let mut summary = summarise(&plan);
    summary.damaged = u32::try_from(page.damaged.len()).unwrap_or(u32::MAX);
    let held: BTreeSet<_> = shims.keys().map(|key| inner.paths.attempt(*key, false)).collect();
    summary.orphans = reap_or_list(inner, &plan, &mut shims);
    sweep_groups(inner, groups).await;
    for (key, live) in &shims {
        let child = live.shim.started().map(|started| started.process);
        inner.callers.enter(live.shim.cgroup(), live.shim.identity().clone(), child, key.to_string());
    }
    for (id, step) in &plan.steps {
        carry_out(inner, *id, step, &mut shims);
    }
    // A daemon that starts on a quiet store has nothing to tell.
    if summary != RecoverySummary::default() {
        tracing::info!(?summary, "recovered");
    }
    let _ = inner.recovery.set(summary);
    clear_volatile(inner.paths.volatile(), &held);
    let ending = |(id, step): &(SubagentId, Step)| match step {
        Step::Settle { attempt } | Step::Lose { attempt } => Some((*id, *attempt)),
        _ => None,
    };
    Ok(plan.steps.iter().filter_map(ending).collect())
}

/// Ends what shims left behind that are gone, and removes their groups. Those in `live` answered; one that did not, but
/// whose socket is there, keeps its own as well.
async fn sweep_groups(inner: &Inner, mut live: HashSet<PathBuf>) {
    let Some(launcher) = inner.pool.as_ref().map(|pool| pool.launcher().clone()) else { return };
    let Some(root) = launcher.cgroup_root().map(|root| root.path().to_owned()) else { return };
    let sockets = std::fs::read_dir(launcher.sockets()).into_iter().flatten().flatten();
    live.extend(sockets.filter_map(|entry| Some(root.join(entry.path().file_stem()?))));
    let swept = tokio::task::spawn_blocking(move || launcher.sweep_groups(&live, GROUP)).await;
    if let Ok(count @ 1..) = swept {
        tracing::debug!(count, "removed the groups of shims that are gone");
    }
}

async fn survey(inner: &Inner) -> BTreeMap<AttemptKey, LiveShim> {
    let Some(pool) = &inner.pool else { return BTreeMap::new() };
    match pool.launcher().survey_others().await {
        Ok(shims) => shims
            .into_iter()
            .filter_map(|shim| Some((shim.status.attempt.as_deref()?.parse().ok()?, shim)))
            .collect(),
        Err(error) => {
            tracing::error!(%error, "cannot look for the shims of an earlier daemon");
            BTreeMap::new()
        }
    }
}

fn summarise(plan: &Plan) -> RecoverySummary {
    let mut summary = RecoverySummary::default();
    for (_, step) in &plan.steps {
        match step {
            Step::Adopt { .. } => summary.adopted += 1,
            Step::Settle { .. } | Step::CloseSession { .. } => summary.settled += 1,
            Step::Relaunch { .. } => summary.requeued += 1,
            Step::FinishStop { .. } => summary.stopping += 1,
            Step::Lose { .. } => summary.lost += 1,
            Step::Queue | Step::AwaitChildren => {}
        }
    }
    summary
}

fn carry_out(inner: &Arc<Inner>, id: SubagentId, step: &Step, shims: &mut BTreeMap<AttemptKey, LiveShim>) {
    let (attempt, how): (_, fn(Option<Shim>) -> Begin) = match step {
        Step::Adopt { attempt } | Step::Settle { attempt } => {
            (*attempt, |shim| shim.map_or(Begin::Find, Begin::Adopt))
        }
        Step::Relaunch { attempt } => (*attempt, |_| Begin::Launch),
        Step::Lose { attempt } | Step::FinishStop { attempt } | Step::CloseSession { attempt } => {
            (*attempt, |_| Begin::Find)
        }
        Step::Queue | Step::AwaitChildren => return,
    };
    let Some(state) = inner.live(id) else { return };
    let key = state.key_of(attempt);
    let shim = shims.remove(&key).map(|live| live.shim);
    if let Some(follow) = inner.tasks.enter(key, &state) {
        // A stop that was accepted before is carried out first.
        if matches!(state.run.phase, subagent_core::run::Phase::Stopping { .. }) {
            follow.stop.cancel();
        }
        attempt::spawn(Arc::clone(inner), state, key, how(shim), follow);
    }
}

/// Ends live shims whose run is known to have moved on or to have ended with its daemon. Trees that no record knows are
/// listed and left alone.
fn reap_or_list(inner: &Inner, plan: &Plan, shims: &mut BTreeMap<AttemptKey, LiveShim>) -> Vec<String> {
    let mut orphans = Vec::new();
    let kept: BTreeSet<AttemptKey> = plan
        .steps
        .iter()
        .filter_map(|(id, step)| match step {
            Step::Adopt { attempt } | Step::Settle { attempt } => Some((*id, *attempt)),
            _ => None,
        })
        .filter_map(|(id, attempt)| inner.live(id).map(|state| state.key_of(attempt)))
        .collect();
    let strays: Vec<_> = shims.keys().filter(|key| !kept.contains(key)).copied().collect();
    for key in strays {
        let Some(stray) = shims.remove(&key) else { continue };
        let volatile = inner.paths.attempt(key, false).exists();
        let known = matches!(inner.store.get(key.subagent), Ok(Some(_)));
        if !volatile && !known {
            orphans.push(key.to_string());
            continue;
        }
        let graces = inner.config.graces;
        let dir = inner.paths.attempt(key, false);
        inner.executor.spawn(async move {
            let _ = stray.shim.stop(graces);
            let _ = tokio::time::timeout(graces.term + graces.kill, stray.shim.exit()).await;
            let _ = stray.shim.release();
            let _ = stray.shim.retire();
            // Kept until its tree is gone: a daemon that dies before that is to know it again.
            let _ = std::fs::remove_dir_all(&dir);
        });
    }
    // Trees whose shim is gone as well: of this store they are only if their directory is here.
    for tree in leftovers::orphans(&shims.keys().map(ToString::to_string).collect()) {
        let Ok(key) = tree.attempt.parse::<AttemptKey>() else { continue };
        let ours = inner.paths.attempt(key, true).exists();
        let unknown = matches!(inner.store.get(key.subagent), Ok(None));
        if ours && unknown && !orphans.contains(&tree.attempt) {
            orphans.push(tree.attempt);
        }
    }
    orphans
}

/// Removes what runs left behind that ended with their daemon; those whose shim lives go with it.
fn clear_volatile(dir: &Path, held: &BTreeSet<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| !held.contains(&entry.path())) {
        if let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(%error, "cannot remove what a run that was not durable left");
        }
    }
}
