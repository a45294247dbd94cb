//! Runs and what is said to them: resumed, steered, given more to use.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use subagent_model::request::{BudgetRequest, MessageList, ResumeRequest, RunList, SteerReply, SteerRequest};
use subagent_model::{ErrorCode, Problem, SubagentRecord};

use super::{App, Body, idempotency_key, parsed};
use crate::answer::{Answer, Refused};
use crate::caller::{From as CallerFrom, Name};

pub(crate) async fn runs(State(app): App, from: CallerFrom, Name(name): Name) -> Answer<Json<RunList>> {
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.runs(&from.caller, id).await?))
}

pub(crate) async fn resume(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    let mut request: ResumeRequest = parsed(body).await?;
    request.idempotency_key = idempotency_key(&headers, request.idempotency_key)?;
    let id = app.id(&name).await?;
    let reply = app.runtime.resume(&from.caller, id, request).await?;
    let status = if reply.existing { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(reply)).into_response())
}

pub(crate) async fn steer(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<SteerReply>> {
    let mut request: SteerRequest = parsed(body).await?;
    request.idempotency_key = idempotency_key(&headers, request.idempotency_key)?;
    let id = app.id(&name).await?;
    let reply = app.runtime.steer(&from.caller, id, request).await;
    Ok(Json(reply.map_err(|problem| with_way_on(problem, &name))?))
}

/// Names the command that takes the message where it was not taken.
fn with_way_on(problem: Problem, name: &str) -> Refused {
    let hint = match problem.code {
        ErrorCode::NoOpenTurn => format!(
            "Send it as the prompt of the next run: `subagent resume {name} MESSAGE`; while a run is live, \
             `subagent steer {name} MESSAGE --follow-up`."
        ),
        ErrorCode::NotCapable => {
            format!("Send it as the prompt of the next run: `subagent steer {name} MESSAGE --follow-up`.")
        }
        _ => return problem.into(),
    };
    Refused(Problem { hint: Some(hint), ..problem })
}

pub(crate) async fn messages(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
) -> Answer<Json<MessageList>> {
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.messages(&from.caller, id).await?))
}

pub(crate) async fn change_budget(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    body: Body,
) -> Answer<Json<SubagentRecord>> {
    let request: BudgetRequest = parsed(body).await?;
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.change_budget(&from.caller, id, request).await?))
}
