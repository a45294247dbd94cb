//! Events: the facts from which every record is folded, and what subscribers see. One enum, no catch-all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptNumber, Cursor, Handle, NodeId, Requester, RunNumber, SubagentId};
use crate::outcome::{
    ActivityOn, Conclusion, ErrorInfo, ExitFacts, Mark, Outcome, Quality, QueueReason, StopInfo,
};
use crate::process::ProcessIdentity;
use crate::spec::SpawnSpec;
use crate::text::BoundedText;
use crate::time::Timestamp;
use crate::usage::Usage;

/// Version of the event and state format in the store.
pub const FORMAT: u32 = 1;

/// A fact as subscribers see it: numbered without gaps by the store it was committed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its position in the log.
    pub seq: Cursor,
    /// When it was decided.
    pub at: Timestamp,
    /// Of whom.
    pub subagent: SubagentId,
    /// Of which run.
    pub run: RunNumber,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[expect(
    clippy::large_enum_variant,
    reason = "one event at a time is decided, written and dropped; boxes would cost more than the room"
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The spawn passed the gate.
    Accepted {
        /// Short name.
        handle: Handle,
        /// The admitted spec.
        spec: Box<SpawnSpec>,
        /// Parent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<SubagentId>,
        /// Root of the tree.
        root: SubagentId,
        /// Distance from the root.
        depth: u32,
        /// Who asked.
        requester: Requester,
    },
    /// A next run was opened on an ended subagent.
    Resumed {
        /// The prompt of the run.
        prompt: BoundedText,
        /// Who asked, and gets the result.
        requester: Requester,
    },
    /// The run waits for a slot.
    Queued {
        /// For what.
        reason: QueueReason,
    },
    /// A slot was taken for an attempt.
    Claimed {
        /// The attempt: the fencing number.
        attempt: AttemptNumber,
        /// The node that holds it.
        owner: NodeId,
        /// Until when, unless renewed.
        lease_until: Timestamp,
    },
    /// The lease was extended.
    Renewed {
        /// The attempt.
        attempt: AttemptNumber,
        /// Until when.
        lease_until: Timestamp,
    },
    /// The child's process runs.
    Started {
        /// The attempt.
        attempt: AttemptNumber,
        /// The process; absent for children inside the daemon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessIdentity>,
    },
    /// Something finished: a message, a turn, a tool call.
    Progress {
        /// The attempt.
        attempt: AttemptNumber,
        /// Turns since the last such event.
        #[serde(default)]
        turns: u32,
        /// Tool calls since the last such event.
        #[serde(default)]
        tool_uses: u32,
        /// Compactions since the last such event.
        #[serde(default)]
        compactions: u32,
        /// Tokens and money since the last such event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// The turn is over or paused on something the run owns.
    Waiting {
        /// The attempt.
        attempt: AttemptNumber,
        /// For what.
        on: ActivityOn,
        /// How the run will end once nothing is waited for any more; the process is gone then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Box<Conclusion>>,
    },
    /// What was waited for has come; the run goes on.
    Continued {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// A stop was accepted.
    StopAccepted {
        /// Who, why, when.
        stop: StopInfo,
    },
    /// An attempt ended without ending the run, which goes back to the queue.
    AttemptEnded {
        /// The attempt.
        attempt: AttemptNumber,
        /// Why, in one line.
        reason: String,
        /// The process's end, when known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<ExitFacts>,
    },
    /// The run ended. Exactly one per run.
    Ended {
        /// How.
        outcome: Outcome,
        /// When the run was over; the time of the stop for a stopped one.
        completed_at: Timestamp,
        /// Result or what there is of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<BoundedText>,
        /// Notes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        marks: Vec<Mark>,
        /// Trust.
        quality: Quality,
        /// The process's end, when known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<ExitFacts>,
        /// The failure that came after the stop, on a stopped run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        late_error: Option<ErrorInfo>,
    },
    /// A fact came too late to change anything. It is kept for the log.
    Late {
        /// The attempt it is from.
        attempt: AttemptNumber,
        /// What it was, in one line.
        what: String,
    },
    /// A carrier took the undelivered result of a run for a bounded time.
    DeliveryClaimed {
        /// Of which run: it may be an earlier one than the current.
        of_run: RunNumber,
        /// Which carrier.
        carrier: String,
        /// Until when.
        until: Timestamp,
    },
    /// The carrier failed: the result is up for delivery again. A claim whose time is over needs no such event.
    DeliveryReturned {
        /// Of which run: it may be an earlier one than the current.
        of_run: RunNumber,
        /// Why.
        reason: String,
    },
    /// The requester of a run has consumed its result.
    Acknowledged {
        /// Of which run: it may be an earlier one than the current.
        of_run: RunNumber,
        /// Who acknowledged.
        by: Requester,
    },
}

impl EventKind {
    /// The word on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Resumed { .. } => "resumed",
            Self::Queued { .. } => "queued",
            Self::Claimed { .. } => "claimed",
            Self::Renewed { .. } => "renewed",
            Self::Started { .. } => "started",
            Self::Progress { .. } => "progress",
            Self::Waiting { .. } => "waiting",
            Self::Continued { .. } => "continued",
            Self::StopAccepted { .. } => "stop_accepted",
            Self::AttemptEnded { .. } => "attempt_ended",
            Self::Ended { .. } => "ended",
            Self::Late { .. } => "late",
            Self::DeliveryClaimed { .. } => "delivery_claimed",
            Self::DeliveryReturned { .. } => "delivery_returned",
            Self::Acknowledged { .. } => "acknowledged",
        }
    }

    /// The run that the fact names by itself, because it may be another than the current one.
    pub fn of_run(&self) -> Option<RunNumber> {
        match self {
            Self::DeliveryClaimed { of_run, .. }
            | Self::DeliveryReturned { of_run, .. }
            | Self::Acknowledged { of_run, .. } => Some(*of_run),
            _ => None,
        }
    }
}
