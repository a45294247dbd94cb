//! The port for code that only sees. Nothing here returns a value, so nothing here can change a run.

use std::time::Duration;

use async_trait::async_trait;
use subagent_model::{Cursor, Event, Requester};

use crate::info::{EndInfo, StartInfo};

/// How long one call of an observer may take unless it says otherwise.
pub const OBSERVER_DEADLINE: Duration = Duration::from_secs(10);

/// Sees runs. Calls come one at a time, in the order of the commits, each after the one before has returned, panicked
/// or run out of time.
///
/// A call may be slow, but must not block its thread: what blocks belongs on a thread of its own. Name, deadline, owner
/// and `events` are asked once, at registration.
///
/// To every observer each run that ends has exactly one start and one end, the start first. Two limits follow from what
/// can be known: what is told is told per process, so after a restart of the daemon the start of a run that goes on is
/// told again; and an observer that falls too far behind is told so ([`on_lag`](Self::on_lag)), and what it missed it
/// must read from the log. Even then no end comes without its start.
#[async_trait]
pub trait Observer: Send + Sync + 'static {
    /// Its name in logs.
    fn name(&self) -> &str;

    /// How long one call may take. A call that takes longer is dropped, and the next notice follows.
    fn deadline(&self) -> Duration {
        OBSERVER_DEADLINE
    }

    /// Whose runs it sees; `None` for all.
    fn owner(&self) -> Option<Requester> {
        None
    }

    /// Whether it sees every event, or starts and ends alone. Without events it falls behind much later.
    fn events(&self) -> bool {
        true
    }

    /// A run has started.
    async fn on_start(&self, _start: &StartInfo) {}

    /// A run has ended.
    async fn on_end(&self, _end: &EndInfo) {}

    /// An event was committed. An event that starts a run comes after `on_start`, one that ends it before `on_end`.
    async fn on_event(&self, _event: &Event) {}

    /// It was too slow: `missed` notices were left out here. Those of durable subagents can be read from the log, after
    /// this position.
    async fn on_lag(&self, _missed: u64, _resume_after: Cursor) {}
}
