//! What can be asked of a subagent, and the typed ways to refuse it.

use serde::{Deserialize, Serialize};
use subagent_model::{
    AttemptNumber, BoundedText, Cause, Conclusion, ErrorCode, ExitFacts, Handle, NodeId, ProcessIdentity,
    Requester, RunNumber, SpawnSpec, Status, SubagentId, Timestamp, Usage,
};

/// Everything that is decided about a subagent at its birth, after admission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Birth {
    /// Identity.
    pub id: SubagentId,
    /// Short name.
    pub handle: Handle,
    /// The admitted spec.
    pub spec: SpawnSpec,
    /// Parent.
    pub parent: Option<SubagentId>,
    /// Root of the tree.
    pub root: SubagentId,
    /// Distance from the root.
    pub depth: u32,
    /// Who asked.
    pub requester: Requester,
}

/// A command to a subagent. Those that speak for an attempt carry its number: the fence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Take a slot for the next attempt of a queued run.
    Claim {
        /// Who will hold it.
        owner: NodeId,
        /// Until when.
        lease_until: Timestamp,
    },
    /// Extend the lease of a live attempt.
    Renew {
        /// The attempt.
        attempt: AttemptNumber,
        /// Until when.
        lease_until: Timestamp,
    },
    /// Take over an attempt whose lease has run out.
    Reclaim {
        /// Who will hold the next attempt.
        owner: NodeId,
        /// Until when.
        lease_until: Timestamp,
        /// Most attempts of a run.
        max_attempts: u32,
    },
    /// The process of an attempt runs.
    Started {
        /// The attempt.
        attempt: AttemptNumber,
        /// The process; none for a child inside the daemon.
        process: Option<ProcessIdentity>,
    },
    /// Something finished in an attempt.
    Progress {
        /// The attempt.
        attempt: AttemptNumber,
        /// Turns.
        turns: u32,
        /// Tool calls.
        tool_uses: u32,
        /// Compactions.
        compactions: u32,
        /// Tokens and money.
        usage: Option<Usage>,
    },
    /// An attempt is over and its process tree is gone. This ends the run.
    Conclude {
        /// The attempt.
        attempt: AttemptNumber,
        /// What was found.
        conclusion: Box<Conclusion>,
        /// Child runs of its own (detached ones aside) are live.
        children_live: bool,
    },
    /// An attempt is over without having begun any work: the run goes back to the queue.
    Requeue {
        /// The attempt.
        attempt: AttemptNumber,
        /// Why, in one line.
        reason: String,
        /// The process's end.
        exit: Option<ExitFacts>,
        /// Not before.
        not_before: Option<Timestamp>,
        /// Most attempts of a run.
        max_attempts: u32,
    },
    /// No process of the attempt was ever made, or nothing of it is left and nothing is known of its end.
    Gone {
        /// The attempt.
        attempt: AttemptNumber,
        /// What is known.
        evidence: String,
    },
    /// The children of a run that waits for them have ended.
    ChildrenEnded,
    /// Stop the run.
    Stop {
        /// Who.
        actor: String,
        /// Why.
        cause: Cause,
    },
    /// Open the next run of an ended subagent.
    Resume {
        /// Its prompt.
        prompt: BoundedText,
        /// Who asks, and gets the result.
        requester: Requester,
    },
    /// A carrier takes the result of a run for a bounded time.
    ClaimDelivery {
        /// Which run.
        run: RunNumber,
        /// Which carrier.
        carrier: String,
        /// Until when.
        until: Timestamp,
    },
    /// A carrier gives its claim back.
    ReturnDelivery {
        /// Which run.
        run: RunNumber,
        /// Which carrier.
        carrier: String,
        /// Why.
        reason: String,
    },
    /// The result of a run was consumed.
    Acknowledge {
        /// Which run: a receipt for one never consumes another.
        run: RunNumber,
        /// By whom.
        by: Requester,
    },
}

impl Command {
    /// The word of the command, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claim { .. } => "claim",
            Self::Renew { .. } => "renew",
            Self::Reclaim { .. } => "reclaim",
            Self::Started { .. } => "started",
            Self::Progress { .. } => "progress",
            Self::Conclude { .. } => "conclude",
            Self::Requeue { .. } => "requeue",
            Self::Gone { .. } => "gone",
            Self::ChildrenEnded => "children_ended",
            Self::Stop { .. } => "stop",
            Self::Resume { .. } => "resume",
            Self::ClaimDelivery { .. } => "claim_delivery",
            Self::ReturnDelivery { .. } => "return_delivery",
            Self::Acknowledge { .. } => "acknowledge",
        }
    }
}

/// Why a command leads to nothing. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The command makes no sense in the present status.
    #[error("cannot {command} while {status}")]
    Illegal {
        /// The command.
        command: &'static str,
        /// The status.
        status: Status,
    },
    /// The command speaks for an attempt that is no longer the live one.
    #[error("attempt {given} is stale: the latest is {latest}")]
    Stale {
        /// The attempt it speaks for.
        given: AttemptNumber,
        /// The latest one.
        latest: AttemptNumber,
    },
    /// The lease has not run out, or has already.
    #[error("the lease of attempt {attempt} does not allow it")]
    Lease {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// A resume of a live run.
    #[error("the run is still live")]
    StillRunning,
    /// The run was never opened.
    #[error("there is no run {given}: the latest is {latest}")]
    NoSuchRun {
        /// The run that was named.
        given: RunNumber,
        /// The latest one.
        latest: RunNumber,
    },
    /// The result is addressed to someone else.
    #[error("the result is addressed to {owner}")]
    NotYours {
        /// To whom.
        owner: Requester,
    },
    /// Another carrier has the result.
    #[error("{carrier} has claimed the result")]
    Claimed {
        /// Which.
        carrier: String,
    },
}

impl Refusal {
    /// The stable code that doors tell it with.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Illegal { .. } | Self::Stale { .. } | Self::Lease { .. } | Self::Claimed { .. } => {
                ErrorCode::IllegalTransition
            }
            Self::StillRunning => ErrorCode::StillRunning,
            Self::NoSuchRun { .. } => ErrorCode::NotFound,
            Self::NotYours { .. } => ErrorCode::NotYours,
        }
    }
}
