//! What is asked: the spawn specification, immutable once admitted.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::Permissions;
use crate::attachment::Attachment;
use crate::bounds::Bounds;
use crate::budget::{Budget, TreeBudget};
use crate::capability::Capabilities;
use crate::setup::AgentSetup;
use crate::text::BoundedText;

/// Who is told of the end, and what may outlive what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The caller waits.
    #[default]
    Sync,
    /// The caller gets the id and is told at the end.
    Async,
    /// Nobody is told; survives its parent.
    Detached,
    /// The caller gets the id and is told at the end of each run; the child stays alive between runs and takes messages.
    Warm,
}

impl Mode {
    /// True when the caller does not wait.
    pub fn is_background(self) -> bool {
        self != Self::Sync
    }

    /// True when the end is owed to the requester.
    pub fn is_delivered(self) -> bool {
        self != Self::Detached
    }
}

/// How an `exec` child gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptVia {
    /// On standard input, which ends after it.
    #[default]
    Stdin,
    /// As the last argument. Refused when it is too long for one.
    Argument,
    /// In a file, whose path is the last argument and in `SUBAGENT_PROMPT_FILE`.
    File,
}

/// Which part of an `exec` child's standard output is its result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultFrom {
    /// All of it.
    #[default]
    WholeOutput,
    /// The last line that is not blank.
    LastLine,
    /// A field of the last line that is a JSON object: a JSON pointer such as `/result/text`.
    JsonField(String),
}

/// How an `exec` child is spoken with while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Talk {
    /// Not at all: it gets its prompt and ends.
    #[default]
    None,
    /// In JSON lines, as `docs/lines.md` describes: it takes messages, says what it does, asks, and may stay alive.
    Lines,
}

impl Talk {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// What becomes of a run whose child was lost with the machine or its shim, though its work had begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    /// A new attempt continues the same session where that can be done, else the run is lost.
    #[default]
    Resume,
    /// It begins anew. Only for work that may be done twice.
    Rerun,
    /// It is lost.
    Fail,
}

impl OnLoss {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_resume(&self) -> bool {
        *self == Self::Resume
    }
}

/// When a child counts as stalled, and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StallPolicy {
    /// Without output, protocol traffic or processor time for so long, in milliseconds; 10 minutes when absent, 0 for
    /// never. Open requests, tools and model calls in progress are no stall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// The run is cut off once it has been stalled for so long, in milliseconds. Absent: it is only told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill_after_ms: Option<u64>,
}

impl StallPolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A program as a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecSpec {
    /// The program: a path, or a name looked for on the child's own `PATH`.
    pub program: String,
    /// Its arguments, passed as they are; no shell is involved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// How the prompt reaches it.
    #[serde(default)]
    pub prompt_via: PromptVia,
    /// What counts as the result.
    #[serde(default)]
    pub result: ResultFrom,
    /// How it is spoken with while it runs.
    #[serde(default, skip_serializing_if = "Talk::is_none")]
    pub talk: Talk,
}

/// A spawn as it was admitted. Secrets never stand here: environment values outside the allow-list live in the
/// memory of the daemon only, and this names them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnSpec {
    /// The task. A text too long to be its own preview is kept whole beside the record.
    pub prompt: BoundedText,
    /// Files that go with the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// What it is about, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the child is driven: `exec`, `in-process`, ...
    pub provider: String,
    /// The agent type, carried verbatim.
    pub agent_type: String,
    /// Model, where the provider has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The program, for providers that run any: `exec`, `acp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSpec>,
    /// How the agent is set up, for providers of agents.
    #[serde(default, skip_serializing_if = "AgentSetup::is_default")]
    pub setup: AgentSetup,
    /// Who is told.
    #[serde(default)]
    pub mode: Mode,
    /// Working directory of the child: absolute.
    #[schemars(with = "String")]
    pub cwd: Utf8PathBuf,
    /// Allow-listed environment captured from the requester.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of further variables whose values are held in memory only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_env: Vec<String>,
    /// Wall-clock limit of one run, in milliseconds: the time in which its attempts work, not that in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// What each run may use.
    #[serde(default, skip_serializing_if = "Budget::is_default")]
    pub budget: Budget,
    /// What the tree below may use in all; only of a root.
    #[serde(default, skip_serializing_if = "TreeBudget::is_unlimited")]
    pub tree_budget: TreeBudget,
    /// What it may do without asking.
    #[serde(default, skip_serializing_if = "Permissions::is_default")]
    pub permissions: Permissions,
    /// What its children can have at most.
    #[serde(default, skip_serializing_if = "Bounds::is_open")]
    pub bounds: Bounds,
    /// What becomes of a run whose child was lost.
    #[serde(default, skip_serializing_if = "OnLoss::is_resume")]
    pub on_loss: OnLoss,
    /// When it counts as stalled.
    #[serde(default, skip_serializing_if = "StallPolicy::is_default")]
    pub stall: StallPolicy,
    /// How long a warm subagent may be idle, in milliseconds; 30 minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// JSON Schema of the answer: only an answer that fits it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// What its provider could do for it when it was admitted.
    #[serde(default, skip_serializing_if = "Capabilities::is_none")]
    pub can: Capabilities,
    /// The account that its provider uses, where it can tell several apart. Cool-downs are shared by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Free labels of the requester.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// False: the record lives in the memory of the daemon only and ends with it.
    #[serde(default = "yes")]
    pub durable: bool,
}

fn yes() -> bool {
    true
}

impl SpawnSpec {
    /// A spec with nothing but a task: every other part is what it is where nobody says otherwise.
    pub fn new(provider: &str, prompt: BoundedText, cwd: Utf8PathBuf) -> Self {
        Self {
            prompt,
            attachments: vec![],
            description: None,
            provider: provider.to_owned(),
            agent_type: provider.to_owned(),
            model: None,
            exec: None,
            setup: AgentSetup::default(),
            mode: Mode::default(),
            cwd,
            env: BTreeMap::new(),
            secret_env: vec![],
            deadline_ms: None,
            budget: Budget::default(),
            tree_budget: TreeBudget::default(),
            permissions: Permissions::default(),
            bounds: Bounds::default(),
            on_loss: OnLoss::default(),
            stall: StallPolicy::default(),
            idle_ms: None,
            output_schema: None,
            can: Capabilities::default(),
            account: None,
            labels: BTreeMap::new(),
            durable: true,
        }
    }

    /// Stays alive between its runs.
    pub fn is_warm(&self) -> bool {
        self.mode == Mode::Warm
    }

    /// How long it may be idle.
    pub fn idle(&self) -> Duration {
        self.idle_ms.map_or(Duration::from_mins(30), Duration::from_millis)
    }

    /// The wall-clock limit.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline_ms.map(Duration::from_millis)
    }
}
