//! Results and their notices: carriers that claim, send, fail and crash; a requester that may get a result and whose
//! receipt may come late, after the next run was opened.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 10 | `DURABLE_FIRST`, `UNTIL_CONSUMED` (liveness), `CONSUMED_WAS_HANDED_OVER`, `NOT_AFTER_THE_RECEIPT`, `ONE_CARRIER` |
//! | 12 | all of them: the daemon crashes at every point |

use std::rc::Rc;
use std::time::Duration;

use subagent_core::delivery::{decide_for_run, owed};
use subagent_core::need::{Need, needs};
use subagent_core::run::{Command, Delivery, Subagent};
use subagent_model::{AttemptNumber, Mode, NodeId, Requester, RunNumber, Timestamp};

use super::explore::{Move, World, must_break, must_hold};
use crate::common::{at, completed, owner, queued, text};

const DURABLE_FIRST: &str = "10: the result is durable before its notice";
const UNTIL_CONSUMED: &str = "10: a result is told until it is consumed";
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
    /// A receipt does not say for which run it is.
    ReceiptWithoutRun,
}

#[derive(Clone)]
struct DeliveryWorld {
    mutant: Option<Mutant>,
    now: i64,
    record: Rc<Subagent>,
    /// Carriers that hold a claim as far as they know, and whether they have sent.
    carriers: [Option<bool>; 2],
    /// The requester got the body of run 1, of run 2.
    got: [bool; 2],
    wake: bool,
    wrong_consumption: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    run: u32,
    ended: bool,
    consumed: bool,
    claim: Option<(String, u64)>,
    carriers: [Option<bool>; 2],
    got: [bool; 2],
    wake: bool,
}

fn carrier(index: usize) -> String {
    ["wait", "notice"][index].to_owned()
}

