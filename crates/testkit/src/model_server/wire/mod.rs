//! The wire formats. Each reads a request into a [`Conversation`] and writes a [`Reply`] as a stream of frames, as one
//! document, or as a failure.

use serde_json::{Value, json};

use super::answer::{Failure, Hold, Piece, Reply};
use super::conversation::{Conversation, Format};

mod chat;
mod gemini;
mod messages;
mod responses;

/// A step of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    /// An event, with its name where the format has names.
    Event(Option<&'static str>, String),
    /// Something to wait for.
    Hold(Hold),
    /// Nothing more comes.
    Hang,
    /// The connection is cut.
    Cut,
}

/// What an answer needs to know beside its content.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Makes identifiers of this answer its own.
    pub(super) seed: String,
    /// The model asked for.
    pub(super) model: String,
    /// Seconds since 1970.
    pub(super) now: u64,
    /// The stream ends with the usage.
    pub(super) usage_asked: bool,
}

/// Reads a request.
pub(super) fn read(format: Format, body: &Value, model: &str, stream: bool) -> Conversation {
    match format {
        Format::Messages => messages::read(body),
        Format::Responses => responses::read(body),
        Format::Chat => chat::read(body),
        Format::Gemini => gemini::read(body, model, stream),
    }
}

/// Writes a reply as a stream.
pub(super) fn stream(format: Format, reply: &Reply, setting: &Setting) -> Vec<Frame> {
    match format {
        Format::Messages => messages::stream(reply, setting),
        Format::Responses => responses::stream(reply, setting),
        Format::Chat => chat::stream(reply, setting),
        Format::Gemini => gemini::stream(reply, setting),
    }
}

/// Writes a reply as one document.
pub(super) fn whole(format: Format, reply: &Reply, setting: &Setting) -> Value {
    match format {
        Format::Messages => messages::whole(reply, setting),
        Format::Responses => responses::whole(reply, setting),
        Format::Chat => chat::whole(reply, setting),
        Format::Gemini => gemini::whole(reply, setting),
    }
}

/// Writes a failure: its document, and headers that come with it.
pub(super) fn failure(format: Format, failure: &Failure, now: u64) -> (Value, Vec<(&'static str, String)>) {
    let mut headers = Vec::new();
    if let Some(seconds) = failure.retry_after {
        headers.push(("retry-after", seconds.to_string()));
    }
    let resets = failure.quota.map(|seconds| now + seconds);
    let body = match format {
        Format::Messages => {
            if let Some(resets) = resets {
                headers.push(("anthropic-ratelimit-unified-status", "rejected".into()));
                headers.push(("anthropic-ratelimit-unified-reset", resets.to_string()));
                headers.push(("anthropic-ratelimit-unified-representative-claim", "five_hour".into()));
            }
            json!({"type": "error", "error": messages::error(failure.status, &failure.message)})
        }
        Format::Gemini => gemini::failure(failure),
        Format::Responses | Format::Chat => {
            let kind = match (failure.status, resets) {
                (_, Some(_)) => "usage_limit_reached",
                (401, _) => "invalid_request_error",
                (429, _) => "rate_limit_exceeded",
                (status, _) if status >= 500 => "server_error",
                _ => "invalid_request_error",
            };
            let mut error = json!({"message": failure.message, "type": kind, "param": null,
                "code": if failure.status == 401 { "invalid_api_key" } else { kind }});
            if let Some(resets) = resets {
                headers.push(("x-codex-primary-used-percent", "100".into()));
                error["resets_at"] = resets.into();
                error["resets_in_seconds"] = failure.quota.into();
                error["plan_type"] = "pro".into();
            }
            json!({"error": error})
        }
    };
    (body, headers)
}

impl Frame {
    fn named(name: &'static str, data: &Value) -> Self {
        Self::Event(Some(name), data.to_string())
    }

    fn data(data: &Value) -> Self {
        Self::Event(None, data.to_string())
    }
}

/// What became of the pieces of a text.
struct Spoken {
    frames: Vec<Frame>,
    /// Nothing may follow.
    over: bool,
}

/// Writes the pieces of a reply. `text` writes a text, `error` a failure in the middle of the stream.
fn speak(
    reply: &Reply,
    mut text: impl FnMut(&str) -> Frame,
    mut error: impl FnMut(&str) -> Vec<Frame>,
) -> Spoken {
    let mut frames = Vec::new();
    for piece in &reply.pieces {
        match piece {
            Piece::Text(piece) => frames.push(text(piece)),
            Piece::Hold(hold) => frames.push(Frame::Hold(hold.clone())),
            Piece::Hang => {
                frames.push(Frame::Hang);
                return Spoken { frames, over: true };
            }
            Piece::Cut => {
                frames.push(Frame::Cut);
                return Spoken { frames, over: true };
            }
            Piece::Error(what) => {
                frames.extend(error(what));
                return Spoken { frames, over: true };
            }
            Piece::Garbage => frames.push(Frame::Event(None, "{\"type\": \"garb".into())),
        }
    }
    Spoken { frames, over: false }
}

/// Texts of a content that is a string or a list of parts.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| match part["type"].as_str() {
                Some("text" | "input_text" | "output_text") | None => {
                    part.as_str().or_else(|| part["text"].as_str())
                }
                Some(_) => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What a tool gave back, as text.
fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(_) => texts(content).join("\n"),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The two halves of a text, so that what belongs together comes in two events.
fn halves(text: &str) -> [String; 2] {
    let letters: Vec<char> = text.chars().collect();
    let (one, two) = letters.split_at(letters.len() / 2);
    [one.iter().collect(), two.iter().collect()]
}
