//! The envelope of every message: JSON-RPC 2.0, one object a line. Read with tolerance, since a message that has no
//! meaning here must not end a conversation that has one; written with the fields always in the same order, since what
//! was written is compared with the log when a conversation is taken over.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::bounds::NAME_BYTES;

/// The codes of errors that are said or understood here.
pub(super) mod code {
    pub(in super::super) const AUTH_REQUIRED: i64 = -32_000;
    pub(in super::super) const NOT_FOUND: i64 = -32_002;
    pub(in super::super) const INVALID_REQUEST: i64 = -32_600;
    pub(in super::super) const NO_METHOD: i64 = -32_601;
    pub(in super::super) const INVALID_PARAMS: i64 = -32_602;
    pub(in super::super) const CANCELLED: i64 = -32_800;
}

/// The name of a request. Each side makes its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(serde_json::Number),
    Text(String),
}

impl Id {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(Self::Number(number)),
            Value::String(text) if text.len() <= NAME_BYTES / 2 => Some(Self::Text(text)),
            _ => None,
        }
    }

    /// As a text that is another one for each id.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => Value::from(text.as_str()).to_string(),
        }
    }

    /// The id that a text of [`Self::key`] is of.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        Self::of(serde_json::from_str(key).ok()?)
    }

    /// As a number, as our own are.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
            // Some agents give numbers back as texts.
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// An error that came as an answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Value,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    Request { id: Id, method: String, params: Value },
    Note { method: String, params: Value },
    Answer { id: Id, outcome: Result<Value, RpcError> },
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "there")]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "there")]
    result: Option<Value>,
    #[serde(default, deserialize_with = "there")]
    error: Option<Value>,
}

/// A field that is there, though it may be null.
fn there<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// Why a line is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoFrame {
    /// It is something else.
    Stray,
    /// A request whose id cannot be given back.
    UnnamedRequest,
}

/// Reads a line.
pub(super) fn read(line: &[u8]) -> Result<Frame, NoFrame> {
    let Envelope { id, method, params, result, error } =
        serde_json::from_slice(line).map_err(|_| NoFrame::Stray)?;
    match (method, id) {
        (Some(method), None) => Ok(Frame::Note { method, params }),
        (Some(method), Some(id)) => match Id::of(id) {
            Some(id) => Ok(Frame::Request { id, method, params }),
            None => Err(NoFrame::UnnamedRequest),
        },
        (None, Some(id)) => {
            let id = Id::of(id).ok_or(NoFrame::Stray)?;
            let outcome = match (result, error) {
                // Some write both, and leave the other one null.
                (_, Some(error)) if !error.is_null() => {
                    let unlike = |_| RpcError { message: error.to_string(), ..RpcError::default() };
                    Err(serde_json::from_value(error.clone()).unwrap_or_else(unlike))
                }
                (Some(result), _) => Ok(result),
                (None, _) => return Err(NoFrame::Stray),
            };
            Ok(Frame::Answer { id, outcome })
        }
        (None, None) => Err(NoFrame::Stray),
    }
}

const VERSION: &str = "2.0";

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Note<'a, P> {
    jsonrpc: &'static str,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Answer<'a, R> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: R,
}

#[derive(Serialize)]
struct Refusal<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    error: RefusalError<'a>,
}

#[derive(Serialize)]
struct RefusalError<'a> {
    code: i64,
    message: &'a str,
}

/// A request of ours as a line.
pub(super) fn request(id: u64, method: &str, params: impl Serialize) -> Vec<u8> {
    line(&Request { jsonrpc: VERSION, id, method, params })
}

/// A notification of ours as a line.
pub(super) fn note(method: &str, params: impl Serialize) -> Vec<u8> {
    line(&Note { jsonrpc: VERSION, method, params })
}

/// Our answer to a request as a line.
pub(super) fn answer(id: &Id, result: impl Serialize) -> Vec<u8> {
    line(&Answer { jsonrpc: VERSION, id, result })
}

/// Our refusal of a request as a line.
pub(super) fn refusal(id: Option<&Id>, code: i64, message: &str) -> Vec<u8> {
    line(&Refusal { jsonrpc: VERSION, id, error: RefusalError { code, message } })
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Strings, numbers and maps with names can always be written.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}
