//! One handler a route.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use subagent_model::request::{
    Health, InboxItem, ListFilter, LogPage, Page, SpawnRequest, StopReply, StopRequest, TextPart, WaitOptions,
};
use subagent_model::{
    Cursor, ErrorCode, Event, Problem, RunNumber, RunRecord, Status, SubagentId, SubagentRecord,
};
use subagent_runtime::{AckReply, AckTarget, Runtime};

use crate::ack_body::{self, Ack};
use crate::answer::{Answer, Refused};
use crate::caller::{From as CallerFrom, Name};
use crate::server::{Admin, ShutdownRequest};

pub(crate) type App = State<Arc<Shared>>;
type Params<T> = Result<Query<T>, QueryRejection>;
type Body = Result<Bytes, BytesRejection>;

/// What handlers share.
pub(crate) struct Shared {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) admin: Admin,
}

/// Longest time one long poll is held.
const LONGEST_POLL: Duration = Duration::from_mins(1);
/// Largest part of a text or log in one answer.
const LARGEST_PART: u32 = 4 * 1024 * 1024;
/// How many events one read of a subscriber takes.
const EVENTS: u32 = 256;

/// A larger body is read on a thread of its own: megabytes of prompt must hold nobody else up.
const LARGE_BODY: usize = 256 * 1024;

async fn parsed<T: DeserializeOwned + Send + 'static>(body: Body) -> Answer<T> {
    let bytes = body?;
    let large = bytes.len() > LARGE_BODY;
    let read = move || serde_json::from_slice(&bytes);
    let parsed = if large {
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(|error| Refused(Problem::new(ErrorCode::Panicked, error.to_string())))?
    } else {
        read()
    };
    parsed.map_err(|error| Refused::invalid(format!("the body is not valid: {error}")))
}

async fn parsed_or_default<T: DeserializeOwned + Default + Send + 'static>(body: Body) -> Answer<T> {
    let bytes = body?;
    if bytes.is_empty() { Ok(T::default()) } else { parsed(Ok(bytes)).await }
}

impl Shared {
    async fn id(&self, name: &str) -> Answer<SubagentId> {
        Ok(self.runtime.resolve(name).await?)
    }
}

pub(crate) async fn spawn(
    State(app): App,
    caller: CallerFrom,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    let mut request: SpawnRequest = parsed(body).await?;
    if let Some(key) = headers.get("idempotency-key") {
        let key =
            key.to_str().map_err(|_| Refused::invalid("the idempotency key must be visible characters"))?;
        request.idempotency_key = Some(key.to_owned());
    }
    let reply = app.runtime.spawn(&caller.0, request).await?;
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
    /// Only children of this subagent.
    parent: Option<String>,
    /// Only those of this requester.
    requester: Option<String>,
    /// Only those older than this one: `next` of the page before.
    before: Option<String>,
    /// At most this many: 50, at most 1,000.
    limit: Option<u32>,
}

pub(crate) async fn list(State(app): App, query: Params<ListQuery>) -> Answer<Json<Page>> {
    let Query(query) = query?;
    let words = query.status.as_deref().unwrap_or_default().split(',').filter(|word| !word.is_empty());
    let status = words.map(str::parse::<Status>).collect::<Result<_, _>>();
    let mut filter = ListFilter {
        status: status.map_err(|error| Refused::invalid(error.to_string()))?,
        live: query.live.unwrap_or(false),
        requester: query.requester,
        limit: query.limit,
        ..ListFilter::default()
    };
    if let Some(parent) = query.parent {
        filter.parent = Some(app.id(&parent).await?);
    }
    if let Some(before) = query.before {
        filter.before = Some(before.parse().map_err(|_| Refused::invalid("`before` must be a whole id"))?);
    }
    Ok(Json(app.runtime.list(filter).await?))
}

/// A record with what is not part of it: its place in the queue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Shown {
    /// The record.
    #[serde(flatten)]
    record: SubagentRecord,
    /// How many runs start before this one; only while it waits for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue_position: Option<u64>,
}

pub(crate) async fn show(State(app): App, Name(name): Name) -> Answer<Json<Shown>> {
    let id = app.id(&name).await?;
    let record = app.runtime.get(id).await?;
    let queue_position =
        if record.status == Status::Queued { app.runtime.queue_position(id).await? } else { None };
    Ok(Json(Shown { record, queue_position }))
}

