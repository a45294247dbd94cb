//! The bounded queue of one observer. Putting in never waits: what finds it full is counted, and the observer is told at
//! that place of the order.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subagent_model::{Cursor, RunNumber, SubagentId};
use tokio::sync::Notify;

use crate::info::{Notice, StartInfo};

/// How many notices wait for one observer.
pub const INBOX: usize = 1024;

/// What an observer is told next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Notice {
        notice: Arc<Notice>,
        /// The start of the run that ends here, when it was left out before.
        left_out: Option<Arc<StartInfo>>,
    },
    Lag {
        missed: u64,
        resume_after: Cursor,
    },
}

pub(crate) struct Inbox {
    capacity: usize,
    state: Mutex<State>,
    news: Notify,
}

struct State {
    /// A lag is always the last: from there on all is left out until the observer has been told.
    told: VecDeque<Told>,
    /// The last position that is not left out.
    through: Cursor,
    /// Live runs whose start was left out.
    unstarted: HashSet<(SubagentId, RunNumber)>,
    closed: bool,
}

impl Inbox {
    /// The queue of an observer that comes when the log has reached `head`.
    pub(crate) fn new(capacity: usize, head: Cursor) -> Self {
        let state = State { told: VecDeque::new(), through: head, unstarted: HashSet::new(), closed: false };
        Self { capacity, state: Mutex::new(state), news: Notify::new() }
    }

    /// Puts `notice` in, or leaves it out when there is no room.
    pub(crate) fn put(&self, notice: &Arc<Notice>) {
        let mut state = self.lock();
        if !state.closed {
            state.put(notice, self.capacity);
        }
        drop(state);
        self.news.notify_one();
    }

    /// Moves on over an event that the observer does not want.
    pub(crate) fn skip(&self, notice: &Notice) {
        let mut state = self.lock();
        if !matches!(state.told.back(), Some(Told::Lag { .. })) {
            state.passed(notice);
        }
    }

    /// What is next; waits for it. `None` when the queue was closed and is empty.
    pub(crate) async fn take(&self) -> Option<Told> {
        loop {
            {
                let mut state = self.lock();
                if let Some(told) = state.told.pop_front() {
                    return Some(told);
                }
                if state.closed {
                    return None;
                }
            }
            self.news.notified().await;
        }
    }

    /// Nothing more comes in.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().told.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, notice: &Arc<Notice>, capacity: usize) {
        if let Some(Told::Lag { missed, .. }) = self.told.back_mut() {
            *missed += 1;
            self.leave_out(notice);
        } else if self.told.len() >= capacity {
            self.told.push_back(Told::Lag { missed: 1, resume_after: self.through });
            self.leave_out(notice);
        } else {
            let left_out =
                notice.end.as_ref().filter(|_| self.forget(notice)).map(|end| Arc::clone(&end.start));
            self.told.push_back(Told::Notice { notice: Arc::clone(notice), left_out });
            self.passed(notice);
        }
    }

    fn leave_out(&mut self, notice: &Notice) {
        if notice.end.is_some() {
            self.forget(notice);
        } else if notice.start.is_some() {
            self.unstarted.insert((notice.event.subagent, notice.event.run));
        }
    }

    fn forget(&mut self, notice: &Notice) -> bool {
        self.unstarted.remove(&(notice.event.subagent, notice.event.run))
    }

    fn passed(&mut self, notice: &Notice) {
        if let Some(position) = notice.position() {
            self.through = self.through.max(position);
        }
    }
}
