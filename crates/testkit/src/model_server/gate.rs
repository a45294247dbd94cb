//! A gate: answers wait at it until it is opened, so that a test can look at an agent in the middle of its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::until::until;

/// A gate, shut until it is opened. Its copies are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    open: watch::Sender<bool>,
    waiting: Arc<AtomicUsize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A shut gate.
    pub fn new() -> Self {
        Self { open: watch::Sender::new(false), waiting: Arc::default() }
    }

    /// Lets all through, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Holds whoever comes from now on.
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    /// How many answers wait here at the moment.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Waits, without an asynchronous runtime, until this many answers stand here.
    pub fn reached_by(&self, answers: usize) {
        until("answers at the gate", || (self.waiting() >= answers).then_some(()));
    }

    /// Waits until the gate is open.
    pub(super) async fn pass(&self) {
        let _standing = Standing::new(&self.waiting);
        // The sender is `self`: it cannot be gone.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

/// One that waits, also when it is dropped while doing so.
struct Standing<'a>(&'a AtomicUsize);

impl<'a> Standing<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
