//! Which facts a command leads to. One table for first runs, resumes and follow-ups.
//!
//! Three rules matter most. The fence: a command of any but the live attempt changes nothing. Stop wins: once a stop
//! is accepted the run can only end as stopped, at the time of the stop; what comes late is kept on it. First end
//! wins: an ended run never changes.

use subagent_model::{
    ActivityOn, AttemptNumber, Conclusion, ErrorCode, ErrorInfo, EventKind, ExitFacts, Mark, NodeId, Outcome,
    Quality, QueueReason, RunNumber, StopInfo, Timestamp,
};

use super::command::{Birth, Command, Refusal};
use super::state::{Delivery, Duty, Hold, Phase, Subagent};

/// The facts of a birth that passed admission.
pub fn accept(birth: Birth) -> Vec<EventKind> {
    vec![
        EventKind::Accepted {
            handle: birth.handle,
            spec: Box::new(birth.spec),
            parent: birth.parent,
            root: birth.root,
            depth: birth.depth,
            requester: birth.requester,
        },
        EventKind::Queued { reason: QueueReason::Capacity },
    ]
}

/// The facts that `command` leads to at `now`. No facts means: accepted, nothing to change.
pub fn decide(state: &Subagent, command: &Command, now: Timestamp) -> Result<Vec<EventKind>, Refusal> {
    let illegal = || Refusal::Illegal { command: command.name(), status: state.status() };
    match command {
        Command::Claim { owner, lease_until } => match &state.run.phase {
            Phase::Queued { .. } => Ok(vec![claimed(state, owner, *lease_until)]),
            _ => Err(illegal()),
        },
        Command::Renew { attempt, lease_until } => {
            let hold = fenced(state, *attempt)?;
            if hold.lease_until <= now || *lease_until <= hold.lease_until {
                return Err(Refusal::Lease { attempt: *attempt });
            }
            Ok(vec![EventKind::Renewed { attempt: *attempt, lease_until: *lease_until }])
        }
        Command::Reclaim { owner, lease_until, max_attempts } => {
            let hold = state.hold().ok_or_else(illegal)?;
            if hold.lease_until > now {
                return Err(Refusal::Lease { attempt: hold.attempt });
            }
            if let Phase::Stopping { stop, .. } = &state.run.phase {
                return Ok(vec![stopped(stop, None)]);
            }
            let reason = String::from("the lease ran out");
            if state.run.attempts.len() >= *max_attempts as usize {
                return Ok(vec![spent(&reason, None, now)]);
            }
            Ok(vec![
                EventKind::AttemptEnded { attempt: hold.attempt, reason, exit: None },
                EventKind::Queued { reason: QueueReason::Capacity },
                claimed(state, owner, *lease_until),
            ])
        }
        Command::Started { attempt, process } => {
            fenced(state, *attempt)?;
            let unseen = state.run.attempts.last().is_some_and(|facts| facts.started_at.is_none());
            match &state.run.phase {
                Phase::Starting { .. } | Phase::Stopping { .. } if unseen => {
                    Ok(vec![EventKind::Started { attempt: *attempt, process: process.clone() }])
                }
                // Adoption tells it again.
                Phase::Running { .. } | Phase::Stopping { .. } | Phase::Waiting { .. } => Ok(vec![]),
                _ => Err(illegal()),
            }
        }
        Command::Progress { attempt, turns, tool_uses, compactions, usage } => {
            fenced(state, *attempt)?;
            Ok(vec![EventKind::Progress {
                attempt: *attempt,
                turns: *turns,
                tool_uses: *tool_uses,
                compactions: *compactions,
                usage: *usage,
            }])
        }
        Command::Conclude { attempt, conclusion, children_live } => {
            if fenced(state, *attempt).is_err() {
                return late(state, *attempt, &format!("the attempt ended: {}", conclusion.outcome.status()));
            }
            if let Phase::Stopping { stop, .. } = &state.run.phase {
                return Ok(vec![stopped(stop, Some(conclusion))]);
            }
            let conclusion = unasked(conclusion);
            Ok(vec![if *children_live {
                EventKind::Waiting {
                    attempt: *attempt,
                    on: ActivityOn::Children,
                    held: Some(Box::new(conclusion)),
                }
            } else {
                ended(&conclusion, now)
            }])
        }
        Command::Requeue { attempt, reason, exit, not_before, max_attempts } => {
            if fenced(state, *attempt).is_err() {
                return late(state, *attempt, reason);
            }
            match &state.run.phase {
                Phase::Stopping { stop, .. } => {
                    let mut end = stopped_without_process(state, stop, None);
                    if let EventKind::Ended { exit: known, .. } = &mut end {
                        *known = *exit;
                    }
                    Ok(vec![end])
                }
                _ if state.run.attempts.len() >= *max_attempts as usize => {
                    Ok(vec![spent(reason, *exit, now)])
                }
                _ => Ok(vec![
                    EventKind::AttemptEnded { attempt: *attempt, reason: reason.clone(), exit: *exit },
                    EventKind::Queued {
                        reason: not_before.map_or(QueueReason::Capacity, |at| QueueReason::Retry { at }),
                    },
                ]),
            }
        }
        Command::Gone { attempt, evidence } => {
            if fenced(state, *attempt).is_err() {
                return late(state, *attempt, evidence);
            }
            Ok(vec![match &state.run.phase {
                Phase::Stopping { stop, .. } => stopped(stop, None),
                _ => EventKind::Ended {
                    outcome: Outcome::Lost { evidence: evidence.clone() },
                    completed_at: now,
                    result: None,
                    marks: vec![],
                    quality: Quality::Unverified,
                    exit: None,
                    late_error: None,
                },
            }])
        }
        Command::ChildrenEnded => match &state.run.phase {
            Phase::Waiting { on: ActivityOn::Children, held: Some(held), .. } => Ok(vec![ended(held, now)]),
            _ => Err(illegal()),
        },
        Command::Stop { actor, cause } => {
            let stop = StopInfo { actor: actor.clone(), cause: *cause, at: now };
            Ok(match &state.run.phase {
                Phase::Queued { .. } => {
                    vec![
                        EventKind::StopAccepted { stop: stop.clone() },
                        stopped_without_process(state, &stop, None),
                    ]
                }
                Phase::Waiting { hold: None, held, .. } => vec![
                    EventKind::StopAccepted { stop: stop.clone() },
                    stopped_without_process(state, &stop, held.as_deref()),
                ],
                Phase::Starting { .. } | Phase::Running { .. } | Phase::Waiting { .. } => {
                    vec![EventKind::StopAccepted { stop }]
                }
                Phase::Stopping { .. } | Phase::Ended(_) => vec![],
            })
        }
        Command::Resume { prompt, requester } => match &state.run.phase {
            Phase::Ended(_) => Ok(vec![
                EventKind::Resumed { prompt: prompt.clone(), requester: requester.clone() },
                EventKind::Queued { reason: QueueReason::Capacity },
            ]),
            _ => Err(Refusal::StillRunning),
        },
        Command::ClaimDelivery { run, carrier, until } => match duty(state, *run)?.delivery {
            Delivery::Owed { claim: Some(claim), .. } if claim.holds(now) && claim.carrier != *carrier => {
                Err(Refusal::Claimed { carrier: claim.carrier.clone() })
            }
            Delivery::Owed { .. } => {
                let (of_run, carrier) = (*run, carrier.clone());
                Ok(vec![EventKind::DeliveryClaimed { of_run, carrier, until: *until }])
            }
            Delivery::NotYet | Delivery::NotOwed | Delivery::Consumed { .. } => Err(illegal()),
        },
        Command::ReturnDelivery { run, carrier, reason } => match duty(state, *run)?.delivery {
            Delivery::Owed { claim: Some(claim), .. } if claim.carrier == *carrier => {
                Ok(vec![EventKind::DeliveryReturned { of_run: *run, reason: reason.clone() }])
            }
            // The claim is someone else's, or there is none: nothing to give back.
            _ => Ok(vec![]),
        },
        Command::Acknowledge { run, by } => {
            let duty = duty(state, *run)?;
            match duty.delivery {
                Delivery::Owed { .. } if duty.requester == by => {
                    Ok(vec![EventKind::Acknowledged { of_run: *run, by: by.clone() }])
                }
                Delivery::Owed { .. } => Err(Refusal::NotYours { owner: duty.requester.clone() }),
                Delivery::Consumed { .. } | Delivery::NotOwed => Ok(vec![]),
                Delivery::NotYet => Err(illegal()),
            }
        }
    }
}

