//! What callers send: the public request bodies of every door, before admission.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Cursor, RunNumber, SubagentId};
use crate::outcome::{Cause, Status};
use crate::record::SubagentRecord;
use crate::spec::{ExecSpec, Mode};

/// Asks for a subagent. Unknown fields are refused, so that a misspelt limit is never silently no limit.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    /// The task.
    #[serde(default)]
    pub prompt: String,
    /// What it is about, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the child is driven.
    pub provider: String,
    /// Agent type; the provider's name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// Model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The program, for provider `exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSpec>,
    /// Who is told of the end.
    #[serde(default)]
    pub mode: Mode,
    /// Working directory of the child; must be absolute. There is no default: the daemon's own is never meant.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Utf8PathBuf>,
    /// Environment of the requester that may be stored: allow-listed by the client.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Further environment, held in memory only and never stored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_env: BTreeMap<String, String>,
    /// The parent subagent, id or handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Wall-clock limit of one attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Free labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// False: kept in memory only.
    #[serde(default = "yes")]
    pub durable: bool,
    /// Asking twice with the same key gives the same subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Answer only once the run has ended, or this many milliseconds have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

fn yes() -> bool {
    true
}

/// Values of the environment never reach a log.
impl std::fmt::Debug for SpawnRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpawnRequest")
            .field("provider", &self.provider)
            .field("exec", &self.exec.as_ref().map(|e| &e.program))
            .field("mode", &self.mode)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("secret_env", &self.secret_env.keys())
            .finish_non_exhaustive()
    }
}

/// Which subagents to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListFilter {
    /// Only these statuses; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// Only those that are not final.
    #[serde(default)]
    pub live: bool,
    /// Only children of this subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SubagentId>,
    /// Only those of this requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Only those older than this one (exclusive): the last id of the page before. Newest come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SubagentId>,
    /// At most this many; 50 when absent, 1,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of subagents, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// The records.
    pub items: Vec<SubagentRecord>,
    /// Pass it as `before` to get the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<SubagentId>,
    /// Records that could not be read, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRow>,
}

/// A stored record that cannot be read. It is set aside and listed; everything else is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DamagedRow {
    /// Its id as far as it can be read.
    pub id: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// Asks to stop a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Why.
    #[serde(default = "requested")]
    pub cause: Cause,
    /// Stop the children too, except detached ones.
    #[serde(default = "yes")]
    pub cascade: bool,
}

fn requested() -> Cause {
    Cause::Requested
}

impl Default for StopRequest {
    fn default() -> Self {
        Self { cause: requested(), cascade: true }
    }
}

/// What a stop did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopReply {
    /// The subagent as it stands after the call.
    pub record: SubagentRecord,
    /// True when this call changed something; false when it was stopping or had ended already.
    pub accepted: bool,
    /// Descendants that were stopped with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cascaded: Vec<SubagentId>,
}

/// What a wait saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitReply {
    /// The subagent as it stands; when a later run was opened meanwhile, as the run that was waited for left it.
    pub record: SubagentRecord,
    /// True when the run that was waited for has ended; false when the time ran out.
    pub ended: bool,
    /// The run that was waited for.
    pub run: RunNumber,
}

/// A part of a result or prompt of any size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextPart {
    /// The run it is of.
    pub run: RunNumber,
    /// The part; cut at character boundaries.
    pub text: String,
    /// Byte offset of the part.
    pub offset: u64,
    /// Size of the whole in bytes.
    pub total: u64,
    /// Pass it as `offset` to read on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One ended run that its requester has not consumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InboxItem {
    /// Stable over redelivery: `SUBAGENT.RUN`. Acknowledging this name consumes this run and no other.
    pub delivery_id: String,
    /// The run; it may be an earlier one than the current.
    pub run: RunNumber,
    /// The requester it is addressed to.
    pub requester: String,
    /// How many carriers have claimed it so far.
    pub tries: u32,
    /// The subagent as this run left it: outcome, result, marks, times and requester are those of the run.
    pub record: SubagentRecord,
}

/// A chunk of a child's output, as the raw log holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPart {
    /// `stdout`, `stderr`, `stdin`, `gap` or `damage`.
    pub stream: String,
    /// When it was read, microseconds since the epoch.
    pub at: crate::time::Timestamp,
    /// The text, lossy where it is not UTF-8. For gaps and damage: what is missing.
    pub text: String,
}

/// A page of a child's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPage {
    /// The chunks.
    pub parts: Vec<LogPart>,
    /// Position after the last chunk: pass it as `from` to read on.
    pub next: u64,
    /// The attempt it is from: `SUBAGENT.RUN.ATTEMPT`. Absent when nothing was ever started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// True when no more will come.
    pub ended: bool,
}

/// How the daemon stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Version of the daemon.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Its node identity.
    pub node: String,
    /// When it started.
    pub started_at: crate::time::Timestamp,
    /// Live attempts that hold a slot.
    pub running: u32,
    /// Most live attempts at once.
    pub running_limit: u32,
    /// Runs that wait for a slot.
    pub queued: u32,
    /// Ended runs whose result nobody has consumed.
    pub unconsumed: u64,
    /// Position of the event log.
    pub cursor: Cursor,
    /// How child trees are contained: `cgroup` or `walk`.
    pub containment: String,
    /// What was found at the last start.
    pub recovery: RecoverySummary,
    /// Stored records that reads have found unreadable so far. They are set aside and listed with the others.
    #[serde(default)]
    pub damaged: u32,
    /// True when the store takes no writes (full disk, read-only, newer format), with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// True when the daemon takes no new work because it is shutting down.
    pub draining: bool,
}

/// What a start of the daemon found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecoverySummary {
    /// Children that ran on and were adopted.
    pub adopted: u32,
    /// Children that had ended meanwhile, settled with their true result.
    pub settled: u32,
    /// Runs that had not begun and are tried again.
    pub requeued: u32,
    /// Stops that were accepted before and are carried out.
    pub stopping: u32,
    /// Runs of which nobody knows how they ended.
    pub lost: u32,
    /// Stored rows that cannot be read.
    pub damaged: u32,
    /// Live process trees that no record knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<String>,
}

/// Which run of a wait: the current one when absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct WaitOptions {
    /// The run; the current one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunNumber>,
    /// At most this long, in milliseconds; 30 s when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}
