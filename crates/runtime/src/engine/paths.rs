//! Where attempts keep their files: control files lie outside any child's workspace.

use std::io;
use std::path::{Path, PathBuf};

use subagent_core::run::Subagent;
use subagent_model::{AttemptKey, SubagentId};

/// The layout below the data directory.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    attempts: PathBuf,
    attachments: PathBuf,
    volatile: PathBuf,
}

impl Paths {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            attempts: data_dir.join("attempts"),
            attachments: data_dir.join("attachments"),
            volatile: data_dir.join("volatile"),
        }
    }

    pub(crate) fn make(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.attempts)?;
        std::fs::create_dir_all(&self.attachments)?;
        std::fs::create_dir_all(&self.volatile)
    }

    /// Directory of an attempt: one level, since each level costs a start. Runs that end with the daemon lie apart, so
    /// that the next daemon can clear them without any record.
    pub(crate) fn attempt(&self, key: AttemptKey, durable: bool) -> PathBuf {
        if durable { &self.attempts } else { &self.volatile }.join(key.to_string())
    }

    pub(crate) fn attempt_of(&self, state: &Subagent, key: AttemptKey) -> PathBuf {
        self.attempt(key, state.spec.durable)
    }

    /// Where the files lie that go with the prompts and messages of a subagent.
    pub(crate) fn attachments_of(&self, id: SubagentId, durable: bool) -> PathBuf {
        if durable { &self.attachments } else { &self.volatile }.join(id.to_string())
    }

    /// Directories of the files of durable subagents.
    pub(crate) fn attachments(&self) -> &Path {
        &self.attachments
    }

    /// Directories of durable runs.
    pub(crate) fn durable(&self) -> &Path {
        &self.attempts
    }

    /// Directories that an earlier daemon left of runs which ended with it.
    pub(crate) fn volatile(&self) -> &Path {
        &self.volatile
    }
}
