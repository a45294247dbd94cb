//! Several runs and their limits, on the real `Queue`, `Slots` and `decide`: starts, ends, failed starts, stops,
//! restarts, a limit that is raised and lowered, a provider with a limit of its own and an account that cools down, and
//! a chain of parents that wait for their own children.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 9 | `WITHIN_THE_LIMIT`, `WITHIN_THE_PROVIDER`, `COOL_MEANS_COOL`, `ONLY_WHAT_WAITS`, `NO_TICKET_LOST`, `TURNS_ARE_TAKEN`, `ROOM_IS_USED`, `NONE_WAITS_FOR_EVER` (liveness) |
//! | 12 | queue and slots live in memory and are made anew from the records at every restart |

use std::collections::BTreeMap;
use std::rc::Rc;

use subagent_core::admission::Limits;
use subagent_core::need::{Need, needs};
use subagent_core::queue::{Queue, Ticket};
use subagent_core::run::{Command, Phase, Subagent, decide};
use subagent_core::slots::{CoolKey, Holder, Slots};
use subagent_model::{Cause, ErrorCode, Mode, NodeId, Requester, Status, SubagentId, Timestamp};

use super::explore::{Move, World, must_break, must_hold};
use crate::common::{at, completed, failed, id, queued};

const WITHIN_THE_LIMIT: &str = "9: running never exceeds the limit";
const WITHIN_THE_PROVIDER: &str = "9: running of one provider never exceeds its limit";
const COOL_MEANS_COOL: &str = "9: nothing starts while its account cools down";
const ONLY_WHAT_WAITS: &str = "9: only a run that waits is started";
const NO_TICKET_LOST: &str = "9: every waiting run has a ticket";
const TURNS_ARE_TAKEN: &str = "9: requesters take turns";
const ROOM_IS_USED: &str = "9: what fits is not held up by what does not";
const NONE_WAITS_FOR_EVER: &str = "9: no ticket waits for ever";

const MAX_ATTEMPTS: u32 = 2;
/// Longer than all starts together take.
const COOL_SECONDS: i64 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// The limit is not asked before a start.
    LimitIgnored,
    /// Nor is that of a provider.
    ProviderLimitIgnored,
    /// A limit of the provider is the trouble of the one run that met it.
    CoolDownIgnored,
    /// A run that is being stopped counts as gone already.
    SlotFreedAtTheStop,
    /// A run that was stopped never gives its slot back.
    StopKeepsTheSlot,
    /// A stopped run keeps its ticket.
    StopKeepsTheTicket,
    /// The queue is not made anew at a restart.
    TicketsLostAtRestart,
    /// Nor are the slots.
    SlotsLostAtRestart,
    /// A restart does not look who was served last.
    TurnsLostAtRestart,
    /// A restart does not look who waits.
    LoansLostAtRestart,
    /// One line for all requesters.
    OneLine,
    /// Only the first ticket is looked at.
    FirstTicketOnly,
    /// A parent that waits for its child keeps its slot.
    NoLending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// 0 and 1 are of one requester and 2 is of another; all of one provider.
    Flock,
    /// 0, 1 and 2 as before. 0 and 1 are of a provider that takes one at a time, and their account may cool down.
    Providers,
    /// 1 is the child of 0, and 2 of 1. A parent does nothing but wait for its child.
    Family,
}

#[derive(Clone)]
struct SlotWorld {
    mutant: Option<Mutant>,
    shape: Shape,
    runs: Vec<Rc<Subagent>>,
    queue: Queue,
    slots: Slots,
    limit: u32,
    now: i64,
    /// Which parents wait for their child.
    waits: [bool; 3],
    /// Until when the account cools down.
    cool_until: i64,
    /// How often the other requester was served while run 2 waited.
    overtaken: u8,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    runs: Vec<(Status, usize)>,
    order: Vec<SubagentId>,
    limit: u32,
    slots: (u32, Vec<Option<SubagentId>>, Vec<bool>),
    waits: [bool; 3],
    cool: bool,
    overtaken: u8,
}

