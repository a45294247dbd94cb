//! The driver of a child that is spoken with. It carries out what the state owes the child (prompts, messages, answers,
//! interrupts, the end) and tells the run machine what the child says. It remembers only what it did by itself; all else
//! is in the state and in the log, so the next daemon goes on in the middle.

mod channel;
mod closing;
mod ear;
mod orders;
mod recall;
mod scribe;
mod turn;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;

use subagent_core::run::{Command, Phase, Subagent};
use subagent_model::{
    Conclusion, ErrorCode, ErrorInfo, MessageNumber, Outcome, Quality, RequestNumber, RunNumber, Timestamp,
    Written,
};
use subagent_process::{ExitWait, Shim};
use subagent_provider::{Codec, Dialogue, Job, Link, Said, TaskContext, TurnEnd, Verdict, bound};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::channel::{Channel, Event};
use self::closing::Closing;
use self::ear::Ear;
use self::scribe::Scribe;
use self::turn::Ruling;
use super::attempt::Attempt;
use super::tasks::StopInner;
use super::writer::{Act, ActError, Acted};

/// Most requests of one run: a child that asks for more has lost its way.
const MOST_ASKS: u32 = 1_000;
/// How much is told to the writer before it is waited for.
const AT_ONCE: u32 = 64;
/// Most stops of inner subagents that wait to be told.
const MOST_INNER_STOPS: usize = 64;

/// What a conversation came to.
pub(super) enum Over {
    /// Its process ended, or its task.
    Ended(Option<ExitWait>),
    /// The engine lets go of it: the child runs on.
    LetGo,
}

/// One conversation.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the child, and none excludes another"
)]
pub(super) struct Talk<'a> {
    attempt: &'a Attempt,
    channel: Channel,
    state: Arc<Subagent>,
    /// The run that the ear listens to.
    run: RunNumber,
    ear: Ear,
    /// It takes prompts.
    opened: bool,
    /// It works on a prompt.
    turn_open: bool,
    /// This process was given the prompt of the run, or told to go on with it.
    prompted: bool,
    /// The message whose handing over was done, and whose receipt is awaited.
    handed: Option<MessageNumber>,
    /// Requests whose answer was given.
    told: BTreeSet<RequestNumber>,
    /// The interrupt that the state asks for was given.
    interrupt: Option<Instant>,
    /// Results of children that it was asked to read.
    result_nudges: u32,
    closing: Option<Closing>,
    /// The failure of its last turn: how the run ends once its process is gone.
    failure: Option<Conclusion>,
    /// What the gates say about the end of the turn.
    ruling: Option<Ruling>,
    /// It was heard or told something since it was last shown.
    news: bool,
    /// What it asked for in this run.
    asks: u32,
    /// What was told to the writer since it was waited for.
    unheard: u32,
    /// When it is asked to wrap up for its deadline.
    warning: Option<Instant>,
    /// Its deadline, where the shim does not hold it.
    deadline: Option<Instant>,
    /// A message that was found in the log behind the end of a turn, and that end: it may have opened the next turn, or crossed
    /// the end.
    crossed: Option<(MessageNumber, Option<TurnEnd>)>,
    /// Inner subagents that somebody wants to be stopped.
    inner_stops: mpsc::Receiver<StopInner>,
    /// An agent that has not opened its session by then never will.
    opening: Option<Instant>,
}

impl Attempt {
    /// Speaks with the child in a shim from its start on.
    pub(super) async fn converse(&self, shim: Shim, codec: Box<dyn Codec>, job: &Job) {
        self.tell(self.started(shim.started()));
        let mut talk = Talk::new(self, Channel::shim(shim, codec, self.dir(), self.scribe()));
        let opening = talk.channel.open(job);
        talk.channel.write(&opening).await;
        talk.drive().await;
    }

    /// Takes over the conversation with a child in a shim.
    pub(super) async fn converse_on(&self, shim: Shim, codec: Box<dyn Codec>) {
        self.tell(self.started(shim.started()));
        let mut talk = Talk::new(self, Channel::shim(shim, codec, self.dir(), self.scribe()));
        if let Err(error) = talk.take_over(&self.job()).await {
            talk.hear(vec![Said::Broken(format!("its log cannot be read: {error}"))]).await;
        }
        talk.drive().await;
    }

