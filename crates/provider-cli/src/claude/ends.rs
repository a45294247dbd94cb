//! What the end of a turn means. The class of a failure comes from fields, never from the words of a message.

use subagent_model::text::cut_at_boundary;
use subagent_model::{ErrorCode, ErrorInfo, Limit, Timestamp};
use subagent_provider::TurnEnd;

use super::frames::{RateLimit, ResultFrame};

/// Most bytes of the headline of a failure.
const HEADLINE_BYTES: usize = 4 * 1024;
/// Most bytes of its detail.
const DETAIL_BYTES: usize = 16 * 1024;

/// What is known of a failure beside its result.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Fault {
    /// The class of the failure that stood in the place of the last message.
    pub(super) class: Option<String>,
    /// The quota that is used up.
    pub(super) quota: Option<Quota>,
}

/// A quota that is used up, so that requests are turned down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quota {
    /// When it is renewed.
    pub(super) reset_at: Option<Timestamp>,
}

impl Quota {
    /// None where requests go through.
    pub(super) fn used_up(limit: &RateLimit) -> Option<Self> {
        let rejects = limit.status == "rejected" && !limit.overage;
        rejects.then(|| Self { reset_at: resets_at(limit) })
    }
}

/// What the result of a turn means.
pub(super) fn end(result: &ResultFrame, fault: &Fault) -> TurnEnd {
    if result.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted")) {
        return TurnEnd::Cancelled;
    }
    match &*result.subtype {
        "error_max_turns" => TurnEnd::CutOff(Limit::Turns),
        "error_max_budget_usd" => TurnEnd::CutOff(Limit::Cost),
        "success" if !result.is_error => TurnEnd::Finished {
            answer: answer(result),
            truncated: result.stop_reason.as_deref() == Some("max_tokens"),
        },
        _ => TurnEnd::Failed(failure(result, fault)),
    }
}

/// A session that could not be begun: no turn was open.
pub(super) fn not_opened(result: &ResultFrame, continues: bool) -> TurnEnd {
    let mut error = failure(result, &Fault::default());
    if continues && error.code == ErrorCode::Crashed {
        error.code = ErrorCode::SessionGone;
    }
    TurnEnd::Failed(error)
}

/// A turn that ended, and no result came with it.
pub(super) fn without_result() -> TurnEnd {
    TurnEnd::Failed(ErrorInfo {
        code: ErrorCode::NoFinalMessage,
        message: String::from("its turn ended without a result"),
        detail: None,
        retryable: false,
        reset_at: None,
        exit: None,
    })
}

/// The answer to a schema where there is one, else the text. A blank one is none.
fn answer(result: &ResultFrame) -> Option<String> {
    let structured = result.structured_output.as_ref().map(|value| value.get().to_owned());
    structured.or_else(|| result.result.clone().filter(|text| !text.trim().is_empty()))
}

fn failure(result: &ResultFrame, fault: &Fault) -> ErrorInfo {
    let quota = result.rate_limit_info.as_ref().and_then(Quota::used_up).or(fault.quota);
    let code = code(result, fault.class.as_deref(), quota.is_some());
    let reset_at = quota.and_then(|quota| quota.reset_at).filter(|_| code == ErrorCode::QuotaExhausted);
    let text = result.result.clone().filter(|text| !text.trim().is_empty());
    let text = text.unwrap_or_else(|| result.errors.join("\n"));
    let (headline, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    let headline = if headline.is_empty() { "it ended its turn with an error" } else { headline };
    let facts = [
        ("subtype", Some(result.subtype.clone()).filter(|subtype| subtype != "success")),
        ("class", fault.class.clone()),
        ("status", result.api_error_status.map(|status| status.to_string())),
        ("reason", result.terminal_reason.clone()),
    ];
    let facts: Vec<_> =
        facts.into_iter().filter_map(|(name, fact)| Some(format!("{name} {}", fact?))).collect();
    let detail = format!("{}\n{}", rest.trim(), facts.join(", "));
    ErrorInfo {
        code,
        message: cut_at_boundary(headline, HEADLINE_BYTES).to_owned(),
        detail: Some(cut_at_boundary(detail.trim(), DETAIL_BYTES).to_owned()).filter(|text| !text.is_empty()),
        retryable: matches!(code, ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::Timeout),
        reset_at,
        exit: None,
    }
}

fn code(result: &ResultFrame, class: Option<&str>, quota: bool) -> ErrorCode {
    if result.subtype == "error_max_structured_output_retries" {
        return ErrorCode::SchemaMismatch;
    }
    if result.stop_reason.as_deref() == Some("refusal") {
        return ErrorCode::Refused;
    }
    if result.terminal_reason.as_deref() == Some("prompt_too_long") {
        return ErrorCode::ContextOverflow;
    }
    if result.api_error.as_deref() == Some("connection_failed") {
        return ErrorCode::Timeout;
    }
    let by_class = class.and_then(|class| of_class(class, quota));
    by_class.or_else(|| of_status(result.api_error_status?, quota)).unwrap_or(ErrorCode::Crashed)
}

/// By the class that it gives a failure.
fn of_class(class: &str, quota: bool) -> Option<ErrorCode> {
    Some(match class {
        "authentication_failed"
        | "oauth_org_not_allowed"
        | "account_on_hold"
        | "verification_required"
        | "cloud_credential_error" => ErrorCode::Auth,
        "billing_error" => ErrorCode::QuotaExhausted,
        "rate_limit" => limited(quota),
        "overloaded" | "server_error" => ErrorCode::Overloaded,
        "invalid_request" | "model_not_found" | "max_output_tokens" => ErrorCode::Refused,
        _ => return None,
    })
}

/// By the status of the API.
fn of_status(status: u16, quota: bool) -> Option<ErrorCode> {
    Some(match status {
        401 | 403 => ErrorCode::Auth,
        402 => ErrorCode::QuotaExhausted,
        408 => ErrorCode::Timeout,
        413 => ErrorCode::ContextOverflow,
        429 => limited(quota),
        400..=499 => ErrorCode::Refused,
        500..=599 => ErrorCode::Overloaded,
        _ => return None,
    })
}

fn limited(quota: bool) -> ErrorCode {
    if quota { ErrorCode::QuotaExhausted } else { ErrorCode::RateLimited }
}

/// When it is renewed.
pub(super) fn resets_at(quota: &RateLimit) -> Option<Timestamp> {
    let seconds = quota.resets_at.filter(|at| at.is_finite() && *at > 0.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "a time out of range is clamped")]
    Some(Timestamp::from_micros((seconds * 1e6) as i64))
}
