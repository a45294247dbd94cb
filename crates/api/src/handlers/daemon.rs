//! The daemon itself: how it stands, what goes on in it, what it may release, and its end.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subagent_model::request::{Activity, GcReply, GcRequest, Health};
use subagent_model::{ErrorCode, Problem};

use super::{App, Body, Params, parsed_or_default};
use crate::answer::{Answer, Refused};
use crate::caller::From as CallerFrom;
use crate::server::ShutdownRequest;

pub(crate) async fn health(State(app): App) -> Answer<Json<Health>> {
    Ok(Json(app.runtime.health().await?))
}

/// Query of the activity.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActivityQuery {
    /// Only of this subagent.
    subagent: Option<String>,
}

/// What children are doing right now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActivityList {
    /// One look at each.
    items: Vec<Activity>,
}

pub(crate) async fn activity(
    State(app): App,
    from: CallerFrom,
    query: Params<ActivityQuery>,
) -> Answer<Json<ActivityList>> {
    let Query(query) = query?;
    let only = match &query.subagent {
        Some(name) => Some(app.id(name).await?),
        None => None,
    };
    let mut items = app.runtime.activity(&from.caller).await?;
    items.retain(|activity| only.is_none_or(|only| only == activity.id));
    Ok(Json(ActivityList { items }))
}

pub(crate) async fn gc(State(app): App, from: CallerFrom, body: Body) -> Answer<Json<GcReply>> {
    let request: GcRequest = parsed_or_default(body).await?;
    Ok(Json(app.runtime.gc(&from.caller, request).await?))
}

pub(crate) async fn openapi() -> Json<serde_json::Value> {
    Json(crate::openapi())
}

pub(crate) async fn shutdown(State(app): App, from: CallerFrom, body: Body) -> Answer<StatusCode> {
    let request: ShutdownRequest = parsed_or_default(body).await?;
    if from.is_nested() {
        let message = format!("{} may not end the daemon that holds it", from.caller.requester);
        return Err(Refused(Problem::new(ErrorCode::NotYours, message)));
    }
    app.admin
        .shutdown
        .send(request)
        .await
        .map_err(|_| Refused(Problem::new(ErrorCode::Draining, "the daemon is shutting down already")))?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn no_such_method() -> Response {
    let message = "the route does not take this method; GET /openapi.json lists what it takes";
    let refused = Json(Problem::new(ErrorCode::InvalidRequest, message));
    (StatusCode::METHOD_NOT_ALLOWED, refused).into_response()
}

pub(crate) async fn no_such_route() -> Refused {
    Refused(Problem::new(ErrorCode::NotFound, "there is no such route; GET /openapi.json lists them"))
}
