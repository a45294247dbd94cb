//! What a store answers.

use std::sync::Arc;

use subagent_core::delivery::owed;
use subagent_core::retention::Summary;
use subagent_core::run::Subagent;
use subagent_model::request::DamagedRow;
use subagent_model::{Handle, RunNumber, SubagentId, Timestamp};

/// The most candidates that an ambiguous name is answered with.
pub(crate) const MOST_CANDIDATES: usize = 10;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// Exactly one subagent.
    One(SubagentId),
    /// No subagent.
    None,
    /// Several: some of them, newest first, ten at most.
    Many(Vec<(SubagentId, Handle)>),
}

impl Resolved {
    /// The most candidates that are told.
    pub const MOST: usize = MOST_CANDIDATES;

    /// Out of candidates in any order, doubles included. A caller that stops looking has to pass at least
    /// [`Self::MOST`] + 1 of each kind of name.
    pub fn from_candidates(mut found: Vec<(SubagentId, Handle)>) -> Self {
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        found.truncate(Self::MOST);
        match found.as_slice() {
            [] => Self::None,
            [(id, _)] => Self::One(*id),
            _ => Self::Many(found),
        }
    }
}

/// A page of subagents, newest first. Damaged rows of the page's stretch count towards its length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListPage {
    /// The states.
    pub items: Vec<Arc<Subagent>>,
    /// Pass it as `before` to get the next page; absent on the last.
    pub next: Option<SubagentId>,
    /// Rows of this stretch that cannot be read.
    pub damaged: Vec<DamagedRow>,
}

/// Everything that is live, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LivePage {
    /// The states.
    pub items: Vec<Arc<Subagent>>,
    /// Live rows that cannot be read.
    pub damaged: Vec<DamagedRow>,
}

/// An ended run that its requester has not consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct OwedRun {
    /// The subagent as it stands: a later run may be its current one.
    pub state: Arc<Subagent>,
    /// The run.
    pub run: RunNumber,
    /// When it was over.
    pub ended_at: Timestamp,
}

impl OwedRun {
    /// Where it stands among all that is owed.
    pub fn place(&self) -> Place {
        Place { ended_at: self.ended_at, subagent: self.state.id, run: self.run }
    }

    /// What a state owes, oldest run first.
    pub fn of(state: &Arc<Subagent>) -> Vec<Self> {
        let owed = owed(state).map(|owed| (owed.run, owed.since));
        owed.map(|(run, ended_at)| Self { state: Arc::clone(state), run, ended_at }).collect()
    }
}

/// A place in the order of what is owed: oldest end first. It stays a place when what stood there is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// When the run was over.
    pub ended_at: Timestamp,
    /// The subagent.
    pub subagent: SubagentId,
    /// Its run.
    pub run: RunNumber,
}

/// What retention has to know of a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSummary {
    /// Identity.
    pub id: SubagentId,
    /// Its parent.
    pub parent: Option<SubagentId>,
    /// Root of its tree.
    pub root: SubagentId,
    /// When its current run was over; none while it is live.
    pub ended_at: Option<Timestamp>,
    /// A result of any of its runs waits to be consumed.
    pub unread: bool,
    /// Bytes of the whole texts that are held for it.
    pub bytes: u64,
    /// When it changed last.
    pub updated_at: Timestamp,
}

impl StoredSummary {
    /// What a sweep looks at; `beside` are bytes that are held for it outside of the store.
    pub fn for_sweep(&self, beside: u64) -> Summary {
        Summary {
            id: self.id,
            parent: self.parent,
            ended_at: self.ended_at,
            updated_at: self.updated_at,
            unread: self.unread,
            heavy_bytes: self.bytes.saturating_add(beside),
        }
    }
}

/// A part of a whole text. It may begin and end in the middle of a character.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContentPart {
    /// The bytes from the offset on; empty at and after the end.
    pub bytes: Vec<u8>,
    /// Size of the whole.
    pub total: u64,
}

/// Whether a store takes commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreMode {
    /// It does.
    ReadWrite,
    /// It only serves reads.
    ReadOnly {
        /// Why, for people.
        reason: String,
    },
}

impl StoreMode {
    /// True when it takes commits.
    pub fn is_writable(&self) -> bool {
        *self == Self::ReadWrite
    }
}
