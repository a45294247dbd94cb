//! Results whose requester is a subagent. One that is alive and spoken with is told by the runtime: at a safe point, or by
//! its next run when it is idle, a few times without anybody else speaking. When it is gone, its own requester is told
//! instead, after a while. What is to be told follows from the store; here is only when it is looked at again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use subagent_core::delivery::{CLAIM_BOUND, delivery_id, notice, owed, retry_delay, speaks_up};
use subagent_core::run::{Command, RUNTIME, Subagent};
use subagent_core::snapshot::record_of_run;
use subagent_model::{
    EventKind, Message, MessageMode, MessageNumber, Mode, Requester, RunNumber, Steering, SubagentId,
    Timestamp,
};
use subagent_store::{Fact, OwedRun, Store, Transition};

use super::super::batch::Batch;
use super::Writer;
use super::message::Act;

/// The carrier that the runtime is.
const CARRIER: &str = "runtime";
/// How long a result waits for a requester that waits for it in a call, before it is put before it all the same.
const DEFER_SYNC: Duration = Duration::from_secs(30);
/// How often an idle subagent is woken without anybody else speaking to it.
pub(super) const WAKE_UPS: usize = 3;
/// How many unread results are read from the store at once.
const PAGE: u32 = 1_000;

/// When which unread result is looked at again.
#[derive(Default)]
pub(super) struct Telling {
    due: BTreeSet<(Timestamp, SubagentId, RunNumber)>,
    known: HashMap<(SubagentId, RunNumber), Due>,
}

/// When, and who is to be told as far as was known then.
#[derive(Clone, Copy)]
struct Due {
    at: Timestamp,
    owner: SubagentId,
}

/// How many are looked at in one round.
const MOST_AT_ONCE: usize = 128;

impl Telling {
    fn set(&mut self, id: SubagentId, run: RunNumber, due: Due) {
        if let Some(old) = self.known.insert((id, run), due) {
            self.due.remove(&(old.at, id, run));
        }
        self.due.insert((due.at, id, run));
    }

    fn take_due(&mut self, now: Timestamp) -> Vec<(SubagentId, RunNumber, SubagentId)> {
        let mut taken = Vec::new();
        while taken.len() < MOST_AT_ONCE
            && let Some((at, id, run)) = self.due.first().copied().filter(|(at, ..)| *at <= now)
        {
            self.due.remove(&(at, id, run));
            taken.extend(self.known.remove(&(id, run)).map(|due| (id, run, due.owner)));
        }
        taken
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, ..)| *at)
    }
}

/// What came of putting a result before its requester.
enum Put {
    /// Nothing is left to do for it now.
    Done,
    /// Somebody else is at it.
    Later,
    /// Its requester takes no more messages at the moment.
    Full,
}

impl Writer {
    /// Looks for unread results of subagents, as a restart finds them.
    pub(super) fn plan_telling(&mut self, now: Timestamp) {
        let inner = Arc::clone(&self.inner);
        for store in [&*inner.store, &*inner.memory as &dyn Store] {
            let named = store.owed_requesters("subagent:").unwrap_or_else(|error| {
                tracing::error!(%error, "cannot look for unread results");
                Vec::new()
            });
            for requester in named {
                self.look_at_owed(&requester, now);
            }
        }
    }

    /// All that is owed to a requester is looked at after a while, however much it is.
    fn look_at_owed(&mut self, requester: &Requester, now: Timestamp) {
        let inner = Arc::clone(&self.inner);
        for store in [&*inner.store, &*inner.memory as &dyn Store] {
            let mut after = None;
            loop {
                let page = store.owed(Some(requester), after, PAGE).unwrap_or_else(|error| {
                    tracing::error!(%error, "cannot look for unread results");
                    Vec::new()
                });
                let Some(last) = page.last() else { break };
                after = Some(last.place());
                for OwedRun { state, run, .. } in &page {
                    self.tell_later(state, *run, now);
                }
            }
        }
    }

    /// A run has ended, or its requester has: its result is looked at after a while.
    fn tell_later(&mut self, state: &Subagent, run: RunNumber, now: Timestamp) {
        let tell_after = self.inner.config.tell_after;
        let defer = if state.spec.mode == Mode::Sync { DEFER_SYNC.max(tell_after) } else { tell_after };
        self.tell_in(state, run, defer, now);
    }

    /// It could not be told: after a pause that grows with each try.
    fn tell_again(&mut self, state: &Subagent, run: RunNumber, now: Timestamp) {
        let tries = owed(state).find(|owed| owed.run == run).map_or(0, |owed| owed.tries);
        self.tell_in(state, run, retry_delay(tries).max(self.inner.config.tell_after), now);
    }

