//! What is taken of a child's texts: everything that is kept or shown is bounded. Shared by the agents that are driven
//! natively.

use serde_json::Value;
use subagent_model::ErrorInfo;
use subagent_model::text::cut_at_boundary;
use subagent_provider::{bound, with_origin};

/// Most bytes of a name: a session, a tool, a request.
pub(crate) const NAME_BYTES: usize = 1024;
/// Most bytes of a headline.
pub(crate) const TITLE_BYTES: usize = 4 * 1024;
/// Most bytes of a detail, a notice and a question.
pub(crate) const DETAIL_BYTES: usize = 16 * 1024;
/// Most options and choices of one request.
pub(crate) const MOST_OPTIONS: usize = 32;
/// Most requests of a child that are open at once.
pub(crate) const MOST_ASKS: usize = 64;
/// Most lines without meaning that are told of in one conversation.
pub(crate) const MOST_NOISE: u8 = 3;

/// The text, or its beginning.
pub(crate) fn cut(text: &str, most: usize) -> String {
    cut_at_boundary(text, most).to_owned()
}

/// A whole action, as policies match it and standing answers remember it. One that is too long is told by its beginning
/// and its digest, so that no two of them are taken for one another.
pub(crate) fn action(text: &str) -> String {
    let (bounded, _) = bound(text.to_owned());
    match bounded.sha256 {
        Some(digest) => format!("{} sha256 {digest}", bounded.preview),
        None => bounded.preview,
    }
}

/// A value as people read it: a text as it is, anything else as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as a line of JSON.
pub(crate) fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A line that means nothing, as it is told of.
pub(crate) fn noise(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    format!("it said something that is no message: {:?}", cut_at_boundary(&line, 200))
}

/// A failure with its texts bounded, and whether asking again may help by itself.
pub(crate) fn failure(code: subagent_model::ErrorCode, message: &str, detail: Option<&str>) -> ErrorInfo {
    use subagent_model::ErrorCode as E;
    ErrorInfo {
        code,
        message: cut(message, TITLE_BYTES),
        detail: detail.filter(|detail| !detail.trim().is_empty()).map(|detail| cut(detail, DETAIL_BYTES)),
        retryable: matches!(code, E::RateLimited | E::Overloaded | E::Timeout),
        reset_at: None,
        exit: None,
    }
}

/// The text of a message for a child that is told nothing but text. Who speaks stands before it where that is not the
/// one who gave the task.
pub(crate) fn attributed(from: &subagent_model::Requester, text: &str) -> String {
    if from.as_str().starts_with("subagent:") { with_origin(from, text) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{action, attributed};

    #[test]
    fn actions_that_are_too_long_are_told_apart() {
        let long = "x".repeat(20_000);
        assert_ne!(action(&format!("{long}a")), action(&format!("{long}b")));
        assert!(action(&long).len() < 9_000);
        assert_eq!(action("ls"), "ls");
    }

    #[test]
    fn steer_18_a_message_of_another_subagent_says_whose_it_is() {
        assert_eq!(attributed(&"user:1000".into(), "hi"), "hi");
        assert_eq!(attributed(&"subagent:7".into(), "hi"), "<message from=\"subagent:7\">\nhi\n</message>");
    }
}
