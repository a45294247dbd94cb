//! The shims that this process controls, by their sockets, so that a survey leaves them alone: saying
//! hello to one would take it away from its own handle. A handle whose connection is lost does not count.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use super::connection::Connection;

static HELD: LazyLock<Mutex<HashMap<PathBuf, Weak<Connection>>>> = LazyLock::new(Mutex::default);

/// A handle to the shim at this socket was made.
pub(super) fn enter(socket: &Path, connection: &Arc<Connection>) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.insert(socket.to_owned(), Arc::downgrade(connection));
}

/// The handle with this connection is gone.
pub(super) fn leave(socket: &Path, connection: &Arc<Connection>) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    // A newer handle to the same shim may have taken the place.
    if held.get(socket).is_some_and(|other| other.as_ptr() == Arc::as_ptr(connection)) {
        held.remove(socket);
    }
}

/// True while there is a handle with a live connection.
pub(super) fn is_held(socket: &Path) -> bool {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.get(socket).and_then(Weak::upgrade).is_some_and(|connection| !connection.is_lost())
}
