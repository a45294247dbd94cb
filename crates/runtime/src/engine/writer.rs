//! The one writer: every change of every subagent passes here, in one order. It drains what waits into one batch,
//! commits it with one flush, and only then answers, publishes and lets effects begin.

mod consequences;
mod message;
mod observing;
mod resuming;
mod spawning;
mod stop_all;
mod telling;
mod timers;
mod trees;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use subagent_core::admission::Limits;
use subagent_core::run::{Command, Subagent};
use subagent_model::{Cursor, Event, EventKind, Problem, RunNumber, SubagentId, Timestamp};
use subagent_store::{Content, Store, StoreError, Transition};
use tokio::sync::oneshot;

pub(crate) use self::message::{
    Act, ActError, Acted, Message, Resume, Resumed, Spawn, StopAll, stop_command,
};
use self::message::{ActReply, Spawned, Stopped};
use self::telling::Telling;
use super::batch::{Batch, StageError};
use super::book::Book;
use super::room::RoomProbe;
use super::{Inner, clock, effects};

/// Most messages of one round.
const ROUND: usize = 512;
/// How long facts that nobody waits for may wait for company.
const LAZY: Duration = Duration::from_millis(3);
/// How many ended states are kept at hand, for the acknowledgement that usually follows.
const RECENT_ENDS: usize = 256;
/// How often disk and memory are looked at again while runs wait for them, and a store that failed is tried again.
const ROOM_PAUSE: Duration = Duration::from_millis(500);
/// The longest sleep: wall clocks may be set, and timers go by them.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// Starts the writer thread. It ends when it is halted and not before: it holds the engine, which holds the way to it.
pub(crate) fn start(inner: &Arc<Inner>, receiver: Receiver<Message>) -> std::io::Result<()> {
    let limits = inner.config.limits.clone();
    let book = {
        let live = inner.live.read().unwrap_or_else(PoisonError::into_inner);
        Book::of(&limits, live.values().map(|state| &**state), clock::now())
    };
    let mut writer = Writer {
        book,
        limits,
        room: RoomProbe::new(inner.config.data_dir.clone()),
        telling: Telling::default(),
        recent: Recent::default(),
        draining: false,
        held: true,
        opening: false,
        failed: false,
        inner: Arc::clone(inner),
    };
    writer.open_accounts();
    writer.plan_telling(clock::now());
    // Those that were adopted hold slots: true before anyone can ask.
    writer.show_gauges();
    std::thread::Builder::new().name(String::from("writer")).spawn(move || writer.run(&receiver)).map(drop)
}

#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own, and none excludes another")]
struct Writer {
    inner: Arc<Inner>,
    book: Book,
    limits: Limits,
    room: RoomProbe,
    telling: Telling,
    recent: Recent,
    draining: bool,
    /// Nothing starts before what the last engine left is settled.
    held: bool,
    /// It is settled: what waits is put into its old order, and starts.
    opening: bool,
    /// The last commit failed: what it would have begun is tried again after a while.
    failed: bool,
}

/// Answers to give after the commit.
enum Answer {
    Resume { id: SubagentId, run: Option<RunNumber>, reply: oneshot::Sender<Result<Resumed, Problem>> },
    StopAll { stopped: Vec<SubagentId>, failed: Vec<Problem>, reply: oneshot::Sender<Stopped> },
    Spawn { id: SubagentId, existing: bool, reply: oneshot::Sender<Result<Spawned, Problem>> },
    Act { id: SubagentId, changed: bool, cascaded: Vec<SubagentId>, reply: ActReply },
}

/// The states that ended last.
#[derive(Default)]
struct Recent {
    by_id: HashMap<SubagentId, Arc<Subagent>>,
    order: VecDeque<SubagentId>,
}

impl Recent {
    fn put(&mut self, state: &Arc<Subagent>) {
        if self.by_id.insert(state.id, Arc::clone(state)).is_none() {
            self.order.push_back(state.id);
        }
        while self.order.len() > RECENT_ENDS {
            if let Some(id) = self.order.pop_front() {
                self.by_id.remove(&id);
            }
        }
    }

