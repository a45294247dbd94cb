//! Finding the shims of an earlier daemon: all sockets at once, each with a bounded time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use subagent_core::frame::control::ShimStatus;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::handle::Shim;
use super::held;
use crate::identity::{identify, signal_checked};

/// Longest time one shim may take to answer before it is taken for suspended.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest time one shim may take to answer at all.
const ANSWER: Duration = Duration::from_secs(3);

/// A shim that lives, with its state and a handle to carry on. Saying hello took its control over from
/// whoever had it.
#[derive(Clone, Debug)]
pub struct LiveShim {
    /// The handle.
    pub shim: Shim,
    /// What it said about itself: attempt, state, exit record.
    pub status: Arc<ShimStatus>,
}

/// All live shims with a socket in `sockets` that this process does not control already, in no order.
/// Sockets nobody listens on are removed. Shims that do not answer in time are left out, with a warning.
///
/// # Errors
///
/// The directory cannot be read. A missing one holds no shims.
pub async fn survey(sockets: &Path) -> io::Result<Vec<LiveShim>> {
    survey_where(sockets, |_| true).await
}

/// Those of [`survey`] whose socket's name is wanted.
pub(super) async fn survey_where(sockets: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<LiveShim>> {
    let entries = match std::fs::read_dir(sockets) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut asked = JoinSet::new();
    for entry in entries {
        let path = entry?.path();
        // Saying hello to a shim that this process controls would take it away from its own handle.
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_socket = path.extension().is_some_and(|extension| extension == "sock");
        if is_socket && wanted(name) && !held::is_held(&path) {
            asked.spawn(ask(path));
        }
    }
    let mut found = Vec::new();
    while let Some(answer) = asked.join_next().await {
        if let Ok(Some(live)) = answer {
            live.shim.remove_group_when_lost();
            found.push(live);
        }
    }
    Ok(found)
}

async fn ask(socket: PathBuf) -> Option<LiveShim> {
    let stream = reach(&socket).await?;
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
    match Shim::greet(stream, socket.clone(), PATIENCE).await {
        Ok((shim, status)) => return Some(LiveShim { shim, status }),
        Err(error) => tracing::warn!(%error, "a shim does not answer; it may be suspended"),
    }
    // Whoever listens there is a shim of ours. Going on does no harm to one that was not suspended.
    if let Some(identity) = peer.and_then(identify) {
        let _ = signal_checked(&identity, libc::SIGCONT);
    }
    let stream = reach(&socket).await?;
    match Shim::greet(stream, socket, ANSWER).await {
        Ok((shim, status)) => Some(LiveShim { shim, status }),
        Err(error) => {
            tracing::error!(%error, "a shim does not answer");
            None
        }
    }
}

async fn reach(socket: &Path) -> Option<UnixStream> {
    match timeout(ANSWER, UnixStream::connect(socket)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            // Its shim was killed; a shim that ends by itself removes its socket.
            let _ = std::fs::remove_file(socket);
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(Err(error)) => tracing::warn!(%error, "cannot connect to a shim"),
        Err(_) => tracing::warn!("a shim does not accept connections"),
    }
    None
}
