//! What a task says when it cannot go on: what happened, and what to do next.

use std::fmt;

/// A failure with its remedy.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    next: String,
}

/// The result of every task.
pub(crate) type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    /// With nothing to say, it fails in silence: the program that was called has said it all.
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.what.is_empty() {
            return Ok(());
        }
        writeln!(f, "error: {}\n next: {}", self.what, self.next)
    }
}
