//! Launching shims: the program is opened once, so replacing or deleting it on disk changes nothing for
//! a running daemon; each shim gets a socket and, where possible, a control group of its own.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;

use super::handle::{Shim, ShimError};
use super::survey::{LiveShim, survey_where};
use crate::cgroup::{CgroupRoot, CgroupUnavailable};
use crate::platform;

/// Number of the next launcher of this process: none takes the shims of another for its own.
static LAUNCHERS: AtomicU64 = AtomicU64::new(0);
/// Number of the next shim of this process. All launchers of a process have the same prefix, and the control group of a
/// shim that was retired may be there for a while after it.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Longest time a fresh shim may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// Longest socket path every system takes.
const MAX_SOCKET_PATH: usize = 100;

/// How trees are contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containment {
    /// A control group where one can be made, else by walking the descendants.
    #[default]
    Auto,
    /// A control group, or launching fails.
    Cgroup,
    /// By walking the descendants only.
    Walk,
}

/// What containment is in use, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainmentReport {
    /// Each shim has a group below this directory.
    Cgroup(PathBuf),
    /// Descendants are walked; why there is no group, unless walking was asked for.
    Walk(Option<CgroupUnavailable>),
}

/// What a launcher needs to know.
#[derive(Clone, Debug)]
pub struct LauncherConfig {
    /// The shim's program.
    pub program: PathBuf,
    /// Directory for the sockets; it must exist and belong to this user alone.
    pub sockets: PathBuf,
    /// Containment.
    pub containment: Containment,
    /// A short word that keeps the groups of several daemons apart.
    pub tag: String,
}

/// Why a shim could not be launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The shim's program cannot be opened.
    #[error("cannot open the shim program {path}")]
    Program {
        /// Where it was looked for.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory for the sockets is unusable.
    #[error("cannot use the socket directory {path}")]
    Sockets {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A control group was demanded and there is none.
    #[error("no control group can be used")]
    Cgroup(#[from] CgroupUnavailable),
    /// The shim could not be started.
    #[error("cannot start a shim")]
    Spawn(#[source] io::Error),
    /// The shim was started and did not say hello; it was ended.
    #[error("a new shim did not answer")]
    Hello(#[source] ShimError),
}

#[derive(Debug)]
struct Inner {
    program: platform::Exec,
    sockets: PathBuf,
    root: Option<CgroupRoot>,
    report: ContainmentReport,
    prefix: String,
}

/// Starts shims. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShimLauncher {
    inner: Arc<Inner>,
}

impl ShimLauncher {
    /// Opens the program and finds out about containment.
    pub fn new(config: LauncherConfig) -> Result<Self, LaunchError> {
        let program = platform::Exec::open(&config.program)
            .map_err(|source| LaunchError::Program { path: config.program.clone(), source })?;
        let sockets = config
            .sockets
            .canonicalize()
            .map_err(|source| LaunchError::Sockets { path: config.sockets.clone(), source })?;
        let (root, report) = match config.containment {
            Containment::Walk => (None, ContainmentReport::Walk(None)),
            Containment::Cgroup | Containment::Auto => match CgroupRoot::discover(&config.tag) {
                Ok(root) => {
                    let report = ContainmentReport::Cgroup(root.path().to_owned());
                    (Some(root), report)
                }
                Err(error) if config.containment == Containment::Cgroup => return Err(error.into()),
                Err(error) => (None, ContainmentReport::Walk(Some(error))),
            },
        };
        // The start time keeps names apart when a pid comes again.
        let own = std::process::id();
        let born = platform::stat(own).map_or(0, |stat| stat.start_time);
        let launcher = LAUNCHERS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{own:x}-{born:x}-{launcher:x}");
        let longest = sockets.join(format!("{prefix}-ffffffff.sock"));
        if longest.as_os_str().len() > MAX_SOCKET_PATH {
            let source = io::Error::new(io::ErrorKind::InvalidFilename, "the path is too long for a socket");
            return Err(LaunchError::Sockets { path: config.sockets, source });
        }
        Ok(Self { inner: Arc::new(Inner { program, sockets, root, report, prefix }) })
    }

    /// The containment in use.
    pub fn containment(&self) -> &ContainmentReport {
        &self.inner.report
    }

    /// The directory below which groups are made, if any.
    pub fn cgroup_root(&self) -> Option<&CgroupRoot> {
        self.inner.root.as_ref()
    }

    /// Ends what is left in the groups of shims that are gone, and removes those groups. `live` are the
    /// groups of adopted shims ([`Shim::cgroup`]); groups of shims launched here are left alone. Returns
    /// how many were removed. Blocking, up to `limit` for each group that still holds processes.
    #[allow(clippy::implicit_hasher)] // one caller, one kind of set
    pub fn sweep_groups(&self, live: &HashSet<PathBuf>, limit: Duration) -> usize {
        let groups = self.inner.root.as_ref().and_then(|root| root.groups().ok()).unwrap_or_default();
        groups
            .into_iter()
            .filter(|group| {
                let name = group.path().file_name().map(|name| name.to_string_lossy().into_owned());
                let own = name.is_some_and(|name| name.starts_with(&self.inner.prefix));
                !own && !live.contains(group.path())
            })
            .filter(|group| group.kill_and_wait(limit).unwrap_or(false) && group.remove().is_ok())
            .count()
    }

    /// The directory with the sockets.
    pub fn sockets(&self) -> &Path {
        &self.inner.sockets
    }

    /// The live shims of earlier launchers: a shim that this one is just starting is not taken from it.
    pub async fn survey_others(&self) -> io::Result<Vec<LiveShim>> {
        survey_where(self.sockets(), |name| !name.starts_with(&self.inner.prefix)).await
    }

    /// Starts one shim and waits until it says hello.
    pub async fn launch(&self) -> Result<Shim, LaunchError> {
        let inner = Arc::clone(&self.inner);
        let launched = tokio::task::spawn_blocking(move || inner.spawn())
            .await
            .map_err(|error| LaunchError::Spawn(io::Error::other(error)))?;
        let (stream, socket, pid) = launched.map_err(LaunchError::Spawn)?;
        platform::reap(pid);
        let hello = async {
            let stream = UnixStream::from_std(stream)?;
            Shim::greet(stream, socket, HELLO).await
        };
        match hello.await {
            Ok((shim, _)) => {
                shim.remove_group_when_lost();
                Ok(shim)
            }
            // Its connection is closed now, and a shim without attempt and connection ends.
            Err(error) => Err(LaunchError::Hello(error)),
        }
    }
}

impl Inner {
    fn spawn(&self) -> io::Result<(StdUnixStream, PathBuf, u32)> {
        let name = format!("{}-{:x}", self.prefix, NEXT.fetch_add(1, Ordering::Relaxed));
        let socket = self.sockets.join(format!("{name}.sock"));
        let mut args = vec![OsString::from("--socket"), socket.clone().into_os_string()];
        let group = self.root.as_ref().map(|root| root.make(&name)).transpose()?;
        if let Some(group) = &group {
            args.push("--cgroup".into());
            args.push(group.path().as_os_str().to_owned());
        }
        let spawned = StdUnixStream::pair().and_then(|(ours, theirs)| {
            ours.set_nonblocking(true)?;
            let pid = platform::spawn(&self.program.path(), args, theirs.as_fd())?;
            Ok((ours, pid))
        });
        match spawned {
            Ok((stream, pid)) => Ok((stream, socket, pid)),
            Err(error) => {
                if let Some(group) = group {
                    let _ = group.remove();
                }
                Err(error)
            }
        }
    }
}
