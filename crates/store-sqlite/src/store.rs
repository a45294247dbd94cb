//! The store: the port on top of the writer, the readers and the quarantine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use subagent_core::run::Subagent;
use subagent_model::{Cursor, Event, Handle, NodeId, Requester, RunNumber, SubagentId};
use subagent_store::{
    Committed, ContentKind, ContentPart, DamagedRow, IdempotencyKey, ListFilter, ListPage, LivePage, OwedRun,
    Place, Resolved, Store, StoreError, StoreMode, StoredSummary, Transition,
};

use crate::checkpoint::{self, Signal};
use crate::error::store_error;
use crate::open::{self, OpenOptions, Opened};
use crate::pool::{Pool, Reader};
use crate::quarantine::Quarantine;
use crate::write::{self, Unwritten};
use crate::writer::Writer;
use crate::{connect, list, read, release, schema};

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    node: NodeId,
    access: Access,
    readers: Pool,
    quarantine: Quarantine,
}

#[derive(Debug)]
enum Access {
    ReadWrite(Writing),
    /// A newer version wrote it.
    Newer(u32),
}

#[derive(Debug)]
struct Writing {
    writer: Arc<Writer>,
    signal: Arc<Signal>,
    checkpointer: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens a store: a file, or the file [`crate::FILE_NAME`] of a directory. A store of an older format is led to the
    /// present one; one of a newer format is opened for reading only.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, StoreError> {
        let path = open::file(path.as_ref());
        let opened = open::open(&path, options)?;
        let failed = |error: rusqlite::Error| store_error(&error, &path);
        let access =
            match opened {
                Opened::Newer(format) => Access::Newer(format),
                Opened::Writable(mut writer) => {
                    let signal = Arc::new(Signal::new(options.checkpoint_pages));
                    signal.count(&mut writer).map_err(failed)?;
                    let writer = Arc::new(Writer::new(writer));
                    let own = connect::writer(&path, false, options.patience).map_err(failed)?;
                    let checkpointer = checkpoint::start(Arc::clone(&signal), own, Arc::clone(&writer))
                        .map_err(|error| StoreError::Io {
                            action: String::from("starting a thread"),
                            reason: error.to_string(),
                        })?;
                    Access::ReadWrite(Writing { writer, signal, checkpointer: Some(checkpointer) })
                }
            };
        let readers = Pool::new(path.clone(), options.patience);
        let mut store =
            Self { path, node: NodeId(String::new()), access, readers, quarantine: Quarantine::default() };
        let sql = "SELECT value FROM meta WHERE name = 'node'";
        store.node = store.read(|reader| reader.query_row(sql, [], |row| row.get(0).map(NodeId)))?;
        Ok(store)
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks SQLite whether the file is sound: what it finds, nothing when it is. Reads all of it.
    pub fn check_file(&self) -> Result<Vec<String>, StoreError> {
        self.read(|reader| {
            let mut statement = reader.prepare("PRAGMA integrity_check(100)")?;
            let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(found.into_iter().filter(|line| line != "ok").collect())
        })
    }

