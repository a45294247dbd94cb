//! The state of a subagent. Each phase carries exactly its own data, so that no field can mean "not yet".

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use subagent_model::{
    ActivityOn, AttemptFacts, AttemptKey, AttemptNumber, BoundedText, Conclusion, ErrorInfo, ExitFacts,
    Handle, Mark, NodeId, Outcome, Quality, QueueReason, Requester, RunNumber, SpawnSpec, Status, StopInfo,
    SubagentId, Timestamp, Usage,
};

/// A subagent as the store keeps it: the fold of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subagent {
    /// Identity.
    pub id: SubagentId,
    /// Short name.
    pub handle: Handle,
    /// What was asked, immutable.
    pub spec: Arc<SpawnSpec>,
    /// Parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SubagentId>,
    /// Root of the tree; itself without a parent.
    pub root: SubagentId,
    /// Distance from the root.
    pub depth: u32,
    /// Who gets the result of the current run.
    pub requester: Requester,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Time of the last fact that was no renewal of a lease.
    pub updated_at: Timestamp,
    /// How many facts are folded in. A writer that expects another number is stale.
    pub revision: u64,
    /// The highest attempt number ever given out: the fence.
    pub last_attempt: AttemptNumber,
    /// Tokens and money over all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Compactions over all runs.
    #[serde(default)]
    pub compactions: u32,
    /// The current run.
    pub run: Run,
    /// Earlier runs, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRun>,
}

/// One piece of asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its number.
    pub number: RunNumber,
    /// Its prompt.
    pub prompt: BoundedText,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Where it stands.
    pub phase: Phase,
    /// Its attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptFacts>,
    /// Finished turns.
    #[serde(default)]
    pub turns: u32,
    /// Tool calls.
    #[serde(default)]
    pub tool_uses: u32,
    /// The duty to tell the requester.
    pub delivery: Delivery,
}

/// A run after which another was opened. Its result stays readable, and owed to whoever asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierRun {
    /// Its number.
    pub number: RunNumber,
    /// Who gets its result.
    pub requester: Requester,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// How it ended.
    pub ended: Box<Ended>,
    /// Its attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptFacts>,
    /// Finished turns.
    #[serde(default)]
    pub turns: u32,
    /// Tool calls.
    #[serde(default)]
    pub tool_uses: u32,
    /// The duty to tell its requester: a resume neither fulfils nor drops it.
    pub delivery: Delivery,
}

/// Who holds a live attempt, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The attempt.
    pub attempt: AttemptNumber,
    /// The node.
    pub owner: NodeId,
    /// The lease runs out then.
    pub lease_until: Timestamp,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Waits for a slot.
    Queued {
        /// Since when.
        since: Timestamp,
        /// For what.
        reason: QueueReason,
    },
    /// Has a slot; its process is being made.
    Starting {
        /// Who holds it.
        hold: Hold,
    },
    /// Its process runs.
    Running {
        /// Who holds it.
        hold: Hold,
        /// Since when.
        since: Timestamp,
    },
    /// Its turn is over or paused on something it owns.
    Waiting {
        /// Who holds the live attempt; absent once the process is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<Hold>,
        /// For what.
        on: ActivityOn,
        /// Since when.
        since: Timestamp,
        /// How it will end when nothing is waited for any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Box<Conclusion>>,
    },
    /// A stop was accepted; the tree is not gone yet.
    Stopping {
        /// Who holds the attempt.
        hold: Hold,
        /// The stop.
        stop: StopInfo,
    },
    /// Over.
    Ended(Box<Ended>),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// When it was over.
    pub completed_at: Timestamp,
    /// Result or what there is of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BoundedText>,
    /// Notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Trust.
    pub quality: Quality,
    /// The process's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitFacts>,
    /// A failure that came after the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_error: Option<ErrorInfo>,
}

/// The duty to tell the requester of the end. It leaves `Owed` only by an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "delivery", rename_all = "snake_case")]
pub enum Delivery {
    /// The run has not ended.
    NotYet,
    /// Nobody is told.
    NotOwed,
    /// To be told, until acknowledged.
    Owed {
        /// A carrier that is at it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<DeliveryClaim>,
        /// How many carriers tried.
        tries: u32,
    },
    /// Acknowledged.
    Consumed {
        /// When.
        at: Timestamp,
        /// By whom.
        by: Requester,
    },
}

/// A carrier's claim on a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryClaim {
    /// Which carrier.
    pub carrier: String,
    /// Until when.
    pub until: Timestamp,
}