impl SlotWorld {
    fn new(mutant: Option<Mutant>, shape: Shape) -> Self {
        let runs: Vec<_> = ["x", "x", "y"]
            .iter()
            .zip(0_u8..)
            .map(|(who, n)| {
                Rc::new(queued(u128::from(n) + 1, &Requester::from(*who), Mode::Async, at(n.into())))
            })
            .collect();
        let mut world = Self {
            mutant,
            shape,
            runs,
            queue: Queue::default(),
            slots: Slots::new(&Limits::default()),
            limit: if shape == Shape::Family { 1 } else { 2 },
            now: 10,
            waits: [false; 3],
            cool_until: 0,
            overtaken: 0,
        };
        if shape == Shape::Family {
            // Only the first parent is there; each makes its child when it runs.
            world.runs.truncate(1);
        }
        world.slots.set_limits(&world.limits());
        world.restart();
        world
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn limits(&self) -> Limits {
        let running = if self.is(Mutant::LimitIgnored) { u32::MAX } else { self.limit };
        let own = self.shape == Shape::Providers && !self.is(Mutant::ProviderLimitIgnored);
        let per_provider = own.then(|| (String::from("slow"), 1)).into_iter().collect();
        Limits { running, per_provider, ..Limits::default() }
    }

    /// Of the provider that has a limit of its own.
    fn is_slow(&self, index: usize) -> bool {
        self.shape == Shape::Providers && index < 2
    }

    /// What a start of the daemon makes of the records: whatever they say is waiting or live.
    fn restart(&mut self) {
        let live = (0..self.runs.len()).filter(|index| self.runs[*index].holds_slot()).map(|index| {
            let waits = self.waits[index] && !self.is(Mutant::LoansLostAtRestart);
            (Holder::from(&self.ticket(index, None)), waits && !self.is(Mutant::NoLending))
        });
        let live: Vec<_> = if self.is(Mutant::SlotsLostAtRestart) { vec![] } else { live.collect() };
        self.slots = Slots::rebuilt(&self.limits(), live);
        if self.cools() {
            self.cool_down();
        }
        let mut served = BTreeMap::new();
        for run in &self.runs {
            if let Some(last) = run.run.attempts.last()
                && !self.is(Mutant::TurnsLostAtRestart)
            {
                let at: &mut Timestamp = served.entry(run.requester.clone()).or_default();
                *at = last.claimed_at.max(*at);
            }
        }
        let waiting = (0..self.runs.len()).filter_map(|index| match &self.runs[index].run.phase {
            Phase::Queued { since, .. } => Some((*since, self.ticket(index, None))),
            _ => None,
        });
        let waiting = waiting.filter(|_| !self.is(Mutant::TicketsLostAtRestart));
        self.queue = Queue::rebuilt(waiting, &served);
    }

    fn ticket(&self, index: usize, not_before: Option<Timestamp>) -> Ticket {
        let run = &self.runs[index];
        let above = if self.shape == Shape::Family { index } else { 0 };
        Ticket {
            run: run.id,
            requester: if self.is(Mutant::OneLine) { Requester::from("all") } else { run.requester.clone() },
            provider: if self.is_slow(index) { "slow" } else { "quick" }.into(),
            model: None,
            account: Some("a".into()),
            not_before,
            ancestors: (0..above).rev().map(|n| self.runs[n].id).collect(),
        }
    }

    fn push(&mut self, index: usize) {
        for need in needs(&self.runs[index], at(self.now)) {
            if let Need::Slot { not_before } = need {
                self.queue.push(self.ticket(index, not_before));
            }
        }
    }

    fn cools(&self) -> bool {
        self.now < self.cool_until
    }

    fn cool_down(&mut self) {
        if !self.is(Mutant::CoolDownIgnored) {
            let key = CoolKey { provider: "slow".into(), account: Some("a".into()), model: None };
            self.slots.cool_down(key, at(self.cool_until), at(self.now));
        }
    }

    /// The slots follow the state, as the writer's book does.
    fn tell(&mut self, index: usize, command: &Command) -> bool {
        let now = at(self.now);
        let Ok(facts) = decide(&self.runs[index], command, now) else { return false };
        let mut run = (*self.runs[index]).clone();
        for fact in &facts {
            run.apply(now, fact).unwrap();
        }
        let held = self.runs[index].holds_slot();
        let stopping = matches!(run.run.phase, Phase::Stopping { .. });
        let was_stopping = matches!(self.runs[index].run.phase, Phase::Stopping { .. });
        self.runs[index] = Rc::new(run);
        let holds = self.runs[index].holds_slot() && !(stopping && self.is(Mutant::SlotFreedAtTheStop));
        if !held && holds {
            self.slots.take(Holder::from(&self.ticket(index, None)));
        } else if held && !holds && !(was_stopping && self.is(Mutant::StopKeepsTheSlot)) {
            self.slots.free(id(index as u128 + 1));
        }
        !facts.is_empty()
    }

    fn wait(&mut self, index: usize, waits: bool) {
        self.waits[index] = waits;
        if !waits {
            self.slots.reclaim(self.runs[index].id);
        } else if !self.is(Mutant::NoLending) {
            self.slots.lend(self.runs[index].id);
        }
    }

    /// Processes that are at work: the truth that the limits are about.
    fn working(&self, of: impl Fn(usize) -> bool) -> usize {
        let works = |index: &usize| self.runs[*index].holds_slot() && !self.waits[*index] && of(*index);
        (0..self.runs.len()).filter(works).count()
    }

    fn is_over(&self, index: usize) -> bool {
        self.working(|_| true) > self.limit as usize
            || self.is_slow(index) && self.working(|other| self.is_slow(other)) > 1
    }

    fn index(&self, id: SubagentId) -> usize {
        self.runs.iter().position(|run| run.id == id).unwrap()
    }

    fn waits_for_a_slot(&self, index: usize) -> bool {
        self.runs.get(index).is_some_and(|run| run.status() == Status::Queued)
    }

    fn start(&self) -> Option<Move<Self>> {
        let mut to = self.clone();
        to.now += 1;
        let next = if self.is(Mutant::FirstTicketOnly) {
            let first = to.queue.pop(at(to.now))?;
            to.slots.may_start(&first, at(to.now)).ok()?;
            first
        } else {
            to.slots.next(&mut to.queue, at(to.now))?.0
        };
        let index = self.index(next.run);
        let claim = Command::Claim { owner: NodeId::from("A"), lease_until: Timestamp::never() };
        let breaks = if !to.tell(index, &claim) {
            Some(ONLY_WHAT_WAITS)
        } else if to.working(|_| true) > to.limit as usize {
            // A lender that goes on, or a lowered limit, may exceed it. A start may not.
            Some(WITHIN_THE_LIMIT)
        } else if to.is_over(index) {
            Some(WITHIN_THE_PROVIDER)
        } else if to.cools() && self.is_slow(index) {
            Some(COOL_MEANS_COOL)
        } else {
            None
        };
        to.overtaken = if to.waits_for_a_slot(2) { self.overtaken + u8::from(index < 2) } else { 0 };
        Some(Move { label: format!("start {index}"), sure: true, to, breaks })
    }

    fn run_moves(&self, index: usize, push: &mut impl FnMut(String, bool, Self)) {
        let run = &self.runs[index];
        if let Some(hold) = run.hold() {
            let attempt = hold.attempt;
            let is_parent = self.shape == Shape::Family && index < 2;
            let busy = is_parent && self.runs.get(index + 1).is_none_or(|child| !child.is_ended());
            let mut to = self.clone();
            let end = Command::Conclude {
                attempt,
                conclusion: Box::new(completed("done")),
                children_live: false,
                max_attempts: MAX_ATTEMPTS,
            };
            if !busy && !self.waits[index] && to.tell(index, &end) {
                push(format!("{index} ends"), true, to);
            }
            let mut to = self.clone();
            let requeue = Command::Requeue {
                attempt,
                reason: "no start".into(),
                exit: None,
                not_before: None,
                max_attempts: MAX_ATTEMPTS,
            };
            if self.shape != Shape::Family && to.tell(index, &requeue) {
                to.push(index);
                push(format!("{index} fails to start"), false, to.clone());
                if self.is_slow(index) {
                    to.cool_until = to.now + COOL_SECONDS;
                    to.cool_down();
                    push(format!("{index} meets the limit of its account"), false, to);
                }
            }
            let mut to = self.clone();
            let stopping = matches!(run.run.phase, Phase::Stopping { .. });
            let gone = Command::Gone {
                attempt,
                evidence: "killed".into(),
                children_live: false,
                max_attempts: MAX_ATTEMPTS,
            };
            if stopping && to.tell(index, &gone) {
                push(format!("{index} is gone"), true, to);
            }
        }
        let mut to = self.clone();
        let stop = Command::Stop { actor: "user:1".into(), cause: Cause::Requested, drop_follow_ups: false };
        if self.shape != Shape::Family && to.tell(index, &stop) {
            if !self.is(Mutant::StopKeepsTheTicket) {
                to.queue.remove(run.id);
            }
            push(format!("stop {index}"), false, to);
        }
    }

    fn family_moves(&self, index: usize, push: &mut impl FnMut(String, bool, Self)) {
        if index == 2 || !self.runs[index].holds_slot() {
            return;
        }
        let mut to = self.clone();
        match self.runs.get(index + 1) {
            None => {
                let parent = Requester::subagent(self.runs[index].id);
                let child = queued(index as u128 + 2, &parent, Mode::Sync, at(self.now));
                to.runs.push(Rc::new(child));
                to.push(index + 1);
                to.wait(index, true);
                push(format!("{index} spawns its child and waits for it"), true, to);
            }
            Some(child) if child.is_ended() => {
                if self.waits[index] {
                    to.wait(index, false);
                    push(format!("{index} goes on"), true, to);
                }
            }
            Some(_) if self.waits[index] => {
                to.wait(index, false);
                push(format!("{index} gives up waiting"), false, to);
            }
            Some(_) => {
                to.wait(index, true);
                push(format!("{index} waits again"), true, to);
            }
        }
    }

    /// By the truth alone, and where nobody lends: a run that waits, and room for it.
    fn fits(&self, index: usize) -> bool {
        self.waits_for_a_slot(index)
            && self.working(|_| true) < self.limit as usize
            && !(self.is_slow(index) && (self.cools() || self.working(|other| self.is_slow(other)) > 0))
    }
}

impl World for SlotWorld {
    type Key = Key;

