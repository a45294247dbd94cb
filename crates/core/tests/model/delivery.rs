//! Results and their notices: a requester that goes before it has read, and one that stands in for it; carriers that claim, send, fail and crash; requesters that may get a result and whose
//! receipts may come late; a resume by someone else, before or after the result of the first run was read.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 10 | `DURABLE_FIRST`, `UNTIL_CONSUMED` (liveness, for each run), `CONSUMED_WAS_HANDED_OVER`, `NOT_AFTER_THE_RECEIPT`, `ONE_CARRIER` |
//! | 12 | all of them: the daemon crashes at every point |

use std::rc::Rc;
use std::time::Duration;

use subagent_core::need::{Need, needs};
use subagent_core::run::{Command, Delivery, Subagent, decide};
use subagent_model::{AttemptNumber, Mode, NodeId, Requester, RunNumber, Timestamp};

use super::explore::{Move, World, must_break, must_hold};
use crate::common::{agent, at, born, completed, text};

const DURABLE_FIRST: &str = "10: the result is durable before its notice";
const UNTIL_CONSUMED: &str = "10: a result is told until it is consumed, whatever comes after it";
const CONSUMED_WAS_HANDED_OVER: &str = "10: what counts as consumed was handed to its requester";
const NOT_AFTER_THE_RECEIPT: &str = "10: after the receipt no channel carries the body again";
const ONE_CARRIER: &str = "10: one carrier at a time";

const CLAIM_TICKS: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// The notice goes out before the end is stored.
    NoticeBeforeEnd,
    /// A claim is not looked at again before the sending.
    NoSecondLook,
    /// A claim is for ever.
    ClaimForEver,
    /// A wake-up is a one-time signal, held in memory.
    EdgeTriggered,
    /// Sending counts as consumption.
    SentIsConsumed,
    /// Anyone's receipt counts.
    AnyoneAcknowledges,
    /// A receipt does not say for which run it is: it is taken for one of the current run.
    ReceiptWithoutRun,
    /// A resume overwrites what the run before it owes.
    ResumeDropsTheDuty,
    /// Nobody is told in the place of a requester that is gone.
    NobodyStandsIn,
    /// The receipt of a stand-in does not count.
    StandInIsAStranger,
}

