//! The life of an attempt up to its end: slot, lease, process, session, progress.

use subagent_model::{
    AttemptNumber, EventKind, ExitFacts, NodeId, ProcessIdentity, QueueReason, Timestamp, Usage,
};

use super::super::command::Refusal;
use super::super::state::Phase;
use super::{Decision, Table};
use crate::budget::{Judgement, Spent, judge};

impl Table<'_> {
    /// A warm subagent goes on in its live process; any other gets a new attempt.
    pub(super) fn claim(&self, owner: &NodeId, lease_until: Timestamp) -> Decision {
        if !self.state.may_claim() {
            return Err(self.illegal());
        }
        Ok(vec![match &self.state.warm {
            Some(warm) => EventKind::Woken { attempt: warm.hold.attempt },
            None => self.claimed(owner, lease_until),
        }])
    }

    pub(super) fn claimed(&self, owner: &NodeId, lease_until: Timestamp) -> EventKind {
        EventKind::Claimed { attempt: self.state.last_attempt.next(), owner: owner.clone(), lease_until }
    }

    pub(super) fn renew(&self, attempt: AttemptNumber, lease_until: Timestamp) -> Decision {
        let hold = self.fenced(attempt)?;
        if hold.lease_until <= self.now || lease_until <= hold.lease_until {
            return Err(Refusal::Lease { attempt });
        }
        Ok(vec![EventKind::Renewed { attempt, lease_until }])
    }

    pub(super) fn reclaim(&self, owner: &NodeId, lease_until: Timestamp, max_attempts: u32) -> Decision {
        let hold = self.state.hold().ok_or_else(|| self.illegal())?;
        if hold.lease_until > self.now {
            return Err(Refusal::Lease { attempt: hold.attempt });
        }
        if let Phase::Stopping { stop, .. } = self.phase() {
            return Ok(self.end(Self::stopped(stop, None)));
        }
        if let Some(end) = self.end_at_hand() {
            return Ok(self.end(end));
        }
        let reason = String::from("the lease ran out");
        if self.failures() >= max_attempts {
            return Ok(self.end(self.spent(&reason, None)));
        }
        let mut facts = self.close_conversation();
        facts.extend([
            EventKind::AttemptEnded { attempt: hold.attempt, reason, exit: None, anew: false },
            EventKind::Queued { reason: QueueReason::Capacity },
            self.claimed(owner, lease_until),
        ]);
        Ok(facts)
    }

    pub(super) fn started(&self, attempt: AttemptNumber, process: Option<&ProcessIdentity>) -> Decision {
        self.fenced(attempt)?;
        let unseen = self.state.run.attempts.last().is_some_and(|facts| facts.started_at.is_none());
        match self.phase() {
            Phase::Starting { .. } | Phase::Stopping { .. } if unseen => {
                Ok(vec![EventKind::Started { attempt, process: process.cloned() }])
            }
            // Adoption tells it again.
            Phase::Running { .. } | Phase::Stopping { .. } | Phase::Waiting { .. } => Ok(vec![]),
            _ => Err(self.illegal()),
        }
    }

    pub(super) fn opened(&self, attempt: AttemptNumber, session: Option<&String>) -> Decision {
        self.fenced(attempt)?;
        let run = &self.state.run;
        if !matches!(run.phase, Phase::Running { .. } | Phase::Waiting { .. }) || run.cut.is_some() {
            // It is being stopped, or not even told to be running: adoption tells it again.
            return Ok(vec![]);
        }
        let known = session.is_none() || session == self.state.session.as_ref();
        if run.session_open && known {
            return Ok(vec![]);
        }
        Ok(vec![EventKind::SessionOpened { attempt, session: session.cloned() }])
    }

    /// The first message that waits goes along with the prompt.
    pub(super) fn prompted(&self, attempt: AttemptNumber, position: u64) -> Decision {
        self.fenced(attempt)?;
        let run = &self.state.run;
        if !run.is_conversing() {
            return Err(self.illegal());
        }
        if run.last_prompted == attempt {
            return Ok(vec![]);
        }
        let mut facts = vec![EventKind::Prompted { attempt, position }];
        facts.extend(self.hand_over_when(true));
        Ok(facts)
    }

    /// What finished is counted, and the budget is judged by it.
    pub(super) fn progress(
        &self,
        attempt: AttemptNumber,
        [turns, tool_uses, compactions]: [u32; 3],
        more: bool,
        usage: Option<Usage>,
        position: Option<u64>,
    ) -> Decision {
        self.fenced(attempt)?;
        if position.is_some_and(|position| position < self.state.run.counted) {
            // Taken over from somebody who had counted further: it would count twice.
            return Ok(vec![]);
        }
        let mut facts = vec![EventKind::Progress { attempt, turns, tool_uses, compactions, usage, position }];
        let run = &self.state.run;
        let used = match (run.usage, usage) {
            (None, None) => None,
            (before, now) => Some(before.unwrap_or_default().plus(now.unwrap_or_default())),
        };
        let spent = Spent {
            turns: run.turns.saturating_add(turns),
            tokens: used.map_or(0, |used| used.total),
            cost_usd: used.and_then(|used| used.cost_usd),
            tool_calls: run.tool_uses.saturating_add(tool_uses),
        };
        let warned = run.wrap_up.map(|wrap_up| wrap_up.limit);
        facts.extend(match judge(&run.budget, &spent, warned, more) {
            Judgement::Go => vec![],
            Judgement::WrapUp { limit } => self.wrap_up(limit),
            Judgement::Cut { limit } => self.cut(limit),
        });
        Ok(facts)
    }

    /// How the run ends though nothing is known of the end of its process: it is over a limit, or its turn was over before.
    fn end_at_hand(&self) -> Option<EventKind> {
        let run = &self.state.run;
        let held = match &run.phase {
            Phase::Waiting { held, .. } => held.as_deref(),
            _ => None,
        };
        let over = run.done.as_deref().or(held);
        match run.cut {
            Some(limit) => Some(self.aborted(limit, over)),
            None => over.map(|over| self.ended(&self.as_it_counts(over))),
        }
    }

    /// An attempt that never began: the run goes back to the queue.
    pub(super) fn requeue(
        &self,
        attempt: AttemptNumber,
        reason: &str,
        exit: Option<ExitFacts>,
        not_before: Option<Timestamp>,
        max_attempts: u32,
    ) -> Decision {
        if self.fenced(attempt).is_err() {
            return self.late(attempt, reason);
        }
        if let Phase::Stopping { stop, .. } = self.phase() {
            let mut end = self.stopped_without_process(stop, None);
            if let EventKind::Ended { exit: known, .. } = &mut end {
                *known = exit;
            }
            return Ok(self.end(end));
        }
        if let Some(end) = self.end_at_hand() {
            return Ok(self.end(end));
        }
        if self.failures() >= max_attempts {
            return Ok(self.end(self.spent(reason, exit)));
        }
        let reason_to_wait = not_before.map_or(QueueReason::Capacity, |at| QueueReason::Retry { at });
        Ok(self.again(attempt, reason, exit, reason_to_wait, false))
    }

    /// Another attempt of the run.
    pub(super) fn again(
        &self,
        attempt: AttemptNumber,
        reason: &str,
        exit: Option<ExitFacts>,
        wait_for: QueueReason,
        anew: bool,
    ) -> Vec<EventKind> {
        let mut facts = self.close_conversation();
        facts.push(EventKind::AttemptEnded { attempt, reason: reason.to_owned(), exit, anew });
        facts.push(EventKind::Queued { reason: wait_for });
        facts
    }

    pub(super) fn stall(&self, attempt: AttemptNumber, since: Timestamp) -> Decision {
        self.fenced(attempt)?;
        let run = &self.state.run;
        let working = matches!(run.phase, Phase::Running { .. }) && run.done.is_none() && run.cut.is_none();
        if !working || self.state.run.stalled_since.is_some() {
            return Ok(vec![]);
        }
        Ok(vec![EventKind::Stalled { attempt, since }])
    }

    pub(super) fn revive(&self, attempt: AttemptNumber) -> Decision {
        self.fenced(attempt)?;
        let stalled = self.state.run.stalled_since.is_some();
        Ok(if stalled { vec![EventKind::Revived { attempt }] } else { vec![] })
    }
}
