//! Folding facts into the state. The same table runs live, on replay and in `doctor`.

use std::sync::Arc;

use subagent_model::{
    ActivityOn, Answer, AttemptFacts, AttemptNumber, Choice, Conclusion, ErrorCode, Event, EventKind, Grant,
    Nudge, Outcome, QueueReason, RequestItem, RequestNumber, RequestState, ReturnReason, RunNumber,
    SubagentId, Subject, Timestamp, WrapUp,
};

use super::state::{Delivery, DeliveryClaim, EarlierRun, Ended, Hold, Phase, Run, Subagent, Warm};

/// How many requests that are over a run keeps.
const KEPT_REQUESTS: usize = 32;

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
        session: None,
        warm: None,
        mail: crate::mailbox::Mailbox::default(),
        grants: vec![],
        last_request: RequestNumber(0),
        run: Run {
            attachments: spec.attachments.clone(),
            ..Run::opened(RunNumber(1), spec.prompt.clone(), spec.budget, at)
        },
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

/// A fact that does not fit.
struct Misfit;

impl Subagent {
    /// Folds one fact in. On an error the state is unchanged.
    pub fn apply(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), IllegalEvent> {
        let illegal = IllegalEvent { event: kind.name(), status: self.status().as_str() };
        self.fold_in(at, kind).map_err(|Misfit| illegal)?;
        // A lease is renewed all the time: that is no change that anyone waits for.
        if !matches!(kind, EventKind::Renewed { .. }) {
            self.updated_at = self.updated_at.max(at);
        }
        self.revision += 1;
        Ok(())
    }

