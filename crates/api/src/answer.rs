//! Errors as HTTP answers: the status from the code's table, the problem as the body.

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use subagent_model::{ErrorCode, Problem};

/// A problem on its way out.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Problem);

pub(crate) type Answer<T> = Result<T, Refused>;

impl Refused {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self(Problem::new(ErrorCode::InvalidRequest, message))
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<QueryRejection> for Refused {
    fn from(rejection: QueryRejection) -> Self {
        Self::invalid(rejection.body_text())
    }
}

impl From<PathRejection> for Refused {
    fn from(rejection: PathRejection) -> Self {
        Self::invalid(rejection.body_text())
    }
}

impl From<BytesRejection> for Refused {
    fn from(rejection: BytesRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let message = format!("the request is larger than {} bytes", crate::LARGEST_BODY);
            return Self(Problem::new(ErrorCode::PromptTooLarge, message));
        }
        Self::invalid(rejection.body_text())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.0)).into_response()
    }
}