    fn key(&self) -> Key {
        let mut rest = self.queue.clone();
        let order = std::iter::from_fn(|| rest.pop(at(self.now))).map(|ticket| ticket.run).collect();
        let ids = || self.runs.iter().map(|run| run.id);
        let loans = ids().map(|id| self.slots.lender_of(id)).collect();
        let held = ids().map(|id| self.slots.holds(id)).collect();
        Key {
            runs: self.runs.iter().map(|run| (run.status(), run.run.attempts.len())).collect(),
            order,
            limit: self.limit,
            slots: (self.slots.running(), loans, held),
            waits: self.waits,
            cool: self.cools(),
            overtaken: self.overtaken,
        }
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves: Vec<_> = self.start().into_iter().collect();
        let mut push =
            |label: String, sure: bool, to: Self| moves.push(Move { label, sure, to, breaks: None });
        for index in 0..self.runs.len() {
            self.run_moves(index, &mut push);
            if self.shape == Shape::Family {
                self.family_moves(index, &mut push);
            }
        }
        if self.shape != Shape::Family {
            let mut to = self.clone();
            to.limit = 3 - self.limit;
            to.slots.set_limits(&to.limits());
            push("change the limit".into(), false, to);
        }
        if self.cools() {
            // Time passes by itself, and a cool-down is all that waits for it here.
            push("the cool-down is over".into(), true, Self { now: self.cool_until, ..self.clone() });
        }
        let mut to = self.clone();
        to.restart();
        push("restart".into(), false, to);
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        let all = 0..self.runs.len();
        let has_ticket = |index: usize| self.queue.position(self.runs[index].id, at(self.now)).is_some();
        if !all.clone().filter(|index| self.waits_for_a_slot(*index)).all(has_ticket) {
            return Some(NO_TICKET_LOST);
        }
        if self.shape != Shape::Family && all.clone().any(|index| self.fits(index)) && self.start().is_none()
        {
            return Some(ROOM_IS_USED);
        }
        // A requester waits for one start of each other, restarts or not. Where only some fit, others may go ahead.
        (self.shape == Shape::Flock && self.overtaken > 1).then_some(TURNS_ARE_TAKEN)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let waits = (0..self.runs.len()).any(|index| self.waits_for_a_slot(index));
        vec![(NONE_WAITS_FOR_EVER, waits, !waits)]
    }
}

#[test]
fn the_design_holds() {
    must_hold("slots", SlotWorld::new(None, Shape::Flock));
    must_hold("slots, a provider with a limit", SlotWorld::new(None, Shape::Providers));
    must_hold("slots, parents that wait", SlotWorld::new(None, Shape::Family));
}

#[test]
fn invariant_9_the_limit_holds_and_every_ticket_comes_up() {
    for (mutant, predicate, shape) in [
        (Mutant::LimitIgnored, WITHIN_THE_LIMIT, Shape::Flock),
        (Mutant::SlotFreedAtTheStop, WITHIN_THE_LIMIT, Shape::Flock),
        (Mutant::SlotsLostAtRestart, WITHIN_THE_LIMIT, Shape::Flock),
        (Mutant::StopKeepsTheSlot, ROOM_IS_USED, Shape::Flock),
        (Mutant::StopKeepsTheSlot, NONE_WAITS_FOR_EVER, Shape::Flock),
        (Mutant::StopKeepsTheTicket, ONLY_WHAT_WAITS, Shape::Flock),
        (Mutant::TicketsLostAtRestart, NO_TICKET_LOST, Shape::Flock),
        (Mutant::TurnsLostAtRestart, TURNS_ARE_TAKEN, Shape::Flock),
        (Mutant::OneLine, TURNS_ARE_TAKEN, Shape::Flock),
        (Mutant::ProviderLimitIgnored, WITHIN_THE_PROVIDER, Shape::Providers),
        (Mutant::CoolDownIgnored, COOL_MEANS_COOL, Shape::Providers),
        (Mutant::FirstTicketOnly, ROOM_IS_USED, Shape::Providers),
        (Mutant::NoLending, NONE_WAITS_FOR_EVER, Shape::Family),
        (Mutant::LoansLostAtRestart, NONE_WAITS_FOR_EVER, Shape::Family),
    ] {
        must_break(&format!("{mutant:?}"), predicate, SlotWorld::new(Some(mutant), shape));
    }
}

/// The failure that a requeue ends in is told as such.
#[test]
fn attempts_are_bounded() {
    let mut world = SlotWorld::new(None, Shape::Flock);
    for _ in 0..MAX_ATTEMPTS {
        let claim = Command::Claim { owner: NodeId::from("A"), lease_until: Timestamp::never() };
        assert!(world.tell(0, &claim));
        let attempt = world.runs[0].last_attempt;
        let conclusion = failed(ErrorCode::StartFailed);
        assert!(conclusion.result.is_none());
        let reason = String::from("no start");
        let requeue =
            Command::Requeue { attempt, reason, exit: None, not_before: None, max_attempts: MAX_ATTEMPTS };
        assert!(world.tell(0, &requeue));
    }
    assert_eq!(world.runs[0].status(), Status::Error);
}
