#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod approvals;
mod ends;
mod launch;
mod properties;
mod turns;

use std::sync::Arc;

use serde_json::{Value, json};
use subagent_model::{
    AttemptKey, AttemptNumber, BoundedText, ExitFacts, MessageNumber, Requester, RunNumber, SpawnSpec,
    SubagentId,
};
use subagent_provider::{Codec, EndReason, Heard, Job, Order, ProcessEnd, Said, TurnEnd};

use super::Claude;

fn spec() -> SpawnSpec {
    SpawnSpec::new("claude", BoundedText::whole("do it").unwrap(), "/work".into())
}

fn job(spec: SpawnSpec) -> Job {
    let key = AttemptKey {
        subagent: SubagentId::from_uuid(uuid::Uuid::from_u128(7)),
        run: RunNumber(1),
        attempt: AttemptNumber(1),
    };
    Job {
        key,
        prompt: spec.prompt.clone(),
        prompt_text: None,
        spec: Arc::new(spec),
        dir: "/jobs/7".into(),
        session: None,
    }
}

/// A conversation that has just begun.
fn begun(spec: SpawnSpec) -> Claude {
    let job = job(spec);
    let mut claude = Claude::new(&job);
    claude.open(&job);
    claude
}

/// A child that has answered.
fn opened() -> Claude {
    opened_with(spec())
}

fn opened_with(spec: SpawnSpec) -> Claude {
    let mut claude = begun(spec);
    assert!(matches!(said(&mut claude, &welcome())[..], [Said::Opened { .. }]));
    claude
}

fn hear(claude: &mut Claude, frame: &Value) -> Heard {
    claude.hear(frame.to_string().as_bytes())
}

/// What it says by this, where the protocol itself answers nothing.
fn said(claude: &mut Claude, frame: &Value) -> Vec<Said> {
    let heard = hear(claude, frame);
    assert!(heard.reply.is_empty(), "{frame} is answered");
    heard.said
}

/// What the protocol answers to this by itself, where nothing is said.
fn replied(claude: &mut Claude, frame: &Value) -> Value {
    let heard = hear(claude, frame);
    assert_eq!(heard.said, [], "{frame}");
    line(&heard.reply)
}

fn line(bytes: &[u8]) -> Value {
    let whole = bytes.strip_suffix(b"\n").unwrap();
    assert!(!whole.contains(&b'\n'), "one line");
    serde_json::from_slice(whole).unwrap()
}

fn told(claude: &mut Claude, order: &Order) -> Value {
    line(&claude.tell(order).unwrap())
}

fn prompt(text: &str) -> Order {
    Order::Prompt { number: None, from: Requester::from("me"), text: text.to_owned(), attached: vec![] }
}

fn steer(number: u64) -> Order {
    Order::Steer {
        number: MessageNumber(number),
        from: Requester::from("me"),
        text: String::from("a\nb"),
        attached: vec![],
    }
}

/// Writes a prompt, which it reads and begins with.
fn prompted(claude: &mut Claude) -> String {
    begins(claude, &prompt("do it"))
}

fn begins(claude: &mut Claude, order: &Order) -> String {
    let name = told(claude, order)["uuid"].as_str().unwrap().to_owned();
    for frame in [state("running"), lifecycle(&name, "queued"), lifecycle(&name, "started"), init()] {
        let heard = said(claude, &frame);
        assert!(heard.iter().all(|said| matches!(said, Said::Model(_))), "{heard:?}");
    }
    name
}

/// A turn ends by this result.
fn ended(claude: &mut Claude, result: &Value) -> TurnEnd {
    let before = said(claude, result);
    assert!(!before.iter().any(|said| matches!(said, Said::Done(_))), "it may go on: {before:?}");
    match said(claude, &state("idle")).pop() {
        Some(Said::Done(end)) => end,
        other => panic!("{result} is no end: {other:?}"),
    }
}

fn welcome() -> Value {
    let response = json!({"commands": [], "models": [], "account": {}, "pid": 7, "session_state": "idle"});
    json!({"type": "control_response",
        "response": {"subtype": "success", "request_id": "initialize", "response": response},
        "pending_permission_requests": []})
}

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "cwd": "/work", "session_id": session(), "tools": ["Bash"],
        "mcp_servers": [], "model": "claude-opus-5-5", "permissionMode": "default", "uuid": "u",
        "capabilities": ["interrupt_cancel_queued_v1", "msg_lifecycle_v1"]})
}

fn session() -> String {
    super::names::session(&job(spec()).key)
}

fn state(state: &str) -> Value {
    json!({"type": "system", "subtype": "session_state_changed", "state": state, "uuid": "u", "session_id": "s"})
}

fn lifecycle(name: &str, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": name, "state": state, "uuid": "u", "session_id": "s"})
}

fn assistant(block: &Value) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null, "session_id": "s", "uuid": "u",
        "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block],
            "stop_reason": null, "usage": {"input_tokens": 100, "output_tokens": 1}}})
}

fn text(text: &str) -> Value {
    assistant(&json!({"type": "text", "text": text}))
}

fn user(block: &Value) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": null,
        "session_id": "s", "uuid": "u", "tool_use_result": {"stdout": ""}})
}

fn stream(event: &Value) -> Value {
    json!({"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": null, "uuid": "u"})
}

/// A result of one turn; its first key is not its type.
fn result(fields: &Value) -> Value {
    let mut result = json!({"duration_api_ms": 32, "stop_reason": "end_turn", "session_id": "s",
        "total_cost_usd": 0.5, "permission_denials": [], "terminal_reason": "completed", "is_error": false,
        "num_turns": 1, "subtype": "success", "api_error_status": null, "result": "done", "type": "result",
        "queued_turn_count": 0, "result_index": 0});
    for (name, value) in fields.as_object().unwrap() {
        result[name] = value.clone();
    }
    result
}

fn request(id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

fn process_end(code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
    ProcessEnd {
        reason: EndReason::Natural,
        exit: ExitFacts { code, signal, at: None },
        stdout_head: br#"{"type":"result","subtype":"success","is_error":false,"result":"fine"}"#.to_vec(),
        stdout_tail: vec![],
        stdout_omitted: 0,
        stderr_tail: b"Error: it broke\n".to_vec(),
        incomplete: None,
        leftovers: 0,
        out_of_memory: false,
    }
}
