//! What can be asked of a subagent, and the typed ways to refuse it.

use serde::{Deserialize, Serialize};
use subagent_model::{
    Answer, Answered, Ask, Attachment, AttemptNumber, BoundedText, Budget, Cause, Conclusion, ErrorCode,
    ExitFacts, Handle, Limit, MessageMode, MessageNumber, NodeId, Nudge, PolicyWord, ProcessIdentity,
    RequestNumber, Requester, ReturnReason, RunNumber, SpawnSpec, Status, SubagentId, Timestamp, Usage,
    Written,
};

use crate::mailbox::MailRefusal;

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
        /// After those turns the child goes on by itself.
        more: bool,
        /// Tool calls.
        tool_uses: u32,
        /// Compactions.
        compactions: u32,
        /// Tokens and money.
        usage: Option<Usage>,
        /// Up to where its log is counted.
        position: Option<u64>,
    },
    /// The child takes prompts.
    Opened {
        /// The attempt.
        attempt: AttemptNumber,
        /// The provider's name of the session.
        session: Option<String>,
    },
    /// The prompt of the run is about to be written.
    Prompted {
        /// The attempt.
        attempt: AttemptNumber,
        /// Where its log ends now.
        position: u64,
    },
    /// The child's turn is over and it lives on. Whether the run goes on, waits or ends follows from what waits for it.
    TurnDone {
        /// The attempt.
        attempt: AttemptNumber,
        /// How the run would end.
        conclusion: Box<Conclusion>,
        /// What it would wait for first.
        left: Left,
    },
    /// The child has cancelled its turn, and lives on.
    TurnCancelled {
        /// The attempt.
        attempt: AttemptNumber,
        /// What there is of its answer.
        conclusion: Box<Conclusion>,
        /// What the driver knows of the message in hand.
        #[serde(default)]
        given: Given,
    },
    /// The child is to go on though its turn is over.
    Nudge {
        /// The attempt.
        attempt: AttemptNumber,
        /// Why.
        nudge: Nudge,
        /// What the driver knows of the message in hand.
        #[serde(default)]
        given: Given,
    },
    /// The background work that a run waits for has ended.
    BackgroundEnded {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The process of a warm subagent is gone.
    SessionGone {
        /// The attempt.
        attempt: AttemptNumber,
        /// Why, in one line.
        reason: String,
        /// The process's end.
        exit: Option<ExitFacts>,
    },
    /// An attempt is over and its process tree is gone. This ends the run, unless another attempt may go on with it.
    Conclude {
        /// The attempt.
        attempt: AttemptNumber,
        /// What was found.
        conclusion: Box<Conclusion>,
        /// Child runs of its own (detached ones aside) are live.
        children_live: bool,
        /// Most attempts of a run.
        max_attempts: u32,
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
        /// Child runs of its own (detached ones aside) are live.
        #[serde(default)]
        children_live: bool,
        /// Most attempts of a run.
        max_attempts: u32,
    },
    /// The children of a run that waits for them have ended.
    ChildrenEnded {
        /// How many of their results it has not read.
        unread: u32,
    },
    /// A quota is renewed: the run wants a slot again.
    Unpark,
    /// Stop the run, or close the process of an idle subagent.
    Stop {
        /// Who.
        actor: String,
        /// Why.
        cause: Cause,
        /// Follow-ups that wait come back too.
        drop_follow_ups: bool,
    },
    /// Open the next run of an ended or idle subagent.
    Resume {
        /// Its prompt.
        prompt: BoundedText,
        /// Files that go with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Who asks, and gets the result.
        requester: Requester,
        /// Their key: asking again with it gives the same run.
        key: Option<String>,
    },
    /// Open the next run with the oldest follow-up.
    NextRun {
        /// Its text as a prompt.
        prompt: BoundedText,
    },
    /// The oldest follow-up cannot open a run: all of them come back.
    ReturnFollowUps {
        /// Why.
        reason: ReturnReason,
    },
    /// Accept a message.
    Post {
        /// From whom.
        from: Requester,
        /// When it is to reach the child.
        mode: MessageMode,
        /// Its text.
        text: String,
        /// Files that go with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Take it as a follow-up where it cannot be steered.
        or_follow_up: bool,
        /// The sender's key: sending again with it gives the same message.
        key: Option<String>,
    },
    /// What became of a message that was being handed over.
    Settle {
        /// The attempt.
        attempt: AttemptNumber,
        /// Which.
        number: MessageNumber,
        /// What is known.
        written: Written,
    },
    /// What a message of the runtime tells is known to the child by now: it is not handed over any more.
    Withdraw {
        /// Which.
        number: MessageNumber,
    },
    /// A stored message cannot be read.
    SetAside {
        /// Which.
        number: MessageNumber,
    },
    /// Cancel the current turn; the session stays.
    Interrupt {
        /// By whom.
        by: Requester,
        /// What it is told next.
        text: Option<String>,
    },
    /// The child asks for something.
    Ask {
        /// The attempt.
        attempt: AttemptNumber,
        /// What.
        ask: Ask,
        /// What the policies from the root down say, the strictest word.
        policy: PolicyWord,
        /// Why, where the policy decides.
        reason: Option<String>,
        /// When nobody is waited for any longer.
        expires_at: Timestamp,
    },
    /// Answer a request.
    Answer {
        /// Which.
        number: RequestNumber,
        /// By whom.
        by: Requester,
        /// How.
        answer: Answer,
        /// Why.
        reason: Option<String>,
    },
    /// Nobody answered a request in time.
    Expire {
        /// Which.
        number: RequestNumber,
    },
    /// The child was told an answer.
    Told {
        /// The attempt.
        attempt: AttemptNumber,
        /// Which.
        number: RequestNumber,
    },
    /// The child takes a request back.
    TakeBack {
        /// The attempt.
        attempt: AttemptNumber,
        /// Its own name for it.
        key: String,
    },
    /// Take a standing answer back.
    Revoke {
        /// The request whose answer it was.
        number: RequestNumber,
        /// By whom.
        by: Requester,
    },
    /// A limit that is watched outside the run comes near.
    WrapUp {
        /// Which.
        limit: Limit,
    },
    /// A limit that is watched outside the run is reached.
    Cut {
        /// Which.
        limit: Limit,
    },
    /// Change the budget of the running run.
    ChangeBudget {
        /// As it is to be.
        budget: Budget,
        /// By whom.
        by: Requester,
    },
    /// Nothing was seen of the child for longer than its policy allows.
    Stall {
        /// The attempt.
        attempt: AttemptNumber,
        /// Since when.
        since: Timestamp,
    },
    /// A stalled child was seen again.
    Revive {
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// The requester of a run is gone: somebody else is told.
    Escalate {
        /// Which run.
        run: RunNumber,
        /// Who is told.
        to: Requester,
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

/// What a run still waits for when its turn is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Left {
    /// Child runs of its own (detached ones aside) are live.
    pub children: bool,
    /// Background work of its own is live.
    pub background: bool,
    /// How many results of its children it has not read.
    pub unread: u32,
    /// What the driver knows of the message in hand.
    #[serde(default)]
    pub given: Given,
}

/// What a driver knows, at the end of a turn, of the message that is being handed over: it may have been begun a moment
/// ago, and the driver not even have seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// Nothing is said about it.
    #[default]
    Unsaid,
    /// No message that has no last word was given to the child.
    Nothing,
    /// This one was, and the child has not said that it has it.
    Message(MessageNumber),
}

/// Why a subagent cannot go on. The word never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotResumable {
    /// Its provider cannot continue a session.
    ProviderCannot,
    /// No session was ever opened.
    NoSession,
    /// The provider no longer has its session.
    SessionGone,
    /// Its workspace is gone.
    WorkspaceGone,
}