impl DeliveryWorld {
    fn new(mutant: Option<Mutant>) -> Self {
        let mut world = Self {
            mutant,
            now: 0,
            record: Rc::new(queued(1, &owner(), Mode::Async, at(0))),
            carriers: [None; 2],
            got: [false; 2],
            wake: false,
            wrong_consumption: false,
        };
        world.start();
        world
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn run(&self) -> usize {
        self.record.run.number.0 as usize - 1
    }

    fn start(&mut self) {
        let owner = NodeId::from("A");
        assert!(
            self.tell(self.record.run.number, &Command::Claim { owner, lease_until: Timestamp::never() })
        );
    }

    /// True when it changed something.
    fn tell(&mut self, run: RunNumber, command: &Command) -> bool {
        let now = at(self.now);
        let Ok(facts) = decide_for_run(&self.record, run, command, now) else { return false };
        let mut record = (*self.record).clone();
        for fact in &facts {
            record.apply(now, fact).unwrap();
        }
        self.record = Rc::new(record);
        !facts.is_empty()
    }

    fn acknowledge(&self, run: usize, by: Requester) -> Option<Self> {
        let mut to = self.clone();
        let by = if self.is(Mutant::AnyoneAcknowledges) { owner() } else { by };
        let meant = if self.is(Mutant::ReceiptWithoutRun) { self.run() } else { run };
        let number = RunNumber(u32::try_from(meant).unwrap() + 1);
        if !to.tell(number, &Command::Acknowledge { by }) {
            return None;
        }
        to.wrong_consumption |= !to.got[to.run()];
        Some(to)
    }

    /// The claim in the record is this carrier's, and still good.
    fn holds(&self, index: usize) -> bool {
        matches!(&self.record.run.delivery, Delivery::Owed { claim: Some(claim), .. }
            if claim.carrier == carrier(index) && claim.until > at(self.now))
    }

    fn can_send(&self, index: usize) -> bool {
        self.carriers[index] == Some(false) && (self.holds(index) || self.is(Mutant::NoSecondLook))
    }

    fn carrier_moves(&self, index: usize, push: &mut impl FnMut(String, bool, Self, Option<&'static str>)) {
        let name = carrier(index);
        let awake = if self.is(Mutant::EdgeTriggered) {
            self.wake
        } else {
            owed(&self.record).is_some_and(|owed| owed.is_free(at(self.now)))
        };
        if self.carriers[index].is_none() && awake {
            let mut to = self.clone();
            let until = if self.is(Mutant::ClaimForEver) {
                Timestamp::never()
            } else {
                at(self.now).after(Duration::from_secs(CLAIM_TICKS))
            };
            if to.tell(self.record.run.number, &Command::ClaimDelivery { carrier: name.clone(), until }) {
                to.carriers[index] = Some(false);
                to.wake = false;
                push(format!("{name} claims"), true, to, None);
            }
        }
        let early = self.is(Mutant::NoticeBeforeEnd) && !self.record.is_ended();
        if self.can_send(index) || early {
            let mut to = self.clone();
            to.carriers[index] = Some(true);
            let breaks = if !self.record.is_ended() {
                Some(DURABLE_FIRST)
            } else if matches!(self.record.run.delivery, Delivery::Consumed { .. }) {
                Some(NOT_AFTER_THE_RECEIPT)
            } else {
                None
            };
            if self.is(Mutant::SentIsConsumed) {
                let lost = to.acknowledge(self.run(), owner()).unwrap_or_else(|| to.clone());
                push(format!("{name} sends into nothing"), false, lost, None);
            }
            to.got[self.run()] = true;
            push(format!("{name} sends"), true, to, breaks);
        }
        if self.carriers[index].is_some() && !self.holds(index) {
            let mut to = self.clone();
            to.carriers[index] = None;
            push(format!("{name} sees that its claim is gone"), true, to, None);
        } else if self.carriers[index].is_some() {
            let mut to = self.clone();
            to.carriers[index] = None;
            to.tell(
                self.record.run.number,
                &Command::ReturnDelivery { carrier: name.clone(), reason: "it failed".into() },
            );
            push(format!("{name} gives up"), false, to, None);
        }
    }
}

impl World for DeliveryWorld {
    type Key = Key;

    fn key(&self) -> Key {
        let claim = match &self.record.run.delivery {
            Delivery::Owed { claim: Some(claim), .. } => {
                Some((claim.carrier.clone(), claim.until.since(at(self.now)).as_secs().min(CLAIM_TICKS + 1)))
            }
            _ => None,
        };
        Key {
            run: self.record.run.number.0,
            ended: self.record.is_ended(),
            consumed: matches!(self.record.run.delivery, Delivery::Consumed { .. }),
            claim,
            carriers: self.carriers,
            got: self.got,
            wake: self.wake,
        }
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: String, sure: bool, to: Self, breaks: Option<&'static str>| {
            moves.push(Move { label, sure, to, breaks });
        };
        let number = self.record.run.number;
        let mut to = self.clone();
        let conclusion = Box::new(completed("done"));
        let attempt = AttemptNumber(number.0);
        if !self.record.is_ended()
            && to.tell(number, &Command::Conclude { attempt, conclusion, children_live: false })
        {
            to.wake = true;
            push("the run ends".into(), false, to, None);
        }
        for index in 0..2 {
            self.carrier_moves(index, &mut push);
        }
        for run in 0..=self.run() {
            if self.got[run]
                && let Some(to) = self.acknowledge(run, owner())
            {
                push(format!("receipt for run {}", run + 1), true, to, None);
            }
        }
        if let Some(to) = self.acknowledge(self.run(), Requester::from("user:2000")) {
            push("a stranger's receipt".into(), false, to, None);
        }
        if let Some(Need::ReturnClaim { carrier }) = needs(&self.record, at(self.now))
            .into_iter()
            .find(|need| matches!(need, Need::ReturnClaim { .. }))
        {
            let mut to = self.clone();
            to.tell(number, &Command::ReturnDelivery { carrier, reason: "too slow".into() });
            push("the claim is taken back".into(), true, to, None);
        }
        // Only once it is consumed: what becomes of an unread result at a resume is not settled yet.
        if number.0 == 1 && matches!(self.record.run.delivery, Delivery::Consumed { .. }) {
            let mut to = self.clone();
            to.tell(number, &Command::Resume { prompt: text("go on"), requester: owner() });
            to.start();
            push("resume".into(), false, to, None);
        }
        // Time is sure to pass: the bound of a claim counts on it.
        push("tick".into(), true, Self { now: self.now + 1, ..self.clone() }, None);
        push("crash".into(), false, Self { carriers: [None; 2], wake: false, ..self.clone() }, None);
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if self.wrong_consumption {
            return Some(CONSUMED_WAS_HANDED_OVER);
        }
        (self.can_send(0) && self.can_send(1)).then_some(ONE_CARRIER)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let consumed = matches!(self.record.run.delivery, Delivery::Consumed { .. });
        vec![(UNTIL_CONSUMED, self.record.is_ended(), consumed)]
    }
}

#[test]
fn the_design_holds() {
    must_hold("delivery", DeliveryWorld::new(None));
}

#[test]
fn invariant_10_a_result_is_durable_and_told_until_it_is_consumed() {
    for (mutant, predicate) in [
        (Mutant::NoticeBeforeEnd, DURABLE_FIRST),
        (Mutant::NoSecondLook, NOT_AFTER_THE_RECEIPT),
        (Mutant::ClaimForEver, UNTIL_CONSUMED),
        (Mutant::EdgeTriggered, UNTIL_CONSUMED),
        (Mutant::SentIsConsumed, CONSUMED_WAS_HANDED_OVER),
        (Mutant::AnyoneAcknowledges, CONSUMED_WAS_HANDED_OVER),
        (Mutant::ReceiptWithoutRun, CONSUMED_WAS_HANDED_OVER),
        (Mutant::NoSecondLook, ONE_CARRIER),
    ] {
        must_break(&format!("{mutant:?}"), predicate, DeliveryWorld::new(Some(mutant)));
    }
}
