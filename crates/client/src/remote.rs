//! The runtime at the other end of the socket.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use camino::Utf8PathBuf;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_model::agents::TypeList;
use subagent_model::request::{
    Activity, AnswerRequest, BudgetRequest, ClaimRequest, GcReply, GcRequest, Health, InboxItem, ListFilter,
    LogPage, MessageList, OpenRequest, Page, QueuePlace, RequestList, ResumeRequest, ReturnRequest, RunList,
    SpawnRequest, SteerReply, SteerRequest, StopAllReply, StopAllRequest, StopReply, StopRequest, TextPart,
    UsageReport, WaitOptions, WaitReply,
};
use subagent_model::{
    Cursor, ErrorCode, Event, InnerList, Problem, RequestNumber, RunNumber, StopInnerReply, StopInnerRequest,
    SubagentId, SubagentRecord, TranscriptPage,
};
use subagent_runtime::{AckReply, AckTarget, Caller, EventPage, Limits, ResumeReply, Runtime, SpawnReply};

use crate::Client;
use crate::connection::{Call, body_of};
use crate::slices::{Slices, WAIT_SLICE, millis};

/// How long a release of what retention allows may take: it removes files.
const RELEASE: Duration = Duration::from_mins(10);

#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    queue_position: Option<u64>,
    #[serde(default)]
    queue_held_by: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    id: SubagentId,
}

#[derive(Deserialize)]
struct Gone {
    gone: bool,
}

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Events {
    items: Vec<Event>,
    next: Cursor,
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

fn get<'a>(caller: impl Into<Option<&'a Caller>>, path: String) -> Call<'a> {
    Call::new(Method::GET, path, caller.into())
}

fn post<'a>(caller: impl Into<Option<&'a Caller>>, path: String) -> Call<'a> {
    Call::new(Method::POST, path, caller.into())
}

fn of(id: SubagentId, what: &str) -> String {
    format!("/v1/subagents/{id}{what}")
}

impl Client {
    /// Asks the daemon to end; `stop_children` also stops its children, within a bound.
    pub async fn shutdown(&self, stop_children: Option<Duration>) -> Result<(), Problem> {
        let body = body_of(&json!({"stop_children_within_ms": stop_children.map(millis)}))?;
        self.call::<Value>(post(None, String::from("/v1/shutdown")).body(body)).await.map(drop)
    }

    /// Asks the daemon to end once its running children have finished, and at the latest after a bound.
    pub async fn drain(&self, within: Duration) -> Result<(), Problem> {
        let body = body_of(&json!({"drain_within_ms": millis(within)}))?;
        self.call::<Value>(post(None, String::from("/v1/shutdown")).body(body)).await.map(drop)
    }

    /// What is left of a wait that came with what it waits for: its first slice is over.
    async fn await_rest(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: RunNumber,
        wait_ms: Option<u64>,
    ) -> Result<Option<WaitReply>, Problem> {
        let left = Duration::from_millis(wait_ms.unwrap_or(0)).saturating_sub(WAIT_SLICE);
        if left.is_zero() {
            return Ok(None);
        }
        let options = WaitOptions { run: Some(run), timeout_ms: Some(millis(left)) };
        self.wait(caller, id, options).await.map(Some)
    }
}

/// The first slice of a wait that comes with a request.
fn first_slice(wait_ms: Option<u64>) -> Option<u64> {
    wait_ms.map(|wait| wait.min(millis(WAIT_SLICE)))
}

fn waited(wait_ms: Option<u64>) -> Duration {
    wait_ms.map_or(Duration::ZERO, Duration::from_millis)
}

