//! Connections for readers. Each is used by one thread at a time, so that readers run in parallel; their number is
//! bounded, and so are memory and descriptors.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::connect;

/// The most reading connections at once.
const MOST: usize = 8;

/// How many stay open when nobody reads.
const IDLE: usize = 4;

#[derive(Debug)]
pub(crate) struct Pool {
    path: PathBuf,
    patience: Duration,
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
}

/// A connection that goes back to the pool.
pub(crate) struct Reader<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Pool {
    pub(crate) fn new(path: PathBuf, patience: Duration) -> Self {
        Self { path, patience, state: Mutex::default(), given_back: Condvar::new() }
    }

    /// A connection; waits while all are in use.
    pub(crate) fn reader(&self) -> rusqlite::Result<Reader<'_>> {
        let mut state = self.state();
        while state.idle.is_empty() && state.open >= MOST {
            state = self.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(connection) = state.idle.pop() {
            return Ok(Reader { pool: self, connection: Some(connection) });
        }
        state.open += 1;
        drop(state);
        // On a failure the guard gives the place back.
        let mut reader = Reader { pool: self, connection: None };
        reader.connection = Some(connect::reader(&self.path, self.patience)?);
        Ok(reader)
    }

    /// Closes what is idle.
    pub(crate) fn close(&self) {
        let idle = {
            let mut state = self.state();
            state.open -= state.idle.len();
            std::mem::take(&mut state.idle)
        };
        drop(idle);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Reader<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.connection {
            Some(connection) => connection,
            // It is taken only when the reader is dropped.
            None => unreachable!("a reader has a connection"),
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let mut state = self.pool.state();
            if state.idle.len() < IDLE {
                state.idle.push(connection);
                drop(state);
                self.pool.given_back.notify_one();
                return;
            }
            // Closing takes time: not under the lock. Its place is free only once it is closed.
            drop(state);
            drop(connection);
        }
        self.pool.state().open -= 1;
        self.pool.given_back.notify_one();
    }
}
