//! One handler a route, by what they are about; here is what they share: the state, the reading of bodies, and names.

mod daemon;
mod ends;
mod events;
mod inbox;
mod inner;
mod limits;
mod requests;
mod runs;
mod subagents;
mod types;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use subagent_model::{ErrorCode, Problem, RunNumber, SubagentId};
use subagent_runtime::Runtime;
use tokio::sync::Mutex;

pub(crate) use daemon::{
    ActivityList, ActivityQuery, activity, gc, health, no_such_method, no_such_route, openapi, shutdown,
};
pub(crate) use ends::{
    Gone, GoneQuery, OutputQuery, ResultQuery, StopBody, StopQuery, Stopped, TranscriptQuery, WaitQuery,
    Waited, gone, output, result, stop, stop_all, transcript, wait,
};
pub(crate) use events::{EventList, EventsQuery, events};
pub use inbox::AckRequest;
pub(crate) use inbox::{Inbox, InboxQuery, acknowledge, claim, give_back, inbox};
pub(crate) use inner::{inner, stop_inner};
pub(crate) use limits::{LimitsDocument, limits, set_limits};
pub(crate) use requests::{RequestsQuery, answer, requests, revoke};
pub(crate) use runs::{change_budget, messages, resume, runs, steer};
pub(crate) use subagents::{ListQuery, Named, Shown, list, named, show, spawn, usage};
pub(crate) use types::{TypesQuery, types};

use crate::IDEMPOTENCY_HEADER;
use crate::answer::{Answer, Refused};
use crate::server::Admin;

type App = State<Arc<Shared>>;
type Params<T> = Result<Query<T>, QueryRejection>;
type Body = Result<Bytes, BytesRejection>;

/// What handlers share.
pub(crate) struct Shared {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) admin: Admin,
    /// One change of the limits at a time: each is made over what the one before left.
    pub(crate) changing_limits: Mutex<()>,
    /// The open event streams.
    pub(crate) streams: crate::streams::Streams,
}

impl Shared {
    /// The subagent of a name.
    pub(crate) async fn id(&self, name: &str) -> Answer<SubagentId> {
        Ok(self.runtime.resolve(name).await?)
    }
}

/// Longest time one long poll is held.
const LONGEST_POLL: Duration = Duration::from_mins(1);

fn poll(wait_ms: Option<u64>) -> Option<Duration> {
    wait_ms.map(|wait| Duration::from_millis(wait).min(LONGEST_POLL))
}

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

/// The key in the header, else the one in the body.
fn idempotency_key(headers: &HeaderMap, in_body: Option<String>) -> Answer<Option<String>> {
    let Some(key) = headers.get(IDEMPOTENCY_HEADER) else { return Ok(in_body) };
    let key = key.to_str().map_err(|_| Refused::invalid("the idempotency key must be visible characters"))?;
    Ok(Some(key.to_owned()))
}

/// The subagent that is named, and its run if one is. No id or handle has a dot.
fn delivery(name: &str) -> (&str, Option<RunNumber>) {
    let parts = name.rsplit_once('.').and_then(|(subagent, run)| Some((subagent, run.parse().ok()?)));
    parts.map_or((name, None), |(subagent, run)| (subagent, Some(RunNumber(run))))
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
