//! Why a turn failed, in our classes. Pi tells no kinds, only texts: a status of HTTP at the beginning of one counts first,
//! then words that the providers of models use.

use subagent_model::{ErrorCode, ErrorInfo};

use crate::bounds::failure;
use crate::native::class_of_status;

/// Words by which a failure is known, in the order in which they count.
const WORDS: [(&[&str], ErrorCode); 6] = [
    (
        &["context length", "context window", "prompt is too long", "maximum context", "context_length"],
        ErrorCode::ContextOverflow,
    ),
    (&["quota", "usage limit", "insufficient_quota", "billing"], ErrorCode::QuotaExhausted),
    (&["rate limit", "rate_limit", "too many requests"], ErrorCode::RateLimited),
    (&["overloaded", "unavailable"], ErrorCode::Overloaded),
    (&["api key", "unauthorized", "authentication", "/login", "credential"], ErrorCode::Auth),
    (&["content filter", "content_filter", "refused", "policy"], ErrorCode::Refused),
];
/// Words of trouble on the way to a provider.
const TROUBLE: [&str; 8] =
    ["terminated", "socket", "econn", "fetch failed", "network", "timed out", "timeout", "connection"];

/// The class of a failure.
pub(super) fn class(text: &str) -> ErrorCode {
    let lower = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let by_word = WORDS.iter().find(|(words, _)| says(words)).map(|(_, code)| *code);
    let by_status = status(&lower).and_then(class_of_status);
    // A status is wide: these two words say what it is about.
    let narrower =
        by_word.filter(|code| matches!(code, ErrorCode::ContextOverflow | ErrorCode::QuotaExhausted));
    let trouble = || says(&TROUBLE).then_some(ErrorCode::Overloaded);
    narrower.or(by_status).or(by_word).or_else(trouble).unwrap_or(ErrorCode::Crashed)
}

/// A status of HTTP at the beginning: `401: ...`, `429 {...}`, `error: 503 ...`.
fn status(text: &str) -> Option<u64> {
    let text = text.trim_start().trim_start_matches("error").trim_start_matches([':', ' ']);
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    let status = text[..end].parse().ok()?;
    (400..=599).contains(&status).then_some(status)
}

/// A limit of the provider, and no trouble on the way to it.
pub(super) fn is_of_a_limit(text: &str) -> bool {
    let limited =
        matches!(class(text), ErrorCode::RateLimited | ErrorCode::QuotaExhausted | ErrorCode::Overloaded);
    limited && (status(&text.to_lowercase()).is_some() || !TROUBLE.iter().any(|word| text.contains(word)))
}

/// A turn that failed with this text.
pub(super) fn failed(text: &str) -> ErrorInfo {
    failure(class(text), text, None)
}