/// All runs of a subagent, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Runs {
    /// Earlier runs with their outcomes.
    earlier: Vec<RunRecord>,
    /// The current run, as the record shows it.
    current: SubagentRecord,
}

pub(crate) async fn runs(State(app): App, Name(name): Name) -> Answer<Json<Runs>> {
    let current = app.runtime.get(app.id(&name).await?).await?;
    Ok(Json(Runs { earlier: current.earlier_runs.clone(), current }))
}

/// Query of a result.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResultQuery {
    /// Which run; the current one when absent.
    run: Option<u32>,
    /// Byte offset to read from.
    offset: Option<u64>,
    /// Most bytes.
    max: Option<u32>,
    /// False: reading does not consume.
    ack: Option<bool>,
}

pub(crate) async fn result(
    State(app): App,
    caller: CallerFrom,
    Name(name): Name,
    query: Params<ResultQuery>,
) -> Answer<Response> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let max = query.max.unwrap_or(LARGEST_PART).clamp(4, LARGEST_PART);
    let run = query.run.map(RunNumber);
    let offset = query.offset.unwrap_or(0);
    let part: TextPart = app.runtime.result(id, run, offset, max).await?;
    // Only what reads to the end has read the result; what begins behind it has read nothing.
    let reads = offset < part.total || part.total == 0;
    let consumes = query.ack.unwrap_or(true) && part.next.is_none() && reads;
    Ok(ack_body::json(&part, consumes.then(|| ack(&app, caller, id, part.run))))
}

fn ack(app: &Shared, caller: CallerFrom, id: SubagentId, run: RunNumber) -> Ack {
    Ack { runtime: Arc::clone(&app.runtime), caller: caller.0, id, run }
}

/// Query of a wait.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// Which run; the current one when absent.
    run: Option<u32>,
    /// At most this long, in milliseconds; 30,000 when absent.
    timeout_ms: Option<u64>,
    /// False: a wait that returns does not consume.
    ack: Option<bool>,
}

pub(crate) async fn wait(
    State(app): App,
    caller: CallerFrom,
    Name(name): Name,
    query: Params<WaitQuery>,
) -> Answer<Response> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let options = WaitOptions { run: query.run.map(RunNumber), timeout_ms: query.timeout_ms };
    let reply = app.runtime.wait(id, options).await?;
    let consumes = query.ack.unwrap_or(true) && reply.ended;
    Ok(ack_body::json(&reply, consumes.then(|| ack(&app, caller, id, reply.run))))
}

pub(crate) async fn stop(
    State(app): App,
    caller: CallerFrom,
    Name(name): Name,
    body: Body,
) -> Answer<Json<StopReply>> {
    let request: StopRequest = parsed_or_default(body).await?;
    let id = app.id(&name).await?;
    Ok(Json(app.runtime.stop(&caller.0, id, request).await?))
}

/// Query of a child's output.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TranscriptQuery {
    /// Position to read from: `next` of the page before.
    from: Option<u64>,
    /// Hold the answer up to this many milliseconds while there is nothing new.
    wait_ms: Option<u64>,
}

pub(crate) async fn transcript(
    State(app): App,
    Name(name): Name,
    query: Params<TranscriptQuery>,
) -> Answer<Json<LogPage>> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let wait = query.wait_ms.map(Duration::from_millis).map(|wait| wait.min(LONGEST_POLL));
    Ok(Json(app.runtime.output(id, query.from.unwrap_or(0), wait).await?))
}

/// Query of an inbox.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxQuery {
    /// At most this many: 100, at most 1,000.
    limit: Option<u32>,
}

/// What a requester has not consumed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Inbox {
    /// The ended runs, oldest first.
    items: Vec<InboxItem>,
}

