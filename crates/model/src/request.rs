//! What callers send: the public request bodies of every door, before admission.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Choice, Permissions, RequestItem};
use crate::budget::{Budget, TreeBudget};
use crate::error::Problem;
use crate::ids::{Cursor, Handle, RunNumber, SubagentId};
use crate::message::Posted;
use crate::outcome::{Cause, Status};
use crate::record::SubagentRecord;
use crate::setup::AgentSetup;
use crate::spec::{ExecSpec, Mode, OnLoss, StallPolicy};
use crate::strict::strict;
use crate::usage::Usage;

/// Asks for a subagent. Unknown fields are refused, so that a misspelt limit is never silently no limit.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    /// The task.
    #[serde(default)]
    pub prompt: String,
    /// Files that go with it, where the provider takes such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachRequest>,
    /// What it is about, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the child is driven. Empty: as its agent type says, else by the first agent that is installed, or `exec` where
    /// a program is given.
    #[serde(default)]
    pub provider: String,
    /// Agent type; the provider's name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// Model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The program, for providers that run any: `exec`, `acp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSpec>,
    /// How the agent is set up, for providers of agents.
    #[serde(default, skip_serializing_if = "AgentSetup::is_default", deserialize_with = "strict")]
    pub setup: AgentSetup,
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
    /// Wall-clock limit of one run, in milliseconds: the time in which its attempts work, not that in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// What each run may use.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited", deserialize_with = "strict")]
    pub budget: Budget,
    /// What the whole tree may use; only where there is no parent.
    #[serde(default, skip_serializing_if = "TreeBudget::is_unlimited", deserialize_with = "strict")]
    pub tree_budget: TreeBudget,
    /// What it may do without asking; its parent's when absent, and never wider.
    #[serde(default, skip_serializing_if = "Permissions::is_default", deserialize_with = "strict")]
    pub permissions: Permissions,
    /// What becomes of a run whose child was lost.
    #[serde(default)]
    pub on_loss: OnLoss,
    /// When it counts as stalled.
    #[serde(default, deserialize_with = "strict")]
    pub stall: StallPolicy,
    /// How long a warm subagent may be idle, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
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

/// A file that is to go with a prompt or a message: an image (PNG, JPEG, GIF, WebP) of at most 3,750,000 bytes, or a text in
/// UTF-8 of at most 262,144; at most 16 files and 10,000,000 bytes with one prompt. It is read once, when it is accepted.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// A file on the machine of the daemon: an absolute path.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Utf8PathBuf>,
    /// Its content in Base64, instead of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Its name, without any directory; that of the path when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is; found by its content when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Contents never reach a log.
impl std::fmt::Debug for AttachRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttachRequest")
            .field("path", &self.path)
            .field("name", &self.name)
            .field("media_type", &self.media_type)
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
    /// Only those of the tree below this root, the root included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<SubagentId>,
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
    /// Also return the follow-ups that wait; else the first of them opens the next run once this one has ended.
    #[serde(default)]
    pub drop_follow_ups: bool,
}

fn requested() -> Cause {
    Cause::Requested
}

impl Default for StopRequest {
    fn default() -> Self {
        Self { cause: requested(), cascade: true, drop_follow_ups: false }
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

/// Asks to stop everything that the caller may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopAllRequest {
    /// Detached subagents too.
    #[serde(default)]
    pub detached: bool,
}

/// What a stop of everything did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopAllReply {
    /// Those that this call stopped.
    pub stopped: Vec<SubagentRecord>,
    /// Those that could not be stopped, each with the reason. The others were stopped all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Problem>,
}

/// Asks for the next run of a subagent that has ended or is idle.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// The task of the run.
    pub prompt: String,
    /// Files that go with it, where the provider takes such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachRequest>,
    /// While a run is live: accept it as a follow-up instead of refusing it.
    #[serde(default)]
    pub queue: bool,
    /// Ignored, and told so: a resume keeps the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// Ignored, and told so: a resume keeps the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Environment that is held in memory only. Needed again when the daemon that held it is gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_env: BTreeMap<String, String>,
    /// Asking twice with the same key gives the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Answer only once the run has ended, or this many milliseconds have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// How a message is to reach a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SteerMode {
    /// As a steer where the provider can take one now, else as a follow-up; the receipt says which.
    Auto,
    /// In the current turn, or at the next boundary of its work.
    #[default]
    Steer,
    /// As the prompt of the next run.
    FollowUp,
    /// The current turn is cancelled first.
    Interrupt,
}

