//! Limits of the provider: an attempt that ends by a quota or a rate limit, before its prompt or after it; time; a stop, a
//! crash and a lost machine at any point.
//!
//! | Rule | Predicate |
//! |---|---|
//! | a parked run | `HOLDS_NO_SLOT`, `STOPPED_AT_ONCE`, `NOT_BEFORE_ITS_TIME`, `GOES_ON` (liveness) |
//! | the next attempt | `PROMPTED_ONCE`, `SAME_SESSION`, `NO_SECOND_BEGINNING`, `LIMITS_ARE_NO_FAILURES` |

use subagent_core::need::Need;
use subagent_core::run::{Command, Left, Phase};
use subagent_model::{
    ActivityOn, AttemptNumber, Conclusion, ErrorCode, EventKind, Mode, Outcome, SpawnSpec, Status, Timestamp,
};

use super::explore::{Move, World, must_break, must_hold};
use super::machine::{FACTS_APPLY, Machine};
use crate::common::commands::*;
use crate::common::{agent, at, completed, failed_until};

const HOLDS_NO_SLOT: &str = "queue-20: a parked run holds no slot";
const STOPPED_AT_ONCE: &str = "stop-10: a parked run ends with the stop itself";
const NOT_BEFORE_ITS_TIME: &str = "queue-20: a parked run does not go on before its quota is renewed";
const GOES_ON: &str = "queue-20: a run whose quota is renewed goes on by itself";
const PROMPTED_ONCE: &str = "res-09: a session that has the prompt is not prompted again";
const SAME_SESSION: &str = "res-17: the next attempt goes on in the same session";
const NO_SECOND_BEGINNING: &str = "res-17: work that was begun is not begun again without its session";
const LIMITS_ARE_NO_FAILURES: &str = "queue-19: limits of the provider do not use up the attempts of a run";

/// Attempts that may fail by themselves.
const FAILURES: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// A parked run keeps its slot.
    SlotIsKept,
    /// A stop waits for a process.
    StopWaits,
    /// Time is not looked at.
    Impatient,
    /// The run is woken by a timer in memory.
    TimerInMemory,
    /// A next attempt forgets that its session has the prompt.
    PromptedAgain,
    /// It begins a new session.
    NewSession,
    /// A session that cannot be continued is begun anew.
    BegunAgain,
    /// A limit counts as a failure.
    LimitsCount,
}

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct ParkingWorld {
    mutant: Option<Mutant>,
    machine: Machine,
    resume: bool,
    now: i64,
    alive: bool,
    /// The provider's session holds the prompt.
    holds_prompt: bool,
    /// Limits that can still be met.
    left: u8,
    timer: bool,
    broken: Option<&'static str>,
}

type Push<'a> = &'a mut dyn FnMut(&str, bool, Option<ParkingWorld>);