fn duty(state: &Subagent, run: RunNumber) -> Result<Duty<'_>, Refusal> {
    state.duty(run).ok_or(Refusal::NoSuchRun { given: run, latest: state.run.number })
}

/// The hold, if `attempt` is the live one.
fn fenced(state: &Subagent, attempt: AttemptNumber) -> Result<&Hold, Refusal> {
    match state.hold() {
        Some(hold) if hold.attempt == attempt => Ok(hold),
        _ => Err(Refusal::Stale { given: attempt, latest: state.last_attempt }),
    }
}

/// A fact that came too late. One that is from the future was never given out: that is refused.
fn late(state: &Subagent, attempt: AttemptNumber, what: &str) -> Result<Vec<EventKind>, Refusal> {
    if attempt > state.last_attempt || attempt == AttemptNumber(0) {
        return Err(Refusal::Stale { given: attempt, latest: state.last_attempt });
    }
    Ok(vec![EventKind::Late { attempt, what: what.to_owned() }])
}

fn claimed(state: &Subagent, owner: &NodeId, lease_until: Timestamp) -> EventKind {
    EventKind::Claimed { attempt: state.last_attempt.next(), owner: owner.clone(), lease_until }
}

fn ended(conclusion: &Conclusion, now: Timestamp) -> EventKind {
    EventKind::Ended {
        outcome: conclusion.outcome.clone(),
        completed_at: now,
        result: conclusion.result.clone(),
        marks: conclusion.marks.clone(),
        quality: conclusion.quality,
        exit: conclusion.exit,
        late_error: None,
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
                detail: Some(format!("the child names {}", stop.actor)),
                retryable: true,
                exit: conclusion.exit,
            },
        };
    }
    conclusion
}

