//! Subagents of a child's own: listed, and stopped one by one.

use axum::Json;
use axum::extract::State;
use subagent_model::{InnerList, StopInnerReply, StopInnerRequest};

use super::{App, Body, parsed};
use crate::answer::Answer;
use crate::caller::{From as CallerFrom, Name};

pub(crate) async fn inner(State(app): App, from: CallerFrom, Name(name): Name) -> Answer<Json<InnerList>> {
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.inner(&from.caller, id).await?))
}

pub(crate) async fn stop_inner(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    body: Body,
) -> Answer<Json<StopInnerReply>> {
    let request: StopInnerRequest = parsed(body).await?;
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.stop_inner(&from.caller, id, request).await?))
}
