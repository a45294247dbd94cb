//! Agent types and providers as they are listed: what can be asked for, and from where it comes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capability::Capabilities;

/// What can be asked for in a directory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TypeList {
    /// Agent types that can be used, by name.
    pub items: Vec<AgentType>,
    /// What is wrong with definition files, and what was left out of them.
    pub problems: Vec<String>,
    /// Providers.
    pub providers: Vec<ProviderInfo>,
}

/// An agent type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentType {
    /// Its name.
    pub name: String,
    /// Other names that find it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// When to use it.
    pub description: String,
    /// The provider that its definition names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that its definition names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where it comes from, for people: the file, its dialect, whether it is trusted.
    pub source: String,
    /// The whole definition, only where one type is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<serde_json::Value>,
}

/// A provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderInfo {
    /// Its name.
    pub name: String,
    /// What it can do at most.
    pub can: Capabilities,
    /// The program that it needs, for providers of agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Where that program was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// How it is installed, where it was not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
}
