//! The frames of the app-server: JSON-RPC without the `jsonrpc` key, one object a line.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::bounds::line;

/// What a line of the peer is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    /// The answer to a request of ours.
    Answer { id: Value, outcome: Result<Value, Fault> },
    /// A request of the peer: it waits.
    Request { id: Value, method: String, params: Value },
    /// A notification.
    Note(Note),
}

/// A notification.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Note {
    pub(super) method: String,
    pub(super) params: Value,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Fault {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
}

impl Frame {
    /// Reads a line; none where it is no frame.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let Value::Object(mut frame) = serde_json::from_slice(line).ok()? else { return None };
        let id = frame.remove("id").filter(|id| id.is_string() || id.is_number());
        let params = frame.remove("params").unwrap_or(Value::Null);
        match (frame.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Some(Self::Request { id, method, params }),
            (Some(Value::String(method)), None) => Some(Self::Note(Note { method, params })),
            (Some(_), _) => None,
            (None, id) => {
                let id = id?;
                if let Some(error) = frame.remove("error") {
                    let fault = serde_json::from_value(error)
                        .unwrap_or_else(|error| Fault { code: 0, message: error.to_string() });
                    return Some(Self::Answer { id, outcome: Err(fault) });
                }
                Some(Self::Answer { id, outcome: Ok(frame.remove("result")?) })
            }
        }
    }
}

impl Note {
    /// The thread that it is about.
    pub(super) fn thread(&self) -> Option<&str> {
        self.params["threadId"].as_str()
    }

    /// The turn that it is about.
    pub(super) fn turn(&self) -> Option<&str> {
        self.params["turnId"].as_str().or_else(|| self.params["turn"]["id"].as_str())
    }
}

/// A request of ours.
pub(super) fn request(id: &str, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "id": id, "method": method, "params": params }))
}

/// A notification of ours.
pub(super) fn notify(method: &str) -> Vec<u8> {
    line(&json!({ "method": method }))
}

/// The answer to a request of the peer.
pub(super) fn answer(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({ "id": id, "result": result }))
}

/// The answer to a request of the peer that is not carried out.
pub(super) fn refuse(id: &Value, code: i64, message: &str) -> Vec<u8> {
    line(&json!({ "id": id, "error": { "code": code, "message": message } }))
}
