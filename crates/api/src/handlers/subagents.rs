//! Subagents: asked for, listed, shown.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subagent_model::request::{ListFilter, Page, QueuePlace, SpawnRequest, UsageReport};
use subagent_model::{Status, SubagentId, SubagentRecord};

use super::{App, Body, Params, idempotency_key, parsed};
use crate::answer::{Answer, Refused};
use crate::caller::{From as CallerFrom, Name};

pub(crate) async fn spawn(
    State(app): App,
    from: CallerFrom,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    let mut request: SpawnRequest = parsed(body).await?;
    request.idempotency_key = idempotency_key(&headers, request.idempotency_key)?;
    from.nest(&app, &mut request).await?;
    let reply = app.runtime.spawn(&from.caller, request).await?;
    let status = if reply.existing { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(reply)).into_response())
}

/// Query of a listing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Only these statuses, separated by commas.
    status: Option<String>,
    /// Only those that are not final.
    live: Option<bool>,
    /// Only the tree below this root, the root included.
    root: Option<String>,
    /// Only children of this subagent.
    parent: Option<String>,
    /// Only those of this requester.
    requester: Option<String>,
    /// Only those of the caller.
    mine: Option<bool>,
    /// Only those older than this one: `next` of the page before.
    before: Option<String>,
    /// At most this many: 50, at most 1,000.
    limit: Option<u32>,
}

pub(crate) async fn list(State(app): App, from: CallerFrom, query: Params<ListQuery>) -> Answer<Json<Page>> {
    let Query(query) = query?;
    let words = query.status.as_deref().unwrap_or_default().split(',').filter(|word| !word.is_empty());
    let status = words.map(str::parse::<Status>).collect::<Result<_, _>>();
    let requester = match (query.mine.unwrap_or(false), query.requester) {
        (false, requester) => requester,
        (true, None) => Some(from.caller.requester.to_string()),
        (true, Some(_)) => return Err(Refused::invalid("`mine` and `requester` exclude each other")),
    };
    let mut filter = ListFilter {
        status: status.map_err(|error| Refused::invalid(error.to_string()))?,
        live: query.live.unwrap_or(false),
        requester,
        limit: query.limit,
        ..ListFilter::default()
    };
    if let Some(root) = query.root {
        filter.root = Some(app.id(&root).await?);
    }
    if let Some(parent) = query.parent {
        filter.parent = Some(app.id(&parent).await?);
    }
    if let Some(before) = query.before {
        filter.before = Some(before.parse().map_err(|_| Refused::invalid("`before` must be a whole id"))?);
    }
    Ok(Json(app.runtime.list(&from.caller, filter).await?))
}

/// A record with what is not part of it: its place in the queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    /// The record.
    #[serde(flatten)]
    record: SubagentRecord,
    /// How many runs start before this one; only while it waits for a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<u64>,
    /// What holds it in the queue now: the limit with its number, a rate limit with its end, the disk, the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_held_by: Option<String>,
}

pub(crate) async fn show(State(app): App, from: CallerFrom, Name(name): Name) -> Answer<Json<Shown>> {
    let id = app.id(&name).await?;
    let record = app.runtime.get(&from.caller, id).await?;
    let place = match record.status {
        Status::Queued => app.runtime.queue_place(&from.caller, id).await?,
        _ => QueuePlace::default(),
    };
    Ok(Json(Shown { record, queue_position: place.ahead, queue_held_by: place.held_by }))
}

pub(crate) async fn usage(State(app): App, from: CallerFrom, Name(name): Name) -> Answer<Json<UsageReport>> {
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.usage(&from.caller, id).await?))
}

/// Whom a name names.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Named {
    /// The subagent.
    id: SubagentId,
}

pub(crate) async fn named(State(app): App, Name(name): Name) -> Answer<Json<Named>> {
    Ok(Json(Named { id: app.id(&name).await? }))
}
