//! What children ask, and the answers.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::Deserialize;
use subagent_model::request::{AnswerRequest, OpenRequest, RequestList};
use subagent_model::{ErrorCode, Problem, RequestNumber, SubagentRecord};

use super::{App, Body, Params, parsed};
use crate::answer::{Answer, Refused};
use crate::caller::{From as CallerFrom, Name};

/// Query of the requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestsQuery {
    /// Also what the current runs asked before.
    all: Option<bool>,
}

pub(crate) async fn requests(
    State(app): App,
    from: CallerFrom,
    query: Params<RequestsQuery>,
) -> Answer<Json<RequestList>> {
    let Query(query) = query?;
    Ok(Json(app.runtime.requests(&from.caller, query.all.unwrap_or(false)).await?))
}

pub(crate) async fn answer(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    body: Body,
) -> Answer<Json<OpenRequest>> {
    let request: AnswerRequest = parsed(body).await?;
    let Some((subagent, number)) = numbered(&name) else {
        let message = format!("there is no request {name:.80?}: its name is SUBAGENT.qN");
        return Err(Refused(Problem::new(ErrorCode::NotFound, message)));
    };
    let id = app.id(subagent).await?;
    Ok(Json(app.runtime.answer(&from.caller, id, number, request).await?))
}

/// The subagent and the number in the name of a request: `SUBAGENT.qN`.
fn numbered(name: &str) -> Option<(&str, RequestNumber)> {
    let (subagent, number) = name.rsplit_once(".q")?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Some((subagent, RequestNumber(number.parse().ok()?)))).flatten()
}

pub(crate) async fn revoke(
    State(app): App,
    from: CallerFrom,
    path: Result<Path<(String, u64)>, PathRejection>,
) -> Answer<Json<SubagentRecord>> {
    let Path((name, number)) = path?;
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.revoke(&from.caller, id, RequestNumber(number)).await?))
}

#[cfg(test)]
mod tests {
    use subagent_model::RequestNumber;

    use super::numbered;

    #[test]
    fn the_name_of_a_request_has_a_subagent_and_a_number() {
        assert_eq!(numbered("k7q2mx.q3"), Some(("k7q2mx", RequestNumber(3))));
        for name in ["k7q2mx", "k7q2mx.3", "k7q2mx.q", "k7q2mx.q-1", "k7q2mx.q+1", "k7q2mx.q3 "] {
            assert_eq!(numbered(name), None, "{name}");
        }
    }
}
