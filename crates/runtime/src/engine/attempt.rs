//! One attempt from the taken slot to the committed end: the hands of the run machine.
//!
//! A task may be gone at any point without harm: what it did is visible from outside (directory, shim, exit record), and
//! the next task for the same attempt finds it there. A panic here ends this run and no other.

mod doubt;
mod launch;

pub(crate) use self::doubt::nudge;

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use subagent_core::run::{Command, Refusal, Subagent};
use subagent_model::process::{StartFailure, StartStage};
use subagent_model::{
    Attachment, AttemptKey, ErrorCode, ErrorInfo, ExitFacts, Mark, Outcome, Problem, RunNumber, Timestamp,
};
use subagent_process::{ExitRecord, ExitWait, Shim, Started};
use subagent_provider::{Attached, Job, Provider, Verdict};
use subagent_store::{Content, ContentKind, Store};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::attachments;
use super::output::{self, End};
use super::tasks::Follow;
use super::writer::{Act, ActError, Message};

/// Pause before an attempt that never began is tried again; it doubles with each.
const RETRY: Duration = Duration::from_millis(500);
/// First and longest pause before a commit that failed is tried again.
const COMMIT_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long the leftovers of a lost shim may take to go.
const LEFTOVERS: Duration = Duration::from_secs(5);
/// Lease of a run that is not durable: its children do not outlive the daemon for long.
const VOLATILE_LEASE: Duration = Duration::from_mins(1);
/// How long the news of a start waits for the end of the run.
const COMPANY: Duration = Duration::from_millis(3);

/// How much longer than its graces a shim may take before it is ended from outside.
pub(crate) const SLACK: Duration = Duration::from_secs(2);
/// How often a commit of an end with a large text may fail before the text is given up.
const TEXT_TRIES: u32 = 5;

/// How a task begins.
pub(crate) enum Begin {
    /// With a new process.
    Launch,
    /// With a shim that was found and holds the attempt.
    Adopt(Shim),
    /// With a look at what is there: a process must exist or have existed.
    Find,
}

/// Starts the task of an attempt, which was entered into the tasks before.
pub(crate) fn spawn(inner: Arc<Inner>, state: Arc<Subagent>, key: AttemptKey, how: Begin, follow: Follow) {
    let tasks = Arc::clone(&inner);
    let work = async move {
        let Follow { stop, states } = follow;
        let attempt = Attempt { inner: Arc::clone(&inner), state, key, stop, states };
        let work = std::panic::AssertUnwindSafe(attempt.run(how));
        if let Err(panic) = work.catch_unwind().await {
            let what = panic_text(&*panic);
            tracing::error!(%key, what, "the driver of an attempt panicked");
            attempt.settle_after_panic(what).await;
        }
        inner.tasks.leave(key);
        inner.callers.leave(&key.to_string());
        // Whatever is still needed for it begins anew.
        if inner.live(key.subagent).is_some_and(|state| state.attempt_key() == Some(key)) {
            inner.send(Message::Look(key.subagent));
        }
    };
    let task = tasks.executor.spawn(work);
    tasks.tasks.set_abort(key, task.abort_handle());
}

/// The text of a panic, whatever was thrown.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| String::from("a panic without text"))
}

/// The attempt that a task works on.
pub(crate) struct Attempt {
    pub(crate) inner: Arc<Inner>,
    pub(crate) state: Arc<Subagent>,
    pub(crate) key: AttemptKey,
    pub(crate) stop: CancellationToken,
    /// The states of the subagent, as they are committed.
    pub(crate) states: watch::Receiver<Arc<Subagent>>,
}

impl Attempt {
    async fn run(&self, how: Begin) {
        match how {
            Begin::Launch => self.launch().await,
            Begin::Adopt(shim) => {
                let fact = self.started(shim.started());
                self.attend(shim, Some(fact)).await;
            }
            Begin::Find => self.find().await,
        }
    }

    pub(crate) fn dir(&self) -> std::path::PathBuf {
        self.inner.paths.attempt_of(&self.state, self.key)
    }

    pub(super) fn provider(&self) -> Result<&Arc<dyn Provider>, Problem> {
        self.inner.registry.get(&self.state.spec.provider)
    }

    pub(crate) fn job(&self) -> Job {
        Job {
            key: self.key,
            spec: Arc::clone(&self.state.spec),
            prompt: self.state.run.prompt.clone(),
            prompt_text: None,
            dir: self.dir(),
            session: self.state.session.clone(),
        }
    }

