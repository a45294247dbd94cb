#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod anew;
mod asks;
mod ends;
mod messages;
mod opening;

use serde_json::{Value, json};
use subagent_model::SpawnSpec;
use subagent_provider::{Codec, Heard, Job, Said, TurnEnd};

use super::AppServer;
use crate::testing::{lines_of as frames, prompt, said, told};

const THREAD: &str = "01a22e45-95e2-7fc0-bbfe-6fd0ce53d84c";
const TURN: &str = "01a22e45-95fa-7803-8811-de1ec9c81d74";

fn job(session: Option<&str>, change: impl FnOnce(&mut SpawnSpec)) -> Job {
    crate::testing::job("codex", session, change)
}

/// What the opening of a thread is answered with.
fn opened_with(approvals: &str, sandbox: &str) -> Value {
    json!({"id": "thread", "result": {
        "thread": {"id": THREAD, "sessionId": THREAD, "turns": []}, "model": "m-1", "cwd": "/work",
        "approvalPolicy": approvals, "approvalsReviewer": "user", "sandbox": {"type": sandbox},
    }})
}

fn hear(codec: &mut AppServer, frame: &Value) -> Heard {
    codec.hear(frame.to_string().as_bytes())
}

/// A thread that takes prompts.
fn open() -> AppServer {
    open_for(&job(None, |_| {}))
}

fn open_for(job: &Job) -> AppServer {
    let mut codec = AppServer::default();
    let hello = frames(&codec.open(job));
    assert_eq!(hello[0]["method"], "initialize");
    let greeted = hear(&mut codec, &json!({"id": hello[0]["id"], "result": {"userAgent": "x"}}));
    assert_eq!(frames(&greeted.reply).len(), 2);
    let opened = said(&mut codec, &opened_with("untrusted", "workspaceWrite"));
    assert!(opened.contains(&Said::Opened { session: Some(THREAD.to_owned()) }), "{opened:?}");
    codec
}

fn note(method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    let fields = [("threadId", THREAD), ("turnId", TURN)];
    for (field, value) in fields {
        if params[field].is_null() {
            params[field] = json!(value);
        }
    }
    json!({"method": method, "params": params, "emittedAtMs": 1})
}

fn begins(thread: &str, turn: &str) -> Value {
    json!({"method": "turn/started", "params": {"threadId": thread, "turn": {"id": turn, "status": "inProgress"}}})
}

fn ends(thread: &str, turn: &str, status: &str, error: &Value) -> Value {
    let turn = json!({"id": turn, "items": [], "status": status, "error": error});
    json!({"method": "turn/completed", "params": {"threadId": thread, "turn": turn}})
}

fn item(state: &str, item: &Value) -> Value {
    note(&format!("item/{state}"), &json!({"item": item}))
}

fn message(text: &str, phase: &Value) -> Value {
    item("completed", &json!({"type": "agentMessage", "id": text, "text": text, "phase": phase}))
}

/// A turn that has begun.
fn at_work() -> AppServer {
    let mut codec = open();
    begin(&mut codec, TURN);
    codec
}

fn begin(codec: &mut AppServer, turn: &str) {
    let request = told(codec, &prompt("do it"));
    assert_eq!(said(codec, &json!({"id": request[0]["id"], "result": {"turn": {"id": turn}}})), []);
    assert_eq!(said(codec, &begins(THREAD, turn)), []);
}

fn finished(answer: &str) -> Said {
    Said::Done(TurnEnd::Finished { answer: Some(answer.to_owned()), truncated: false })
}

/// The end of a turn among what was said.
fn end_of(said: &[Said]) -> &TurnEnd {
    match said.last() {
        Some(Said::Done(end)) => end,
        other => panic!("no end: {other:?}"),
    }
}