/// A message to a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SteerRequest {
    /// The message. Only an interrupt may come without.
    #[serde(default)]
    pub message: String,
    /// Files that go with it, where the provider takes such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachRequest>,
    /// How it is to reach the child.
    #[serde(default)]
    pub mode: SteerMode,
    /// Sending twice with the same key gives the same message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Answer only once the message was delivered or returned, or this many milliseconds have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// What became of a message so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerReply {
    /// The message and its receipt; absent for an interrupt without a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Posted>,
    /// True when the call changed something: an interrupt of what has no open turn does nothing.
    pub accepted: bool,
    /// The subagent as it stands after the call.
    pub record: SubagentRecord,
}

/// The messages of a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageList {
    /// Those that wait, and the newest of those that were delivered or returned. Oldest first.
    pub items: Vec<Posted>,
}

/// The runs of a subagent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    /// The subagent.
    pub id: SubagentId,
    /// Its runs, oldest first, each as a record of the subagent that shows this run.
    pub items: Vec<SubagentRecord>,
}

/// A request of a child with the child's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenRequest {
    /// `SUBAGENT.qN`: the name by which it is answered.
    pub id: String,
    /// Whose.
    pub subagent: SubagentId,
    /// Its short name.
    pub handle: Handle,
    /// What it is about.
    pub description: String,
    /// What is asked.
    #[serde(flatten)]
    pub request: RequestItem,
}

/// Requests of children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestList {
    /// Oldest first.
    pub items: Vec<OpenRequest>,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// To a request for a permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// To a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why, for the child and the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A change of the budget of a running run. What is absent stays.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// Turns; 0 lifts the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Tokens; 0 lifts the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// US dollars; 0 lifts the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Tool calls; 0 lifts the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
}

/// Asks for what may be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GcRequest {
    /// Only say what would be released.
    #[serde(default)]
    pub dry_run: bool,
    /// Release heavy parts of read results that ended longer ago than this, in milliseconds, instead of the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than_ms: Option<u64>,
    /// Release the records of these as well.
    #[serde(default)]
    pub records: bool,
}

/// What was released, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct GcReply {
    /// Nothing was done.
    pub dry_run: bool,
    /// Subagents whose logs and whole texts go. Their records and previews stay.
    pub heavy: Vec<SubagentId>,
    /// Subagents whose records go.
    pub records: Vec<SubagentId>,
    /// Bytes that become free.
    pub bytes: u64,
    /// Directories that no record knows. They are listed, never removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Ended subagents that stay because their results are unread.
    pub unread: u64,
}

/// Where a run stands in the queue, and what holds it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct QueuePlace {
    /// How many runs start before this one if nothing else arrives; absent when it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// What holds it now: `limits.running (4)`, `limits.per_provider.claude (2)`, `limits.per_model.big (1)`, `rate limit
    /// until TIME`, `retry not before TIME`, `disk`, `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// What a subagent and everything below it used. What nobody reported is unknown and absent, not 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageReport {
    /// Whose.
    pub id: SubagentId,
    /// All runs of it together, failed attempts and work before a stop among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Usage>,
    /// Everything below it that is still recorded, detached ones too, each once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Usage>,
    /// Both together, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Usage>,
    /// How many subagents are below it.
    pub members: u32,
}

/// A momentary look at a running child: lossy, never stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// Whose.
    pub id: SubagentId,
    /// In which run.
    pub run: RunNumber,
    /// When something was last seen of it.
    pub last_seen_at: crate::time::Timestamp,
    /// Tools at work, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active_tools: Vec<String>,
    /// The end of the text that it is writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Processor time of its tree so far, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}

/// Asks for results that the caller has not consumed, for a bounded time each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Name of the carrier. While it holds a result no other carrier gets it.
    pub carrier: String,
    /// For how long, in milliseconds; 30 s when absent, 5 minutes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<u64>,
    /// At most so many; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Wait so long for the first one, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// A carrier gives results back that it could not hand over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReturnRequest {
    /// Name of the carrier.
    pub carrier: String,
    /// Delivery ids, `SUBAGENT.RUN`.
    pub deliveries: Vec<String>,
    /// Why.
    #[serde(default)]
    pub reason: String,
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
    /// The notice for the requester: bounded, framed as data from a child.
    pub notice: String,
    /// The carrier that holds it, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<String>,
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
    /// How many runs were refused since the daemon started, by error code: spawns, resumes, and messages that were to open
    /// a run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
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
