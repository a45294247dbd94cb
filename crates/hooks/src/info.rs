//! What listeners are told: the facts of a run, its start, its end. Values, complete when they are made, shared and
//! never changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use camino::Utf8PathBuf;
use subagent_model::{
    AttemptNumber, Cursor, ErrorInfo, Event, Handle, Mark, Mode, Quality, Requester, RunNumber, Status,
    SubagentId, SubagentRecord, Timestamp,
};

/// Who and where a run is. A listener needs nothing else of a child that is gone already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// The subagent.
    pub subagent: SubagentId,
    /// Its short name.
    pub handle: Handle,
    /// The run.
    pub run: RunNumber,
    /// The latest attempt at that time; 0 before the first.
    pub attempt: AttemptNumber,
    /// The agent type, word for word as it was asked for.
    pub agent_type: String,
    /// How the child is driven.
    pub provider: String,
    /// Its parent.
    pub parent: Option<SubagentId>,
    /// The root of its tree.
    pub root: SubagentId,
    /// Distance from the root.
    pub depth: u32,
    /// Who is told of its end.
    pub mode: Mode,
    /// Its working directory.
    pub cwd: Utf8PathBuf,
    /// Where its transcript lies, once an attempt has begun.
    pub transcript: Option<PathBuf>,
    /// Who asked for the run.
    pub requester: Requester,
}

impl RunFacts {
    /// The facts in `record`, whose transcript lies below `data_dir`.
    pub fn of(record: &SubagentRecord, data_dir: &Path) -> Self {
        Self {
            subagent: record.id,
            handle: record.handle.clone(),
            run: record.run,
            attempt: record.attempt,
            agent_type: record.agent_type.clone(),
            provider: record.provider.clone(),
            parent: record.parent,
            root: record.root,
            depth: record.depth,
            mode: record.mode,
            cwd: record.cwd.clone(),
            transcript: record.transcript.as_ref().map(|path| data_dir.join(path)),
            requester: record.requested_by.clone(),
        }
    }
}

/// A run has started. Told once per run, and also, just before the end, for a run that never did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartInfo {
    /// Whose.
    pub facts: RunFacts,
    /// When.
    pub at: Timestamp,
    /// False when the run ended without ever having started.
    pub started: bool,
}

/// A run has ended. Told once per run, after its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndInfo {
    /// Its start, as it was told.
    pub start: Arc<StartInfo>,
    /// Whose; the attempt is the last one.
    pub facts: RunFacts,
    /// When the run was over: for a stopped run the time of the stop.
    pub at: Timestamp,
    /// Whether it ever started.
    pub started: bool,
    /// How it ended.
    pub status: Status,
    /// How far a good end can be trusted.
    pub quality: Quality,
    /// Notes on the outcome.
    pub marks: Vec<Mark>,
    /// In words, why it ended.
    pub end_reason: Option<String>,
    /// The failure, with code and message.
    pub error: Option<ErrorInfo>,
    /// What the child said last, by the one rule of the provider port. Absent when it said nothing.
    pub last_assistant_message: Option<Arc<str>>,
    /// How often gates made the run go on.
    pub continuations: u32,
}

/// One committed event, and what it is in the life of its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The event.
    pub event: Event,
    /// Who asked for the run of the event.
    pub requester: Requester,
    /// True when the event is in the durable log, from which it can be read again.
    pub logged: bool,
    /// It is told as the start of its run.
    pub start: Option<Arc<StartInfo>>,
    /// It is the end of its run.
    pub end: Option<Arc<EndInfo>>,
}

impl Notice {
    /// Its position in the durable log.
    pub fn position(&self) -> Option<Cursor> {
        self.logged.then_some(self.event.seq)
    }
}
