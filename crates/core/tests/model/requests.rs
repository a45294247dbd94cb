//! Permissions and questions: a child that asks, asks again after a crash, takes back, and waits; people who answer, twice
//! or too late; time that passes; turns, runs and processes that end at any point.
//!
//! | Rule | Predicate |
//! |---|---|
//! | one answer | `ONE_ANSWER`, `ONE_ITEM_EACH`, `NO_SILENT_YES` |
//! | waiting | `WAITS_WHILE_OPEN`, `NONE_OPEN_AT_THE_END` |
//! | nothing hangs | `ANSWERED_IN_THE_END`, `TOLD_IN_THE_END` (both liveness) |
//! | standing answers | `GRANTS_ARE_GIVEN` |

use subagent_core::need::Need;
use subagent_core::run::{Command, Left, POLICY, Phase};
use subagent_model::{
    ActivityOn, Answer, Ask, Choice, ErrorCode, EventKind, Mode, PolicyWord, RequestNumber, RequestState,
    Requester, Timestamp,
};

use super::explore::{Move, World, must_break, must_hold};
use super::machine::{FACTS_APPLY, Machine};
use crate::common::commands::*;
use crate::common::{agent, at, completed, failed_for_now};

const ONE_ANSWER: &str = "perm-01: a request is answered once";
const ONE_ITEM_EACH: &str = "perm-03: what the child asks is one item, however often it is heard";
const NO_SILENT_YES: &str = "perm-02: without a person or a policy that says so, nothing is allowed";
const WAITS_WHILE_OPEN: &str = "perm-03: a run waits exactly while a request is open";
const NONE_OPEN_AT_THE_END: &str = "perm-03: an ended run has no open request";
const ANSWERED_IN_THE_END: &str = "perm-02: nothing hangs: every request is answered or withdrawn";
const TOLD_IN_THE_END: &str = "perm-01: the child is told the answer, or the request is withdrawn";
const GRANTS_ARE_GIVEN: &str = "perm-04: a standing answer is one that a person gave";

const EXPIRES: i64 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// A second answer replaces the first.
    SecondAnswerCounts,
    /// A request that is heard again is a new one.
    HeardAgainIsNew,
    /// Nobody's answer means yes.
    ExpiryAllows,
    /// The first answer lets the run go on.
    AnyAnswerGoesOn,
    /// The end of the run leaves its requests as they are.
    EndLeavesOpen,
    /// So does the end of a turn.
    TurnEndLeavesOpen,
    /// A request waits for ever.
    NeverExpires,
    /// The child is told by a signal that lives in memory.
    ToldBySignal,
    /// An answer by a policy stands.
    PolicyAnswerStands,
}

#[derive(Clone)]
struct RequestWorld {
    mutant: Option<Mutant>,
    machine: Machine,
    now: i64,
    alive: bool,
    /// The child waits for an answer to these; the number of their item.
    asked: [Option<RequestNumber>; 2],
    /// What can still be asked, answered, taken back, interrupted.
    left: [u8; 4],
    signal: bool,
    granted: bool,
    broken: Option<&'static str>,
}

type Push<'a> = &'a mut dyn FnMut(String, bool, Option<RequestWorld>);

fn what(place: usize) -> Ask {
    if place == 0 { approval("a", "make") } else { question("b") }
}

