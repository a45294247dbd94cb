//! The event feed: subscribers pull by position, the newest part from memory, the rest from the store. A slow one
//! slows nobody and misses nothing.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use subagent_model::{Cursor, Event};
use subagent_store::{Store, StoreError};
use tokio::sync::watch;

/// How many of the newest events are kept in memory.
const RECENT: usize = 1_024;

/// The feed of durable events.
pub(crate) struct Feed {
    recent: RwLock<VecDeque<Arc<Event>>>,
    head: watch::Sender<Cursor>,
}

impl Feed {
    pub(crate) fn new(head: Cursor) -> Self {
        Self { recent: RwLock::default(), head: watch::channel(head).0 }
    }

    /// The position of the newest event.
    pub(crate) fn head(&self) -> Cursor {
        *self.head.borrow()
    }

    /// Appends committed events, in order.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        let Some(last) = events.last().map(|event| event.seq) else { return };
        {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            recent.extend(events.into_iter().map(Arc::new));
            let surplus = recent.len().saturating_sub(RECENT);
            recent.drain(..surplus);
        }
        self.head.send_replace(last);
    }

    /// Events after `after`; waits for one when there is none.
    pub(crate) async fn read(
        &self,
        store: &Arc<dyn Store>,
        after: Cursor,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<Vec<Arc<Event>>, StoreError> {
        if let Some(wait) = wait {
            let mut head = self.head.subscribe();
            // The sender lives in `self`; running out of time only gives an empty page.
            let _ = tokio::time::timeout(wait, head.wait_for(|head| *head > after)).await;
        }
        if self.head() <= after {
            return Ok(Vec::new());
        }
        {
            let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
            if recent.front().is_some_and(|first| first.seq.0 <= after.0 + 1) {
                let skip = recent.partition_point(|event| event.seq <= after);
                return Ok(recent.iter().skip(skip).take(limit as usize).cloned().collect());
            }
        }
        Ok(store.events(after, limit)?.into_iter().map(Arc::new).collect())
    }
}