    fn tell_in(&mut self, state: &Subagent, run: RunNumber, pause: Duration, now: Timestamp) {
        let owner = state
            .duty(run)
            .filter(subagent_core::run::Duty::is_owed)
            .and_then(|duty| subagent_of(duty.told()));
        if let Some(owner) = owner {
            let at = now.after(pause.min(self.inner.config.escalate_after));
            self.telling.set(state.id, run, Due { at, owner });
        }
    }

    /// What was committed may be to be told, or be the last word about something that was told.
    pub(super) fn note_tellings(&mut self, transitions: &[Transition], now: Timestamp) {
        for Transition { state, events, .. } in transitions {
            for Fact { run, kind, .. } in events {
                match kind {
                    EventKind::Ended { .. } => {
                        self.tell_later(state, *run, now);
                        self.look_at_children(state, now);
                    }
                    EventKind::SessionClosed { .. } => self.look_at_children(state, now),
                    EventKind::DeliveryReturned { of_run, .. } => self.tell_again(state, *of_run, now),
                    EventKind::DeliveryEscalated { of_run, .. } => {
                        self.tell_later(state, *of_run, now);
                        // Whoever waits for something to read has it now.
                        self.inner.waiters.look_again();
                    }
                    EventKind::Acknowledged { of_run, by } => self.withdraw(state.id, *of_run, by),
                    EventKind::MessageReturned { number, .. } => self.was_told(state, *number, false),
                    EventKind::MessageDelivered { number }
                    | EventKind::Resumed { message: Some(number), .. } => self.was_told(state, *number, true),
                    _ => {}
                }
            }
        }
    }

    /// The requester of these results has ended, or may be woken now.
    fn look_at_children(&mut self, owner: &Subagent, now: Timestamp) {
        self.look_at_owed(&Requester::subagent(owner.id), now);
    }

    /// A message of the runtime with a result in it has its last word.
    fn was_told(&self, owner: &Subagent, number: MessageNumber, delivered: bool) {
        let Some((child, run)) = owner.mail.find(number).and_then(|posted| told_of(&posted.message)) else {
            return;
        };
        let command = if delivered {
            Command::Acknowledge { run, by: Requester::subagent(owner.id) }
        } else {
            let reason = String::from("the message came back");
            Command::ReturnDelivery { run, carrier: CARRIER.to_owned(), reason }
        };
        self.inner.send(Act::lazy(child, command).into());
    }

    /// A result was read: a message that was to tell it and still waits is not handed over any more.
    fn withdraw(&self, child: SubagentId, run: RunNumber, by: &Requester) {
        let Some(owner) = subagent_of(by).and_then(|owner| self.inner.live(owner)) else { return };
        if let Some(message) = owner.mail.pending().find(|message| told_of(message) == Some((child, run))) {
            self.inner.send(Act::new(owner.id, Command::Withdraw { number: message.number }).into());
        }
    }

    /// Tells what is due.
    pub(super) fn tell_due(&mut self, batch: &mut Batch, now: Timestamp) {
        let later = now.after(self.inner.config.tell_after);
        let mut full = HashSet::new();
        for (id, run, owner) in self.telling.take_due(now) {
            if full.contains(&owner) {
                // No failure, and no try: others of its results are before it.
                self.telling.set(id, run, Due { at: later, owner });
                continue;
            }
            let Some(child) = self.newest(batch, id) else { continue };
            let Some(duty) = child.duty(run).filter(subagent_core::run::Duty::is_owed) else { continue };
            let Some(owner) = subagent_of(duty.told()) else { continue };
            // One that is no longer stored has nobody above it that is known: its results stay in the list of all.
            let Some(owner) = self.newest(batch, owner) else { continue };
            let ended_at = duty.ended_at.unwrap_or(now);
            if owner.is_live() {
                match self.put_before(batch, &child, run, &owner, now) {
                    Put::Done => {}
                    Put::Later => self.telling.set(id, run, Due { at: later, owner: owner.id }),
                    Put::Full => {
                        full.insert(owner.id);
                        self.telling.set(id, run, Due { at: later, owner: owner.id });
                    }
                }
            } else {
                let gone = owner.ended().map_or(ended_at, |ended| ended.completed_at).max(ended_at);
                let at = gone.after(self.inner.config.escalate_after);
                if at > now {
                    self.telling.set(id, run, Due { at, owner: owner.id });
                    continue;
                }
                let to = owner.duty(owner.run.number).map_or(&owner.requester, |duty| duty.requester).clone();
                if let Err(error) = self.try_act(batch, id, Command::Escalate { run, to }, None, now) {
                    tracing::warn!(%id, %error, "a result could not be escalated");
                }
            }
        }
    }

