//! Who wants to see every next state of a subagent: receipts of messages, trees that are to be gone. Costs nothing for
//! those whom nobody watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_core::run::Subagent;
use subagent_model::SubagentId;
use tokio::sync::watch;

/// The watched subagents.
#[derive(Default)]
pub(crate) struct Watchers {
    by_subagent: Mutex<HashMap<SubagentId, watch::Sender<Option<Arc<Subagent>>>>>,
}

impl Watchers {
    /// Watches a subagent from now on: look at its state after this, so that no change falls between.
    pub(crate) fn watch(&self, id: SubagentId) -> watch::Receiver<Option<Arc<Subagent>>> {
        let mut map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, sender| sender.receiver_count() > 0);
        map.entry(id).or_insert_with(|| watch::channel(None).0).subscribe()
    }

    /// A new state was committed.
    pub(crate) fn changed(&self, state: &Arc<Subagent>) {
        let map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = map.get(&state.id) {
            sender.send_replace(Some(Arc::clone(state)));
        }
    }
}
