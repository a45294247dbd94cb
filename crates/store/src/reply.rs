//! What a store answers.

use std::sync::Arc;

use subagent_core::run::Subagent;
use subagent_model::request::DamagedRow;
use subagent_model::{Handle, SubagentId};

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

/// Everything that has not ended, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LivePage {
    /// The states.
    pub items: Vec<Arc<Subagent>>,
    /// Live rows that cannot be read.
    pub damaged: Vec<DamagedRow>,
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
