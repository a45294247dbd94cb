//! Anything that pi may say.

#![no_main]

mod common;

use std::sync::LazyLock;

use common::{Peer, converse, job};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use subagent_provider_cli::{Pi, Rpc};

static PEER: LazyLock<Peer> = LazyLock::new(|| Peer {
    job: |_| job(Pi::NAME, |_| {}),
    session: "s",
    opening: vec![state("open"), stats("open:stats", 5, 0.1)],
    known: known(),
    words: &[
        "u",
        "v",
        "stop",
        "toolUse",
        "aborted",
        "handled",
        "queued",
        "interrupt",
        "clear",
        "stats",
        "assistant",
    ],
    answer,
});

fn state(id: &str) -> Value {
    json!({"id": id, "type": "response", "command": "get_state", "success": true,
        "data": {"model": {"id": "m", "provider": "p"}, "sessionId": "s", "isStreaming": false}})
}

fn stats(id: &str, input: u64, cost: f64) -> Value {
    json!({"id": id, "type": "response", "command": "get_session_stats", "success": true, "data": {
        "tokens": {"input": input, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": input}, "cost": cost}})
}

fn queue(length: usize) -> Value {
    json!({"type": "queue_update", "steering": vec!["x"; length], "followUp": []})
}

fn settled(aborted: bool) -> Value {
    json!({"type": "agent_settled", "aborted": aborted})
}

fn answer(told: &Value, how: u8) -> Vec<Value> {
    let Some(id) = told["id"].as_str() else { return vec![] };
    let ok = |data: Value| json!({"id": id, "type": "response", "success": true, "data": data});
    if how % 8 == 7 {
        return vec![json!({"id": id, "type": "response", "success": false, "error": "429: slow"})];
    }
    match told["type"].as_str() {
        Some("get_state") => vec![state(id)],
        Some("get_session_stats") => vec![stats(id, 10 * u64::from(how), f64::from(how))],
        Some("clear_queue") => vec![ok(json!({"steering": vec!["x"; usize::from(how % 4)], "followUp": []}))],
        Some("abort") if how & 1 == 0 => vec![ok(json!(null)), settled(true)],
        Some("prompt") => vec![ok(json!({"disposition": if how == 5 { "handled" } else { "started" }}))],
        Some("steer") if how & 1 == 0 => vec![queue(1), ok(json!({"disposition": "queued"})), queue(0)],
        Some("steer") => vec![ok(json!({"disposition": if how == 5 { "handled" } else { "queued" }}))],
        _ => vec![ok(json!(null))],
    }
}

fn known() -> Vec<Value> {
    let message = |text: &str, stop: &str| {
        json!({"type": "message_end", "message": {"role": "assistant", "stopReason": stop,
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}],
            "usage": {"input": 10, "output": 2, "cacheRead": 5, "cacheWrite": 1, "cost": {"total": 0.5}}}})
    };
    let mut known = vec![
        state("open"),
        stats("open:stats", 5, 0.1),
        stats("stats", 70, 0.5),
        stats("stats", 700, 1.5),
        json!({"type": "agent_start"}),
        message("hello", "stop"),
        message("part", "aborted"),
        message("cut", "length"),
        message("tool", "toolUse"),
        json!({"type": "message_end", "message": {"role": "assistant", "content": [], "stopReason": "error",
            "errorMessage": "401: no"}}),
        json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": "x"}}),
        json!({"type": "tool_execution_start", "toolCallId": "t", "toolName": "bash", "args": {"command": "ls"}}),
        json!({"type": "tool_execution_end", "toolCallId": "t", "isError": false,
            "result": {"content": [{"type": "text", "text": "x"}]}}),
        settled(false),
        settled(true),
        queue(0),
        queue(1),
        queue(2),
        json!({"type": "turn_end", "message": {"role": "assistant", "stopReason": "stop"}}),
        json!({"type": "auto_retry_start", "errorMessage": "429: slow"}),
        json!({"type": "compaction_end", "result": {}, "aborted": false}),
        json!({"type": "extension_error", "extensionPath": "p", "error": "e"}),
        json!({"type": "to_come"}),
        json!({"id": "interrupt", "type": "response", "success": true}),
        json!({"type": "response", "success": false, "error": "parse"}),
    ];
    for id in ["clear", "interrupt:clear"] {
        known.push(json!({"id": id, "type": "response", "success": true, "data": {"steering": ["x"]}}));
    }
    for id in ["u", "v"] {
        for method in ["confirm", "input", "editor", "notify", "to_come"] {
            known.push(json!({"type": "extension_ui_request", "id": id, "method": method, "title": "t", "message": "m"}));
        }
        for options in [json!(["Allow", "Block"]), json!(["Red", "Green", "Blue"])] {
            known.push(
                json!({"type": "extension_ui_request", "id": id, "method": "select", "title": "t", "options": options}),
            );
        }
    }
    known
}

fuzz_target!(|input: &[u8]| {
    converse(&PEER, input, |_| Box::new(Rpc::default()), |live, anew| assert_eq!(live, anew));
});