#[async_trait]
impl Runtime for Client {
    async fn spawn(&self, caller: &Caller, mut request: SpawnRequest) -> Result<SpawnReply, Problem> {
        let wait_ms = request.wait_ms;
        request.wait_ms = first_slice(wait_ms);
        let (body, wait) = (body_of(&request)?, waited(request.wait_ms));
        let call = post(caller, String::from("/v1/subagents")).body(body).wait(wait);
        let mut reply: SpawnReply = self.call(call).await?;
        if !reply.ended
            && let Some(rest) = self.await_rest(caller, reply.record.id, reply.record.run, wait_ms).await?
        {
            (reply.record, reply.ended) = (rest.record, rest.ended);
        }
        Ok(reply)
    }

    async fn resume(
        &self,
        caller: &Caller,
        id: SubagentId,
        mut request: ResumeRequest,
    ) -> Result<ResumeReply, Problem> {
        let wait_ms = request.wait_ms;
        request.wait_ms = first_slice(wait_ms);
        let (body, wait) = (body_of(&request)?, waited(request.wait_ms));
        let mut reply: ResumeReply = self.call(post(caller, of(id, "/resume")).body(body).wait(wait)).await?;
        if let (false, Some(run)) = (reply.ended, reply.run)
            && let Some(rest) = self.await_rest(caller, id, run, wait_ms).await?
        {
            (reply.record, reply.ended) = (rest.record, rest.ended);
        }
        Ok(reply)
    }

    async fn steer(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: SteerRequest,
    ) -> Result<SteerReply, Problem> {
        let (body, wait) = (body_of(&request)?, waited(request.wait_ms));
        self.call(post(caller, of(id, "/steer")).body(body).wait(wait)).await
    }

    async fn messages(&self, caller: &Caller, id: SubagentId) -> Result<MessageList, Problem> {
        self.call(get(caller, of(id, "/messages"))).await
    }

    async fn resolve(&self, name: &str) -> Result<SubagentId, Problem> {
        if name.is_empty() {
            return Err(Problem::new(ErrorCode::InvalidRequest, "an id must not be empty"));
        }
        self.call::<Named>(get(None, format!("/v1/names/{}", encoded(name)))).await.map(|named| named.id)
    }

    async fn get(&self, caller: &Caller, id: SubagentId) -> Result<SubagentRecord, Problem> {
        self.call(get(caller, of(id, ""))).await
    }

    async fn runs(&self, caller: &Caller, id: SubagentId) -> Result<RunList, Problem> {
        self.call(get(caller, of(id, "/runs"))).await
    }

    async fn usage(&self, caller: &Caller, id: SubagentId) -> Result<UsageReport, Problem> {
        self.call(get(caller, of(id, "/usage"))).await
    }

    async fn queue_place(&self, caller: &Caller, id: SubagentId) -> Result<QueuePlace, Problem> {
        let shown: Shown = self.call(get(caller, of(id, ""))).await?;
        Ok(QueuePlace { ahead: shown.queue_position, held_by: shown.queue_held_by })
    }

    async fn list(&self, caller: &Caller, filter: ListFilter) -> Result<Page, Problem> {
        let mut query = vec![format!("live={}", filter.live)];
        if !filter.status.is_empty() {
            let words: Vec<_> = filter.status.iter().map(|status| status.as_str()).collect();
            query.push(format!("status={}", words.join(",")));
        }
        query.extend(filter.root.map(|root| format!("root={root}")));
        query.extend(filter.parent.map(|parent| format!("parent={parent}")));
        query.extend(filter.requester.map(|name| format!("requester={}", encoded(&name))));
        query.extend(filter.before.map(|before| format!("before={before}")));
        query.extend(filter.limit.map(|limit| format!("limit={limit}")));
        self.call(get(caller, format!("/v1/subagents?{}", query.join("&")))).await
    }

