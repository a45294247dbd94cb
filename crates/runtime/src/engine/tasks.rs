//! Which attempts have a task at work. At most one each; a task is the hands of an attempt, never its memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use subagent_model::AttemptKey;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// The tasks at work.
#[derive(Default)]
pub(crate) struct Tasks {
    by_attempt: Mutex<HashMap<AttemptKey, Entry>>,
}

struct Entry {
    stop: CancellationToken,
    log_end: Option<watch::Receiver<u64>>,
    abort: Option<AbortHandle>,
}

impl Tasks {
    /// Enters a task for the attempt; `None` when there is one.
    pub(crate) fn enter(&self, key: AttemptKey) -> Option<CancellationToken> {
        let mut map = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        if map.contains_key(&key) {
            return None;
        }
        let stop = CancellationToken::new();
        map.insert(key, Entry { stop: stop.clone(), log_end: None, abort: None });
        Some(stop)
    }

    /// By which the task can be let go.
    pub(crate) fn set_abort(&self, key: AttemptKey, abort: AbortHandle) {
        if let Some(entry) = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            entry.abort = Some(abort);
        }
    }

    /// Lets go of everything: connections to shims close, their children run on. True once that is so.
    pub(crate) fn let_go(&self) -> bool {
        let map = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        map.values().filter_map(|entry| entry.abort.as_ref()).fold(true, |all, abort| {
            abort.abort();
            all & abort.is_finished()
        })
    }

    /// The task is done.
    pub(crate) fn leave(&self, key: AttemptKey) {
        self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// Tells the task to end its child; false when there is none.
    pub(crate) fn stop(&self, key: AttemptKey) -> bool {
        let map = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = map.get(&key) else { return false };
        entry.stop.cancel();
        true
    }

    /// Where the growth of the attempt's log can be watched.
    pub(crate) fn set_log_end(&self, key: AttemptKey, log_end: watch::Receiver<u64>) {
        if let Some(entry) = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            entry.log_end = Some(log_end);
        }
    }

    pub(crate) fn log_end(&self, key: AttemptKey) -> Option<watch::Receiver<u64>> {
        self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?.log_end.clone()
    }
}
