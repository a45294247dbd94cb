//! Who calls, from the request's header, and whom it names, from its path.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use subagent_model::Requester;
use subagent_runtime::Caller;

use crate::REQUESTER_HEADER;
use crate::answer::Refused;

/// Longest name of a requester.
const LONGEST: usize = 256;

/// The caller of a request; `api` when it names itself not.
pub(crate) struct From(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for From {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let name = match parts.headers.get(REQUESTER_HEADER) {
            None => "api",
            Some(value) => value
                .to_str()
                .ok()
                .filter(|name| !name.is_empty() && name.len() <= LONGEST)
                .ok_or_else(|| {
                    Refused::invalid(format!("{REQUESTER_HEADER} must be 1 to {LONGEST} visible characters"))
                })?,
        };
        Ok(Self(Caller { requester: Requester::from(name) }))
    }
}

/// The id, handle or beginning of one in a request's path.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Path(name) = Path::<String>::from_request_parts(parts, state).await?;
        Ok(Self(name))
    }
}
