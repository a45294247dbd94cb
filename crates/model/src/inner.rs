//! Subagents of a child's own: those that an agent runs inside of itself and tells of. They have no record: nobody here
//! admitted, started or limits them. What is known of them is read from the conversation in which they were announced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptNumber, SubagentId};
use crate::time::Timestamp;

/// A subagent of a child's own. It is one by its attempt and its key: another process may use the same key for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InnerSubagent {
    /// The child's own name for it.
    pub key: String,
    /// The attempt, that is the conversation, in which it was announced.
    pub attempt: AttemptNumber,
    /// The key of the inner one that it belongs to; absent for one of the child itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it is about, as the child says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How it stands.
    pub state: InnerStatus,
    /// It can be stopped by itself, now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_stop: bool,
    /// When it was announced.
    pub announced_at: Timestamp,
    /// When something new was last said of it.
    pub updated_at: Timestamp,
}

/// How an inner subagent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InnerStatus {
    /// At work, or announced and nothing more was said.
    Running,
    /// Waiting for a permission or an answer.
    Asking,
    /// It came to a good end.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Stopped,
    /// The child does not say how it stands or how it ended, or says it in a word that is not known here.
    Unknown,
    /// It was at work when the conversation with the child ended: nobody can know what became of it.
    Lost,
}

impl InnerStatus {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Asking => "asking",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
        }
    }

    /// The status of a word; what is not known is not guessed.
    pub fn of_word(word: &str) -> Self {
        let all = [Self::Running, Self::Asking, Self::Completed, Self::Failed, Self::Stopped, Self::Lost];
        all.into_iter().find(|status| status.as_str() == word).unwrap_or(Self::Unknown)
    }

    /// It is at work, as far as is known.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Asking)
    }
}

/// The inner subagents of one subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InnerList {
    /// Whose they are.
    pub id: SubagentId,
    /// Oldest first, all attempts; parents before what is below them.
    pub items: Vec<InnerSubagent>,
    /// There were more of them: the oldest that had ended are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// Asks a child to stop one of its own subagents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopInnerRequest {
    /// Its key, or the unique beginning of one that is at work.
    pub key: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopInnerReply {
    /// It as it stands after the call. The child itself says when it has stopped.
    pub inner: InnerSubagent,
    /// True when the child was told; false when it was at work no longer.
    pub accepted: bool,
}

#[cfg(test)]
mod tests {
    use super::InnerStatus;

    #[test]
    fn words_of_newer_versions_are_not_guessed() {
        assert_eq!(InnerStatus::of_word("asking"), InnerStatus::Asking);
        assert_eq!(InnerStatus::of_word("lost"), InnerStatus::Lost);
        assert_eq!(InnerStatus::of_word("_dreaming"), InnerStatus::Unknown);
    }
}