    /// Ends the run of a child whose shim is gone, with what it had said until then. True once that is committed.
    pub(super) async fn converse_past(&self, codec: Box<dyn Codec>, mut verdict: Verdict) -> bool {
        let mut talk = Talk::new(self, Channel::past(codec, self.dir(), self.scribe()));
        if let Err(error) = talk.take_over(&self.job()).await {
            tracing::warn!(key = %self.key, %error, "the log of a conversation cannot be read");
            talk.ear.missed = true;
        }
        talk.ear.missed |= talk.channel.take_missed();
        if let (Some(failure), Some(exit)) = (talk.failure.take(), verdict.conclusion.exit) {
            verdict.conclusion = Conclusion { exit: Some(exit), ..failure };
        }
        talk.conclude(verdict).await
    }

    /// Speaks with a child inside the daemon.
    pub(super) async fn converse_with_task(&self, job: &Job, body: Dialogue) {
        let command = Command::Started { attempt: self.key.attempt, process: None };
        self.tell(Act::lazy(self.key.subagent, command));
        let cancelled = CancellationToken::new();
        let context = TaskContext {
            key: self.key,
            prompt: job.prompt_text.clone().unwrap_or_default(),
            spec: Arc::clone(&self.state.spec),
            cancelled: cancelled.clone(),
            session: job.session.clone(),
        };
        let (orders, told) = mpsc::unbounded_channel();
        let (say, said) = mpsc::unbounded_channel();
        let work = tokio::spawn(async move { body(context, Link { orders: told, say }).await });
        // A task that is let go hears of it.
        let _cancel = cancelled.drop_guard();
        let mut talk = Talk::new(self, Channel::task(orders, said, work, self.scribe()));
        talk.drive().await;
    }
}

impl Attempt {
    /// How long an agent may take until it accepts prompts. A program of somebody's own takes what it takes.
    fn opens_within(&self) -> Option<std::time::Duration> {
        self.provider().is_ok_and(|provider| provider.is_agent()).then_some(self.inner.config.open_within)
    }

    fn scribe(&self) -> Scribe {
        let state = self.states.borrow();
        let path = self.dir().join(super::transcripts::FILE);
        let (key, sink) = (self.key, (self.inner.transcripts.clone(), self.inner.inners.clone()));
        Scribe::new(sink, path, key.subagent, &state.spec.provider, key.attempt, state.run.number)
    }
}

impl<'a> Talk<'a> {
    fn new(attempt: &'a Attempt, channel: Channel) -> Self {
        let state = attempt.states.borrow().clone();
        if let Some(shim) = channel.as_shim() {
            attempt.inner.tasks.set_log_end(attempt.key, shim.log_end());
        }
        let (inner_stops, asked) = mpsc::channel(MOST_INNER_STOPS);
        attempt.inner.tasks.set_inner_stops(attempt.key, inner_stops);
        Self {
            attempt,
            channel,
            run: state.run.number,
            result_nudges: state.run.nudges.results,
            state,
            ear: Ear::default(),
            opened: false,
            turn_open: false,
            prompted: false,
            handed: None,
            told: BTreeSet::new(),
            interrupt: None,
            closing: None,
            failure: None,
            ruling: None,
            asks: 0,
            unheard: 0,
            warning: None,
            deadline: None,
            opening: attempt.opens_within().map(|within| Instant::now() + within),
            crossed: None,
            inner_stops: asked,
            news: true,
        }
    }

    /// Follows the child to its end and settles what is left.
    async fn drive(&mut self) {
        match self.follow().await {
            Over::LetGo => {}
            Over::Ended(end) => self.settle(end).await,
        }
    }

