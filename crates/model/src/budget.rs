//! What a run may use, and what it was told when it came near. How limits are judged is `subagent-core`'s.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Limit;
use crate::time::Timestamp;

/// Limits of one run. Absent and 0 mean without limit, everywhere. Each has two steps: a request to wrap up, then the cut.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// Turns of the model. At the limit the child is asked to wrap up; it is cut off after the grace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Turns that it may use after it was asked to wrap up; 5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_turns: Option<u32>,
    /// Tokens: input, output and cache writes. Asked to wrap up at 90 %, cut off at 100 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Money in US dollars. Asked to wrap up at 90 %, cut off at 100 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Tool calls. Asked to wrap up at 90 %, cut off at 100 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
}

impl Budget {
    /// True when nothing differs from the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// True when nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self { grace_turns: self.grace_turns, ..Self::default() }
    }
}

/// Limits of a whole tree, set at its root: children reserve from it when they are spawned, and everything that any
/// member uses is charged to it while it happens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TreeBudget {
    /// Tokens of all members together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Money of all members together, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
}

impl TreeBudget {
    /// True when nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// A run was asked to wrap up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrapUp {
    /// At which limit.
    pub limit: Limit,
    /// When.
    pub at: Timestamp,
}
