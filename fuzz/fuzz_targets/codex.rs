//! Anything that the app-server of Codex may say.

#![no_main]

mod common;

use std::sync::LazyLock;

use common::{Peer, converse, job};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use subagent_provider_cli::{AppServer, Codex};

const THREAD: &str = "s";
const TURN: &str = "t-1";

static PEER: LazyLock<Peer> = LazyLock::new(|| Peer {
    job: |kind| {
        job(Codex::NAME, |spec| {
            spec.model = (kind & 1 != 0).then(|| String::from("m-2"));
            spec.output_schema = (kind & 2 != 0).then(|| json!({"type": "object"}));
            spec.setup.fork_of = (kind & 4 != 0).then(|| String::from("other"));
        })
    },
    session: THREAD,
    opening: vec![json!({"id": "open:x", "result": {"userAgent": "x"}}), opened()],
    known: known(),
    words: &[
        "t-1",
        "t-2",
        "b-1",
        "below",
        "x",
        "f",
        "completed",
        "interrupted",
        "failed",
        "thread",
        "final_answer",
    ],
    answer,
});

fn opened() -> Value {
    json!({"id": "thread", "result": {
        "thread": {"id": THREAD, "sessionId": THREAD, "turns": []}, "model": "m-1", "cwd": "/work",
        "approvalPolicy": "untrusted", "approvalsReviewer": "user", "sandbox": {"type": "workspaceWrite"},
    }})
}

fn begins(thread: &str, turn: &str) -> Value {
    json!({"method": "turn/started", "params": {"threadId": thread, "turn": {"id": turn, "status": "inProgress"}}})
}

fn ends(thread: &str, turn: &str, status: &str, error: Value) -> Value {
    let turn = json!({"id": turn, "items": [], "status": status, "error": error});
    json!({"method": "turn/completed", "params": {"threadId": thread, "turn": turn}})
}

fn note(method: &str, mut params: Value) -> Value {
    params["threadId"] = json!(THREAD);
    params["turnId"] = json!(TURN);
    json!({"method": method, "params": params})
}

fn item(state: &str, item: Value) -> Value {
    note(&format!("item/{state}"), json!({"item": item}))
}

fn answer(told: &Value, how: u8) -> Vec<Value> {
    let (Some(id), Some(method)) = (told.get("id"), told["method"].as_str()) else { return vec![] };
    if how % 8 == 7 {
        return vec![json!({"id": id, "error": {"code": -32600, "message": "no active turn to steer"}})];
    }
    let turn = if how & 1 == 0 { TURN } else { "t-2" };
    let ok = |result: Value| json!({"id": id, "result": result});
    match method {
        "thread/start" | "thread/resume" | "thread/fork" => vec![opened()],
        "turn/start" if how & 2 == 0 => vec![ok(json!({"turn": {"id": turn}})), begins(THREAD, turn)],
        "turn/start" => vec![begins(THREAD, turn), ok(json!({"turn": {"id": turn}}))],
        "turn/steer" if how & 2 == 0 => {
            let user = json!({"type": "userMessage", "id": "u", "clientId": id});
            vec![ok(json!({"turnId": turn})), item("started", user)]
        }
        "turn/interrupt" if how & 2 == 0 => {
            vec![ok(json!({})), ends(THREAD, turn, "interrupted", json!(null))]
        }
        _ => vec![ok(json!({"turnId": turn}))],
    }
}