    /// The whole prompt of the run in which this attempt began.
    pub(crate) async fn prompt_text(&self) -> Result<Arc<str>, Problem> {
        self.prompt_text_of(&self.state).await
    }

    /// The whole prompt of the current run of `state`. One that is not in the record is read on a thread of its own.
    pub(crate) async fn prompt_text_of(&self, state: &Subagent) -> Result<Arc<str>, Problem> {
        let prompt = &state.run.prompt;
        if !prompt.truncated {
            return Ok(Arc::from(prompt.preview.as_str()));
        }
        let (inner, durable) = (Arc::clone(&self.inner), state.spec.durable);
        let (id, run) = (state.id, state.run.number);
        let size = u32::try_from(prompt.bytes).unwrap_or(u32::MAX);
        let read = tokio::task::spawn_blocking(move || {
            let store: &dyn Store = if durable { &*inner.store } else { &*inner.memory };
            store.content(id, run, ContentKind::Prompt, 0, size)
        });
        let part = read
            .await
            .map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
            .map_err(|error| Problem::new(error.code(), error.to_string()))?
            .ok_or_else(|| Problem::new(ErrorCode::DamagedRecord, "the whole prompt is not in the store"))?;
        Ok(Arc::from(String::from_utf8_lossy(&part.bytes)))
    }

