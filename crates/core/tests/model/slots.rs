//! Several runs and one limit, on the real `Queue` and `decide`: starts, ends, failed starts, stops, restarts, a limit
//! that is raised and lowered, and a parent that waits for its own child.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 9 | `WITHIN_THE_LIMIT`, `ONLY_WHAT_WAITS`, `NO_TICKET_LOST`, `TURNS_ARE_TAKEN`, `NONE_WAITS_FOR_EVER` (liveness) |
//! | 12 | the queue lives in memory and is made anew from the records at every restart |

use std::rc::Rc;

use subagent_core::need::{Need, needs};
use subagent_core::queue::Queue;
use subagent_core::run::{Command, Phase, Subagent, decide};
use subagent_model::{Cause, ErrorCode, Mode, NodeId, Requester, Status, SubagentId, Timestamp};

use super::explore::{Move, World, must_break, must_hold};
use crate::common::{at, completed, failed, id, queued};

const WITHIN_THE_LIMIT: &str = "9: running never exceeds the limit";
const ONLY_WHAT_WAITS: &str = "9: only a run that waits is started";
const NO_TICKET_LOST: &str = "9: every waiting run has a ticket";
const TURNS_ARE_TAKEN: &str = "9: requesters take turns";
const NONE_WAITS_FOR_EVER: &str = "9: no ticket waits for ever";

const MAX_ATTEMPTS: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// The limit is not asked before a start.
    LimitIgnored,
    /// A run that is being stopped counts as gone already.
    SlotFreedAtTheStop,
    /// Slots are counted up and down, and a stop forgets to.
    SlotsAreCounted,
    /// A stopped run keeps its ticket.
    StopKeepsTheTicket,
    /// The queue is not made anew at a restart.
    TicketsLostAtRestart,
    /// One line for all requesters.
    OneLine,
    /// A parent that waits for its child keeps its slot.
    NoLending,
}

/// Runs 0, 1 and 2. In a flock, 0 and 1 are of one requester and 2 is of another. In a family, 1 is the child of 0,
/// which does nothing but wait for it.
#[derive(Clone)]
struct SlotWorld {
    mutant: Option<Mutant>,
    family: bool,
    runs: Vec<Rc<Subagent>>,
    queue: Queue,
    limit: usize,
    now: i64,
    /// The wrong way of counting.
    counted: usize,
    /// How often the other requester was served while run 2 waited.
    overtaken: u8,
}

