//! Writes two files from the official types of the protocol: the schemas of everything that `subagent-provider-acp` says,
//! and one message of each kind that it may hear.

use std::{fs, path::Path};

use agent_client_protocol_schema::{ProtocolVersion, v1 as acp};
use schemars::{JsonSchema, schema_for};
use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/official");
    fs::create_dir_all(&to)?;
    fs::write(to.join("said-by-us.schema.json"), format!("{:#}\n", schemas()))?;
    let heard: Vec<_> = heard().iter().map(Value::to_string).collect();
    fs::write(to.join("said-by-agents.jsonl"), heard.join("\n") + "\n")
}

/// By the method, or by the name of the request that is answered.
fn schemas() -> Value {
    json!({
        "initialize": of::<acp::InitializeRequest>(),
        "session/new": of::<acp::NewSessionRequest>(),
        "session/load": of::<acp::LoadSessionRequest>(),
        "session/resume": of::<acp::ResumeSessionRequest>(),
        "session/fork": of::<acp::ForkSessionRequest>(),
        "session/prompt": of::<acp::PromptRequest>(),
        "session/close": of::<acp::CloseSessionRequest>(),
        "session/cancel": of::<acp::CancelNotification>(),
        "session/set_mode": of::<acp::SetSessionModeRequest>(),
        "session/set_config_option": of::<acp::SetSessionConfigOptionRequest>(),
        "session/request_permission": of::<acp::RequestPermissionResponse>(),
        "elicitation/create": of::<acp::CreateElicitationResponse>(),
        "error": of::<acp::Error>(),
    })
}

fn of<T: JsonSchema>() -> Value {
    let mut schema = schema_for!(T).to_value();
    strip(&mut schema);
    schema
}

/// Without what is for people.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                !(name == "description" && value.is_string()) && !name.starts_with("x-")
            });
            fields.values_mut().for_each(strip);
        }
        Value::Array(all) => all.iter_mut().for_each(strip),
        _ => {}
    }
}

fn update(update: acp::SessionUpdate) -> Value {
    let note = acp::SessionNotification::new("s1", update);
    json!({"jsonrpc": "2.0", "method": "session/update", "params": note})
}

fn answer(id: u64, result: impl serde::Serialize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn heard() -> Vec<Value> {
    use acp::SessionUpdate as Update;
    let text = |text: &str| acp::ContentBlock::from(text.to_owned());
    let chunk = |part: &str| acp::ContentChunk::new(text(part)).message_id("m1");
    let session = acp::SessionCapabilities::new()
        .resume(acp::SessionResumeCapabilities::new())
        .fork(acp::SessionForkCapabilities::new())
        .system_prompt(acp::SessionSystemPromptCapabilities::new());
    let initialized = acp::InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(acp::AgentCapabilities::new().load_session(true).session_capabilities(session))
        .agent_info(acp::Implementation::new("official", "1.0"));
    let models = vec![
        acp::SessionConfigSelectOption::new("small", "Small"),
        acp::SessionConfigSelectOption::new("large", "Large"),
    ];
    let option = acp::SessionConfigOption::select("the-model", "Model", "small", models)
        .category(acp::SessionConfigOptionCategory::Model);
    let modes = acp::SessionModeState::new("auto", vec![acp::SessionMode::new("ask", "Ask")]);
    let opened = acp::NewSessionResponse::new("s1").modes(modes).config_options(vec![option.clone()]);
    let call = acp::ToolCall::new("t1", "Run ls")
        .kind(acp::ToolKind::Execute)
        .status(acp::ToolCallStatus::InProgress)
        .raw_input(json!({"command": "ls"}));
    let done = acp::ToolCallUpdateFields::new()
        .status(acp::ToolCallStatus::Completed)
        .content(vec![acp::ToolCallContent::from(text("a b"))]);
    let entry = acp::PlanEntry::new("look", acp::PlanEntryPriority::High, acp::PlanEntryStatus::InProgress);
    let child = acp::SubagentUpdate::new("c1")
        .title("probe")
        .capabilities(acp::SubagentSessionCapabilities::new().cancel(acp::SessionCancelCapabilities::new()))
        .state(acp::StateUpdate::Running(acp::RunningStateUpdate::new()));
    let idle = acp::IdleStateUpdate::new().stop_reason(acp::IdleStopReason::EndTurn);
    let ended = acp::SubagentUpdate::new("c1").state(acp::StateUpdate::Idle(idle));
    let options = vec![
        acp::PermissionOption::new("always", "Always", acp::PermissionOptionKind::AllowAlways),
        acp::PermissionOption::new("once", "Once", acp::PermissionOptionKind::AllowOnce),
        acp::PermissionOption::new("no", "No", acp::PermissionOptionKind::RejectOnce),
    ];
    let fields = acp::ToolCallUpdateFields::new();
    let permission =
        acp::RequestPermissionRequest::new("s1", acp::ToolCallUpdate::new("t1", fields), options);
    let form = acp::ElicitationSchema::new().string("color", true);
    let form = acp::ElicitationFormMode::new(acp::ElicitationSessionScope::new("s1"), form);
    let form = acp::CreateElicitationRequest::new(form, "Which?");
    let used = acp::Usage::new(15, 10, 5);
    let cost = acp::UsageUpdate::new(10, 100).cost(acp::Cost::new(0.5, "USD"));
    let compaction = acp::CompactionUpdate::new("k1", acp::CompactionStatus::Completed);
    vec![
        answer(0, initialized),
        answer(2, opened),
        update(Update::UserMessageChunk(chunk("do it"))),
        update(Update::AgentThoughtChunk(chunk("hm"))),
        update(Update::AgentMessageChunk(chunk("hello"))),
        update(Update::ToolCall(call)),
        update(Update::ToolCallUpdate(acp::ToolCallUpdate::new("t1", done))),
        update(Update::Plan(acp::Plan::new(vec![entry]))),
        update(Update::AvailableCommandsUpdate(acp::AvailableCommandsUpdate::new(vec![]))),
        update(Update::CurrentModeUpdate(acp::CurrentModeUpdate::new("ask"))),
        update(Update::ConfigOptionUpdate(acp::ConfigOptionUpdate::new(vec![option]))),
        update(Update::SessionInfoUpdate(acp::SessionInfoUpdate::new().title("a title"))),
        update(Update::UsageUpdate(cost)),
        update(Update::Notice(acp::Notice::new(acp::NoticeSeverity::Warning, "slow").description("very"))),
        update(Update::CompactionUpdate(compaction)),
        update(Update::SubagentUpdate(child)),
        update(Update::SubagentUpdate(ended)),
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": permission}),
        json!({"jsonrpc": "2.0", "id": "2", "method": "elicitation/create", "params": form}),
        answer(4, acp::PromptResponse::new(acp::StopReason::EndTurn).usage(used)),
    ]
}
