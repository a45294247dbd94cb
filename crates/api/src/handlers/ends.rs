//! Ends of runs: waited for, asked for, read.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subagent_model::request::{
    Activity, LogPage, StopAllReply, StopAllRequest, StopReply, StopRequest, TextPart, WaitOptions, WaitReply,
};
use subagent_model::{Cause, RunNumber, Status, SubagentId, TranscriptPage};

use super::{App, Body, Params, Shared, parsed_or_default, poll};
use crate::answer::Answer;
use crate::caller::{From as CallerFrom, Name};
use crate::handed::{self, Handed, What};

/// Largest part of a text or log in one answer.
const LARGEST_PART: u32 = 4 * 1024 * 1024;
/// Longest time that a stop is held until its tree is gone. A tree that takes longer is asked about again.
const LONGEST_STOP: Duration = Duration::from_mins(10);
/// What a wait that has run out of time may spend on looking at the child.
const LAST_LOOK: Duration = Duration::from_millis(500);

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
    from: CallerFrom,
    Name(name): Name,
    query: Params<ResultQuery>,
) -> Answer<Response> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let max = query.max.unwrap_or(LARGEST_PART).clamp(4, LARGEST_PART);
    let run = query.run.map(RunNumber);
    let offset = query.offset.unwrap_or(0);
    let part: TextPart = app.runtime.result(&from.caller, id, run, offset, max).await?;
    // Only what reads to the end has read the result; what begins behind it has read nothing.
    let reads = offset < part.total || part.total == 0;
    let consumes = query.ack.unwrap_or(true) && part.next.is_none() && reads;
    Ok(handed::json(&part, consumes.then(|| consumed(&app, from, id, part.run))))
}

fn consumed(app: &Shared, from: CallerFrom, id: SubagentId, run: RunNumber) -> Handed {
    Handed { runtime: Arc::clone(&app.runtime), caller: from.caller, what: What::Result(id, run) }
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

/// What a wait saw.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Waited {
    #[serde(flatten)]
    reply: WaitReply,
    /// How far it is; only where the run has not ended. It goes on, and its result stays owed.
    #[serde(skip_serializing_if = "Option::is_none")]
    still_running: Option<StillRunning>,
}

/// How far a run is that has not ended. There is no result yet.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StillRunning {
    /// How it stands.
    status: Status,
    /// Turns used.
    turns_used: u32,
    /// Turn limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    /// What was last seen of it; absent when it has not begun, or does not show what it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_activity: Option<Activity>,
}

pub(crate) async fn wait(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    query: Params<WaitQuery>,
) -> Answer<Response> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let options = WaitOptions { run: query.run.map(RunNumber), timeout_ms: query.timeout_ms };
    let reply = app.runtime.wait(&from.caller, id, options).await?;
    let consumes = query.ack.unwrap_or(true) && reply.ended;
    let still_running = if reply.ended { None } else { Some(look(&app, &from, &reply).await) };
    let run = reply.run;
    let waited = Waited { reply, still_running };
    Ok(handed::json(&waited, consumes.then(|| consumed(&app, from, id, run))))
}

async fn look(app: &Shared, from: &CallerFrom, WaitReply { record, run, .. }: &WaitReply) -> StillRunning {
    // What cannot be seen in time is left out: the time of the caller is up.
    let all = tokio::time::timeout(LAST_LOOK, app.runtime.activity(&from.caller)).await;
    let mut all = all.ok().and_then(Result::ok).unwrap_or_default().into_iter();
    StillRunning {
        status: record.status,
        turns_used: record.turn_count,
        max_turns: record.max_turns,
        last_activity: all.find(|activity| activity.id == record.id && activity.run == *run),
    }
}

/// Asks to stop a subagent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    /// Why; `requested` when absent.
    cause: Option<Cause>,
    /// Stop the children too, except detached ones; true when absent.
    cascade: Option<bool>,
    /// Also return the follow-ups that wait; else the first of them opens the next run once this one has ended.
    #[serde(default)]
    drop_follow_ups: bool,
    /// Answer only once no process of the tree is left, or this many milliseconds have passed; at most ten minutes.
    wait_ms: Option<u64>,
}

/// Query of a stop.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopQuery {
    /// As in the body.
    wait_ms: Option<u64>,
}

/// What a stop did.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Stopped {
    #[serde(flatten)]
    reply: StopReply,
    /// Whether the whole tree is gone; only where that was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    gone: Option<bool>,
}

pub(crate) async fn stop(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    query: Params<StopQuery>,
    body: Body,
) -> Answer<Json<Stopped>> {
    let Query(query) = query?;
    let body: StopBody = parsed_or_default(body).await?;
    let id = app.id(&name).await?;
    let default = StopRequest::default();
    let request = StopRequest {
        cause: body.cause.unwrap_or(default.cause),
        cascade: body.cascade.unwrap_or(default.cascade),
        drop_follow_ups: body.drop_follow_ups,
    };
    let mut reply = app.runtime.stop(&from.caller, id, request).await?;
    let wait = query.wait_ms.or(body.wait_ms).map(Duration::from_millis);
    let gone = match wait {
        Some(wait) => Some(app.runtime.gone(&from.caller, id, wait.min(LONGEST_STOP)).await?),
        None => None,
    };
    if gone.is_some() {
        reply.record = app.runtime.get(&from.caller, id).await?;
    }
    Ok(Json(Stopped { reply, gone }))
}

pub(crate) async fn stop_all(State(app): App, from: CallerFrom, body: Body) -> Answer<Json<StopAllReply>> {
    let request: StopAllRequest = parsed_or_default(body).await?;
    Ok(Json(app.runtime.stop_all(&from.caller, request).await?))
}

/// Query of the end of a tree.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoneQuery {
    /// Hold the answer up to this many milliseconds while something is left; at most a minute.
    wait_ms: Option<u64>,
}

/// Whether anything is left of a tree.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Gone {
    /// True when no process of the subagent and of what is below it is left, detached ones aside.
    gone: bool,
}

pub(crate) async fn gone(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    query: Params<GoneQuery>,
) -> Answer<Json<Gone>> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let wait = poll(query.wait_ms).unwrap_or_default();
    Ok(Json(Gone { gone: app.runtime.gone(&from.caller, id, wait).await? }))
}

/// Query of a child's output.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TranscriptQuery {
    /// Read on after this: `next` of the page before.
    after: Option<String>,
    /// Most entries; 200 when absent, at most 1,000.
    limit: Option<u32>,
    /// Hold the answer up to this many milliseconds while there is nothing new; at most a minute.
    wait_ms: Option<u64>,
}

pub(crate) async fn transcript(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    query: Params<TranscriptQuery>,
) -> Answer<Json<TranscriptPage>> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let (after, limit) = (query.after.as_deref(), query.limit.unwrap_or(200));
    let page = app.runtime.transcript(&from.caller, id, after, limit, poll(query.wait_ms)).await?;
    Ok(Json(page))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputQuery {
    /// Position to read from: `next` of the page before.
    from: Option<u64>,
    /// Hold the answer up to this many milliseconds while there is nothing new; at most a minute.
    wait_ms: Option<u64>,
}

pub(crate) async fn output(
    State(app): App,
    from: CallerFrom,
    Name(name): Name,
    query: Params<OutputQuery>,
) -> Answer<Json<LogPage>> {
    let Query(query) = query?;
    let id = app.id(&name).await?;
    let page = app.runtime.output(&from.caller, id, query.from.unwrap_or(0), poll(query.wait_ms)).await?;
    Ok(Json(page))
}
