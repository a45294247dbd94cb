//! What the model answers, apart from the wire format that it goes out in.

use std::time::Duration;

use serde_json::Value;

use super::gate::Gate;

/// An answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A message of the model.
    Reply(Reply),
    /// A refusal with a status.
    Failure(Failure),
    /// Nothing at all: the request is taken and never answered.
    Silence,
}

/// A message of the model. Its parts go out in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// What it waits for before the first byte.
    pub first: Vec<Hold>,
    /// Reasoning that is shown.
    pub thinking: Option<String>,
    /// Text, with what happens between its pieces.
    pub pieces: Vec<Piece>,
    /// Calls of tools.
    pub calls: Vec<Call>,
    /// What it claims to have cost.
    pub usage: Usage,
    /// Why it ends; without one, by what it holds.
    pub stop: Option<Stop>,
}

/// Something to wait for.
#[derive(Debug, Clone)]
pub enum Hold {
    /// A while.
    Wait(Duration),
    /// A gate.
    Gate(Gate),
}

impl PartialEq for Hold {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Wait(one), Self::Wait(two)) => one == two,
            _ => false,
        }
    }
}

impl Hold {
    /// Waits.
    pub(super) async fn pass(&self) {
        match self {
            Self::Wait(time) => tokio::time::sleep(*time).await,
            Self::Gate(gate) => gate.pass().await,
        }
    }
}

/// A piece of a text, or what happens in the middle of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text that goes out at once.
    Text(String),
    /// A wait.
    Hold(Hold),
    /// Nothing more comes, and the connection stays.
    Hang,
    /// The connection is cut.
    Cut,
    /// The stream says that it failed.
    Error(String),
    /// Something that is no event of this format.
    Garbage,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name of the tool.
    pub name: String,
    /// Its arguments; a string for a tool that takes free text.
    pub arguments: Value,
    /// It takes free text.
    pub free: bool,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Read anew.
    pub input: u64,
    /// Written, with what was reasoned.
    pub output: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Read anew and put into a cache.
    pub stored: u64,
    /// The part of the output that was reasoned.
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cached: 0, stored: 0, reasoning: 0 }
    }
}

impl Usage {
    /// All that was read.
    pub fn read(&self) -> u64 {
        self.input + self.cached + self.stored
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was said.
    End,
    /// A tool is to be called.
    Tools,
    /// It became too long.
    Length,
    /// The model refused.
    Refusal,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Status code.
    pub status: u16,
    /// What is said.
    pub message: String,
    /// After how many seconds to try again.
    pub retry_after: Option<u64>,
    /// The quota is used up; it is renewed after that many seconds.
    pub quota: Option<u64>,
}

impl Failure {
    /// One of this status.
    pub fn new(status: u16, message: &str) -> Self {
        Self { status, message: message.to_owned(), retry_after: None, quota: None }
    }
}

impl Answer {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Reply(Reply::text(text))
    }

    /// A call of one tool.
    pub fn call(tool: &str, arguments: Value) -> Self {
        Self::Reply(Reply::default().and_call(tool, arguments))
    }

    /// A failure.
    pub fn status(status: u16) -> Self {
        Self::Failure(Failure::new(status, &format!("scripted {status}")))
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Reply {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self::default().and_text(text)
    }

    /// More text.
    #[must_use]
    pub fn and_text(self, text: &str) -> Self {
        self.and(Piece::Text(text.to_owned()))
    }

    /// One more call, beside those there are.
    #[must_use]
    pub fn and_call(mut self, tool: &str, arguments: Value) -> Self {
        let free = arguments.is_string();
        self.calls.push(Call { name: tool.to_owned(), arguments, free });
        self
    }

    /// Something that happens next.
    #[must_use]
    pub fn and(mut self, piece: Piece) -> Self {
        self.pieces.push(piece);
        self
    }

    /// Waits here, before what follows.
    #[must_use]
    pub fn then_wait(self, time: Duration) -> Self {
        self.and(Piece::Hold(Hold::Wait(time)))
    }

    /// Waits here for a gate, before what follows.
    #[must_use]
    pub fn then_gate(self, gate: &Gate) -> Self {
        self.and(Piece::Hold(Hold::Gate(gate.clone())))
    }

    /// Waits for a gate before the first byte.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.first.push(Hold::Gate(gate.clone()));
        self
    }

    /// Claims this usage.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// All its text.
    pub fn whole_text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Whether it has a place for text: an answer that is cut off before any text began one all the same.
    pub(super) fn speaks(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Why it ends.
    pub(super) fn stop(&self) -> Stop {
        self.stop.unwrap_or(if self.calls.is_empty() { Stop::End } else { Stop::Tools })
    }
}
