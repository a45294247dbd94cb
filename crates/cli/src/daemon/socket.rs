//! The daemon's socket: published while the lock is held, withdrawn only while it is still the daemon's own.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// A published socket.
#[derive(Debug)]
pub(crate) struct Published {
    path: PathBuf,
    node: (u64, u64),
}

fn node(path: &Path) -> io::Result<(u64, u64)> {
    let meta = std::fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// Listens at this path, for this user alone. Whoever calls holds the lock, so that what lies there is stale.
pub(crate) fn publish(path: &Path) -> io::Result<(UnixListener, Published)> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Some(dir) = path.parent().filter(|dir| !dir.exists()) {
        // Cleaned away while the daemon served: runtime directories go at a logout.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    Ok((listener, Published { path: path.to_owned(), node: node(path)? }))
}

impl Published {
    /// True when nothing lies at its path any more. A socket of another daemon is that one's own.
    pub(crate) fn is_missing(&self) -> bool {
        node(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Removes the socket, unless it is another one by now.
    pub(crate) fn withdraw(&self) {
        if node(&self.path).is_ok_and(|now| now == self.node)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "cannot remove the socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::publish;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn daemon_03_a_displaced_daemon_leaves_its_successors_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (_old_listener, old) = publish(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (_new_listener, new) = publish(&path).unwrap();
        old.withdraw();
        assert!(path.exists());
        new.withdraw();
        assert!(!path.exists());
    }
}
