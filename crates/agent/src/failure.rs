//! What a failure of an endpoint means: its class, and when to try again. Pure: status, headers and body come in.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use subagent_model::ErrorCode;
use subagent_model::text::cut_at_boundary;

/// Most bytes of a message for people.
const MESSAGE_BYTES: usize = 600;

/// A request to the model that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Its class.
    pub code: ErrorCode,
    /// What happened, one line, free of keys.
    pub message: String,
    /// How long the endpoint wants to be left alone, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// When the limit is lifted: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at_ms: Option<u64>,
    /// The status of HTTP, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl Failure {
    /// One without more than its class.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = cut_at_boundary(&line, MESSAGE_BYTES).to_owned();
        Self { code, message, retry_after_ms: None, reset_at_ms: None, status: None }
    }

    /// Trying again, with the same request, may help.
    pub fn is_passing(&self) -> bool {
        matches!(self.code, ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::Timeout)
    }

    /// Takes a secret out of what is told.
    #[must_use]
    pub fn without(mut self, secret: &str) -> Self {
        if !secret.is_empty() {
            self.message = self.message.replace(secret, "[key]");
        }
        self
    }
}

/// What an answer that is no success says beside its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told<'a> {
    /// `retry-after`, as it stands.
    pub retry_after: Option<&'a str>,
    /// `retry-after-ms`, as it stands.
    pub retry_after_ms: Option<&'a str>,
    /// `anthropic-ratelimit-unified-status`.
    pub unified_status: Option<&'a str>,
    /// `anthropic-ratelimit-unified-reset`: seconds since 1970.
    pub unified_reset: Option<&'a str>,
}

/// The failure that an answer with this status is. `now_ms` is the time, since 1970.
pub fn of_answer(status: u16, told: &Told<'_>, body: &str, now_ms: u64) -> Failure {
    let document: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    // Gemini answers to requests for a stream with a list.
    let document = document.get(0).unwrap_or(&document);
    let mut failure = of_error(status, document, body);
    failure.status = Some(status);
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok());
    failure.retry_after_ms = number(told.retry_after_ms)
        .or_else(|| number(told.retry_after).map(|seconds| seconds.saturating_mul(1_000)))
        .or(failure.retry_after_ms);
    if told.unified_status == Some("rejected") {
        failure.code = ErrorCode::QuotaExhausted;
        failure.reset_at_ms = number(told.unified_reset).map(|seconds| seconds.saturating_mul(1_000));
    }
    if failure.code == ErrorCode::QuotaExhausted && failure.reset_at_ms.is_none() {
        failure.reset_at_ms = failure.retry_after_ms.map(|wait| now_ms.saturating_add(wait));
    }
    failure
}

/// The failure that stands in the middle of a stream.
pub fn of_event(document: &Value) -> Failure {
    of_error(0, document, "")
}

fn of_error(status: u16, document: &Value, body: &str) -> Failure {
    let error = document.get("error").unwrap_or(document);
    let said = error.get("message").and_then(Value::as_str).or_else(|| error.as_str());
    let said = match said {
        Some(said) if !said.trim().is_empty() => said.to_owned(),
        _ => cut_at_boundary(body.trim(), MESSAGE_BYTES).to_owned(),
    };
    let word = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
    let words = format!("{} {} {} {said}", word("type"), word("code"), word("status")).to_lowercase();
    let code = class(status, &words, error);
    let message = match (status, said.as_str()) {
        (0, said) => format!("the endpoint failed in its answer: {said}"),
        (_, "") => format!("the endpoint answered {status}"),
        (_, said) => format!("the endpoint answered {status}: {said}"),
    };
    let mut failure = Failure::new(code, message);
    if code == ErrorCode::QuotaExhausted {
        let resets = error.get("resets_at").and_then(Value::as_u64);
        failure.reset_at_ms = resets.map(|seconds| seconds.saturating_mul(1_000));
    }
    failure.retry_after_ms = retry_info(error);
    failure
}

/// What Gemini says of trying again.
fn retry_info(error: &Value) -> Option<u64> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(wait.as_millis()).ok()
}

/// Words that tell a class where the status is shared by several.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "exceeds the available context",
    "input token count",
    "request_too_large",
];
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "usage_limit_reached",
    "usage limit",
    "exceeded your current quota",
    "credit balance",
    "billing",
    "insufficient credit",
];
const KEY: &[&str] =
    &["api key", "api_key", "invalid_api_key", "authentication", "unauthenticated", "unauthorized"];
const FILTER: &[&str] = &["content_filter", "content policy", "content management policy", "safety"];