impl DeliveryClaim {
    /// True while others have to stand back. A claim ends by itself: once its time is over it is as good as none, so
    /// nothing has to take it back.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until > now
    }
}

/// The duty of one run to tell its requester.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duty<'a> {
    /// Which run.
    pub run: RunNumber,
    /// Who asked for it.
    pub requester: &'a Requester,
    /// Since when it is over; none while it is live.
    pub ended_at: Option<Timestamp>,
    /// How the duty stands.
    pub delivery: &'a Delivery,
}

impl Duty<'_> {
    /// True while the result waits to be consumed.
    pub fn is_owed(&self) -> bool {
        matches!(self.delivery, Delivery::Owed { .. })
    }
}

impl Run {
    /// A run that was just accepted.
    pub(super) fn opened(number: RunNumber, prompt: BoundedText, at: Timestamp) -> Self {
        Self {
            number,
            prompt,
            accepted_at: at,
            phase: Phase::Queued { since: at, reason: QueueReason::Capacity },
            attempts: vec![],
            turns: 0,
            tool_uses: 0,
            delivery: Delivery::NotYet,
        }
    }
}

impl EarlierRun {
    /// What is kept of a run; `None` when it has not ended.
    pub(super) fn of(run: Run, requester: Requester) -> Option<Self> {
        let Phase::Ended(ended) = run.phase else { return None };
        Some(Self {
            number: run.number,
            requester,
            accepted_at: run.accepted_at,
            ended,
            attempts: run.attempts,
            turns: run.turns,
            tool_uses: run.tool_uses,
            delivery: run.delivery,
        })
    }
}

impl Subagent {
    /// The status people see.
    pub fn status(&self) -> Status {
        match &self.run.phase {
            Phase::Queued { .. } => Status::Queued,
            Phase::Starting { .. } | Phase::Running { .. } => Status::Running,
            Phase::Waiting { .. } => Status::Waiting,
            Phase::Stopping { .. } => Status::Stopping,
            Phase::Ended(ended) => ended.outcome.status(),
        }
    }

    /// True when the current run has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self.run.phase, Phase::Ended(_))
    }

    /// How the current run ended, once it has.
    pub fn ended(&self) -> Option<&Ended> {
        match &self.run.phase {
            Phase::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Who holds the live attempt, when there is one.
    pub fn hold(&self) -> Option<&Hold> {
        match &self.run.phase {
            Phase::Starting { hold } | Phase::Running { hold, .. } | Phase::Stopping { hold, .. } => {
                Some(hold)
            }
            Phase::Waiting { hold, .. } => hold.as_ref(),
            Phase::Queued { .. } | Phase::Ended(_) => None,
        }
    }

    /// True when a live attempt holds a running slot.
    pub fn holds_slot(&self) -> bool {
        self.hold().is_some()
    }

    /// The key of the live attempt.
    pub fn attempt_key(&self) -> Option<AttemptKey> {
        self.hold().map(|hold| self.key_of(hold.attempt))
    }

    /// The key of an attempt of the current run.
    pub fn key_of(&self, attempt: AttemptNumber) -> AttemptKey {
        AttemptKey { subagent: self.id, run: self.run.number, attempt }
    }

    /// The duties of all runs to tell their requesters, oldest run first.
    pub fn duties(&self) -> impl Iterator<Item = Duty<'_>> {
        let earlier = self.earlier.iter().map(|earlier| Duty {
            run: earlier.number,
            requester: &earlier.requester,
            ended_at: Some(earlier.ended.completed_at),
            delivery: &earlier.delivery,
        });
        let current = Duty {
            run: self.run.number,
            requester: &self.requester,
            ended_at: self.ended().map(|ended| ended.completed_at),
            delivery: &self.run.delivery,
        };
        earlier.chain(std::iter::once(current))
    }

    /// The duty of one run; `None` when it was never opened.
    pub fn duty(&self, run: RunNumber) -> Option<Duty<'_>> {
        self.duties().find(|duty| duty.run == run)
    }

    pub(super) fn delivery_mut(&mut self, run: RunNumber) -> Option<&mut Delivery> {
        if run == self.run.number {
            return Some(&mut self.run.delivery);
        }
        self.earlier.iter_mut().find(|earlier| earlier.number == run).map(|earlier| &mut earlier.delivery)
    }

    /// True while a result of any run waits to be consumed.
    pub fn is_owed(&self) -> bool {
        self.duties().any(|duty| duty.is_owed())
    }
}
