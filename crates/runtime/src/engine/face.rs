//! The engine's answers: checks of requests, reads, waits. Reads never pass the writer.

mod prepare;
mod result;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use subagent_core::delivery::{owed, receipts};
use subagent_core::run::{Command, Phase, Subagent};
use subagent_core::snapshot::{record, record_of_run};
use subagent_model::request::{
    Health, InboxItem, ListFilter, LogPage, Page, SpawnRequest, StopReply, StopRequest, TextPart,
    WaitOptions, WaitReply,
};
use subagent_model::{Cursor, ErrorCode, Event, Problem, RunNumber, SubagentId, SubagentRecord};
use subagent_store::{OwedRun, Resolved, Store, StoreError, StoreMode};
use tokio::sync::oneshot;

use super::writer::{Act, ActError, Acted, Message};
use super::{Engine, Inner, output};
use crate::runtime::{AckReply, AckTarget, Caller, Runtime, SpawnReply};

/// Longest wait that one call may ask for. Longer ones are asked again.
const LONGEST_WAIT: Duration = Duration::from_hours(24);
/// Wait of a call that names none.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// A control call answers within this, whatever the store does.
const CONTROL_BOUND: Duration = Duration::from_secs(8);
/// Most records of a page.
const LARGEST_PAGE: u32 = 1_000;
fn problem(error: StoreError) -> Problem {
    ActError::Store(error).into()
}

fn not_found(what: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("there is no subagent {what}"))
}

impl Engine {
    /// Sends a command and waits for its commit, within the bound of control calls.
    async fn act(&self, id: SubagentId, command: Command, cascade: bool) -> Result<Acted, Problem> {
        let (reply, answer) = oneshot::channel();
        self.inner.send(Act { cascade, reply: Some(reply), ..Act::new(id, command) }.into());
        bounded_answer(answer).await?.map_err(Problem::from)
    }

    /// Sends a receipt to the writer; lazily, nobody waits for what comes of it.
    fn send_receipt(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: RunNumber,
        lazy: bool,
    ) -> Option<oneshot::Receiver<Result<Acted, ActError>>> {
        let command = Command::Acknowledge { run, by: caller.requester.clone() };
        let (reply, answer) = (!lazy).then(oneshot::channel).unzip();
        self.inner.send(Act { lazy, reply, ..Act::new(id, command) }.into());
        answer
    }

    fn known(&self, id: SubagentId) -> Result<Arc<Subagent>, Problem> {
        self.inner.load(id).map_err(problem)?.ok_or_else(|| not_found(id))
    }
}

/// The answer of the writer, or a time-out.
async fn bounded_answer<T>(answer: oneshot::Receiver<T>) -> Result<T, Problem> {
    match tokio::time::timeout(CONTROL_BOUND, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(ActError::Halted.into()),
        Err(_) => Err(Problem::new(ErrorCode::Timeout, "the store did not answer within 8 seconds")),
    }
}

