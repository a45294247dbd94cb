//! Words of `subagent`, on the wire and on disk: ids, specs, records, events, outcomes, error codes.
//!
//! Everything here is plain serialisable data with meaning and units; no decisions (those are in
//! `subagent-core`), no IO, no clock, no randomness. A change here is a change of a public format: adding an
//! optional field is minor, removing, renaming or narrowing is major.

pub mod agents;
pub mod ask;
pub mod attachment;
pub mod bounds;
pub mod budget;
pub mod capability;
pub mod error;
pub mod event;
pub mod ids;
pub mod inner;
pub mod message;
pub mod outcome;
pub mod process;
pub mod record;
pub mod request;
pub mod setup;
pub mod spec;
mod strict;
pub mod text;
pub mod time;
pub mod transcript;
pub mod usage;

pub use ask::{
    Answer, Answered, Ask, AskOption, Choice, Grant, Permissions, PolicyRule, PolicyWord, RequestItem,
    RequestNumber, RequestState, Subject,
};
pub use attachment::Attachment;
pub use bounds::Bounds;
pub use budget::{Budget, TreeBudget, WrapUp};
pub use capability::{Capabilities, Steering, SystemPromptUse};
pub use error::{ErrorCode, Problem};
pub use event::{Event, EventKind, Nudge};
pub use ids::{AttemptKey, AttemptNumber, Cursor, Handle, NodeId, Requester, RunNumber, SubagentId};
pub use inner::{InnerList, InnerStatus, InnerSubagent, StopInnerReply, StopInnerRequest};
pub use message::{Message, MessageMode, MessageNumber, Posted, Receipt, ReturnReason, Written};
pub use outcome::{
    ActivityOn, AttemptFacts, Cause, Conclusion, ErrorInfo, ExitFacts, Limit, Mark, Outcome, Quality,
    QueueReason, Status, StopInfo,
};
pub use process::{ExitRecord, ProcessIdentity};
pub use record::{RunRecord, SubagentRecord};
pub use setup::{AgentSetup, McpServer, McpTransport, SystemPrompt, SystemPromptMode, ToolFilter};
pub use spec::{ExecSpec, Mode, OnLoss, PromptVia, ResultFrom, SpawnSpec, StallPolicy, Talk};
pub use text::BoundedText;
pub use time::Timestamp;
pub use transcript::{TRANSCRIPT_VERSION, TranscriptEntry, TranscriptPage, What};
pub use usage::Usage;
