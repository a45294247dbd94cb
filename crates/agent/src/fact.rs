//! The facts of a session: each line of its journal is one. What a session is follows from its facts alone, so that a
//! process that was killed at any point and the next one come to the same. New fields are optional; old journals load for
//! ever (`fixtures/` of this crate).

use serde::{Deserialize, Serialize};
use subagent_model::{Limit, Usage};

use crate::conversation::Reply;
use crate::failure::Failure;

/// The version of the format that is written here.
pub const VERSION: u32 = 1;

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Says what the file is.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The name of the session.
    pub id: String,
    /// Its working directory.
    pub cwd: String,
    /// The system prompt that it began with: the same bytes every time keep the cache of the endpoint warm.
    pub system: String,
    /// When it began: milliseconds since 1970.
    pub at: u64,
}

impl Header {
    /// What the format is called.
    pub const FORMAT: &str = "subagent-session";
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fact {
    /// What a session before it has said, as data. Nothing of it counts as this session's.
    Inherited {
        /// The session that it comes from.
        from: String,
        /// The text.
        text: String,
    },
    /// A prompt: a turn begins.
    Prompt {
        /// The text.
        text: String,
        /// When: milliseconds since 1970.
        at: u64,
        /// The run of the supervisor that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<u32>,
    },
    /// A message into a turn.
    Steer {
        /// The text.
        text: String,
        /// Its number, by which it is known when it comes twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
    },
    /// The model has answered.
    Reply {
        /// What.
        reply: Reply,
        /// What it used.
        usage: Usage,
        /// Its endpoint told what it used.
        #[serde(default = "yes")]
        counted: bool,
    },
    /// A tool is about to work: whether it did anything is unknown until its result stands here.
    Started {
        /// The call.
        call: String,
    },
    /// A tool is done.
    Result {
        /// The call.
        call: String,
        /// What came of it.
        text: String,
        /// It failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
    /// The loop itself says something to the model.
    Nudge {
        /// Why.
        why: Nudge,
        /// The text.
        text: String,
    },
    /// The context was replaced by a summary.
    Compacted {
        /// The summary.
        summary: String,
        /// What it used.
        usage: Usage,
    },
    /// The turn is over.
    Ended {
        /// How.
        end: End,
    },
}

fn yes() -> bool {
    true
}

/// Why the loop says something by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nudge {
    /// A limit is near.
    WrapUp(Limit),
    /// The answer was empty.
    Empty,
    /// The answer does not fit its schema.
    Schema,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum End {
    /// With an answer.
    Finished {
        /// It was cut off by the limit of a message's length.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    },
    /// It was cancelled.
    Cancelled,
    /// A limit cut it off.
    CutOff {
        /// Which.
        limit: Limit,
    },
    /// It failed.
    Failed {
        /// Why.
        failure: Failure,
    },
}

impl Fact {
    /// Work that must not be done again, or words that must not be lost, rest on it: it is flushed before anything follows.
    pub fn is_weighty(&self) -> bool {
        matches!(
            self,
            Self::Inherited { .. } | Self::Prompt { .. } | Self::Steer { .. } | Self::Result { .. }
        )
    }
}
