//! The shim's words: requests to it, events from it, and the control frames it leaves in the log. One
//! JSON document per line in both directions; unknown fields are ignored and unknown messages are
//! [`Request::Unknown`] and [`Event::Unknown`], so both sides may be of different versions. Transport
//! and timeouts live in the shim and in its client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use subagent_model::process::{ExitCause, ExitRecord, ProcessIdentity, StartFailure};

/// Version of the protocol spoken by this code. Peers with another major version refuse each other.
pub const PROTOCOL: u32 = 1;

/// Largest control line in bytes, line end excluded. An environment and arguments fit.
pub const MAX_LINE: usize = 4 * 1024 * 1024;

/// Name of the log's first segment in an attempt's directory; later ones are [`segment_name`].
pub const LOG_FILE: &str = "frames.log";
/// Name of the exit record in an attempt's directory.
pub const EXIT_FILE: &str = "exit.json";
/// Name of the spool of large inputs in an attempt's directory.
pub const SPOOL_FILE: &str = "stdin.spool";
/// Environment variable that marks every process of an attempt with the attempt's key.
pub const MARKER: &str = "SUBAGENT_ATTEMPT";

/// File name of segment `index` of a frame log; 0 is the first.
pub fn segment_name(index: u32) -> String {
    if index == 0 { LOG_FILE.to_owned() } else { format!("frames.{index}.log") }
}

/// Index of a segment by its file name; `None` for other files.
pub fn segment_index(name: &str) -> Option<u32> {
    if name == LOG_FILE {
        return Some(0);
    }
    name.strip_prefix("frames.")?.strip_suffix(".log")?.parse().ok().filter(|index| *index > 0)
}

/// A message to the shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Opens a conversation and takes over control; answered by [`Event::Hello`].
    Hello {
        /// Protocol version of the sender.
        protocol: u32,
    },
    /// Starts an attempt; answered by [`Event::Started`] or [`Event::StartFailed`].
    Start(Box<StartRequest>),
    /// `len` raw bytes for the child's input follow the line end.
    Stdin {
        /// How many bytes follow.
        len: u64,
    },
    /// Closes the child's input once everything given so far was taken.
    CloseStdin,
    /// Ends the whole tree: end of input and SIGTERM at once, SIGKILL after the first grace. A repeated
    /// stop never restarts the graces; it may only shorten them.
    Stop {
        /// Time between SIGTERM and SIGKILL in milliseconds.
        term_grace_ms: u64,
        /// Time to wait for the tree to vanish after SIGKILL, in milliseconds.
        kill_grace_ms: u64,
    },
    /// Sends one signal to the direct child only.
    Signal {
        /// Signal number.
        signo: i32,
    },
    /// Gives the lease a new length from now.
    Renew {
        /// Milliseconds from now.
        lease_ms: u64,
    },
    /// Everything before this was read out of the log by somebody who must hear all of it: output waits in the
    /// child's pipe rather than to push what is unread out of the log, as long as such marks come. Nothing is answered.
    Heard {
        /// Logical position in the log.
        position: u64,
    },
    /// Asks for [`Event::Status`].
    Status,
    /// The exit of this attempt was recorded; the shim becomes idle. Nothing is answered.
    Release {
        /// Key of the attempt.
        attempt: String,
    },
    /// The shim exits as soon as it is idle.
    Retire,
    /// A message of a newer version.
    #[serde(other)]
    Unknown,
}

/// Everything needed to start a child.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRequest {
    /// Opaque key of the attempt.
    pub attempt: String,
    /// Directory for the log, the spool and the exit record; outside the child's workspace.
    pub dir: String,
    /// The program: a path, or a name looked up in the child's own `PATH`.
    pub program: String,
    /// Arguments without the program's name.
    #[serde(default)]
    pub args: Vec<String>,
    /// The child's complete environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Absolute working directory.
    pub cwd: String,
    /// The child's input.
    #[serde(default)]
    pub stdin: StdinSource,
    /// Hard deadline in milliseconds from the start; the tree is ended when it passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Lease in milliseconds; the tree is ended when it runs out without [`Request::Renew`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Bound of the frame log on disk in bytes.
    pub log_limit: u64,
    /// Time between SIGTERM and SIGKILL in milliseconds for deadline, lease and leftovers.
    pub term_grace_ms: u64,
    /// Time to wait for the tree to vanish after SIGKILL, in milliseconds.
    pub kill_grace_ms: u64,
    /// Resource limits of the child.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rlimits: Vec<ResourceLimit>,
    /// All of the output must be heard, and nothing of it was yet: see [`Request::Heard`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heard: bool,
}

