//! The public record: what a subagent is, as everyone may read it. Which fields are admitted and which are declined is
//! pinned by tests in `subagent-core`, the only maker of this type.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::{Grant, RequestItem};
use crate::budget::{Budget, WrapUp};
use crate::ids::{AttemptNumber, Handle, NodeId, Requester, RunNumber, SubagentId};
use crate::message::{Message, Posted};
use crate::outcome::{
    ActivityOn, AttemptFacts, ErrorInfo, Mark, Outcome, Quality, QueueReason, Status, StopInfo,
};
use crate::spec::Mode;
use crate::text::BoundedText;
use crate::time::Timestamp;
use crate::usage::Usage;

/// A subagent as it stands: identity, decision of the spawn, running totals, pointers to durable artefacts. A value: it
/// never changes later and cannot write back. Absent means that the value does not exist.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubagentRecord {
    /// Identity.
    pub id: SubagentId,
    /// Short name that people type.
    pub handle: Handle,
    /// Agent type.
    #[serde(rename = "type")]
    pub agent_type: String,
    /// What it is about: as given, else the beginning of the prompt, else the name of the program.
    pub description: String,
    /// How it is driven.
    pub provider: String,
    /// Who is told of the end.
    pub mode: Mode,
    /// True when the caller does not wait.
    pub is_background: bool,
    /// How it stands.
    pub status: Status,
    /// How far a good end can be trusted; on final records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// Notes on the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// The current run.
    pub run: RunNumber,
    /// The latest attempt; 0 before the first.
    pub attempt: AttemptNumber,
    /// Its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SubagentId>,
    /// The root of its tree; itself when it has no parent.
    pub root: SubagentId,
    /// Distance from the root.
    pub depth: u32,
    /// Who asked; gets the result.
    pub requested_by: Requester,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When the current run was accepted.
    pub accepted_at: Timestamp,
    /// When its process began, in the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the current run was over: for a stopped run the time of the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When the child had really ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exited_at: Option<Timestamp>,
    /// Time of the last change. A renewed lease is none.
    pub updated_at: Timestamp,
    /// The result, or what there is of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BoundedText>,
    /// The failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// In words, why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// An accepted stop: who, why, when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopInfo>,
    /// What it waits for in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_for: Option<QueueReason>,
    /// What it waits for once started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<ActivityOn>,
    /// Since when it waits: for what, stands in `waiting_on`, and what would release it, in the open `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
    /// What it asked for in the current run, and the answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestItem>,
    /// Standing answers that it was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// Messages that it does not have yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_messages: Vec<Message>,
    /// Messages of the current run that came back undelivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned_messages: Vec<Posted>,
    /// Turns of the current run.
    pub turn_count: u32,
    /// Turn limit of the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// What the current run may use.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// That it was asked to wrap up, and at which limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap_up: Option<WrapUp>,
    /// Tool calls of the current run.
    pub tool_uses: u32,
    /// Tokens and money over all runs; absent when the provider reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Tokens and money of the current run; absent when the provider reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_usage: Option<Usage>,
    /// Compactions of its context so far.
    pub compaction_count: u32,
    /// Every attempt of the current run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptFacts>,
    /// Earlier runs with their outcomes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_runs: Vec<RunRecord>,
    /// Working directory.
    #[schemars(with = "String")]
    pub cwd: Utf8PathBuf,
    /// Directory of the raw logs of the latest attempt, relative to the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// The provider's name of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// True where a resume would be accepted now, as far as the record tells.
    #[serde(default)]
    pub resumable: bool,
    /// Until when an idle process is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retire_at: Option<Timestamp>,
    /// Labels of the requester.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `flat` or `instance`; see the design's concept table.
    pub tier: String,
    /// True once the requester has consumed the result of the current run.
    pub consumed: bool,
    /// Whether it outlives the daemon.
    pub durable: bool,
    /// The node that holds it, while one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
}

/// An earlier run: its outcome stays readable after a resume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Its number.
    pub run: RunNumber,
    /// Who asked for it; gets its result.
    pub requested_by: Requester,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// What was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<BoundedText>,
    /// How it ended.
    pub outcome: Outcome,
    /// When its process began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub completed_at: Timestamp,
    /// How far its end can be trusted.
    pub quality: Quality,
    /// True once its requester has consumed its result.
    pub consumed: bool,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BoundedText>,
    /// Notes on the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// Turns.
    #[serde(default)]
    pub turn_count: u32,
    /// Tool calls.
    #[serde(default)]
    pub tool_uses: u32,
    /// Tokens and money; absent when the provider reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// That it was asked to wrap up, and at which limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap_up: Option<WrapUp>,
    /// What it asked for, and the answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestItem>,
    /// Messages that came back undelivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned_messages: Vec<Posted>,
    /// Its attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptFacts>,
}
