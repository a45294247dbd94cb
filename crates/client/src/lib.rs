//! Client of the daemon: the `Runtime` trait over its unix socket, with a few connections kept alive.
//!
//! It knows the wire and nothing else: where the socket is, and how a daemon is started, is the business of binaries.

mod connection;
mod remote;
mod slices;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A client. Lazy and cheap to clone; nothing is connected before the first call.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    socket: PathBuf,
    idle: Mutex<Vec<connection::Sender>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("socket", &self.inner.socket).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the daemon at this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { inner: Arc::new(Inner { socket: socket.into(), idle: Mutex::default() }) }
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.inner.socket
    }
}
