//! What to start. Plain data; the shim checks it.

use std::collections::BTreeMap;
use std::time::Duration;

use subagent_core::frame::control::{MARKER, ResourceLimit, StartRequest, StdinSource};

/// The two graces of the kill ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    /// From end of input and SIGTERM to SIGKILL.
    pub term: Duration,
    /// From SIGKILL to giving up on a process that does not vanish.
    pub kill: Duration,
}

impl Default for Graces {
    /// Five seconds each.
    fn default() -> Self {
        Self { term: Duration::from_secs(5), kill: Duration::from_secs(5) }
    }
}

/// Everything needed to start a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartJob {
    /// Opaque key of the attempt; also put into the child's environment as `SUBAGENT_ATTEMPT`.
    pub attempt: String,
    /// Absolute directory for log, spool and exit record. It is made if missing; an attempt whose log
    /// exists there already is refused.
    pub dir: String,
    /// A path, or a name to be looked up in the child's own `PATH`.
    pub program: String,
    /// Arguments without the program's name.
    pub args: Vec<String>,
    /// The complete environment, but for the marker.
    pub env: BTreeMap<String, String>,
    /// Absolute working directory.
    pub cwd: String,
    /// The child's input.
    pub stdin: StdinSource,
    /// Hard deadline from the start.
    pub deadline: Option<Duration>,
    /// Lease; the tree is ended when it runs out without a renewal.
    pub lease: Option<Duration>,
    /// Bound of the frame log on disk in bytes; at least 256 KiB are used.
    pub log_limit: u64,
    /// Graces for deadline, lease and leftovers.
    pub graces: Graces,
    /// Resource limits.
    pub rlimits: Vec<ResourceLimit>,
    /// All of the output must be heard: see [`Shim::heard`](super::Shim::heard).
    pub heard: bool,
}

impl StartJob {
    /// A job without arguments, input, deadline and lease, with an empty environment and a log of at
    /// most 64 MiB.
    pub fn new(
        attempt: impl Into<String>,
        dir: impl Into<String>,
        program: impl Into<String>,
        cwd: impl Into<String>,
    ) -> Self {
        Self {
            attempt: attempt.into(),
            dir: dir.into(),
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: cwd.into(),
            stdin: StdinSource::Null,
            deadline: None,
            lease: None,
            log_limit: 64 * 1024 * 1024,
            graces: Graces::default(),
            rlimits: Vec::new(),
            heard: false,
        }
    }

    pub(super) fn into_request(self) -> StartRequest {
        let mut env = self.env;
        env.insert(MARKER.to_owned(), self.attempt.clone());
        StartRequest {
            attempt: self.attempt,
            dir: self.dir,
            program: self.program,
            args: self.args,
            env,
            cwd: self.cwd,
            stdin: self.stdin,
            deadline_ms: self.deadline.map(millis),
            lease_ms: self.lease.map(millis),
            log_limit: self.log_limit,
            term_grace_ms: millis(self.graces.term),
            kill_grace_ms: millis(self.graces.kill),
            rlimits: self.rlimits,
            heard: self.heard,
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
