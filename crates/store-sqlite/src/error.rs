//! What SQLite's failures are called outside.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Error, ErrorCode, ffi};
use subagent_store::StoreError;

/// The store's error for one of SQLite's. `path` names the file in those that are about the file.
pub(crate) fn store_error(error: &Error, path: &Path) -> StoreError {
    let Error::SqliteFailure(failure, message) = error else {
        return StoreError::Backend { reason: error.to_string() };
    };
    let reason = message.clone().unwrap_or_else(|| failure.to_string());
    match failure.code {
        ErrorCode::DiskFull => StoreError::Full,
        ErrorCode::ReadOnly => StoreError::ReadOnly,
        ErrorCode::SystemIoFailure if is_want_of_room(failure.extended_code) => StoreError::Full,
        ErrorCode::SystemIoFailure => StoreError::Io {
            action: format!("reading or writing {}", path.display()),
            reason: format!("{reason} (code {})", failure.extended_code),
        },
        ErrorCode::CannotOpen => StoreError::Io { action: format!("opening {}", path.display()), reason },
        ErrorCode::NotADatabase => StoreError::Unusable {
            path: path.display().to_string(),
            reason: String::from("it is not a database"),
            remedy: String::from(
                "choose another data directory, or move the file away; a new store is made then",
            ),
        },
        ErrorCode::DatabaseCorrupt => StoreError::Unusable {
            path: path.display().to_string(),
            reason,
            remedy: String::from(
                "restore a backup, or move the file and those beside it that begin with its name away and recover \
                 what can be read with `sqlite3 FILE .recover`; a new store is made then",
            ),
        },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Backend { reason: format!("another process holds {}: {reason}", path.display()) }
        }
        _ => StoreError::Backend { reason },
    }
}

/// Input and output errors that mean that there is no room: a shared-memory file that cannot grow, and writes over a
/// quota or a file size limit, which SQLite does not tell apart.
fn is_want_of_room(extended: i32) -> bool {
    match extended {
        ffi::SQLITE_IOERR_SHMSIZE => true,
        // The system's error is still the one of the failed write: what follows it succeeds and does not touch it.
        ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_FSYNC => matches!(
            std::io::Error::last_os_error().kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
        ),
        _ => false,
    }
}