impl NotResumable {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProviderCannot => "provider cannot: it does not continue sessions",
            Self::NoSession => "no session: none was ever opened",
            Self::SessionGone => "session gone: the provider no longer has it",
            Self::WorkspaceGone => "workspace gone",
        }
    }
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
            Self::Opened { .. } => "opened",
            Self::Prompted { .. } => "prompted",
            Self::TurnDone { .. } => "turn_done",
            Self::TurnCancelled { .. } => "turn_cancelled",
            Self::Nudge { .. } => "nudge",
            Self::BackgroundEnded { .. } => "background_ended",
            Self::SessionGone { .. } => "session_gone",
            Self::Unpark => "unpark",
            Self::NextRun { .. } => "next_run",
            Self::ReturnFollowUps { .. } => "return_follow_ups",
            Self::Post { .. } => "post",
            Self::Settle { .. } => "settle",
            Self::Withdraw { .. } => "withdraw",
            Self::SetAside { .. } => "set_aside",
            Self::Interrupt { .. } => "interrupt",
            Self::Ask { .. } => "ask",
            Self::Answer { .. } => "answer",
            Self::Expire { .. } => "expire",
            Self::Told { .. } => "told",
            Self::TakeBack { .. } => "take_back",
            Self::Revoke { .. } => "revoke",
            Self::WrapUp { .. } => "wrap_up",
            Self::Cut { .. } => "cut",
            Self::ChangeBudget { .. } => "change_budget",
            Self::Stall { .. } => "stall",
            Self::Revive { .. } => "revive",
            Self::Escalate { .. } => "escalate",
            Self::ChildrenEnded { .. } => "children_ended",
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
    #[error("still running: run {run} is {status}")]
    StillRunning {
        /// The run.
        run: RunNumber,
        /// How it stands.
        status: Status,
    },
    /// There is no way to go on.
    #[error("cannot be resumed: {}", .why.as_str())]
    NotResumable {
        /// Why.
        why: NotResumable,
    },
    /// The provider cannot do it.
    #[error("the provider {provider} {cannot}")]
    NotCapable {
        /// Which.
        provider: String,
        /// What.
        cannot: &'static str,
    },
    /// No message can reach the current run.
    #[error("it takes no message: run {run} is {status}")]
    NoOpenTurn {
        /// The run.
        run: RunNumber,
        /// How it stands.
        status: Status,
    },
    /// The message does not fit.
    #[error(transparent)]
    Mail(#[from] MailRefusal),
    /// There is no such message, or it has its last word.
    #[error("there is no message {number} that waits")]
    NoSuchMessage {
        /// Which.
        number: MessageNumber,
    },
    /// There is no such request.
    #[error("there is no request q{number}")]
    NoSuchRequest {
        /// Which.
        number: RequestNumber,
    },
    /// The request is no longer open.
    #[error("request q{number} is no longer open{}", answered_by(.by.as_deref()))]
    AlreadyAnswered {
        /// Which.
        number: RequestNumber,
        /// Its answer, if it was answered.
        by: Option<Box<Answered>>,
    },
    /// The answer does not fit the request.
    #[error("request q{number} takes {takes}")]
    WrongAnswer {
        /// Which.
        number: RequestNumber,
        /// What would fit.
        takes: &'static str,
    },
    /// There is nothing of the kind to take back.
    #[error("there is no standing answer of request q{number}")]
    NoSuchGrant {
        /// Which.
        number: RequestNumber,
    },
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
            Self::StillRunning { .. } => ErrorCode::StillRunning,
            Self::NotResumable { why: NotResumable::SessionGone } => ErrorCode::SessionGone,
            Self::NotResumable { .. } => ErrorCode::NotResumable,
            Self::NotCapable { .. } => ErrorCode::NotCapable,
            Self::NoOpenTurn { .. } => ErrorCode::NoOpenTurn,
            Self::Mail(refusal) => refusal.code(),
            Self::AlreadyAnswered { .. } => ErrorCode::AlreadyAnswered,
            Self::WrongAnswer { .. } => ErrorCode::WrongAnswer,
            Self::NoSuchRun { .. }
            | Self::NoSuchMessage { .. }
            | Self::NoSuchRequest { .. }
            | Self::NoSuchGrant { .. } => ErrorCode::NotFound,
            Self::NotYours { .. } => ErrorCode::NotYours,
        }
    }
}

fn answered_by(answered: Option<&Answered>) -> String {
    answered.map_or_else(String::new, |answered| format!(": {} answered at {}", answered.by, answered.at))
}