/// Where the child's input comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinSource {
    /// There is none.
    #[default]
    Null,
    /// This file.
    File(String),
    /// What [`Request::Stdin`] brings.
    Pipe,
}

/// One resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// Which resource.
    pub resource: Resource,
    /// The limit in force, in the resource's own unit.
    pub soft: u64,
    /// The ceiling of the limit.
    pub hard: u64,
}

/// A resource that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Address space in bytes.
    AddressSpace,
    /// Size of a core file in bytes.
    Core,
    /// Processor time in seconds.
    Cpu,
    /// Size of a file in bytes.
    FileSize,
    /// Open descriptors.
    OpenFiles,
    /// Processes of the user.
    Processes,
}

/// What a shim is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimState {
    /// It holds no attempt.
    #[default]
    Idle,
    /// An attempt runs, or its tree is being ended.
    Running,
    /// An attempt is over and not yet released.
    Exited,
    /// A word of a newer version.
    #[serde(other)]
    Unknown,
}

/// A shim's whole state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimStatus {
    /// What it is doing.
    pub state: ShimState,
    /// The attempt it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The attempt's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// The direct child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// When the child was started, in microseconds since the epoch; 0 if none.
    #[serde(default)]
    pub started_at_micros: u64,
    /// Logical end of the frame log.
    #[serde(default)]
    pub log_end: u64,
    /// Set while the tree is being ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<ExitCause>,
    /// Input bytes accepted and not yet taken by the child.
    #[serde(default)]
    pub stdin_pending: u64,
    /// How the attempt ended, when it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<ExitRecord>>,
    /// Attempts served so far, this one included.
    #[serde(default)]
    pub served: u64,
    /// Directory of the shim's own control group, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// A message from the shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// Answer to [`Request::Hello`].
    Hello {
        /// Protocol version of the shim.
        protocol: u32,
        /// The shim itself.
        shim: ProcessIdentity,
        /// Its state.
        status: Box<ShimStatus>,
    },
    /// The child runs.
    Started {
        /// Key of the attempt.
        attempt: String,
        /// The direct child.
        process: ProcessIdentity,
        /// When it was started, in microseconds since the epoch.
        #[serde(default)]
        started_at_micros: u64,
    },
    /// The child was not started; the shim is idle again.
    StartFailed {
        /// Key of the attempt.
        attempt: String,
        /// Why.
        failure: StartFailure,
    },
    /// The log grew. Coalesced: only the newest end counts.
    Grew {
        /// Logical end of the log.
        end: u64,
    },
    /// The child closed its input or is gone; further input is discarded.
    StdinClosed {
        /// Key of the attempt.
        attempt: String,
    },
    /// The attempt is over and its tree is gone (or given up, see the record).
    Exited {
        /// Key of the attempt.
        attempt: String,
        /// How it ended.
        record: Box<ExitRecord>,
    },
    /// Answer to [`Request::Status`].
    Status {
        /// The state.
        status: Box<ShimStatus>,
    },
    /// A request was not carried out.
    Refused {
        /// Which, by its `type`; empty if it could not be read.
        request: String,
        /// Why.
        reason: String,
    },
    /// A message of a newer version.
    #[serde(other)]
    Unknown,
}

/// What the shim notes in the log about the attempt itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ControlFrame {
    /// First frame of a log.
    Started {
        /// Key of the attempt.
        attempt: String,
        /// The direct child.
        process: ProcessIdentity,
    },
    /// A large input: its bytes are in the spool, not in the log.
    StdinSpooled {
        /// Offset in the spool.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// The child's input was closed.
    StdinClosed,
    /// A child that takes input closed its output: it lives, or its exit is about to be seen.
    StdoutClosed,
    /// The tree is being ended.
    Ending {
        /// Why.
        cause: ExitCause,
    },
    /// Last frame of a log: the exit record itself, so that it exists even where no `exit.json` was needed.
    Exit {
        /// How the attempt ended.
        record: Box<ExitRecord>,
    },
    /// A note of a newer version.
    #[serde(other)]
    Unknown,
}