    async fn follow(&mut self) -> Over {
        let mut states = self.attempt.states.clone();
        let lease = self.attempt.lease();
        let mut renewal = tokio::time::interval_at(Instant::now() + lease / 3, lease / 3);
        self.set_deadline();
        loop {
            self.carry_out().await;
            self.channel.flush().await;
            self.show_activity();
            let due = self.next_step();
            tokio::select! {
                biased;
                changed = states.changed() => {
                    if changed.is_err() {
                        return Over::LetGo;
                    }
                    let state = states.borrow_and_update().clone();
                    self.see(state);
                }
                () = self.attempt.stop.cancelled(), if !self.is_stopping() => self.begin_closing(Closing::stop()),
                ruling = Ruling::ready(&mut self.ruling) => self.ruled(ruling).await,
                () = until(due) => {
                    if let Some(over) = self.step_on().await {
                        return over;
                    }
                }
                () = until(self.warning) => {
                    self.warning = None;
                    self.act_soon(Command::WrapUp { limit: subagent_model::Limit::Deadline });
                }
                () = until(self.deadline) => {
                    self.deadline = None;
                    self.act_soon(Command::Cut { limit: subagent_model::Limit::Deadline });
                }
                () = until(self.opening), if !self.opened => {
                    self.opening = None;
                    let why = String::from("it did not open its session in time");
                    let failure = self.failed(ErrorCode::Timeout, why, true);
                    self.fail(failure);
                }
                Some(stop) = self.inner_stops.recv() => self.stop_inner(stop).await,
                _ = renewal.tick() => {
                    if let Some(shim) = self.channel.as_shim() {
                        let _ = shim.renew(lease);
                    }
                }
                // Last, so that a child that never stops speaking keeps nothing else from its turn.
                event = self.channel.next() => match event {
                    Event::Said(said) => self.hear(said).await,
                    // Whoever is being ended may take its time.
                    Event::Mute if self.is_closing() => {}
                    Event::Mute => self.hear(vec![Said::Broken(String::from("it closed its output and lives on"))]).await,
                    Event::Exited(end) => return Over::Ended(Some(end)),
                    Event::TaskOver(panic) => {
                        if let Some(what) = panic {
                            self.failure = Some(self.failed(ErrorCode::Panicked, what, false));
                        }
                        return Over::Ended(None);
                    }
                },
            }
        }
    }

    /// A new state: it may be the next run on the same process.
    fn see(&mut self, state: Arc<Subagent>) {
        if state.run.number != self.run {
            self.run = state.run.number;
            self.channel.scribe().run = self.run;
            self.ear = Ear::after(&self.ear);
            self.prompted = false;
            self.turn_open = false;
            self.interrupt = None;
            self.failure = None;
            self.ruling = None;
            self.told.clear();
            self.asks = 0;
            self.result_nudges = state.run.nudges.results;
            self.state = Arc::clone(&state);
            self.set_deadline();
        }
        if state.run.interrupting.is_none() {
            self.interrupt = None;
        }
        if self.handed.is_some_and(|handed| state.mail.handing().is_none_or(|m| m.number != handed)) {
            self.handed = None;
        }
        self.state = state;
    }

    /// Tells the run machine what the child says.
    async fn hear(&mut self, said: Vec<Said>) {
        self.ear.missed |= self.channel.take_missed();
        self.news = true;
        for said in said {
            self.ear.hear(&said, false);
            self.keep_pace().await;
            let attempt = self.attempt.key.attempt;
            let ends = self.is_stopping() || self.state.run.cut.is_some();
            match said {
                // A run that is being ended hears its last words, and no new business.
                Said::Asked(_) | Said::TookBack { .. } | Said::Turn { .. } | Said::HeldUp { .. } if ends => {}
                Said::Asked(_) if self.asks >= MOST_ASKS => {
                    let why = format!("it asked for more than {MOST_ASKS} things in one run");
                    let failure = self.failed(ErrorCode::Protocol, why, false);
                    self.fail(failure);
                }
                Said::Opened { session } => {
                    self.opened = true;
                    self.act_soon(Command::Opened { attempt, session });
                }
                Said::Took(number) => {
                    self.crossed = None;
                    self.settle_message(number, Written::Yes);
                }
                Said::Declined(number) => {
                    self.settle_message(number, Written::Refused);
                    if let Some(recall::EndBefore(Some(end))) = self.declined(number) {
                        self.turn_ended(end).await;
                    }
                }
                Said::Asked(ask) => {
                    self.asks += 1;
                    // Policy and time limit are the writer's.
                    let command = Command::Ask {
                        attempt,
                        ask,
                        policy: subagent_model::PolicyWord::Ask,
                        reason: None,
                        expires_at: Timestamp::default(),
                    };
                    self.act_soon(command);
                }
                Said::TookBack { key } => self.act_soon(Command::TakeBack { attempt, key }),
                Said::Background { live: 0 } => self.act_soon(Command::BackgroundEnded { attempt }),
                Said::HeldUp { until } => self.held_up(until),
                Said::Closed => self.farewell(),
                Said::Done(end) => {
                    self.crossed = None;
                    self.count();
                    // Before it takes prompts, the end is that of its opening. Background work may begin a turn of its own,
                    // and what that ends with counts as well. Any other end without a turn is of nobody's.
                    if self.turn_open || !self.opened || self.ear.background > 0 {
                        self.turn_ended(end).await;
                    }
                }
                Said::Broken(why) => {
                    self.count();
                    let failure = self.failed(ErrorCode::Protocol, why, true);
                    self.fail(failure);
                }
                // Each turn is judged by itself: turns that are told of together are asked to wrap up before they are cut.
                Said::Turn { .. } if self.state.run.budget.max_turns.is_some() => self.count(),
                Said::Models(offers) => {
                    let spec = &self.state.spec;
                    self.attempt.inner.models.heard(&spec.provider, &spec.cwd, offers);
                }
                Said::Delta(_)
                | Said::Message(_)
                | Said::Turn { .. }
                | Said::ToolStarted { .. }
                | Said::ToolEnded { .. }
                | Said::Used(_)
                | Said::Compacted
                | Said::Thought(_)
                | Said::Plan(_)
                | Said::Notice(_)
                | Said::Denied(_)
                | Said::Model(_)
                | Said::Inner(_)
                | Said::Background { .. } => {}
            }
        }
        self.count();
    }

