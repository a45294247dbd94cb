//! From needs to hands: what a committed state still asks for is begun here, unless it is under way. Called after every
//! commit, at recovery, and by a slow timer, always with the same result for the same state.

use std::sync::{Arc, Weak};
use std::time::Duration;

use subagent_core::need::{Need, needs};
use subagent_core::run::Subagent;
use subagent_model::AttemptNumber;

use super::attempt::{self, Begin};
use super::{Inner, clock};

/// How often everything live is looked at again, in case an effect was lost.
const SLOW: Duration = Duration::from_secs(5);

/// Begins what `state` needs.
pub(crate) fn begin(inner: &Arc<Inner>, state: &Arc<Subagent>) {
    for need in needs(state, clock::now()) {
        match need {
            Need::Launch { attempt } => ensure(inner, state, attempt, Begin::Launch),
            Need::Watch { attempt } => ensure(inner, state, attempt, Begin::Find),
            Need::Kill { attempt } => {
                if !inner.tasks.stop(state.key_of(attempt)) {
                    ensure(inner, state, attempt, Begin::Find);
                    inner.tasks.stop(state.key_of(attempt));
                }
            }
            // Slots are given by the writer, parents are ended by it, leases are endless on one host, and owed
            // results are read from the store by whoever asks for them.
            Need::Slot { .. } | Need::Children | Need::Deliver { .. } | Need::Reclaim { .. } => {}
        }
    }
}

/// Sees to it that the attempt has a task.
fn ensure(inner: &Arc<Inner>, state: &Arc<Subagent>, attempt: AttemptNumber, how: Begin) {
    let key = state.key_of(attempt);
    if let Some(stop) = inner.tasks.enter(key) {
        attempt::spawn(Arc::clone(inner), Arc::clone(state), key, how, stop);
    }
}

/// Looks at everything live, again and again, until the engine is gone.
pub(crate) async fn slow_timer(inner: Weak<Inner>) {
    let mut timer = tokio::time::interval(SLOW);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer.tick().await;
    loop {
        timer.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        inner.waiters.sweep();
        for state in inner.live_where(|_| true) {
            begin(&inner, &state);
        }
    }
}
