//! Limits of a run: a child that takes turns, uses tokens, and may or may not wrap up when it is told to; limits that are
//! watched outside the run; a budget that is raised; stops and crashes at any point.
//!
//! | Rule | Predicate |
//! |---|---|
//! | two steps | `WARNED_FIRST`, `ONE_WARNING`, `WITHIN_THE_GRACE` |
//! | the cut | `ONE_CUT`, `CUT_ENDS` (liveness), `CUT_IS_NO_SUCCESS`, `ABORTED_BY_A_CUT`, `PARTIAL_IS_KEPT` |
//! | the words | `STEERED_BY_TURNS`, `COMPLETED_UNWARNED` |

use subagent_core::need::Need;
use subagent_core::run::{Command, Left};
use subagent_model::{Budget, EventKind, Limit, Mark, Mode, Outcome, SpawnSpec, Steering};

use super::explore::{Move, World, must_break, must_hold};
use super::machine::{FACTS_APPLY, Machine};
use crate::common::commands::*;
use crate::common::{agent, at, completed};

const WARNED_FIRST: &str =
    "sm-20: a cut at the turn limit comes after a request to wrap up, and the whole grace";
const ONE_WARNING: &str = "queue-13: each limit is warned of once, unless the budget was changed";
const WITHIN_THE_GRACE: &str = "sm-20: no turn is taken after the cut";
const ONE_CUT: &str = "queue-13: a run is cut off once";
const CUT_ENDS: &str = "queue-13: a cut run ends, whatever its child does";
const CUT_IS_NO_SUCCESS: &str = "queue-13: a cut run never ends well";
const ABORTED_BY_A_CUT: &str = "queue-13: aborted is said of a cut run only, and names its limit";
const PARTIAL_IS_KEPT: &str = "sm-20: what there is of the answer of a cut run is kept and marked";
const STEERED_BY_TURNS: &str = "sm-20: steered is said only after a request at the turn limit";
const COMPLETED_UNWARNED: &str = "sm-20: a run that wrapped up at its turn limit is not completed";

const TURNS: u32 = 1;
const GRACE: u32 = 2;
const TOKENS: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// The limit itself cuts.
    NoGrace,
    /// It is told again with each report.
    WarnsAgain,
    /// A limit cuts again with each report.
    CutsAgain,
    /// The end of the process decides how a cut run ended.
    EndForgetsCut,
    /// The order to end a cut run is given once, and lives in memory.
    EdgeTriggered,
    /// The answer of a cut run is dropped.
    PartialDropped,
    /// Any request to wrap up makes a run steered.
    AnyWarningSteers,
    /// None does.
    NoWarningSteers,
    /// A run that was stopped at a limit that nobody cut at.
    AbortedWithoutCut,
    /// A cut is taken back by what comes after it.
    CutIsLifted,
    /// Nothing is ever cut off.
    NeverCuts,
}

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct LimitWorld {
    mutant: Option<Mutant>,
    machine: Machine,
    /// Turns and reports that the child can still make, changes of the budget, and limits from outside.
    left: [u32; 4],
    in_turn: bool,
    alive: bool,
    edge: bool,
    /// Limits that were warned of since the budget was changed.
    warned: Vec<Limit>,
    stopped: bool,
    /// It was cut off, and by which limit.
    cut: Option<Limit>,
    broken: Option<&'static str>,
}

type Push<'a> = &'a mut dyn FnMut(&str, bool, Option<LimitWorld>);