    /// Files that go with a prompt or message, with their content: read on a thread of its own.
    pub(crate) async fn attached(&self, files: &[Attachment]) -> Result<Vec<Attached>, Problem> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let dir = self.inner.paths.attachments_of(self.state.id, self.state.spec.durable);
        let files = files.to_vec();
        let read = tokio::task::spawn_blocking(move || attachments::load(&dir, &files));
        read.await.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
    }

    pub(crate) fn lease(&self) -> Duration {
        if self.state.spec.durable { self.inner.config.lease } else { VOLATILE_LEASE }
    }

    /// Looks for what is there of an attempt that must have a process or have had one.
    async fn find(&self) {
        if let Some(shim) = self.own_shim().await {
            return self.attend(shim, None).await;
        }
        self.settle_without_shim(None, None, false).await;
    }

    /// Follows a child that runs already: speaks on with it, or waits for its end.
    async fn attend(&self, shim: Shim, told: Option<Act>) {
        self.know(&shim);
        let codec = self.provider().ok().and_then(|provider| provider.codec(&self.job()));
        match codec {
            Some(codec) => self.converse_on(shim, codec).await,
            None => self.watch(shim, told).await,
        }
    }

    /// From now on a process of this child is known for what it is.
    pub(crate) fn know(&self, shim: &Shim) {
        let child = shim.started().map(|started| started.process);
        self.inner.callers.enter(shim.cgroup(), shim.identity().clone(), child, self.key.to_string());
        self.inner.tasks.set_cgroup(self.key, shim.cgroup().map(Path::to_owned));
    }

    /// The live shim that holds this attempt.
    async fn own_shim(&self) -> Option<Shim> {
        let pool = self.inner.pool.as_ref()?;
        let shims = match subagent_process::survey(pool.launcher().sockets()).await {
            Ok(shims) => shims,
            Err(error) => {
                tracing::warn!(%error, "cannot look for shims");
                return None;
            }
        };
        let name = self.key.to_string();
        shims.into_iter().find(|found| found.status.attempt.as_deref() == Some(&name)).map(|found| found.shim)
    }

    /// Follows the child to its end. The only place where a process of ours is waited for.
    ///
    /// What is still to be `told` waits a moment for the end, so that a short run costs one commit and not two.
    async fn watch(&self, shim: Shim, mut told: Option<Act>) {
        self.know(&shim);
        self.inner.tasks.set_log_end(self.key, shim.log_end());
        let lease = self.lease();
        let mut renewal = tokio::time::interval_at(Instant::now() + lease / 3, lease / 3);
        let graces = self.inner.config.graces;
        let ladder = graces.term + graces.kill + SLACK;
        let mut stopping = false;
        // The shim has the stop and the deadline itself. One that does not carry them out is let go on, then ended.
        let mut nudged = false;
        let mut overdue = self.time_left().map(|left| Instant::now() + left + SLACK);
        let company = tokio::time::sleep(COMPANY);
        tokio::pin!(company);
        let end = loop {
            tokio::select! {
                biased;
                end = shim.exit() => break end,
                () = &mut company, if told.is_some() => {
                    if let Some(fact) = told.take() {
                        self.tell(fact);
                    }
                }
                () = self.stop.cancelled(), if !stopping => {
                    (stopping, nudged) = (true, true);
                    nudge(&shim);
                    // A lost shim shows as the end.
                    let _ = shim.stop(graces);
                    overdue = Some(Instant::now() + ladder);
                }
                () = until(overdue), if overdue.is_some() => {
                    if nudged {
                        self.put_down(&shim).await;
                        break ExitWait::ShimLost;
                    }
                    nudged = true;
                    nudge(&shim);
                    overdue = Some(Instant::now() + ladder);
                }
                _ = renewal.tick() => {
                    let _ = shim.renew(lease);
                }
            }
        };
        match end {
            ExitWait::Exited(record) => {
                if self.settle(&record, told).await
                    && let Some(pool) = &self.inner.pool
                {
                    pool.release(shim);
                }
            }
            ExitWait::ShimLost if self.is_gone(&shim).await => {
                self.settle_without_shim(shim.cgroup().map(Path::to_owned), told, true).await;
            }
            // Only taken over: by a task of ours that looks for it, or by the next daemon.
            ExitWait::ShimLost => {
                if let Some(fact) = told {
                    self.tell(fact);
                }
            }
        }
    }

    /// Ends the run with what the exit record and the log say. True once that is committed.
    async fn settle(&self, record: &ExitRecord, told: Option<Act>) -> bool {
        let verdict = self.verdict_of(record).await;
        // In one go: the writer takes them as one batch.
        if let Some(fact) = told {
            self.tell(fact);
        }
        self.conclude(verdict).await
    }

    /// What an exit record comes to.
    pub(crate) async fn verdict_of(&self, record: &ExitRecord) -> Verdict {
        if !record.tree_gone {
            tracing::error!(key = %self.key, "a process of the tree did not go within the grace after SIGKILL");
        }
        match &record.start_failure {
            Some(failure) => failed(self.start_problem(failure)),
            None => self.judge(End::Recorded(record)).await,
        }
    }

    /// What the provider says of the end.
    async fn judge(&self, end: End<'_>) -> Verdict {
        let provider = match self.provider() {
            Ok(provider) => Arc::clone(provider),
            Err(problem) => return failed(problem),
        };
        let stopped = self.stop.is_cancelled();
        let end = output::read_end(&self.dir(), end, stopped).await;
        provider.conclude(&self.job(), &end)
    }

    /// Ends the run without a process having been there to end.
    async fn fail(&self, problem: Problem) {
        self.conclude(failed(problem)).await;
    }

    pub(crate) async fn conclude(&self, verdict: Verdict) -> bool {
        let run = self.states.borrow().run.number;
        self.conclude_run(run, verdict).await
    }

    /// Ends the current run with the end of its process. What only the writer knows is filled in there.
    pub(crate) async fn conclude_run(&self, run: RunNumber, mut verdict: Verdict) -> bool {
        if let Some(schema) = &self.state.spec.output_schema
            && !self.state.spec.can.converses()
        {
            super::schema::demand(schema, &mut verdict);
        }
        let content = verdict.whole.map(|text| Content { run, kind: ContentKind::Result, text });
        let command = Command::Conclude {
            attempt: self.key.attempt,
            conclusion: Box::new(verdict.conclusion),
            children_live: false,
            max_attempts: 0,
        };
        self.commit(command, content).await
    }

    /// Gives the run back to the queue: nothing of it was begun. A run that is being stopped ends with that.
    async fn requeue(&self, reason: &str) {
        let tried = u32::try_from(self.state.run.attempts.len()).unwrap_or(u32::MAX);
        let limits = self.inner.gauges.limits.read().unwrap_or_else(PoisonError::into_inner).clone();
        let pause = RETRY.saturating_mul(1 << tried.saturating_sub(1).min(6));
        let command = Command::Requeue {
            attempt: self.key.attempt,
            reason: reason.to_owned(),
            exit: None,
            not_before: Some(super::clock::now().after(pause)),
            max_attempts: limits.max_attempts,
        };
        self.commit(command, None).await;
    }

    async fn settle_after_panic(&self, what: String) {
        if let (Some(pool), Some(shim)) = (&self.inner.pool, self.own_shim().await) {
            let graces = self.inner.config.graces;
            nudge(&shim);
            let _ = shim.stop(graces);
            let end = tokio::time::timeout(graces.term + graces.kill + SLACK, shim.exit()).await;
            match end {
                Ok(ExitWait::Exited(_)) => pool.release(shim),
                // Gone, or deaf: nothing of the tree may be left when the run ends.
                Ok(ExitWait::ShimLost) | Err(_) => {
                    self.put_down(&shim).await;
                    self.end_leftovers(shim.cgroup().map(Path::to_owned)).await;
                }
            }
        }
        self.fail(Problem::new(ErrorCode::Panicked, what)).await;
    }

    /// The fact that the process runs, at its own time: it may be told together with its end.
    pub(crate) fn started(&self, started: Option<Started>) -> Act {
        let micros = started.as_ref().map(|started| started.started_at_micros);
        let process = started.map(|started| started.process);
        let command = Command::Started { attempt: self.key.attempt, process };
        let at = micros.and_then(|micros| i64::try_from(micros).ok()).map(Timestamp::from_micros);
        Act { at, ..Act::lazy(self.key.subagent, command) }
    }

    /// Tells a fact that nobody waits for. Should it be lost, the end tells more.
    pub(crate) fn tell(&self, fact: Act) {
        self.inner.send(fact.into());
    }

    /// Commits a command, again and again while the store cannot take it: what it says is true, and is kept by the shim
    /// until then. False when the run machine has no use for it or the engine halts.
    async fn commit(&self, mut command: Command, mut content: Option<Content>) -> bool {
        let (mut pause, longest) = COMMIT_PAUSE;
        let mut tries = 0;
        loop {
            let (reply, answer) = oneshot::channel();
            let act_content = content.clone();
            let act = Act {
                content: act_content,
                reply: Some(reply),
                ..Act::new(self.key.subagent, command.clone())
            };
            self.inner.send(act.into());
            match answer.await {
                Ok(Ok(_) | Err(ActError::Refused(Refusal::Stale { .. }) | ActError::NotFound(_))) => {
                    return true;
                }
                Ok(Err(ActError::Store(error))) => {
                    tracing::warn!(key = %self.key, %error, "an end could not be stored yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(longest);
                    tries += 1;
                    // The run must not stay live for a text that finds no room: its preview is in the record, the rest
                    // in the log.
                    if tries >= TEXT_TRIES
                        && content.take().is_some()
                        && let Command::Conclude { conclusion, .. } = &mut command
                    {
                        conclusion.marks.push(Mark::OutputIncomplete);
                    }
                }
                Ok(Err(error)) => {
                    tracing::error!(key = %self.key, %error, "the run machine refused an end");
                    return false;
                }
                Err(_) => return false,
            }
        }
    }
}

