//! Which effects a state still asks for. Derived from the stored state every time, never remembered: recovery after a
//! crash is the same computation as any other step.
//!
//! A carrier's claim on a result needs nothing when its time is over: it counts as none from then on
//! ([`crate::run::DeliveryClaim::holds`]), so no timer has to look for it and nothing is written back.

use subagent_model::{
    ActivityOn, AttemptNumber, MessageNumber, RequestNumber, RequestState, RunNumber, Timestamp,
};

use crate::delivery::owed;
use crate::run::{Phase, Subagent};

/// An effect that the state still owes. Carrying one out twice must do no harm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Need {
    /// A slot, not before a time.
    Slot {
        /// Not before.
        not_before: Option<Timestamp>,
    },
    /// The attempt must have a process, or be told to have failed.
    Launch {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The attempt's process must be watched until it ends.
    Watch {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The attempt's process tree must end, or be told never to have been.
    Kill {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The process of a warm subagent must be kept in sight until the next run.
    Keep {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The process of a warm subagent must end.
    Close {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The child must be told that its turn is cancelled.
    Interrupt {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// A message must be given to the child, and what became of it be found out.
    HandOver {
        /// The attempt.
        attempt: AttemptNumber,
        /// Which.
        number: MessageNumber,
    },
    /// The child must be told the answer to a request.
    Tell {
        /// The attempt.
        attempt: AttemptNumber,
        /// Which.
        number: RequestNumber,
    },
    /// The turn is over: the process must be asked to end, and be ended where it does not.
    Finish {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The run is over a limit: its turn must be cancelled and its process be ended.
    CutOff {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// A request must be answered by itself at a time.
    Expire {
        /// Which.
        number: RequestNumber,
        /// When.
        at: Timestamp,
    },
    /// The run wants a slot again at a time.
    Unpark {
        /// When.
        at: Timestamp,
    },
    /// An idle process must be closed at a time.
    Retire {
        /// When.
        at: Timestamp,
    },
    /// The oldest follow-up must open the next run, or all of them come back.
    NextRun,
    /// The children must be looked at: once none is live, the run goes on or ends.
    Children,
    /// The requester of a run must be told, and no carrier is at it.
    Deliver {
        /// Which run: it may be an earlier one than the current.
        run: RunNumber,
    },
    /// The lease has run out: somebody must take the attempt over. The node that held it knows more than that: it goes
    /// by its own [`crate::recover::plan`], and takes over from itself only what was never launched. Otherwise work that
    /// has finished would be run again.
    Reclaim {
        /// The attempt.
        attempt: AttemptNumber,
    },
}

/// What `state` needs at `now`.
pub fn needs(state: &Subagent, now: Timestamp) -> Vec<Need> {
    let mut needs = run_needs(state, now);
    let free = owed(state).filter(|owed| owed.is_free(now));
    needs.extend(free.map(|owed| Need::Deliver { run: owed.run }));
    needs
}

fn run_needs(state: &Subagent, now: Timestamp) -> Vec<Need> {
    let mut needs = Vec::new();
    if let Some(hold) = state.hold()
        && hold.lease_until <= now
    {
        needs.push(Need::Reclaim { attempt: hold.attempt });
        return needs;
    }
    match &state.run.phase {
        Phase::Queued { .. } if !state.may_claim() => {}
        Phase::Queued { reason, .. } => {
            needs.push(Need::Slot { not_before: reason.not_before().filter(|at| *at > now) });
        }
        Phase::Starting { hold } => needs.push(Need::Launch { attempt: hold.attempt }),
        Phase::Running { hold, .. } => {
            needs.push(Need::Watch { attempt: hold.attempt });
            needs.extend(conversation(state, hold.attempt));
        }
        Phase::Waiting { hold, on, held, .. } => {
            if let Some(hold) = hold {
                needs.push(Need::Watch { attempt: hold.attempt });
                needs.extend(conversation(state, hold.attempt));
            }
            match on {
                ActivityOn::Children if held.is_some() => needs.push(Need::Children),
                ActivityOn::Quota { until } if hold.is_none() => needs.push(Need::Unpark { at: *until }),
                _ => {}
            }
        }
        Phase::Stopping { hold, .. } => needs.push(Need::Kill { attempt: hold.attempt }),
        Phase::Ended(_) if state.wants_next_run() => needs.push(Need::NextRun),
        Phase::Ended(_) => {}
    }
    if let Some(warm) = &state.warm {
        let attempt = warm.hold.attempt;
        if warm.closing.is_some() {
            needs.push(Need::Close { attempt });
        } else {
            needs.push(Need::Keep { attempt });
            if state.is_ended() {
                needs.push(Need::Retire { at: warm.until });
            }
        }
    }
    needs
}

/// What is owed to a child that is spoken with.
fn conversation(state: &Subagent, attempt: AttemptNumber) -> Vec<Need> {
    let run = &state.run;
    if run.cut.is_some() {
        return vec![Need::CutOff { attempt }];
    }
    if run.done.is_some() {
        return vec![Need::Finish { attempt }];
    }
    let mut needs = Vec::new();
    if run.interrupting.is_some() {
        needs.push(Need::Interrupt { attempt });
    }
    if let Some(message) = state.mail.handing() {
        needs.push(Need::HandOver { attempt, number: message.number });
    }
    for request in &run.requests {
        match request.state {
            RequestState::Open => {
                needs.push(Need::Expire { number: request.number, at: request.expires_at });
            }
            RequestState::Answered => needs.push(Need::Tell { attempt, number: request.number }),
            RequestState::Settled | RequestState::Withdrawn => {}
        }
    }
    needs
}

/// When a need of `state` comes up by the passing of time alone.
pub fn next_timer(state: &Subagent, now: Timestamp) -> Option<Timestamp> {
    let times = needs(state, now).into_iter().filter_map(|need| match need {
        Need::Expire { at, .. } | Need::Unpark { at } | Need::Retire { at } => Some(at),
        _ => None,
    });
    times.min()
}
