//! A warm agent: its process stays between runs, takes follow-ups, is closed by a stop or because it was idle for too long,
//! and can die at any time; the daemon crashes between any two steps, and what a child said is told again after that.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 1 | `ONE_PROCESS` |
//! | 2 | `LAST_ANSWER_STAYS`, `OWN_ANSWER` |
//! | 6 | `KNOWN_IS_NOT_REAPED`, `CLOSED_IN_THE_END` (liveness) |
//! | 8 | `ONE_RUN_EACH`, `EVERY_FOLLOW_UP` (liveness) |
//! | 9 | `IDLE_HOLDS_NO_SLOT` |
//! | | `CLOSING_TAKES_NO_RUN` |
//! | 12 | all of them |

use std::collections::{BTreeMap, BTreeSet};

use subagent_core::need::Need;
use subagent_core::recover::{Found, Plan, Step, plan};
use subagent_core::run::{Command, Ended, Left};
use subagent_model::{
    AttemptNumber, ErrorCode, EventKind, MessageMode, Mode, Outcome, Receipt, ReturnReason, RunNumber,
    Status, StopInfo,
};

use super::explore::{Move, World, must_break, must_hold};
use super::machine::{FACTS_APPLY, Machine};
use crate::common::commands::*;
use crate::common::{agent, at, completed, failed, text};

const ONE_PROCESS: &str = "1: at most one process lives";
const LAST_ANSWER_STAYS: &str = "2: what an ended run has said stays, whatever becomes of its process";
const OWN_ANSWER: &str = "2: a run ends with the answer to its own prompt";
const KNOWN_IS_NOT_REAPED: &str = "6: an idle process is known";
const CLOSED_IN_THE_END: &str = "6: a process that is to be closed is gone in the end";
const ONE_RUN_EACH: &str = "8: each follow-up opens one run, in order";
const EVERY_FOLLOW_UP: &str = "8: every follow-up opens a run or comes back";
const IDLE_HOLDS_NO_SLOT: &str = "9: an idle process holds no running slot";
const CLOSING_TAKES_NO_RUN: &str = "a process that is being closed takes no run";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// A claim does not look for the process that is there.
    ClaimAnew,
    /// The stop of an idle subagent is the outcome of its last run.
    StopIsAnOutcome,
    /// The end of a turn is taken for one of the current run, whichever run it is from.
    AnyTurnCounts,
    /// Recovery looks at open runs only.
    PlanForgetsIdle,
    /// The order to close is given once, and lives in memory.
    EdgeTriggered,
    /// A follow-up that opened a run stays in the queue.
    FollowUpStays,
    /// Follow-ups are started by a signal at the end of a run, held in memory.
    FollowUpBySignal,
    /// A slot is given back when the process ends.
    SlotWithTheProcess,
    /// A claim takes a process that is being closed.
    ClosingIsWoken,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Child {
    attempt: AttemptNumber,
    /// The run whose turn it is in.
    turn_of: Option<RunNumber>,
    /// The run whose turn it has ended last.
    said: Option<RunNumber>,
}

#[derive(Clone)]
struct WarmWorld {
    mutant: Option<Mutant>,
    machine: Machine,
    up: bool,
    child: Option<Child>,
    exit: Option<AttemptNumber>,
    /// Follow-ups, resumes, stops, deaths of the process that can still come.
    left: [u8; 4],
    /// What each ended run had said.
    ends: Vec<Ended>,
    signal: bool,
    broken: Option<&'static str>,
}

type Push<'a> = &'a mut dyn FnMut(&str, bool, Option<WarmWorld>);

fn answer_of(run: RunNumber) -> String {
    format!("answer {run}")
}

