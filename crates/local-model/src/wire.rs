//! Words of the OpenAI chat format: what is read, and what is written. Unknown fields are left alone, as every server does; what
//! would change the meaning of an answer and cannot be done is refused.

use serde::Deserialize;
use serde_json::{Value, json};

/// `POST /v1/chat/completions`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Whether the answer comes in pieces.
    #[serde(default)]
    pub stream: bool,
    /// What else to send with it.
    pub stream_options: Option<StreamOptions>,
    /// Most tokens of the answer.
    pub max_tokens: Option<usize>,
    /// Its newer name.
    pub max_completion_tokens: Option<usize>,
    /// 0 where nothing is said: always the likeliest.
    pub temperature: Option<f32>,
    /// For drawing.
    pub seed: Option<i64>,
    /// Where to end: a text or a list of them.
    pub stop: Option<Stops>,
    /// The form of the answer.
    pub response_format: Option<Value>,
    /// What can be called.
    pub tools: Option<Vec<Tool>>,
    /// Whether something must be called.
    pub tool_choice: Option<Value>,
    /// How many answers; only one can be given.
    pub n: Option<u32>,
}

/// Options of a stream.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct StreamOptions {
    /// Whether the last piece has the usage.
    #[serde(default)]
    pub include_usage: bool,
}

/// One or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Stops {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// One message.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Message {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// A text, or parts of which texts count.
    #[serde(default)]
    pub content: Value,
    /// What an assistant called.
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Which call this is the result of.
    pub tool_call_id: Option<String>,
}

/// A call in the history.
#[derive(Clone, Debug, Deserialize)]
pub struct ToolCall {
    /// Its id.
    #[serde(default)]
    pub id: String,
    /// What was called.
    pub function: Called,
}

/// Name and arguments.
#[derive(Clone, Debug, Deserialize)]
pub struct Called {
    /// Of the tool.
    pub name: String,
    /// JSON in a text.
    #[serde(default)]
    pub arguments: String,
}

/// A tool.
#[derive(Clone, Debug, Deserialize)]
pub struct Tool {
    /// What it is.
    pub function: Function,
}

/// A function that can be called.
#[derive(Clone, Debug, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Option<Value>,
}

/// What an answer cost, as computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of these, those that were known from an earlier request.
    pub cached: usize,
    /// Tokens of the answer, the one that ends it included.
    pub completion: usize,
}

impl Usage {
    /// As the format has it.
    pub fn json(self) -> Value {
        json!({"prompt_tokens": self.prompt, "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion, "prompt_tokens_details": {"cached_tokens": self.cached}})
    }
}

/// A request that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// What is wrong and what to do.
    pub message: String,
    /// A word for programs.
    pub code: &'static str,
}

impl Refused {
    /// With a code.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { message: message.into(), code }
    }

    /// As the format has it.
    pub fn json(&self) -> Value {
        error(&self.message, self.code)
    }
}

/// An error as the format has it.
pub fn error(message: &str, code: &str) -> Value {
    let kind = if code == "internal" { "server_error" } else { "invalid_request_error" };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
