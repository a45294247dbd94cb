//! The one connection that writes, and whose turn it is. A lock that is given up and taken again at once may never
//! reach another who waits for it; so everyone goes through a gate first, and whoever is in the gate is next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

#[derive(Debug)]
pub(crate) struct Writer {
    gate: Mutex<()>,
    connection: Mutex<Connection>,
}

impl Writer {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { gate: Mutex::new(()), connection: Mutex::new(connection) }
    }

    /// The connection, without a transaction.
    pub(crate) fn lock(&self) -> rusqlite::Result<MutexGuard<'_, Connection>> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // A panic rolls its transaction back, so the connection is sound after it.
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        drop(gate);
        if !connection.is_autocommit() {
            // A transaction whose very rollback failed, on a broken disk, must not stand in the way for ever.
            connection.execute_batch("ROLLBACK")?;
        }
        Ok(connection)
    }
}