#[async_trait]
impl Runtime for Engine {
    async fn spawn(&self, caller: &Caller, request: SpawnRequest) -> Result<SpawnReply, Problem> {
        let wait = request.wait_ms.map(Duration::from_millis);
        let (spawn, secrets) = self.prepare(caller, request).await?;
        let id = spawn.id;
        if !secrets.is_empty() {
            self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner).insert(id, secrets);
        }
        // Registered before the spawn: an end cannot fall between.
        let ended = wait.map(|wait| (wait, self.inner.waiters.register(id, RunNumber(1))));
        let (reply, answer) = oneshot::channel();
        self.inner.send(Message::Spawn(Box::new(spawn), reply));
        let spawned = match bounded_answer(answer).await.and_then(|spawned| spawned) {
            Ok(spawned) => spawned,
            Err(refusal) => {
                // After a time-out it may still be accepted, and needs them then.
                if refusal.code != ErrorCode::Timeout {
                    self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                }
                return Err(refusal);
            }
        };
        if spawned.existing {
            self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let options = WaitOptions { run: None, timeout_ms: wait.map(millis) };
            let Some(_) = wait else {
                let ended = spawned.state.is_ended();
                return Ok(SpawnReply { record: record(&spawned.state), ended, existing: true });
            };
            let waited = self.wait(spawned.state.id, options).await?;
            return Ok(SpawnReply { record: waited.record, ended: waited.ended, existing: true });
        }
        if let Some((wait, ended)) = ended
            && let Ok(Ok(state)) = tokio::time::timeout(wait.min(LONGEST_WAIT), ended).await
        {
            return Ok(SpawnReply { record: record(&state), ended: true, existing: false });
        }
        let state = self.inner.live(id).unwrap_or(spawned.state);
        Ok(SpawnReply { record: record(&state), ended: state.is_ended(), existing: false })
    }

    async fn resolve(&self, name: &str) -> Result<SubagentId, Problem> {
        if let Ok(id) = name.parse::<SubagentId>() {
            return self.known(id).map(|state| state.id);
        }
        let mut found = Vec::new();
        for store in [&*self.inner.memory as &dyn Store, &*self.inner.store] {
            match store.resolve(name).map_err(problem)? {
                Resolved::One(id) => found.push((id, String::new())),
                Resolved::None => {}
                Resolved::Many(candidates) => {
                    found.extend(candidates.into_iter().map(|(id, handle)| (id, handle.to_string())));
                }
            }
        }
        match found.as_slice() {
            [] => Err(not_found(format!("{name:?}"))),
            [(id, _)] => Ok(*id),
            _ => {
                let ids: Vec<_> =
                    found.iter().map(|(id, handle)| format!("{handle} {id}").trim().to_owned()).collect();
                Err(Problem::new(
                    ErrorCode::Ambiguous,
                    format!("{name:?} fits {} subagents or more", ids.len()),
                )
                .with_ids(ids))
            }
        }
    }

    async fn get(&self, id: SubagentId) -> Result<SubagentRecord, Problem> {
        self.known(id).map(|state| record(&state))
    }

    async fn queue_position(&self, id: SubagentId) -> Result<Option<u64>, Problem> {
        let state = self.known(id)?;
        if !matches!(state.run.phase, Phase::Queued { .. }) {
            return Ok(None);
        }
        let (reply, answer) = oneshot::channel();
        self.inner.send(Message::Position(id, reply));
        bounded_answer(answer).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Page, Problem> {
        let limit = filter.limit.unwrap_or(50).clamp(1, LARGEST_PAGE);
        let filter = ListFilter { limit: Some(limit), ..filter };
        let durable = self.inner.store.list(&filter).map_err(problem)?;
        let volatile = self.inner.memory.list(&filter).map_err(problem)?;
        let more = durable.next.is_some() || volatile.next.is_some();
        let mut items: Vec<_> = durable.items.into_iter().chain(volatile.items).collect();
        items.sort_unstable_by_key(|state| std::cmp::Reverse(state.id));
        let cut = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().map(|state| state.id).filter(|_| more || cut);
        Ok(Page { items: items.iter().map(|state| record(state)).collect(), next, damaged: durable.damaged })
    }

    async fn wait(&self, id: SubagentId, options: WaitOptions) -> Result<WaitReply, Problem> {
        let run = options.run.unwrap_or(self.known(id)?.run.number);
        let ended = self.inner.waiters.register(id, run);
        // Looked at after registering: the end is either in the state or still to come.
        let state = self.known(id)?;
        if state.duty(run).is_none() {
            return Err(not_found(format!("{id} with a run {run}")));
        }
        if state.run.number > run || state.is_ended() {
            return Ok(waited(&state, run, true));
        }
        let wait = options.timeout_ms.map_or(DEFAULT_WAIT, Duration::from_millis).min(LONGEST_WAIT);
        if let Ok(Ok(state)) = tokio::time::timeout(wait, ended).await {
            return Ok(waited(&state, run, true));
        }
        // The time ran out, or the engine is going down: either way the run goes on.
        let state = self.known(id)?;
        let ended = state.run.number > run || state.is_ended();
        Ok(waited(&state, run, ended))
    }

    async fn stop(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopRequest,
    ) -> Result<StopReply, Problem> {
        let command = Command::Stop { actor: caller.requester.to_string(), cause: request.cause };
        let acted = self.act(id, command, request.cascade).await?;
        Ok(StopReply { record: record(&acted.state), accepted: acted.changed, cascaded: acted.cascaded })
    }

    async fn result(
        &self,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem> {
        self.read_result(id, run, offset, max)
    }

    async fn output(&self, id: SubagentId, from: u64, wait: Option<Duration>) -> Result<LogPage, Problem> {
        let state = self.known(id)?;
        output::page(&self.inner, &state, from, wait).await
    }

    async fn inbox(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem> {
        let requester = Some(&caller.requester);
        let limit = limit.clamp(1, LARGEST_PAGE);
        let mut owed = self.inner.store.owed(requester, None, limit).map_err(problem)?;
        owed.extend(self.inner.memory.owed(requester, None, limit).map_err(problem)?);
        owed.sort_unstable_by_key(OwedRun::place);
        Ok(owed.iter().take(limit as usize).filter_map(inbox_item).collect())
    }

    async fn acknowledge(
        &self,
        caller: &Caller,
        targets: Vec<AckTarget>,
        lazily: bool,
    ) -> Result<AckReply, Problem> {
        let mut reply = AckReply { acknowledged: Vec::new(), refused: Vec::new(), unconsumed: 0 };
        let mut pending = Vec::new();
        for AckTarget { id, run } in targets {
            let runs = match run {
                Some(run) => vec![run],
                None => match self.known(id) {
                    Ok(state) => receipts(&state, &caller.requester),
                    Err(problem) => {
                        reply.refused.push(problem.with_ids(vec![id.to_string()]));
                        continue;
                    }
                },
            };
            // All are sent before any is waited for, so that they share one flush.
            let answers: Vec<_> =
                runs.into_iter().filter_map(|run| self.send_receipt(caller, id, run, lazily)).collect();
            pending.push((id, answers));
        }
        for (id, answers) in pending {
            let refused = reply.refused.len();
            for answer in answers {
                if let Err(refusal) = bounded_answer(answer).await?.map_err(Problem::from) {
                    reply.refused.push(refusal.with_ids(vec![id.to_string()]));
                }
            }
            if reply.refused.len() == refused {
                reply.acknowledged.push(id);
            }
        }
        reply.unconsumed = self.inner.unconsumed(Some(&caller.requester)).map_err(problem)?;
        Ok(reply)
    }

    async fn events(&self, after: Cursor, limit: u32, wait: Option<Duration>) -> Result<Vec<Event>, Problem> {
        let limit = limit.clamp(1, LARGEST_PAGE);
        self.inner.feed.read(&self.inner.store, after, limit, wait).await.map_err(problem)
    }

    async fn health(&self) -> Result<Health, Problem> {
        let gauges = &self.inner.gauges;
        let degraded = gauges.degraded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read_only = match self.inner.store.mode() {
            StoreMode::ReadWrite => None,
            StoreMode::ReadOnly { reason } => Some(reason),
        };
        Ok(Health {
            version: self.inner.config.version.clone(),
            pid: std::process::id(),
            node: self.inner.node.to_string(),
            started_at: self.inner.started_at,
            running: gauges.running.load(Ordering::Relaxed),
            running_limit: gauges.limits.read().unwrap_or_else(PoisonError::into_inner).running,
            queued: gauges.queued.load(Ordering::Relaxed),
            unconsumed: self.inner.unconsumed(None).map_err(problem)?,
            cursor: self.inner.feed.head(),
            containment: self.inner.containment().to_owned(),
            recovery: self.inner.recovery.get().cloned().unwrap_or_default(),
            damaged: u32::try_from(self.inner.store.damaged().map_err(problem)?.len()).unwrap_or(u32::MAX),
            degraded: read_only.or(degraded),
            draining: gauges.draining.load(Ordering::Relaxed),
        })
    }
}

impl Inner {
    fn unconsumed(&self, requester: Option<&subagent_model::Requester>) -> Result<u64, StoreError> {
        Ok(self.store.owed_count(requester)? + self.memory.owed_count(requester)?)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What the inbox tells of a run; `None` when its state does not owe it, which no store says.
fn inbox_item(OwedRun { state, run, .. }: &OwedRun) -> Option<InboxItem> {
    let owed = owed(state).find(|owed| owed.run == *run)?;
    Some(InboxItem {
        delivery_id: owed.delivery_id(),
        run: *run,
        requester: owed.requester.to_string(),
        tries: owed.tries,
        record: record_of_run(state, *run)?,
    })
}

/// What a wait tells: the run that was waited for, though the next one may be open by now.
fn waited(state: &Subagent, run: RunNumber, ended: bool) -> WaitReply {
    WaitReply { record: record_of_run(state, run).unwrap_or_else(|| record(state)), ended, run }
}
