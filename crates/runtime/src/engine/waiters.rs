//! Who waits for the end of which run. A waiter is bound to its run: a resume does not take it away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_core::run::Subagent;
use subagent_model::{RunNumber, SubagentId};
use tokio::sync::{oneshot, watch};

type Waiter = (RunNumber, oneshot::Sender<Arc<Subagent>>);

/// The waiters of live runs.
pub(crate) struct Waiters {
    by_subagent: Mutex<HashMap<SubagentId, Vec<Waiter>>>,
    /// Counts ends: whoever waits for any looks again at what there is.
    ends: watch::Sender<u64>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self { by_subagent: Mutex::default(), ends: watch::channel(0).0 }
    }
}

impl Waiters {
    /// Registers a waiter. Look at the state after this, so that no end falls between.
    pub(crate) fn register(&self, id: SubagentId, run: RunNumber) -> oneshot::Receiver<Arc<Subagent>> {
        let (sender, receiver) = oneshot::channel();
        let mut map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        let waiters = map.entry(id).or_default();
        waiters.retain(|(_, waiter)| !waiter.is_closed());
        waiters.push((run, sender));
        receiver
    }

    /// Changes with every end from now on.
    pub(crate) fn any_end(&self) -> watch::Receiver<u64> {
        let mut ends = self.ends.subscribe();
        ends.mark_unchanged();
        ends
    }

    /// True while somebody waits for this run: its end will be told by that.
    pub(crate) fn waits_for(&self, id: SubagentId, run: RunNumber) -> bool {
        let map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        map.get(&id)
            .is_some_and(|waiters| waiters.iter().any(|(of, waiter)| *of == run && !waiter.is_closed()))
    }

    /// There is something to read that was not there, without an end.
    pub(crate) fn look_again(&self) {
        self.ends.send_modify(|ends| *ends = ends.wrapping_add(1));
    }

    /// Tells everyone whose run is over in this state.
    pub(crate) fn ended(&self, state: &Arc<Subagent>) {
        self.look_again();
        let mut map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiters) = map.remove(&state.id) else { return };
        let (done, rest): (Vec<_>, Vec<_>) = waiters
            .into_iter()
            .partition(|(run, _)| *run < state.run.number || (*run == state.run.number && state.is_ended()));
        if !rest.is_empty() {
            map.insert(state.id, rest);
        }
        drop(map);
        for (_, waiter) in done {
            // A waiter that gave up is no concern.
            let _ = waiter.send(Arc::clone(state));
        }
    }

    /// Lets everyone go who waits: the engine is going down, the runs are not over.
    pub(crate) fn let_go(&self) {
        self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Forgets waiters that gave up.
    pub(crate) fn sweep(&self) {
        let mut map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, waiters| {
            waiters.retain(|(_, waiter)| !waiter.is_closed());
            !waiters.is_empty()
        });
    }
}
