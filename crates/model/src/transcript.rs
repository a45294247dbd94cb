//! The transcript: what went on between a subagent and its child, in one form for all providers, as lines of JSON. The raw
//! frames that it was read from lie beside it. Words of newer versions are read as [`What::Unknown`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Answer, Subject};
use crate::attachment::Attachment;
use crate::ids::{AttemptNumber, Requester, RunNumber, SubagentId};
use crate::message::MessageNumber;
use crate::outcome::ErrorInfo;
use crate::time::Timestamp;
use crate::usage::Usage;

/// The version of the form. It stands in the first line of a file.
pub const TRANSCRIPT_VERSION: u32 = 1;

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptEntry {
    /// When it happened, as the shim noted it.
    pub at: Timestamp,
    /// The run that it belongs to.
    pub run: RunNumber,
    /// The attempt: one process.
    pub attempt: AttemptNumber,
    /// Where it stands in the raw log: the offset after its frame, and its number among those of the same frame. No two
    /// entries of an attempt have the same.
    pub log: (u64, u32),
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum What {
    /// The file begins.
    Begin {
        /// The form of the lines.
        version: u32,
        /// Whose transcript it is.
        subagent: SubagentId,
        /// Its provider.
        provider: String,
    },
    /// The child takes prompts.
    Opened {
        /// Its name of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// The child was prompted.
    Prompt {
        /// The message that it was, where it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<MessageNumber>,
        /// Who said it.
        from: Requester,
        /// The text.
        text: String,
        /// Files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attached: Vec<Attachment>,
    },
    /// The child was told something in its turn.
    Steer {
        /// The message.
        number: MessageNumber,
        /// Who said it.
        from: Requester,
        /// The text.
        text: String,
        /// Files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attached: Vec<Attachment>,
    },
    /// The turn was to be cancelled.
    Interrupt,
    /// The child got an answer.
    Answer {
        /// Its own name for what it asked.
        key: String,
        /// The answer.
        #[serde(flatten)]
        answer: Answer,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A message of the child.
    Message {
        /// The text.
        text: String,
    },
    /// A thought of the child.
    Thought {
        /// The text.
        text: String,
    },
    /// A tool was called.
    Tool {
        /// The child's name for the call.
        id: String,
        /// The tool.
        name: String,
        /// What it was given: text, or JSON as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<String>,
    },
    /// A tool is done.
    ToolResult {
        /// The child's name for the call.
        id: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<bool>,
        /// What came of it: text, or JSON as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
    },
    /// What the child means to do, all of it.
    Plan {
        /// The steps.
        steps: Vec<Step>,
    },
    /// A word for people.
    Notice {
        /// The text.
        text: String,
    },
    /// The model that works.
    Model {
        /// Its name.
        model: String,
    },
    /// The child asks, and waits.
    Ask {
        /// Its own name for it.
        key: String,
        /// What it asks.
        #[serde(flatten)]
        subject: Subject,
    },
    /// The child no longer waits for an answer.
    TookBack {
        /// Its own name for what it asked.
        key: String,
    },
    /// What a finished message used.
    Usage(Usage),
    /// The child has shortened its context.
    Compacted,
    /// A limit holds the child up.
    HeldUp {
        /// Until then, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// News of a subagent that runs inside the child.
    Inner {
        /// The child's name for it.
        id: String,
        /// The inner one that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// What it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// How it stands: `running`, `asking`, `completed`, `failed`, `stopped`, `unknown`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
    },
    /// The child was told to stop a subagent of its own.
    StopInner {
        /// The child's name for it.
        id: String,
    },
    /// A turn is over.
    TurnEnd {
        /// `finished`, `cancelled`, `cut_off` or `failed`.
        end: String,
        /// How it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorInfo>,
    },
    /// The child broke its protocol.
    Broken {
        /// How.
        text: String,
    },
    /// A part is missing here.
    Gap,
    /// Of a newer version.
    #[serde(other)]
    Unknown,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What.
    pub text: String,
    /// `pending`, `active` or `done`.
    pub state: String,
}

/// A page of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptPage {
    /// The entries, oldest first.
    pub items: Vec<TranscriptEntry>,
    /// Pass it as `after` to read on. Opaque.
    pub next: String,
    /// Nothing more will come of the run.
    pub ended: bool,
    /// The child is one that is spoken with. Others have no transcript, only their output.
    pub spoken: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{TranscriptEntry, What};

    /// Files of this version are read for ever, and written the same.
    #[test]
    fn the_committed_transcript_is_read_and_written_as_it_is() {
        for line in include_str!("../fixtures/transcript/v1.jsonl").lines() {
            let entry: TranscriptEntry = serde_json::from_str(line).unwrap();
            assert!(entry.what != What::Unknown, "{line}");
            let again: serde_json::Value =
                serde_json::from_str(&serde_json::to_string(&entry).unwrap()).unwrap();
            assert_eq!(again, serde_json::from_str::<serde_json::Value>(line).unwrap());
        }
    }

    #[test]
    fn a_word_of_a_newer_version_is_kept_apart() {
        let line = r#"{"at":"2026-11-30T00:00:00Z","run":1,"attempt":1,"log":[1,1],"type":"dream","of":"x"}"#;
        assert_eq!(serde_json::from_str::<TranscriptEntry>(line).unwrap().what, What::Unknown);
    }
}