impl WarmWorld {
    fn new(mutant: Option<Mutant>) -> Self {
        Self {
            mutant,
            machine: Machine::new(agent(Mode::Warm), &[]),
            up: true,
            child: None,
            exit: None,
            left: [2, 1, 1, 1],
            ends: vec![],
            signal: false,
            broken: None,
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn told(&self, command: &Command) -> Option<Self> {
        let mut to = self.clone();
        let mutant = self.mutant;
        let facts = to.machine.tell_with(
            command,
            at(0),
            &|state, command| match (mutant, command) {
                (Some(Mutant::ClaimAnew), Command::Claim { .. }) => state.warm = None,
                (Some(Mutant::ClosingIsWoken), Command::Claim { .. }) => {
                    if let Some(warm) = &mut state.warm {
                        warm.closing = None;
                    }
                }
                (Some(Mutant::AnyTurnCounts), Command::TurnDone { .. }) if !state.is_ended() => {
                    state.run.prompted = true;
                    state.run.last_prompted = state.last_attempt;
                }
                _ => {}
            },
            &|mut facts| {
                for fact in &mut facts {
                    if let (Some(Mutant::FollowUpStays), EventKind::Resumed { message, .. }) = (mutant, fact)
                    {
                        *message = None;
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
        to.look_at(&facts, self);
        Some(to)
    }

    fn look_at(&mut self, facts: &[EventKind], before: &Self) {
        for fact in facts {
            match fact {
                EventKind::Ended { .. } => {
                    self.ends.extend(self.machine.state.ended().cloned());
                    self.signal = true;
                }
                EventKind::Woken { .. }
                    if before.machine.state.warm.as_ref().is_some_and(|warm| warm.closing.is_some()) =>
                {
                    self.broken = Some(CLOSING_TAKES_NO_RUN);
                }
                EventKind::SessionClosing { .. } if self.is(Mutant::StopIsAnOutcome) => {
                    self.machine.change(|state| {
                        let stop = StopInfo {
                            actor: "user:1000".into(),
                            cause: subagent_model::Cause::Requested,
                            at: at(0),
                        };
                        if let subagent_core::run::Phase::Ended(ended) = &mut state.run.phase {
                            ended.outcome = Outcome::Stopped { stop };
                        }
                    });
                }
                _ => {}
            }
        }
    }

    fn user_moves(&self, push: Push<'_>) {
        let commands = [("follow-up", follow_up()), ("resume", resume()), ("stop", stop())];
        for (place, (label, command)) in commands.into_iter().enumerate() {
            if self.left[place] > 0
                && let Some(mut to) = self.told(&command)
            {
                to.left[place] -= 1;
                push(label, false, Some(to));
            }
        }
        if self.machine.needs(at(0)).iter().any(|need| matches!(need, Need::Retire { .. })) {
            push("idle for too long", false, self.told(&stop_by("runtime", false)));
        }
    }

    fn daemon_moves(&self, push: Push<'_>) {
        let state = &self.machine.state;
        for need in self.machine.needs(at(0)) {
            match need {
                Need::Slot { .. } => push("claim", true, self.told(&claim_for_good())),
                Need::Launch { attempt } => {
                    let mut to = self.told(&started_as(attempt));
                    if let Some(to) = &mut to {
                        to.broken = to.broken.or(self.child.map(|_| ONE_PROCESS));
                        to.child = Some(Child { attempt, turn_of: None, said: None });
                    }
                    push("start", true, to);
                }
                Need::NextRun if !self.is(Mutant::FollowUpBySignal) || self.signal => {
                    let next = self.told(&Command::NextRun { prompt: text("also the words") });
                    let reason = ReturnReason::NotResumed;
                    push("next run", true, next.or_else(|| self.told(&Command::ReturnFollowUps { reason })));
                }
                Need::Kill { attempt } => {
                    let to = Self { child: None, exit: None, ..self.clone() };
                    push("kill", true, to.told(&conclude_with(attempt, failed(ErrorCode::Crashed), false)));
                }
                Need::Close { attempt } if !self.is(Mutant::EdgeTriggered) || self.signal => {
                    let to = Self { child: None, exit: None, ..self.clone() };
                    let reason = String::from("it was closed");
                    push("close", true, to.told(&Command::SessionGone { attempt, reason, exit: None }));
                }
                _ => {}
            }
        }
        if self.is(Mutant::ClosingIsWoken) && state.status() == Status::Queued {
            push("claim", true, self.told(&claim_for_good()));
        }
        if let Some(attempt) = self.exit {
            let to = Self { exit: None, ..self.clone() };
            push(
                "report the exit",
                true,
                to.told(&conclude_with(attempt, failed(ErrorCode::Crashed), false)),
            );
        }
        let Some(child) = self.child else { return };
        let attempt = child.attempt;
        if state.status() == Status::Running && !state.run.session_open {
            push("the session opens", true, self.told(&opened_as(attempt)));
        }
        if state.run.is_conversing()
            && state.run.last_prompted != attempt
            && let Some(mut to) = self.told(&prompted_as(attempt))
        {
            to.child = Some(Child { turn_of: Some(state.run.number), said: None, ..child });
            push("prompt", true, Some(to));
        }
        let done = |run| turn_done_as(attempt, completed(&answer_of(run)), Left::default());
        if let Some(run) = child.turn_of {
            let to = Self { child: Some(Child { turn_of: None, said: Some(run), ..child }), ..self.clone() };
            push("the turn ends", true, Some(to.told(&done(run)).unwrap_or_else(|| to.clone())));
        }
        if let Some(run) = child.said {
            push("the end of the turn is told again", false, self.told(&done(run)));
        }
    }

    /// What a new daemon finds, and does about it.
    fn start(&self) -> Self {
        let mut to = Self { up: true, signal: false, ..self.clone() };
        let Plan { steps, reap } = self.plan();
        if !reap.is_empty() {
            to.child = None;
            to.broken = Some(KNOWN_IS_NOT_REAPED);
        }
        for (_, step) in steps {
            let command = match step {
                Step::CloseSession { attempt } => {
                    Command::SessionGone { attempt, reason: "it is gone".into(), exit: None }
                }
                Step::Settle { attempt } => conclude_with(attempt, failed(ErrorCode::Crashed), false),
                Step::Lose { attempt } | Step::FinishStop { attempt } => gone(attempt),
                Step::Adopt { .. } | Step::Relaunch { .. } | Step::Queue | Step::AwaitChildren => continue,
            };
            to.exit = None;
            to = to.told(&command).unwrap_or(to);
        }
        to
    }

    fn plan(&self) -> Plan {
        let state = &*self.machine.state;
        let key = |attempt| state.key_of(attempt);
        let child = self.child.map(|child| (key(child.attempt), Found::Running));
        let exit = self.exit.map(|attempt| (key(attempt), Found::Exited));
        let found: BTreeMap<_, _> = exit.into_iter().chain(child).collect();
        let looked_at = state.is_live() && (!self.is(Mutant::PlanForgetsIdle) || !state.is_ended());
        plan(looked_at.then_some(state), &found, &BTreeSet::new())
    }
}

impl World for WarmWorld {
    type Key = (String, bool, Option<Child>, Option<AttemptNumber>, [u8; 4], bool);

    fn key(&self) -> Self::Key {
        (self.machine.shape(), self.up, self.child, self.exit, self.left, self.signal)
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: &str, sure: bool, to: Option<Self>| {
            moves.extend(to.map(|to| Move { label: label.into(), sure, to, breaks: None }));
        };
        if self.up {
            self.user_moves(&mut push);
            self.daemon_moves(&mut push);
            push("crash", false, Some(Self { up: false, signal: false, ..self.clone() }));
        } else {
            push("start", true, Some(self.start()));
        }
        if let (Some(child), true) = (self.child, self.left[3] > 0) {
            let mut to = Self { child: None, exit: Some(child.attempt), ..self.clone() };
            to.left[3] -= 1;
            push("the process dies", false, Some(to));
        }
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if self.broken.is_some() {
            return self.broken;
        }
        let state = &self.machine.state;
        let slot = state.holds_slot() || self.is(Mutant::SlotWithTheProcess) && state.warm.is_some();
        if state.is_idle() && slot {
            return Some(IDLE_HOLDS_NO_SLOT);
        }
        let ends = state.earlier.iter().map(|earlier| (earlier.number, &*earlier.ended));
        let ends: Vec<_> = ends.chain(state.ended().map(|ended| (state.run.number, ended))).collect();
        for ((run, end), was) in ends.iter().zip(&self.ends) {
            if *end != was {
                return Some(LAST_ANSWER_STAYS);
            }
            let said = end.result.as_ref().map(|result| result.preview.clone());
            if said.is_some_and(|said| said != answer_of(*run)) {
                return Some(OWN_ANSWER);
            }
        }
        let opened =
            state.mail.list().into_iter().filter(|posted| posted.message.mode == MessageMode::FollowUp);
        let opened: Vec<_> = opened
            .filter_map(|posted| match posted.receipt {
                Receipt::Delivered { run, .. } => Some(run),
                _ => None,
            })
            .collect();
        let resumes = usize::from(self.left[1] == 0);
        let follows = state.run.number.0 as usize - 1 - resumes;
        (!opened.is_sorted() || opened.len() != follows).then_some(ONE_RUN_EACH)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let state = &self.machine.state;
        let closing = state.warm.as_ref().is_some_and(|warm| warm.closing.is_some());
        let waits = state.mail.follow_ups().count() > 0;
        vec![(CLOSED_IN_THE_END, closing, !closing), (EVERY_FOLLOW_UP, waits, !waits)]
    }
}

#[test]
fn sm_18_the_design_holds() {
    must_hold("a warm agent", WarmWorld::new(None));
}

#[test]
fn steer_11_and_res_12_a_warm_agent_keeps_its_process_its_answers_and_its_follow_ups() {
    for (mutant, predicate) in [
        (Mutant::ClaimAnew, ONE_PROCESS),
        (Mutant::StopIsAnOutcome, LAST_ANSWER_STAYS),
        (Mutant::AnyTurnCounts, OWN_ANSWER),
        (Mutant::PlanForgetsIdle, KNOWN_IS_NOT_REAPED),
        (Mutant::EdgeTriggered, CLOSED_IN_THE_END),
        (Mutant::FollowUpStays, ONE_RUN_EACH),
        (Mutant::FollowUpBySignal, EVERY_FOLLOW_UP),
        (Mutant::SlotWithTheProcess, IDLE_HOLDS_NO_SLOT),
        (Mutant::ClosingIsWoken, CLOSING_TAKES_NO_RUN),
    ] {
        must_break(&format!("{mutant:?}"), predicate, WarmWorld::new(Some(mutant)));
    }
}
