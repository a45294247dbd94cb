//! Which effects a state still asks for. Derived from the stored state every time, never remembered: recovery after a
//! crash is the same computation as any other step.
//!
//! A carrier's claim on a result needs nothing when its time is over: it counts as none from then on
//! ([`crate::run::DeliveryClaim::holds`]), so no timer has to look for it and nothing is written back.

use subagent_model::{ActivityOn, AttemptNumber, QueueReason, RunNumber, Timestamp};

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
    /// The children must be looked at: once none is live, the run ends.
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
        Phase::Queued { reason, .. } => needs.push(Need::Slot {
            not_before: match reason {
                QueueReason::Capacity => None,
                QueueReason::Retry { at } => Some(*at).filter(|at| *at > now),
            },
        }),
        Phase::Starting { hold } => needs.push(Need::Launch { attempt: hold.attempt }),
        Phase::Running { hold, .. } => needs.push(Need::Watch { attempt: hold.attempt }),
        Phase::Waiting { hold, on, held, .. } => {
            if let Some(hold) = hold {
                needs.push(Need::Watch { attempt: hold.attempt });
            }
            if held.is_some() && *on == ActivityOn::Children {
                needs.push(Need::Children);
            }
        }
        Phase::Stopping { hold, .. } => needs.push(Need::Kill { attempt: hold.attempt }),
        Phase::Ended(_) => {}
    }
    needs
}
