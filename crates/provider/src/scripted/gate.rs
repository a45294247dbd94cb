//! Gates: the places of a script where a child holds until a test lets it go on.

use std::sync::Arc;

use tokio::sync::watch;

/// A named gate: closed until a test opens it, open for ever then.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Default)]
struct State {
    open: bool,
    came: usize,
}

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(watch::channel(State::default()).0))
    }
}

impl Gate {
    /// Lets everyone pass who waits or comes later.
    pub fn open(&self) {
        self.0.send_modify(|state| state.open = true);
    }

    /// Returns once the gate is open.
    pub async fn pass(&self) {
        self.0.send_modify(|state| state.came += 1);
        self.until(|state| state.open).await;
    }

    /// Returns once somebody has come to it, whether it is open or not.
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Returns once so many have come to it, over all its time.
    pub async fn reached_by(&self, many: usize) {
        self.until(|state| state.came >= many).await;
    }

    async fn until(&self, wanted: impl Fn(&State) -> bool) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|state| wanted(state)).await;
    }
}
