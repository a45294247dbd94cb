//! Results on their way to their requester: unread, claimed, given back, consumed.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subagent_model::request::{ClaimRequest, InboxItem, ReturnRequest};
use subagent_runtime::{AckReply, AckTarget};

use super::{App, Body, Params, delivery, parsed, poll};
use crate::answer::{Answer, Refused};
use crate::caller::From as CallerFrom;
use crate::handed::{self, Handed, What};

/// Query of an inbox.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxQuery {
    /// At most this many: 100, at most 1,000.
    limit: Option<u32>,
    /// Hold the answer up to this many milliseconds while there is nothing unread; at most a minute.
    wait_ms: Option<u64>,
    /// What nobody has consumed, whoever it is for. Only for a person.
    all: Option<bool>,
}

/// What has not been consumed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Inbox {
    /// The ended runs, oldest first.
    items: Vec<InboxItem>,
}

pub(crate) async fn inbox(
    State(app): App,
    from: CallerFrom,
    query: Params<InboxQuery>,
) -> Answer<Json<Inbox>> {
    let Query(query) = query?;
    let limit = query.limit.unwrap_or(100);
    let items = match (query.all.unwrap_or(false), query.wait_ms) {
        (false, wait) => app.runtime.inbox(&from.caller, limit, poll(wait)).await?,
        (true, None) => app.runtime.inbox_of_all(&from.caller, limit).await?,
        (true, Some(_)) => return Err(Refused::invalid("`wait_ms` goes with the caller's own inbox only")),
    };
    Ok(Json(Inbox { items }))
}

pub(crate) async fn claim(State(app): App, from: CallerFrom, body: Body) -> Answer<Response> {
    let mut request: ClaimRequest = parsed(body).await?;
    request.wait_ms = poll(request.wait_ms).map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    let carrier = request.carrier.clone();
    let items = app.runtime.claim(&from.caller, request).await?;
    let back = ReturnRequest {
        carrier,
        deliveries: items.iter().map(|item| item.delivery_id.clone()).collect(),
        reason: String::from("the answer could not be handed over"),
    };
    let handed = Handed { runtime: Arc::clone(&app.runtime), caller: from.caller, what: What::Claim(back) };
    Ok(handed::json(&Inbox { items }, Some(handed)))
}

pub(crate) async fn give_back(State(app): App, from: CallerFrom, body: Body) -> Answer<StatusCode> {
    let mut request: ReturnRequest = parsed(body).await?;
    for name in &mut request.deliveries {
        if let (subagent, run @ Some(_)) = delivery(name) {
            *name = AckTarget { id: app.id(subagent).await?, run }.to_string();
        }
    }
    app.runtime.give_back(&from.caller, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Marks results as consumed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    /// Ids or handles of the subagents: every ended run that is addressed to the caller. With `.RUN` behind it, as the
    /// delivery ids of the inbox are written, that run and no other.
    pub ids: Vec<String>,
    /// Answer before it is on disk.
    #[serde(default)]
    pub lazily: bool,
}

pub(crate) async fn acknowledge(State(app): App, from: CallerFrom, body: Body) -> Answer<Json<AckReply>> {
    let request: AckRequest = parsed(body).await?;
    let mut targets = Vec::with_capacity(request.ids.len());
    let mut refused = Vec::new();
    for name in &request.ids {
        let (subagent, run) = delivery(name);
        match app.runtime.resolve(subagent).await {
            Ok(id) => targets.push(AckTarget { id, run }),
            Err(problem) => refused.push(problem.with_ids(vec![name.clone()])),
        }
    }
    let mut reply = app.runtime.acknowledge(&from.caller, targets, request.lazily).await?;
    reply.refused.extend(refused);
    Ok(Json(reply))
}
