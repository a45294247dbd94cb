//! How runs end: by the end of a process, by a stop, by loss. Whatever the way, what was not delivered comes back and open
//! requests are withdrawn in the same step.

use subagent_model::{
    ActivityOn, AttemptNumber, Cause, Conclusion, ErrorCode, ErrorInfo, EventKind, ExitFacts, Limit, Mark,
    Mode, OnLoss, Outcome, Quality, QueueReason, RequestState, ReturnReason, StopInfo,
};

use super::super::command::Given;
use super::super::state::Phase;
use super::{Decision, Table};
use crate::retry::{Failure, Next, Tries, next};

impl Table<'_> {
    pub(super) fn conclude(
        &self,
        attempt: AttemptNumber,
        conclusion: &Conclusion,
        children_live: bool,
        max_attempts: u32,
    ) -> Decision {
        if self.fenced(attempt).is_err() {
            let what = format!("the attempt ended: {}", conclusion.outcome.status());
            return match self.idle_attempt() {
                Some(idle) if idle == attempt => {
                    self.session_gone(attempt, "the process ended", conclusion.exit)
                }
                _ => self.late(attempt, &what),
            };
        }
        let run = &self.state.run;
        if let Phase::Stopping { stop, .. } = &run.phase {
            // What the child had said before it was closed counts more than what its end left.
            let late = run.done.as_deref().map(|done| Conclusion { exit: conclusion.exit, ..done.clone() });
            return Ok(self.end(Self::stopped(stop, Some(late.as_ref().unwrap_or(conclusion)))));
        }
        if let Some(limit) = run.cut {
            let partial = run.done.as_deref().unwrap_or(conclusion);
            return Ok(
                self.end(self.aborted(limit, Some(&Conclusion { exit: conclusion.exit, ..partial.clone() })))
            );
        }
        // The turn was over before: how the process went is no news of the run.
        let over = match (&run.done, &run.phase) {
            (Some(done), _) => Some(&**done),
            (None, Phase::Waiting { held: Some(held), .. }) => Some(&**held),
            _ => None,
        };
        let conclusion = match over {
            Some(over) => Conclusion { exit: conclusion.exit, ..over.clone() },
            None => Self::unasked(conclusion),
        };
        // It was told to cancel its turn and ended instead: nobody asked for another attempt.
        if let (None, Some(by), false) = (over, &run.interrupting, self.asked_on()) {
            let stop = StopInfo { actor: by.to_string(), cause: Cause::Interrupted, at: self.now };
            let mut facts = vec![EventKind::StopAccepted { stop: stop.clone() }];
            facts.extend(self.end(Self::stopped(&stop, Some(&conclusion))));
            return Ok(facts);
        }
        if over.is_none()
            && let Some(facts) = self.next_attempt(attempt, &conclusion, max_attempts)
        {
            return Ok(facts);
        }
        if children_live {
            let mut facts = self.close_conversation();
            facts.push(EventKind::Waiting {
                attempt,
                on: ActivityOn::Children,
                held: Some(Box::new(conclusion)),
                lives: false,
            });
            return Ok(facts);
        }
        Ok(self.end(self.ended(&self.as_it_counts(&conclusion))))
    }

    /// Attempts that failed by themselves, the live one included: limits of the provider are no failures of the run.
    pub(super) fn failures(&self) -> u32 {
        let run = &self.state.run;
        u32::try_from(run.attempts.len()).unwrap_or(u32::MAX).saturating_sub(run.rate_hits)
    }

    /// Whether another attempt may go on after a failure or a loss.
    fn next_attempt(
        &self,
        attempt: AttemptNumber,
        conclusion: &Conclusion,
        max_attempts: u32,
    ) -> Option<Vec<EventKind>> {
        let (state, run) = (self.state, &self.state.run);
        let can_continue = state.spec.can.resume && state.session.is_some();
        match &conclusion.outcome {
            Outcome::Lost { evidence } => self.after_loss(attempt, evidence, max_attempts),
            // Whoever only starts a program does not do it twice.
            Outcome::Error { error } if state.spec.can.converses() => {
                let failure = Failure {
                    code: error.code,
                    reset_at: error.reset_at,
                    begun: run.prompted,
                    resumable: can_continue,
                    worked: run.turns > 0 || run.tool_uses > 0 || run.usage.is_some(),
                };
                let tries = Tries {
                    attempts: self.failures(),
                    max_attempts,
                    put_back: run.rate_hits + 1,
                    retry: error.retryable,
                };
                let exit = conclusion.exit;
                match next(&failure, &tries, self.now, state.id) {
                    Next::Fail => None,
                    Next::Again { not_before, continue_session } => {
                        let wait = QueueReason::Retry { at: not_before };
                        Some(self.again(attempt, &error.message, exit, wait, !continue_session))
                    }
                    Next::CoolDown { until, not_before, continue_session } => {
                        let wait = QueueReason::Rate { until, not_before };
                        Some(self.again(attempt, &error.message, exit, wait, !continue_session))
                    }
                    Next::Park { until, continue_session } => {
                        let mut facts = self.close_conversation();
                        let reason = error.message.clone();
                        let anew = !continue_session;
                        facts.push(EventKind::AttemptEnded { attempt, reason, exit, anew });
                        facts.push(EventKind::Parked { until });
                        Some(facts)
                    }
                }
            }
            _ => None,
        }
    }

    /// Nothing is known of the end of an attempt whose work was begun.
    fn after_loss(
        &self,
        attempt: AttemptNumber,
        evidence: &str,
        max_attempts: u32,
    ) -> Option<Vec<EventKind>> {
        let (state, run) = (self.state, &self.state.run);
        if state.spec.mode == Mode::Detached || self.failures() >= max_attempts {
            return None;
        }
        let anew = match state.spec.on_loss {
            OnLoss::Rerun => true,
            OnLoss::Resume if state.spec.can.resume && (state.session.is_some() || !run.prompted) => false,
            OnLoss::Resume | OnLoss::Fail => return None,
        };
        Some(self.again(attempt, evidence, None, QueueReason::Capacity, anew))
    }

    pub(super) fn gone(
        &self,
        attempt: AttemptNumber,
        evidence: &str,
        children_live: bool,
        max_attempts: u32,
    ) -> Decision {
        if self.fenced(attempt).is_err() {
            return match self.idle_attempt() {
                Some(idle) if idle == attempt => self.session_gone(attempt, evidence, None),
                _ => self.late(attempt, evidence),
            };
        }
        let conclusion = Conclusion {
            outcome: Outcome::Lost { evidence: evidence.to_owned() },
            result: None,
            marks: vec![],
            quality: Quality::Unverified,
            exit: None,
        };
        self.conclude(attempt, &conclusion, children_live, max_attempts)
    }

    /// The attempt whose process stays between runs.
    fn idle_attempt(&self) -> Option<AttemptNumber> {
        self.state.warm.as_ref().map(|warm| warm.hold.attempt)
    }

    pub(super) fn session_gone(
        &self,
        attempt: AttemptNumber,
        reason: &str,
        exit: Option<ExitFacts>,
    ) -> Decision {
        if self.idle_attempt() != Some(attempt) {
            return self.late(attempt, reason);
        }
        let mut facts = vec![EventKind::SessionClosed { attempt, reason: reason.to_owned(), exit }];
        let goes_on = self.state.spec.can.resume && self.state.session.is_some();
        if matches!(self.phase(), Phase::Queued { .. }) && !goes_on {
            // The next run was to go on in it, and there is no other way to.
            facts.extend(self.end(self.ended(&Conclusion {
                outcome: Outcome::Error {
                    error: ErrorInfo {
                        code: ErrorCode::SessionGone,
                        message: format!("the process that was to go on is gone: {reason}"),
                        detail: None,
                        retryable: false,
                        reset_at: None,
                        exit,
                    },
                },
                result: None,
                marks: vec![Mark::NeverStarted],
                quality: Quality::Unverified,
                exit: None,
            })));
        }
        Ok(facts)
    }

    pub(super) fn unpark(&self) -> Decision {
        match self.phase() {
            Phase::Waiting { hold: None, on: ActivityOn::Quota { until }, .. } if *until <= self.now => {
                Ok(vec![EventKind::Queued { reason: QueueReason::Capacity }])
            }
            _ => Err(self.illegal()),
        }
    }

    pub(super) fn stop(&self, actor: &str, cause: Cause, drop_follow_ups: bool) -> Vec<EventKind> {
        let stop = StopInfo { actor: actor.to_owned(), cause, at: self.now };
        let mut facts = if drop_follow_ups { self.return_follow_ups(ReturnReason::Stopped) } else { vec![] };
        match self.phase() {
            Phase::Queued { .. } => {
                facts.push(EventKind::StopAccepted { stop: stop.clone() });
                facts.extend(self.end(self.stopped_without_process(&stop, None)));
                if let Some(warm) = &self.state.warm
                    && warm.closing.is_none()
                {
                    facts.push(EventKind::SessionClosing { stop });
                }
            }
            Phase::Waiting { hold: None, held, .. } => {
                facts.push(EventKind::StopAccepted { stop: stop.clone() });
                facts.extend(self.end(self.stopped_without_process(&stop, held.as_deref())));
            }
            Phase::Starting { .. } | Phase::Running { .. } | Phase::Waiting { .. } => {
                facts.extend(self.withdraw_requests("the run was stopped"));
                facts.push(EventKind::StopAccepted { stop });
            }
            Phase::Ended(_) if self.state.is_idle() => facts.push(EventKind::SessionClosing { stop }),
            Phase::Stopping { .. } | Phase::Ended(_) => {}
        }
        facts
    }

    /// An end with all that has to come before it.
    pub(super) fn end(&self, mut end: EventKind) -> Vec<EventKind> {
        let EventKind::Ended { outcome, marks, .. } = &mut end else { return vec![end] };
        let reason = match outcome {
            Outcome::Stopped { .. } => ReturnReason::Stopped,
            Outcome::Error { error }
                if error.code == ErrorCode::StartFailed || !self.state.run.session_open =>
            {
                ReturnReason::StartFailed
            }
            _ => ReturnReason::RunEnded,
        };
        let mut facts = self.return_messages(reason);
        let returned = !facts.is_empty() || !self.state.run.returned.is_empty();
        facts.extend(self.withdraw_requests("the run ended"));
        let mut mark = |mark: Mark, wanted: bool| {
            if wanted && !marks.contains(&mark) {
                marks.push(mark);
            }
        };
        mark(Mark::MessagesReturned, returned);
        mark(Mark::PermissionDenied, self.was_denied());
        facts.push(end);
        facts
    }

    /// An end after which the process stays for the next run.
    pub(super) fn end_idle(&self, mut end: EventKind) -> Vec<EventKind> {
        if let EventKind::Ended { idle_until, .. } = &mut end {
            *idle_until = Some(self.now.after(self.state.spec.idle()));
        }
        self.end(end)
    }

    /// The conversation with a process is over: what was being handed over may have arrived or not, and open requests have
    /// nobody to answer to. What waits is kept for the next attempt.
    pub(super) fn close_conversation(&self) -> Vec<EventKind> {
        let handing = self.state.mail.handing().map(|message| EventKind::MessageReturned {
            number: message.number,
            reason: ReturnReason::Unknown,
        });
        let mut facts: Vec<_> = handing.into_iter().collect();
        facts.extend(self.withdraw_requests("its process is gone"));
        facts
    }

    /// A turn is over: what was being handed over and not settled may have arrived or not, and nobody waits for an answer.
    pub(super) fn close_turn(&self, given: Given) -> Vec<EventKind> {
        let handing = self.state.mail.handing().map(|message| {
            let number = message.number;
            if given == Given::Unsaid || given == Given::Message(number) {
                EventKind::MessageReturned { number, reason: ReturnReason::Unknown }
            } else {
                // It was begun when the turn was over already: it is the next thing to be said.
                EventKind::MessagePutBack { number }
            }
        });
        let mut facts: Vec<_> = handing.into_iter().collect();
        facts.extend(self.withdraw_requests("its turn is over"));
        facts
    }

    fn withdraw_requests(&self, reason: &str) -> Vec<EventKind> {
        let unsettled = self
            .state
            .run
            .requests
            .iter()
            .filter(|request| matches!(request.state, RequestState::Open | RequestState::Answered));
        unsettled
            .map(|request| EventKind::RequestWithdrawn { number: request.number, reason: reason.to_owned() })
            .collect()
    }

    fn was_denied(&self) -> bool {
        let answers = self.state.run.requests.iter().filter_map(|request| request.answered.as_ref());
        answers.into_iter().any(|answered| match answered.answer {
            subagent_model::Answer::Choice { choice } => !choice.is_allow(),
            subagent_model::Answer::None => true,
            subagent_model::Answer::Text { .. } => false,
        })
    }

    /// A conclusion as it counts for the run: one that wrapped up at its turn limit is no plain end.
    pub(super) fn as_it_counts(&self, conclusion: &Conclusion) -> Conclusion {
        let mut conclusion = Self::unasked(conclusion);
        let asked = self.state.run.wrap_up.is_some_and(|wrap_up| wrap_up.limit == Limit::Turns);
        if asked && conclusion.outcome == Outcome::Completed {
            conclusion.outcome = Outcome::Steered;
        }
        conclusion
    }

    pub(super) fn ended(&self, conclusion: &Conclusion) -> EventKind {
        EventKind::Ended {
            outcome: conclusion.outcome.clone(),
            completed_at: self.now,
            result: conclusion.result.clone(),
            marks: conclusion.marks.clone(),
            quality: conclusion.quality,
            exit: conclusion.exit,
            late_error: None,
            idle_until: None,
        }
    }

    /// A conclusion without a stop of ours. A child that says it was stopped or cancelled though nobody asked for it has
    /// failed: `stopped` always names who asked.
    fn unasked(conclusion: &Conclusion) -> Conclusion {
        let mut conclusion = conclusion.clone();
        if let Outcome::Stopped { stop } = &conclusion.outcome {
            conclusion.outcome = Outcome::Error {
                error: ErrorInfo {
                    code: ErrorCode::Crashed,
                    message: String::from("it ended as stopped, and no stop was asked for"),
                    detail: Some(format!("it names {}", stop.actor)),
                    retryable: true,
                    reset_at: None,
                    exit: conclusion.exit,
                },
            };
        }
        conclusion
    }

    /// The end of a run that a limit cut off, with what there is of its answer.
    pub(super) fn aborted(&self, limit: Limit, partial: Option<&Conclusion>) -> EventKind {
        let (result, marks, quality) = partial_of(partial);
        EventKind::Ended {
            outcome: Outcome::Aborted { limit },
            completed_at: self.now,
            result,
            marks,
            quality,
            exit: partial.and_then(|partial| partial.exit),
            late_error: None,
            idle_until: None,
        }
    }

    /// The end of a stopped run. What the child still brought is kept and marked, the status does not follow it.
    pub(super) fn stopped(stop: &StopInfo, late: Option<&Conclusion>) -> EventKind {
        let (result, marks, quality) = partial_of(late);
        EventKind::Ended {
            outcome: Outcome::Stopped { stop: stop.clone() },
            completed_at: stop.at,
            result,
            marks,
            quality,
            exit: late.and_then(|late| late.exit),
            late_error: late.and_then(|late| match &late.outcome {
                Outcome::Error { error } => Some(error.clone()),
                _ => None,
            }),
            idle_until: None,
        }
    }

    /// A stop that found no process: nothing is waited for. A run that never had one says so.
    pub(super) fn stopped_without_process(&self, stop: &StopInfo, held: Option<&Conclusion>) -> EventKind {
        let mut end = Self::stopped(stop, held);
        if let EventKind::Ended { marks, .. } = &mut end
            && self.state.run.attempts.iter().all(|facts| facts.started_at.is_none())
        {
            marks.push(Mark::NeverStarted);
        }
        end
    }

    /// The end of a run whose attempts are used up.
    pub(super) fn spent(&self, reason: &str, exit: Option<ExitFacts>) -> EventKind {
        EventKind::Ended {
            outcome: Outcome::Error {
                error: ErrorInfo {
                    code: ErrorCode::StartFailed,
                    message: format!("no attempt is left: {reason}"),
                    detail: None,
                    retryable: true,
                    reset_at: None,
                    exit,
                },
            },
            completed_at: self.now,
            result: None,
            marks: vec![],
            quality: Quality::Unverified,
            exit,
            late_error: None,
            idle_until: None,
        }
    }
}

/// What is kept of a conclusion that did not come to count.
fn partial_of(conclusion: Option<&Conclusion>) -> (Option<subagent_model::BoundedText>, Vec<Mark>, Quality) {
    let mut marks = conclusion.map(|conclusion| conclusion.marks.clone()).unwrap_or_default();
    let result = conclusion.and_then(|conclusion| conclusion.result.clone()).filter(|text| !text.is_blank());
    if result.is_some() && !marks.contains(&Mark::Partial) {
        marks.push(Mark::Partial);
    }
    let quality = if result.is_some() { Quality::Partial } else { Quality::Unverified };
    (result, marks, quality)
}