impl ParkingWorld {
    fn new(mutant: Option<Mutant>, resume: bool) -> Self {
        let mut spec: SpawnSpec = agent(Mode::Async);
        spec.can.resume = resume;
        Self {
            mutant,
            machine: Machine::new(spec, &[]),
            resume,
            now: 0,
            alive: false,
            holds_prompt: false,
            left: 2,
            timer: false,
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
            at(self.now),
            &|state, command| match (mutant, command) {
                (Some(Mutant::Impatient), Command::Unpark) => {
                    if let Phase::Waiting { on: ActivityOn::Quota { until }, .. } = &mut state.run.phase {
                        *until = Timestamp::from_micros(0);
                    }
                }
                (Some(Mutant::PromptedAgain), Command::Prompted { .. }) => {
                    state.run.first_prompted = AttemptNumber(0);
                }
                (Some(Mutant::BegunAgain), Command::Conclude { .. }) => state.run.prompted = false,
                (Some(Mutant::LimitsCount), Command::Conclude { .. }) => state.run.rate_hits = 99,
                _ => {}
            },
            &|mut facts| {
                if mutant == Some(Mutant::StopWaits) && matches!(command, Command::Stop { .. }) {
                    facts.retain(|fact| !matches!(fact, EventKind::Ended { .. }));
                }
                for fact in &mut facts {
                    if let (Some(Mutant::NewSession), EventKind::AttemptEnded { anew, .. }) = (mutant, fact) {
                        *anew = true;
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
        let was = &before.machine.state;
        let parked = matches!(was.run.phase, Phase::Waiting { on: ActivityOn::Quota { .. }, .. });
        if parked && matches!(command, Command::Stop { .. }) && !self.machine.state.is_ended() {
            self.broken = Some(STOPPED_AT_ONCE);
        }
        for fact in facts {
            match fact {
                EventKind::Parked { .. } => self.timer = true,
                EventKind::Queued { .. } if parked && !self.is_due(was) => {
                    self.broken = Some(NOT_BEFORE_ITS_TIME);
                }
                // The first attempt that is prompted gets the prompt, any other is told to go on.
                EventKind::Prompted { attempt, .. } if self.machine.state.run.first_prompted == *attempt => {
                    if before.holds_prompt {
                        self.broken = Some(PROMPTED_ONCE);
                    }
                    self.holds_prompt = true;
                }
                EventKind::AttemptEnded { .. } if before.holds_prompt => {
                    if !self.resume {
                        self.broken = Some(NO_SECOND_BEGINNING);
                    } else if self.machine.state.session.is_none() {
                        self.broken = Some(SAME_SESSION);
                    }
                }
                EventKind::Ended { outcome: Outcome::Error { error }, .. }
                    if error.code == ErrorCode::RateLimited && (self.resume || !before.holds_prompt) =>
                {
                    self.broken = Some(LIMITS_ARE_NO_FAILURES);
                }
                _ => {}
            }
        }
    }

    fn is_due(&self, state: &subagent_core::run::Subagent) -> bool {
        match &state.run.phase {
            Phase::Waiting { on: ActivityOn::Quota { until }, .. } => *until <= at(self.now),
            _ => true,
        }
    }

    fn attempt(&self) -> AttemptNumber {
        self.machine.state.last_attempt
    }

    /// The end of the process, as far as it goes.
    fn ended(&self, conclusion: Conclusion) -> Option<Self> {
        let mut command = conclude_with(self.attempt(), conclusion, false);
        if let Command::Conclude { max_attempts, .. } = &mut command {
            *max_attempts = FAILURES;
        }
        Self { alive: false, ..self.clone() }.told(&command)
    }

    fn daemon_moves(&self, push: Push<'_>) {
        let (state, attempt) = (&self.machine.state, self.attempt());
        for need in self.machine.needs(at(self.now)) {
            match need {
                Need::Slot { not_before: None } => push("claim", true, self.told(&claim_for_good())),
                Need::Launch { attempt } => {
                    let to = Self { alive: true, ..self.clone() };
                    push("start", true, to.told(&started_as(attempt)));
                }
                Need::Unpark { .. } if !self.is(Mutant::TimerInMemory) || self.timer => {
                    push("the quota is renewed", true, self.told(&Command::Unpark));
                }
                Need::Kill { .. } | Need::Finish { .. } => {
                    push("the process is ended", true, self.ended(completed("done")));
                }
                _ => {}
            }
        }
        if !self.alive {
            return;
        }
        if state.status() == Status::Running && !state.run.session_open {
            push("the session opens", true, self.told(&opened_as(attempt)));
        }
        if state.run.is_conversing() && state.run.last_prompted != attempt {
            push("prompt", true, self.told(&prompted_as(attempt)));
        }
        if state.run.last_prompted == attempt {
            let done = turn_done_as(attempt, completed("done"), Left::default());
            push("the turn ends", true, self.told(&done));
        }
        if self.left > 0 && state.status() == Status::Running && state.run.done.is_none() {
            let to = Self { left: self.left - 1, ..self.clone() };
            let reset = Some(at(self.now + 10));
            push("quota", false, to.ended(failed_until(ErrorCode::QuotaExhausted, reset)));
            push("rate limit", false, to.ended(failed_until(ErrorCode::RateLimited, None)));
        }
    }
}

impl World for ParkingWorld {
    type Key = (String, bool, bool, u8, bool, bool);

    fn key(&self) -> Self::Key {
        // Of the times that the shape names only this matters.
        let due = self.is_due(&self.machine.state)
            && match &self.machine.state.run.phase {
                Phase::Queued { reason, .. } => {
                    reason.not_before().is_none_or(|at_time| at_time <= at(self.now))
                }
                _ => true,
            };
        (self.machine.shape_without_times(), self.alive, self.holds_prompt, self.left, self.timer, due)
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: &str, sure: bool, to: Option<Self>| {
            moves.extend(to.map(|to| Move { label: label.into(), sure, to, breaks: None }));
        };
        self.daemon_moves(&mut push);
        push("stop", false, self.told(&stop()));
        push("much time passes", true, Some(Self { now: self.now + 1_000, ..self.clone() }));
        push("crash", false, Some(Self { timer: false, ..self.clone() }));
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        let state = &self.machine.state;
        let parked = matches!(state.run.phase, Phase::Waiting { on: ActivityOn::Quota { .. }, .. });
        let slot = state.holds_slot() || self.is(Mutant::SlotIsKept) && parked;
        self.broken.or((parked && slot).then_some(HOLDS_NO_SLOT))
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let state = &self.machine.state;
        vec![(GOES_ON, matches!(state.status(), Status::Waiting | Status::Queued), state.is_ended())]
    }
}

#[test]
fn queue_20_the_design_holds() {
    must_hold("limits of the provider", ParkingWorld::new(None, true));
    must_hold("the same, without a session to continue", ParkingWorld::new(None, false));
}

#[test]
fn queue_19_and_20_a_run_waits_for_its_provider_and_goes_on() {
    for (mutant, predicate, resume) in [
        (Mutant::SlotIsKept, HOLDS_NO_SLOT, true),
        (Mutant::StopWaits, STOPPED_AT_ONCE, true),
        (Mutant::Impatient, NOT_BEFORE_ITS_TIME, true),
        (Mutant::TimerInMemory, GOES_ON, true),
        (Mutant::PromptedAgain, PROMPTED_ONCE, true),
        (Mutant::NewSession, SAME_SESSION, true),
        (Mutant::BegunAgain, NO_SECOND_BEGINNING, false),
        (Mutant::LimitsCount, LIMITS_ARE_NO_FAILURES, true),
    ] {
        must_break(&format!("{mutant:?}"), predicate, ParkingWorld::new(Some(mutant), resume));
    }
}