    /// Puts a result before its requester, which is alive.
    fn put_before(
        &mut self,
        batch: &mut Batch,
        child: &Subagent,
        run: RunNumber,
        owner: &Subagent,
        now: Timestamp,
    ) -> Put {
        let Some(duty) = owed(child).find(|owed| owed.run == run) else { return Put::Done };
        let waits_for_it = self.inner.waiters.waits_for(child.id, run);
        // A message may wait for its turn longer than a claim holds.
        let tells_it = |message| told_of(message) == Some((child.id, run));
        let on_its_way = duty.tries > 0 && owner.mail.pending().any(tells_it);
        if waits_for_it || on_its_way || !duty.is_free(now) {
            return Put::Later;
        }
        if !speaks_up(child, run) {
            return Put::Done;
        }
        let speaks = owner.spec.can.steering != Steering::None;
        let open = owner.is_idle() || owner.run.is_conversing();
        if !speaks || !open {
            // Told at the end of its turn, or looked at again when it ends.
            return Put::Done;
        }
        if owner.is_idle() && wake_ups(owner) >= WAKE_UPS {
            return Put::Done;
        }
        let Some(record) = record_of_run(child, run) else { return Put::Done };
        let text = notice(&record);
        if owner.mail.admit(&text).is_err() {
            return Put::Full;
        }
        let claim =
            Command::ClaimDelivery { run, carrier: CARRIER.to_owned(), until: now.after(CLAIM_BOUND) };
        let post = Command::Post {
            from: Requester::from(RUNTIME),
            mode: MessageMode::Steer,
            text,
            attachments: vec![],
            or_follow_up: true,
            // Each try is a message of its own: one that came back is not the one that is sent now.
            key: Some(format!("{}.{}", delivery_id(child.id, run), duty.tries)),
        };
        if self.try_act(batch, child.id, claim, None, now).is_err() {
            return Put::Later;
        }
        if let Err(error) = self.try_act(batch, owner.id, post, None, now) {
            tracing::info!(owner = %owner.id, %error, "a result could not be put before its requester");
            let reason = error.to_string();
            let back = Command::ReturnDelivery { run, carrier: CARRIER.to_owned(), reason };
            let _ = self.try_act(batch, child.id, back, None, now);
        }
        Put::Done
    }

    /// How many results of its children a subagent has neither read nor been told.
    pub(super) fn unread_of(&self, batch: &Batch, id: SubagentId, now: Timestamp) -> u32 {
        let owner = Requester::subagent(id);
        let free = |state: &Subagent| {
            let mine = owed(state).filter(|owed| *owed.requester == owner && owed.is_free(now));
            mine.filter(|owed| speaks_up(state, owed.run)).count()
        };
        let stored = [&*self.inner.store, &*self.inner.memory as &dyn Store]
            .into_iter()
            .filter_map(|store| store.owed(Some(&owner), None, 100).ok())
            .flatten()
            .filter(|owed| batch.get(owed.state.id).is_none())
            .filter(|found| owed(&found.state).any(|owed| owed.run == found.run && owed.is_free(now)))
            .filter(|found| speaks_up(&found.state, found.run))
            .count();
        let staged: usize = batch.states().map(free).sum();
        u32::try_from(stored + staged).unwrap_or(u32::MAX)
    }
}

/// How many of the newest runs in a row were opened by the runtime.
fn wake_ups(owner: &Subagent) -> usize {
    let current = owner.run.woken_by_runtime;
    let earlier = owner.earlier.iter().rev().map(|run| run.woken_by_runtime);
    std::iter::once(current).chain(earlier).take_while(|woken| *woken).count()
}

/// The result that a message of the runtime tells: its key is the delivery's name and the number of the try.
fn told_of(message: &Message) -> Option<(SubagentId, RunNumber)> {
    let key = message.key.as_deref().filter(|_| message.from.as_str() == RUNTIME)?;
    let mut parts = key.split('.');
    Some((parts.next()?.parse().ok()?, RunNumber(parts.next()?.parse().ok()?)))
}

fn subagent_of(requester: &Requester) -> Option<SubagentId> {
    requester.as_str().strip_prefix("subagent:")?.parse().ok()
}
