//! What the model has seen of files: how each looked when it was last read or written here, so that what changed behind
//! its back is told.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How a file looked: enough to notice a change, cheap enough to be taken each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// The same of a file that was looked at from within its root.
    pub(super) fn of_inside(metadata: &cap_std::fs::Metadata) -> Self {
        use cap_std::fs::MetadataExt as _;
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// Whether the content may be another one. Rights and owners are no content.
    pub(super) fn differs(&self, other: &Self) -> bool {
        self != other
    }
}

/// The files that were looked at, each with its stamp.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<HashMap<PathBuf, Stamp>>);

impl Seen {
    pub(super) fn note(&self, path: &Path, stamp: Stamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), stamp);
    }

    pub(super) fn of(&self, path: &Path) -> Option<Stamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }
}
