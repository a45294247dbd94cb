//! How an agent is set up for its work, beyond what it is asked: instructions, tools, effort, servers. A part of the spec;
//! what a provider cannot do of it is refused before anything starts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The set-up of an agent. Empty: the agent is what it is by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSetup {
    /// How hard it thinks, in the provider's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Instructions in or after its system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    /// The tools it may use.
    #[serde(skip_serializing_if = "ToolFilter::is_open")]
    pub tools: ToolFilter,
    /// Its own mode of permissions, in the provider's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// MCP servers that it gets beside its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// A session of the provider that it begins with: under a name of its own, and the other stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<String>,
}

impl AgentSetup {
    /// Nothing is set up.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Instructions for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemPrompt {
    /// Where they stand.
    #[serde(default)]
    pub mode: SystemPromptMode,
    /// The text.
    pub text: String,
}

/// Where instructions stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SystemPromptMode {
    /// After the agent's own.
    #[default]
    Append,
    /// Instead of the agent's own.
    Override,
}

/// Which tools an agent may use. Left out and empty are different things: without `allow` it has all of its tools, with
/// an empty one it has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolFilter {
    /// Only these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Not these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

impl ToolFilter {
    /// Nothing is filtered.
    pub fn is_open(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }
}

/// An MCP server for an agent. Values stand in the record: no secrets belong here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    #[serde(flatten)]
    pub via: McpTransport,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpTransport {
    /// A program that the agent starts.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        /// Its environment, added to the agent's.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// Where.
        url: String,
        /// Headers of each request.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
}