#[derive(Clone)]
struct DeliveryWorld {
    mutant: Option<Mutant>,
    /// Who asked for run 1, for run 2: each gets the result of theirs and no other.
    requesters: [&'static str; 2],
    now: i64,
    record: Rc<Subagent>,
    /// Carriers that hold a claim as far as they know: on which run, and whether they have sent.
    carriers: [Option<(RunNumber, bool)>; 2],
    /// Who is told of run 1, of run 2 got its body.
    got: [bool; 2],
    /// The requester of run 1 is gone, with what it got.
    gone: bool,
    wake: bool,
    wrong_consumption: bool,
}

/// A duty as far as it matters: owed or consumed, and by whom it is claimed for how long.
type DutyKey = (bool, bool, Option<(String, u64)>);

#[derive(PartialEq, Eq, Hash)]
struct Key {
    ended: bool,
    duties: Vec<DutyKey>,
    carriers: [Option<(RunNumber, bool)>; 2],
    got: [bool; 2],
    /// Gone, and somebody stands in.
    gone: (bool, bool),
    wake: bool,
}

/// Who stands in for a requester that is gone.
const STAND_IN: &str = "user:1002";

fn carrier(index: usize) -> String {
    ["wait", "notice"][index].to_owned()
}

const RUNS: [RunNumber; 2] = [RunNumber(1), RunNumber(2)];

fn place(run: RunNumber) -> usize {
    run.0 as usize - 1
}

fn resumable(requester: &str) -> Subagent {
    let mut state = born(agent(Mode::Async));
    (state.requester, state.session) = (requester.into(), Some("session-1".into()));
    state
}

impl DeliveryWorld {
    fn new(mutant: Option<Mutant>, requesters: [&'static str; 2]) -> Self {
        let mut world = Self {
            mutant,
            requesters,
            now: 0,
            record: Rc::new(resumable(requesters[0])),
            carriers: [None; 2],
            got: [false; 2],
            gone: false,
            wake: false,
            wrong_consumption: false,
        };
        world.start();
        world
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn requester(&self, run: RunNumber) -> Requester {
        self.requesters[place(run)].into()
    }

    /// Who is told of a run now.
    fn told(&self, run: RunNumber) -> Requester {
        let duty = self.record.duty(run);
        duty.map_or_else(|| self.requester(run), |duty| duty.told().clone())
    }

    fn run(&self) -> RunNumber {
        self.record.run.number
    }

    fn start(&mut self) {
        let owner = NodeId::from("A");
        assert!(self.tell(&Command::Claim { owner, lease_until: Timestamp::never() }));
    }

    /// True when it changed something.
    fn tell(&mut self, command: &Command) -> bool {
        let now = at(self.now);
        let mut record = (*self.record).clone();
        if let (Command::Acknowledge { .. }, Delivery::Owed { escalated, .. }) =
            (command, &mut record.run.delivery)
            && self.is(Mutant::StandInIsAStranger)
        {
            *escalated = None;
        }
        let Ok(facts) = decide(&record, command, now) else { return false };
        for fact in &facts {
            record.apply(now, fact).unwrap();
        }
        self.record = Rc::new(record);
        !facts.is_empty()
    }

    fn acknowledge(&self, run: RunNumber, by: Requester) -> Option<Self> {
        let mut to = self.clone();
        let meant = if self.is(Mutant::ReceiptWithoutRun) { self.run() } else { run };
        let by = if self.is(Mutant::AnyoneAcknowledges) { self.requester(meant) } else { by };
        if !to.tell(&Command::Acknowledge { run: meant, by }) {
            return None;
        }
        to.wrong_consumption |= !to.got[place(meant)];
        Some(to)
    }

    fn is_ended(&self, run: RunNumber) -> bool {
        self.record.duty(run).is_some_and(|duty| duty.ended_at.is_some())
    }

    fn is_consumed(&self, run: RunNumber) -> bool {
        self.record.duty(run).is_some_and(|duty| matches!(duty.delivery, Delivery::Consumed { .. }))
    }

    /// The claim in the record is this carrier's, and still good.
    fn holds(&self, index: usize, run: RunNumber) -> bool {
        self.record.duty(run).is_some_and(|duty| {
            matches!(duty.delivery, Delivery::Owed { claim: Some(claim), .. }
                if claim.carrier == carrier(index) && claim.holds(at(self.now)))
        })
    }

    /// The run that this carrier may send now.
    fn can_send(&self, index: usize) -> Option<RunNumber> {
        match self.carriers[index] {
            Some((run, false)) if self.holds(index, run) || self.is(Mutant::NoSecondLook) => Some(run),
            _ => None,
        }
    }

    /// The runs that a carrier that looks now would take.
    fn free(&self) -> Vec<RunNumber> {
        let asleep = self.is(Mutant::EdgeTriggered) && !self.wake;
        let free = needs(&self.record, at(self.now)).into_iter().filter_map(|need| match need {
            Need::Deliver { run } if !asleep => Some(run),
            _ => None,
        });
        free.collect()
    }

    fn carrier_moves(&self, index: usize, push: &mut impl FnMut(String, bool, Self, Option<&'static str>)) {
        let name = carrier(index);
        for run in self.free() {
            if self.carriers[index].is_some() {
                break;
            }
            let mut to = self.clone();
            let until = if self.is(Mutant::ClaimForEver) {
                Timestamp::never()
            } else {
                at(self.now).after(Duration::from_secs(CLAIM_TICKS))
            };
            if to.tell(&Command::ClaimDelivery { run, carrier: name.clone(), until }) {
                to.carriers[index] = Some((run, false));
                to.wake = false;
                push(format!("{name} claims run {run}"), true, to, None);
            }
        }
        let early = (self.is(Mutant::NoticeBeforeEnd) && !self.record.is_ended()).then(|| self.run());
        if let Some(run) = self.can_send(index).or(early) {
            let mut to = self.clone();
            to.carriers[index] = Some((run, true));
            let breaks = if !self.is_ended(run) {
                Some(DURABLE_FIRST)
            } else if self.is_consumed(run) {
                Some(NOT_AFTER_THE_RECEIPT)
            } else {
                None
            };
            if self.is(Mutant::SentIsConsumed) {
                let lost = to.acknowledge(run, self.requester(run)).unwrap_or_else(|| to.clone());
                push(format!("{name} sends run {run} into nothing"), false, lost, None);
            }
            // What is sent to one that is gone arrives nowhere.
            let nowhere = self.gone && run == RUNS[0] && self.told(run) == self.requester(run);
            to.got[place(run)] |= !nowhere;
            push(format!("{name} sends run {run}"), true, to, breaks);
        }
        let Some((run, _)) = self.carriers[index] else { return };
        let mut to = self.clone();
        to.carriers[index] = None;
        if self.holds(index, run) {
            to.tell(&Command::ReturnDelivery { run, carrier: name.clone(), reason: "it failed".into() });
            push(format!("{name} gives up"), false, to, None);
        } else {
            push(format!("{name} sees that its claim is gone"), true, to, None);
        }
    }

    /// The requester of run 1 goes, and somebody is told in its place.
    fn gone_moves(&self, push: &mut impl FnMut(String, bool, Self, Option<&'static str>)) {
        let run = RUNS[0];
        let mut to = self.clone();
        if !self.gone {
            to.gone = true;
            to.got[0] &= self.is_consumed(run);
            push("the requester of run 1 is gone".into(), false, to, None);
        } else if !self.is(Mutant::NobodyStandsIn) && to.tell(&Command::Escalate { run, to: STAND_IN.into() })
        {
            push("somebody stands in".into(), true, to, None);
        }
    }

    fn resumed(&self) -> Self {
        let mut to = self.clone();
        let requester = self.requester(RUNS[1]);
        to.tell(&Command::Resume { prompt: text("go on"), attachments: vec![], requester, key: None });
        if self.is(Mutant::ResumeDropsTheDuty) {
            let mut record = (*to.record).clone();
            record.earlier[0].delivery = Delivery::NotOwed;
            to.record = Rc::new(record);
        }
        to.start();
        to
    }
}

impl World for DeliveryWorld {
    type Key = Key;

    fn key(&self) -> Key {
        let duties = self.record.duties().map(|duty| match duty.delivery {
            Delivery::Owed { claim, .. } => {
                // A claim whose time is over is none.
                let claim = claim.as_ref().filter(|claim| claim.holds(at(self.now)));
                let left = |until: Timestamp| until.since(at(self.now)).as_secs().min(CLAIM_TICKS + 1);
                (true, false, claim.map(|claim| (claim.carrier.clone(), left(claim.until))))
            }
            Delivery::Consumed { .. } => (false, true, None),
            Delivery::NotYet | Delivery::NotOwed => (false, false, None),
        });
        Key {
            ended: self.record.is_ended(),
            duties: duties.collect(),
            carriers: self.carriers,
            got: self.got,
            gone: (self.gone, self.told(RUNS[0]) == STAND_IN.into()),
            wake: self.wake,
        }
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: String, sure: bool, to: Self, breaks: Option<&'static str>| {
            moves.push(Move { label, sure, to, breaks });
        };
        let mut to = self.clone();
        let conclusion = Box::new(completed("done"));
        let attempt = AttemptNumber(self.run().0);
        if !self.record.is_ended()
            && to.tell(&Command::Conclude { attempt, conclusion, children_live: false, max_attempts: 1 })
        {
            to.wake = true;
            push("the run ends".into(), false, to, None);
        }
        for index in 0..2 {
            self.carrier_moves(index, &mut push);
        }
        for run in RUNS {
            if self.got[place(run)]
                && let Some(to) = self.acknowledge(run, self.told(run))
            {
                push(format!("receipt for run {run}"), true, to, None);
            }
            let others = self.requesters.into_iter().chain(["user:2000"]).map(Requester::from);
            for stranger in others.filter(|other| *other != self.told(run) && *other != self.requester(run)) {
                if let Some(to) = self.acknowledge(run, stranger) {
                    push(format!("a stranger's receipt for run {run}"), false, to, None);
                }
            }
        }
        // Read or unread, claimed or not.
        if self.run() == RUNS[0] && self.record.is_ended() {
            push("resume".into(), false, self.resumed(), None);
        }
        self.gone_moves(&mut push);
        // Time is sure to pass: the bound of a claim counts on it.
        push("tick".into(), true, Self { now: self.now + 1, ..self.clone() }, None);
        push("crash".into(), false, Self { carriers: [None; 2], wake: false, ..self.clone() }, None);
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if self.wrong_consumption {
            return Some(CONSUMED_WAS_HANDED_OVER);
        }
        let both = self.can_send(0).is_some() && self.can_send(0) == self.can_send(1);
        both.then_some(ONE_CARRIER)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let of = |name, run| (name, self.is_ended(run), self.is_consumed(run));
        vec![of(UNTIL_CONSUMED, RUNS[0]), of(UNTIL_CONSUMED, RUNS[1])]
    }
}

const ONE_REQUESTER: [&str; 2] = ["user:1000"; 2];
const TWO_REQUESTERS: [&str; 2] = ["user:1000", "user:1001"];

#[test]
fn the_design_holds() {
    must_hold("delivery, both runs for one requester", DeliveryWorld::new(None, ONE_REQUESTER));
    must_hold("delivery, each run for another requester", DeliveryWorld::new(None, TWO_REQUESTERS));
}

#[test]
fn invariant_10_a_result_is_durable_and_told_until_it_is_consumed() {
    for (mutant, predicate, requesters) in [
        (Mutant::NoticeBeforeEnd, DURABLE_FIRST, ONE_REQUESTER),
        (Mutant::NoSecondLook, NOT_AFTER_THE_RECEIPT, ONE_REQUESTER),
        (Mutant::ClaimForEver, UNTIL_CONSUMED, ONE_REQUESTER),
        (Mutant::EdgeTriggered, UNTIL_CONSUMED, ONE_REQUESTER),
        (Mutant::SentIsConsumed, CONSUMED_WAS_HANDED_OVER, ONE_REQUESTER),
        (Mutant::AnyoneAcknowledges, CONSUMED_WAS_HANDED_OVER, TWO_REQUESTERS),
        (Mutant::ReceiptWithoutRun, CONSUMED_WAS_HANDED_OVER, ONE_REQUESTER),
        (Mutant::ResumeDropsTheDuty, UNTIL_CONSUMED, TWO_REQUESTERS),
        (Mutant::NoSecondLook, ONE_CARRIER, TWO_REQUESTERS),
        (Mutant::NobodyStandsIn, UNTIL_CONSUMED, ONE_REQUESTER),
        (Mutant::StandInIsAStranger, UNTIL_CONSUMED, ONE_REQUESTER),
    ] {
        must_break(&format!("{mutant:?}"), predicate, DeliveryWorld::new(Some(mutant), requesters));
    }
}
