//! The engine's answers: checks of requests, reads, waits. Reads never pass the writer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use subagent_core::delivery::{owed, receipts};
use subagent_core::run::{Command, Ended, Phase, Subagent};
use subagent_core::snapshot::{record, record_of_run};
use subagent_model::request::{
    Health, InboxItem, ListFilter, LogPage, Page, SpawnRequest, StopReply, StopRequest, TextPart,
    WaitOptions, WaitReply,
};
use subagent_model::{Cursor, ErrorCode, Event, Problem, RunNumber, SpawnSpec, SubagentId, SubagentRecord};
use subagent_provider::bound;
use subagent_store::{Content, ContentKind, IdempotencyKey, OwedRun, Resolved, Store, StoreError, StoreMode};
use tokio::sync::oneshot;

use super::writer::{Act, ActError, Acted, Message, Spawn};
use super::{Engine, Inner, cwd, names, output};
use crate::runtime::{AckReply, AckTarget, Caller, Runtime, SpawnReply};

/// Longest wait that one call may ask for. Longer ones are asked again.
const LONGEST_WAIT: Duration = Duration::from_hours(24);
/// Wait of a call that names none.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// A control call answers within this, whatever the store does.
const CONTROL_BOUND: Duration = Duration::from_secs(10);
/// Most records of a page.
const LARGEST_PAGE: u32 = 1_000;
/// Longest label, description or idempotency key.
const LONGEST_WORD: usize = 512;
/// A larger prompt is digested on a thread of its own.
const LARGE_PROMPT: usize = 256 * 1024;
/// Most labels.
const MOST_LABELS: usize = 64;

fn problem(error: StoreError) -> Problem {
    ActError::Store(error).into()
}

fn not_found(what: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("there is no subagent {what}"))
}

fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, message)
}

impl Engine {
    /// Sends a command and waits for its commit, within the bound of control calls.
    async fn act(
        &self,
        id: SubagentId,
        command: Command,
        cascade: bool,
        lazy: bool,
    ) -> Result<Acted, Problem> {
        let (reply, answer) = oneshot::channel();
        let act = Act { id, command, content: None, cascade, lazy, reply: Some(reply) };
        self.inner.send(Message::Act(Box::new(act)));
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
        self.inner.send(Message::Act(Box::new(Act {
            id,
            command,
            content: None,
            cascade: false,
            lazy,
            reply,
        })));
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
        Err(_) => Err(Problem::new(ErrorCode::Timeout, "the store did not answer within 10 seconds")),
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
                self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
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
        let acted = self.act(id, command, request.cascade, false).await?;
        Ok(StopReply { record: record(&acted.state), accepted: acted.changed, cascaded: acted.cascaded })
    }

