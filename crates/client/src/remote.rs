//! The runtime at the other end of the socket.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_model::request::{
    Health, InboxItem, ListFilter, LogPage, Page, SpawnRequest, StopReply, StopRequest, TextPart,
    WaitOptions, WaitReply,
};
use subagent_model::{Cursor, ErrorCode, Event, Problem, Requester, RunNumber, SubagentId, SubagentRecord};
use subagent_runtime::{AckReply, AckTarget, Caller, Runtime, SpawnReply};

use crate::connection::{Call, body_of};
use crate::{Client, anonymous};

/// Longest part of a longer wait that one request asks for: a long wait is asked again, so that a daemon that was
/// replaced meanwhile is found.
const WAIT_SLICE: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
struct Shown {
    #[serde(flatten)]
    record: SubagentRecord,
    #[serde(default)]
    queue_position: Option<u64>,
}

#[derive(Deserialize)]
struct Inbox {
    items: Vec<InboxItem>,
}

#[derive(Deserialize)]
struct Events {
    items: Vec<Event>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn plain(method: Method, path: String, requester: &Requester) -> Call<'_> {
    Call { method, path, requester, body: Bytes::new(), wait: Duration::ZERO }
}

/// A text as part of a path or query: letters and digits as they are, the rest as percent codes (RFC 3986, 2.1).
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

impl Client {
    /// Asks the daemon to end; `stop_children` also stops its children, within a bound.
    pub async fn shutdown(&self, stop_children: Option<Duration>) -> Result<(), Problem> {
        let requester = anonymous();
        let body = body_of(&json!({"stop_children_within_ms": stop_children.map(millis)}))?;
        let call = Call { body, ..plain(Method::POST, String::from("/v1/shutdown"), &requester) };
        self.call::<Value>(call).await.map(drop)
    }

    async fn shown(&self, name: &str) -> Result<Shown, Problem> {
        self.call(plain(Method::GET, format!("/v1/subagents/{}", encoded(name)), &anonymous())).await
    }
}

#[async_trait]
impl Runtime for Client {
    async fn spawn(&self, caller: &Caller, request: SpawnRequest) -> Result<SpawnReply, Problem> {
        let wait = request.wait_ms.map_or(Duration::ZERO, Duration::from_millis);
        let body = body_of(&request)?;
        let path = String::from("/v1/subagents");
        self.call(Call { body, wait, ..plain(Method::POST, path, &caller.requester) }).await
    }

    async fn resolve(&self, name: &str) -> Result<SubagentId, Problem> {
        if name.is_empty() {
            return Err(Problem::new(ErrorCode::InvalidRequest, "an id must not be empty"));
        }
        self.shown(name).await.map(|shown| shown.record.id)
    }

    async fn get(&self, id: SubagentId) -> Result<SubagentRecord, Problem> {
        self.shown(&id.to_string()).await.map(|shown| shown.record)
    }

    async fn queue_position(&self, id: SubagentId) -> Result<Option<u64>, Problem> {
        self.shown(&id.to_string()).await.map(|shown| shown.queue_position)
    }

    async fn list(&self, filter: ListFilter) -> Result<Page, Problem> {
        let mut query = vec![format!("live={}", filter.live)];
        if !filter.status.is_empty() {
            let words: Vec<_> = filter.status.iter().map(|status| status.as_str()).collect();
            query.push(format!("status={}", words.join(",")));
        }
        query.extend(filter.parent.map(|parent| format!("parent={parent}")));
        query.extend(filter.requester.map(|name| format!("requester={}", encoded(&name))));
        query.extend(filter.before.map(|before| format!("before={before}")));
        query.extend(filter.limit.map(|limit| format!("limit={limit}")));
        self.call(plain(Method::GET, format!("/v1/subagents?{}", query.join("&")), &anonymous())).await
    }

    async fn wait(&self, id: SubagentId, options: WaitOptions) -> Result<WaitReply, Problem> {
        let requester = anonymous();
        let mut left = options.timeout_ms.map_or(Duration::from_secs(30), Duration::from_millis);
        let mut run = options.run;
        loop {
            let wait = left.min(WAIT_SLICE);
            let mut path = format!("/v1/subagents/{id}/wait?ack=false&timeout_ms={}", millis(wait));
            if let Some(run) = run {
                let _ = write!(path, "&run={run}");
            }
            let reply: WaitReply = self.call(Call { wait, ..plain(Method::POST, path, &requester) }).await?;
            left = left.saturating_sub(wait);
            if reply.ended || left.is_zero() {
                return Ok(reply);
            }
            // The run that was current at the first look is the one that is waited for.
            run = Some(reply.run);
        }
    }

    async fn stop(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopRequest,
    ) -> Result<StopReply, Problem> {
        let body = body_of(&request)?;
        self.call(Call { body, ..plain(Method::POST, format!("/v1/subagents/{id}/stop"), &caller.requester) })
            .await
    }

    async fn result(
        &self,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem> {
        let run = run.map(|run| format!("&run={run}")).unwrap_or_default();
        let path = format!("/v1/subagents/{id}/result?ack=false&offset={offset}&max={max}{run}");
        self.call(plain(Method::GET, path, &anonymous())).await
    }

    async fn output(&self, id: SubagentId, from: u64, wait: Option<Duration>) -> Result<LogPage, Problem> {
        let wait = wait.unwrap_or_default();
        let path = format!("/v1/subagents/{id}/transcript?from={from}&wait_ms={}", millis(wait));
        self.call(Call { wait, ..plain(Method::GET, path, &anonymous()) }).await
    }

    async fn inbox(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem> {
        let path = format!("/v1/inbox?limit={limit}");
        self.call::<Inbox>(plain(Method::GET, path, &caller.requester)).await.map(|inbox| inbox.items)
    }

    async fn acknowledge(
        &self,
        caller: &Caller,
        targets: Vec<AckTarget>,
        lazily: bool,
    ) -> Result<AckReply, Problem> {
        let ids: Vec<_> = targets.iter().map(AckTarget::to_string).collect();
        let body = body_of(&json!({"ids": ids, "lazily": lazily}))?;
        self.call(Call { body, ..plain(Method::POST, String::from("/v1/inbox/ack"), &caller.requester) })
            .await
    }

    async fn events(&self, after: Cursor, limit: u32, wait: Option<Duration>) -> Result<Vec<Event>, Problem> {
        let wait = wait.unwrap_or_default();
        let path = format!("/v1/events?after={after}&limit={limit}&wait_ms={}", millis(wait));
        self.call::<Events>(Call { wait, ..plain(Method::GET, path, &anonymous()) })
            .await
            .map(|page| page.items)
    }

    async fn health(&self) -> Result<Health, Problem> {
        self.call(plain(Method::GET, String::from("/v1/health"), &anonymous())).await
    }
}
