//! How things stand and how they end: statuses, outcomes, their causes and qualities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::process::ProcessIdentity;
use crate::text::BoundedText;
use crate::time::Timestamp;

/// The status people see. Final ones are the outcomes of the current run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Admitted, waiting for a slot.
    Queued,
    /// Preparing the workspace, starting the child, or working.
    Running,
    /// Warm: alive between turns, accepts messages.
    Idle,
    /// The turn ended or paused on something the subagent owns.
    Waiting,
    /// A stop was accepted; the process tree is not gone yet.
    Stopping,
    /// Ended by itself, budget never hit.
    Completed,
    /// Hit its turn limit, was asked to wrap up, did so within the grace.
    Steered,
    /// Cut off by a limit.
    Aborted,
    /// Stopped by a caller, its parent, or shutdown.
    Stopped,
    /// Failed, with a stable code.
    Error,
    /// Nobody can know what happened.
    Lost,
}

impl Status {
    /// All statuses, in the order of a life.
    pub const ALL: [Self; 11] = [
        Self::Queued,
        Self::Running,
        Self::Idle,
        Self::Waiting,
        Self::Stopping,
        Self::Completed,
        Self::Steered,
        Self::Aborted,
        Self::Stopped,
        Self::Error,
        Self::Lost,
    ];

    /// True when the run has ended.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Steered | Self::Aborted | Self::Stopped | Self::Error | Self::Lost
        )
    }

    /// True for the ends that a script may call a success: `completed` and `steered`.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Completed | Self::Steered)
    }

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Steered => "steered",
            Self::Aborted => "aborted",
            Self::Stopped => "stopped",
            Self::Error => "error",
            Self::Lost => "lost",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that is no status.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a status")]
pub struct NotAStatus(String);

impl std::str::FromStr for Status {
    type Err = NotAStatus;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| NotAStatus(text.to_owned()))
    }
}

/// What a queued run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum QueueReason {
    /// A running slot.
    Capacity,
    /// Another try of a start that failed, not before a time.
    Retry {
        /// Not before.
        at: Timestamp,
    },
    /// The end of a cool-down of its provider, account and model.
    Rate {
        /// Nothing of the same provider, account and model starts before.
        until: Timestamp,
        /// This run does not start before: runs are spread, so that they do not all come back at once.
        not_before: Timestamp,
    },
}

impl QueueReason {
    /// The time before which it does not start.
    pub fn not_before(&self) -> Option<Timestamp> {
        match self {
            Self::Capacity => None,
            Self::Retry { at: time } | Self::Rate { not_before: time, .. } => Some(*time),
        }
    }
}

/// What a waiting run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum ActivityOn {
    /// Child runs of its own that are still live.
    Children,
    /// A decision about a permission.
    Approval,
    /// An answer to a question.
    Question,
    /// Background work of its own that it left running.
    Background,
    /// A quota that resets at a known time.
    Quota {
        /// When.
        until: Timestamp,
    },
}

/// Why a run was ended early, beside who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Somebody asked for it.
    Requested,
    /// Its parent was stopped.
    ParentStopped,
    /// The caller cancelled before or while it was queued.
    CallerCancelled,
    /// The daemon was told to stop its children when it shut down.
    Shutdown,
    /// Its turn was interrupted, and no message came with that.
    Interrupted,
    /// The turn of its parent was interrupted.
    ParentInterrupted,
    /// A warm subagent was idle for longer than it may be.
    IdleTooLong,
}

/// An accepted stop: who asked, why, and when. The first one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopInfo {
    /// Who asked, as a requester name.
    pub actor: String,
    /// Why.
    pub cause: Cause,
    /// When it was accepted: the completion time of the run.
    pub at: Timestamp,
}

/// The limit that cut a run off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Wall clock.
    Deadline,
    /// Turns, the grace included.
    Turns,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// Tool calls.
    ToolCalls,
    /// Tokens of the whole tree.
    TreeTokens,
    /// Money of the whole tree.
    TreeCost,
    /// No sign of life for longer than its policy allows.
    Stall,
}

/// What is known of a process's end. Code and signal are independent facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExitFacts {
    /// Exit code, when it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal, when one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// When the process really ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// A failure, in parts that never stand in for one another: headline, diagnostic, and (on the run) partial output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorInfo {
    /// Stable code.
    pub code: ErrorCode,
    /// One line: what happened.
    pub message: String,
    /// The end of the error output or a chain of causes, bounded, free of secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// True when asking again may help.
    pub retryable: bool,
    /// When a limit of the provider is known to be lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Timestamp>,
    /// The process's end, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitFacts>,
}

/// Notes on an outcome: each is evidence, not a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The result is empty or blank.
    NoOutput,
    /// The result is shorter than what was produced.
    Truncated,
    /// The result came after the stop or was cut off.
    Partial,
    /// The run never started.
    NeverStarted,
    /// The child left processes behind, which were ended.
    LeftoversEnded,
    /// Part of the output could not be kept (full disk or damaged log).
    OutputIncomplete,
    /// Something that the child asked for was denied; the record's requests say what and why. What rules of its own denied
    /// before it asked stands in the transcript.
    PermissionDenied,
    /// Messages came back undelivered; the record lists them.
    MessagesReturned,
    /// Somebody's gate would have made it go on, and it could not.
    GateUnheard,
}

/// How far a good end can be trusted. An axis of its own beside the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// Nothing speaks against it.
    Ok,
    /// There is a result, but not all of it.
    Partial,
    /// There is reason to look: blank text, no tool use where some was expected, very short life.
    Unverified,
}

/// How a run ended. Final: never changes within its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// Ended by itself.
    Completed,
    /// Wrapped up at its turn limit.
    Steered,
    /// Cut off by a limit.
    Aborted {
        /// Which.
        limit: Limit,
    },
    /// Stopped by someone.
    Stopped {
        /// Who, why, when.
        stop: StopInfo,
    },
    /// Failed.
    Error {
        /// What is known.
        error: ErrorInfo,
    },
    /// Nothing is known of how it ended.
    Lost {
        /// What is known around it.
        evidence: String,
    },
}

impl Outcome {
    /// The status word of this outcome.
    pub fn status(&self) -> Status {
        match self {
            Self::Completed => Status::Completed,
            Self::Steered => Status::Steered,
            Self::Aborted { .. } => Status::Aborted,
            Self::Stopped { .. } => Status::Stopped,
            Self::Error { .. } => Status::Error,
            Self::Lost { .. } => Status::Lost,
        }
    }
}

/// What the driver of an attempt found at its end: everything the run machine needs to end the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// How it would end, if no stop was accepted before.
    pub outcome: Outcome,
    /// Result or what there is of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BoundedText>,
    /// Notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Trust.
    pub quality: Quality,
    /// The process's end, when there was a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitFacts>,
}

/// Facts of one attempt as the record lists them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptFacts {
    /// Its number.
    pub attempt: crate::ids::AttemptNumber,
    /// When a slot was taken for it.
    pub claimed_at: Timestamp,
    /// The process, once there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// When the process was seen to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// How the process ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitFacts>,
    /// Why the attempt ended, in one line, when it did not end the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The run in which its process began, where a warm subagent goes on in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_in: Option<crate::ids::RunNumber>,
}