pub(crate) async fn inbox(
    State(app): App,
    caller: CallerFrom,
    query: Params<InboxQuery>,
) -> Answer<Json<Inbox>> {
    let Query(query) = query?;
    Ok(Json(Inbox { items: app.runtime.inbox(&caller.0, query.limit.unwrap_or(100)).await? }))
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

/// The subagent that is named, and its run if one is. No id or handle has a dot.
fn delivery(name: &str) -> (&str, Option<RunNumber>) {
    let parts = name.rsplit_once('.').and_then(|(subagent, run)| Some((subagent, run.parse().ok()?)));
    parts.map_or((name, None), |(subagent, run)| (subagent, Some(RunNumber(run))))
}

pub(crate) async fn acknowledge(State(app): App, caller: CallerFrom, body: Body) -> Answer<Json<AckReply>> {
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
    let mut reply = app.runtime.acknowledge(&caller.0, targets, request.lazily).await?;
    reply.refused.extend(refused);
    Ok(Json(reply))
}

/// Query of the event stream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Begin after this position; the newest when neither this nor `Last-Event-ID` is given.
    after: Option<u64>,
    /// Only events of this subagent.
    subagent: Option<String>,
    /// With `Accept: application/json`: at most this many events on the page.
    limit: Option<u32>,
    /// With `Accept: application/json`: hold the answer up to this many milliseconds while there is nothing new.
    wait_ms: Option<u64>,
}

/// A page of events, for clients that poll.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EventPage {
    /// The events, oldest first.
    items: Vec<Event>,
    /// Pass it as `after` to read on.
    next: Cursor,
}

pub(crate) async fn events(
    State(app): App,
    headers: HeaderMap,
    query: Params<EventsQuery>,
) -> Answer<Response> {
    let Query(query) = query?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = match last.or(query.after) {
        Some(after) => Cursor(after),
        None => app.runtime.health().await?.cursor,
    };
    let only = match &query.subagent {
        Some(name) => Some(app.id(name).await?),
        None => None,
    };
    let wants_json = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.split(',').any(|kind| kind.trim().starts_with("application/json")));
    if wants_json {
        let wait = query.wait_ms.map(Duration::from_millis).map(|wait| wait.min(LONGEST_POLL));
        let mut items = app.runtime.events(after, query.limit.unwrap_or(EVENTS), wait).await?;
        let next = items.last().map_or(after, |event| event.seq);
        items.retain(|event| only.is_none_or(|only| only == event.subagent));
        return Ok(Json(EventPage { items, next }).into_response());
    }
    let stream = futures_util::stream::unfold((app, after, Vec::<Event>::new().into_iter()), move |state| {
        next_event(state, only)
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

type EventState = (Arc<Shared>, Cursor, std::vec::IntoIter<Event>);

/// The next event of a subscriber, who pulls: one that is slow holds nothing but its own position.
async fn next_event(
    (app, mut after, mut page): EventState,
    only: Option<SubagentId>,
) -> Option<(Result<sse::Event, Infallible>, EventState)> {
    loop {
        for event in page.by_ref() {
            after = event.seq;
            if only.is_none_or(|only| only == event.subagent) {
                let text = serde_json::to_string(&event).unwrap_or_default();
                let sent =
                    sse::Event::default().id(event.seq.to_string()).event(event.kind.name()).data(text);
                return Some((Ok(sent), (app, after, page)));
            }
        }
        match app.runtime.events(after, EVENTS, Some(LONGEST_POLL)).await {
            Ok(events) => page = events.into_iter(),
            Err(problem) => {
                // The subscriber is told and comes back with its position.
                let text = serde_json::to_string(&problem).unwrap_or_default();
                let sent = sse::Event::default().event("problem").data(text);
                tokio::time::sleep(Duration::from_secs(1)).await;
                return Some((Ok(sent), (app, after, page)));
            }
        }
    }
}

pub(crate) async fn health(State(app): App) -> Answer<Json<Health>> {
    Ok(Json(app.runtime.health().await?))
}

pub(crate) async fn openapi() -> Json<serde_json::Value> {
    Json(crate::openapi())
}

pub(crate) async fn shutdown(State(app): App, body: Body) -> Answer<StatusCode> {
    let request: ShutdownRequest = parsed_or_default(body).await?;
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

#[cfg(test)]
mod tests {
    use subagent_model::RunNumber;

    use super::delivery;

    #[test]
    fn result_13_a_delivery_id_names_a_subagent_and_its_run() {
        assert_eq!(delivery("k7q2mx"), ("k7q2mx", None));
        assert_eq!(delivery("k7q2mx.2"), ("k7q2mx", Some(RunNumber(2))));
        // What is no run is left to be refused as a name.
        assert_eq!(delivery("k7q2mx.two"), ("k7q2mx.two", None));
        assert_eq!(delivery("."), (".", None));
    }
}