    /// Tells what was used since the last time.
    fn count(&mut self) {
        if let Some(progress) = self.ear.progress(self.attempt.key.attempt, self.channel.position()) {
            self.unheard += 1;
            self.attempt.tell(Act::lazy(self.attempt.key.subagent, progress));
        }
    }

    /// Waits for the writer once so much was told that nobody else would get a word in.
    async fn keep_pace(&mut self) {
        if self.unheard < AT_ONCE {
            return;
        }
        self.unheard = 0;
        let (reply, heard) = oneshot::channel();
        self.attempt.inner.send(super::writer::Message::Pace(reply));
        // An engine that halts answers nobody.
        let _ = heard.await;
        let newest = self.attempt.states.borrow().clone();
        if newest.revision > self.state.revision {
            self.see(newest);
        }
    }

    /// The provider holds it up: others on the same account stand back as well.
    fn held_up(&self, until: Option<Timestamp>) {
        let now = super::clock::now();
        let until = until.unwrap_or_else(|| now.after(subagent_core::retry::FIRST_PAUSE));
        self.attempt.inner.send(super::writer::Message::CoolDown(self.attempt.key.subagent, until));
    }

    /// A command that is committed at once and that nobody waits for.
    fn act_soon(&mut self, command: Command) {
        self.unheard += 1;
        self.attempt.inner.send(Act::new(self.attempt.key.subagent, command).into());
    }

    /// A command whose commit is waited for.
    async fn act(&mut self, act: Act) -> Result<Acted, ActError> {
        let (reply, answer) = oneshot::channel();
        self.attempt.inner.send(Act { reply: Some(reply), ..act }.into());
        let acted = answer.await.unwrap_or(Err(ActError::Halted))?;
        if acted.state.revision > self.state.revision {
            let state = Arc::clone(&acted.state);
            self.see(state);
        }
        Ok(acted)
    }

    fn failed(&self, code: ErrorCode, message: String, retryable: bool) -> Conclusion {
        let error = ErrorInfo { code, message, detail: None, retryable, reset_at: None, exit: None };
        self.with_text(Outcome::Error { error })
    }

    /// A conclusion with what there is of the answer.
    fn with_text(&self, outcome: Outcome) -> Conclusion {
        let text = self.ear.text().map(|text| bound(text.to_owned()).0);
        let (mut marks, quality) = match &text {
            Some(_) => (vec![subagent_model::Mark::Partial], Quality::Partial),
            None => (vec![], Quality::Unverified),
        };
        if self.ear.missed {
            marks.push(subagent_model::Mark::OutputIncomplete);
        }
        if self.ear.denied {
            marks.push(subagent_model::Mark::PermissionDenied);
        }
        Conclusion { outcome, result: text, marks, quality, exit: None }
    }