impl RequestWorld {
    fn new(mutant: Option<Mutant>) -> Self {
        let begin = [claim_for_good(), started(), opened(), prompted()];
        Self {
            mutant,
            machine: Machine::new(agent(Mode::Async), &begin),
            now: 0,
            alive: true,
            asked: [None; 2],
            left: [2, 2, 1, 1],
            signal: false,
            granted: false,
            broken: None,
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn told(&self, command: &Command) -> Option<Self> {
        let mut to = self.clone();
        let mutant = self.mutant;
        let (ends, turn) = (
            matches!(command, Command::Conclude { .. } | Command::Stop { .. }),
            matches!(command, Command::TurnDone { .. }),
        );
        let facts = to.machine.tell_with(
            command,
            at(self.now),
            &|state, command| match (mutant, command) {
                (Some(Mutant::SecondAnswerCounts), Command::Answer { .. }) => {
                    for request in &mut state.run.requests {
                        request.state = RequestState::Open;
                    }
                }
                (Some(Mutant::HeardAgainIsNew), Command::Ask { .. }) => {
                    for request in &mut state.run.requests {
                        request.ask.key.push('*');
                    }
                }
                _ => {}
            },
            &|mut facts| {
                if mutant == Some(Mutant::EndLeavesOpen) && ends
                    || mutant == Some(Mutant::TurnEndLeavesOpen) && turn
                {
                    facts.retain(|fact| !matches!(fact, EventKind::RequestWithdrawn { .. }));
                }
                for fact in &mut facts {
                    if let (Some(Mutant::ExpiryAllows), EventKind::RequestAnswered { answered, .. }) =
                        (mutant, &mut *fact)
                        && answered.by == Requester::from(POLICY)
                    {
                        answered.answer = Answer::Choice { choice: Choice::AllowOnce };
                    }
                    if let (Some(Mutant::PolicyAnswerStands), EventKind::RequestAnswered { answered, .. }) =
                        (mutant, fact)
                        && let Answer::Choice { choice } = &mut answered.answer
                    {
                        *choice = Choice::DenyAlways;
                    }
                }
                facts
            },
        )?;
        if facts.is_empty() {
            return None;
        }
        if to.machine.misfit {
            to.broken = Some(FACTS_APPLY);
            return Some(to);
        }
        to.look_at(command, &facts, self);
        Some(to)
    }

    fn look_at(&mut self, command: &Command, facts: &[EventKind], before: &Self) {
        for fact in facts {
            let EventKind::RequestAnswered { number, answered } = fact else { continue };
            self.signal = true;
            let was = before.machine.state.run.requests.iter().find(|request| request.number == *number);
            if was.is_some_and(|request| request.state != RequestState::Open) {
                self.broken = Some(ONE_ANSWER);
            }
            let allows = matches!(answered.answer, Answer::Choice { choice } if choice.is_allow());
            let allowed = matches!(
                command,
                Command::Answer { answer: Answer::Choice { .. }, .. }
                    | Command::Ask { policy: PolicyWord::Allow, .. }
            );
            let standing = before.machine.state.grants.iter().any(|grant| grant.allow);
            if allows && !allowed && !standing {
                self.broken = Some(NO_SILENT_YES);
            }
            let always = Answer::Choice { choice: Choice::AllowAlways };
            self.granted |= matches!(command, Command::Answer { answer, .. } if *answer == always);
            if self.is(Mutant::AnyAnswerGoesOn) {
                self.machine.change(|state| {
                    if let Phase::Waiting { hold: Some(hold), since, .. } = &state.run.phase {
                        state.run.phase = Phase::Running { hold: hold.clone(), since: *since };
                    }
                });
            }
        }
    }

    /// The driver knows of an older one from the log that the child was told.
    fn is_unsettled(&self, number: Option<RequestNumber>) -> bool {
        let request = self.machine.state.run.requests.iter().find(|request| Some(request.number) == number);
        request.is_some_and(|request| matches!(request.state, RequestState::Open | RequestState::Answered))
    }

    fn child_moves(&self, push: Push<'_>) {
        if !self.alive || self.broken.is_some() {
            return;
        }
        let say = |place, policy| Command::Ask {
            attempt: ONE,
            ask: what(place),
            policy,
            reason: None,
            expires_at: if self.is(Mutant::NeverExpires) {
                Timestamp::never()
            } else {
                at(self.now + EXPIRES)
            },
        };
        for place in 0..2 {
            if self.asked[place].is_none() && self.left[0] > 0 {
                for policy in [PolicyWord::Ask, PolicyWord::Deny] {
                    let mut to = self.told(&say(place, policy));
                    if let Some(to) = &mut to {
                        to.left[0] -= 1;
                        to.asked[place] = Some(to.machine.state.last_request);
                    }
                    push(format!("it asks {} ({policy:?})", what(place).key), false, to);
                }
            } else if self.is_unsettled(self.asked[place]) {
                let again = self.told(&say(place, PolicyWord::Ask));
                push(
                    format!("a new daemon hears {} again", what(place).key),
                    false,
                    again.map(|mut to| {
                        to.broken = Some(ONE_ITEM_EACH);
                        to
                    }),
                );
            }
        }
        if self.left[2] > 0 && self.asked[0].is_some() {
            let mut to = self.clone();
            to.left[2] -= 1;
            to.asked[0] = None;
            let taken = to.told(&Command::TakeBack { attempt: ONE, key: "a".into() });
            push("it takes a back".into(), false, taken);
        }
        let over = Self { asked: [None; 2], ..self.clone() };
        push(
            "the turn ends".into(),
            false,
            over.told(&turn_done_as(ONE, completed("done"), Left::default())),
        );
        let left = Left { children: true, ..Left::default() };
        push(
            "the turn ends, children live".into(),
            false,
            over.told(&turn_done_as(ONE, completed("done"), left)),
        );
        let dead = Self { alive: false, ..over };
        let crashed = conclude_with(ONE, failed_for_now(ErrorCode::Crashed), false);
        push("the process dies".into(), false, dead.told(&crashed));
    }

    fn people_moves(&self, push: Push<'_>) {
        if self.left[1] > 0 {
            let mut to = self.clone();
            to.left[1] -= 1;
            for number in 1..=self.machine.state.last_request.0 {
                for (label, command) in [
                    ("yes, always", answer(number, Choice::AllowAlways)),
                    ("no", answer(number, Choice::DenyOnce)),
                    ("a text", answer_text(number)),
                ] {
                    push(format!("somebody answers {number}: {label}"), false, to.told(&command));
                }
            }
        }
        if self.left[3] > 0 {
            let mut to = self.clone();
            to.left[3] -= 1;
            push("interrupt".into(), false, to.told(&interrupt(None)));
        }
        push("stop".into(), false, self.told(&stop()));
    }

    fn driver_moves(&self, push: Push<'_>) {
        let conclude = conclude_with(ONE, completed("done"), false);
        for need in self.machine.needs(at(self.now)) {
            match need {
                Need::Expire { number, at: due } if due <= at(self.now) => {
                    push(format!("{number} expires"), true, self.told(&Command::Expire { number }));
                }
                Need::Tell { number, .. } if !self.is(Mutant::ToldBySignal) || self.signal => {
                    let mut to = self.told(&told(number.0));
                    if let Some(to) = &mut to {
                        to.asked = to.asked.map(|asked| asked.filter(|asked| *asked != number));
                    }
                    push(format!("the child is told {number}"), true, to);
                }
                Need::Kill { .. } | Need::Finish { .. } => {
                    let to = Self { alive: false, asked: [None; 2], ..self.clone() };
                    push("the process is ended".into(), true, to.told(&conclude));
                }
                Need::Interrupt { .. } => {
                    let conclusion = Box::new(completed("half"));
                    let to = Self { asked: [None; 2], ..self.clone() };
                    let cancelled = Command::TurnCancelled {
                        attempt: ONE,
                        conclusion,
                        given: subagent_core::run::Given::Unsaid,
                    };
                    push("the turn is cancelled".into(), true, to.told(&cancelled));
                }
                _ => {}
            }
        }
    }
}

impl World for RequestWorld {
    type Key = (String, Vec<i64>, bool, [Option<RequestNumber>; 2], [u8; 4], bool, (bool, usize));

    fn key(&self) -> Self::Key {
        let run = &self.machine.state.run;
        let now = at(self.now);
        let due = run.open_requests().map(|request| i64::from(request.expires_at > now)).collect();
        let grants = self.machine.state.grants.len();
        (self.machine.shape(), due, self.alive, self.asked, self.left, self.signal, (self.granted, grants))
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: String, sure: bool, to: Option<Self>| {
            moves.extend(to.map(|to| Move { label, sure, to, breaks: None }));
        };
        self.child_moves(&mut push);
        self.people_moves(&mut push);
        self.driver_moves(&mut push);
        // Time is sure to pass.
        push("tick".into(), true, Some(Self { now: self.now + 1, ..self.clone() }));
        push("crash".into(), false, Some(Self { signal: false, ..self.clone() }));
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        let state = &self.machine.state;
        let open = state.run.open_requests().count() > 0;
        let wrong = match &state.run.phase {
            Phase::Waiting { on: ActivityOn::Approval | ActivityOn::Question, .. } => {
                (!open).then_some(WAITS_WHILE_OPEN)
            }
            // It waits for something else first, and is asked meanwhile.
            Phase::Waiting { hold: Some(_), .. } => None,
            Phase::Ended(_) | Phase::Stopping { .. } => open.then_some(NONE_OPEN_AT_THE_END),
            _ => open.then_some(WAITS_WHILE_OPEN),
        };
        let stands = !state.grants.is_empty() && !self.granted;
        self.broken.or(wrong).or(stands.then_some(GRANTS_ARE_GIVEN))
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let is = |of| self.machine.state.run.requests.iter().any(|request| request.state == of);
        let (open, answered) = (is(RequestState::Open), is(RequestState::Answered));
        vec![(ANSWERED_IN_THE_END, open, !open), (TOLD_IN_THE_END, answered, !answered)]
    }
}

#[test]
fn perm_03_the_design_holds() {
    must_hold("requests", RequestWorld::new(None));
}

#[test]
fn perm_01_to_04_a_request_has_one_answer_and_nothing_hangs() {
    for (mutant, predicate) in [
        (Mutant::SecondAnswerCounts, ONE_ANSWER),
        (Mutant::HeardAgainIsNew, ONE_ITEM_EACH),
        (Mutant::ExpiryAllows, NO_SILENT_YES),
        (Mutant::AnyAnswerGoesOn, WAITS_WHILE_OPEN),
        (Mutant::EndLeavesOpen, NONE_OPEN_AT_THE_END),
        (Mutant::TurnEndLeavesOpen, WAITS_WHILE_OPEN),
        (Mutant::NeverExpires, ANSWERED_IN_THE_END),
        (Mutant::ToldBySignal, TOLD_IN_THE_END),
        (Mutant::PolicyAnswerStands, GRANTS_ARE_GIVEN),
    ] {
        must_break(&format!("{mutant:?}"), predicate, RequestWorld::new(Some(mutant)));
    }
}
