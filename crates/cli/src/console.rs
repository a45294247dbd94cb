//! The one place that writes: data to standard output, everything else to standard error. A reader that went away
//! ends the writing quietly. What children wrote never reaches a terminal with its control codes.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::view::rows::{self, Cell};
use crate::view::text;

/// Both streams, and how they are to be written.
#[derive(Debug)]
pub(crate) struct Console {
    /// JSON was asked for.
    pub(crate) json: bool,
    /// Standard output.
    pub(crate) out: Stream,
    /// Standard error.
    pub(crate) err: Stream,
    closed: AtomicBool,
    /// Why data could not be written, when it was not for want of a reader.
    failed: Mutex<Option<io::Error>>,
}

/// One of the two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    which: Which,
    /// It is a terminal.
    pub(crate) terminal: bool,
    /// It may be coloured.
    pub(crate) colour: bool,
}

#[derive(Debug, Clone, Copy)]
enum Which {
    Out,
    Err,
}

impl Stream {
    /// Columns of the terminal; `None` when it is none.
    pub(crate) fn width(self) -> Option<usize> {
        self.terminal.then(|| self.size().0)
    }

    /// Rows of the terminal.
    pub(crate) fn height(self) -> usize {
        self.size().1
    }

    fn size(self) -> (usize, usize) {
        let size = match self.which {
            Which::Out => rustix::termios::tcgetwinsize(io::stdout()),
            Which::Err => rustix::termios::tcgetwinsize(io::stderr()),
        };
        match size {
            Ok(size) if size.ws_col > 0 => (size.ws_col.into(), size.ws_row.max(2).into()),
            _ => (80, 24),
        }
    }

    fn write(self, data: &str) -> io::Result<()> {
        match self.which {
            Which::Out => {
                let mut out = io::stdout().lock();
                out.write_all(data.as_bytes()).and_then(|()| out.flush())
            }
            Which::Err => io::stderr().lock().write_all(data.as_bytes()),
        }
    }
}

impl Console {
    /// The console of this process.
    pub(crate) fn new(json: bool) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let stream = |which, terminal| Stream { which, terminal, colour: terminal && !plain && !dumb };
        Self {
            json,
            out: stream(Which::Out, io::stdout().is_terminal()),
            err: stream(Which::Err, io::stderr().is_terminal()),
            closed: AtomicBool::new(false),
            failed: Mutex::new(None),
        }
    }

    /// A line of data.
    pub(crate) fn line(&self, line: &str) {
        self.data(&format!("{line}\n"));
    }

    /// Rows of data, aligned and within the width of the terminal.
    pub(crate) fn rows(&self, rows: &[Vec<Cell>]) {
        for line in rows::aligned(rows, self.out.width(), self.out.colour) {
            self.line(&line);
        }
    }

    /// Data as it is. The caller has made it fit for a terminal if it is a child's.
    pub(crate) fn data(&self, data: &str) {
        if self.closed() {
            return;
        }
        if let Err(error) = self.out.write(data) {
            self.closed.store(true, Ordering::Relaxed);
            // A reader that went away has what it wanted; anything else lost data.
            if error.kind() != io::ErrorKind::BrokenPipe {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
    }

    /// Why data could not be written; `None` when all of it was, or its reader went away.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A child's text as data: as it is into a pipe, without its control codes to a terminal.
    pub(crate) fn childs_text(&self, data: &str) {
        if self.out.terminal { self.data(&text::block(data)) } else { self.data(data) }
    }

    /// One JSON document: indented for people, one line for programs.
    pub(crate) fn document(&self, value: &impl Serialize) {
        if self.out.terminal {
            let json = serde_json::to_string_pretty(value).unwrap_or_default();
            self.line(&text::json_for_terminal(&json));
        } else {
            self.json_line(value);
        }
    }

    /// One JSON object on one line.
    pub(crate) fn json_line(&self, value: &impl Serialize) {
        let json = serde_json::to_string(value).unwrap_or_default();
        if self.out.terminal { self.line(&text::json_for_terminal(&json)) } else { self.line(&json) }
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
        let _ = self.err.write(&format!("{line}\n"));
    }

    /// A line for people, only where one may be looking.
    pub(crate) fn aside(&self, line: &str) {
        if self.err.terminal && !self.json {
            self.note(line);
        }
    }

    /// A child's error output.
    pub(crate) fn childs_error(&self, data: &str) {
        let cleaned = if self.err.terminal { text::block(data) } else { data.to_owned() };
        let _ = self.err.write(&cleaned);
    }

    /// A JSON document on standard error.
    pub(crate) fn note_json(&self, value: &impl Serialize) {
        self.note(&serde_json::to_string(value).unwrap_or_default());
    }
}
