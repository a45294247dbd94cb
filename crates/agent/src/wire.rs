//! The wire formats of endpoints: a request from the words of a conversation, and an answer from the events of a stream.
//! Pure: bytes go and come elsewhere (`endpoint`). The parts of a request stand in the order in which they change: tools,
//! system prompt, then the messages, oldest first, so that the cache of an endpoint stays warm.

mod chat;
mod gemini;
mod messages;
mod sse;

use serde::Deserialize;
use serde_json::Value;
use subagent_model::{ErrorCode, Usage};

use crate::conversation::{Call, Message, Reply};
use crate::failure::Failure;
use crate::tools::ToolSpec;

pub use sse::Events;

/// Most bytes of one answer.
const MOST_BYTES: usize = 16 << 20;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Chat Completions, as OpenAI has them and most others speak: Ollama, llama.cpp, vLLM, gateways.
    #[serde(rename = "openai")]
    Chat,
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Messages,
    /// Gemini `streamGenerateContent`.
    Gemini,
}

/// What the model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The model.
    pub model: &'a str,
    /// The system prompt.
    pub system: &'a str,
    /// The context.
    pub messages: &'a [Message],
    /// The tools. They are named also where none may be called: the cache begins with them.
    pub tools: &'a [ToolSpec],
    /// It may call nothing.
    pub answer_only: bool,
    /// The shape of the answer, where the endpoint is to hold to it.
    pub schema: Option<&'a Value>,
    /// How hard it thinks: `low`, `medium`, `high`, or a word of the endpoint.
    pub effort: Option<&'a str>,
    /// Most tokens of the answer, where that is to be said.
    pub max_output: Option<u64>,
    /// Makes names of calls unique that the endpoint gives none.
    pub number: u64,
}

/// A part of an answer, as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Of the text.
    Text(String),
    /// Of a thought.
    Thought(String),
}

/// A finished answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The message.
    pub reply: Reply,
    /// What it used, where that was told.
    pub usage: Option<Usage>,
}

impl Wire {
    /// The path behind the address of the endpoint.
    pub fn path(self, model: &str) -> String {
        match self {
            Self::Chat => String::from("/chat/completions"),
            Self::Messages => String::from("/v1/messages"),
            Self::Gemini => format!("/models/{model}:streamGenerateContent?alt=sse"),
        }
    }

    /// The address where nobody gives one.
    pub fn address(self) -> &'static str {
        match self {
            Self::Chat => "https://api.openai.com/v1",
            Self::Messages => "https://api.anthropic.com",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }

    /// The body of a request.
    pub fn body(self, ask: &Ask<'_>) -> Value {
        match self {
            Self::Chat => chat::body(ask),
            Self::Messages => messages::body(ask),
            Self::Gemini => gemini::body(ask),
        }
    }

    /// Reads the answer to a request.
    pub fn reader(self, number: u64) -> Reader {
        let inner = match self {
            Self::Chat => Inner::Chat(chat::Chat::default()),
            Self::Messages => Inner::Messages(messages::Messages::default()),
            Self::Gemini => Inner::Gemini(gemini::Gemini::default()),
        };
        Reader { inner, number, bytes: 0 }
    }
}

/// Reads the events of one answer.
#[derive(Debug)]
pub struct Reader {
    inner: Inner,
    number: u64,
    bytes: usize,
}

#[derive(Debug)]
enum Inner {
    Chat(chat::Chat),
    Messages(messages::Messages),
    Gemini(gemini::Gemini),
}

impl Reader {
    /// Takes the data of one event in; gives what is new to be shown.
    pub fn event(&mut self, data: &str) -> Result<Vec<Part>, Failure> {
        self.bytes += data.len();
        if self.bytes > MOST_BYTES {
            return Err(Failure::new(ErrorCode::Protocol, "the endpoint's answer has no end"));
        }
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(vec![]);
        }
        let event: Value = serde_json::from_str(data).map_err(|_| {
            let shown = subagent_model::text::cut_at_boundary(data, 100);
            Failure::new(
                ErrorCode::Overloaded,
                format!("the endpoint sent something that is no event: {shown:?}"),
            )
        })?;
        if event.get("error").is_some_and(|error| !error.is_null()) {
            return Err(crate::failure::of_event(&event));
        }
        Ok(match &mut self.inner {
            Inner::Chat(chat) => chat.event(&event),
            Inner::Messages(messages) => messages.event(&event),
            Inner::Gemini(gemini) => gemini.event(&event),
        })
    }

    /// The answer, once the stream has ended.
    pub fn finish(self) -> Result<Answer, Failure> {
        let number = self.number;
        let answer = match self.inner {
            Inner::Chat(chat) => chat.finish(),
            Inner::Messages(messages) => messages.finish(),
            Inner::Gemini(gemini) => gemini.finish(),
        };
        let Some(mut answer) = answer else {
            return Err(Failure::new(
                ErrorCode::Overloaded,
                "the endpoint's answer broke off before its end",
            ));
        };
        name_all(&mut answer.reply.calls, number);
        Ok(answer)
    }
}

/// Each call has a name of its own.
fn name_all(calls: &mut [Call], number: u64) {
    let mut names = std::collections::BTreeSet::new();
    for (at, call) in calls.iter_mut().enumerate() {
        if call.id.is_empty() || !names.insert(call.id.clone()) {
            call.id = format!("call_{number}_{at}");
            names.insert(call.id.clone());
        }
    }
}

/// What a call is given: an object, or the text that the model wrote instead.
fn input_of(text: &str) -> Value {
    match text.trim() {
        "" => Value::Object(serde_json::Map::new()),
        text => match serde_json::from_str(text) {
            Ok(Value::Object(input)) => Value::Object(input),
            _ => Value::String(text.to_owned()),
        },
    }
}

/// The same for the endpoint: it takes nothing but objects.
fn input_for(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { serde_json::json!({ "text": input }) }
}

fn count(usage: &Value, field: &str) -> u64 {
    usage.get(field).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests;
