//! Words about operating-system processes: who a process is, and how an attempt's process ended.
//! What lives here is written to disk (`exit.json`) and crosses the shim's socket, so every field is
//! tolerant of older and newer writers. No system calls here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version written into every [`ExitRecord`].
pub const EXIT_RECORD_VERSION: u32 = 1;

/// One process of one boot. A pid alone is never an identity: it is used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (Linux), or the closest stable value of the platform.
    pub start_time: u64,
    /// Identity of the boot; a process of another boot is gone.
    pub boot_id: String,
}

/// Why an attempt's process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// It ended by itself, or someone outside killed it.
    Natural,
    /// A stop was asked for.
    Stopped,
    /// The hard deadline of the attempt passed.
    Deadline,
    /// The lease ran out without being renewed.
    Lease,
    /// It was never started.
    StartFailed,
    /// A word of a newer version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The step of a start that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartStage {
    /// The program was not found, or is not a file one may execute.
    Program,
    /// The working directory is missing, not a directory, not enterable, relative or empty.
    Cwd,
    /// The kernel refused to execute or to fork.
    Exec,
    /// The frame log could not be created.
    Log,
    /// The input file or pipe could not be opened.
    Stdin,
    /// The process group for containment could not be used.
    Cgroup,
    /// Anything else (resource limits, an unusable request).
    #[default]
    #[serde(other)]
    Other,
}

impl StartStage {
    /// The word used in messages and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Cwd => "cwd",
            Self::Exec => "exec",
            Self::Log => "log",
            Self::Stdin => "stdin",
            Self::Cgroup => "cgroup",
            Self::Other => "other",
        }
    }
}

/// Why a process was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartFailure {
    /// The step that failed.
    pub stage: StartStage,
    /// The system's error number; 0 where there is none.
    #[serde(default)]
    pub errno: i32,
    /// What was looked for and what happened; holds no environment values and no arguments.
    #[serde(default)]
    pub message: String,
}

/// What an attempt's process used, as far as the system tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessUsage {
    /// Largest resident size of the direct child or one of its waited-for children, in bytes.
    #[serde(default)]
    pub max_rss_bytes: u64,
    /// Processor time in user mode, in microseconds.
    #[serde(default)]
    pub user_micros: u64,
    /// Processor time in the kernel, in microseconds.
    #[serde(default)]
    pub system_micros: u64,
}

/// How an attempt's process ended: the content of `exit.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitRecord {
    /// Version of the writer, see [`EXIT_RECORD_VERSION`].
    pub version: u32,
    /// The attempt's opaque key.
    pub attempt: String,
    /// The direct child; none if it was never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// When it was started, in microseconds since the epoch.
    #[serde(default)]
    pub started_at_micros: u64,
    /// When the direct child was seen to be gone, in microseconds since the epoch.
    #[serde(default)]
    pub ended_at_micros: u64,
    /// Exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal number, if a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether it left a core file.
    #[serde(default)]
    pub core_dumped: bool,
    /// Why it ended.
    #[serde(default)]
    pub cause: ExitCause,
    /// Set with [`ExitCause::StartFailed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<StartFailure>,
    /// Bytes read from its standard output, dropped ones included.
    #[serde(default)]
    pub stdout_bytes: u64,
    /// Bytes read from its standard error, dropped ones included.
    #[serde(default)]
    pub stderr_bytes: u64,
    /// Bytes of either stream that are no longer in the log (rotation, full disk).
    #[serde(default)]
    pub dropped_bytes: u64,
    /// Logical end of the frame log before its last frame, which holds this record.
    #[serde(default)]
    pub log_end: u64,
    /// Processes that outlived the direct child and were ended by the shim.
    #[serde(default)]
    pub leftover_killed: u32,
    /// Whether the whole process tree was verified to be gone.
    #[serde(default)]
    pub tree_gone: bool,
    /// First error number met while writing the log or the input spool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_error: Option<i32>,
    /// Whether the kernel ended it for memory, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_killed: Option<bool>,
    /// Resources used.
    #[serde(default)]
    pub usage: ProcessUsage,
}
