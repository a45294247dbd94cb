//! The engine's answers: checks of requests, reads, waits. Reads never pass the writer.

mod attaching;
mod authority;
mod ceiling;
mod deliveries;
mod inner;
mod maintenance;
mod prepare;
mod reading;
mod requests;
mod result;
mod runs;
mod setup;
mod steering;
mod stopping;
mod transcript;
mod types;
mod usage;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use camino::Utf8PathBuf;
use subagent_core::admission::Limits;
use subagent_core::delivery::receipts;
use subagent_core::run::{Command, Phase, Subagent};
use subagent_core::snapshot::{record, record_of_run};
use subagent_model::agents::TypeList;
use subagent_model::request::{
    Activity, AnswerRequest, BudgetRequest, ClaimRequest, GcReply, GcRequest, Health, InboxItem, ListFilter,
    LogPage, MessageList, OpenRequest, Page, QueuePlace, RequestList, ResumeRequest, ReturnRequest, RunList,
    SpawnRequest, SteerReply, SteerRequest, StopAllReply, StopAllRequest, StopReply, StopRequest, TextPart,
    UsageReport, WaitOptions, WaitReply,
};
use subagent_model::{
    Cursor, ErrorCode, InnerList, Problem, RequestNumber, RunNumber, StopInnerReply, StopInnerRequest,
    SubagentId, SubagentRecord, TranscriptPage,
};
use subagent_store::{Resolved, Store, StoreError, StoreMode};
use tokio::sync::oneshot;

