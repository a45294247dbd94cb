//! The one place that writes: data to standard output, everything else to standard error. A reader that went away
//! ends the writing quietly. What children wrote never reaches a terminal with its control codes.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::view::text;

/// Both streams, and how they are to be written.
#[derive(Debug)]
pub(crate) struct Console {
    /// JSON was asked for.
    pub(crate) json: bool,
    /// Standard output is a terminal.
    pub(crate) terminal_out: bool,
    /// Standard error is a terminal.
    pub(crate) terminal_err: bool,
    /// Standard output may be coloured.
    pub(crate) colour_out: bool,
    /// Standard error may be coloured.
    pub(crate) colour_err: bool,
    closed: AtomicBool,
}

impl Console {
    /// The console of this process.
    pub(crate) fn new(json: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colours = !set("NO_COLOR") && !dumb;
        let (terminal_out, terminal_err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            json,
            terminal_out,
            terminal_err,
            colour_out: terminal_out && colours,
            colour_err: terminal_err && colours,
            closed: AtomicBool::new(false),
        }
    }

    /// Columns of the terminal that standard output is; `None` when it is none.
    pub(crate) fn width_out(&self) -> Option<usize> {
        self.terminal_out.then(|| size(io::stdout()).0)
    }

    /// Columns of the terminal that standard error is; `None` when it is none.
    pub(crate) fn width_err(&self) -> Option<usize> {
        self.terminal_err.then(|| size(io::stderr()).0)
    }

    /// Rows of the terminal that standard output is.
    pub(crate) fn height_out(&self) -> usize {
        size(io::stdout()).1
    }

    /// A line of data.
    pub(crate) fn line(&self, line: &str) {
        self.data(&format!("{line}\n"));
    }

    /// Data as it is. The caller has made it fit for a terminal if it is a child's.
    pub(crate) fn data(&self, data: &str) {
        if self.closed() {
            return;
        }
        if io::stdout().lock().write_all(data.as_bytes()).is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// A child's text as data: as it is into a pipe, without its control codes to a terminal.
    pub(crate) fn childs_text(&self, data: &str) {
        if self.terminal_out { self.data(&text::block(data)) } else { self.data(data) }
    }

    /// One JSON document: indented for people, one line for programs.
    pub(crate) fn document(&self, value: &impl Serialize) {
        if self.terminal_out {
            let json = serde_json::to_string_pretty(value).unwrap_or_default();
            self.line(&text::json_for_terminal(&json));
        } else {
            self.json_line(value);
        }
    }

    /// One JSON object on one line.
    pub(crate) fn json_line(&self, value: &impl Serialize) {
        let json = serde_json::to_string(value).unwrap_or_default();
        if self.terminal_out { self.line(&text::json_for_terminal(&json)) } else { self.line(&json) }
    }

    /// Brings what was written out; true when the reader took all of it.
    pub(crate) fn flush(&self) -> bool {
        if io::stdout().lock().flush().is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
        !self.closed()
    }

    /// True once nobody reads standard output any more.
    pub(crate) fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A line for people, beside the data.
    pub(crate) fn note(&self, line: &str) {
        // Nobody is left to tell when this fails.
        let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
    }

    /// A line for people, only where one may be looking.
    pub(crate) fn aside(&self, line: &str) {
        if self.terminal_err && !self.json {
            self.note(line);
        }
    }

    /// A child's error output.
    pub(crate) fn childs_error(&self, data: &str) {
        let cleaned = if self.terminal_err { text::block(data) } else { data.to_owned() };
        let _ = io::stderr().lock().write_all(cleaned.as_bytes());
    }

    /// A JSON document on standard error.
    pub(crate) fn note_json(&self, value: &impl Serialize) {
        self.note(&serde_json::to_string(value).unwrap_or_default());
    }
}

/// Columns and rows.
fn size(stream: impl std::os::fd::AsFd) -> (usize, usize) {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => (size.ws_col.into(), size.ws_row.max(2).into()),
        _ => (80, 24),
    }
}
