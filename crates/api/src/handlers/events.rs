//! Durable events, as a stream or as pages. Subscribers pull: a slow one holds its position and a few events, and nothing
//! else. The position is that of the log, also behind events that the caller may not see or does not want.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subagent_model::{Cursor, ErrorCode, Event, EventKind, Problem, SubagentId};
use subagent_runtime::{Caller, EventPage};
use tokio::time::Instant;

use super::{App, Params, Shared, poll};
use crate::answer::{Answer, Refused};
use crate::caller::From as CallerFrom;
use crate::streams::Place;

/// How many events a page has unless told otherwise.
const PAGE: u32 = 256;
/// How many events one read of a stream takes: what a subscriber that reads nothing costs.
const READ: u32 = 16;
/// After so much silence a stream says its position: the connection is seen to live, and who comes back need not read
/// again what was left out.
const SILENCE: Duration = Duration::from_secs(15);
/// How long a stream waits after the log could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// Query of the event stream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Begin after this position; the newest when neither this nor `Last-Event-ID` is given.
    after: Option<u64>,
    /// Only events of this subagent.
    subagent: Option<String>,
    /// Only events of these kinds, separated by commas.
    kinds: Option<String>,
    /// With `Accept: application/json`: look at no more than this many events.
    limit: Option<u32>,
    /// With `Accept: application/json`: hold the answer up to this many milliseconds while there is nothing new; at most
    /// a minute.
    wait_ms: Option<u64>,
}

/// A page of events, for clients that poll.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "EventPage")]
pub(crate) struct EventList {
    /// The events, oldest first.
    items: Vec<Arc<Event>>,
    /// Pass it as `after` to read on.
    next: Cursor,
}

/// The words of all kinds.
static KINDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let schema = schemars::schema_for!(EventKind).to_value();
    let kinds = schema["oneOf"].as_array().into_iter().flatten();
    kinds.filter_map(|kind| Some(kind["properties"]["event"]["const"].as_str()?.to_owned())).collect()
});

/// What a subscriber wants; without a word everything that the caller may see.
struct Wanted {
    subagent: Option<SubagentId>,
    kinds: Option<BTreeSet<String>>,
}

impl Wanted {
    async fn of(app: &Shared, query: &EventsQuery) -> Answer<Self> {
        let subagent = match &query.subagent {
            Some(name) => Some(app.id(name).await?),
            None => None,
        };
        let words = |kinds: &String| -> BTreeSet<String> {
            kinds.split(',').filter(|kind| !kind.is_empty()).map(str::to_owned).collect()
        };
        let kinds = query.kinds.as_ref().map(words).filter(|kinds| !kinds.is_empty());
        if let Some(unknown) = kinds.iter().flatten().find(|kind| !KINDS.contains(*kind)) {
            let known: Vec<_> = KINDS.iter().map(String::as_str).collect();
            let message = format!("no event is of kind {unknown:.80?}; there are {}", known.join(", "));
            return Err(Refused::invalid(message));
        }
        Ok(Self { subagent, kinds })
    }

    fn has(&self, event: &Event) -> bool {
        self.subagent.is_none_or(|subagent| subagent == event.subagent)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(event.kind.name()))
    }
}

pub(crate) async fn events(
    State(app): App,
    from: CallerFrom,
    headers: HeaderMap,
    query: Params<EventsQuery>,
) -> Answer<Response> {
    let Query(query) = query?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = match last.or(query.after) {
        Some(after) => Cursor(after),
        None => app.runtime.health().await?.cursor,
    };
    let wanted = Wanted::of(&app, &query).await?;
    let wants_json = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.split(',').any(|kind| kind.trim().starts_with("application/json")));
    if wants_json {
        let limit = query.limit.unwrap_or(PAGE);
        let page = page(&app, &from.caller, &wanted, after, limit, poll(query.wait_ms)).await?;
        return Ok(Json(page).into_response());
    }
    let subscriber = Subscriber {
        caller: from.caller,
        wanted,
        page: Vec::new().into_iter(),
        after,
        told: after,
        told_at: Instant::now(),
        place: app.streams.enter(),
        app,
    };
    Ok(Sse::new(futures_util::stream::unfold(subscriber, Subscriber::next)).into_response())
}

async fn page(
    app: &Shared,
    caller: &Caller,
    wanted: &Wanted,
    after: Cursor,
    limit: u32,
    wait: Option<Duration>,
) -> Answer<EventList> {
    let until = wait.map(|wait| Instant::now() + wait);
    let mut after = after;
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let page = app.runtime.events(caller, after, limit, left).await;
        let EventPage { mut items, next } = page.map_err(with_way_on)?;
        items.retain(|event| wanted.has(event));
        let over = left.is_none_or(|left| left.is_zero());
        // Where nothing was looked at, the time is over as well.
        if !items.is_empty() || over || next <= after {
            return Ok(EventList { items, next: next.max(after) });
        }
        after = next;
    }
}

/// Events that were released are told with one number, as what is used up: the position to go on from.
fn with_way_on(problem: Problem) -> Problem {
    match (problem.code, problem.limit.max(problem.used)) {
        (ErrorCode::CursorGone, go_on) => Problem { limit: None, used: go_on, ..problem },
        _ => problem,
    }
}

/// A subscriber to the stream: its position, and what was read and not yet sent.
struct Subscriber {
    app: Arc<Shared>,
    caller: Caller,
    wanted: Wanted,
    page: std::vec::IntoIter<Arc<Event>>,
    /// Everything up to here was read.
    after: Cursor,
    /// The position that it was told last.
    told: Cursor,
    told_at: Instant,
    /// One of the streams that are open.
    place: Place,
}

impl Subscriber {
    async fn next(mut self) -> Option<(Result<sse::Event, Infallible>, Self)> {
        let sent = loop {
            let (page, wanted) = (&mut self.page, &self.wanted);
            if let Some(event) = page.find(|event| wanted.has(event)) {
                let text = self.app.streams.text(&event);
                self.told = event.seq;
                break sse::Event::default().event(event.kind.name()).data(text).id(event.seq.to_string());
            }
            let silent = self.told_at.elapsed();
            if silent >= SILENCE {
                break self.position();
            }
            // Many streams take more of the log at a time, and less often: those who work go first.
            tokio::time::sleep(self.place.pause()).await;
            let left = SILENCE.saturating_sub(silent);
            match self.app.runtime.events(&self.caller, self.after, READ, Some(left)).await {
                Ok(EventPage { items, next }) => {
                    self.after = next.max(self.after);
                    self.page = items.into_iter();
                }
                Err(problem) => break self.told_of(&with_way_on(problem)).await,
            }
        };
        self.told_at = Instant::now();
        Some((Ok(sent), self))
    }

    /// Says the position, if it is a new one, and that the connection lives. It is no event to the client.
    fn position(&mut self) -> sse::Event {
        if self.after <= self.told {
            return sse::Event::default().comment("");
        }
        self.told = self.after;
        sse::Event::default().id(self.after.to_string())
    }

    async fn told_of(&mut self, problem: &Problem) -> sse::Event {
        let text = serde_json::to_string(problem).unwrap_or_default();
        let go_on = problem.used.map(Cursor).filter(|go_on| *go_on > self.after);
        if let (ErrorCode::CursorGone, Some(go_on)) = (problem.code, go_on) {
            // The subscriber has missed what was released, is told so, and goes on behind it.
            (self.after, self.told) = (go_on, go_on);
            return sse::Event::default().event("gone").data(text).id(go_on.to_string());
        }
        tokio::time::sleep(RETRY).await;
        sse::Event::default().event("problem").data(text)
    }
}