use self::authority::Access;
use self::prepare::Prepared;
use super::writer::{Act, ActError, Acted, Message};
use super::{Engine, Inner, output};
use crate::runtime::{AckReply, AckTarget, Caller, EventPage, ResumeReply, Runtime, SpawnReply};

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
        let prepared = self.prepare(caller, request).await;
        let Prepared { spawn, secrets, notes, kept } =
            prepared.map_err(|refusal| self.inner.refusals.note(refusal))?;
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
                if refusal.code == ErrorCode::Timeout {
                    kept.stay();
                } else {
                    self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                }
                return Err(self.inner.refusals.note(refusal));
            }
        };
        if spawned.existing {
            self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let options = WaitOptions { run: None, timeout_ms: wait.map(millis) };
            let Some(_) = wait else {
                let ended = spawned.state.is_ended();
                return Ok(SpawnReply { record: record(&spawned.state), ended, existing: true, notes });
            };
            let waited = self.wait(caller, spawned.state.id, options).await?;
            return Ok(SpawnReply { record: waited.record, ended: waited.ended, existing: true, notes });
        }
        kept.stay();
        if let Some((wait, ended)) = ended {
            let _lent = self.lend(caller, &spawned.state);
            if let Ok(Ok(state)) = tokio::time::timeout(wait.min(LONGEST_WAIT), ended).await {
                let record = waited(&state, RunNumber(1), true).record;
                return Ok(SpawnReply { record, ended: true, existing: false, notes });
            }
        }
        let state = self.inner.live(id).unwrap_or(spawned.state);
        Ok(SpawnReply { record: record(&state), ended: state.is_ended(), existing: false, notes })
    }

    async fn resume(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: ResumeRequest,
    ) -> Result<ResumeReply, Problem> {
        self.open_run(caller, id, request).await
    }

    async fn steer(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: SteerRequest,
    ) -> Result<SteerReply, Problem> {
        self.send_message(caller, id, request).await
    }

    async fn messages(&self, caller: &Caller, id: SubagentId) -> Result<MessageList, Problem> {
        self.list_messages(caller, id)
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

    async fn get(&self, caller: &Caller, id: SubagentId) -> Result<SubagentRecord, Problem> {
        self.for_caller(caller, id, Access::See).map(|state| record(&state))
    }

    async fn runs(&self, caller: &Caller, id: SubagentId) -> Result<RunList, Problem> {
        self.list_runs(caller, id)
    }

    async fn usage(&self, caller: &Caller, id: SubagentId) -> Result<UsageReport, Problem> {
        self.report_usage(caller, id).await
    }

    async fn queue_place(&self, caller: &Caller, id: SubagentId) -> Result<QueuePlace, Problem> {
        let state = self.for_caller(caller, id, Access::See)?;
        if !matches!(state.run.phase, Phase::Queued { .. }) {
            return Ok(QueuePlace::default());
        }
        let (reply, answer) = oneshot::channel();
        self.inner.send(Message::Position(id, reply));
        bounded_answer(answer).await
    }

    async fn list(&self, caller: &Caller, filter: ListFilter) -> Result<Page, Problem> {
        self.list_for(caller, filter)
    }

    async fn wait(
        &self,
        caller: &Caller,
        id: SubagentId,
        options: WaitOptions,
    ) -> Result<WaitReply, Problem> {
        let run = match options.run {
            Some(run) => run,
            None => self.for_caller(caller, id, Access::See)?.run.number,
        };
        let wait = options.timeout_ms.map_or(DEFAULT_WAIT, Duration::from_millis).min(LONGEST_WAIT);
        self.wait_for(caller, id, run, wait).await
    }

    async fn stop(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopRequest,
    ) -> Result<StopReply, Problem> {
        self.stop_one(caller, id, request).await
    }

    async fn inner(&self, caller: &Caller, id: SubagentId) -> Result<InnerList, Problem> {
        self.list_inner(caller, id).await
    }

    async fn stop_inner(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopInnerRequest,
    ) -> Result<StopInnerReply, Problem> {
        self.stop_one_inner(caller, id, request).await
    }

    async fn stop_all(&self, caller: &Caller, request: StopAllRequest) -> Result<StopAllReply, Problem> {
        self.stop_everything(caller, request).await
    }

    async fn gone(&self, caller: &Caller, id: SubagentId, wait: Duration) -> Result<bool, Problem> {
        self.wait_gone(caller, id, wait).await
    }

    async fn change_budget(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: BudgetRequest,
    ) -> Result<SubagentRecord, Problem> {
        self.set_budget(caller, id, request).await
    }

    async fn requests(&self, caller: &Caller, all: bool) -> Result<RequestList, Problem> {
        self.list_requests(caller, all)
    }

    async fn answer(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
        request: AnswerRequest,
    ) -> Result<OpenRequest, Problem> {
        self.give_answer(caller, id, number, request).await
    }

    async fn revoke(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
    ) -> Result<SubagentRecord, Problem> {
        self.take_grant_back(caller, id, number).await
    }

    async fn result(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem> {
        self.for_caller(caller, id, Access::See)?;
        self.read_result(id, run, offset, max)
    }

    async fn output(
        &self,
        caller: &Caller,
        id: SubagentId,
        from: u64,
        wait: Option<Duration>,
    ) -> Result<LogPage, Problem> {
        let state = self.for_caller(caller, id, Access::See)?;
        output::page(&self.inner, &state, from, wait).await
    }

    async fn types(
        &self,
        _: &Caller,
        cwd: Utf8PathBuf,
        path: Option<String>,
        name: Option<&str>,
    ) -> Result<TypeList, Problem> {
        self.list_types(cwd, path, name).await
    }

    async fn transcript(
        &self,
        caller: &Caller,
        id: SubagentId,
        after: Option<&str>,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<TranscriptPage, Problem> {
        self.read_transcript(caller, id, after, limit, wait).await
    }

    async fn inbox(
        &self,
        caller: &Caller,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<Vec<InboxItem>, Problem> {
        self.unread(&caller.requester, limit, wait).await
    }

    async fn inbox_of_all(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem> {
        Self::only_a_person(caller, "see what is for others")?;
        self.read_inbox(None, limit)
    }

    async fn claim(&self, caller: &Caller, request: ClaimRequest) -> Result<Vec<InboxItem>, Problem> {
        self.claim_results(caller, request).await
    }

    async fn give_back(&self, caller: &Caller, request: ReturnRequest) -> Result<(), Problem> {
        self.return_results(caller, request).await
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

    async fn events(
        &self,
        caller: &Caller,
        after: Cursor,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<EventPage, Problem> {
        self.read_events(caller, after, limit, wait).await
    }

    async fn activity(&self, caller: &Caller) -> Result<Vec<Activity>, Problem> {
        let mut may_see = self.judge(caller);
        let all = self.inner.activity.list();
        Ok(all.into_iter().filter(|activity| may_see(activity.id)).collect())
    }

    async fn gc(&self, caller: &Caller, request: GcRequest) -> Result<GcReply, Problem> {
        Self::only_a_person(caller, "release records")?;
        self.collect(request).await
    }

    async fn limits(&self) -> Result<Limits, Problem> {
        Ok(self.inner.gauges.limits.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn set_limits(&self, caller: &Caller, limits: Limits) -> Result<Limits, Problem> {
        Self::only_a_person(caller, "change limits")?;
        self.change_limits(limits.clone()).await?;
        Ok(limits)
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
            refused: self.inner.refusals.by_word(),
            damaged: u32::try_from(self.inner.store.damaged().map_err(problem)?.len()).unwrap_or(u32::MAX),
            degraded: read_only.or(degraded),
            draining: gauges.draining.load(Ordering::Relaxed),
        })
    }

    fn subagent_of_process(&self, pid: u32) -> Option<SubagentId> {
        self.inner.subagent_of_process(pid)
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

/// What a wait tells: the run that was waited for, though the next one may be open by now.
fn waited(state: &Subagent, run: RunNumber, ended: bool) -> WaitReply {
    WaitReply { record: record_of_run(state, run).unwrap_or_else(|| record(state)), ended, run }
}
