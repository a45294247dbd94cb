//! What is said between a person, the model and the tools: the words that the journal keeps and that every wire format is
//! made from. No rule about what follows on what stands here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of the context.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Of a person, of the supervisor, or of the loop itself.
    User(String),
    /// Of the model.
    Assistant(Reply),
    /// What the calls of the message before it brought, in their order.
    Results(Vec<CallResult>),
}

/// A finished message of the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reply {
    /// Its text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What it thought before, as far as it is to be given back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Thought>,
    /// The tools that it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Why it ended.
    #[serde(default)]
    pub stop: Stop,
}

/// A thought. Some endpoints want it back with their seal, and only then.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thought {
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The seal of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// It is only the seal of something that is not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its name, unique in the session.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What it is given. A text where the model wrote something that is no JSON object.
    pub input: Value,
    /// What the endpoint wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// What a call brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The call.
    pub call: String,
    /// Its tool: some endpoints want it again.
    pub tool: String,
    /// What came of it.
    pub text: String,
    /// It is the account of a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// Why a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was said, or tools are called.
    #[default]
    End,
    /// It became too long.
    Length,
    /// The model, or a filter before it, refused.
    Refusal,
}

impl Message {
    /// Its size in bytes, roughly, as the model reads it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::User(text) => text.len(),
            Self::Assistant(reply) => {
                let calls = reply.calls.iter().map(|call| call.tool.len() + call.input.to_string().len());
                let thoughts = reply.thoughts.iter().map(|thought| thought.text.len());
                reply.text.len() + calls.sum::<usize>() + thoughts.sum::<usize>()
            }
            Self::Results(results) => results.iter().map(|result| result.text.len()).sum(),
        }
    }
}

/// Tokens of so many bytes: what is not counted by the endpoint is taken as four bytes each.
pub(crate) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes / 4 + 8).unwrap_or(u64::MAX)
}