/// The end of a stopped run. What the child still brought is kept and marked, the status does not follow it.
fn stopped(stop: &StopInfo, late: Option<&Conclusion>) -> EventKind {
    let mut marks = late.map(|late| late.marks.clone()).unwrap_or_default();
    let result = late.and_then(|late| late.result.clone()).filter(|text| !text.is_blank());
    if result.is_some() && !marks.contains(&Mark::Partial) {
        marks.push(Mark::Partial);
    }
    EventKind::Ended {
        outcome: Outcome::Stopped { stop: stop.clone() },
        completed_at: stop.at,
        quality: if result.is_some() { Quality::Partial } else { Quality::Unverified },
        result,
        marks,
        exit: late.and_then(|late| late.exit),
        late_error: late.and_then(|late| match &late.outcome {
            Outcome::Error { error } => Some(error.clone()),
            _ => None,
        }),
    }
}

/// A stop that found no process: nothing is waited for. A run that never had one says so.
fn stopped_without_process(state: &Subagent, stop: &StopInfo, held: Option<&Conclusion>) -> EventKind {
    let mut end = stopped(stop, held);
    if let EventKind::Ended { marks, .. } = &mut end
        && state.run.attempts.iter().all(|facts| facts.started_at.is_none())
    {
        marks.push(Mark::NeverStarted);
    }
    end
}

/// The end of a run whose attempts are used up.
fn spent(reason: &str, exit: Option<ExitFacts>, now: Timestamp) -> EventKind {
    EventKind::Ended {
        outcome: Outcome::Error {
            error: ErrorInfo {
                code: ErrorCode::StartFailed,
                message: format!("no attempt is left: {reason}"),
                detail: None,
                retryable: true,
                exit,
            },
        },
        completed_at: now,
        result: None,
        marks: vec![],
        quality: Quality::Unverified,
        exit,
        late_error: None,
    }
}