    /// The process is over, and with it whatever it was at.
    async fn settle(&mut self, end: Option<ExitWait>) {
        self.attempt.inner.activity.forget(self.attempt.key.subagent);
        match end {
            None => {
                let ended_by_us = self.is_closing();
                let conclusion = self.failure.take().unwrap_or_else(|| {
                    if ended_by_us {
                        // What it was at counts as far as it came; why it ended is known.
                        return self.with_text(Outcome::Completed);
                    }
                    self.failed(ErrorCode::NoFinalMessage, String::from("it ended without an answer"), false)
                });
                let exit =
                    subagent_model::ExitFacts { code: None, signal: None, at: Some(super::clock::now()) };
                let conclusion = Conclusion { exit: Some(exit), ..conclusion };
                self.conclude(Verdict { conclusion, whole: None }).await;
            }
            Some(ExitWait::Exited(record)) => {
                let mut verdict = self.attempt.verdict_of(&record).await;
                let exit = verdict.conclusion.exit;
                if let Some(failure) = self.failure.take() {
                    verdict.conclusion = Conclusion { exit, ..failure };
                }
                if self.conclude(verdict).await
                    && let (Some(pool), Some(shim)) = (&self.attempt.inner.pool, self.channel.as_shim())
                {
                    pool.release(shim.clone());
                }
            }
            Some(ExitWait::ShimLost) => {
                let Some(shim) = self.channel.as_shim() else { return };
                if !self.attempt.is_gone(shim).await {
                    // Only taken over: by a task of ours that looks for it, or by the next daemon.
                    return;
                }
                let cgroup = shim.cgroup().map(std::path::Path::to_owned);
                let verdict = self.attempt.verdict_without_shim(cgroup).await;
                self.conclude(verdict).await;
            }
        }
    }

    /// Ends the run with this, and with what was said. What is in hand and never reached the child waits again.
    async fn conclude(&mut self, mut verdict: Verdict) -> bool {
        // Whoever sees the end can read all that led to it.
        self.channel.scribe().settle().await;
        self.count();
        let newest = self.attempt.states.borrow().clone();
        if newest.revision > self.state.revision {
            self.see(newest);
        }
        let attempt = self.attempt.key.attempt;
        if let Some(message) = self.state.mail.handing()
            && self.handed != Some(message.number)
        {
            let (number, written) = (message.number, Written::No);
            self.act_soon(Command::Settle { attempt, number, written });
        }
        // What the turn ended with is stored already, and counts more than what was said after it.
        let told = self.state.run.done.is_some()
            || matches!(self.state.run.phase, Phase::Waiting { held: Some(_), .. });
        let text = self.ear.text().filter(|_| !told);
        let whole = text.and_then(|text| bound(text.to_owned()).1);
        self.add_text(&mut verdict, whole);
        self.attempt.conclude_run(self.run, verdict).await
    }

    /// What the child had said goes with the end of its process.
    fn add_text(&self, verdict: &mut Verdict, whole: Option<Arc<str>>) {
        if verdict.conclusion.result.is_none()
            && let Some(text) = self.ear.text()
        {
            let partial = self.with_text(Outcome::Completed);
            verdict.conclusion.result = Some(bound(text.to_owned()).0);
            verdict.conclusion.marks.extend(partial.marks);
            verdict.conclusion.quality = Quality::Partial;
        }
        if verdict.whole.is_none() {
            verdict.whole = whole;
        }
    }

    /// Sets the times of the current run. Of a process that has no further run the shim has the hard limit, outside of
    /// everything that can block here.
    fn set_deadline(&mut self) {
        let held_by_shim = self.channel.as_shim().is_some() && !self.state.spec.is_warm();
        self.warning = self.deadline_after(subagent_core::budget::deadline_warning_at);
        self.deadline = if held_by_shim { None } else { self.deadline_after(|deadline| deadline) };
    }

    /// When so much of the run's deadline is over.
    fn deadline_after(&self, part: impl Fn(u64) -> u64) -> Option<Instant> {
        let deadline = self.state.spec.deadline_ms?;
        let at = std::time::Duration::from_millis(part(deadline)).saturating_sub(self.state.run.worked());
        // Of an attempt that was taken over a part is over already; the shim has the hard limit.
        let started = self.state.run.attempts.last().and_then(|facts| facts.started_at);
        let gone = started.map_or(std::time::Duration::ZERO, |at| super::clock::now().since(at));
        Some(Instant::now() + at.saturating_sub(gone))
    }

    fn show_activity(&mut self) {
        let news = std::mem::take(&mut self.news);
        let (tools, text) = (self.ear.tools(), self.ear.text());
        self.attempt.inner.activity.show(&self.state, tools, text, self.turn_open, news);
    }

    fn is_running(&self) -> bool {
        matches!(self.state.run.phase, Phase::Running { .. })
    }
}

/// Waits until then; for ever without a time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
