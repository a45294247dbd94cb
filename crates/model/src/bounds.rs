//! What a subagent's children can have at most. It is found once, at the spawn, from what the subagent itself has and from
//! what bound it; so the whole of it stands in one record, whatever becomes of those above.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::setup::ToolFilter;

/// The bounds of whatever a subagent spawns. Empty: none but the limits of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bounds {
    /// Tools.
    #[serde(skip_serializing_if = "ToolFilter::is_open")]
    pub tools: ToolFilter,
    /// Permission mode, in the words of agent definition files: `plan`, `deny`, `ask`, `accept-edits`, `auto`, `bypass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// Sandbox, in the words of agent definition files: `read-only`, `workspace-write`, `full-access`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Agent types that may be spawned. Absent: any. Empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// How many levels may be below the subagent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

impl Bounds {
    /// Nothing is bound.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}