fn known() -> Vec<Value> {
    let message = |text: &str, phase: Value| {
        item("completed", json!({"type": "agentMessage", "id": text, "text": text, "phase": phase}))
    };
    let mut known = vec![
        json!({"id": "open:start", "result": {}}),
        json!({"id": "thread", "error": {"code": -32600, "message": "no"}}),
        opened(),
        begins(THREAD, TURN),
        begins(THREAD, "t-2"),
        begins("below", "b-1"),
        ends(THREAD, TURN, "completed", json!(null)),
        ends(THREAD, TURN, "interrupted", json!(null)),
        ends(
            THREAD,
            TURN,
            "failed",
            json!({"message": "m", "codexErrorInfo": "usageLimitExceeded", "additionalDetails": "d"}),
        ),
        ends(
            THREAD,
            "t-2",
            "failed",
            json!({"message": "m", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 500}}}),
        ),
        ends("below", "b-1", "completed", json!(null)),
        json!({"method": "turn/started", "params": {"threadId": "below", "turn": {"id": "b-1", "rootTurnId": TURN}}}),
        json!({"method": "thread/started", "params": {"thread": {"id": "below", "parentThreadId": THREAD, "agentNickname": "n"}}}),
        json!({"method": "thread/closed", "params": {"threadId": "below"}}),
        message("hello", json!(null)),
        message("done", json!("final_answer")),
        message("hm", json!("commentary")),
        item("started", json!({"type": "agentMessage", "id": "a", "text": ""})),
        item(
            "started",
            json!({"type": "commandExecution", "id": "i", "command": "ls", "cwd": "/w", "status": "inProgress"}),
        ),
        item(
            "completed",
            json!({"type": "commandExecution", "id": "i", "command": "ls", "exitCode": 1,
            "aggregatedOutput": "x", "status": "failed"}),
        ),
        item(
            "started",
            json!({"type": "fileChange", "id": "f", "changes": [{"path": "p", "kind": {"type": "update", "move_path": "q"}}]}),
        ),
        item(
            "completed",
            json!({"type": "fileChange", "id": "f", "changes": [{"path": "p"}], "status": "completed"}),
        ),
        item("completed", json!({"type": "reasoning", "id": "r", "summary": ["x"], "content": ["y"]})),
        item(
            "started",
            json!({"type": "mcpToolCall", "id": "y", "server": "s", "tool": "t", "arguments": {"a": 1}}),
        ),
        item("completed", json!({"type": "webSearch", "id": "w", "query": "q"})),
        item("completed", json!({"type": "contextCompaction", "id": "k"})),
        item(
            "completed",
            json!({"type": "collabAgentToolCall", "id": "c", "receiverThreadIds": ["below"],
            "senderThreadId": THREAD, "tool": "spawnAgent", "prompt": "p", "agentsStates": {"below": {"status": "running"}}}),
        ),
        item(
            "started",
            json!({"type": "subAgentActivity", "id": "d", "agentThreadId": "below", "kind": "started", "agentPath": "x"}),
        ),
        note("item/agentMessage/delta", json!({"itemId": "a", "delta": "x"})),
        note(
            "thread/tokenUsage/updated",
            json!({"tokenUsage": {
            "total": {"inputTokens": 9, "outputTokens": 3, "cachedInputTokens": 2, "totalTokens": 12},
            "last": {"inputTokens": 9, "outputTokens": 3}}}),
        ),
        note(
            "thread/tokenUsage/updated",
            json!({"tokenUsage": {"total": {"inputTokens": 90}, "last": {"inputTokens": 81}}}),
        ),
        note(
            "error",
            json!({"willRetry": true, "error": {"message": "m", "additionalDetails": "m", "codexErrorInfo": "serverOverloaded"}}),
        ),
        note("error", json!({"willRetry": false, "error": {"message": "m"}})),
        note("turn/plan/updated", json!({"plan": [{"step": "x", "status": "inProgress"}]})),
        note("model/rerouted", json!({"toModel": "m-3"})),
        note("warning", json!({"message": "w"})),
        json!({"method": "account/rateLimits/updated", "params": {"rateLimits": {
            "primary": {"usedPercent": 100, "resetsAt": 7}, "secondary": {"usedPercent": 9, "resetsAt": 9}}}}),
        json!({"method": "to/come"}),
    ];
    for id in [json!(0), json!("x")] {
        let ask = |method: &str, mut params: Value| {
            params["threadId"] = json!(THREAD);
            params["turnId"] = json!(TURN);
            json!({"id": id, "method": method, "params": params})
        };
        let server = |fields: Value| {
            let mut params = json!({"serverName": "s", "message": "m"});
            for (name, value) in fields.as_object().into_iter().flatten() {
                params[name] = value.clone();
            }
            ask("mcpServer/elicitation/request", params)
        };
        known.extend([
            ask("item/commandExecution/requestApproval", json!({"itemId": "i", "command": "/bin/bash -lc 'ls'", "cwd": "/w",
                "reason": "r", "availableDecisions": ["accept", "cancel"],
                "networkApprovalContext": {"host": "x.org", "protocol": "https"}})),
            ask("item/fileChange/requestApproval", json!({"itemId": "f"})),
            ask("item/permissions/requestApproval", json!({"itemId": "i", "cwd": "/w", "permissions": {"network": {"enabled": true}}})),
            ask("item/tool/requestUserInput", json!({"questions": [
                {"id": "q", "header": "h", "question": "why?", "options": [{"label": "a"}, {"label": "b"}]}]})),
            server(json!({"mode": "form", "requestedSchema": {"type": "object", "properties": {"a": {"type": "number"}}}})),
            server(json!({"mode": "url", "url": "https://x", "elicitationId": "e"})),
            ask("to/come", json!({})),
            json!({"method": "serverRequest/resolved", "params": {"threadId": THREAD, "requestId": id}}),
        ]);
    }
    for number in 1..4 {
        known.push(item(
            "started",
            json!({"type": "userMessage", "id": "u", "clientId": format!("m{number}")}),
        ));
    }
    known.push(item("started", json!({"type": "userMessage", "id": "u"})));
    known
}

fuzz_target!(|input: &[u8]| {
    converse(&PEER, input, |_| Box::new(AppServer::default()), |live, anew| assert_eq!(live, anew));
});