    fn fold_in(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        match kind {
            EventKind::Accepted { .. } => return Err(Misfit),
            EventKind::Resumed { .. } | EventKind::Queued { .. } | EventKind::Parked { .. } => {
                self.fold_wait(at, kind)?;
            }
            EventKind::Claimed { .. }
            | EventKind::Woken { .. }
            | EventKind::Renewed { .. }
            | EventKind::Started { .. }
            | EventKind::SessionOpened { .. }
            | EventKind::Prompted { .. }
            | EventKind::Progress { .. }
            | EventKind::AttemptEnded { .. }
            | EventKind::Stalled { .. }
            | EventKind::Revived { .. } => self.fold_attempt(at, kind)?,
            EventKind::Waiting { .. }
            | EventKind::Continued { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::InterruptAsked { .. }
            | EventKind::Interrupted { .. }
            | EventKind::Nudged { .. } => self.fold_turn(at, kind)?,
            EventKind::MessagePosted { .. }
            | EventKind::MessageBegun { .. }
            | EventKind::MessagePutBack { .. }
            | EventKind::MessageDelivered { .. }
            | EventKind::MessageReturned { .. } => self.fold_message(at, kind)?,
            EventKind::RequestOpened { .. }
            | EventKind::RequestAnswered { .. }
            | EventKind::RequestSettled { .. }
            | EventKind::RequestWithdrawn { .. }
            | EventKind::GrantRevoked { .. } => self.fold_request(at, kind)?,
            EventKind::WrapUpAsked { .. } | EventKind::CutOff { .. } | EventKind::BudgetChanged { .. } => {
                self.fold_limit(at, kind)?;
            }
            EventKind::StopAccepted { .. }
            | EventKind::Ended { .. }
            | EventKind::SessionClosing { .. }
            | EventKind::SessionClosed { .. } => self.fold_end(at, kind)?,
            EventKind::Late { .. } => {}
            EventKind::DeliveryClaimed { .. }
            | EventKind::DeliveryReturned { .. }
            | EventKind::DeliveryEscalated { .. }
            | EventKind::Acknowledged { .. } => self.fold_delivery(at, kind)?,
        }
        Ok(())
    }

    fn fold_wait(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        match kind {
            EventKind::Resumed { prompt, attachments, requester, message, key } => {
                if !self.is_ended() {
                    return Err(Misfit);
                }
                let number = self.run.number.next();
                let by_runtime = message
                    .and_then(|number| self.mail.follow_ups().find(|message| message.number == number));
                let by_runtime = by_runtime.is_some_and(|message| message.from.as_str() == super::RUNTIME);
                if let Some(message) = message
                    && !self.mail.deliver(*message, number, at)
                {
                    return Err(Misfit);
                }
                self.mail.unpause();
                let mut next = Run::opened(number, prompt.clone(), self.spec.budget, at);
                next.attachments.clone_from(attachments);
                next.key.clone_from(key);
                next.woken_by_runtime = by_runtime;
                let over = std::mem::replace(&mut self.run, next);
                let asked_by = std::mem::replace(&mut self.requester, requester.clone());
                // It has ended, so nothing is lost here.
                self.earlier.extend(EarlierRun::of(over, asked_by));
            }
            EventKind::Queued { reason } => match &mut self.run.phase {
                Phase::Queued { since, reason: old } => {
                    *since = at;
                    *old = reason.clone();
                    self.run.rate_hits += u32::from(matches!(reason, QueueReason::Rate { .. }));
                }
                Phase::Waiting { hold: None, held: None, .. } => {
                    self.run.phase = Phase::Queued { since: at, reason: reason.clone() };
                }
                _ => return Err(Misfit),
            },
            EventKind::Parked { until } => match &self.run.phase {
                Phase::Queued { .. } => {
                    let on = ActivityOn::Quota { until: *until };
                    self.run.rate_hits += 1;
                    self.run.phase = Phase::Waiting { hold: None, on, since: at, held: None };
                }
                _ => return Err(Misfit),
            },
            _ => return Err(Misfit),
        }
        Ok(())
    }

    fn fold_attempt(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        match kind {
            EventKind::Claimed { attempt, owner, lease_until } => {
                let fits = matches!(self.run.phase, Phase::Queued { .. }) && self.warm.is_none();
                if !fits || *attempt != self.last_attempt.next() {
                    return Err(Misfit);
                }
                self.last_attempt = *attempt;
                self.run.attempts.push(AttemptFacts {
                    attempt: *attempt,
                    claimed_at: at,
                    process: None,
                    started_at: None,
                    exit: None,
                    ended: None,
                    born_in: None,
                });
                let hold = Hold {
                    attempt: *attempt,
                    owner: owner.clone(),
                    lease_until: *lease_until,
                    born_in: None,
                };
                self.run.phase = Phase::Starting { hold };
            }
            EventKind::Woken { attempt } => {
                let Phase::Queued { .. } = self.run.phase else { return Err(Misfit) };
                let warm = self.warm.take_if(|warm| warm.hold.attempt == *attempt && warm.closing.is_none());
                let Some(warm) = warm else { return Err(Misfit) };
                let before = self.earlier.last().and_then(|earlier| earlier.attempts.last());
                self.run.attempts.push(AttemptFacts {
                    attempt: *attempt,
                    claimed_at: at,
                    process: before.and_then(|facts| facts.process.clone()),
                    started_at: Some(at),
                    exit: None,
                    ended: None,
                    born_in: warm.hold.born_in,
                });
                self.run.session_open = true;
                self.run.phase = Phase::Running { hold: warm.hold, since: at };
            }
            EventKind::Renewed { attempt, lease_until } => {
                self.hold_mut(*attempt).ok_or(Misfit)?.lease_until = *lease_until;
            }
            EventKind::Started { attempt, process } => {
                self.hold_mut(*attempt).ok_or(Misfit)?;
                if let Phase::Starting { hold } = &self.run.phase {
                    self.run.phase = Phase::Running { hold: hold.clone(), since: at };
                }
                if let Some(facts) = self.run.attempts.last_mut() {
                    facts.process.clone_from(process);
                    facts.started_at = Some(at);
                }
            }
            EventKind::SessionOpened { attempt, session } => {
                self.hold_mut(*attempt).ok_or(Misfit)?;
                self.run.session_open = true;
                if session.is_some() {
                    self.session.clone_from(session);
                }
            }
            EventKind::Prompted { attempt, position } => {
                self.hold_mut(*attempt).ok_or(Misfit)?;
                self.run.prompted = true;
                self.run.prompted_at = *position;
                self.run.last_prompted = *attempt;
                if self.run.first_prompted.0 == 0 {
                    self.run.first_prompted = *attempt;
                }
            }
            EventKind::Progress { attempt, turns, tool_uses, compactions, usage, position } => {
                self.hold_mut(*attempt).ok_or(Misfit)?;
                self.run.turns = self.run.turns.saturating_add(*turns);
                self.run.tool_uses = self.run.tool_uses.saturating_add(*tool_uses);
                self.compactions = self.compactions.saturating_add(*compactions);
                self.run.counted = position.unwrap_or(self.run.counted);
                if let Some(used) = usage {
                    self.usage = Some(self.usage.unwrap_or_default().plus(*used));
                    self.run.usage = Some(self.run.usage.unwrap_or_default().plus(*used));
                }
            }
            EventKind::AttemptEnded { attempt, reason, exit, anew } => {
                if self.hold_mut(*attempt).is_none() || matches!(self.run.phase, Phase::Stopping { .. }) {
                    return Err(Misfit);
                }
                if let Some(facts) = self.run.attempts.last_mut() {
                    facts.exit = *exit;
                    facts.ended = Some(reason.clone());
                }
                self.run.phase = Phase::Queued { since: at, reason: QueueReason::Capacity };
                self.run.counted = 0;
                self.run.session_open = false;
                self.run.interrupting = None;
                self.run.stalled_since = None;
                if *anew {
                    self.run.prompted = false;
                    self.run.first_prompted = AttemptNumber(0);
                    // An earlier run's session is what this run goes on from.
                    if self.earlier.is_empty() {
                        self.session = None;
                    }
                }
            }
            EventKind::Stalled { attempt, since } => {
                self.hold_mut(*attempt).ok_or(Misfit)?;
                self.run.stalled_since = Some(*since);
            }
            EventKind::Revived { attempt } => {
                self.hold_mut(*attempt).ok_or(Misfit)?;
                self.run.stalled_since = None;
            }
            _ => return Err(Misfit),
        }
        Ok(())
    }

    fn fold_turn(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        match kind {
            EventKind::Waiting { attempt, on, held, lives } => {
                let hold = self.hold_mut(*attempt).ok_or(Misfit)?;
                // Without a conclusion at hand it is its process that waits.
                let hold = (*lives || held.is_none()).then(|| hold.clone());
                if hold.is_none() {
                    if let (Some(held), Some(facts)) = (held, self.run.attempts.last_mut()) {
                        facts.exit = held.exit;
                    }
                    self.run.session_open = false;
                }
                self.run.stalled_since = None;
                self.run.phase = Phase::Waiting { hold, on: on.clone(), since: at, held: held.clone() };
            }
            EventKind::Continued { attempt } => match &self.run.phase {
                Phase::Waiting { hold: Some(hold), .. } if hold.attempt == *attempt => {
                    self.run.phase = Phase::Running { hold: hold.clone(), since: at };
                }
                _ => return Err(Misfit),
            },
            EventKind::TurnEnded { attempt, conclusion } => {
                self.go_on(*attempt, at)?;
                self.close(conclusion);
            }
            EventKind::InterruptAsked { by } => {
                self.run.interrupting = Some(by.clone());
                self.run.interrupted_after = Some(self.mail.newest());
                self.mail.pause();
            }
            EventKind::Interrupted { attempt } => {
                if self.run.interrupting.is_none() {
                    return Err(Misfit);
                }
                self.go_on(*attempt, at)?;
                self.run.interrupting = None;
            }
            EventKind::Nudged { attempt, nudge } => {
                self.go_on(*attempt, at)?;
                let nudges = &mut self.run.nudges;
                match nudge {
                    Nudge::FinalAnswer => nudges.final_answer += 1,
                    Nudge::Schema { .. } => nudges.schema += 1,
                    Nudge::Gate { .. } => nudges.gates += 1,
                    Nudge::Results { .. } => nudges.results += 1,
                }
            }
            _ => return Err(Misfit),
        }
        Ok(())
    }

    /// What works and has asked for something waits for the answer.
    fn working(&self, hold: Hold, since: Timestamp) -> Phase {
        match self.run.open_requests().next().map(waits_on) {
            Some(on) => Phase::Waiting { hold: Some(hold), on, since, held: None },
            None => Phase::Running { hold, since },
        }
    }

    /// A live attempt works, whatever it waited for before.
    fn go_on(&mut self, attempt: AttemptNumber, at: Timestamp) -> Result<(), Misfit> {
        let hold = self.hold_mut(attempt).ok_or(Misfit)?.clone();
        match &self.run.phase {
            Phase::Running { .. } => {}
            Phase::Waiting { .. } => self.run.phase = Phase::Running { hold, since: at },
            _ => return Err(Misfit),
        }
        Ok(())
    }

    fn close(&mut self, conclusion: &Conclusion) {
        self.run.done = Some(Box::new(conclusion.clone()));
        self.run.interrupting = None;
        self.run.stalled_since = None;
    }

    fn fold_message(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        let fits = match kind {
            EventKind::MessagePosted { message } => self.mail.post(message.clone()),
            EventKind::MessageBegun { number } => {
                let begun = self.mail.begin(*number);
                // After a turn it goes on with the message.
                if let (true, Phase::Waiting { hold: Some(hold), held: Some(_), .. }) =
                    (begun, &self.run.phase)
                {
                    self.run.phase = self.working(hold.clone(), at);
                }
                begun
            }
            EventKind::MessagePutBack { number } => self.mail.put_back(*number),
            EventKind::MessageDelivered { number } => self.mail.deliver(*number, self.run.number, at),
            EventKind::MessageReturned { number, reason } => {
                let returned = self.mail.give_back(*number, *reason, at);
                let fits = returned.is_some();
                // What is no longer wanted is nobody's loss.
                self.run.returned.extend(returned.filter(|_| *reason != ReturnReason::AlreadyRead));
                fits
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(Misfit) }
    }

    fn fold_request(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        match kind {
            EventKind::RequestOpened { attempt, request } => {
                if request.number.0 != self.last_request.0 + 1 {
                    return Err(Misfit);
                }
                let hold = self.hold_mut(*attempt).ok_or(Misfit)?.clone();
                self.last_request = request.number;
                self.run.stalled_since = None;
                self.run.requests.push(request.clone());
                self.forget_old_requests();
                if let Phase::Running { .. } = self.run.phase {
                    let on = waits_on(request);
                    self.run.phase = Phase::Waiting { hold: Some(hold), on, since: at, held: None };
                }
            }
            EventKind::RequestAnswered { number, answered } => {
                let request = self.request_mut(*number, RequestState::Open)?;
                request.state = RequestState::Answered;
                request.answered = Some(answered.clone());
                let standing = match (&request.ask.subject, &answered.answer) {
                    (Subject::Approval { action, title, .. }, Answer::Choice { choice })
                        if matches!(choice, Choice::AllowAlways | Choice::DenyAlways) =>
                    {
                        Some(Grant {
                            number: *number,
                            action: action.clone(),
                            title: title.clone(),
                            allow: choice.is_allow(),
                            by: answered.by.clone(),
                            at,
                        })
                    }
                    _ => None,
                };
                if let Some(grant) = standing {
                    self.grants.retain(|old| old.action != grant.action || old.title != grant.title);
                    self.grants.push(grant);
                }
                self.after_requests(at);
            }
            EventKind::RequestSettled { number } => {
                self.request_mut(*number, RequestState::Answered)?.state = RequestState::Settled;
            }
            EventKind::RequestWithdrawn { number, .. } => {
                let request = self.run.requests.iter_mut().find(|request| request.number == *number);
                let request = request.ok_or(Misfit)?;
                if !matches!(request.state, RequestState::Open | RequestState::Answered) {
                    return Err(Misfit);
                }
                request.state = RequestState::Withdrawn;
                self.after_requests(at);
            }
            EventKind::GrantRevoked { number, .. } => {
                let before = self.grants.len();
                self.grants.retain(|grant| grant.number != *number);
                if self.grants.len() == before {
                    return Err(Misfit);
                }
            }
            _ => return Err(Misfit),
        }
        Ok(())
    }

    fn request_mut(
        &mut self,
        number: RequestNumber,
        state: RequestState,
    ) -> Result<&mut RequestItem, Misfit> {
        let mut requests = self.run.requests.iter_mut();
        requests.find(|request| request.number == number && request.state == state).ok_or(Misfit)
    }

    /// A run that waits for answers waits for the first that is still open, and goes on without any.
    fn after_requests(&mut self, since: Timestamp) {
        let next = self.run.open_requests().next().map(waits_on);
        if let Phase::Waiting { hold: Some(hold), on, held: None, .. } = &mut self.run.phase
            && matches!(on, ActivityOn::Approval | ActivityOn::Question)
        {
            match next {
                Some(next) => *on = next,
                None => self.run.phase = Phase::Running { hold: hold.clone(), since },
            }
        }
    }

    fn forget_old_requests(&mut self) {
        let over =
            |request: &RequestItem| matches!(request.state, RequestState::Settled | RequestState::Withdrawn);
        let surplus = self.run.requests.iter().filter(|request| over(request)).count();
        let mut surplus = surplus.saturating_sub(KEPT_REQUESTS);
        self.run.requests.retain(|request| {
            let goes = surplus > 0 && over(request);
            surplus -= usize::from(goes);
            !goes
        });
    }

    fn fold_limit(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        match kind {
            EventKind::WrapUpAsked { limit } => self.run.wrap_up = Some(WrapUp { limit: *limit, at }),
            EventKind::CutOff { limit } => {
                if self.is_ended() {
                    return Err(Misfit);
                }
                self.run.cut = Some(*limit);
            }
            EventKind::BudgetChanged { budget, .. } => {
                if self.is_ended() {
                    return Err(Misfit);
                }
                self.run.budget = *budget;
                // It is judged anew by what it may use now.
                self.run.wrap_up = None;
            }
            _ => return Err(Misfit),
        }
        Ok(())
    }

    fn fold_end(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        match kind {
            EventKind::StopAccepted { stop } => match &self.run.phase {
                Phase::Starting { hold }
                | Phase::Running { hold, .. }
                | Phase::Waiting { hold: Some(hold), .. } => {
                    self.run.phase = Phase::Stopping { hold: hold.clone(), stop: stop.clone() };
                }
                // Without a process the end follows in the same step.
                Phase::Queued { .. } | Phase::Waiting { hold: None, .. } => {}
                Phase::Stopping { .. } | Phase::Ended(_) => return Err(Misfit),
            },
            EventKind::Ended {
                outcome,
                completed_at,
                result,
                marks,
                quality,
                exit,
                late_error,
                idle_until,
            } => {
                // Without a process there is no other end either, but for a limit that was reached in the queue.
                let queued = matches!(self.run.phase, Phase::Queued { .. });
                let fits = match outcome {
                    Outcome::Stopped { .. } => true,
                    Outcome::Aborted { limit } if queued => self.run.cut == Some(*limit),
                    Outcome::Error { error } if queued => error.code == ErrorCode::SessionGone,
                    _ => !queued && !matches!(self.run.phase, Phase::Stopping { .. }),
                };
                if self.is_ended() || !fits {
                    return Err(Misfit);
                }
                if let Some(until) = idle_until {
                    let hold = self.hold().ok_or(Misfit)?.clone();
                    let born_in = hold.born_in.or(Some(self.run.number));
                    self.warm = Some(Warm {
                        hold: Hold { born_in, ..hold },
                        since: at,
                        until: *until,
                        closing: None,
                    });
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
                self.run.session_open = false;
                self.run.interrupting = None;
                self.run.stalled_since = None;
                self.run.done = None;
                self.run.delivery = if self.spec.mode.is_delivered() {
                    Delivery::Owed { claim: None, tries: 0, escalated: None }
                } else {
                    Delivery::NotOwed
                };
            }
            EventKind::SessionClosing { stop } => {
                let warm = self.warm.as_mut().filter(|warm| warm.closing.is_none()).ok_or(Misfit)?;
                warm.closing = Some(stop.clone());
            }
            EventKind::SessionClosed { attempt, exit, .. } => {
                let warm = self.warm.take_if(|warm| warm.hold.attempt == *attempt).ok_or(Misfit)?;
                let run = warm.hold.born_in.unwrap_or(self.run.number);
                let number = warm.hold.attempt;
                let earlier = self.earlier.iter_mut().filter(|earlier| earlier.number >= run);
                let attempts = earlier.map(|earlier| &mut earlier.attempts).chain([&mut self.run.attempts]);
                for facts in attempts.flatten().filter(|facts| facts.attempt == number) {
                    facts.exit = *exit;
                }
            }
            _ => return Err(Misfit),
        }
        Ok(())
    }

    fn fold_delivery(&mut self, at: Timestamp, kind: &EventKind) -> Result<(), Misfit> {
        let of_run = kind.of_run().ok_or(Misfit)?;
        let Some(delivery @ Delivery::Owed { .. }) = self.delivery_mut(of_run) else { return Err(Misfit) };
        match kind {
            EventKind::DeliveryClaimed { carrier, until, .. } => {
                if let Delivery::Owed { claim, tries, .. } = delivery {
                    *claim = Some(DeliveryClaim { carrier: carrier.clone(), until: *until });
                    *tries = tries.saturating_add(1);
                }
            }
            EventKind::DeliveryReturned { .. } => {
                if let Delivery::Owed { claim, .. } = delivery {
                    *claim = None;
                }
            }
            EventKind::DeliveryEscalated { to, .. } => {
                if let Delivery::Owed { claim, escalated, .. } = delivery {
                    *claim = None;
                    *escalated = Some(to.clone());
                }
            }
            EventKind::Acknowledged { by, .. } => *delivery = Delivery::Consumed { at, by: by.clone() },
            _ => return Err(Misfit),
        }
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

fn waits_on(request: &RequestItem) -> ActivityOn {
    match request.ask.subject {
        Subject::Approval { .. } => ActivityOn::Approval,
        Subject::Question { .. } => ActivityOn::Question,
    }
}