fn class(status: u16, words: &str, error: &Value) -> ErrorCode {
    let has = |list: &[&str]| list.iter().any(|word| words.contains(word));
    let daily = || {
        let text = error.get("details").map(ToString::to_string).unwrap_or_default();
        text.contains("QuotaFailure") && text.contains("PerDay")
    };
    match status {
        401 | 403 => ErrorCode::Auth,
        402 => ErrorCode::QuotaExhausted,
        413 => ErrorCode::ContextOverflow,
        408 | 504 => ErrorCode::Timeout,
        429 if has(QUOTA) || daily() => ErrorCode::QuotaExhausted,
        429 => ErrorCode::RateLimited,
        // In the middle of a stream there is no status.
        0 | 400 | 422 | 500..=599 if has(OVERFLOW) => ErrorCode::ContextOverflow,
        0 | 400 | 422 if has(KEY) => ErrorCode::Auth,
        400 | 422 if has(QUOTA) => ErrorCode::QuotaExhausted,
        400 | 422 if has(FILTER) => ErrorCode::Refused,
        0 if has(&["rate_limit", "rate limit", "resource_exhausted"]) => ErrorCode::RateLimited,
        0 | 409 | 425 | 500..=599 => ErrorCode::Overloaded,
        _ => ErrorCode::InvalidRequest,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Failure, Told, of_answer, of_event};
    use subagent_model::ErrorCode;

    fn class(status: u16, body: &serde_json::Value) -> ErrorCode {
        of_answer(status, &Told::default(), &body.to_string(), 0).code
    }

    #[test]
    fn every_class_is_told_from_what_endpoints_really_write() {
        let openai =
            |code: &str, message: &str| json!({"error": {"message": message, "type": code, "code": code}});
        for (status, body, expected) in [
            (401, openai("invalid_api_key", "Incorrect API key provided"), ErrorCode::Auth),
            (403, json!({"error": {"message": "no", "status": "PERMISSION_DENIED"}}), ErrorCode::Auth),
            (
                400,
                json!({"error": {"message": "API key not valid. Please pass a valid API key."}}),
                ErrorCode::Auth,
            ),
            (429, openai("rate_limit_exceeded", "slow down"), ErrorCode::RateLimited),
            (429, openai("insufficient_quota", "You exceeded your current quota"), ErrorCode::QuotaExhausted),
            (429, openai("usage_limit_reached", "later"), ErrorCode::QuotaExhausted),
            (402, json!({}), ErrorCode::QuotaExhausted),
            (400, openai("context_length_exceeded", "too long"), ErrorCode::ContextOverflow),
            (
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error",
                    "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
                ErrorCode::ContextOverflow,
            ),
            (413, json!({}), ErrorCode::ContextOverflow),
            (500, json!({}), ErrorCode::Overloaded),
            (
                529,
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
                ErrorCode::Overloaded,
            ),
            (400, openai("content_filter", "no"), ErrorCode::Refused),
            (404, openai("model_not_found", "no such model"), ErrorCode::InvalidRequest),
            (400, openai("invalid_request_error", "bad tool"), ErrorCode::InvalidRequest),
        ] {
            assert_eq!(class(status, &body), expected, "{status} {body}");
        }
        let quota = json!({"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
             "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9.5s"}]}});
        let failure = of_answer(429, &Told::default(), &json!([quota]).to_string(), 1_000);
        assert_eq!((failure.code, failure.reset_at_ms), (ErrorCode::QuotaExhausted, Some(10_500)));
        assert_eq!(
            of_event(&json!({"error": {"type": "overloaded_error", "message": "m"}})).code,
            ErrorCode::Overloaded
        );
    }

    #[test]
    fn queue_20_the_time_of_a_reset_is_read_wherever_it_stands() {
        let body =
            json!({"error": {"message": "m", "type": "usage_limit_reached", "resets_at": 77}}).to_string();
        assert_eq!(of_answer(429, &Told::default(), &body, 0).reset_at_ms, Some(77_000));
        let told = Told { unified_status: Some("rejected"), unified_reset: Some("88"), ..Told::default() };
        let failure = of_answer(429, &told, "{}", 0);
        assert_eq!((failure.code, failure.reset_at_ms), (ErrorCode::QuotaExhausted, Some(88_000)));
        let told = Told { retry_after: Some("3"), ..Told::default() };
        assert_eq!(of_answer(503, &told, "gone", 0).retry_after_ms, Some(3_000));
        let told = Told { retry_after: Some("soon"), ..Told::default() };
        assert_eq!(of_answer(503, &told, "gone", 0).retry_after_ms, None);
    }

    #[test]
    fn a_key_is_taken_out_of_what_is_told() {
        let body = json!({"error": {"message": "Incorrect API key provided: sk-123"}}).to_string();
        let failure = of_answer(401, &Told::default(), &body, 0).without("sk-123");
        assert_eq!(failure.message, "the endpoint answered 401: Incorrect API key provided: [key]");
        assert_eq!(Failure::new(ErrorCode::Auth, "x").without("").message, "x");
    }
}
