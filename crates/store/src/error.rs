//! What can go wrong in a store, and under which stable code it is told.

use subagent_model::{ErrorCode, Handle, SubagentId};

/// Why a store did not do what was asked. After any of these nothing was written and the store stays usable. It is a
/// value and can be cloned, because one failed batch answers many callers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no room. It may be tried again when there is.
    #[error("the disk is full")]
    Full,
    /// The data directory or file cannot be written.
    #[error("the store cannot be written")]
    ReadOnly,
    /// A newer version wrote the store: it can be read, not changed.
    #[error("the store has format {found}, this version knows up to {ours}")]
    TooNew {
        /// The format of the store.
        found: u32,
        /// The newest one that this version knows.
        ours: u32,
    },
    /// The step was decided on a state that is not the present one: decide it again.
    #[error("subagent {id} is at revision {found}, not {expected}")]
    Conflict {
        /// Of whom.
        id: SubagentId,
        /// The revision that the step was decided on.
        expected: u64,
        /// The present one; 0 when there is no such subagent.
        found: u64,
    },
    /// Another subagent has the handle: choose another one.
    #[error("the handle {handle} is taken")]
    HandleTaken {
        /// Which.
        handle: Handle,
    },
    /// The idempotency key was used for another birth.
    #[error("the idempotency key was used for subagent {id}")]
    KeyTaken {
        /// The subagent that it gave.
        id: SubagentId,
    },
    /// The parts of a step do not fit together: a fault of the caller.
    #[error("the step of subagent {id} is not sound: {reason}")]
    Invalid {
        /// Of whom.
        id: SubagentId,
        /// What does not fit.
        reason: String,
    },
    /// The stored record cannot be read. It was set aside.
    #[error("the stored record of {id} cannot be read: {reason}")]
    Damaged {
        /// Whose, as far as it can be read.
        id: String,
        /// Why.
        reason: String,
    },
    /// The file as a whole cannot be used.
    #[error("the store {path} cannot be used: {reason}; {remedy}")]
    Unusable {
        /// Which file.
        path: String,
        /// Why.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The operating system failed.
    #[error("{action}: {reason}")]
    Io {
        /// What was being done.
        action: String,
        /// How it failed.
        reason: String,
    },
    /// The database failed in a way that has no name here.
    #[error("the database failed: {reason}")]
    Backend {
        /// Its own words.
        reason: String,
    },
}

impl StoreError {
    /// The stable code that doors tell it with.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Full => ErrorCode::StoreFull,
            Self::ReadOnly => ErrorCode::StoreReadOnly,
            Self::TooNew { .. } => ErrorCode::StoreTooNew,
            Self::Conflict { .. } | Self::HandleTaken { .. } | Self::KeyTaken { .. } => {
                ErrorCode::IllegalTransition
            }
            Self::Damaged { .. } => ErrorCode::DamagedRecord,
            Self::Invalid { .. } | Self::Unusable { .. } | Self::Io { .. } | Self::Backend { .. } => {
                ErrorCode::StoreFailed
            }
        }
    }

    /// True when the same batch may succeed later without being decided again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Full | Self::ReadOnly | Self::Io { .. } | Self::Backend { .. })
    }
}
