//! A runtime that only notes what it is asked, behind a real socket.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, and no test needs all of it"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use subagent_api::{Admin, ShutdownRequest};
use subagent_client::Client;
use subagent_model::request::{
    Activity, AnswerRequest, BudgetRequest, ClaimRequest, GcReply, GcRequest, Health, InboxItem, ListFilter,
    LogPage, LogPart, MessageList, OpenRequest, Page, QueuePlace, RequestList, ResumeRequest, ReturnRequest,
    RunList, SpawnRequest, SteerReply, SteerRequest, StopAllReply, StopAllRequest, StopReply, StopRequest,
    TextPart, UsageReport, WaitOptions, WaitReply,
};
use subagent_model::{
    Cursor, ErrorCode, Event, InnerList, InnerSubagent, Problem, RequestNumber, Requester, RunNumber,
    StopInnerReply, StopInnerRequest, SubagentId, SubagentRecord, TranscriptPage, Usage,
};
use subagent_runtime::{AckReply, AckTarget, Caller, EventPage, Limits, ResumeReply, Runtime, SpawnReply};
use subagent_testkit::Http;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

const AT: &str = "2026-01-01T00:00:00.000000Z";

/// The one that is there. Its handle is `k7q2mx`.
pub(crate) fn one() -> SubagentId {
    "01940000-0000-7000-8000-000000000001".parse().unwrap()
}

/// One below it.
pub(crate) fn below() -> SubagentId {
    "01940000-0000-7000-8000-000000000002".parse().unwrap()
}

/// One of somebody else.
pub(crate) fn foreign() -> SubagentId {
    "01940000-0000-7000-8000-000000000003".parse().unwrap()
}

pub(crate) fn person() -> Caller {
    Caller { requester: Requester::from("user:7") }
}

/// A record with this status.
pub(crate) fn record(id: SubagentId, status: &str) -> SubagentRecord {
    let record = json!({
        "id": id, "handle": "k7q2mx", "type": "exec", "description": "d", "provider": "exec", "mode": "async",
        "is_background": true, "status": status, "run": 1, "attempt": 1, "root": id, "depth": 0,
        "requested_by": "user:7", "created_at": AT, "accepted_at": AT, "updated_at": AT, "turn_count": 3,
        "max_turns": 9, "tool_uses": 0, "compaction_count": 0, "cwd": "/", "resumable": false, "tier": "flat",
        "consumed": false, "durable": true
    });
    serde_json::from_value(record).expect("a record")
}

/// One that runs inside of `one`.
fn inner(key: &str) -> InnerSubagent {
    let inner = json!({"key": key, "attempt": 1, "title": "t", "state": "running", "can_stop": true,
        "announced_at": AT, "updated_at": AT});
    serde_json::from_value(inner).expect("an inner one")
}

/// An event: an even position is of `one`, an odd one of `foreign`; a position that three divides is an interruption.
fn event(seq: u64) -> Event {
    let subagent = if seq.is_multiple_of(2) { one() } else { foreign() };
    let kind = if seq.is_multiple_of(3) {
        json!({"event": "interrupted", "attempt": 1})
    } else {
        json!({"event": "woken", "attempt": 1})
    };
    let mut event = json!({"seq": seq, "at": AT, "subagent": subagent, "run": 1});
    event.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
    serde_json::from_value(event).expect("an event")
}

/// Notes what it is asked, by whom; gives made-up answers.
pub(crate) struct Scripted {
    pub(crate) asked: Mutex<Vec<String>>,
    /// Processes that belong to subagents.
    pub(crate) members: Mutex<HashMap<u32, SubagentId>>,
    pub(crate) lookups: AtomicUsize,
    /// The status of every subagent.
    pub(crate) status: Mutex<&'static str>,
    /// What every change answers instead.
    pub(crate) refusal: Mutex<Option<Problem>>,
    /// The position of the newest event, and up to which they were released.
    pub(crate) head: watch::Sender<u64>,
    pub(crate) released: AtomicUsize,
    /// Bytes of each notice.
    pub(crate) notice: AtomicUsize,
    pub(crate) limits: Mutex<Limits>,
}