    async fn result(
        &self,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem> {
        let state = self.known(id)?;
        let run = run.unwrap_or(state.run.number);
        let Some(ended) = ended_run(&state, run) else {
            if run != state.run.number {
                return Err(not_found(format!("{id} with a run {run}")));
            }
            let message = format!("{} has no result yet: it is {}", state.handle, state.status());
            return Err(Problem::new(ErrorCode::StillRunning, message).with_ids(vec![id.to_string()]));
        };
        let Some(text) = &ended.result else {
            return Ok(TextPart { run, text: String::new(), offset: 0, total: 0, next: None });
        };
        let total = text.bytes;
        let bytes = if text.truncated {
            let store: &dyn Store = if state.spec.durable { &*self.inner.store } else { &*self.inner.memory };
            let part = store.content(id, run, ContentKind::Result, offset, max).map_err(problem)?;
            part.map(|part| part.bytes).ok_or_else(|| {
                Problem::new(
                    ErrorCode::NotFound,
                    "the whole result was released; the preview in the record remains",
                )
            })?
        } else {
            let whole = text.preview.as_bytes();
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
            let to = from.saturating_add(max as usize).min(whole.len());
            whole[from..to].to_vec()
        };
        let (text, taken) = whole_characters(bytes, offset, total);
        let end = offset + taken;
        Ok(TextPart { run, text, offset, total, next: Some(end).filter(|end| *end < total && taken > 0) })
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

/// The text of a part, whole characters only, and how many bytes of it are used up. A character that the end of the part
/// splits is left for the next part.
fn whole_characters(bytes: Vec<u8>, offset: u64, total: u64) -> (String, u64) {
    let length = bytes.len() as u64;
    match String::from_utf8(bytes) {
        Ok(text) => (text, length),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let split = error.utf8_error().error_len().is_none() && offset + length < total && good > 0;
            let mut bytes = error.into_bytes();
            if split {
                bytes.truncate(good);
            }
            (String::from_utf8_lossy(&bytes).into_owned(), bytes.len() as u64)
        }
    }
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

/// How a run ended, the current or an earlier one; `None` while it is live.
fn ended_run(state: &Subagent, run: RunNumber) -> Option<&Ended> {
    if run == state.run.number {
        return state.ended();
    }
    state.earlier.iter().find(|earlier| earlier.number == run).map(|earlier| &*earlier.ended)
}

type Prepared = (Spawn, std::collections::BTreeMap<String, String>);

impl Engine {
    /// Checks a request as far as it can be checked without the writer.
    async fn prepare(&self, caller: &Caller, request: SpawnRequest) -> Result<Prepared, Problem> {
        let parent = match &request.parent {
            Some(name) => Some(self.resolve(name).await?),
            None => None,
        };
        let words = [&request.description, &request.idempotency_key, &request.agent_type, &request.model];
        if let Some(word) = words.into_iter().flatten().find(|word| word.len() > LONGEST_WORD) {
            return Err(invalid(format!("a field is longer than {LONGEST_WORD} bytes: {word:.40}...")));
        }
        let labels = &request.labels;
        if labels.len() > MOST_LABELS
            || labels.iter().any(|(k, v)| k.is_empty() || k.len() + v.len() > LONGEST_WORD)
        {
            return Err(invalid(format!("at most {MOST_LABELS} labels of {LONGEST_WORD} bytes, with names")));
        }
        let bad_name = |name: &String| name.is_empty() || name.contains(['=', '\0']);
        let mut environment = request.env.iter().chain(&request.secret_env);
        if let Some((name, _)) = environment.find(|(name, value)| bad_name(name) || value.contains('\0')) {
            return Err(invalid(format!(
                "the environment variable {name:?} has a name or value that none can have"
            )));
        }
        if request.deadline_ms == Some(0) {
            return Err(invalid("a deadline must be longer than nothing"));
        }
        let cwd = request.cwd.ok_or_else(cwd::missing)?;
        self.inner.cwds.check(&cwd).await?;
        let (prompt, whole) = if request.prompt.len() > LARGE_PROMPT {
            let digest = tokio::task::spawn_blocking(move || bound(request.prompt)).await;
            digest.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
        } else {
            bound(request.prompt)
        };
        let spec = SpawnSpec {
            prompt,
            description: request.description,
            agent_type: request.agent_type.unwrap_or_else(|| request.provider.clone()),
            provider: request.provider,
            model: request.model,
            exec: request.exec,
            mode: request.mode,
            cwd,
            env: request.env,
            secret_env: request.secret_env.keys().cloned().collect(),
            deadline_ms: request.deadline_ms,
            labels: request.labels,
            durable: request.durable,
        };
        self.inner.registry.get(&spec.provider)?.check(&spec)?;
        let content = whole
            .map(|text| Content { run: RunNumber(1), kind: ContentKind::Prompt, text })
            .into_iter()
            .collect();
        let idempotency =
            request.idempotency_key.map(|key| IdempotencyKey { requester: caller.requester.clone(), key });
        let spawn = Spawn {
            id: names::new_id(),
            spec,
            parent,
            requester: caller.requester.clone(),
            content,
            idempotency,
        };
        Ok((spawn, request.secret_env))
    }
}
