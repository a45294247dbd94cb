//! Events: the facts from which every record is folded, and what subscribers see. One enum, no catch-all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Answered, RequestItem, RequestNumber};
use crate::attachment::Attachment;
use crate::budget::Budget;
use crate::ids::{AttemptNumber, Cursor, Handle, NodeId, Requester, RunNumber, SubagentId};
use crate::message::{Message, MessageNumber, ReturnReason};
use crate::outcome::{
    ActivityOn, Conclusion, ErrorInfo, ExitFacts, Limit, Mark, Outcome, Quality, QueueReason, StopInfo,
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
        /// Files that go with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Who asked, and gets the result.
        requester: Requester,
        /// The message that is its prompt, where it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageNumber>,
        /// The requester's key: asking again with it gives the same run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A run of a warm subagent has a slot and goes on in the live process.
    Woken {
        /// The attempt: no new one.
        attempt: AttemptNumber,
    },
    /// The child takes prompts from now on.
    SessionOpened {
        /// The attempt.
        attempt: AttemptNumber,
        /// The provider's name of the session, where it has one: by it a later attempt can go on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// The prompt of the run is being given to the child: from now on the session may hold it.
    Prompted {
        /// The attempt.
        attempt: AttemptNumber,
        /// Where its log ended then: the prompt is written behind that, or was not written.
        #[serde(default)]
        position: u64,
    },
    /// The child's last turn is over, and nothing is left to say to it: its process is being closed.
    TurnEnded {
        /// The attempt.
        attempt: AttemptNumber,
        /// How the run will end.
        conclusion: Box<Conclusion>,
    },
    /// The process of a warm subagent is gone.
    SessionClosed {
        /// The attempt.
        attempt: AttemptNumber,
        /// Why, in one line.
        reason: String,
        /// The process's end, when known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<ExitFacts>,
    },
    /// A warm subagent is to end its process; its last answer stays.
    SessionClosing {
        /// Who, why, when.
        stop: StopInfo,
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
        /// Up to where the attempt's log is counted by this: whoever takes the attempt over counts on from there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        position: Option<u64>,
    },
    /// The turn is over or paused on something the run owns.
    Waiting {
        /// The attempt.
        attempt: AttemptNumber,
        /// For what.
        on: ActivityOn,
        /// How the run will end once nothing is waited for any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Box<Conclusion>>,
        /// Its process lives on meanwhile.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lives: bool,
    },
    /// The quota is used up: the run waits without a process until it is renewed.
    Parked {
        /// When it is renewed.
        until: Timestamp,
    },
    /// A message was accepted.
    MessagePosted {
        /// The message.
        message: Message,
    },
    /// The handing over of a message was begun. Stored before its first byte is written.
    MessageBegun {
        /// Which.
        number: MessageNumber,
    },
    /// It was certainly not written, and waits again in its old place.
    MessagePutBack {
        /// Which.
        number: MessageNumber,
    },
    /// The child has the message.
    MessageDelivered {
        /// Which.
        number: MessageNumber,
    },
    /// The message came back.
    MessageReturned {
        /// Which.
        number: MessageNumber,
        /// Why.
        reason: ReturnReason,
    },
    /// The current turn is to be cancelled; follow-ups that wait are held until the next message.
    InterruptAsked {
        /// By whom.
        by: Requester,
    },
    /// The turn is cancelled; the session stays.
    Interrupted {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The child asks for a permission or an answer.
    RequestOpened {
        /// The attempt.
        attempt: AttemptNumber,
        /// What it asks.
        request: RequestItem,
    },
    /// A request was answered.
    RequestAnswered {
        /// Which.
        number: RequestNumber,
        /// How, and by whom.
        answered: Answered,
    },
    /// The child was told the answer.
    RequestSettled {
        /// Which.
        number: RequestNumber,
    },
    /// A request is no longer open, and nobody answered it.
    RequestWithdrawn {
        /// Which.
        number: RequestNumber,
        /// Why, in one line.
        reason: String,
    },
    /// A standing answer was taken back.
    GrantRevoked {
        /// The request whose answer it was.
        number: RequestNumber,
        /// By whom.
        by: Requester,
    },
    /// The run came near a limit and is asked to wrap up.
    WrapUpAsked {
        /// Which limit.
        limit: Limit,
    },
    /// The run is over a limit: it is being ended, and will be `aborted`.
    CutOff {
        /// Which limit.
        limit: Limit,
    },
    /// The budget of the running run was changed.
    BudgetChanged {
        /// As it is now.
        budget: Budget,
        /// By whom.
        by: Requester,
    },
    /// The child was asked to go on though its turn was over.
    Nudged {
        /// The attempt.
        attempt: AttemptNumber,
        /// Why.
        #[serde(flatten)]
        nudge: Nudge,
    },
    /// No sign of life for longer than its policy allows. A sign, not an end.
    Stalled {
        /// The attempt.
        attempt: AttemptNumber,
        /// When something was last seen of it.
        since: Timestamp,
    },
    /// A stalled child gives signs of life again.
    Revived {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// What was waited for has come; the run goes on. No version sends it any more; an old log may have it.
    #[schemars(skip)]
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
        /// The next attempt begins anew: neither session nor prompt count as given.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        anew: bool,
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
        /// The process stays for the next run: until when, unless a message comes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle_until: Option<Timestamp>,
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
    /// The requester of a run is gone, and its own owner is told as well.
    DeliveryEscalated {
        /// Of which run: it may be an earlier one than the current.
        of_run: RunNumber,
        /// Who is told from now on.
        to: Requester,
    },
    /// The requester of a run has consumed its result.
    Acknowledged {
        /// Of which run: it may be an earlier one than the current.
        of_run: RunNumber,
        /// Who acknowledged.
        by: Requester,
    },
}

/// Why a child is asked to go on after its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Nudge {
    /// Its answer was blank: it is asked once for a final one.
    FinalAnswer,
    /// Its answer did not fit the schema: it is asked once for one that does.
    Schema {
        /// What did not fit.
        problem: String,
    },
    /// A gate wants more of it.
    Gate {
        /// Which gate.
        gate: String,
        /// What it is told.
        reason: String,
    },
    /// Results of its own children wait to be read.
    Results {
        /// How many.
        count: u32,
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
            Self::Woken { .. } => "woken",
            Self::SessionOpened { .. } => "session_opened",
            Self::Prompted { .. } => "prompted",
            Self::TurnEnded { .. } => "turn_ended",
            Self::SessionClosed { .. } => "session_closed",
            Self::SessionClosing { .. } => "session_closing",
            Self::Parked { .. } => "parked",
            Self::MessagePosted { .. } => "message_posted",
            Self::MessageBegun { .. } => "message_begun",
            Self::MessagePutBack { .. } => "message_put_back",
            Self::MessageDelivered { .. } => "message_delivered",
            Self::MessageReturned { .. } => "message_returned",
            Self::InterruptAsked { .. } => "interrupt_asked",
            Self::Interrupted { .. } => "interrupted",
            Self::RequestOpened { .. } => "request_opened",
            Self::RequestAnswered { .. } => "request_answered",
            Self::RequestSettled { .. } => "request_settled",
            Self::RequestWithdrawn { .. } => "request_withdrawn",
            Self::GrantRevoked { .. } => "grant_revoked",
            Self::WrapUpAsked { .. } => "wrap_up_asked",
            Self::CutOff { .. } => "cut_off",
            Self::BudgetChanged { .. } => "budget_changed",
            Self::Nudged { .. } => "nudged",
            Self::Stalled { .. } => "stalled",
            Self::Revived { .. } => "revived",
            Self::DeliveryEscalated { .. } => "delivery_escalated",
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
            | Self::DeliveryEscalated { of_run, .. }
            | Self::Acknowledged { of_run, .. } => Some(*of_run),
            _ => None,
        }
    }
}
