//! Retention: what may be released is planned by the core and released here, heavy parts first. And the limits.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use subagent_core::admission::Limits;
use subagent_core::retention::{Policy, Summary, Sweep, sweep};
use subagent_model::request::{GcReply, GcRequest};
use subagent_model::{AttemptKey, ErrorCode, Problem, SubagentId};
use tokio::sync::oneshot;

use super::super::writer::Message;
use super::super::{Engine, Inner, clock};
use super::prepare::invalid;
use super::{bounded_answer, problem};

/// Summaries that are read at once.
const PORTION: u32 = 1_000;
/// Most subagents released in one step, so that nothing waits long for the store.
const STEP: usize = 200;

impl Engine {
    pub(super) async fn change_limits(&self, limits: Limits) -> Result<(), Problem> {
        if limits.rate_window_ms == 0 || limits.max_attempts == 0 {
            return Err(invalid("limits.rate_window_ms and limits.max_attempts must be at least 1"));
        }
        let (reply, answer) = oneshot::channel();
        self.inner.send(Message::Limits(Box::new(limits), Some(reply)));
        bounded_answer(answer).await
    }

    pub(super) async fn collect(&self, request: GcRequest) -> Result<GcReply, Problem> {
        let inner = Arc::clone(&self.inner);
        let collected = tokio::task::spawn_blocking(move || inner.collect(request));
        collected.await.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
    }
}

impl Inner {
    /// Plans a sweep, and carries it out unless it is only to be shown.
    pub(crate) fn collect(&self, request: GcRequest) -> Result<GcReply, Problem> {
        let attempts = self.attempt_dirs();
        let mut summaries = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.summaries(after, PORTION).map_err(problem)?;
            let Some(last) = page.last().map(|summary| summary.id) else { break };
            after = Some(last);
            summaries.extend(page.iter().map(|stored| stored.for_sweep(size_of(attempts.get(&stored.id)))));
        }
        let mut policy: Policy = self.config.retention;
        if let Some(older) = request.older_than_ms {
            policy.heavy_ms = older;
            policy.record_ms = if request.records { older } else { policy.record_ms.max(older) };
        } else if request.records {
            policy.record_ms = policy.heavy_ms;
        }
        let plan = sweep(clock::now(), &policy, &summaries);
        let known: HashSet<SubagentId> = summaries.iter().map(|summary| summary.id).collect();
        let unknown = attempts.iter().filter(|(id, _)| !known.contains(id)).flat_map(|(_, dirs)| dirs);
        let mut unknown: Vec<_> = unknown.filter_map(|dir| name_of(dir)).collect();
        unknown.sort_unstable();
        let unread = summaries.iter().filter(|summary: &&Summary| summary.unread).count() as u64;
        let reply = GcReply {
            dry_run: request.dry_run,
            heavy: plan.heavy.clone(),
            records: plan.records.clone(),
            bytes: plan.bytes,
            unknown,
            unread,
        };
        if !request.dry_run {
            self.release(&plan, &attempts)?;
        }
        Ok(reply)
    }

    fn release(&self, plan: &Sweep, attempts: &HashMap<SubagentId, Vec<PathBuf>>) -> Result<(), Problem> {
        for ids in plan.heavy.chunks(STEP) {
            self.store.release_content(ids).map_err(problem)?;
            for id in ids {
                // Asked again: a resume may have opened it since the plan was made.
                let live = self.live(*id).is_some();
                let owed = self.store.get(*id).map_err(problem)?.is_none_or(|state| state.is_owed());
                if !live && !owed {
                    remove_all(attempts.get(id));
                }
            }
        }
        for ids in plan.records.chunks(STEP) {
            let mut secrets = self.secrets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for id in ids {
                secrets.remove(id);
            }
            drop(secrets);
            self.store.delete(ids).map_err(problem)?;
        }
        let up_to = subagent_store::journal::prunable(&*self.store, &plan.journal).map_err(problem)?;
        self.store.prune_events(up_to).map_err(problem)?;
        Ok(())
    }

    /// The directories of attempts and of attached files, by subagent.
    fn attempt_dirs(&self) -> HashMap<SubagentId, Vec<PathBuf>> {
        let mut dirs: HashMap<SubagentId, Vec<PathBuf>> = HashMap::new();
        let Ok(entries) = std::fs::read_dir(self.paths.durable()) else { return dirs };
        for entry in entries.flatten() {
            let key = entry.file_name().to_str().and_then(|name| name.parse::<AttemptKey>().ok());
            if let Some(key) = key {
                dirs.entry(key.subagent).or_default().push(entry.path());
            }
        }
        let attached = std::fs::read_dir(self.paths.attachments()).into_iter().flatten().flatten();
        for entry in attached {
            if let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                dirs.entry(id).or_default().push(entry.path());
            }
        }
        dirs
    }
}

fn name_of(dir: &Path) -> Option<String> {
    let (place, name) = (dir.parent()?.file_name()?.to_str()?, dir.file_name()?.to_str()?);
    Some(format!("{place}/{name}"))
}

fn size_of(dirs: Option<&Vec<PathBuf>>) -> u64 {
    let files =
        dirs.into_iter().flatten().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn remove_all(dirs: Option<&Vec<PathBuf>>) {
    for dir in dirs.into_iter().flatten() {
        if let Err(error) = std::fs::remove_dir_all(dir) {
            tracing::warn!(dir = %dir.display(), %error, "cannot remove what an attempt left");
        }
    }
}
