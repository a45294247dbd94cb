//! The state of a subagent. Each phase carries exactly its own data, so that no field can mean "not yet".

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use subagent_model::{
    ActivityOn, Attachment, AttemptFacts, AttemptKey, AttemptNumber, BoundedText, Budget, Conclusion,
    ErrorInfo, ExitFacts, Grant, Handle, Limit, Mark, MessageNumber, NodeId, Outcome, Posted, Quality,
    QueueReason, RequestItem, RequestNumber, RequestState, Requester, RunNumber, SpawnSpec, Status, StopInfo,
    SubagentId, Timestamp, Usage, WrapUp,
};

use crate::mailbox::Mailbox;

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
    /// The provider's name of the session: by it a later attempt goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The process that stays between two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Warm>,
    /// Messages.
    #[serde(default, skip_serializing_if = "Mailbox::is_new")]
    pub mail: Mailbox,
    /// Standing answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// The number of the newest request.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub last_request: RequestNumber,
    /// The current run.
    pub run: Run,
    /// Earlier runs, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRun>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_yet(number: &RequestNumber) -> bool {
    number.0 == 0
}

/// The live process of a warm subagent whose run is over. It holds no running slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warm {
    /// The attempt, and who holds it.
    pub hold: Hold,
    /// Idle since then.
    pub since: Timestamp,
    /// Kept until then, unless a message comes.
    pub until: Timestamp,
    /// It is being closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<StopInfo>,
}