    fn read<T>(&self, query: impl FnOnce(&Reader<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.readers.reader().and_then(|reader| query(&reader)).map_err(|error| self.failed(&error))
    }

    fn write<T>(&self, step: impl FnOnce(&mut Connection) -> Result<T, Unwritten>) -> Result<T, StoreError> {
        let writing = match &self.access {
            Access::ReadWrite(writing) => writing,
            Access::Newer(found) => return Err(StoreError::TooNew { found: *found, ours: schema::FORMAT }),
        };
        let mut writer = writing.writer.lock().map_err(|error| self.failed(&error))?;
        let done = step(&mut writer).map_err(|unwritten| match unwritten {
            Unwritten::Refused(error) => error,
            Unwritten::Failed(error) => self.failed(&error),
        })?;
        drop(writer);
        writing.signal.committed();
        Ok(done)
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        match (&self.access, error.sqlite_error_code()) {
            // A newer version no longer has what is read here.
            (Access::Newer(found), Some(rusqlite::ErrorCode::Unknown)) => {
                StoreError::TooNew { found: *found, ours: schema::FORMAT }
            }
            _ => store_error(error, &self.path),
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers.close();
        if let Access::ReadWrite(writing) = &mut self.access {
            writing.signal.close();
            if let Some(checkpointer) = writing.checkpointer.take() {
                // A panic of the thread was told by its hook; there is nothing to add.
                let _ = checkpointer.join();
            }
        }
        // The writer is the last to close: it moves the log into the database and removes it.
    }
}

impl Store for SqliteStore {
    fn commit(&self, batch: &[Transition]) -> Result<Committed, StoreError> {
        self.write(|writer| write::commit(writer, batch))
    }

    fn get(&self, id: SubagentId) -> Result<Option<Arc<Subagent>>, StoreError> {
        match self.read(|reader| read::get(reader, &self.quarantine, id))? {
            Some(Ok(state)) => Ok(Some(state)),
            Some(Err(row)) => Err(StoreError::Damaged { id: row.id, reason: row.reason }),
            None => Ok(None),
        }
    }

    fn resolve(&self, name: &str) -> Result<Resolved, StoreError> {
        self.read(|reader| read::resolve(reader, name))
    }

    fn list(&self, filter: &ListFilter) -> Result<ListPage, StoreError> {
        self.read(|reader| list::list(reader, &self.quarantine, filter))
    }

    fn live(&self) -> Result<LivePage, StoreError> {
        self.read(|reader| read::live(reader, &self.quarantine))
    }

    fn owed(
        &self,
        requester: Option<&Requester>,
        after: Option<Place>,
        limit: u32,
    ) -> Result<Vec<OwedRun>, StoreError> {
        self.read(|reader| read::owed(reader, &self.quarantine, requester, after, limit))
    }

    fn owed_requesters(&self, prefix: &str) -> Result<Vec<Requester>, StoreError> {
        self.read(|connection| read::owed_requesters(connection, prefix))
    }

    fn owed_count(&self, requester: Option<&Requester>) -> Result<u64, StoreError> {
        self.read(|reader| read::owed_count(reader, &self.quarantine, requester))
    }

    fn events(&self, after: Cursor, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.read(|reader| read::events(reader, &self.quarantine, after, limit))
    }

    fn head(&self) -> Result<Cursor, StoreError> {
        self.read(|reader| write::head(reader)).map(|head| Cursor(write::unsigned(head)))
    }

    fn first_event(&self) -> Result<Cursor, StoreError> {
        self.read(|reader| read::first_event(reader))
    }

    fn prune_events(&self, before: Cursor) -> Result<u64, StoreError> {
        let mut pruned = 0;
        loop {
            match self.write(|writer| release::prune_portion(writer, before))? {
                0 => break,
                portion => pruned += portion,
            }
        }
        self.quarantine.forget_events(self.first_event()?);
        Ok(pruned)
    }

    fn content(
        &self,
        id: SubagentId,
        run: RunNumber,
        kind: ContentKind,
        offset: u64,
        max: u32,
    ) -> Result<Option<ContentPart>, StoreError> {
        self.read(|reader| read::content(reader, id, (run, kind), offset, max))
    }

    fn by_idempotency_key(&self, key: &IdempotencyKey) -> Result<Option<SubagentId>, StoreError> {
        self.read(|reader| write::by_key(reader, key))
    }

    fn children(&self, parent: SubagentId) -> Result<Vec<SubagentId>, StoreError> {
        self.read(|reader| read::children(reader, parent))
    }

    fn tree(&self, root: SubagentId) -> Result<Vec<Arc<Subagent>>, StoreError> {
        self.read(|reader| read::tree(reader, &self.quarantine, root))
    }

    fn tree_total(&self, root: SubagentId) -> Result<u32, StoreError> {
        self.read(|reader| read::tree_total(reader, root))
    }

    fn handle_taken(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.read(|reader| write::by_handle(reader, handle.as_str())).map(|id| id.is_some())
    }

    fn summaries(&self, after: Option<SubagentId>, limit: u32) -> Result<Vec<StoredSummary>, StoreError> {
        self.read(|reader| release::summaries(reader, after, limit))
    }

    fn release_content(&self, ids: &[SubagentId]) -> Result<u32, StoreError> {
        self.write(|writer| release::release_content(writer, ids))
    }

    fn delete(&self, ids: &[SubagentId]) -> Result<u32, StoreError> {
        let removed = self.write(|writer| release::delete(writer, ids))?;
        for id in &removed {
            self.quarantine.forget(&id.to_string());
        }
        Ok(u32::try_from(removed.len()).unwrap_or(u32::MAX))
    }

    fn damaged(&self) -> Result<Vec<DamagedRow>, StoreError> {
        Ok(self.quarantine.rows())
    }

    fn node(&self) -> NodeId {
        self.node.clone()
    }

    fn mode(&self) -> StoreMode {
        match &self.access {
            Access::ReadWrite(_) => StoreMode::ReadWrite,
            Access::Newer(found) => StoreMode::ReadOnly {
                reason: format!(
                    "a newer version wrote it: it has format {found}, this version knows up to {}",
                    schema::FORMAT
                ),
            },
        }
    }
}
