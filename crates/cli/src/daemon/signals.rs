//! Signals that end the daemon: the first asks, the second insists.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that mean "end".
pub(crate) struct Endings {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Endings {
    /// From now on they are caught.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
