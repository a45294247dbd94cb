//! The thread that moves the log into the database. It does the bulk while commits go on, then takes the writer for the
//! few pages that came meanwhile, so that the next commit starts the log anew: it neither grows without bound nor holds
//! a commit up for long.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, TransactionBehavior};

use crate::writer::Writer;

/// Room that is set aside for the log: what is written between two checkpoints of a quiet store.
const RESERVED: u64 = 4 * 1024 * 1024;

/// How much of it is made at a time.
const PORTION: usize = 256 * 1024;

/// The log is far too long when it is this many times longer than it should be.
const FAR_TOO_LONG: u32 = 4;

/// How long a commit may be held up by readers of old pages.
const HELD_UP: Duration = Duration::from_millis(50);

/// Told by commits, waited on by the thread.
#[derive(Debug)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
    /// A checkpoint is due every so many pages.
    every: u32,
    /// Pages in the log after the last commit.
    pages: AtomicU32,
    /// With this many pages the next checkpoint is due.
    due_at: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    due: bool,
    closed: bool,
}

impl Signal {
    pub(crate) fn new(every: u32) -> Self {
        let every = every.max(1);
        let (pages, due_at) = (AtomicU32::new(0), AtomicU32::new(every));
        Self { state: Mutex::default(), changed: Condvar::new(), every, pages, due_at }
    }

    /// Counts the pages of the log on this connection.
    pub(crate) fn count(self: &Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        let signal = Arc::clone(self);
        connection.wal_hook(Some(move |_: &mut Wal, pages: std::ffi::c_int| {
            let pages = u32::try_from(pages).unwrap_or(0);
            if pages < signal.pages.swap(pages, Ordering::Relaxed) {
                // The log has started anew.
                signal.due_at.store(signal.every, Ordering::Relaxed);
            }
            Ok(())
        }))
    }

    /// Wakes the thread if there is something to do for it.
    pub(crate) fn committed(&self) {
        if self.pages.load(Ordering::Relaxed) >= self.due_at.load(Ordering::Relaxed) {
            self.put_off();
            self.change(|state| state.due = true);
        }
    }

    /// A log that does not start anew (a reader holds it, or the disk is full) is not tried again at each commit.
    fn put_off(&self) {
        let pages = self.pages.load(Ordering::Relaxed);
        self.due_at.store(pages.saturating_add(self.every), Ordering::Relaxed);
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    fn is_closed(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed
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
    writer: Arc<Writer>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(String::from("store-checkpoint")).spawn(move || {
        if let Err(error) = reserve(&signal, &writer) {
            tracing::debug!(%error, "the log of the store has no room set aside");
        }
        while signal.wait() {
            // A failure (a full disk, say) loses nothing: the log keeps everything, and it is tried again later.
            if let Err(error) = run(&signal, &connection, &writer) {
                tracing::warn!(%error, "a checkpoint of the store failed; it is tried again");
            }
        }
    })
}

fn run(signal: &Signal, connection: &Connection, writer: &Writer) -> rusqlite::Result<()> {
    checkpoint(connection, "PASSIVE")?;
    let writer = writer.lock()?;
    // Readers of old pages keep the log from starting anew. Usually there is another time; when it has grown far too
    // long they are waited for, but not longer than a commit may be held up.
    let far_too_long = signal.pages.load(Ordering::Relaxed) / FAR_TOO_LONG > signal.every;
    connection.busy_timeout(if far_too_long { HELD_UP } else { Duration::ZERO })?;
    let done = checkpoint(connection, if far_too_long { "RESTART" } else { "PASSIVE" });
    signal.put_off();
    drop(writer);
    done
}

fn checkpoint(connection: &Connection, how: &str) -> rusqlite::Result<()> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()))
}

/// Sets room aside for the log: a flush of a file that grows takes about twice as long as one of a file that is written
/// over, and on some disks forty times. In small portions, between which commits go on.
fn reserve(signal: &Signal, writer: &Writer) -> Result<(), ReserveError> {
    while !signal.is_closed() && reserve_portion(writer)? {
        // Those who want to commit go first.
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// One portion; false when there is enough. Zeros behind the log are no frames, so every SQLite passes over them. This
/// holds SQLite's write lock, which binds other processes too: nobody appends to the log meanwhile.
fn reserve_portion(writer: &Writer) -> Result<bool, ReserveError> {
    let mut writer = writer.lock()?;
    let Some(path) = writer.path().map(|path| format!("{path}-wal")) else { return Ok(false) };
    let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let log = OpenOptions::new().append(true).open(path)?;
    let found = log.metadata()?.len();
    let missing = RESERVED.saturating_sub(found);
    if missing > 0 {
        let portion = usize::try_from(missing).unwrap_or(PORTION).min(PORTION);
        let written = (&log).write_all(&vec![0; portion]).and_then(|()| log.sync_data());
        if written.is_err() {
            // The last room of a disk is not ours to take.
            log.set_len(found)?;
        }
        written?;
    }
    transaction.rollback()?;
    Ok(missing > 0)
}

#[derive(Debug, thiserror::Error)]
enum ReserveError {
    #[error("sqlite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("file: {0}")]
    File(#[from] std::io::Error),
}