impl Attempt {
    /// Why its child could not be started, and what to do about it.
    fn start_problem(&self, failure: &StartFailure) -> Problem {
        let code = match failure.stage {
            StartStage::Program => ErrorCode::ProgramNotFound,
            StartStage::Cwd => ErrorCode::InvalidCwd,
            _ if failure.errno == rustix::io::Errno::NOSPC.raw_os_error() => ErrorCode::StoreFull,
            _ => ErrorCode::StartFailed,
        };
        let message = format!("cannot start ({}): {}", failure.stage.as_str(), failure.message);
        let mut problem = Problem::new(code, message);
        if code == ErrorCode::ProgramNotFound
            && let Ok(provider) = self.provider()
            && let Some(hint) = provider.install_hint()
        {
            problem.hint = Some(hint.to_owned());
        }
        problem
    }
}

/// A run that could not be started.
fn failed(problem: Problem) -> Verdict {
    Verdict::without_text(Outcome::Error {
        error: ErrorInfo {
            retryable: matches!(problem.code, ErrorCode::StoreFull | ErrorCode::EnvironmentLost),
            // What to do is known by the code, unless there is more to say.
            detail: problem.hint.filter(|hint| hint != problem.code.remedy()),
            code: problem.code,
            message: problem.message,
            reset_at: None,
            exit: None,
        },
    })
}

/// An error with its causes, outer to inner.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The end of a process as an exit record tells it.
pub(crate) fn exit_facts(record: &ExitRecord) -> ExitFacts {
    let at = i64::try_from(record.ended_at_micros).unwrap_or(0);
    ExitFacts { code: record.exit_code, signal: record.signal, at: Some(Timestamp::from_micros(at)) }
}

/// Waits until then; for ever without a time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
