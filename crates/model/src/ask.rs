//! Permissions and questions: what a child asks, what may be answered, and the policy that is tried first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Requester, RunNumber};
use crate::time::Timestamp;

/// Names a request within its subagent: counted from 1, over all runs. Doors write it `HANDLE.qN`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct RequestNumber(pub u64);

impl std::fmt::Display for RequestNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a child asks of those who started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    /// The child's own name for it: the answer goes back under this.
    pub key: String,
    /// What is asked.
    #[serde(flatten)]
    pub subject: Subject,
}

/// A permission or a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// A permission to do something.
    Approval {
        /// What kind of action: `execute`, `edit`, `read`, `fetch`, ..., as the provider names it. Policies match it.
        action: String,
        /// The full action, bounded: a command line, a path, an address.
        title: String,
        /// More about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// The answers that the child takes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<AskOption>,
    },
    /// A question.
    Question {
        /// The question.
        text: String,
        /// Answers that it proposes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
    },
}

/// One answer that a child takes. Options are chosen by their kind, never by their place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskOption {
    /// The child's own name for it.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it means.
    pub kind: Choice,
}

/// What may be answered to a request for a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Yes, this time.
    AllowOnce,
    /// Yes, and the same again for this subagent.
    AllowAlways,
    /// No, this time.
    DenyOnce,
    /// No, and the same again for this subagent.
    DenyAlways,
}

impl Choice {
    /// True for a yes.
    pub fn is_allow(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To a request for a permission.
    Choice {
        /// Which.
        choice: Choice,
    },
    /// To a question.
    Text {
        /// The answer.
        text: String,
    },
    /// To a question: nobody answers it.
    None,
}

/// Who answered a request, and how it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// Who: a requester, or `policy`.
    pub by: Requester,
    /// When.
    pub at: Timestamp,
    /// Why, where nobody chose it: a rule, the time limit, or that nobody is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Nobody has answered.
    Open,
    /// It is answered; the child is being told.
    Answered,
    /// The child was told.
    Settled,
    /// The run ended, or the child took it back.
    Withdrawn,
}

/// A request as it is kept and listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestItem {
    /// Its number.
    pub number: RequestNumber,
    /// In which run.
    pub run: RunNumber,
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
    /// When it was asked.
    pub opened_at: Timestamp,
    /// When it is answered with a denial by itself.
    pub expires_at: Timestamp,
    /// How it stands.
    pub state: RequestState,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
}

/// A standing answer for one subagent: an "always" that somebody gave. It can be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    /// The request whose answer it was.
    pub number: RequestNumber,
    /// The kind of action that it covers.
    pub action: String,
    /// The action that it covers, word for word.
    pub title: String,
    /// True when it allows, false when it denies.
    pub allow: bool,
    /// Who gave it.
    pub by: Requester,
    /// When.
    pub at: Timestamp,
}

/// What a policy says to a request for a permission. In the order of strictness.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PolicyWord {
    /// Yes.
    Allow,
    /// Somebody is to be asked.
    #[default]
    Ask,
    /// No.
    Deny,
}

/// One rule of a policy. The first that fits counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRule {
    /// The kind of action; every kind when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// A pattern of the full action, in which `*` stands for any text; every action when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// What it says.
    pub say: PolicyWord,
}

/// What a subagent may do without asking, and how long it waits for an answer. It is never wider than its parent's:
/// of all policies from the root down, the strictest word counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Permissions {
    /// What is said where no rule fits.
    #[serde(skip_serializing_if = "is_ask")]
    pub otherwise: PolicyWord,
    /// Rules, tried in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
    /// Nobody can answer: what would be asked is denied at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// How long a request waits for an answer, in milliseconds; 15 minutes when absent. Then it is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_ms: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_ask(word: &PolicyWord) -> bool {
    *word == PolicyWord::Ask
}

impl Permissions {
    /// True when nothing differs from the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
