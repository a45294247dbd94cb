//! Connections and their settings. The writer flushes each commit; nobody checkpoints but the thread that is for it.
//! Caches are small: the system caches the file, and an idle daemon should weigh little.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// A connection that writes.
pub(crate) fn writer(path: &Path, create: bool, patience: Duration) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    settle(&connection, patience, -1_024)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // On macOS a plain flush reaches only the cache of the disk; elsewhere this says nothing.
    connection.pragma_update(None, "fullfsync", true)?;
    // The log is never checkpointed by a commit, and keeps its size: overwriting is cheaper to flush than growing.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    settle(&connection, patience, -256)?;
    Ok(connection)
}

fn settle(connection: &Connection, patience: Duration, cache: i64) -> rusqlite::Result<()> {
    connection.busy_timeout(patience)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.pragma_update(None, "cache_size", cache)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)
}