impl Scripted {
    fn note(&self, caller: &Caller, what: impl std::fmt::Debug) -> Result<(), Problem> {
        self.asked.lock().unwrap().push(format!("{}: {what:?}", caller.requester));
        self.refusal.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn record(&self, id: SubagentId) -> SubagentRecord {
        record(id, *self.status.lock().unwrap())
    }

    fn item(&self) -> InboxItem {
        InboxItem {
            delivery_id: format!("{}.1", one()),
            run: RunNumber(1),
            requester: "user:7".into(),
            tries: 1,
            notice: "n".repeat(self.notice.load(Ordering::SeqCst)),
            claimed: None,
            record: self.record(one()),
        }
    }

    /// What was asked since the last look.
    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

#[async_trait]
impl Runtime for Scripted {
    async fn spawn(&self, caller: &Caller, request: SpawnRequest) -> Result<SpawnReply, Problem> {
        let (parent, key, wait) = (&request.parent, &request.idempotency_key, request.wait_ms);
        self.note(caller, ("spawn", &request.prompt, parent, key, wait))?;
        Ok(SpawnReply { record: self.record(one()), ended: false, existing: false, notes: vec![] })
    }

    async fn resume(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: ResumeRequest,
    ) -> Result<ResumeReply, Problem> {
        self.note(caller, ("resume", id, request))?;
        Ok(ResumeReply {
            record: self.record(id),
            run: Some(RunNumber(2)),
            ended: false,
            existing: false,
            ignored: vec!["model".into()],
        })
    }

    async fn steer(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: SteerRequest,
    ) -> Result<SteerReply, Problem> {
        self.note(caller, ("steer", id, request))?;
        let message = json!({
            "message": {"number": 4, "from": "user:7", "mode": "steer", "text": "t", "at": AT},
            "receipt": "accepted"
        });
        let message = serde_json::from_value(message).expect("a message");
        Ok(SteerReply { message: Some(message), accepted: true, record: self.record(id) })
    }

    async fn messages(&self, caller: &Caller, id: SubagentId) -> Result<MessageList, Problem> {
        self.note(caller, ("messages", id))?;
        Ok(MessageList { items: Vec::new() })
    }

    async fn resolve(&self, name: &str) -> Result<SubagentId, Problem> {
        let all = [one(), below(), foreign()];
        let found = all.into_iter().find(|id| id.to_string() == name);
        found
            .or_else(|| "k7q2mx".starts_with(name).then(one))
            .ok_or_else(|| Problem::new(ErrorCode::NotFound, format!("there is no {name}")))
    }

    async fn get(&self, caller: &Caller, id: SubagentId) -> Result<SubagentRecord, Problem> {
        if id == foreign() && !caller.requester.as_str().starts_with("user:") {
            return Err(Problem::new(ErrorCode::NotYours, "it is another's"));
        }
        Ok(self.record(id))
    }

    async fn runs(&self, caller: &Caller, id: SubagentId) -> Result<RunList, Problem> {
        self.note(caller, ("runs", id))?;
        Ok(RunList { id, items: vec![self.record(id)] })
    }

    async fn usage(&self, caller: &Caller, id: SubagentId) -> Result<UsageReport, Problem> {
        self.note(caller, ("usage", id))?;
        let below =
            Usage { input: 5, output: 2, cache_write: 1, cache_read: 9, total: 8, cost_usd: Some(0.5) };
        Ok(UsageReport { id, own: None, below: Some(below), total: Some(below), members: 3 })
    }

    async fn queue_place(&self, caller: &Caller, id: SubagentId) -> Result<QueuePlace, Problem> {
        self.note(caller, ("queue_place", id))?;
        Ok(QueuePlace { ahead: Some(2), held_by: Some("limits.running (4)".into()) })
    }

    async fn list(&self, caller: &Caller, filter: ListFilter) -> Result<Page, Problem> {
        self.note(caller, ("list", filter))?;
        Ok(Page { items: vec![self.record(one())], next: Some(one()), damaged: Vec::new() })
    }

    async fn wait(
        &self,
        caller: &Caller,
        id: SubagentId,
        options: WaitOptions,
    ) -> Result<WaitReply, Problem> {
        self.note(caller, ("wait", id, options))?;
        let record = self.record(id);
        let ended = record.status.is_final();
        Ok(WaitReply { record, ended, run: RunNumber(1) })
    }

    async fn stop(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopRequest,
    ) -> Result<StopReply, Problem> {
        self.note(caller, ("stop", id, request))?;
        Ok(StopReply { record: record(id, "stopping"), accepted: true, cascaded: vec![below()] })
    }

    async fn inner(&self, caller: &Caller, id: SubagentId) -> Result<InnerList, Problem> {
        self.note(caller, ("inner", id))?;
        Ok(InnerList { id, items: vec![inner("c")], more: false })
    }

    async fn stop_inner(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopInnerRequest,
    ) -> Result<StopInnerReply, Problem> {
        let key = request.key.clone();
        self.note(caller, ("stop_inner", id, request))?;
        Ok(StopInnerReply { inner: inner(&key), accepted: true })
    }

    async fn stop_all(&self, caller: &Caller, request: StopAllRequest) -> Result<StopAllReply, Problem> {
        self.note(caller, ("stop_all", request))?;
        let failed = vec![Problem::new(ErrorCode::StoreFull, "no room")];
        Ok(StopAllReply { stopped: vec![self.record(one())], failed })
    }

    async fn gone(&self, caller: &Caller, id: SubagentId, wait: Duration) -> Result<bool, Problem> {
        self.note(caller, ("gone", id, wait))?;
        Ok(true)
    }

    async fn change_budget(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: BudgetRequest,
    ) -> Result<SubagentRecord, Problem> {
        self.note(caller, ("change_budget", id, request))?;
        Ok(self.record(id))
    }

    async fn requests(&self, caller: &Caller, all: bool) -> Result<RequestList, Problem> {
        self.note(caller, ("requests", all))?;
        Ok(RequestList { items: Vec::new() })
    }

    async fn answer(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
        request: AnswerRequest,
    ) -> Result<OpenRequest, Problem> {
        self.note(caller, ("answer", id, number, request))?;
        let answered = json!({
            "id": "k7q2mx.q3", "subagent": id, "handle": "k7q2mx", "description": "d", "number": number, "run": 1,
            "key": "k", "kind": "question", "text": "why?", "opened_at": AT, "expires_at": AT, "state": "answered"
        });
        Ok(serde_json::from_value(answered).expect("a request"))
    }

    async fn revoke(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
    ) -> Result<SubagentRecord, Problem> {
        self.note(caller, ("revoke", id, number))?;
        Ok(self.record(id))
    }

    async fn result(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem> {
        self.note(caller, ("result", id, run, offset, max))?;
        Ok(TextPart { run: RunNumber(1), text: "r".into(), offset, total: offset + 1, next: None })
    }

    async fn types(
        &self,
        caller: &Caller,
        cwd: camino::Utf8PathBuf,
        path: Option<String>,
        name: Option<&str>,
    ) -> Result<subagent_model::agents::TypeList, Problem> {
        self.note(caller, ("types", cwd, path, name))?;
        Ok(subagent_model::agents::TypeList { problems: vec!["p".into()], ..Default::default() })
    }

    async fn transcript(
        &self,
        caller: &Caller,
        id: SubagentId,
        after: Option<&str>,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<TranscriptPage, Problem> {
        self.note(caller, ("transcript", id, after, limit, wait))?;
        let item = json!({"at": AT, "run": 1, "attempt": 2, "log": [3, 4], "type": "message", "text": "m"});
        let items = vec![serde_json::from_value(item).expect("an entry")];
        Ok(TranscriptPage { items, next: "2:9".into(), ended: false, spoken: true })
    }

    async fn output(
        &self,
        caller: &Caller,
        id: SubagentId,
        from: u64,
        wait: Option<Duration>,
    ) -> Result<LogPage, Problem> {
        self.note(caller, ("output", id, from, wait))?;
        let at = serde_json::from_value(json!(AT)).expect("a time");
        let parts = vec![LogPart { stream: "stdout".into(), at, text: "o".into() }];
        Ok(LogPage { parts, next: from + 1, attempt: None, ended: false })
    }

    async fn inbox(
        &self,
        caller: &Caller,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<Vec<InboxItem>, Problem> {
        self.note(caller, ("inbox", limit, wait))?;
        Ok(vec![self.item()])
    }

    async fn inbox_of_all(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem> {
        self.note(caller, ("inbox_of_all", limit))?;
        Ok(vec![self.item()])
    }

    async fn claim(&self, caller: &Caller, request: ClaimRequest) -> Result<Vec<InboxItem>, Problem> {
        self.note(caller, ("claim", request))?;
        Ok(vec![self.item()])
    }

    async fn give_back(&self, caller: &Caller, request: ReturnRequest) -> Result<(), Problem> {
        self.note(caller, ("give_back", request))
    }

    async fn acknowledge(
        &self,
        caller: &Caller,
        targets: Vec<AckTarget>,
        lazily: bool,
    ) -> Result<AckReply, Problem> {
        self.note(caller, ("acknowledge", &targets, lazily))?;
        let acknowledged = targets.iter().map(|target| target.id).collect();
        Ok(AckReply { acknowledged, refused: Vec::new(), unconsumed: 1 })
    }

    /// A person sees all events, others those of `one`.
    async fn events(
        &self,
        caller: &Caller,
        after: Cursor,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<EventPage, Problem> {
        let released = self.released.load(Ordering::SeqCst) as u64;
        if after.0 < released {
            let gone = Problem::new(ErrorCode::CursorGone, "they were released");
            return Err(gone.with_numbers(released, after.0));
        }
        let mut head = self.head.subscribe();
        let wait = wait.unwrap_or_default();
        let _ = tokio::time::timeout(wait, head.wait_for(|head| *head > after.0)).await;
        let last = (*self.head.borrow()).min(after.0 + u64::from(limit));
        let all = (after.0 + 1..=last).map(event);
        let person = caller.requester.as_str().starts_with("user:");
        let items = all.filter(|event| person || event.subagent == one()).map(Arc::new).collect();
        Ok(EventPage { items, next: Cursor(last.max(after.0)) })
    }

    async fn activity(&self, _: &Caller) -> Result<Vec<Activity>, Problem> {
        let look = |id, run| {
            let look = json!({"id": id, "run": run, "last_seen_at": AT, "active_tools": ["bash"]});
            serde_json::from_value(look).expect("activity")
        };
        Ok(vec![look(one(), 1), look(below(), 2)])
    }

    async fn gc(&self, caller: &Caller, request: GcRequest) -> Result<GcReply, Problem> {
        self.note(caller, ("gc", request))?;
        Ok(GcReply { dry_run: request.dry_run, bytes: 9, ..GcReply::default() })
    }

    async fn limits(&self) -> Result<Limits, Problem> {
        Ok(self.limits.lock().unwrap().clone())
    }

    async fn set_limits(&self, caller: &Caller, limits: Limits) -> Result<Limits, Problem> {
        self.note(caller, ("set_limits", &limits))?;
        *self.limits.lock().unwrap() = limits.clone();
        Ok(limits)
    }

    async fn health(&self) -> Result<Health, Problem> {
        let health = json!({
            "version": "1", "pid": 1, "node": "n", "started_at": AT, "running": 0, "running_limit": 4, "queued": 0,
            "unconsumed": 0, "cursor": *self.head.borrow(), "containment": "walk", "draining": false,
            "refused": {"queue_full": 3},
            "recovery": {"adopted": 0, "settled": 0, "requeued": 0, "stopping": 0, "lost": 0, "damaged": 0}
        });
        Ok(serde_json::from_value(health).expect("health"))
    }

    fn subagent_of_process(&self, pid: u32) -> Option<SubagentId> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.members.lock().unwrap().get(&pid).copied()
    }
}

/// A scripted runtime at a socket.
pub(crate) struct World {
    pub(crate) runtime: Arc<Scripted>,
    pub(crate) http: Http,
    pub(crate) client: Client,
    pub(crate) shutdown: mpsc::Receiver<ShutdownRequest>,
    stop: CancellationToken,
    _directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = Arc::new(Scripted {
            asked: Mutex::default(),
            members: Mutex::default(),
            lookups: AtomicUsize::new(0),
            status: Mutex::new("running"),
            refusal: Mutex::default(),
            head: watch::Sender::new(0),
            released: AtomicUsize::new(0),
            notice: AtomicUsize::new(1),
            limits: Mutex::default(),
        });
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("s");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (sender, shutdown) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let served = Arc::clone(&runtime);
        tokio::spawn(subagent_api::serve(served, Admin { shutdown: sender }, listener, stop.clone()));
        Self {
            runtime,
            http: Http::new(&socket),
            client: Client::new(socket),
            shutdown,
            stop,
            _directory: directory,
        }
    }

    /// Speaks by hand, on a thread of its own.
    pub(crate) async fn by_hand<T: Send + 'static>(
        &self,
        speak: impl FnOnce(Http) -> T + Send + 'static,
    ) -> T {
        let http = self.http.clone();
        tokio::task::spawn_blocking(move || speak(http)).await.expect("it does not fail")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
