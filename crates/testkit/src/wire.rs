//! JSON lines in and out, for programs that play an agent. A thread reads, so that a step can hold and listen at once.

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

/// Both ends of the conversation.
pub struct Wire {
    told: Receiver<Value>,
}

impl Default for Wire {
    fn default() -> Self {
        Self::new()
    }
}

impl Wire {
    /// Of this process: its standard input and output.
    pub fn new() -> Self {
        let (sender, told) = channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                let value = serde_json::from_str(&line).expect("the daemon writes JSON lines");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Self { told }
    }

    /// The next message; nothing at the end of the input.
    pub fn next(&self) -> Option<Value> {
        self.told.recv().ok()
    }

    /// A message that comes within this time.
    pub fn within(&self, time: Duration) -> Result<Value, RecvTimeoutError> {
        self.told.recv_timeout(time)
    }

    /// Says it. Who hears nobody ends, as programs do whose pipe is closed.
    pub fn say(&self, message: &Value) {
        self.raw(&message.to_string());
    }

    /// Writes a line that may be no message at all.
    pub fn raw(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            leave(141);
        }
    }
}

/// Ends this process at once.
#[expect(clippy::exit, reason = "whoever calls it is the whole program")]
pub fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// From here on SIGTERM does nothing: a handler takes it and nobody looks.
pub fn ignore_term() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let terminate = tokio::signal::unix::SignalKind::terminate();
    // The handler stays when its stream is dropped.
    drop(tokio::signal::unix::signal(terminate).expect("SIGTERM can be handled"));
}
