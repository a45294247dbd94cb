//! An agent type, as every dialect is brought to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subagent_model::Permissions;

use crate::given::Given;
use crate::name::AgentName;
use crate::tools::ToolList;
use crate::words::{
    ContextStart, Effort, Isolation, MemoryScope, ModelChoice, PermissionMode, PromptMode, Sandbox,
    Visibility, words,
};

words! {
    /// The rules by which a file is read.
    Dialect {
        /// Our own.
        Subagent = "subagent",
        /// Claude Code.
        Claude = "claude",
        /// Codex.
        Codex = "codex",
        /// opencode.
        Opencode = "opencode",
        /// pi.
        Pi = "pi",
        /// Gemini CLI.
        Gemini = "gemini",
    }
}

words! {
    /// Whose a definition is, the strongest first.
    Scope {
        /// Set by whoever administers the machine.
        Managed = "managed",
        /// Handed over by a program while it runs.
        Runtime = "runtime",
        /// Of the project.
        Project = "project",
        /// Of the person.
        User = "user",
        /// Of this program.
        Builtin = "builtin",
    }
}

words! {
    /// A field that a definition may lock: the call cannot change it. What a call can only narrow needs no lock.
    Field {
        /// Model.
        Model = "model",
        /// Effort.
        Effort = "effort",
        /// Turns.
        MaxTurns = "max_turns",
        /// Turns after the request to wrap up.
        GraceTurns = "grace_turns",
        /// Tokens.
        MaxTokens = "max_tokens",
        /// Money.
        MaxCostUsd = "max_cost_usd",
        /// Tool calls.
        MaxToolCalls = "max_tool_calls",
        /// Wall clock.
        Timeout = "timeout",
        /// Provider.
        Provider = "provider",
        /// Skills.
        Skills = "skills",
        /// Memory.
        Memory = "memory",
        /// Whether the caller waits.
        Background = "background",
        /// Isolation.
        Isolation = "isolation",
        /// Everything about the context.
        Context = "context",
        /// Tools. A call can only narrow them.
        Tools = "tools",
        /// Tools that are taken away. A call can only add to them.
        DisallowedTools = "disallowed_tools",
        /// Permission mode. A call can only narrow it.
        PermissionMode = "permission_mode",
        /// Sandbox. A call can only narrow it.
        Sandbox = "sandbox",
        /// Types that may be spawned. A call can only narrow them.
        AllowedSubagents = "allowed_subagents",
        /// Depth of the tree below. A call can only narrow it.
        MaxDepth = "max_depth",
    }
}

impl Field {
    /// True for a field that a call can only narrow.
    pub fn only_narrows(self) -> bool {
        matches!(
            self,
            Self::Tools
                | Self::DisallowedTools
                | Self::PermissionMode
                | Self::Sandbox
                | Self::AllowedSubagents
                | Self::MaxDepth
        )
    }
}

/// Where a definition comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file; absent for what is in no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Utf8PathBuf>,
    /// By which rules it was read.
    pub dialect: Dialect,
    /// Whose it is.
    pub scope: Scope,
    /// False: what would give it power was left out of it.
    pub trusted: bool,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trust = if self.trusted { "" } else { ", not trusted" };
        match &self.path {
            Some(path) => write!(f, "{path} ({}{trust})", self.dialect),
            None => write!(f, "({}{trust})", self.scope),
        }
    }
}

/// The prompt of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The text, as the file has it.
    pub text: String,
    /// What it does to the prompt that is there without it.
    pub mode: PromptMode,
    /// True when `{{...}}` in the text stands for something. So it is in our own files only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
}

/// What a run of a type may use. Nothing means without limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Turns of the model.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub max_turns: Given<u32>,
    /// Turns after the request to wrap up.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub grace_turns: Given<u32>,
    /// Tokens.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub max_tokens: Given<u64>,
    /// Money in US dollars.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub max_cost_usd: Given<f64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub max_tool_calls: Given<u32>,
    /// Wall clock, in milliseconds.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub timeout_ms: Given<u64>,
}

/// With what a child begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextOptions {
    /// Whether the instruction files of the project enter its prompt; see [`crate::prompt`] for where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<bool>,
    /// With its task alone, or with the conversation of its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<ContextStart>,
    /// What is put before the task.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub initial_prompt: Given<String>,
    /// The size of the window, in tokens, at which the agent shortens its conversation.
    #[serde(skip_serializing_if = "Given::is_omitted")]
    pub compact_at: Given<u64>,
}

/// Skills that a child has from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skills {
    /// Every one that there is.
    All,
    /// These.
    Only(Vec<String>),
}

/// A server of the Model Context Protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached, in the words of the file; absent where it is one that is configured elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<serde_json::Value>,
}

/// An agent type. Fields with three answers keep them apart; see [`Given`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentDefinition {
    /// Its name.
    pub name: AgentName,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Other names that find it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<AgentName>,
    /// When to use it.
    pub description: String,
    /// Its prompt.
    pub prompt: Prompt,
    /// Tools that it has. Omitted: all that there are. Nothing: none.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub tools: Given<ToolList>,
    /// Tools that are taken away, whatever `tools` says.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub disallowed_tools: Given<ToolList>,
    /// Model. Nothing: that of the provider.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub model: Given<ModelChoice>,
    /// Effort. Nothing: it does not think.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub effort: Given<Effort>,
    /// Permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Rules of permission, the first that fits counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// What a run may use.
    #[serde(default)]
    pub limits: Limits,
    /// How it is driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Program and arguments, for provider `exec`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Skills.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub skills: Given<Skills>,
    /// Servers of the Model Context Protocol.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub mcp_servers: Given<Vec<McpServer>>,
    /// Hooks, in the words of the file.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub hooks: Given<serde_json::Value>,
    /// Where it keeps its memory.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub memory: Given<MemoryScope>,
    /// Whether the caller goes on at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// How its files are kept apart. Nothing: not at all.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub isolation: Given<Isolation>,
    /// With what it begins.
    #[serde(default)]
    pub context: ContextOptions,
    /// Types that it may spawn. Omitted: any. Nothing: none.
    #[serde(default, skip_serializing_if = "Given::is_omitted")]
    pub allowed_subagents: Given<Vec<String>>,
    /// How deep the tree below it may become.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// Whether it is offered.
    pub visibility: Visibility,
    /// What a call cannot change.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub locks: BTreeSet<Field>,
    /// Keys that have no meaning here, as the file has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, serde_json::Value>,
    /// Where it comes from.
    pub source: Source,
}

impl AgentDefinition {
    /// A type of which nothing is said but what every type has.
    pub fn new(name: AgentName, description: impl Into<String>, prompt: Prompt, source: Source) -> Self {
        Self {
            name,
            display_name: None,
            aliases: Vec::new(),
            description: description.into(),
            prompt,
            tools: Given::Omitted,
            disallowed_tools: Given::Omitted,
            model: Given::Omitted,
            effort: Given::Omitted,
            permission_mode: None,
            permissions: None,
            sandbox: None,
            limits: Limits::default(),
            provider: None,
            command: Vec::new(),
            skills: Given::Omitted,
            mcp_servers: Given::Omitted,
            hooks: Given::Omitted,
            memory: Given::Omitted,
            background: None,
            isolation: Given::Omitted,
            context: ContextOptions::default(),
            allowed_subagents: Given::Omitted,
            max_depth: None,
            visibility: Visibility::Listed,
            locks: BTreeSet::new(),
            extra: BTreeMap::new(),
            source,
        }
    }
}
