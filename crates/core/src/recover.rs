//! The recovery plan: three lists (what the store says, which shims live, which exit records lie there) become one
//! decision per run. A plan is a value; the shell only carries it out. The same plan serves a boot and any later
//! doubt about one run.

use std::collections::{BTreeMap, BTreeSet};

use subagent_model::{AttemptKey, AttemptNumber, SubagentId};

use crate::run::{Phase, Subagent};

/// What was found of an attempt outside the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A shim that holds a live child.
    Running,
    /// A shim or an exit record that knows how the child ended.
    Exited,
}

/// What to do for one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The child runs on: take its shim over.
    Adopt {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The child has ended: settle the run with its true result.
    Settle {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The slot was taken but no process was ever made: try again.
    Relaunch {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// It had a process and nothing is known of its end.
    Lose {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// A stop was accepted and nothing is left of the attempt: it can end now.
    FinishStop {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// It waits for a slot: nothing to repair.
    Queue,
    /// It waits for its children, or for its quota, and has no process.
    AwaitChildren,
    /// The process of a warm subagent is gone; its last answer stays.
    CloseSession {
        /// The attempt.
        attempt: AttemptNumber,
    },
}

/// The whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// A step for every live run, in the order of ids.
    pub steps: Vec<(SubagentId, Step)>,
    /// Live shims whose attempt is not the live one of any run: their children must go.
    pub reap: Vec<AttemptKey>,
}

/// Plans the recovery of `live` runs from what was `found`.
///
/// Three duties of the caller, each of which the model check shows to be needed:
/// - `live` holds only runs that **this** node holds, and waiting ones. Of what another node holds it finds nothing here,
///   and would call it lost.
/// - `found` is looked up **before** the store is read. The other way round, an attempt that was claimed and launched in
///   between looks like a child that nobody knows.
/// - No launch of this daemon is underway for an attempt that the plan says `Lose` or `FinishStop` of.
///
/// `launched` says of an attempt whether its directory shows that a start was handed to a shim: only without it is it
/// certain that no work was begun.
pub fn plan<'a>(
    live: impl IntoIterator<Item = &'a Subagent>,
    found: &BTreeMap<AttemptKey, Found>,
    launched: &BTreeSet<AttemptKey>,
) -> Plan {
    let mut plan = Plan::default();
    let mut known = BTreeSet::new();
    for state in live {
        let step = match (&state.run.phase, state.attempt_key()) {
            // A process between two runs, or one that the next run will go on in.
            (Phase::Queued { .. } | Phase::Ended(_), Some(key)) => {
                known.insert(key);
                let attempt = key.attempt;
                match found.get(&key) {
                    Some(Found::Running) => Step::Adopt { attempt },
                    Some(Found::Exited) | None => Step::CloseSession { attempt },
                }
            }
            (Phase::Queued { .. }, None) => Step::Queue,
            (Phase::Waiting { hold: None, .. }, _) => Step::AwaitChildren,
            (Phase::Ended(_), _) | (_, None) => continue,
            (phase, Some(key)) => {
                known.insert(key);
                let attempt = key.attempt;
                match (found.get(&key), phase) {
                    (Some(Found::Running), _) => Step::Adopt { attempt },
                    (Some(Found::Exited), _) => Step::Settle { attempt },
                    (None, Phase::Stopping { .. }) => Step::FinishStop { attempt },
                    (None, Phase::Starting { .. }) if !launched.contains(&key) => Step::Relaunch { attempt },
                    (None, _) => Step::Lose { attempt },
                }
            }
        };
        plan.steps.push((state.id, step));
    }
    plan.steps.sort_by_key(|(id, _)| *id);
    plan.reap = found
        .iter()
        .filter(|(key, found)| **found == Found::Running && !known.contains(key))
        .map(|(key, _)| *key)
        .collect();
    plan
}
