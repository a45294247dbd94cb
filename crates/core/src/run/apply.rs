//! Folding facts into the state. The same table runs live, on replay and in `doctor`.

use std::sync::Arc;

use subagent_model::{
    AttemptFacts, AttemptNumber, Event, EventKind, Outcome, RunNumber, SubagentId, Timestamp,
};

use super::state::{Delivery, DeliveryClaim, EarlierRun, Ended, Hold, Phase, Run, Subagent};

/// A fact that cannot follow on the state: the log is damaged, or a writer is stale.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event {event} cannot follow on status {status}")]
pub struct IllegalEvent {
    /// The event.
    pub event: &'static str,
    /// The status it met.
    pub status: &'static str,
}

/// The state after the first fact of a subagent, which must be its acceptance.
pub fn born(id: SubagentId, at: Timestamp, first: &EventKind) -> Result<Subagent, IllegalEvent> {
    let EventKind::Accepted { handle, spec, parent, root, depth, requester } = first else {
        return Err(IllegalEvent { event: first.name(), status: "unborn" });
    };
    Ok(Subagent {
        id,
        handle: handle.clone(),
        spec: Arc::new((**spec).clone()),
        parent: *parent,
        root: *root,
        depth: *depth,
        requester: requester.clone(),
        created_at: at,
        updated_at: at,
        revision: 1,
        last_attempt: AttemptNumber(0),
        usage: None,
        compactions: 0,
        run: Run::opened(RunNumber(1), spec.prompt.clone(), at),
        earlier: vec![],
    })
}

/// The state that `events` of one subagent fold to; `None` when there are none.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Option<Subagent>, IllegalEvent> {
    let mut state: Option<Subagent> = None;
    for event in events {
        match &mut state {
            None => state = Some(born(event.subagent, event.at, &event.kind)?),
            Some(state) => state.apply(event.at, &event.kind)?,
        }
    }
    Ok(state)
}

