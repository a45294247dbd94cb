//! One daemon per home: a file that the kernel keeps locked for as long as its holder lives. What stands in the file
//! serves messages only, so that a stale one, or a pid that somebody else has now, does no harm.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subagent_model::ErrorCode;
use subagent_process::ProcessIdentity;

use crate::fail::Failure;

/// Who holds the lock, as it wrote itself down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The process.
    pub(crate) process: ProcessIdentity,
    /// Where it listens.
    pub(crate) socket: PathBuf,
    /// Its version.
    pub(crate) version: String,
}

/// A lock that this process holds, until it ends or drops it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, if nobody has it.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>, Failure> {
        let cannot = |error: std::io::Error| {
            use std::io::ErrorKind as Kind;
            let code = match error.kind() {
                Kind::PermissionDenied | Kind::ReadOnlyFilesystem => ErrorCode::StoreReadOnly,
                Kind::StorageFull | Kind::QuotaExceeded => ErrorCode::StoreFull,
                _ => ErrorCode::StoreFailed,
            };
            Failure::new(code, format!("cannot lock {}", path.display())).because(error)
        };
        let mut options = OpenOptions::new();
        // Never cut short by opening: its content is the holder's.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }

    /// Writes down who holds it.
    pub(crate) fn sign(&mut self, holder: &Holder) -> std::io::Result<()> {
        let text = serde_json::to_vec(holder)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

/// Who signed last, if that process still lives.
pub(crate) fn holder(path: &Path) -> Option<Holder> {
    let mut text = String::new();
    File::open(path).ok()?.take(64 * 1024).read_to_string(&mut text).ok()?;
    let holder: Holder = serde_json::from_str(&text).ok()?;
    subagent_process::is_alive(&holder.process).then_some(holder)
}

#[cfg(test)]
mod tests {
    use super::{Holder, Lock, holder};
    use std::path::PathBuf;

    #[test]
    fn daemon_01_a_stale_file_is_no_obstacle_and_its_pid_means_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.lock");
        // A crashed daemon whose pid now belongs to this very test.
        let mut process = subagent_process::identify(std::process::id()).unwrap();
        process.start_time += 1;
        let stale =
            Holder { process: process.clone(), socket: PathBuf::from("/x"), version: String::from("0") };
        std::fs::write(&path, serde_json::to_vec(&stale).unwrap()).unwrap();
        assert_eq!(holder(&path), None);
        let mut lock = Lock::try_take(&path).unwrap().unwrap();
        process.start_time -= 1;
        let own = Holder { process, ..stale };
        lock.sign(&own).unwrap();
        assert_eq!(holder(&path), Some(own));
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(lock);
        assert!(Lock::try_take(&path).unwrap().is_some());
        std::fs::write(&path, "no json").unwrap();
        assert_eq!(holder(&path), None);
    }
}
