//! What is asked: the spawn specification, immutable once admitted.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

/// A spawn as it was admitted. Secrets never stand here: environment values outside the allow-list live in the
/// memory of the daemon only, and this names them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnSpec {
    /// The task. A text too long to be its own preview is kept whole beside the record.
    pub prompt: BoundedText,
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
    /// The program, for provider `exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSpec>,
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
    /// Wall-clock limit of one attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
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
    /// The wall-clock limit.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline_ms.map(Duration::from_millis)
    }
}
