//! JSON-RPC 2.0, one object a line: read with tolerance, bounded.

use serde::Deserialize;
use serde_json::{Value, json};
use subagent_model::ErrorCode;

use crate::failure::Failure;

/// Codes of errors.
pub(super) mod code {
    pub(in super::super) const AUTH: i64 = -32_000;
    pub(in super::super) const NOT_FOUND: i64 = -32_002;
    pub(in super::super) const PARSE: i64 = -32_700;
    pub(in super::super) const INVALID_REQUEST: i64 = -32_600;
    pub(in super::super) const NO_METHOD: i64 = -32_601;
    pub(in super::super) const INVALID_PARAMS: i64 = -32_602;
    pub(in super::super) const INTERNAL: i64 = -32_603;
}

/// A message of the client.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    Request { id: Value, method: String, params: Value },
    Note { method: String, params: Value },
    Answer { id: Value, result: Option<Value> },
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Option<Value>,
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl Refusal {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// With the class by which a supervisor decides what follows.
    pub(super) fn of(failure: &Failure) -> Self {
        let code = if failure.code == ErrorCode::Auth { code::AUTH } else { code::INTERNAL };
        let mut data = json!({"class": failure.code.as_str()});
        for (field, value) in [("resetAtMs", failure.reset_at_ms), ("retryAfterMs", failure.retry_after_ms)] {
            if let Some(value) = value {
                data[field] = value.into();
            }
        }
        if let Some(status) = failure.status {
            data["httpStatus"] = status.into();
        }
        Self { code, message: failure.message.clone(), data: Some(data) }
    }

    /// With a class and nothing else.
    pub(super) fn class(class: ErrorCode, message: impl Into<String>) -> Self {
        Self::of(&Failure::new(class, message))
    }
}

/// Reads a line; the refusal where it is no message.
pub(super) fn read(line: &[u8]) -> Result<Frame, Refusal> {
    let envelope: Envelope = serde_json::from_slice(line)
        .map_err(|error| Refusal::new(code::PARSE, format!("the line is no message of JSON-RPC: {error}")))?;
    match envelope {
        Envelope { id: Some(id), method: Some(method), params, .. } => {
            Ok(Frame::Request { id, method, params })
        }
        Envelope { id: None, method: Some(method), params, .. } => Ok(Frame::Note { method, params }),
        Envelope { id: Some(id), method: None, result, .. } => Ok(Frame::Answer { id, result }),
        _ => Err(Refusal::new(code::INVALID_REQUEST, "the message has neither a method nor an id")),
    }
}

fn line(document: &Value) -> Vec<u8> {
    let mut line = document.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// An answer.
pub(super) fn answer(id: &Value, outcome: Result<Value, Refusal>) -> Vec<u8> {
    line(&match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(Refusal { code, message, data }) => {
            let mut error = json!({"code": code, "message": message});
            if let Some(data) = data {
                error["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    })
}

/// A request of ours.
pub(super) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// A notification.
pub(super) fn note(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}