impl Subagent {
    /// Folds one fact in. On an error the state is unchanged.
    pub fn apply(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), IllegalEvent> {
        let illegal = IllegalEvent { event: kind.name(), status: self.status().as_str() };
        match kind {
            EventKind::Accepted { .. } => return Err(illegal),
            EventKind::Resumed { prompt, requester } => {
                if !self.is_ended() {
                    return Err(illegal);
                }
                let next = Run::opened(self.run.number.next(), prompt.clone(), at);
                let over = std::mem::replace(&mut self.run, next);
                let asked_by = std::mem::replace(&mut self.requester, requester.clone());
                // It has ended, so nothing is lost here.
                self.earlier.extend(EarlierRun::of(over, asked_by));
            }
            EventKind::Queued { reason } => match &mut self.run.phase {
                Phase::Queued { since, reason: old } => {
                    *since = at;
                    *old = reason.clone();
                }
                _ => return Err(illegal),
            },
            EventKind::Claimed { attempt, owner, lease_until } => {
                if !matches!(self.run.phase, Phase::Queued { .. }) || *attempt != self.last_attempt.next() {
                    return Err(illegal);
                }
                self.last_attempt = *attempt;
                self.run.attempts.push(AttemptFacts {
                    attempt: *attempt,
                    claimed_at: at,
                    process: None,
                    started_at: None,
                    exit: None,
                    ended: None,
                });
                let hold = Hold { attempt: *attempt, owner: owner.clone(), lease_until: *lease_until };
                self.run.phase = Phase::Starting { hold };
            }
            EventKind::Renewed { attempt, lease_until } => match self.hold_mut(*attempt) {
                Some(hold) => hold.lease_until = *lease_until,
                None => return Err(illegal),
            },
            EventKind::Started { attempt, process } => {
                if self.hold_mut(*attempt).is_none() {
                    return Err(illegal);
                }
                if let Phase::Starting { hold } = &self.run.phase {
                    self.run.phase = Phase::Running { hold: hold.clone(), since: at };
                }
                if let Some(facts) = self.run.attempts.last_mut() {
                    facts.process.clone_from(process);
                    facts.started_at = Some(at);
                }
            }
            EventKind::Progress { attempt, turns, tool_uses, compactions, usage } => {
                if self.hold_mut(*attempt).is_none() {
                    return Err(illegal);
                }
                self.run.turns = self.run.turns.saturating_add(*turns);
                self.run.tool_uses = self.run.tool_uses.saturating_add(*tool_uses);
                self.compactions = self.compactions.saturating_add(*compactions);
                if let Some(used) = usage {
                    self.usage = Some(self.usage.unwrap_or_default().plus(*used));
                }
            }
            EventKind::Waiting { attempt, on, held } => {
                let Some(hold) = self.hold_mut(*attempt) else { return Err(illegal) };
                let hold = held.is_none().then(|| hold.clone());
                if let (Some(held), Some(facts)) = (held, self.run.attempts.last_mut()) {
                    facts.exit = held.exit;
                }
                self.run.phase = Phase::Waiting { hold, on: on.clone(), since: at, held: held.clone() };
            }
            EventKind::Continued { attempt } => match &self.run.phase {
                Phase::Waiting { hold: Some(hold), .. } if hold.attempt == *attempt => {
                    self.run.phase = Phase::Running { hold: hold.clone(), since: at };
                }
                _ => return Err(illegal),
            },
            EventKind::StopAccepted { stop } => match &self.run.phase {
                Phase::Starting { hold }
                | Phase::Running { hold, .. }
                | Phase::Waiting { hold: Some(hold), .. } => {
                    self.run.phase = Phase::Stopping { hold: hold.clone(), stop: stop.clone() };
                }
                // Without a process the end follows in the same step.
                Phase::Queued { .. } | Phase::Waiting { hold: None, .. } => {}
                Phase::Stopping { .. } | Phase::Ended(_) => return Err(illegal),
            },
            EventKind::AttemptEnded { attempt, reason, exit } => {
                if self.hold_mut(*attempt).is_none() || matches!(self.run.phase, Phase::Stopping { .. }) {
                    return Err(illegal);
                }
                if let Some(facts) = self.run.attempts.last_mut() {
                    facts.exit = *exit;
                    facts.ended = Some(reason.clone());
                }
                self.run.phase = Phase::Queued { since: at, reason: subagent_model::QueueReason::Capacity };
            }
            EventKind::Ended { outcome, completed_at, result, marks, quality, exit, late_error } => {
                // Without a process there is no other end either.
                let stopping = matches!(self.run.phase, Phase::Stopping { .. } | Phase::Queued { .. });
                if self.is_ended() || (stopping && !matches!(outcome, Outcome::Stopped { .. })) {
                    return Err(illegal);
                }
                if let (Some(facts), Some(_)) = (self.run.attempts.last_mut(), exit) {
                    facts.exit = *exit;
                }
                self.run.phase = Phase::Ended(Box::new(Ended {
                    outcome: outcome.clone(),
                    completed_at: *completed_at,
                    result: result.clone(),
                    marks: marks.clone(),
                    quality: *quality,
                    exit: *exit,
                    late_error: late_error.clone(),
                }));
                self.run.delivery = if self.spec.mode.is_delivered() {
                    Delivery::Owed { claim: None, tries: 0 }
                } else {
                    Delivery::NotOwed
                };
            }
            EventKind::Late { .. } => {}
            EventKind::DeliveryClaimed { of_run, carrier, until } => match self.delivery_mut(*of_run) {
                Some(Delivery::Owed { claim, tries }) => {
                    *claim = Some(DeliveryClaim { carrier: carrier.clone(), until: *until });
                    *tries = tries.saturating_add(1);
                }
                _ => return Err(illegal),
            },
            EventKind::DeliveryReturned { of_run, .. } => match self.delivery_mut(*of_run) {
                Some(Delivery::Owed { claim, .. }) => *claim = None,
                _ => return Err(illegal),
            },
            EventKind::Acknowledged { of_run, by } => match self.delivery_mut(*of_run) {
                Some(delivery @ Delivery::Owed { .. }) => {
                    *delivery = Delivery::Consumed { at, by: by.clone() };
                }
                _ => return Err(illegal),
            },
        }
        // A lease is renewed all the time: that is no change that anyone waits for.
        if !matches!(kind, EventKind::Renewed { .. }) {
            self.updated_at = self.updated_at.max(at);
        }
        self.revision += 1;
        Ok(())
    }

    fn hold_mut(&mut self, attempt: AttemptNumber) -> Option<&mut Hold> {
        let (Phase::Starting { hold }
        | Phase::Running { hold, .. }
        | Phase::Stopping { hold, .. }
        | Phase::Waiting { hold: Some(hold), .. }) = &mut self.run.phase
        else {
            return None;
        };
        (hold.attempt == attempt).then_some(hold)
    }
}
