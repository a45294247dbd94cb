#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod anew;
mod asks;
mod launching;
mod turns;

use serde_json::{Value, json};
use subagent_model::SpawnSpec;
use subagent_provider::{Codec, Heard, Job, Said, TurnEnd};

use super::Rpc;
use crate::testing::{lines_of, prompt, said, told};

const SESSION: &str = "01a22e47-7197-702f-9574-7b07dee7ef6b";

fn job(session: Option<&str>, change: impl FnOnce(&mut SpawnSpec)) -> Job {
    crate::testing::job("pi", session, change)
}

fn state() -> Value {
    json!({"id": "open", "type": "response", "command": "get_state", "success": true,
        "data": {"model": {"id": "m", "provider": "p"}, "sessionId": SESSION, "isStreaming": false}})
}

fn stats(id: &str, input: u64, cost: f64) -> Value {
    json!({"id": id, "type": "response", "command": "get_session_stats", "success": true, "data": {
        "tokens": {"input": input, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": input}, "cost": cost}})
}

fn ok(id: &str, disposition: &str) -> Value {
    json!({"id": id, "type": "response", "command": "x", "success": true, "data": {"disposition": disposition}})
}

fn hear(codec: &mut Rpc, line: &Value) -> Heard {
    codec.hear(line.to_string().as_bytes())
}

/// A session that takes prompts.
fn open() -> Rpc {
    let mut codec = Rpc::default();
    let first = lines_of(&codec.open(&job(None, |_| {})));
    assert_eq!((&first[0]["type"], &first[1]["type"]), (&json!("get_state"), &json!("get_session_stats")));
    assert_eq!(said(&mut codec, &state()), [Said::Model("p/m".into())]);
    assert_eq!(
        said(&mut codec, &stats("open:stats", 0, 0.0)),
        [Said::Opened { session: Some(SESSION.into()) }]
    );
    codec
}

/// A turn that was taken.
fn at_work() -> Rpc {
    let mut codec = open();
    let request = told(&mut codec, &prompt("do it"));
    assert_eq!(said(&mut codec, &ok(request[0]["id"].as_str().unwrap(), "started")), []);
    codec
}

fn message(text: &str, stop: &str) -> Value {
    json!({"type": "message_end", "message": {"role": "assistant", "content": [{"type": "text", "text": text}],
        "usage": {"input": 10, "output": 2, "cacheRead": 5, "cacheWrite": 1, "cost": {"total": 0.5}}, "stopReason": stop}})
}

fn broken(why: &str) -> Value {
    json!({"type": "message_end", "message": {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": why}})
}

fn queue(length: usize) -> Value {
    json!({"type": "queue_update", "steering": vec!["x"; length], "followUp": []})
}

fn settled(aborted: bool) -> Value {
    json!({"type": "agent_settled", "aborted": aborted})
}

/// It settles, and its sums are what was counted.
fn settle(codec: &mut Rpc, aborted: bool) -> Vec<Said> {
    let heard = hear(codec, &settled(aborted));
    assert_eq!(heard.said, [], "its sums are looked at first");
    assert_eq!(lines_of(&heard.reply)[0]["type"], "get_session_stats");
    said(codec, &stats("stats", 0, 0.0))
}

fn finished(answer: &str) -> Said {
    Said::Done(TurnEnd::Finished { answer: Some(answer.to_owned()), truncated: false })
}
