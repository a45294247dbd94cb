//! What an error that came as an answer means for the run. Codes and numbers decide where there are some; agents that
//! only write a sentence are read by the few words that name a class, and anything else is a failure without a class.

use serde::Deserialize;
use serde_json::Value;
use subagent_model::{ErrorCode, ErrorInfo, Timestamp};

use super::bounds::{DETAIL_BYTES, TITLE_BYTES, cut, text};
use super::frame::{RpcError, code};

/// A failure that happened here, or that the agent stated without an error.
pub(super) fn failure(code: ErrorCode, message: impl Into<String>) -> ErrorInfo {
    let retryable = matches!(code, ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::Timeout);
    ErrorInfo { code, message: message.into(), detail: None, retryable, reset_at: None, exit: None }
}

/// The failure of a turn.
pub(super) fn of_turn(error: &RpcError) -> ErrorInfo {
    told(class(error).unwrap_or(ErrorCode::Crashed), &says(error), error)
}

/// The failure of a step of the opening.
pub(super) fn of_opening(method: &str, error: &RpcError, logins: &[String]) -> ErrorInfo {
    let class = class(error).unwrap_or(ErrorCode::StartFailed);
    let message = match (class, logins) {
        (ErrorCode::Auth, []) => format!("{method}: it wants a login: {}", says(error)),
        (ErrorCode::Auth, logins) => {
            format!("{method}: it wants a login ({}): {}", logins.join(", "), says(error))
        }
        _ => format!("{method}: {}", says(error)),
    };
    told(class, &message, error)
}

/// Whether the answer to a request for an old session says that there is none.
pub(super) fn names_no_session(error: &RpcError) -> bool {
    if matches!(error.code, code::NOT_FOUND | code::INVALID_PARAMS) {
        return true;
    }
    let said = text_of(error);
    let what = ["session", "thread", "conversation"];
    let gone =
        ["not found", "no rollout found", "no such", "invalid", "unknown", "does not exist", "no longer"];
    what.iter().any(|word| said.contains(word)) && gone.iter().any(|word| said.contains(word))
}

fn told(class: ErrorCode, message: &str, error: &RpcError) -> ErrorInfo {
    let reset_at = error.data.get("resetAtMs").and_then(Value::as_i64);
    let reset_at = reset_at.map(|ms| Timestamp::from_micros(ms.saturating_mul(1_000)));
    let detail = (!error.data.is_null()).then(|| cut(&error.data.to_string(), DETAIL_BYTES));
    ErrorInfo { detail, reset_at, ..failure(class, cut(message, TITLE_BYTES)) }
}

/// The message, and what stands beside it: "Internal error" alone says nothing.
fn says(error: &RpcError) -> String {
    let message = match error.message.trim() {
        "" => format!("error {}", error.code),
        message => cut(message, TITLE_BYTES),
    };
    let more = ["details", "message"].iter().find_map(|field| text(&error.data, field, TITLE_BYTES));
    match more.or_else(|| error.data.as_str().map(|data| cut(data, TITLE_BYTES))) {
        Some(more) if more != message => format!("{message}: {more}"),
        _ => message,
    }
}

fn class(error: &RpcError) -> Option<ErrorCode> {
    // Our own agent names the class by its word.
    if let Some(class) = error.data.get("class")
        && let Ok(class) = ErrorCode::deserialize(class)
    {
        return Some(class);
    }
    if error.code == code::AUTH_REQUIRED {
        return Some(ErrorCode::Auth);
    }
    let fields = ["status", "statusCode", "httpStatus", "httpStatusCode", "code"];
    let numbers = fields.iter().filter_map(|field| error.data.get(field)?.as_i64());
    std::iter::once(error.code).chain(numbers).find_map(by_status).or_else(|| by_words(&text_of(error)))
}

/// Statuses of HTTP, which some agents use as they are.
fn by_status(status: i64) -> Option<ErrorCode> {
    Some(match status {
        401 | 403 => ErrorCode::Auth,
        402 => ErrorCode::QuotaExhausted,
        408 | 504 => ErrorCode::Timeout,
        413 => ErrorCode::ContextOverflow,
        429 => ErrorCode::RateLimited,
        500 | 502 | 503 | 529 => ErrorCode::Overloaded,
        _ => return None,
    })
}

const WORDS: &[(ErrorCode, &[&str])] = &[
    (ErrorCode::QuotaExhausted, &["usage limit", "quota", "insufficient credit", "credit balance"]),
    (ErrorCode::RateLimited, &["rate limit", "rate-limit", "rate_limit", "too many requests"]),
    (ErrorCode::Overloaded, &["overloaded", "service unavailable"]),
    (
        ErrorCode::ContextOverflow,
        &["context window", "context length", "context_length", "prompt is too long"],
    ),
    (
        ErrorCode::Auth,
        &["authentication required", "unauthorized", "invalid api key", "not logged in", "please log in"],
    ),
];

fn by_words(text: &str) -> Option<ErrorCode> {
    let named = |words: &[&str]| words.iter().any(|word| text.contains(word));
    WORDS.iter().find(|(_, words)| named(words)).map(|(code, _)| *code)
}

/// All that the error says, in small letters and bounded.
fn text_of(error: &RpcError) -> String {
    let data = match &error.data {
        Value::Null => String::new(),
        Value::String(text) => cut(text, DETAIL_BYTES),
        data => cut(&data.to_string(), DETAIL_BYTES),
    };
    format!("{} {data}", cut(&error.message, DETAIL_BYTES)).to_lowercase()
}