    fn forget(&mut self, id: SubagentId) {
        if self.by_id.remove(&id).is_some() {
            self.order.retain(|other| *other != id);
        }
    }
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Message>) {
        // What recovery found in the queue may find slots at once.
        let mut halt = self.round(Vec::new());
        while halt.is_none() {
            let Some(messages) = self.gather(receiver) else { return };
            halt = self.round(messages);
            if self.opening && halt.is_none() {
                self.open();
                halt = self.round(Vec::new());
            }
        }
        if let Some(done) = halt {
            // Nobody waits: shutdown gave up.
            let _ = done.send(());
        }
    }

    /// What waits, as one round. Lazy messages wait a little for others; `None` when nobody can send any more.
    fn gather(&self, receiver: &Receiver<Message>) -> Option<Vec<Message>> {
        let first = match self.until_next_time() {
            None => receiver.recv().ok()?,
            Some(wait) => match receiver.recv_timeout(wait) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                Err(RecvTimeoutError::Disconnected) => return None,
            },
        };
        let mut lazy = first.is_lazy();
        let mut messages = vec![first];
        let patience = Instant::now() + LAZY;
        while messages.len() < ROUND {
            let next = match receiver.try_recv() {
                Ok(message) => message,
                Err(_) if lazy => {
                    match receiver.recv_timeout(patience.saturating_duration_since(Instant::now())) {
                        Ok(message) => message,
                        Err(_) => break,
                    }
                }
                Err(_) => break,
            };
            lazy &= next.is_lazy();
            messages.push(next);
        }
        Some(messages)
    }

    /// How long until something happens by the passing of time alone; `None` without any such thing.
    fn until_next_time(&self) -> Option<Duration> {
        let now = clock::now();
        let ready = if self.draining { None } else { self.book.next_ready(now) };
        let short_of_room = (!self.draining && self.room.is_short()).then(|| now.after(ROOM_PAUSE));
        if self.failed {
            // What is due stays due: a store that takes nothing is not asked without a pause.
            return Some(ROOM_PAUSE);
        }
        let at = [ready, self.book.next_timer(), self.telling.next(), short_of_room]
            .into_iter()
            .flatten()
            .min()?;
        Some(at.since(now).clamp(Duration::from_millis(1), LONGEST_SLEEP))
    }

    /// One round: stage, commit, tell. Gives the halt order back when there was one.
    fn round(&mut self, messages: Vec<Message>) -> Option<oneshot::Sender<()>> {
        let now = clock::now();
        let mut batch = Batch::default();
        if std::mem::take(&mut self.failed) {
            // What was taken up in the round that came to nothing is looked at again.
            self.plan_telling(now);
        }
        self.timers(&mut batch, now);
        self.tell_due(&mut batch, now);
        let mut answers = Vec::with_capacity(messages.len());
        let mut looks = Vec::new();
        let mut halt = None;
        let mut later = Vec::new();
        for message in messages {
            match message {
                Message::Spawn(spawn, reply) => {
                    self.stage_spawn(&mut batch, *spawn, reply, &mut answers, now);
                }
                Message::Act(act) => self.stage_act(&mut batch, *act, &mut answers, now),
                Message::Resume(resume, reply) => {
                    self.stage_resume(&mut batch, *resume, reply, &mut answers, now);
                }
                Message::StopAll(all) => self.stage_stop_all(&mut batch, *all, &mut answers, now),
                Message::CallWaits(id, begins) => {
                    if let Some(state) = self.inner.live(id) {
                        self.book.call_waits(&state, begins);
                    }
                }
                Message::CoolDown(id, until) => {
                    if let Some(state) = self.inner.live(id) {
                        self.book.cool_down(&state, until, now);
                    }
                }
                Message::Limits(limits, reply) => {
                    self.limits = (*limits).clone();
                    self.book.slots.set_limits(&limits);
                    *self.inner.gauges.limits.write().unwrap_or_else(PoisonError::into_inner) = *limits;
                    later.extend(reply);
                }
                Message::Open => self.opening = true,
                Message::Pace(done) => later.push(done),
                Message::Drain(done) => {
                    self.draining = true;
                    later.push(done);
                }
                Message::Position(id, reply) => {
                    let _ = reply.send(self.place(id, now));
                }
                Message::NextRun(id) => self.next_run(&mut batch, id, now),
                Message::Look(id) => looks.push(id),
                Message::Halt(done) => halt = Some(done),
            }
        }
        self.assign_slots(&mut batch, now);
        if batch.is_empty() {
            self.answer(answers, &HashMap::new(), None);
        } else {
            self.commit(batch, answers);
        }
        for done in later {
            // Told after the commit: what was accepted before is live now, and what new limits let start has its slot.
            let _ = done.send(());
        }
        for id in looks {
            if let Some(state) = self.inner.live(id) {
                effects::begin(&self.inner, &state);
            }
        }
        halt
    }

    /// The newest committed state, live or ended.
    fn committed(&mut self, id: SubagentId) -> Result<Arc<Subagent>, ActError> {
        if let Some(state) = self.inner.live(id) {
            return Ok(state);
        }
        if let Some(state) = self.recent.by_id.get(&id) {
            return Ok(Arc::clone(state));
        }
        self.inner.load(id)?.ok_or(ActError::NotFound(id))
    }

    fn stage_act(&mut self, batch: &mut Batch, act: Act, answers: &mut Vec<Answer>, now: Timestamp) {
        let Act { id, command, content, cascade, lazy: _, at, reply } = act;
        let at = at.map_or(now, |at| at.min(now));
        match self.try_act(batch, id, command, content, at) {
            Ok(changed) => {
                let cascaded = if cascade { self.cascade(batch, id, now) } else { Vec::new() };
                if let Some(reply) = reply {
                    answers.push(Answer::Act { id, changed, cascaded, reply });
                }
            }
            Err(error) => {
                if let Some(reply) = reply {
                    let _ = reply.send(Err(error));
                } else {
                    tracing::debug!(%id, %error, "a fact changed nothing");
                }
            }
        }
    }

    fn try_act(
        &mut self,
        batch: &mut Batch,
        id: SubagentId,
        mut command: Command,
        content: Option<Content>,
        now: Timestamp,
    ) -> Result<bool, ActError> {
        // A birth of the same round is not committed yet.
        let committed = match (batch.get(id), self.inner.live(id)) {
            (Some(state), None) => Arc::new(state.clone()),
            _ => self.committed(id)?,
        };
        self.complete(batch, &committed, &mut command, now);
        let step = batch.act(&committed, &command, content, now).map_err(|error| match error {
            StageError::Refused(refusal) => ActError::Refused(refusal),
            StageError::Illegal(illegal) => ActError::Internal(illegal.to_string()),
        })?;
        if let (Some(before), Some(after)) = (&step.before, batch.get(id)) {
            self.book.step(Some(before), after, now);
            self.follow_up(batch, before, now);
        }
        Ok(step.changed)
    }

    /// What is queued by now has waited in an order that its records know.
    fn open(&mut self) {
        (self.opening, self.held) = (false, false);
        let live = self.inner.live.read().unwrap_or_else(PoisonError::into_inner);
        self.book.put_in_order(live.values().map(|state| &**state), self.inner.started_at);
    }

    /// Gives free slots to those that wait, fairly.
    fn assign_slots(&mut self, batch: &mut Batch, now: Timestamp) {
        if self.held || self.draining || self.book.queue.is_empty() || self.room.hold(&self.limits).is_some()
        {
            return;
        }
        while let Some((id, _)) = self.book.next_start(now) {
            let command = Command::Claim { owner: self.inner.node.clone(), lease_until: Timestamp::never() };
            if let Err(error) = self.try_act(batch, id, command, None, now) {
                tracing::warn!(%id, %error, "cannot give a slot");
            }
        }
    }

    fn commit(&mut self, batch: Batch, answers: Vec<Answer>) {
        let (durable, volatile) = batch.into_transitions();
        let mut committed = HashMap::new();
        if !volatile.is_empty() {
            match self.inner.memory.commit(&volatile) {
                Ok(done) => {
                    self.tell_observers(&volatile, &numbered(&volatile, done.first), false);
                    self.adopt(&volatile, &mut committed);
                }
                Err(error) => tracing::error!(%error, "the memory store refused a step"),
            }
        }
        let mut failure = None;
        if !durable.is_empty() {
            match self.inner.store.commit(&durable) {
                Ok(done) => {
                    self.set_degraded(None);
                    let events = numbered(&durable, done.first);
                    self.tell_observers(&durable, &events, true);
                    self.inner.feed.publish(events);
                    self.adopt(&durable, &mut committed);
                }
                Err(error) => {
                    tracing::error!(%error, steps = durable.len(), "a commit failed; nothing of it was kept");
                    self.set_degraded(Some(error.to_string()));
                    failure = Some(error);
                }
            }
        }
        if failure.is_some() || committed.len() < durable.len() + volatile.len() {
            let live = self.inner.live.read().unwrap_or_else(PoisonError::into_inner);
            let states = || live.values().map(|state| &**state);
            let before = std::mem::replace(&mut self.book, Book::of(&self.limits, states(), clock::now()));
            self.book.keep_calls(&before, states());
            drop(live);
            self.failed = true;
            self.open_accounts();
            self.show_gauges();
            // Do not spin on a store that takes nothing: what is still needed is seen again by the slow timer.
            std::thread::sleep(Duration::from_millis(20));
        }
        for state in committed.values() {
            effects::begin(&self.inner, state);
        }
        self.answer(answers, &committed, failure.as_ref());
    }

    /// Makes committed states the ones that everybody sees.
    fn adopt(&mut self, transitions: &[Transition], committed: &mut HashMap<SubagentId, Arc<Subagent>>) {
        self.show_gauges();
        let mut live = self.inner.live.write().unwrap_or_else(PoisonError::into_inner);
        for transition in transitions {
            let state = &transition.state;
            if state.is_live() {
                live.insert(state.id, Arc::clone(state));
                self.recent.forget(state.id);
            } else {
                live.remove(&state.id);
                self.recent.put(state);
            }
            committed.insert(state.id, Arc::clone(state));
        }
        drop(live);
        self.note_tellings(transitions, clock::now());
        for transition in transitions {
            let state = &transition.state;
            self.inner.watchers.changed(state);
            // A run that ended and was followed by the next one in the same step has waiters as well.
            let ended = transition.events.iter().any(|fact| matches!(fact.kind, EventKind::Ended { .. }));
            if ended || state.is_ended() {
                self.inner.waiters.ended(state);
            }
            if !state.is_live() && !state.spec.can.resume {
                self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner).remove(&state.id);
            }
        }
    }

    fn answer(
        &mut self,
        answers: Vec<Answer>,
        committed: &HashMap<SubagentId, Arc<Subagent>>,
        failure: Option<&StoreError>,
    ) {
        let lost =
            || failure.cloned().unwrap_or(StoreError::Backend { reason: String::from("nothing was kept") });
        for answer in answers {
            // A caller that went away is no concern of the writer.
            match answer {
                Answer::Spawn { id, existing, reply } => {
                    let _ = reply.send(match committed.get(&id) {
                        Some(state) => Ok(Spawned { state: Arc::clone(state), existing }),
                        None => Err(ActError::Store(lost()).into()),
                    });
                }
                Answer::Resume { id, run, reply } => {
                    let _ = reply.send(match committed.get(&id) {
                        Some(state) => Ok(Resumed { state: Arc::clone(state), run, existing: false }),
                        None => Err(ActError::Store(lost()).into()),
                    });
                }
                Answer::StopAll { stopped, mut failed, reply } => {
                    let mut done = Vec::new();
                    for id in stopped {
                        match committed.get(&id) {
                            Some(state) => done.push(Arc::clone(state)),
                            None => failed
                                .push(Problem::from(ActError::Store(lost())).with_ids(vec![id.to_string()])),
                        }
                    }
                    let _ = reply.send(Stopped { stopped: done, failed });
                }
                Answer::Act { id, changed, cascaded, reply } => {
                    let state = match (committed.get(&id), changed) {
                        (Some(state), _) => Ok(Arc::clone(state)),
                        (None, false) => self.committed(id),
                        (None, true) => Err(ActError::Store(lost())),
                    };
                    let _ = reply.send(state.map(|state| Acted { state, changed, cascaded }));
                }
            }
        }
    }

    fn set_degraded(&self, reason: Option<String>) {
        *self.inner.gauges.degraded.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    fn show_gauges(&self) {
        let gauges = &self.inner.gauges;
        gauges.running.store(self.book.slots.running(), Ordering::Relaxed);
        let idle = u32::try_from(self.book.idle.len()).unwrap_or(u32::MAX);
        gauges.idle.store(idle, Ordering::Relaxed);
        gauges.queued.store(u32::try_from(self.book.queue.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

/// The events of a batch with their numbers.
fn numbered(transitions: &[Transition], first: Cursor) -> Vec<Event> {
    transitions
        .iter()
        .flat_map(|transition| transition.events.iter().map(move |fact| (transition.state.id, fact)))
        .zip(first.0..)
        .map(|((subagent, fact), seq)| Event {
            seq: Cursor(seq),
            at: fact.at,
            subagent,
            run: fact.run,
            kind: fact.kind.clone(),
        })
        .collect()
}
