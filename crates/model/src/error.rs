//! The one table of stable error codes: word on the wire, exit code, HTTP status, meaning and remedy. Pages under
//! `docs/errors/` are generated from it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($variant:ident = $word:literal, exit $exit:literal, http $http:literal, $meaning:literal, $remedy:literal;)*) => {
        /// A stable code. The word never changes its meaning.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum ErrorCode {
            $(#[doc = $meaning] #[serde(rename = $word)] $variant,)*
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Exit code of the command line.
            pub fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit,)* }
            }

            /// HTTP status.
            pub fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http,)* }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }

            /// What to do next.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

codes! {
    InvalidRequest = "invalid_request", exit 2, http 400,
        "The request is not valid.",
        "Read the message: it names the field. `subagent COMMAND --help` and the OpenAPI document show the forms.";
    InvalidCwd = "invalid_cwd", exit 2, http 422,
        "The working directory is missing, not a directory, relative, or cannot be entered.",
        "Give an absolute path of an existing directory with `--cwd`.";
    UnknownProvider = "unknown_provider", exit 2, http 422,
        "No provider has this name.",
        "Choose one that the message lists.";
    NotCapable = "not_capable", exit 2, http 422,
        "The provider cannot do what was asked; nothing was started.",
        "Drop the option, or choose a provider that has the capability.";
    PromptTooLarge = "prompt_too_large", exit 2, http 413,
        "The prompt or request is larger than the limit, or too large for the way it reaches the child.",
        "Put the material into a file and name the file in the prompt, or pass the prompt on standard input.";
    NotFound = "not_found", exit 3, http 404,
        "There is no such subagent, run or file.",
        "`subagent ls --all` lists what there is.";
    Ambiguous = "ambiguous", exit 3, http 409,
        "The beginning of an id fits more than one subagent; nothing was done.",
        "Type more of it: the message lists the candidates.";
    DepthLimit = "depth_limit", exit 4, http 429,
        "The tree would become deeper than allowed.",
        "Let an ancestor spawn it, or raise `limits.depth`.";
    BreadthLimit = "breadth_limit", exit 4, http 429,
        "The parent has as many live children as allowed.",
        "Wait for a child to end, or raise `limits.breadth`.";
    TreeLimit = "tree_limit", exit 4, http 429,
        "The tree has used up its total number of subagents.",
        "Start a new tree, or raise `limits.tree_total`.";
    SpawnRate = "spawn_rate", exit 4, http 429,
        "The parent spawns faster than allowed.",
        "Wait a moment, or raise `limits.rate`.";
    QueueFull = "queue_full", exit 4, http 429,
        "The queue is full.",
        "Wait for runs to end, stop some, or raise `limits.queue`.";
    DiskFloor = "disk_floor", exit 4, http 507,
        "The disk of the data directory has less room than the floor.",
        "Free some space, or lower `limits.disk_floor_mb`.";
    Draining = "draining", exit 4, http 503,
        "The daemon is shutting down and takes no new work.",
        "Ask again: the next command starts a new daemon.";
    ParentEnded = "parent_ended", exit 4, http 409,
        "The parent has ended or is being stopped, so it may not spawn.",
        "Spawn from a live subagent, or without a parent.";
    IllegalTransition = "illegal_transition", exit 1, http 409,
        "The operation makes no sense in the present status; nothing was changed.",
        "Look at the subagent with `subagent show`.";
    StillRunning = "still_running", exit 5, http 409,
        "The run is still live.",
        "Wait for it, or stop it first.";
    NotYours = "not_yours", exit 4, http 403,
        "The result is addressed to another requester.",
        "Only the requester may acknowledge a result; reading it with `subagent show` is open to all.";
    ProgramNotFound = "program_not_found", exit 1, http 422,
        "The program is not there or cannot be executed; no other program was taken instead.",
        "Install it, correct its name, or give a full path.";
    StartFailed = "start_failed", exit 1, http 500,
        "The child could not be started.",
        "The detail names the stage and the cause.";
    EnvironmentLost = "environment_lost", exit 1, http 409,
        "The run needs environment values that were held in memory only, and the daemon that held them is gone.",
        "Spawn it again: the values are taken anew from your environment.";
    Crashed = "crashed", exit 1, http 500,
        "The child ended with an error code or by a signal.",
        "The detail has the end of its error output; `subagent logs` has all of it.";
    ShimLost = "shim_lost", exit 1, http 500,
        "The shim that held the child was ended from outside; the child was ended too.",
        "Ask again. Nothing of the child is left running.";
    OutOfMemory = "out_of_memory", exit 1, http 500,
        "The kernel ended the child for want of memory.",
        "Give it more memory or less to do.";
    NoFinalMessage = "no_final_message", exit 1, http 500,
        "The child ended without the result that its provider promises.",
        "`subagent logs` shows what it said.";
    Panicked = "internal", exit 1, http 500,
        "The code that drives this one run failed. Other runs go on.",
        "Please report it with the detail.";
    StoreFull = "store_full", exit 1, http 507,
        "The disk is full: nothing was written.",
        "Free some space; the daemon goes on by itself.";
    StoreReadOnly = "store_read_only", exit 1, http 503,
        "The data directory cannot be written.",
        "Correct its permissions or choose another one with SUBAGENT_HOME.";
    StoreTooNew = "store_too_new", exit 1, http 503,
        "The data was written by a newer version. It can be read, not changed.",
        "Use the newer version.";
    StoreFailed = "store_failed", exit 1, http 500,
        "The store failed.",
        "The detail names the cause; `subagent doctor` checks the store.";
    DamagedRecord = "damaged_record", exit 1, http 500,
        "The stored record cannot be read. It was set aside; everything else is served.",
        "`subagent doctor` lists damaged records.";
    DamagedLog = "damaged_log", exit 1, http 500,
        "The log of the child's output is damaged; what could be read was used.",
        "Check the disk. The parts before and after the damage are shown by `subagent logs`.";
    Timeout = "timeout", exit 1, http 504,
        "An answer did not come within its bound.",
        "Ask again; `subagent status` shows how the daemon stands.";
    DaemonRunning = "daemon_running", exit 1, http 409,
        "Another daemon serves this home already; this one left.",
        "Use it as it is; `subagent shutdown` or `subagent upgrade` ends it.";
    DaemonUnreachable = "daemon_unreachable", exit 6, http 503,
        "The daemon could not be reached or started.",
        "The message names the cause; `subagent doctor` checks the installation.";
    ShimMissing = "shim_missing", exit 6, http 503,
        "The program `subagent-shim` is not beside `subagent`.",
        "Install both programs into the same directory, or set SUBAGENT_SHIM.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An error as every door tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Stable code.
    pub code: ErrorCode,
    /// What happened, for people.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The limit that was hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much of it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Ids that the error is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
}

impl Problem {
    /// A problem with the code's own remedy as its hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: Some(code.remedy().to_owned()),
            limit: None,
            used: None,
            ids: Vec::new(),
        }
    }

    /// With the numbers of a limit.
    #[must_use]
    pub fn with_numbers(mut self, limit: u64, used: u64) -> Self {
        self.limit = Some(limit);
        self.used = Some(used);
        self
    }

    /// With the ids it is about.
    #[must_use]
    pub fn with_ids(mut self, ids: Vec<String>) -> Self {
        self.ids = ids;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn words_are_unique_and_exit_codes_are_the_documented_ones() {
        let mut words: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), ErrorCode::ALL.len());
        assert!(ErrorCode::ALL.iter().all(|code| (1..=6).contains(&code.exit_code())));
    }
}
