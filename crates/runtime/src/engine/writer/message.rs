//! What the writer is told, and what it answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use subagent_core::admission::Limits;
use subagent_core::run::{Command, Refusal, Subagent};
use subagent_model::request::QueuePlace;
use subagent_model::{
    Attachment, BoundedText, Cause, ErrorCode, Problem, Requester, RunNumber, SpawnSpec, SubagentId,
    Timestamp,
};
use subagent_store::{Content, IdempotencyKey, StoreError};
use tokio::sync::oneshot;

/// A spawn that passed all checks but the gate.
pub(crate) struct Spawn {
    pub(crate) id: SubagentId,
    pub(crate) spec: SpawnSpec,
    pub(crate) parent: Option<SubagentId>,
    pub(crate) requester: Requester,
    pub(crate) content: Vec<Content>,
    pub(crate) idempotency: Option<IdempotencyKey>,
}

/// A resume that passed all checks but the gate.
pub(crate) struct Resume {
    pub(crate) id: SubagentId,
    pub(crate) prompt: BoundedText,
    /// Files that go with it.
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) requester: Requester,
    /// The whole prompt, where it is too long for its preview.
    pub(crate) whole: Option<Arc<str>>,
    /// While a run is live: accept it as a follow-up.
    pub(crate) queue: Option<String>,
    pub(crate) key: Option<String>,
    /// Environment values that are never stored, for the run that it opens.
    pub(crate) secrets: BTreeMap<String, String>,
}

/// What a resume came to.
#[derive(Debug, Clone)]
pub(crate) struct Resumed {
    pub(crate) state: Arc<Subagent>,
    /// The run that it opened, or that the same request opened before; none when it became a follow-up.
    pub(crate) run: Option<RunNumber>,
    pub(crate) existing: bool,
}

/// What a spawn came to.
#[derive(Debug, Clone)]
pub(crate) struct Spawned {
    pub(crate) state: Arc<Subagent>,
    pub(crate) existing: bool,
}

/// What a command came to.
#[derive(Debug, Clone)]
pub(crate) struct Acted {
    pub(crate) state: Arc<Subagent>,
    pub(crate) changed: bool,
    /// Descendants that the same command changed.
    pub(crate) cascaded: Vec<SubagentId>,
}

/// Why a command came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ActError {
    #[error("there is no subagent {0}")]
    NotFound(SubagentId),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the engine is shutting down")]
    Halted,
    #[error("{0}")]
    Internal(String),
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        let code = match &error {
            ActError::NotFound(_) => ErrorCode::NotFound,
            ActError::Refused(refusal) => refusal.code(),
            ActError::Store(error) => error.code(),
            ActError::Halted => ErrorCode::Draining,
            ActError::Internal(_) => ErrorCode::Panicked,
        };
        let problem = Self::new(code, error.to_string());
        match &error {
            ActError::Refused(Refusal::Mail(refusal)) => match refusal.numbers() {
                Some((limit, used)) => problem.with_numbers(limit as u64, used as u64),
                None => problem,
            },
            _ => problem,
        }
    }
}

pub(crate) type ActReply = oneshot::Sender<Result<Acted, ActError>>;

/// A message to the writer.
pub(crate) enum Message {
    Spawn(Box<Spawn>, oneshot::Sender<Result<Spawned, Problem>>),
    Act(Box<Act>),
    Resume(Box<Resume>, oneshot::Sender<Result<Resumed, Problem>>),
    /// Stops everything that may be stopped by the caller.
    StopAll(Box<StopAll>),
    /// A call on behalf of a live subagent begins or ends to wait for its own descendants.
    CallWaits(SubagentId, bool),
    /// The provider of this subagent holds it up until then: others on the same account stand back.
    CoolDown(SubagentId, Timestamp),
    Limits(Box<Limits>, Option<oneshot::Sender<()>>),
    /// What recovery found is settled: slots may be given, to those that waited longest.
    Open,
    /// Answered once everything before it is committed: whoever tells much keeps pace by it.
    Pace(oneshot::Sender<()>),
    /// No new slots any more.
    Drain(oneshot::Sender<()>),
    /// How many runs start before this one, and what holds it.
    Position(SubagentId, oneshot::Sender<QueuePlace>),
    /// The oldest follow-up of this subagent is to open its next run.
    NextRun(SubagentId),
    /// Look again at what this subagent needs.
    Look(SubagentId),
    Halt(oneshot::Sender<()>),
}

/// A stop of many.
pub(crate) struct StopAll {
    pub(crate) actor: String,
    /// Only what is below this one.
    pub(crate) below: Option<SubagentId>,
    /// Only what this one asked for.
    pub(crate) of: Option<Requester>,
    pub(crate) detached: bool,
    pub(crate) reply: oneshot::Sender<Stopped>,
}

/// Those that were stopped, and those that could not be.
#[derive(Debug, Default)]
pub(crate) struct Stopped {
    pub(crate) stopped: Vec<Arc<Subagent>>,
    pub(crate) failed: Vec<Problem>,
}

/// A command on its way.
pub(crate) struct Act {
    pub(crate) id: SubagentId,
    pub(crate) command: Command,
    pub(crate) content: Option<Content>,
    /// Also to the live descendants, except detached ones.
    pub(crate) cascade: bool,
    /// May wait a little for company.
    pub(crate) lazy: bool,
    /// When it happened, where that is known better than by its arrival. Never later than that.
    pub(crate) at: Option<Timestamp>,
    pub(crate) reply: Option<ActReply>,
}

impl Act {
    /// A command for one subagent that is committed at once and that nobody waits for.
    pub(crate) fn new(id: SubagentId, command: Command) -> Self {
        Self { id, command, content: None, cascade: false, lazy: false, at: None, reply: None }
    }

    /// A fact that nobody waits for and that may share the flush of others.
    pub(crate) fn lazy(id: SubagentId, command: Command) -> Self {
        Self { lazy: true, ..Self::new(id, command) }
    }
}

impl From<Act> for Message {
    fn from(act: Act) -> Self {
        Self::Act(Box::new(act))
    }
}

impl Message {
    pub(super) fn is_lazy(&self) -> bool {
        matches!(self, Self::Act(act) if act.lazy)
    }
}

/// The command of a stop.
pub(crate) fn stop_command(actor: &str, cause: Cause) -> Command {
    Command::Stop { actor: actor.to_owned(), cause, drop_follow_ups: true }
}
