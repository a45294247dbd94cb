//! A store in a directory that goes with it.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Deref;
use std::path::PathBuf;

use subagent_store_sqlite::{FILE_NAME, OpenOptions, SqliteStore};
use tempfile::TempDir;

pub(crate) struct Temp {
    // Before the directory: closed first.
    store: Option<SqliteStore>,
    dir: TempDir,
}

impl Temp {
    pub(crate) fn new() -> Self {
        Self::with(&OpenOptions::default())
    }

    pub(crate) fn with(options: &OpenOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { store: Some(SqliteStore::open(dir.path(), options).unwrap()), dir }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join(FILE_NAME)
    }

    /// Closes it, lets `change` at the file, and opens it again.
    pub(crate) fn reopen_after(&mut self, change: impl FnOnce(&rusqlite::Connection)) {
        self.store = None;
        let connection = rusqlite::Connection::open(self.file()).unwrap();
        change(&connection);
        drop(connection);
        self.store = Some(SqliteStore::open(self.dir.path(), &OpenOptions::default()).unwrap());
    }
}

impl Deref for Temp {
    type Target = SqliteStore;

    fn deref(&self) -> &SqliteStore {
        self.store.as_ref().unwrap()
    }
}
