//! Lines in and out. A thread reads, so that a step can hold and listen at once.

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

/// Both ends of the conversation.
pub(crate) struct Wire {
    told: Receiver<Value>,
}

impl Wire {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn next(&self) -> Option<Value> {
        self.told.recv().ok()
    }

    /// A message that comes within this time.
    pub(crate) fn within(&self, time: Duration) -> Result<Value, RecvTimeoutError> {
        self.told.recv_timeout(time)
    }

    /// Says it. Who hears nobody ends, as programs do whose pipe is closed.
    pub(crate) fn say(&self, message: &Value) {
        self.raw(&message.to_string());
    }

    /// Writes a line that may be no message at all.
    #[expect(clippy::unused_self, reason = "what is said belongs to the same conversation")]
    pub(crate) fn raw(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            leave(141);
        }
    }
}

/// Ends this process at once.
#[expect(clippy::exit, reason = "it is the program")]
pub(crate) fn leave(code: i32) -> ! {
    std::process::exit(code)
}
