//! Which attempts have a task at work. At most one each; a task is the hands of an attempt, never its memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_core::run::Subagent;
use subagent_model::AttemptKey;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// What a task of an attempt follows.
pub(crate) struct Follow {
    /// Its child is to end.
    pub(crate) stop: CancellationToken,
    /// The states of its subagent, as they are committed.
    pub(crate) states: watch::Receiver<Arc<Subagent>>,
}

/// A stop of one inner subagent of a child.
pub(crate) struct StopInner {
    /// The child's name for it.
    pub(crate) key: String,
    /// Told once the child was, or could not be.
    pub(crate) reply: oneshot::Sender<Result<(), NotStopped>>,
}

/// Why a child was not told.
#[derive(Debug)]
pub(crate) enum NotStopped {
    /// Its protocol has no word for it now.
    NoWord(String),
    /// Nobody speaks with it any more.
    Over,
    /// It cannot be known whether it was.
    Unknown(String),
}

/// The tasks at work.
#[derive(Default)]
pub(crate) struct Tasks {
    by_attempt: Mutex<HashMap<AttemptKey, Entry>>,
}

struct Entry {
    stop: CancellationToken,
    /// The newest state, for a task that follows it.
    state: watch::Sender<Arc<Subagent>>,
    log_end: Option<watch::Receiver<u64>>,
    cgroup: Option<std::path::PathBuf>,
    inner_stops: Option<mpsc::Sender<StopInner>>,
    abort: Option<AbortHandle>,
}

impl Tasks {
    /// Enters a task for the attempt; `None` when there is one, which then sees the state.
    pub(crate) fn enter(&self, key: AttemptKey, state: &Arc<Subagent>) -> Option<Follow> {
        let mut map = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = map.get(&key) {
            entry.state.send_if_modified(|shown| {
                let newer = shown.revision < state.revision;
                if newer {
                    *shown = Arc::clone(state);
                }
                newer
            });
            return None;
        }
        let stop = CancellationToken::new();
        let (sender, states) = watch::channel(Arc::clone(state));
        map.insert(
            key,
            Entry {
                stop: stop.clone(),
                state: sender,
                log_end: None,
                cgroup: None,
                inner_stops: None,
                abort: None,
            },
        );
        Some(Follow { stop, states })
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

    /// Where stops of inner subagents are taken.
    pub(crate) fn set_inner_stops(&self, key: AttemptKey, inner_stops: mpsc::Sender<StopInner>) {
        if let Some(entry) = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            entry.inner_stops = Some(inner_stops);
        }
    }

    /// Asks the task to have an inner subagent stopped; false when nobody speaks with its child, or too much is asked.
    pub(crate) fn stop_inner(
        &self,
        key: AttemptKey,
        inner: String,
        reply: oneshot::Sender<Result<(), NotStopped>>,
    ) -> bool {
        let map = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let stops = map.get(&key).and_then(|entry| entry.inner_stops.as_ref());
        stops.is_some_and(|stops| stops.try_send(StopInner { key: inner, reply }).is_ok())
    }

    /// The control group of the attempt's shim.
    pub(crate) fn set_cgroup(&self, key: AttemptKey, cgroup: Option<std::path::PathBuf>) {
        if let Some(entry) = self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            entry.cgroup = cgroup;
        }
    }

    pub(crate) fn cgroup(&self, key: AttemptKey) -> Option<std::path::PathBuf> {
        self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?.cgroup.clone()
    }

    pub(crate) fn log_end(&self, key: AttemptKey) -> Option<watch::Receiver<u64>> {
        self.by_attempt.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?.log_end.clone()
    }
}