/// One piece of asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its number.
    pub number: RunNumber,
    /// Its prompt.
    pub prompt: BoundedText,
    /// Files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The requester's key of the resume that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
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
    /// Tokens and money of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Budget::is_default")]
    pub budget: Budget,
    /// It was asked to wrap up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap_up: Option<WrapUp>,
    /// It is over a limit and is being ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Limit>,
    /// The child takes prompts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session_open: bool,
    /// The child may have the prompt of this run: work was begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompted: bool,
    /// The attempt that was prompted first, and with the prompt itself.
    #[serde(default, skip_serializing_if = "is_no_attempt")]
    pub first_prompted: AttemptNumber,
    /// The attempt that was prompted last; any but the first was told to go on.
    #[serde(default, skip_serializing_if = "is_no_attempt")]
    pub last_prompted: AttemptNumber,
    /// Where the attempt's log ended when the prompt was about to be written.
    #[serde(default, skip_serializing_if = "is_at_start")]
    pub prompted_at: u64,
    /// Up to where the attempt's log is counted.
    #[serde(default, skip_serializing_if = "is_at_start")]
    pub counted: u64,
    /// The current turn is to be cancelled: who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupting: Option<Requester>,
    /// The newest message that was there when the turn was to be cancelled: only later ones go on with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_after: Option<MessageNumber>,
    /// The last turn is over and the process is being closed: how the run will end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Box<Conclusion>>,
    /// Requests of the child: all open ones, and the newest of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestItem>,
    /// Messages that came back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<Posted>,
    /// How often it was asked to go on after its turn.
    #[serde(default, skip_serializing_if = "Nudges::is_none")]
    pub nudges: Nudges,
    /// No sign of life since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_since: Option<Timestamp>,
    /// It was opened by a message of the runtime itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub woken_by_runtime: bool,
    /// How often the provider's rate limit ended an attempt of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate_hits: u32,
    /// The duty to tell the requester.
    pub delivery: Delivery,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_no_attempt(attempt: &AttemptNumber) -> bool {
    attempt.0 == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_at_start(position: &u64) -> bool {
    *position == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How often a run was asked to go on after its turn, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Nudges {
    /// For a final answer.
    pub final_answer: u32,
    /// For an answer that fits the schema.
    pub schema: u32,
    /// By gates.
    pub gates: u32,
    /// For results of its children.
    pub results: u32,
}

impl Nudges {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
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
    /// Its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<BoundedText>,
    /// The requester's key of the resume that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// It was opened by a message of the runtime itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub woken_by_runtime: bool,
    /// Tokens and money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it might use.
    #[serde(default, skip_serializing_if = "Budget::is_default")]
    pub budget: Budget,
    /// It was asked to wrap up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap_up: Option<WrapUp>,
    /// Its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestItem>,
    /// Messages that came back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<Posted>,
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
    /// The run in which the attempt began, where that is an earlier one than the current: by it its files are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_in: Option<RunNumber>,
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
        /// Who is told, where the requester is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalated: Option<Requester>,
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

impl<'a> Duty<'a> {
    /// Who is to be told now: the requester, or whoever stands in for one that is gone.
    pub fn told(&self) -> &'a Requester {
        match self.delivery {
            Delivery::Owed { escalated: Some(to), .. } => to,
            _ => self.requester,
        }
    }

    /// True when a receipt of `by` counts.
    pub fn is_for(&self, by: &Requester) -> bool {
        self.requester == by || self.told() == by
    }

    /// True while the result waits to be consumed.
    pub fn is_owed(&self) -> bool {
        matches!(self.delivery, Delivery::Owed { .. })
    }
}

impl Run {
    /// A run that was just accepted.
    pub(super) fn opened(number: RunNumber, prompt: BoundedText, budget: Budget, at: Timestamp) -> Self {
        Self {
            number,
            prompt,
            attachments: vec![],
            key: None,
            accepted_at: at,
            phase: Phase::Queued { since: at, reason: QueueReason::Capacity },
            attempts: vec![],
            turns: 0,
            tool_uses: 0,
            usage: None,
            budget,
            wrap_up: None,
            cut: None,
            session_open: false,
            prompted: false,
            first_prompted: AttemptNumber(0),
            last_prompted: AttemptNumber(0),
            prompted_at: 0,
            counted: 0,
            interrupting: None,
            interrupted_after: None,
            done: None,
            requests: vec![],
            returned: vec![],
            nudges: Nudges::default(),
            stalled_since: None,
            woken_by_runtime: false,
            rate_hits: 0,
            delivery: Delivery::NotYet,
        }
    }

    /// How long its attempts before the current one have worked: the time for which a deadline has run.
    pub fn worked(&self) -> std::time::Duration {
        let before = self.attempts.split_last().map_or(&[][..], |(_, before)| before);
        let worked = before.iter().filter_map(|facts| {
            let over = facts.exit.and_then(|exit| exit.at)?;
            Some(over.since(facts.started_at?))
        });
        worked.sum()
    }

    /// Requests that nobody has answered.
    pub fn open_requests(&self) -> impl Iterator<Item = &RequestItem> {
        self.requests.iter().filter(|request| request.state == RequestState::Open)
    }

    /// True while the child can be spoken with: its session is open, and it is not being ended.
    pub fn is_conversing(&self) -> bool {
        self.session_open
            && self.done.is_none()
            && self.cut.is_none()
            && matches!(self.phase, Phase::Running { .. } | Phase::Waiting { hold: Some(_), .. })
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
            prompt: Some(run.prompt),
            key: run.key,
            woken_by_runtime: run.woken_by_runtime,
            usage: run.usage,
            budget: run.budget,
            wrap_up: run.wrap_up,
            requests: run.requests,
            returned: run.returned,
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
            Phase::Ended(_) if self.is_idle() => Status::Idle,
            Phase::Ended(ended) => ended.outcome.status(),
        }
    }

    /// True between two runs of a warm subagent: its process is alive and takes a message.
    pub fn is_idle(&self) -> bool {
        self.is_ended() && self.warm.as_ref().is_some_and(|warm| warm.closing.is_none())
    }

    /// True while something of it may still happen by itself: its run is open, a process of it lives, or a message waits
    /// for the next run.
    pub fn is_live(&self) -> bool {
        !self.is_ended() || self.warm.is_some() || self.wants_next_run()
    }

    /// True when the oldest follow-up is to open the next run.
    pub fn wants_next_run(&self) -> bool {
        let closing = self.warm.as_ref().is_some_and(|warm| warm.closing.is_some());
        self.is_ended() && !closing && self.mail.next_follow_up().is_some()
    }

    /// True when a queued run may take a slot: a process that is being closed is waited for.
    pub fn may_claim(&self) -> bool {
        matches!(self.run.phase, Phase::Queued { .. })
            && self.warm.as_ref().is_none_or(|warm| warm.closing.is_none())
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

    /// True when the live process was given the prompt of this run: before, there is no turn to speak into.
    pub fn has_prompt(&self) -> bool {
        self.hold().is_some_and(|hold| hold.attempt == self.run.last_prompted)
    }

    /// True when a live attempt holds a running slot.
    pub fn holds_slot(&self) -> bool {
        self.hold().is_some()
    }

    /// Whoever holds the process of this subagent: of its open run, or of a warm one between runs.
    pub fn process_hold(&self) -> Option<&Hold> {
        self.hold().or(self.warm.as_ref().map(|warm| &warm.hold))
    }

    /// The key of the attempt whose process may be alive.
    pub fn attempt_key(&self) -> Option<AttemptKey> {
        self.process_hold().map(|hold| self.key_of(hold.attempt))
    }

    /// The key of an attempt: by the run in which it began.
    pub fn key_of(&self, attempt: AttemptNumber) -> AttemptKey {
        let hold = self.process_hold().filter(|hold| hold.attempt == attempt);
        let run = hold.and_then(|hold| hold.born_in).unwrap_or(self.run.number);
        AttemptKey { subagent: self.id, run, attempt }
    }

    /// The run that a request of `requester` with this key opened.
    pub fn run_of_key(&self, requester: &Requester, key: &str) -> Option<RunNumber> {
        if self.run.key.as_deref() == Some(key) && self.requester == *requester {
            return Some(self.run.number);
        }
        let earlier = self.earlier.iter();
        let mut same = earlier.filter(|run| run.key.as_deref() == Some(key) && run.requester == *requester);
        same.next().map(|run| run.number)
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

    /// How a run ended; `None` for one that has not, or is not known.
    pub fn outcome_of(&self, run: RunNumber) -> Option<&Outcome> {
        if run == self.run.number {
            return self.ended().map(|ended| &ended.outcome);
        }
        self.earlier.iter().find(|earlier| earlier.number == run).map(|earlier| &earlier.ended.outcome)
    }

    /// True while a result of any run waits to be consumed.
    pub fn is_owed(&self) -> bool {
        self.duties().any(|duty| duty.is_owed())
    }
}