impl SlotWorld {
    fn new(mutant: Option<Mutant>, family: bool) -> Self {
        let runs: Vec<_> = ["x", "x", "y"]
            .iter()
            .zip(0_u8..)
            .map(|(who, n)| {
                Rc::new(queued(u128::from(n) + 1, &Requester::from(*who), Mode::Async, at(n.into())))
            })
            .collect();
        let mut world = Self {
            mutant,
            family,
            runs,
            queue: Queue::default(),
            limit: if family { 1 } else { 2 },
            now: 10,
            counted: 0,
            overtaken: 0,
        };
        if family {
            // Only the parent is there at first; it makes its child when it runs.
            world.runs.truncate(1);
        }
        world.refill();
        world
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The queue as a start of the daemon makes it: whatever the records say is waiting, in the order of arrival.
    fn refill(&mut self) {
        self.queue = Queue::default();
        let mut waiting: Vec<_> = self.runs.iter().filter(|run| run.status() == Status::Queued).collect();
        waiting.sort_by_key(|run| (run.run.accepted_at, run.id));
        for run in waiting.into_iter().map(Rc::clone).collect::<Vec<_>>() {
            self.push(&run);
        }
    }

    fn push(&mut self, run: &Subagent) {
        for need in needs(run, at(self.now)) {
            if let Need::Slot { not_before } = need {
                let line =
                    if self.is(Mutant::OneLine) { Requester::from("all") } else { run.requester.clone() };
                self.queue.push(run.id, &line, not_before);
            }
        }
    }

    fn tell(&mut self, index: usize, command: &Command) -> bool {
        let now = at(self.now);
        let Ok(facts) = decide(&self.runs[index], command, now) else { return false };
        let mut run = (*self.runs[index]).clone();
        for fact in &facts {
            run.apply(now, fact).unwrap();
        }
        self.runs[index] = Rc::new(run);
        !facts.is_empty()
    }

    /// True when the run does nothing but wait for a child of its own that is live.
    fn lends(&self, index: usize) -> bool {
        self.family
            && index == 0
            && !self.is(Mutant::NoLending)
            && self.runs.get(1).is_some_and(|child| !child.is_ended())
    }

    fn used(&self) -> usize {
        if self.is(Mutant::SlotsAreCounted) {
            return self.counted;
        }
        let stopping = |run: &Subagent| matches!(run.run.phase, Phase::Stopping { .. });
        let holds =
            |run: &Subagent| run.holds_slot() && !(self.is(Mutant::SlotFreedAtTheStop) && stopping(run));
        (0..self.runs.len()).filter(|index| holds(&self.runs[*index]) && !self.lends(*index)).count()
    }

    /// Processes that are at work: the truth that the limit is about.
    fn working(&self) -> usize {
        (0..self.runs.len()).filter(|index| self.runs[*index].holds_slot() && !self.lends(*index)).count()
    }

    fn index(&self, id: SubagentId) -> usize {
        self.runs.iter().position(|run| run.id == id).unwrap()
    }

    fn start(&self) -> Option<Move<Self>> {
        if self.used() >= self.limit && !self.is(Mutant::LimitIgnored) {
            return None;
        }
        let mut to = self.clone();
        let index = self.index(to.queue.pop(at(self.now))?);
        let claim = Command::Claim { owner: NodeId::from("A"), lease_until: Timestamp::never() };
        let breaks = if !to.tell(index, &claim) {
            Some(ONLY_WHAT_WAITS)
        } else if to.working() > to.limit && to.working() > self.working() {
            Some(WITHIN_THE_LIMIT)
        } else {
            None
        };
        to.counted += 1;
        let waits = |world: &Self| world.runs.get(2).is_some_and(|run| run.status() == Status::Queued);
        to.overtaken = if waits(&to) { self.overtaken + u8::from(index < 2) } else { 0 };
        Some(Move { label: format!("start {index}"), sure: true, to, breaks })
    }

    fn run_moves(&self, index: usize, push: &mut impl FnMut(String, bool, Self)) {
        let run = &self.runs[index];
        if let Some(hold) = run.hold() {
            let attempt = hold.attempt;
            let busy = self.family && index == 0 && self.runs.get(1).is_none_or(|child| !child.is_ended());
            let mut to = self.clone();
            let conclusion = Box::new(completed("done"));
            if !busy && to.tell(index, &Command::Conclude { attempt, conclusion, children_live: false }) {
                to.counted = self.counted.saturating_sub(1);
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
            if !self.family && to.tell(index, &requeue) {
                to.counted = self.counted.saturating_sub(1);
                to.push(&Rc::clone(&to.runs[index]));
                push(format!("{index} fails to start"), false, to);
            }
            let mut to = self.clone();
            let stopping = matches!(run.run.phase, Phase::Stopping { .. });
            if stopping && to.tell(index, &Command::Gone { attempt, evidence: "killed".into() }) {
                // The wrong way of counting forgets this way out.
                push(format!("{index} is gone"), true, to);
            }
        }
        let mut to = self.clone();
        if !self.family && to.tell(index, &Command::Stop { actor: "user:1".into(), cause: Cause::Requested })
        {
            if !self.is(Mutant::StopKeepsTheTicket) {
                to.queue.remove(run.id);
            }
            push(format!("stop {index}"), false, to);
        }
    }
}

impl World for SlotWorld {
    type Key = (Vec<(Status, usize)>, Vec<SubagentId>, usize, usize, u8);

    fn key(&self) -> Self::Key {
        let mut rest = self.queue.clone();
        let order = std::iter::from_fn(|| rest.pop(at(self.now))).collect();
        let runs = self.runs.iter().map(|run| (run.status(), run.run.attempts.len())).collect();
        let counted = if self.is(Mutant::SlotsAreCounted) { self.counted } else { 0 };
        (runs, order, self.limit, counted, self.overtaken)
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves: Vec<_> = self.start().into_iter().collect();
        let mut push =
            |label: String, sure: bool, to: Self| moves.push(Move { label, sure, to, breaks: None });
        for index in 0..self.runs.len() {
            self.run_moves(index, &mut push);
        }
        if self.family && self.runs.len() == 1 && self.runs[0].holds_slot() {
            let mut to = self.clone();
            let child = queued(2, &Requester::subagent(id(1)), Mode::Sync, at(self.now));
            to.push(&child);
            to.runs.push(Rc::new(child));
            push("0 spawns 1 and waits for it".into(), true, to);
        }
        if !self.family {
            push("change the limit".into(), false, Self { limit: 3 - self.limit, ..self.clone() });
        }
        let mut to = self.clone();
        if self.is(Mutant::TicketsLostAtRestart) {
            to.queue = Queue::default();
        } else {
            to.refill();
            to.overtaken = 0;
        }
        push("restart".into(), false, to);
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        let waits = |run: &&Rc<Subagent>| run.status() == Status::Queued;
        if !self.runs.iter().filter(waits).all(|run| self.queue.position(run.id, at(self.now)).is_some()) {
            return Some(NO_TICKET_LOST);
        }
        // Between two restarts, which forget whose turn it was, a requester waits for one start of each other.
        (self.overtaken > 1).then_some(TURNS_ARE_TAKEN)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let waits = self.runs.iter().any(|run| run.status() == Status::Queued);
        vec![(NONE_WAITS_FOR_EVER, waits, !waits)]
    }
}

#[test]
fn the_design_holds() {
    must_hold("slots", SlotWorld::new(None, false));
    must_hold("slots, a parent that waits", SlotWorld::new(None, true));
}

#[test]
fn invariant_9_the_limit_holds_and_every_ticket_comes_up() {
    for (mutant, predicate, family) in [
        (Mutant::LimitIgnored, WITHIN_THE_LIMIT, false),
        (Mutant::SlotFreedAtTheStop, WITHIN_THE_LIMIT, false),
        (Mutant::SlotsAreCounted, NONE_WAITS_FOR_EVER, false),
        (Mutant::StopKeepsTheTicket, ONLY_WHAT_WAITS, false),
        (Mutant::TicketsLostAtRestart, NO_TICKET_LOST, false),
        (Mutant::OneLine, TURNS_ARE_TAKEN, false),
        (Mutant::NoLending, NONE_WAITS_FOR_EVER, true),
    ] {
        must_break(&format!("{mutant:?}"), predicate, SlotWorld::new(Some(mutant), family));
    }
}

/// The failure that a requeue ends in is told as such.
#[test]
fn attempts_are_bounded() {
    let mut world = SlotWorld::new(None, false);
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
