//! From needs to hands: what a committed state still asks for is begun here, unless it is under way. Called after every
//! commit, at recovery, and by a slow timer, always with the same result for the same state.

use std::sync::{Arc, Weak};
use std::time::Duration;

use subagent_core::need::{Need, needs};
use subagent_core::run::Subagent;
use subagent_model::AttemptNumber;
use subagent_model::request::GcRequest;

use super::attempt::{self, Begin};
use super::writer::Message;
use super::{Inner, clock, stalls};

/// Begins what `state` needs.
pub(crate) fn begin(inner: &Arc<Inner>, state: &Arc<Subagent>) {
    for need in needs(state, clock::now()) {
        match need {
            Need::Launch { attempt } => ensure(inner, state, attempt, Begin::Launch),
            // The task that watches sees the state, and with it all that is owed to its child.
            Need::Watch { attempt } | Need::Keep { attempt } | Need::Close { attempt } => {
                ensure(inner, state, attempt, Begin::Find);
            }
            Need::Kill { attempt } => {
                if !inner.tasks.stop(state.key_of(attempt)) {
                    ensure(inner, state, attempt, Begin::Find);
                    inner.tasks.stop(state.key_of(attempt));
                }
            }
            Need::NextRun => inner.send(Message::NextRun(state.id)),
            // A child that cannot be spoken with is ended from outside.
            Need::CutOff { attempt } if !state.spec.can.converses() => {
                inner.tasks.stop(state.key_of(attempt));
            }
            // Some are done by the task that watches the child. Slots are given by the writer, which also keeps the timers and looks after parents; leases are endless on
            // one host; owed results are read from the store by whoever asks for them.
            Need::Interrupt { .. }
            | Need::HandOver { .. }
            | Need::Tell { .. }
            | Need::Finish { .. }
            | Need::CutOff { .. }
            | Need::Slot { .. }
            | Need::Expire { .. }
            | Need::Unpark { .. }
            | Need::Retire { .. }
            | Need::Children
            | Need::Deliver { .. }
            | Need::Reclaim { .. } => {}
        }
    }
}

/// Sees to it that the attempt has a task.
fn ensure(inner: &Arc<Inner>, state: &Arc<Subagent>, attempt: AttemptNumber, how: Begin) {
    let key = state.key_of(attempt);
    if let Some(follow) = inner.tasks.enter(key, state) {
        attempt::spawn(Arc::clone(inner), Arc::clone(state), key, how, follow);
    }
}

/// How often retention is carried out, and how long after the start for the first time.
const SWEEP: (Duration, Duration) = (Duration::from_hours(1), Duration::from_mins(5));

/// Releases what retention allows, again and again, until the engine is gone.
pub(crate) async fn housekeeping(inner: Weak<Inner>) {
    let (every, first) = SWEEP;
    let mut timer = tokio::time::interval_at(tokio::time::Instant::now() + first, every);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        let sweep = tokio::task::spawn_blocking(move || inner.collect(GcRequest::default()));
        match sweep.await {
            Ok(Ok(swept)) if !(swept.heavy.is_empty() && swept.records.is_empty()) => tracing::info!(
                heavy = swept.heavy.len(),
                records = swept.records.len(),
                bytes = swept.bytes,
                "released what was kept long enough"
            ),
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(%error, "retention could not be carried out"),
        }
    }
}

/// Looks at everything live, again and again, until the engine is gone.
pub(crate) async fn slow_timer(inner: Weak<Inner>, every: Duration) {
    let mut timer = tokio::time::interval(every);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer.tick().await;
    loop {
        timer.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        inner.waiters.sweep();
        inner.activity.keep(|id| inner.live(id).is_some());
        for state in inner.live_where(|_| true) {
            begin(&inner, &state);
            stalls::look(&inner, &state);
        }
    }
}
