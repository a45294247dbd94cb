//! Opening a store: whose file it is, which format it has, and what may be done with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use subagent_store::StoreError;

use crate::error::store_error;
use crate::{connect, schema};

/// The name of the store's file in a data directory.
pub const FILE_NAME: &str = "subagent.sqlite";

/// The first SQLite without a fault that could corrupt a database when the log starts anew.
const OLDEST_SQLITE: i32 = 3_052_000;

/// How a store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Makes a new store where there is none.
    pub create: bool,
    /// How long to wait for another process that holds the file.
    pub patience: Duration,
    /// The log is moved into the database when it has this many pages of 4 KiB.
    pub checkpoint_pages: u32,
    /// The store takes no more room than this many pages of 4 KiB; no bound when absent.
    pub most_pages: Option<u32>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { create: true, patience: Duration::from_secs(5), checkpoint_pages: 2_000, most_pages: None }
    }
}

/// A store's file as it was found.
pub(crate) enum Opened {
    Writable(Connection),
    Newer(u32),
}

/// The store's file: `path` itself, or the one of that data directory.
pub(crate) fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() }
}

/// Opens the file for writing, and leads it to the present format.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Opened, StoreError> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(StoreError::Unusable {
            path: path.display().to_string(),
            reason: format!("SQLite {} can corrupt it", rusqlite::version()),
            remedy: String::from("build with the bundled SQLite"),
        });
    }
    if !options.create && !path.exists() {
        return Err(StoreError::Io {
            action: format!("opening {}", path.display()),
            reason: String::from("there is no such file"),
        });
    }
    prepare(path, options).map_err(|error| match error {
        Failure::Sqlite(error) => explain(&error, path),
        Failure::Store(error) => error,
    })
}

enum Failure {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn prepare(path: &Path, options: &OpenOptions) -> Result<Opened, Failure> {
    let mut connection = connect::writer(path, options.create, options.patience)?;
    let (format, application) = (schema::format(&connection)?, schema::application_id(&connection)?);
    if application != schema::APPLICATION_ID && !(format == 0 && schema::is_empty(&connection)?) {
        return Err(Failure::Store(StoreError::Unusable {
            path: path.display().to_string(),
            reason: String::from("it is a database of another program"),
            remedy: String::from("choose another data directory"),
        }));
    }
    if format > schema::FORMAT {
        // Not even the log of a newer store is touched.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        return Ok(Opened::Newer(format));
    }
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Failure::Store(StoreError::Unusable {
            path: path.display().to_string(),
            reason: format!("its file system allows the journal mode {mode} only"),
            remedy: String::from("choose a data directory on a local disk"),
        }));
    }
    if let Some(pages) = options.most_pages {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    schema::migrate(&mut connection)?;
    if format > 0 && format < schema::FORMAT {
        // A step may have written every row. It is done: a log that cannot be shortened now is so later.
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
    Ok(Opened::Writable(connection))
}

/// SQLite says only that it cannot open; whether the place can be written tells why.
fn explain(error: &rusqlite::Error, path: &Path) -> StoreError {
    let unclear = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure
                | ErrorCode::PermissionDenied
        )
    );
    if !unclear {
        return store_error(error, path);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match probe(directory) {
        Ok(()) => store_error(error, path),
        Err(error) => match error.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly
            }
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::Full,
            _ => StoreError::Io {
                action: format!("writing into {}", directory.display()),
                reason: error.to_string(),
            },
        },
    }
}

fn probe(directory: &Path) -> std::io::Result<()> {
    use std::io::Write;
    // A file of its own: closing a second descriptor of the database would drop its locks.
    let path = directory.join(format!(".subagent-probe-{}", std::process::id()));
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(&[0; 4096]));
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}