    async fn wait(
        &self,
        caller: &Caller,
        id: SubagentId,
        options: WaitOptions,
    ) -> Result<WaitReply, Problem> {
        let mut slices =
            Slices::of(options.timeout_ms.map_or(Duration::from_secs(30), Duration::from_millis));
        let mut run = options.run;
        loop {
            let wait = slices.next();
            let mut path = of(id, &format!("/wait?ack=false&timeout_ms={}", millis(wait)));
            if let Some(run) = run {
                let _ = write!(path, "&run={run}");
            }
            let reply: WaitReply = self.call(post(caller, path).wait(wait)).await?;
            if reply.ended || slices.are_over() {
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
        self.call(post(caller, of(id, "/stop")).body(body_of(&request)?)).await
    }

    async fn inner(&self, caller: &Caller, id: SubagentId) -> Result<InnerList, Problem> {
        self.call(get(caller, of(id, "/inner"))).await
    }

    async fn stop_inner(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopInnerRequest,
    ) -> Result<StopInnerReply, Problem> {
        self.call(post(caller, of(id, "/inner/stop")).body(body_of(&request)?)).await
    }

    async fn stop_all(&self, caller: &Caller, request: StopAllRequest) -> Result<StopAllReply, Problem> {
        self.call(post(caller, String::from("/v1/stop")).body(body_of(&request)?)).await
    }

    async fn gone(&self, caller: &Caller, id: SubagentId, wait: Duration) -> Result<bool, Problem> {
        let mut slices = Slices::of(wait);
        loop {
            let wait = slices.next();
            let path = of(id, &format!("/gone?wait_ms={}", millis(wait)));
            let reply: Gone = self.call(get(caller, path).wait(wait)).await?;
            if reply.gone || slices.are_over() {
                return Ok(reply.gone);
            }
        }
    }

    async fn change_budget(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: BudgetRequest,
    ) -> Result<SubagentRecord, Problem> {
        self.call(post(caller, of(id, "/budget")).body(body_of(&request)?)).await
    }

    async fn requests(&self, caller: &Caller, all: bool) -> Result<RequestList, Problem> {
        self.call(get(caller, format!("/v1/requests?all={all}"))).await
    }

    async fn answer(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
        request: AnswerRequest,
    ) -> Result<OpenRequest, Problem> {
        self.call(post(caller, format!("/v1/requests/{id}.q{number}")).body(body_of(&request)?)).await
    }

    async fn revoke(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
    ) -> Result<SubagentRecord, Problem> {
        self.call(Call::new(Method::DELETE, of(id, &format!("/grants/{number}")), Some(caller))).await
    }

    async fn result(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem> {
        let run = run.map(|run| format!("&run={run}")).unwrap_or_default();
        let path = of(id, &format!("/result?ack=false&offset={offset}&max={max}{run}"));
        self.call(get(caller, path)).await
    }

    async fn output(
        &self,
        caller: &Caller,
        id: SubagentId,
        from: u64,
        wait: Option<Duration>,
    ) -> Result<LogPage, Problem> {
        let mut slices = Slices::of(wait.unwrap_or_default());
        loop {
            let wait = slices.next();
            let path = of(id, &format!("/output?from={from}&wait_ms={}", millis(wait)));
            let page: LogPage = self.call(get(caller, path).wait(wait)).await?;
            if !page.parts.is_empty() || page.ended || slices.are_over() {
                return Ok(page);
            }
        }
    }

    async fn types(
        &self,
        caller: &Caller,
        cwd: Utf8PathBuf,
        path: Option<String>,
        name: Option<&str>,
    ) -> Result<TypeList, Problem> {
        let mut query = vec![format!("cwd={}", encoded(cwd.as_str()))];
        query.extend(path.map(|path| format!("path={}", encoded(&path))));
        query.extend(name.map(|name| format!("name={}", encoded(name))));
        self.call(get(caller, format!("/v1/types?{}", query.join("&")))).await
    }

    async fn transcript(
        &self,
        caller: &Caller,
        id: SubagentId,
        after: Option<&str>,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<TranscriptPage, Problem> {
        let mut slices = Slices::of(wait.unwrap_or_default());
        let after = after.map(|after| format!("&after={}", encoded(after))).unwrap_or_default();
        loop {
            let wait = slices.next();
            let path = of(id, &format!("/transcript?limit={limit}&wait_ms={}{after}", millis(wait)));
            let page: TranscriptPage = self.call(get(caller, path).wait(wait)).await?;
            if !page.items.is_empty() || page.ended || slices.are_over() {
                return Ok(page);
            }
        }
    }

    async fn inbox(
        &self,
        caller: &Caller,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<Vec<InboxItem>, Problem> {
        let mut slices = Slices::of(wait.unwrap_or_default());
        loop {
            let wait = slices.next();
            let path = format!("/v1/inbox?limit={limit}&wait_ms={}", millis(wait));
            let inbox: Items<InboxItem> = self.call(get(caller, path).wait(wait)).await?;
            if !inbox.items.is_empty() || slices.are_over() {
                return Ok(inbox.items);
            }
        }
    }

    async fn inbox_of_all(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem> {
        let path = format!("/v1/inbox?all=true&limit={limit}");
        self.call::<Items<InboxItem>>(get(caller, path)).await.map(|inbox| inbox.items)
    }

    async fn claim(&self, caller: &Caller, mut request: ClaimRequest) -> Result<Vec<InboxItem>, Problem> {
        let mut slices = Slices::of(waited(request.wait_ms));
        loop {
            let wait = slices.next();
            request.wait_ms = Some(millis(wait));
            let call = post(caller, String::from("/v1/inbox/claim")).body(body_of(&request)?).wait(wait);
            let claimed: Items<InboxItem> = self.call(call).await?;
            if !claimed.items.is_empty() || slices.are_over() {
                return Ok(claimed.items);
            }
        }
    }

    async fn give_back(&self, caller: &Caller, request: ReturnRequest) -> Result<(), Problem> {
        self.call(post(caller, String::from("/v1/inbox/return")).body(body_of(&request)?)).await
    }

    async fn acknowledge(
        &self,
        caller: &Caller,
        targets: Vec<AckTarget>,
        lazily: bool,
    ) -> Result<AckReply, Problem> {
        let ids: Vec<_> = targets.iter().map(AckTarget::to_string).collect();
        let body = body_of(&json!({"ids": ids, "lazily": lazily}))?;
        self.call(post(caller, String::from("/v1/inbox/ack")).body(body)).await
    }

    async fn events(
        &self,
        caller: &Caller,
        after: Cursor,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<EventPage, Problem> {
        let mut slices = Slices::of(wait.unwrap_or_default());
        let mut after = after;
        loop {
            let wait = slices.next();
            let path = format!("/v1/events?after={after}&limit={limit}&wait_ms={}", millis(wait));
            let Events { items, next } = self.call(get(caller, path).wait(wait)).await?;
            if !items.is_empty() || slices.are_over() {
                let items = items.into_iter().map(std::sync::Arc::new).collect();
                return Ok(EventPage { items, next });
            }
            after = next;
        }
    }

    async fn activity(&self, caller: &Caller) -> Result<Vec<Activity>, Problem> {
        let path = String::from("/v1/activity");
        self.call::<Items<Activity>>(get(caller, path)).await.map(|activity| activity.items)
    }

    async fn gc(&self, caller: &Caller, request: GcRequest) -> Result<GcReply, Problem> {
        self.call(post(caller, String::from("/v1/gc")).body(body_of(&request)?).wait(RELEASE)).await
    }

    async fn limits(&self) -> Result<Limits, Problem> {
        self.call(get(None, String::from("/v1/limits"))).await
    }

    async fn set_limits(&self, caller: &Caller, limits: Limits) -> Result<Limits, Problem> {
        let call = Call::new(Method::PUT, String::from("/v1/limits"), Some(caller));
        self.call(call.body(body_of(&limits)?)).await
    }

    async fn health(&self) -> Result<Health, Problem> {
        self.call(get(None, String::from("/v1/health"))).await
    }

    /// Asked of a daemon only by its own doors.
    fn subagent_of_process(&self, _: u32) -> Option<SubagentId> {
        None
    }
}
