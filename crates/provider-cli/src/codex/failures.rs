//! Why a turn failed, in our classes. Kinds are added with each release: one that is not known is judged by the status of
//! HTTP that it carries, else it is a crash.

use serde::Deserialize;
use serde_json::Value;
use subagent_model::{ErrorCode, ErrorInfo, Limit};

use super::frames::Fault;
use super::limits::Limits;
use crate::bounds::failure;
use crate::native::class_of_status;

/// What a turn failed of.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TurnError {
    message: Option<String>,
    codex_error_info: Value,
    additional_details: Option<String>,
}

/// The code of requests that a busy peer did not take.
const BUSY: i64 = -32_001;
/// The code of requests that name something that is not there.
const INVALID: i64 = -32_600;

impl TurnError {
    pub(super) fn read(value: &Value) -> Self {
        serde_json::from_value(value.clone()).unwrap_or_default()
    }

    pub(super) fn text(&self) -> &str {
        self.message.as_deref().unwrap_or("the turn failed, and it was not said why")
    }

    /// What it is about beside its message.
    pub(super) fn details(&self) -> Option<&str> {
        self.additional_details.as_deref()
    }

    pub(super) fn code(&self) -> ErrorCode {
        use ErrorCode as E;
        match kind(&self.codex_error_info) {
            "contextWindowExceeded" => E::ContextOverflow,
            "usageLimitExceeded" => E::QuotaExhausted,
            "rateLimitExceeded" => E::RateLimited,
            "serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable" | "internalServerError" => {
                E::Overloaded
            }
            "unauthorized" => E::Auth,
            "cyberPolicy"
            | "bioPolicy"
            | "misalignmentPolicyViolation"
            | "inferenceHookDenied"
            | "tooManyDenials"
            | "modelNotFound"
            | "badRequest" => E::Refused,
            "httpConnectionFailed"
            | "responseStreamConnectionFailed"
            | "responseStreamDisconnected"
            | "responseTooManyFailedAttempts" => {
                self.status().and_then(class_of_status).unwrap_or(E::Overloaded)
            }
            _ => self.status().and_then(class_of_status).unwrap_or(E::Crashed),
        }
    }

    /// A limit of the provider, and no trouble on the way to it.
    pub(super) fn is_of_a_limit(&self) -> bool {
        let trouble = self.codex_error_info.is_object() && self.status().is_none();
        matches!(self.code(), ErrorCode::RateLimited | ErrorCode::QuotaExhausted | ErrorCode::Overloaded)
            && !trouble
    }

    /// A limit that was set for it in its own configuration, where it is one.
    pub(super) fn own_limit(&self) -> Option<Limit> {
        (kind(&self.codex_error_info) == "sessionBudgetExceeded").then_some(Limit::Tokens)
    }

    fn status(&self) -> Option<u64> {
        let detail = self.codex_error_info.as_object()?.values().next()?;
        detail["httpStatusCode"].as_u64()
    }

    /// The same failure under the name that it had while it was tried again: the last word may have lost it.
    pub(super) fn named_by(self, retried: Option<&Self>) -> Self {
        match retried {
            Some(retried)
                if kind(&self.codex_error_info) == "other"
                    && retried.additional_details.is_some()
                    && retried.additional_details == self.message =>
            {
                Self { codex_error_info: retried.codex_error_info.clone(), ..self }
            }
            _ => self,
        }
    }

    pub(super) fn info(&self, limits: &Limits) -> ErrorInfo {
        let code = self.code();
        let own = kind(&self.codex_error_info);
        let detail = [
            Some(own).filter(|own| !own.is_empty()).map(|own| format!("({own})")),
            self.additional_details.clone(),
        ];
        let detail = detail.into_iter().flatten().collect::<Vec<_>>().join("\n");
        let mut info = failure(code, self.text(), Some(&detail));
        info.reset_at = limits.reset_at_of(code);
        info
    }
}

/// The name of a kind: a word, or the only key of an object.
fn kind(info: &Value) -> &str {
    match info {
        Value::String(word) => word,
        Value::Object(object) => object.keys().next().map_or("", String::as_str),
        _ => "",
    }
}

/// A request of ours that was not carried out.
pub(super) fn not_carried_out(what: &str, fault: &Fault) -> ErrorInfo {
    let code = if fault.code == BUSY { ErrorCode::Overloaded } else { ErrorCode::Crashed };
    failure(code, &format!("{what}: {}", fault.message), None)
}

/// A thread that could not be opened. One that is named and not there is gone.
pub(super) fn not_opened(named: bool, fault: &Fault) -> ErrorInfo {
    let code = match fault.code {
        BUSY => ErrorCode::Overloaded,
        INVALID if named => ErrorCode::SessionGone,
        _ => ErrorCode::StartFailed,
    };
    failure(code, &format!("its thread could not be opened: {}", fault.message), None)
}
