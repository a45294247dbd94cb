//! Messages to a subagent and their receipts. What may happen to a message, and when, is `subagent-core`'s.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::ids::{Requester, RunNumber};
use crate::time::Timestamp;

/// Names a message within its subagent: counted from 1, over all runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct MessageNumber(pub u64);

impl std::fmt::Display for MessageNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// When a message reaches the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageMode {
    /// In the current turn where the provider can, else at the next boundary of its work.
    Steer,
    /// As the prompt of the next run.
    FollowUp,
    /// The current turn is cancelled, the session stays, and the message is the next prompt of the same run.
    Interrupt,
}

impl MessageMode {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::FollowUp => "follow_up",
            Self::Interrupt => "interrupt",
        }
    }
}

/// A message that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Its number.
    pub number: MessageNumber,
    /// Who sent it. It travels beside the text, so the text cannot claim another origin.
    pub from: Requester,
    /// When it is to reach the child.
    pub mode: MessageMode,
    /// The text.
    pub text: String,
    /// Files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// When it was accepted.
    pub at: Timestamp,
    /// The sender's key: sending again with it gives the same message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What the sender of a message holds. It changes once, from accepted to its last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "receipt", rename_all = "snake_case")]
pub enum Receipt {
    /// It waits, or is being handed over.
    Accepted,
    /// The child has it.
    Delivered {
        /// Since when.
        at: Timestamp,
        /// In which run.
        run: RunNumber,
    },
    /// The child does not have it, and will not get it.
    Returned {
        /// Why.
        reason: ReturnReason,
        /// Since when.
        at: Timestamp,
    },
}

/// Why a message came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReturnReason {
    /// The run ended first.
    RunEnded,
    /// A stop was accepted first.
    Stopped,
    /// The run could not be started.
    StartFailed,
    /// It was being written when the connection was lost, and nobody can say whether the child has it.
    Unknown,
    /// The stored message cannot be read. It was set aside; those behind it go on.
    Malformed,
    /// The child's protocol did not take it.
    Refused,
    /// The next run, whose prompt it was to be, was not admitted or cannot be opened.
    NotResumed,
    /// It would have told a result that was read meanwhile.
    AlreadyRead,
}

impl ReturnReason {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunEnded => "the run ended first",
            Self::Stopped => "a stop was accepted first",
            Self::StartFailed => "the run could not be started",
            Self::Unknown => "the connection was lost while it was written",
            Self::Malformed => "the stored message cannot be read",
            Self::Refused => "the child did not take it",
            Self::NotResumed => "the next run could not be opened",
            Self::AlreadyRead => "what it tells was read meanwhile",
        }
    }
}

/// A message with its receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    /// The message.
    pub message: Message,
    /// What became of it.
    #[serde(flatten)]
    pub receipt: Receipt,
}

/// What is known about a message whose handing over was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// The child has it.
    Yes,
    /// Certainly not: it may be tried again.
    No,
    /// The child refused it: trying again would not help.
    Refused,
    /// Cannot be known: trying again could hand it over twice.
    Unknown,
}
