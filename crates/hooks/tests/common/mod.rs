//! Made-up runs, and an observer that writes down what it is told.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use subagent_hooks::{Committed, Dispatch, EndInfo, Observer, RunView, StartInfo};
use subagent_model::{
    AttemptNumber, Cursor, Event, EventKind, NodeId, Outcome, Requester, RunNumber, SubagentId,
    SubagentRecord, Timestamp,
};

pub const LONG: Duration = Duration::from_hours(1);

pub fn id(number: u128) -> SubagentId {
    SubagentId::from_uuid(uuid::Uuid::from_u128(number))
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

/// The record of an ended run of subagent `number`; `started` in second 2 or never.
pub fn record(number: u128, run: u32, attempt: u32, started: bool) -> SubagentRecord {
    let mut value = serde_json::json!({
        "id": id(number), "handle": format!("s{number}"), "type": "Plugin:Code-Reviewer ", "description": "look",
        "provider": "exec", "mode": "async", "is_background": true, "status": "completed", "quality": "ok",
        "run": run, "attempt": attempt, "parent": id(77), "root": id(70), "depth": 2, "requested_by": owner(number),
        "created_at": at(0), "accepted_at": at(1), "completed_at": at(9), "updated_at": at(9),
        "end_reason": "ended by itself", "turn_count": 0, "tool_uses": 0, "compaction_count": 0, "cwd": "/gone",
        "tier": "flat", "consumed": false, "durable": true, "resumable": true,
    });
    if started {
        value["started_at"] = serde_json::json!(at(2));
        value["transcript"] = serde_json::json!(format!("attempts/{number}.{run}.{attempt}"));
    }
    serde_json::from_value(value).unwrap()
}

/// Two owners share the subagents: even ones and odd ones.
pub fn owner(number: u128) -> Requester {
    Requester::from(if number.is_multiple_of(2) { "user:even" } else { "user:odd" })
}

pub fn claimed(attempt: u32) -> EventKind {
    EventKind::Claimed {
        attempt: AttemptNumber(attempt),
        owner: NodeId::from("here"),
        lease_until: Timestamp::never(),
    }
}

pub fn started(attempt: u32) -> EventKind {
    EventKind::Started { attempt: AttemptNumber(attempt), process: None }
}

pub fn attempt_ended(attempt: u32) -> EventKind {
    EventKind::AttemptEnded {
        attempt: AttemptNumber(attempt),
        reason: "again".into(),
        exit: None,
        anew: false,
    }
}

// From their form on the wire, where optional fields may be left out: the events grow.
pub fn progress(attempt: u32) -> EventKind {
    kind(serde_json::json!({"event": "progress", "attempt": attempt, "turns": 1}))
}

pub fn ended(outcome: &Outcome) -> EventKind {
    kind(serde_json::json!({"event": "ended", "outcome": outcome, "completed_at": at(9), "quality": "ok"}))
}

pub fn kind(value: serde_json::Value) -> EventKind {
    serde_json::from_value(value).unwrap()
}

pub fn completed() -> EventKind {
    ended(&Outcome::Completed)
}

pub fn committed(seq: u64, number: u128, run: u32, kind: EventKind) -> Committed {
    let event = Event { seq: Cursor(seq), at: at(2), subagent: id(number), run: RunNumber(run), kind };
    Committed { event, requester: owner(number), logged: true }
}

pub fn view(number: u128, run: u32, attempt: u32, started: bool) -> RunView {
    let last_message = Some(Arc::from("done"));
    RunView { record: record(number, run, attempt, started), last_message, continuations: 0 }
}

/// Feeds events of `(subagent, run)`, numbered from `first`.
pub fn feed(dispatch: &Dispatch, first: u64, events: impl IntoIterator<Item = (u128, u32, EventKind)>) {
    for (seq, (number, run, kind)) in (first..).zip(events) {
        dispatch.committed(committed(seq, number, run, kind), || view(number, run, 1, true));
    }
}

/// What it does when it is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Good,
    Panics,
    PanicsUnprintably,
    HangsOnStart,
    Takes(Duration),
}

pub struct Recorder {
    pub name: &'static str,
    pub manner: Manner,
    pub events: bool,
    pub owner: Option<Requester>,
    pub told: Mutex<Vec<String>>,
    pub ends: Mutex<Vec<EndInfo>>,
}

impl Recorder {
    pub fn new(name: &'static str, manner: Manner) -> Self {
        let (told, ends) = (Mutex::default(), Mutex::default());
        Self { name, manner, events: false, owner: None, told, ends }
    }

    pub fn with_events(self) -> Self {
        Self { events: true, ..self }
    }

    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    async fn note(&self, what: String) {
        if let Manner::Takes(time) = self.manner {
            tokio::time::sleep(time).await;
        }
        self.told.lock().unwrap().push(what);
        match self.manner {
            Manner::Panics => panic!("on purpose"),
            Manner::PanicsUnprintably => std::panic::panic_any(Spiteful),
            _ => {}
        }
    }
}

struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

#[async_trait]
impl Observer for Recorder {
    fn name(&self) -> &str {
        self.name
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn owner(&self) -> Option<Requester> {
        self.owner.clone()
    }

    fn events(&self) -> bool {
        self.events
    }

    async fn on_start(&self, start: &StartInfo) {
        if self.manner == Manner::HangsOnStart {
            std::future::pending::<()>().await;
        }
        let fact = if start.started { "start" } else { "never" };
        self.note(format!("{fact} {}.{}", start.facts.handle, start.facts.run)).await;
    }

    async fn on_end(&self, end: &EndInfo) {
        self.ends.lock().unwrap().push(end.clone());
        self.note(format!("end {}.{}", end.facts.handle, end.facts.run)).await;
    }

    async fn on_event(&self, event: &Event) {
        self.note(format!("event {}", event.seq)).await;
    }

    async fn on_lag(&self, missed: u64, resume_after: Cursor) {
        self.note(format!("lag {missed} after {resume_after}")).await;
    }
}
