//! Anything that a program may say which speaks lines.

#![no_main]

mod common;

use std::sync::LazyLock;

use common::{Peer, converse, job};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use subagent_model::{ExecSpec, PromptVia, ResultFrom, Talk};
use subagent_provider::Provider;
use subagent_provider_cli::{Exec, Lines};

static PEER: LazyLock<Peer> = LazyLock::new(|| Peer {
    job: |_| {
        job(Exec::NAME, |spec| {
            spec.exec = Some(ExecSpec {
                program: String::from("agent"),
                args: vec![],
                prompt_via: PromptVia::Stdin,
                result: ResultFrom::WholeOutput,
                talk: Talk::Lines,
            });
        })
    },
    session: "s",
    opening: vec![hello(&["steer", "interrupt", "took"]), json!({"type": "ready", "session": "s"})],
    known: known(),
    words: &[
        "allow_once",
        "deny_always",
        "rate_limited",
        "crashed",
        "steer",
        "hello",
        "2026-11-30T00:53:20Z",
    ],
    answer,
});

fn hello(can: &[&str]) -> Value {
    json!({"type": "hello", "version": 1, "session": "s", "can": can})
}

fn answer(told: &Value, how: u8) -> Vec<Value> {
    let number = &told["number"];
    match (told["type"].as_str(), how % 4) {
        (Some("hello"), 0) => vec![hello(&["steer", "interrupt"]), json!({"type": "ready"})],
        (Some("hello"), 1) => vec![hello(&[])],
        (Some("prompt" | "steer"), 0) => vec![json!({"type": "took", "number": number})],
        (Some("prompt" | "steer"), 1) => vec![json!({"type": "declined", "number": number})],
        (Some("interrupt"), 0) => vec![json!({"type": "cancelled"})],
        _ => vec![json!({"type": "done", "answer": "42"})],
    }
}

fn known() -> Vec<Value> {
    vec![
        hello(&["steer", "interrupt", "took"]),
        hello(&[]),
        json!({"type": "ready", "session": "t"}),
        json!({"type": "ready"}),
        json!({"type": "delta", "text": "he"}),
        json!({"type": "message", "text": "hello"}),
        json!({"type": "turn", "more": true}),
        json!({"type": "thought", "text": "hm"}),
        json!({"type": "notice", "text": "slow"}),
        json!({"type": "tool_started", "id": "k", "name": "grep", "input": {"for": "x"}}),
        json!({"type": "tool_ended", "id": "k", "failed": true, "output": "no"}),
        json!({"type": "usage", "input": 1, "output": 2, "cache_write": 3, "cache_read": 4, "cost_usd": 0.25}),
        json!({"type": "compacted"}),
        json!({"type": "took", "number": 3}),
        json!({"type": "declined", "number": 3}),
        json!({"type": "ask", "key": "k", "action": "execute", "title": "rm x", "detail": "d", "options": [
            {"id": "o", "name": "Yes", "kind": "allow_once"}, {"id": "p", "kind": "deny_always"}]}),
        json!({"type": "question", "key": "q", "text": "why?", "choices": ["a"]}),
        json!({"type": "took_back", "key": "k"}),
        json!({"type": "background", "live": 2}),
        json!({"type": "held_up", "until": "2026-11-30T00:53:20.123456Z"}),
        json!({"type": "done", "answer": "42", "truncated": true}),
        json!({"type": "cancelled"}),
        json!({"type": "failed", "code": "rate_limited", "message": "m", "detail": "d", "retryable": true,
            "reset_at": "2026-11-30T00:53:20Z"}),
        json!({"type": "mood"}),
    ]
}

fuzz_target!(|input: &[u8]| {
    // The provider's own codec is the one that is compared.
    debug_assert!(Exec.codec(&(PEER.job)(0)).is_some());
    converse(&PEER, input, |_| Box::new(Lines::default()), |live, anew| assert_eq!(live, anew));
});
