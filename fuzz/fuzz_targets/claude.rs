//! Anything that Claude Code may say.

#![no_main]

mod common;

use std::sync::LazyLock;

use common::{Peer, converse, job};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use subagent_provider_cli::{Claude, ClaudeCode};

static PEER: LazyLock<Peer> = LazyLock::new(|| Peer {
    job: |kind| {
        job(ClaudeCode::NAME, |spec| {
            spec.setup.tools.allow =
                (kind & 1 != 0).then(|| vec![String::from("Bash"), String::from("Read")]);
            spec.setup.tools.deny = if kind & 2 != 0 { vec![String::from("Bash")] } else { vec![] };
            spec.setup.fork_of = (kind & 4 != 0).then(|| String::from("other"));
            spec.setup.permission_mode = (kind & 8 != 0).then(|| String::from("plan"));
            spec.permissions.unattended = kind & 16 != 0;
        })
    },
    session: "s",
    opening: vec![
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "initialize", "response": {}}}),
    ],
    known: known(),
    words: &[
        "k",
        "t",
        "a",
        "idle",
        "queued",
        "started",
        "cancelled",
        "success",
        "allow",
        "Bash",
        "AskUserQuestion",
    ],
    answer,
});

fn lifecycle(name: &Value, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": name, "state": state})
}

fn respond(id: &Value, response: Value) -> Value {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})
}

fn answer(told: &Value, how: u8) -> Vec<Value> {
    let (name, id) = (&told["uuid"], &told["request_id"]);
    match (told["type"].as_str(), how % 8) {
        (Some("user"), 0) => vec![lifecycle(name, "queued")],
        (Some("user"), 1) => vec![lifecycle(name, "started")],
        (Some("user"), 2) => vec![lifecycle(name, "queued"), lifecycle(name, "started")],
        (Some("user"), 3) => vec![lifecycle(name, "cancelled")],
        (Some("user"), 4) => vec![lifecycle(name, "completed")],
        (Some("user"), 5) => {
            let mut result = result();
            result["user_message_uuids"] = json!([name]);
            vec![result]
        }
        (Some("user"), _) => vec![respond(&json!("interrupt-1"), json!({"cancelled": [name]}))],
        (Some("control_request"), 0) => {
            vec![
                json!({"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": "no"}}),
            ]
        }
        (Some("control_request"), _) => vec![respond(id, json!({}))],
        _ => vec![],
    }
}

fn result() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": "done", "stop_reason": "end_turn",
        "total_cost_usd": 0.5, "permission_denials": [], "terminal_reason": "completed", "num_turns": 1,
        "api_error_status": null, "usage": {"input_tokens": 1, "output_tokens": 2},
        "modelUsage": {"m": {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.5}},
        "model_usage_since_last_result": {"m": {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.5}}})
}

fn known() -> Vec<Value> {
    let assistant = |block: Value| {
        json!({"type": "assistant", "parent_tool_use_id": null,
            "message": {"id": "msg_1", "role": "assistant", "model": "m", "content": [block], "stop_reason": null,
                "usage": {"input_tokens": 100, "output_tokens": 1}}})
    };
    let stream = |event: Value| json!({"type": "stream_event", "event": event, "parent_tool_use_id": null});
    let request =
        |id: &str, request: Value| json!({"type": "control_request", "request_id": id, "request": request});
    let system = |subtype: &str, mut fields: Value| {
        fields["type"] = json!("system");
        fields["subtype"] = json!(subtype);
        fields
    };
    let result = |fields: Value| {
        let mut result = result();
        for (name, value) in fields.as_object().into_iter().flatten() {
            result[name] = value.clone();
        }
        result
    };
    vec![
        respond(&json!("initialize"), json!({})),
        system("init", json!({"session_id": "s", "model": "m", "tools": ["Bash"]})),
        system("init", json!({"session_id": "s2", "model": "m2"})),
        system("session_state_changed", json!({"state": "running"})),
        system("session_state_changed", json!({"state": "idle"})),
        assistant(json!({"type": "text", "text": "hi"})),
        assistant(json!({"type": "thinking", "thinking": "hm"})),
        assistant(json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}})),
        json!({"type": "assistant", "error": "rate_limit", "is_api_error_message": true, "aborted": false,
            "rate_limit_info": {"status": "rejected", "resetsAt": 1e9, "rateLimitType": "five_hour"},
            "message": {"content": [{"type": "text", "text": "limit"}]}}),
        json!({"type": "user", "parent_tool_use_id": null,
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": false}]}}),
        stream(json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}})),
        stream(
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
        ),
        stream(
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2,
            "cache_creation_input_tokens": 1, "cache_read_input_tokens": 1}}),
        ),
        stream(json!({"type": "message_stop"})),
        stream(json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}})),
        result(json!({})),
        result(json!({"is_error": true, "api_error_status": 529, "api_error": "overloaded"})),
        result(
            json!({"subtype": "error_during_execution", "terminal_reason": "aborted_tools", "is_error": true}),
        ),
        result(json!({"subtype": "error_max_turns", "is_error": true, "errors": ["x"]})),
        result(
            json!({"permission_denials": [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "ls"}}]}),
        ),
        result(json!({"structured_output": {"a": 1}})),
        request(
            "k",
            json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"},
            "agent_id": "a", "blocked_path": "/x", "decision_reason": "r", "description": "d"}),
        ),
        request("l", json!({"subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": {"plan": "p"}})),
        request(
            "n",
            json!({"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": [
            {"question": "why?", "header": "h", "multiSelect": false, "options": [{"label": "a", "description": "b"}]},
            {"question": "how?", "header": "h", "multiSelect": true, "options": [{"label": "a"}, {"label": "c"}]}]}}),
        ),
        request("o", json!({"subtype": "can_use_tool", "tool_name": "Edit", "input": {"file_path": "/x"}})),
        request("m", json!({"subtype": "elicitation"})),
        request("m", json!({"subtype": "request_user_dialog"})),
        request("m", json!({"subtype": "hook_callback"})),
        request("m", json!({"subtype": "to_come"})),
        json!({"type": "control_cancel_request", "request_id": "k"}),
        system("background_tasks_changed", json!({"tasks": [{"task_id": "b", "ambient": false}]})),
        system("background_tasks_changed", json!({"tasks": []})),
        system(
            "task_started",
            json!({"task_id": "a", "task_type": "local_agent", "subagent_type": "x",
            "description": "d", "parent_task_id": null}),
        ),
        system("task_started", json!({"task_id": "b", "task_type": "local_agent", "parent_task_id": "a"})),
        system("task_updated", json!({"task_id": "a", "patch": {"status": "running", "description": "e"}})),
        system("task_notification", json!({"task_id": "a", "status": "completed"})),
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1e300}}),
        system(
            "api_retry",
            json!({"attempt": 1, "max_retries": 9, "retry_delay_ms": 5.5, "error_status": 529, "error": "x"}),
        ),
        system("compact_boundary", json!({})),
        system("informational", json!({"content": "x"})),
        system("permission_denied", json!({"tool_use_id": "t", "tool_name": "Bash", "message": "no"})),
    ]
}

fuzz_target!(|input: &[u8]| {
    converse(&PEER, input, |job| Box::new(Claude::new(job)), |live, anew| assert_eq!(live, anew));
});
