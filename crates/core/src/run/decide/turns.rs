//! The end of a turn whose process lives on: what still waits is said first, then the run waits for what it left, then
//! it ends. Decided in one step with whatever arrives meanwhile, so that no message falls between.

use subagent_model::{
    ActivityOn, AttemptNumber, Cause, Conclusion, EventKind, Message, Nudge, Outcome, StopInfo,
};

use super::super::command::{Given, Left};
use super::super::state::Phase;
use super::{Decision, Table};

/// How often a run is asked to go on for the results of its children.
const RESULT_NUDGES: u32 = 3;

impl Table<'_> {
    pub(super) fn turn_done(&self, attempt: AttemptNumber, conclusion: &Conclusion, left: Left) -> Decision {
        if self.fenced(attempt).is_err() {
            return self.late(attempt, &format!("the turn ended: {}", conclusion.outcome.status()));
        }
        let run = &self.state.run;
        // The process is being ended, and the run ends with it.
        if matches!(run.phase, Phase::Stopping { .. }) || run.cut.is_some() || run.done.is_some() {
            return Ok(vec![]);
        }
        if !self.has_turn() {
            return self.late(attempt, "a turn that is not of this run ended");
        }
        if run.interrupting.is_some() {
            return Ok(self.interrupted(attempt, conclusion, left.given));
        }
        if let Some(facts) = self.say_next(left.given) {
            return Ok(facts);
        }
        let wait_for = match left {
            Left { children: true, .. } => Some(ActivityOn::Children),
            Left { background: true, .. } => Some(ActivityOn::Background),
            Left { children: false, background: false, .. } => None,
        };
        if let Some(on) = wait_for {
            let held = Some(Box::new(conclusion.clone()));
            let mut facts = self.close_turn(left.given);
            facts.push(EventKind::Waiting { attempt, on, held, lives: true });
            return Ok(facts);
        }
        if left.unread > 0 && run.nudges.results < RESULT_NUDGES {
            let mut facts = self.close_turn(left.given);
            facts.push(EventKind::Nudged { attempt, nudge: Nudge::Results { count: left.unread } });
            return Ok(facts);
        }
        Ok(self.over(attempt, conclusion))
    }

    /// What waits is said before the run waits or ends.
    fn say_next(&self, given: Given) -> Option<Vec<EventKind>> {
        let next = self.not_given(given).or_else(|| self.state.mail.next())?.number;
        let mut facts = self.close_turn(given);
        facts.push(EventKind::MessageBegun { number: next });
        Some(facts)
    }

    /// The message in hand, where the child certainly was not given it.
    fn not_given(&self, given: Given) -> Option<&Message> {
        let certain = |message: &&Message| given != Given::Unsaid && given != Given::Message(message.number);
        self.state.mail.handing().filter(certain)
    }

    /// True when the child can have a turn of this run: a process that was never given its prompt cannot have ended it.
    fn has_turn(&self) -> bool {
        let live = matches!(self.phase(), Phase::Running { .. } | Phase::Waiting { hold: Some(_), .. });
        live && self.state.has_prompt()
    }

    /// Nothing is left to say or to wait for. A warm process stays, any other is closed, and the run ends with it.
    fn over(&self, attempt: AttemptNumber, conclusion: &Conclusion) -> Vec<EventKind> {
        let conclusion = self.as_it_counts(conclusion);
        if self.state.spec.is_warm() {
            return self.end_idle(self.ended(&conclusion));
        }
        let mut facts = self.close_turn(Given::Unsaid);
        facts.push(EventKind::TurnEnded { attempt, conclusion: Box::new(conclusion) });
        facts
    }

    pub(super) fn turn_cancelled(
        &self,
        attempt: AttemptNumber,
        conclusion: &Conclusion,
        given: Given,
    ) -> Decision {
        if self.fenced(attempt).is_err() {
            return self.late(attempt, "the turn was cancelled");
        }
        let run = &self.state.run;
        if matches!(run.phase, Phase::Stopping { .. }) || run.cut.is_some() || run.done.is_some() {
            return Ok(vec![]);
        }
        if !self.has_turn() {
            return self.late(attempt, "a turn that is not of this run was cancelled");
        }
        if run.interrupting.is_some() {
            return Ok(self.interrupted(attempt, conclusion, given));
        }
        // Nobody asked for it: it has failed.
        let stop = StopInfo { actor: String::from("the child"), cause: Cause::Requested, at: self.now };
        let unasked = Conclusion { outcome: Outcome::Stopped { stop }, ..conclusion.clone() };
        Ok(self.over(attempt, &unasked))
    }

    /// What was sent with or after the interrupt goes on in the same run. Without any, the run ends, and its queue waits
    /// for the next message.
    fn interrupted(&self, attempt: AttemptNumber, conclusion: &Conclusion, given: Given) -> Vec<EventKind> {
        let asked_on = self.asked_on();
        let next = self.not_given(given).or_else(|| self.state.mail.next()).filter(|_| asked_on);
        let mut facts = if self.state.spec.is_warm() && !asked_on { vec![] } else { self.close_turn(given) };
        facts.push(EventKind::Interrupted { attempt });
        if let Some(next) = next {
            facts.push(EventKind::MessageBegun { number: next.number });
            return facts;
        }
        let run = &self.state.run;
        let actor = run.interrupting.as_ref().map_or_else(String::new, ToString::to_string);
        let stop = StopInfo { actor, cause: Cause::Interrupted, at: self.now };
        if self.state.spec.is_warm() {
            facts.extend(self.end_idle(Self::stopped(&stop, Some(conclusion))));
        } else {
            facts.push(EventKind::StopAccepted { stop });
        }
        facts
    }

    /// True when something was sent with or after the interrupt. What the runtime had to say was for the turn that is over.
    pub(super) fn asked_on(&self) -> bool {
        let before = self.state.run.interrupted_after;
        self.state.mail.waiting().any(|message| {
            message.from.as_str() != super::super::RUNTIME
                && before.is_none_or(|before| message.number > before)
        })
    }

    pub(super) fn nudge(&self, attempt: AttemptNumber, nudge: &Nudge, given: Given) -> Decision {
        self.fenced(attempt)?;
        let run = &self.state.run;
        if !run.is_conversing() || !self.has_turn() || run.interrupting.is_some() {
            return Err(self.illegal());
        }
        let mut facts = self.close_turn(given);
        facts.push(EventKind::Nudged { attempt, nudge: nudge.clone() });
        Ok(facts)
    }

    pub(super) fn background_ended(&self, attempt: AttemptNumber) -> Decision {
        self.fenced(attempt)?;
        match self.phase() {
            // It is being ended, and will be aborted.
            _ if self.state.run.cut.is_some() => Ok(vec![]),
            Phase::Waiting { on: ActivityOn::Background, held: Some(held), .. } => {
                Ok(self.say_next(Given::Unsaid).unwrap_or_else(|| self.over(attempt, held)))
            }
            _ => Ok(vec![]),
        }
    }

    /// The last child has ended. A child that is alive is told of results that it has not read; it may want to go on.
    pub(super) fn children_ended(&self, unread: u32) -> Decision {
        let Phase::Waiting { hold, on: ActivityOn::Children, held: Some(held), .. } = self.phase() else {
            return Err(self.illegal());
        };
        let Some(alive) = hold else {
            return Ok(self.end(self.ended(&self.as_it_counts(held))));
        };
        if self.state.run.cut.is_some() {
            return Ok(vec![]);
        }
        if unread > 0 && self.state.run.nudges.results < RESULT_NUDGES {
            let mut facts = self.close_turn(Given::Unsaid);
            let nudge = Nudge::Results { count: unread };
            facts.push(EventKind::Nudged { attempt: alive.attempt, nudge });
            return Ok(facts);
        }
        Ok(self.say_next(Given::Unsaid).unwrap_or_else(|| self.over(alive.attempt, held)))
    }
}
