//! The thread that moves the log into the database. It does the bulk while commits go on, then takes the writer for the
//! few pages that came meanwhile, so that the next commit starts the log anew: it neither grows without bound nor holds
//! a commit up for long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// Told by commits, waited on by the thread.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
    /// Pages in the log after the last commit.
    pages: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    due: bool,
    closed: bool,
}

impl Signal {
    /// Counts the pages of the log on this connection.
    pub(crate) fn count(self: &Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        let signal = Arc::clone(self);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
            signal.pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Pages in the log.
    pub(crate) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Wakes the thread.
    pub(crate) fn due(&self) {
        self.change(|state| state.due = true);
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// Waits until there is something to do; false at the end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.due && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.due = false;
        !state.closed
    }
}

/// Starts the thread. `connection` is its own; `writer` is the one that commits use.
pub(crate) fn start(
    signal: Arc<Signal>,
    connection: Connection,
    writer: Arc<Mutex<Connection>>,
    most_pages: u32,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(String::from("store-checkpoint")).spawn(move || {
        while signal.wait() {
            // A failure (a full disk, say) loses nothing: the log keeps everything, and the next commit asks again.
            if let Err(error) = run(&signal, &connection, &writer, most_pages) {
                tracing::warn!(%error, "a checkpoint of the store failed; it is tried again");
            }
        }
    })
}

fn run(
    signal: &Signal,
    connection: &Connection,
    writer: &Mutex<Connection>,
    most_pages: u32,
) -> rusqlite::Result<()> {
    checkpoint(connection, "PASSIVE")?;
    let writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    // Readers of old pages keep the log from starting anew. Usually there is another time; when it has grown far too
    // long, they are waited for.
    let how = if signal.pages() > most_pages { "RESTART" } else { "PASSIVE" };
    checkpoint(&writer, how)
}

fn checkpoint(connection: &Connection, how: &str) -> rusqlite::Result<()> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()))
}
