//! What a provider can do. Stated up front; the spec keeps what was true when it was admitted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a message reaches a running child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// Not at all.
    #[default]
    None,
    /// At the next boundary of its work.
    AtBoundary,
    /// Into the current turn.
    Live,
}

/// What can be said to a child in the place of its system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SystemPromptUse {
    /// Nothing: its own stands.
    #[default]
    None,
    /// A text after its own.
    Append,
    /// A text after its own, or instead of it.
    Override,
}

impl SystemPromptUse {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// The abilities of a provider for one spec.
#[expect(clippy::struct_excessive_bools, reason = "each is an ability of its own, and none excludes another")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Capabilities {
    /// Messages to a running child.
    pub steering: Steering,
    /// A turn can be cancelled while the session stays.
    pub interrupt: bool,
    /// A later process can continue the session.
    pub resume: bool,
    /// The child can stay alive between runs.
    pub warm: bool,
    /// A child that outlived the daemon can be taken over.
    pub adopt: bool,
    /// The child asks for permissions.
    pub approvals: bool,
    /// A model can be chosen.
    pub model: bool,
    /// Turns and tool calls are reported.
    pub turns: bool,
    /// Tokens are reported.
    pub usage: bool,
    /// Money is reported.
    pub cost: bool,
    /// A session can be continued under another name, and stays as it was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// Its own way to hold an answer to a JSON Schema.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub output_schema: bool,
    /// The tools it may use can be chosen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tool_filter: bool,
    /// Its system prompt.
    #[serde(skip_serializing_if = "SystemPromptUse::is_none")]
    pub system_prompt: SystemPromptUse,
    /// How hard it thinks can be chosen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub effort: bool,
    /// MCP servers can be handed over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mcp_servers: bool,
    /// Prompts may hold images.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub images: bool,
    /// Prompts may hold texts of their own beside the task, such as files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub texts: bool,
}

impl Capabilities {
    /// True when nothing but a start and an end can be expected.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// It is spoken with while it runs.
    pub fn converses(&self) -> bool {
        self.steering != Steering::None || self.interrupt || self.resume || self.warm
    }
}
