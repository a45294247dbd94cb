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
    UnknownType = "unknown_type", exit 2, http 422,
        "No agent type of this name can be used: there is none, it is disabled, or its definition cannot be read. No other one was taken instead.",
        "Choose one that the message lists; `subagent types` says where each comes from, and what is wrong with files.";
    UnknownModel = "unknown_model", exit 2, http 422,
        "The name means no model, or more than one, or one that cannot be used. No other one was taken instead.",
        "Choose one that the message lists, by its full name. Lists of models are set by `[models]` in config.toml.";
    NotCapable = "not_capable", exit 2, http 422,
        "The provider cannot do what was asked; nothing was started.",
        "Drop the option, or choose a provider that has the capability.";
    PromptTooLarge = "prompt_too_large", exit 2, http 413,
        "The prompt or request is larger than the limit, or too large for the way it reaches the child.",
        "Put the material into a file and name the file in the prompt, or pass the prompt on standard input.";
    IdempotencyMismatch = "idempotency_mismatch", exit 2, http 409,
        "The idempotency key was used before, for something else; nothing was done.",
        "Use a new key for a new request. The message names what the key stands for.";
    NotFound = "not_found", exit 3, http 404,
        "There is no such subagent, run or file.",
        "`subagent ls --all` lists what there is.";
    CursorGone = "cursor_gone", exit 3, http 410,
        "The events after this position were released.",
        "Go on from the position in the message, and read records for what lies before.";
    Ambiguous = "ambiguous", exit 3, http 409,
        "The beginning of an id fits more than one subagent; nothing was done.",
        "Type more of it: the message lists the candidates.";
    TypeNotAllowed = "type_not_allowed", exit 4, http 403,
        "The type of the parent does not let it spawn a subagent of this type.",
        "Spawn one of the types that the message lists, or change `allowed_subagents` in the definition of the parent's type.";
    WiderThanParent = "wider_than_parent", exit 4, http 403,
        "It asks for more than its parent may do, and cannot be narrowed to that.",
        "Ask for less, choose a provider that can be held to it, or let a person spawn it.";
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
    MemoryPressure = "memory_pressure", exit 4, http 503,
        "The machine has less free memory than the floor.",
        "Let something end, or lower `limits.memory_floor_mb`.";
    TreeBudget = "tree_budget", exit 4, http 429,
        "The budget of the tree is used up or reserved.",
        "Ask for less, wait for a sibling to end, or start a tree with a larger budget.";
    GateDenied = "gate_denied", exit 4, http 403,
        "A gate of this installation denied it.",
        "The message names the gate and its reason.";
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
    NotResumable = "not_resumable", exit 4, http 409,
        "The subagent cannot go on: its provider cannot resume, or there is no session to restore.",
        "Spawn a new one; the message says what is missing. The old results stay readable.";
    SessionGone = "session_gone", exit 4, http 409,
        "The provider no longer has the session of this subagent.",
        "Spawn a new one; the old results stay readable.";
    NoOpenTurn = "no_open_turn", exit 1, http 409,
        "The subagent takes no message in its present status; nothing was queued.",
        "Send it as a follow-up: `subagent steer ID MESSAGE --follow-up`, or `subagent resume ID MESSAGE`.";
    MailboxFull = "mailbox_full", exit 4, http 429,
        "The subagent has as many undelivered messages as allowed.",
        "Wait until some are delivered; `subagent show` lists them.";
    AlreadyAnswered = "already_answered", exit 1, http 409,
        "The request is no longer open.",
        "`subagent requests --all` shows how it was answered.";
    WrongAnswer = "wrong_answer", exit 2, http 422,
        "The answer does not fit the request.",
        "Approve or deny a permission; answer a question with a text.";
    NotYours = "not_yours", exit 4, http 403,
        "It belongs to another requester.",
        "A subagent controls what is below it, an API client what it asked for; a person at the command line everything.";
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
    RateLimited = "rate_limited", exit 1, http 429,
        "The provider limits the rate of requests.",
        "It was tried again as often as allowed; ask again later.";
    QuotaExhausted = "quota_exhausted", exit 1, http 429,
        "The quota of the account is used up and nobody said when it is renewed.",
        "Look at the account, or use another one or another provider.";
    Overloaded = "overloaded", exit 1, http 503,
        "The provider is overloaded.",
        "It was tried again as often as allowed; ask again later.";
    Auth = "auth", exit 1, http 401,
        "The provider did not accept the credentials.",
        "Log in again or correct the key; `subagent doctor` checks it.";
    ContextOverflow = "context_overflow", exit 1, http 413,
        "The context window of the model is full.",
        "Give a smaller task, or a model with a larger window.";
    Refused = "refused", exit 1, http 422,
        "The provider or its model refused the task.",
        "Put it differently; the detail has the words of the refusal.";
    SchemaMismatch = "schema_mismatch", exit 1, http 422,
        "The answer does not fit the JSON Schema that was asked for, after one correction as well.",
        "Read the answer with `subagent result ID`, and simplify the schema or the task.";
    Protocol = "protocol", exit 1, http 502,
        "The child broke its protocol.",
        "The detail shows where; check the versions of the agent and of subagent.";
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
