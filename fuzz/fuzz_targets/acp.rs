//! Anything that an agent may say over the Agent Client Protocol.

#![no_main]

mod common;

use std::sync::LazyLock;

use common::{Peer, converse, job};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use subagent_provider::{Codec, Job, Provider};
use subagent_provider_acp::AcpProvider;

static PEER: LazyLock<Peer> = LazyLock::new(|| Peer {
    job: |kind| {
        job(provider(kind).name(), |spec| {
            spec.model = (kind & 8 != 0).then(|| String::from("large"));
            spec.setup.effort = (kind & 16 != 0).then(|| String::from("high"));
            spec.setup.permission_mode = (kind & 32 != 0).then(|| String::from("default"));
        })
    },
    session: "s",
    opening: vec![answered(&json!(0), able()), answered(&json!(2), session())],
    known: known(),
    words: &["c", "t", "end_turn", "cancelled", "running", "idle", "completed", "failed", "session/prompt"],
    answer,
});

/// Our own agent first: it speaks a few words more than the others.
static PROVIDERS: LazyLock<Vec<AcpProvider>> = LazyLock::new(|| {
    std::iter::once(AcpProvider::builtin(String::from("agent"), None)).chain(AcpProvider::all()).collect()
});

fn provider(kind: u8) -> AcpProvider {
    PROVIDERS[usize::from(kind & 7) % PROVIDERS.len()].clone()
}

fn answered(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn able() -> Value {
    json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "fake", "version": "1"},
        "agentCapabilities": {
            "loadSession": true,
            "mcpCapabilities": {"http": true},
            "sessionCapabilities": {"resume": {}, "fork": {}, "systemPrompt": {"mode": {"override": {}}}},
        },
        "authMethods": [{"id": "key", "name": "API key"}],
    })
}

fn option(id: &str, category: &str, value: &str, others: [&str; 2]) -> Value {
    let options = others.map(|value| json!({"value": value, "name": value}));
    json!({"id": id, "category": category, "type": "select", "currentValue": value, "options": options})
}

fn session() -> Value {
    let options = [
        option("m", "model", "small", ["small", "large"]),
        option("e", "thought_level", "low", ["low", "high"]),
    ];
    let modes = ["default", "auto", "plan"].map(|id| json!({"id": id, "name": id}));
    json!({
        "sessionId": "s",
        "configOptions": options,
        "modes": {"currentModeId": "auto", "availableModes": modes},
        "models": {"currentModelId": "small", "availableModels": [{"modelId": "small"}, {"modelId": "large"}]},
    })
}

fn answer(told: &Value, how: u8) -> Vec<Value> {
    let (Some(id), Some(method)) = (told.get("id"), told["method"].as_str()) else { return vec![] };
    if how % 8 == 7 {
        let error = json!({"code": -32002, "message": "Resource not found", "data": {"uri": "s"}});
        return vec![json!({"jsonrpc": "2.0", "id": id, "error": error})];
    }
    let result = match method {
        "initialize" => able(),
        "session/prompt" => {
            let reason =
                ["end_turn", "cancelled", "max_tokens", "max_turn_requests", "refusal", "odd", "end_turn"];
            json!({"stopReason": reason[usize::from(how % 8)], "usage": {"totalTokens": 9, "inputTokens": 5, "outputTokens": 4}})
        }
        _ => session(),
    };
    vec![answered(id, result)]
}

fn known() -> Vec<Value> {
    let update = |session: &str, kind: &str, mut fields: Value| {
        fields["sessionUpdate"] = json!(kind);
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": fields}})
    };
    let request = |id: Value, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let text = json!({"type": "text", "text": "x"});
    let form = |property: Value| {
        json!({"mode": "form", "message": "?", "sessionId": "s",
            "requestedSchema": {"properties": {"a": property, "b": {"type": "boolean"}}, "required": ["a"]}})
    };
    let mut all = Vec::new();
    for session in ["s", "c"] {
        let permission = json!({"sessionId": session, "toolCall": {"toolCallId": "t", "title": "ls", "kind": "execute",
            "rawInput": {"command": "ls"}, "locations": [{"path": "/w/a", "line": 1}]},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "a", "kind": "allow_always"},
                {"optionId": "n", "name": "No", "kind": "reject_once"}]});
        all.extend([
            update(session, "agent_message_chunk", json!({"content": text, "messageId": "a"})),
            update(session, "agent_message_chunk", json!({"content": text, "messageId": "b"})),
            update(session, "agent_message_chunk", json!({"content": text})),
            update(session, "agent_thought_chunk", json!({"content": text})),
            update(session, "user_message_chunk", json!({"content": text})),
            update(
                session,
                "tool_call",
                json!({"toolCallId": "t", "title": "ls", "kind": "execute", "status": "pending",
                "rawInput": {"command": "ls"}, "content": [{"type": "content", "content": text}]}),
            ),
            update(
                session,
                "tool_call_update",
                json!({"toolCallId": "t", "status": "completed", "rawOutput": "x",
                "content": [{"type": "diff", "path": "p", "oldText": "a", "newText": "b"}]}),
            ),
            update(
                session,
                "plan",
                json!({"entries": [{"content": "x", "status": "in_progress", "priority": "low"}]}),
            ),
            update(
                session,
                "usage_update",
                json!({"used": 5, "size": 9, "cost": {"amount": 0.5, "currency": "USD"}}),
            ),
            update(
                session,
                "config_option_update",
                json!({"configOptions": [option("m", "model", "large", ["small", "large"])]}),
            ),
            update(session, "current_mode_update", json!({"currentModeId": "plan"})),
            update(session, "compaction_update", json!({"compactionId": "k", "status": "completed"})),
            update(session, "notice", json!({"title": "slow", "description": "very", "severity": "warning"})),
            request(json!(1), "session/request_permission", permission.clone()),
            request(json!("p"), "session/request_permission", permission),
        ]);
    }
    for state in ["running", "idle", "completed", "requires_action"] {
        all.push(update(
            "s",
            "subagent_update",
            json!({"sessionId": "c", "title": "x", "capabilities": {"cancel": {}}, "parentSessionId": "s",
                "state": {"state": state, "stopReason": "end_turn"}}),
        ));
    }
    for property in [
        json!({"type": "integer", "minimum": 0}),
        json!({"type": "string", "enum": ["x", "y"]}),
        json!({"type": "number"}),
        json!({"type": "array", "items": {"enum": ["x", "y"]}}),
    ] {
        all.push(request(json!(3), "elicitation/create", form(property)));
    }
    all.push(request(json!(4), "fs/read_text_file", json!({})));
    for id in [json!(1), json!("p"), json!(3)] {
        all.push(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}));
    }
    all.extend([answered(&json!(0), able()), answered(&json!(2), session())]);
    for id in [3, 4, 5, 6, 8] {
        all.push(answered(&json!(id), json!({"stopReason": "end_turn"})));
    }
    all
}

fn codec(kind: u8, job: &Job) -> Box<dyn Codec> {
    provider(kind).codec(job).expect("it is spoken with")
}

fuzz_target!(|input: &[u8]| {
    let kind = input.first().copied().unwrap_or_default() >> 2;
    converse(&PEER, input, |job| codec(kind, job), |_, _| {});
});