impl LimitWorld {
    fn new(mutant: Option<Mutant>, steering: Steering) -> Self {
        let budget = Budget {
            max_turns: Some(TURNS),
            grace_turns: Some(GRACE),
            max_tokens: Some(TOKENS),
            ..Budget::default()
        };
        let mut spec = SpawnSpec { budget, ..agent(Mode::Async) };
        spec.can.steering = steering;
        let begin = [claim_for_good(), started(), opened(), prompted()];
        Self {
            mutant,
            machine: Machine::new(spec, &begin),
            left: [TURNS + GRACE + 1, 2, 1, 1],
            in_turn: true,
            alive: true,
            edge: false,
            warned: vec![],
            stopped: false,
            cut: None,
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
            &|state, command| {
                let run = &mut state.run;
                match (mutant, command) {
                    (Some(Mutant::NoGrace), Command::Progress { .. }) => run.budget.grace_turns = Some(0),
                    (Some(Mutant::WarnsAgain), Command::Progress { .. }) => run.wrap_up = None,
                    (Some(Mutant::CutsAgain), Command::Progress { .. } | Command::Cut { .. })
                    | (Some(Mutant::EndForgetsCut), Command::Conclude { .. })
                    | (Some(Mutant::CutIsLifted), Command::ChangeBudget { .. }) => run.cut = None,
                    (Some(Mutant::AnyWarningSteers), Command::TurnDone { .. } | Command::Conclude { .. }) => {
                        if let Some(asked) = &mut run.wrap_up {
                            asked.limit = Limit::Turns;
                        }
                    }
                    (Some(Mutant::NoWarningSteers), Command::TurnDone { .. } | Command::Conclude { .. }) => {
                        run.wrap_up = None;
                    }
                    _ => {}
                }
            },
            &|mut facts| {
                if mutant == Some(Mutant::NeverCuts) {
                    facts.retain(|fact| !matches!(fact, EventKind::CutOff { .. }));
                }
                for fact in &mut facts {
                    let EventKind::Ended { outcome, result, .. } = fact else { continue };
                    match mutant {
                        Some(Mutant::PartialDropped) => *result = None,
                        Some(Mutant::AbortedWithoutCut) if *outcome == Outcome::Steered => {
                            *outcome = Outcome::Aborted { limit: Limit::Turns };
                        }
                        _ => {}
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
        let was = &before.machine.state.run;
        for fact in facts {
            match fact {
                EventKind::WrapUpAsked { limit } => {
                    if self.warned.contains(limit) {
                        self.broken = Some(ONE_WARNING);
                    }
                    self.warned.push(*limit);
                }
                EventKind::BudgetChanged { .. } => self.warned.clear(),
                EventKind::CutOff { limit } => {
                    self.edge = true;
                    self.cut = self.cut.or(Some(*limit));
                    let taken = self.machine.state.run.turns;
                    let early = !before.warned.contains(limit) || taken < TURNS + GRACE;
                    if *limit == Limit::Turns && early {
                        self.broken = Some(WARNED_FIRST);
                    } else if was.cut.is_some() {
                        self.broken = Some(ONE_CUT);
                    }
                }
                EventKind::StopAccepted { .. } => self.stopped = true,
                EventKind::Ended { outcome, result, marks, .. } => {
                    self.judge_end(outcome, result.is_some(), marks, before);
                }
                _ => {}
            }
        }
    }

    fn judge_end(&mut self, outcome: &Outcome, has_result: bool, marks: &[Mark], before: &Self) {
        let cut = self.cut;
        let turns = before.warned.contains(&Limit::Turns);
        self.broken = self.broken.or(match outcome {
            Outcome::Completed | Outcome::Steered | Outcome::Error { .. } | Outcome::Lost { .. }
                if cut.is_some() =>
            {
                Some(CUT_IS_NO_SUCCESS)
            }
            Outcome::Aborted { limit } if cut != Some(*limit) => Some(ABORTED_BY_A_CUT),
            Outcome::Aborted { .. } if !has_result || !marks.contains(&Mark::Partial) => {
                Some(PARTIAL_IS_KEPT)
            }
            Outcome::Steered if !turns => Some(STEERED_BY_TURNS),
            Outcome::Completed if turns => Some(COMPLETED_UNWARNED),
            _ => None,
        });
    }

    fn child_moves(&self, push: Push<'_>) {
        let run = &self.machine.state.run;
        if !self.alive || !self.in_turn {
            return;
        }
        let report = |to: Self, command: &Command| Some(to.told(command).unwrap_or(to));
        if self.left[0] > 0 && run.cut.is_none() {
            let mut to = self.clone();
            to.left[0] -= 1;
            push("another turn", false, report(to, &progress(ONE, 1, true)));
        }
        if self.left[1] > 0 {
            let mut to = self.clone();
            to.left[1] -= 1;
            // Near the limit first, then over it.
            let used = if self.left[1] == 2 { TOKENS - 1 } else { 1 };
            push("tokens", false, report(to, &spent(ONE, tokens(used))));
        }
        let to = Self { in_turn: false, ..self.clone() };
        push(
            "the turn ends",
            false,
            report(to, &turn_done_as(ONE, completed("half of it"), Left::default())),
        );
        let to = Self { alive: false, in_turn: false, ..self.clone() };
        push("the process ends", false, to.told(&conclude_with(ONE, completed("half of it"), false)));
    }

    fn outside_moves(&self, push: Push<'_>) {
        if self.left[3] > 0 {
            let mut to = self.clone();
            to.left[3] -= 1;
            push("the deadline is near", false, to.told(&wrap_up()));
            push("the deadline is over", false, to.told(&cut()));
        }
        if self.left[2] > 0 {
            let mut to = self.clone();
            to.left[2] -= 1;
            push("the budget is raised", false, to.told(&change_budget(9)));
        }
        push("stop", false, self.told(&stop()));
        push("crash", false, Some(Self { edge: false, ..self.clone() }));
    }

    fn driver_moves(&self, push: Push<'_>) {
        for need in self.machine.needs(at(0)) {
            let ordered = match need {
                Need::CutOff { .. } => !self.is(Mutant::EdgeTriggered) || self.edge,
                Need::Finish { .. } | Need::Kill { .. } => true,
                Need::HandOver { number, .. } => {
                    push("settle", true, self.told(&settle(number.0, subagent_model::Written::Yes)));
                    false
                }
                _ => false,
            };
            if ordered {
                let to = Self { alive: false, in_turn: false, ..self.clone() };
                push(
                    "the process is ended",
                    true,
                    to.told(&conclude_with(ONE, completed("half of it"), false)),
                );
            }
        }
    }
}

impl World for LimitWorld {
    type Key = (String, [u32; 4], [bool; 4], Vec<String>);

    fn key(&self) -> Self::Key {
        let warned = self.warned.iter().map(|limit| format!("{limit:?}")).collect();
        let flags = [self.in_turn, self.alive, self.edge, self.cut.is_some()];
        (self.machine.shape(), self.left, flags, warned)
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: &str, sure: bool, to: Option<Self>| {
            moves.extend(to.map(|to| Move { label: label.into(), sure, to, breaks: None }));
        };
        self.child_moves(&mut push);
        self.outside_moves(&mut push);
        self.driver_moves(&mut push);
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        let run = &self.machine.state.run;
        let limited = run.budget.max_turns == Some(TURNS) && !self.stopped;
        let beyond = limited && run.turns > TURNS + GRACE;
        self.broken.or(beyond.then_some(WITHIN_THE_GRACE))
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let state = &self.machine.state;
        vec![(CUT_ENDS, state.run.cut.is_some(), state.is_ended())]
    }
}

#[test]
fn sm_20_the_design_holds() {
    must_hold("limits, messages into the turn", LimitWorld::new(None, Steering::Live));
    must_hold("limits, no messages", LimitWorld::new(None, Steering::None));
}

#[test]
fn queue_13_a_limit_warns_then_cuts_and_the_words_are_true() {
    for (mutant, predicate) in [
        (Mutant::NoGrace, WARNED_FIRST),
        (Mutant::WarnsAgain, ONE_WARNING),
        (Mutant::CutsAgain, ONE_CUT),
        (Mutant::EndForgetsCut, CUT_IS_NO_SUCCESS),
        (Mutant::EdgeTriggered, CUT_ENDS),
        (Mutant::PartialDropped, PARTIAL_IS_KEPT),
        (Mutant::AnyWarningSteers, STEERED_BY_TURNS),
        (Mutant::NoWarningSteers, COMPLETED_UNWARNED),
        (Mutant::AbortedWithoutCut, ABORTED_BY_A_CUT),
        (Mutant::CutIsLifted, CUT_IS_NO_SUCCESS),
        (Mutant::NeverCuts, WITHIN_THE_GRACE),
    ] {
        must_break(&format!("{mutant:?}"), predicate, LimitWorld::new(Some(mutant), Steering::Live));
    }
}
