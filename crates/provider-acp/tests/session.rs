//! Opening a session: which requests are written, what an agent may lack, what is set. Frames as agents send them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subagent_model::{
    AgentSetup, Attachment, ErrorCode, McpServer, McpTransport, SpawnSpec, SystemPrompt, SystemPromptMode,
};
use subagent_provider::{Attached, ModelOffer, Order, Said, WasTold};
use subagent_provider_acp::{AGENTS, AcpProvider};
use support::{Talk, able, broken, failed, finished, message_said, prompt, spec};

fn with(setup: AgentSetup) -> SpawnSpec {
    SpawnSpec { setup, ..spec() }
}

fn named(name: &str) -> AcpProvider {
    AcpProvider::of(*AGENTS.iter().find(|agent| agent.name == name).unwrap())
}

/// After the session's answer: what is said and written.
fn opened_with(provider: AcpProvider, spec: SpawnSpec, answer: Value) -> (Talk, Vec<Said>, Vec<Value>) {
    let (mut talk, _) = Talk::begin(provider, spec, None);
    assert_eq!(talk.answer(0, able()).1[0]["method"], "session/new");
    let (said, wrote) = talk.answer(2, answer);
    (talk, said, wrote)
}

fn opened(session: &str) -> Said {
    Said::Opened { session: Some(session.to_owned()) }
}

#[test]
fn a_session_is_opened_step_by_step_and_nothing_is_told_before() {
    let (mut talk, hello) = Talk::begin(AcpProvider::any(), spec(), None);
    assert_eq!((&hello["id"], &hello["method"]), (&json!(0), &json!("initialize")));
    let can = &hello["params"]["clientCapabilities"];
    assert_eq!(can["fs"], json!({"readTextFile": false, "writeTextFile": false}));
    assert_eq!((&can["terminal"], &can["subagents"]), (&json!(false), &json!({})));
    assert!(can["session"]["notices"].is_object(), "acp_03: warnings come as notices");
    assert!(talk.tell(&prompt("early")).is_err());
    let (said, wrote) = talk.answer(0, able());
    assert!(said.is_empty());
    assert_eq!(wrote[0]["method"], "session/new");
    assert_eq!(wrote[0]["params"], json!({"cwd": "/work", "mcpServers": []}));
    assert!(talk.tell(&prompt("early")).is_err());
    assert_eq!(talk.answer(2, json!({"sessionId": "s1"})), (vec![opened("s1")], vec![]));
    let told = talk.tell(&prompt("a\nb \"c\"")).unwrap();
    let block = json!([{"type": "text", "text": "a\nb \"c\""}]);
    assert_eq!(told[0]["params"], json!({"sessionId": "s1", "prompt": block}), "acp_07: one block of text");
    assert!(talk.tell(&Order::Close).is_err(), "the end of the input says it");
}

#[test]
fn a_session_is_closed_where_that_is_announced() {
    let mut able = able();
    able["agentCapabilities"]["sessionCapabilities"]["close"] = json!({});
    let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
    talk.answer(0, able);
    assert!(talk.tell(&Order::Close).is_err(), "there is no session yet");
    talk.answer(2, json!({"sessionId": "s1"}));
    talk.tell(&prompt("do it")).unwrap();
    assert!(!talk.codec.is_closing());
    let told = talk.tell(&Order::Close).unwrap();
    assert_eq!(
        (&told[0]["method"], &told[0]["params"]),
        (&json!("session/close"), &json!({"sessionId": "s1"}))
    );
    assert_eq!(talk.tell(&Order::Close), Ok(vec![]), "once");
    assert!(talk.codec.is_closing() && talk.taken_over().0.is_closing());
    // The turn that it cancels is answered all the same.
    assert!(matches!(talk.ends(json!({"stopReason": "cancelled"}))[..], [Said::Done(_)]));
    assert!(talk.tell(&prompt("more")).unwrap_err().contains("closed"));
    assert_eq!(talk.error(6, -32_603, "cannot"), (vec![Said::Closed], vec![]), "refused or not");
    assert!(!talk.codec.is_closing());
    assert_eq!(talk.tell(&Order::Close), Ok(vec![]));
}

#[test]
fn acp_01_the_same_session_id_from_two_processes_is_no_matter() {
    let (mut one, mut other) = (Talk::open(), Talk::open());
    one.tell(&prompt("a")).unwrap();
    other.tell(&prompt("b")).unwrap();
    one.chunk("of a", None);
    other.chunk("of b", None);
    assert_eq!(one.ends(json!({"stopReason": "end_turn"})), [message_said("of a"), finished()]);
    assert_eq!(other.ends(json!({"stopReason": "end_turn"})), [message_said("of b"), finished()]);
}

#[test]
fn acp_01_an_answer_without_a_session_id_breaks_the_start() {
    let long = "x".repeat(2_000);
    for answer in [
        json!({}),
        json!(null),
        json!({"sessionId": 7}),
        json!({"sessionId": ""}),
        json!({"sessionId": long}),
    ] {
        let (mut talk, said, _) = opened_with(AcpProvider::any(), spec(), answer);
        assert!(broken(&said).contains("session/new without the id"), "{said:?}");
        assert_eq!(talk.answer(2, json!({"sessionId": "late"})), (vec![], vec![]), "it is over");
        assert!(talk.tell(&prompt("x")).is_err());
    }
}

#[test]
fn acp_02_another_version_is_refused_with_the_exact_reason() {
    for (version, named) in [(json!(2), "version 2"), (json!(0), "version 0"), (json!("0.4.0"), "0.4.0")] {
        let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
        let (said, wrote) = talk.answer(0, json!({"protocolVersion": version, "agentCapabilities": {}}));
        let why = broken(&said);
        assert!(why.contains(named) && why.contains("only version 1"), "{why}");
        assert!(wrote.is_empty());
    }
    let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
    assert!(broken(&talk.answer(0, json!({})).0).contains("without a version"));
}

#[test]
fn acp_02_a_login_that_is_missing_is_named_and_not_retried() {
    for (code, message) in
        [(-32_000, "Authentication required"), (401, "bad key"), (-32_603, "Invalid API key provided")]
    {
        let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
        talk.answer(0, able());
        let error = failed(&talk.error(2, code, message).0);
        assert_eq!((error.code, error.retryable), (ErrorCode::Auth, false), "{message}");
        assert!(error.message.contains(message) && error.message.contains("API key"), "{}", error.message);
    }
    let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
    let error = failed(&talk.error(0, -32_603, "Internal error").0);
    assert_eq!((error.code, error.retryable), (ErrorCode::StartFailed, false));
    assert!(error.message.starts_with("initialize: Internal error"));
}

#[test]
fn acp_02_resume_is_offered_only_where_load_or_resume_is_announced() {
    let announce = |load: bool, resume: Value| {
        let session = json!({"resume": resume});
        json!({"protocolVersion": 1, "agentInfo": {"name": "fake"},
            "agentCapabilities": {"loadSession": load, "sessionCapabilities": session}})
    };
    for (load, resume, method) in [
        (true, json!(null), Some("session/load")),
        (false, json!({}), Some("session/resume")),
        (true, json!({}), Some("session/resume")),
        (false, json!(null), None),
    ] {
        let (mut talk, hello) = Talk::begin(AcpProvider::any(), spec(), Some("old"));
        assert_eq!(hello["params"]["_meta"]["subagent/continues"], "old");
        let (said, wrote) = talk.answer(0, announce(load, resume.clone()));
        if let Some(method) = method {
            assert_eq!(
                (&wrote[0]["method"], &wrote[0]["params"]["sessionId"]),
                (&json!(method), &json!("old"))
            );
            assert_eq!(talk.answer(2, json!(null)).0, [opened("old")]);
        } else {
            let error = failed(&said);
            assert_eq!((error.code, error.retryable), (ErrorCode::NotResumable, false));
            assert!(error.message.starts_with("fake can continue no session"), "{}", error.message);
        }
        // A new session of it has a name to go on by under the same condition.
        let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
        talk.answer(0, announce(load, resume));
        let session = method.map(|_| String::from("s1"));
        assert_eq!(talk.answer(2, json!({"sessionId": "s1"})).0, [Said::Opened { session }]);
    }
}

#[test]
fn acp_02_a_session_that_is_gone_is_told_from_a_start_that_failed() {
    for (code, message, expected) in [
        (-32_002, "Resource not found", ErrorCode::SessionGone),
        (-32_603, "Invalid session identifier", ErrorCode::SessionGone),
        (-32_603, "the disk is full", ErrorCode::StartFailed),
        (-32_000, "Authentication required", ErrorCode::Auth),
        (529, "Overloaded", ErrorCode::Overloaded),
    ] {
        let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), Some("old"));
        talk.answer(0, able());
        assert_eq!(failed(&talk.error(2, code, message).0).code, expected, "{message}");
    }
    // codex-acp: the reason stands beside the message.
    let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), Some("old"));
    talk.answer(0, able());
    let data = json!({"details": "no rollout found for thread id old"});
    let error = json!({"code": -32603, "message": "Internal error", "data": data});
    let error = failed(&talk.hears(&json!({"jsonrpc": "2.0", "id": 2, "error": error})).0);
    assert_eq!(error.code, ErrorCode::SessionGone);
    assert_eq!(error.message, "session/resume: Internal error: no rollout found for thread id old");
}

#[test]
fn acp_02_what_an_agent_lacks_is_refused_with_the_exact_reason() {
    let text = |mode| Some(SystemPrompt { mode, text: String::from("be brief") });
    let server = |via| vec![McpServer { name: String::from("files"), via }];
    let http = McpTransport::Http { url: String::from("http://x"), headers: BTreeMap::new() };
    let bare = json!({"protocolVersion": 1});
    let appends =
        json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"systemPrompt": {}}}});
    for (setup, announced, reason) in [
        (
            AgentSetup { system_prompt: text(SystemPromptMode::Append), ..AgentSetup::default() },
            &bare,
            "does not announce systemPrompt",
        ),
        (
            AgentSetup { system_prompt: text(SystemPromptMode::Override), ..AgentSetup::default() },
            &appends,
            "systemPrompt.mode.override",
        ),
        (
            AgentSetup { fork_of: Some(String::from("other")), ..AgentSetup::default() },
            &bare,
            "does not announce session/fork",
        ),
        (AgentSetup { mcp_servers: server(http), ..AgentSetup::default() }, &bare, "mcpCapabilities.http"),
    ] {
        let (mut talk, _) = Talk::begin(AcpProvider::any(), with(setup), None);
        let (said, wrote) = talk.answer(0, announced.clone());
        let error = failed(&said);
        assert_eq!((error.code, error.retryable), (ErrorCode::NotCapable, false));
        assert!(error.message.contains(reason), "{} does not name {reason}", error.message);
        assert!(wrote.is_empty(), "nothing is begun without it");
    }
}

#[test]
fn what_is_asked_of_a_session_stands_in_its_request() {
    let env = BTreeMap::from([(String::from("A"), String::from("1"))]);
    let stdio = McpTransport::Stdio { command: "files".into(), args: vec!["-v".into()], env: env.clone() };
    let http = McpTransport::Http { url: String::from("http://x"), headers: env };
    let setup = AgentSetup {
        system_prompt: Some(SystemPrompt {
            mode: SystemPromptMode::Override,
            text: String::from("be brief"),
        }),
        mcp_servers: vec![
            McpServer { name: String::from("one"), via: stdio },
            McpServer { name: String::from("two"), via: http },
        ],
        fork_of: Some(String::from("other")),
        ..AgentSetup::default()
    };
    let (mut talk, _) = Talk::begin(AcpProvider::any(), with(setup.clone()), None);
    let (_, wrote) = talk.answer(0, able());
    assert_eq!(wrote[0]["method"], "session/fork");
    let params = json!({
        "sessionId": "other",
        "cwd": "/work",
        "mcpServers": [
            {"name": "one", "command": "files", "args": ["-v"], "env": [{"name": "A", "value": "1"}]},
            {"type": "http", "name": "two", "url": "http://x", "headers": [{"name": "A", "value": "1"}]},
        ],
        "systemPrompt": {"mode": "override", "content": [{"type": "text", "text": "be brief"}]},
    });
    assert_eq!(wrote[0]["params"], params);
    assert_eq!(talk.answer(2, json!({"sessionId": "fork"})).0, [opened("fork")], "under a name of its own");
    // The next process goes on with the fork, and forks nothing again.
    let (mut next, _) = Talk::begin(AcpProvider::any(), with(setup), Some("fork"));
    let (_, wrote) = next.answer(0, able());
    assert_eq!(
        (&wrote[0]["method"], &wrote[0]["params"]["sessionId"]),
        (&json!("session/resume"), &json!("fork"))
    );
}

/// As claude-agent-acp and codex-acp offer them.
fn options(model: &str, efforts: &[&str]) -> Value {
    let efforts: Vec<_> = efforts.iter().map(|value| json!({"value": value, "name": value})).collect();
    json!([
        {"id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": model, "options": [
            {"group": "g", "name": "Group", "options": [{"value": "sonnet", "name": "Sonnet 5"}]},
            {"group": "h", "name": "Other", "options": [{"value": "opus", "name": "Opus 5"}]},
        ]},
        {"id": "e", "name": "Effort", "category": "thought_level", "type": "select", "currentValue": "low",
            "options": efforts},
        {"id": "web", "name": "Web", "type": "boolean", "currentValue": true},
    ])
}

fn modes(current: &str) -> Value {
    let modes = ["default", "acceptEdits", "plan", "auto"].map(|id| json!({"id": id, "name": id}));
    json!({"currentModeId": current, "availableModes": modes})
}

#[test]
fn what_is_asked_is_set_one_after_the_other() {
    let setup = AgentSetup {
        effort: Some(String::from("high")),
        permission_mode: Some(String::from("plan")),
        ..AgentSetup::default()
    };
    let asked = SpawnSpec { model: Some(String::from("opus 5")), ..with(setup) };
    let session =
        json!({"sessionId": "s1", "configOptions": options("sonnet", &["low"]), "modes": modes("auto")});
    let (mut talk, said, wrote) = opened_with(AcpProvider::any(), asked, session);
    assert!(matches!(&said[..], [Said::Models(_)]), "{said:?}");
    assert_eq!(wrote[0]["method"], "session/set_config_option");
    assert_eq!(
        wrote[0]["params"],
        json!({"sessionId": "s1", "configId": "m", "value": "opus"}),
        "by its name"
    );
    // Only with the other model is there the effort.
    let (said, wrote) = talk.answer(4, json!({"configOptions": options("opus", &["low", "high"])}));
    assert!(said.is_empty());
    assert_eq!(wrote[0]["params"], json!({"sessionId": "s1", "configId": "e", "value": "high"}));
    assert!(talk.tell(&prompt("early")).is_err());
    let (said, wrote) = talk.answer(6, json!({"configOptions": options("opus", &["low", "high"])}));
    assert!(said.is_empty());
    assert_eq!(
        (&wrote[0]["method"], &wrote[0]["params"]["modeId"]),
        (&json!("session/set_mode"), &json!("plan"))
    );
    let (said, wrote) = talk.answer(8, json!({}));
    assert_eq!(said, [Said::Model(String::from("opus")), opened("s1")]);
    assert!(wrote.is_empty());
    let news = json!({"configOptions": options("sonnet", &["low"])});
    assert_eq!(talk.update("config_option_update", news.clone()), [Said::Model(String::from("sonnet"))]);
    assert_eq!(talk.update("config_option_update", news), []);
}

#[test]
fn prov_01_what_is_not_offered_is_refused_by_name_and_never_left_out() {
    let effort = AgentSetup { effort: Some(String::from("high")), ..AgentSetup::default() };
    let mode = AgentSetup { permission_mode: Some(String::from("yolo")), ..AgentSetup::default() };
    let model = SpawnSpec { model: Some(String::from("gpt")), ..spec() };
    let offers =
        json!({"sessionId": "s1", "configOptions": options("sonnet", &["low"]), "modes": modes("auto")});
    for (asked, session, reason) in [
        (model.clone(), &offers, "has no model \"gpt\": it offers sonnet, opus"),
        (with(effort.clone()), &offers, "has no effort \"high\": it offers low"),
        (with(mode.clone()), &offers, "has no mode \"yolo\": it offers default, acceptEdits, plan, auto"),
        (model, &json!({"sessionId": "s1"}), "it offers no choice of model"),
        (with(effort), &json!({"sessionId": "s1"}), "it offers no choice of effort"),
        (with(mode), &json!({"sessionId": "s1", "configOptions": 7}), "it offers no choice of mode"),
    ] {
        let (_, said, _) = opened_with(AcpProvider::any(), asked, session.clone());
        let error = failed(&said);
        assert_eq!(error.code, ErrorCode::NotCapable);
        assert!(error.message.contains(reason), "{} is not {reason}", error.message);
    }
    let asked = SpawnSpec { model: Some(String::from("opus")), ..spec() };
    let (mut talk, _, _) = opened_with(AcpProvider::any(), asked, offers);
    let error = failed(&talk.error(4, -32_603, "no such thing").0);
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.starts_with("the model could not be set"), "{}", error.message);
}

#[test]
fn models_are_chosen_in_the_older_way_where_there_is_no_other() {
    let models =
        json!({"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "A"}, {"modelId": "b"}]});
    let asked = SpawnSpec { model: Some(String::from("b")), ..spec() };
    let session = json!({"sessionId": "s1", "models": models});
    let (mut talk, _, wrote) = opened_with(AcpProvider::any(), asked, session);
    assert_eq!(wrote[0]["method"], "session/set_model");
    assert_eq!(wrote[0]["params"], json!({"sessionId": "s1", "modelId": "b"}));
    assert_eq!(talk.answer(4, json!(null)).0.last(), Some(&opened("s1")));
}

#[test]
fn perm_01_an_agent_that_would_ask_its_model_is_put_into_the_mode_that_asks_us() {
    let session = |modes| json!({"sessionId": "s1", "modes": modes});
    let (mut talk, said, wrote) = opened_with(named("claude-acp"), spec(), session(modes("auto")));
    assert!(said.is_empty());
    assert_eq!(wrote[0]["params"], json!({"sessionId": "s1", "modeId": "default"}));
    assert_eq!(talk.answer(4, json!({})).0, [opened("s1")]);
    let (_, said, wrote) = opened_with(named("claude-acp"), spec(), session(modes("default")));
    assert_eq!((said, wrote.len()), (vec![opened("s1")], 0), "it is already");
    let (_, said, wrote) = opened_with(named("claude-acp"), spec(), session(modes("plan")));
    assert_eq!((said, wrote.len()), (vec![opened("s1")], 0), "a stricter one stays");
    let codex = ["read-only", "workspace-write", "agent"].map(|id| json!({"id": id, "name": id}));
    let codex = |current| json!({"currentModeId": current, "availableModes": codex});
    let (mut talk, _, wrote) = opened_with(named("codex-acp"), spec(), session(codex("agent")));
    assert_eq!(wrote[0]["params"]["modeId"], "workspace-write");
    assert_eq!(talk.answer(4, json!({})).0, [opened("s1")]);
    let (_, said, _) = opened_with(named("codex-acp"), spec(), session(codex("read-only")));
    assert_eq!(said, [opened("s1")], "never wider than it was");
    let (_, said, wrote) = opened_with(named("claude-acp"), spec(), session(json!(null)));
    assert!(matches!(&said[..], [Said::Notice(_), Said::Opened { .. }]), "{said:?}");
    assert!(wrote.is_empty());
    let plan = AgentSetup { permission_mode: Some(String::from("plan")), ..AgentSetup::default() };
    let (_, _, wrote) = opened_with(named("claude-acp"), with(plan), session(modes("auto")));
    assert_eq!(wrote[0]["params"]["modeId"], "plan", "what is asked goes before");
}

#[test]
fn an_agent_that_announces_more_than_it_does_has_no_session_to_go_on_with() {
    let (mut talk, _) = Talk::begin(named("gemini"), spec(), None);
    talk.answer(0, able());
    assert_eq!(
        talk.answer(2, json!({"sessionId": "s1"})).0,
        [
            Said::Notice("its mode stays what it is: no \"default\", it offers no choice of mode".into()),
            Said::Opened { session: None }
        ]
    );
}

/// A session that is loaded, whose history comes again first.
fn loaded() -> Talk {
    let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), Some("s1"));
    let load = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}});
    assert_eq!(talk.answer(0, load).1[0]["method"], "session/load");
    let text = |text: &str| json!({"content": {"type": "text", "text": text}});
    for (kind, fields) in [
        ("user_message_chunk", text("old question")),
        ("agent_thought_chunk", text("old thought")),
        ("tool_call", json!({"toolCallId": "t", "title": "old call", "status": "completed"})),
        ("agent_message_chunk", text("old answer")),
        ("plan", json!({"entries": [{"content": "old step"}]})),
        ("usage_update", json!({"used": 1, "size": 2, "cost": {"amount": 3.0, "currency": "USD"}})),
        ("compaction_update", json!({"compactionId": "k", "status": "completed"})),
        ("subagent_update", json!({"sessionId": "c", "state": {"state": "running"}})),
    ] {
        assert_eq!(talk.update(kind, fields), [], "acp_04: {kind} of the history");
    }
    assert_eq!(talk.answer(2, json!({"modes": null})).0, [opened("s1")]);
    talk
}

#[test]
fn acp_04_history_repeated_while_loading_is_neither_output_nor_usage_nor_an_event() {
    let mut talk = loaded();
    talk.tell(&prompt("new question")).unwrap();
    let cost = json!({"used": 1, "size": 2, "cost": {"amount": 3.5, "currency": "USD"}});
    let said = talk.update("usage_update", cost);
    assert!(matches!(&said[..], [Said::Used(usage)] if usage.cost_usd == Some(0.5)), "{said:?}");
    assert_eq!(talk.chunk("new answer", None).len(), 1);
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [message_said("new answer"), finished()]);
}

#[test]
fn acp_05_a_turn_is_cancelled_after_a_load_as_well_and_loads_can_be_repeated() {
    for _ in 0..3 {
        let mut talk = loaded();
        talk.tell(&prompt("go on")).unwrap();
        let wrote = talk.tell(&Order::Interrupt).unwrap();
        assert_eq!((wrote.len(), &wrote[0]["method"]), (1, &json!("session/cancel")));
        assert_eq!(wrote[0]["params"]["sessionId"], "s1");
        let said = talk.ends(json!({"stopReason": "cancelled"}));
        assert_eq!(said, [Said::Done(subagent_provider::TurnEnd::Cancelled)]);
        assert!(talk.tell(&prompt("and on")).is_ok(), "the session is as good as before");
        assert_eq!(talk.taken_over().1, [WasTold::Prompt, WasTold::Interrupt, WasTold::Prompt]);
    }
}

#[test]
fn a_conversation_whose_beginning_is_lost_from_the_log_goes_on() {
    use subagent_provider::Provider;
    let job = support::job(spec(), Some("s1"));
    let mut codec = AcpProvider::any().codec(&job).unwrap();
    codec.open(&job);
    let line =
        br#"{"jsonrpc":"2.0","id":11,"method":"session/prompt","params":{"sessionId":"s9","prompt":[]}}"#;
    assert_eq!(codec.recall(line), [WasTold::Message(subagent_model::MessageNumber(5))]);
    let chunk = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s9","update":
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}"#;
    assert_eq!(codec.hear(chunk.replace('\n', "").as_bytes()).said, [Said::Delta("hi".into())]);
    let end = codec.hear(br#"{"jsonrpc":"2.0","id":11,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(end.said, [message_said("hi"), finished()]);
    assert!(codec.tell(&prompt("more")).is_ok());
}

fn attachment(name: &str, media_type: &str) -> Attachment {
    Attachment { name: name.to_owned(), media_type: media_type.to_owned(), bytes: 2, sha256: String::new() }
}

fn announcing(prompt_capabilities: &Value) -> Value {
    let mut able = able();
    able["agentCapabilities"]["promptCapabilities"] = prompt_capabilities.clone();
    able
}

#[test]
fn acp_07_files_that_the_agent_does_not_take_are_refused_before_a_session_is_opened() {
    let (image, text) = (attachment("a.png", "image/png"), attachment("b.md", "text/markdown"));
    for (files, can, lacks) in [
        (vec![image.clone()], json!({}), Some("promptCapabilities.image")),
        (vec![image.clone()], json!({"image": false, "embeddedContext": true}), Some("\"a.png\"")),
        (vec![text.clone()], json!({"image": true}), Some("promptCapabilities.embeddedContext")),
        (vec![image, text], json!({"image": true, "embeddedContext": true}), None),
    ] {
        let spec = SpawnSpec { attachments: files, ..spec() };
        let (mut talk, _) = Talk::begin(AcpProvider::any(), spec, None);
        let (said, wrote) = talk.answer(0, announcing(&can));
        match lacks {
            None => assert_eq!(wrote[0]["method"], "session/new"),
            Some(word) => {
                let error = failed(&said);
                assert_eq!((error.code, error.retryable, wrote.len()), (ErrorCode::NotCapable, false, 0));
                assert!(error.message.contains(word), "{}", error.message);
            }
        }
    }
}

#[test]
fn acp_07_files_are_blocks_of_the_prompt_and_none_is_left_out_in_silence() {
    let file = |about: Attachment, content: &[u8]| Attached {
        path: "/kept/x".into(),
        content: content.into(),
        about,
    };
    let attached = vec![
        file(attachment("a.png", "image/png"), &[0, 1]),
        file(attachment("my notes.md", "text/markdown"), b"Read me."),
    ];
    let order = |attached: Vec<Attached>| Order::Prompt {
        number: None,
        from: "me".into(),
        text: String::from("Look."),
        attached,
    };
    let open = |can: Value| {
        let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
        talk.answer(0, announcing(&can));
        talk.answer(2, json!({"sessionId": "s1"}));
        talk
    };
    let mut talk = open(json!({"image": true, "embeddedContext": true}));
    let told = talk.tell(&order(attached.clone())).unwrap();
    let resource =
        json!({"uri": "attachment:///my%20notes.md", "mimeType": "text/markdown", "text": "Read me."});
    assert_eq!(
        told[0]["params"]["prompt"],
        json!([
            {"type": "image", "data": "AAE=", "mimeType": "image/png"},
            {"type": "resource", "resource": resource},
            {"type": "text", "text": "Look."},
        ])
    );
    // The next run of a session brings files of its own.
    let why = open(json!({"image": true})).tell(&order(attached)).unwrap_err();
    assert!(why.contains("my notes.md"), "{why}");
}

#[test]
fn def_11_the_models_that_an_agent_offers_are_told() {
    let models = json!({"id": "model", "category": "model", "type": "select", "currentValue": "a/one",
        "options": [{"value": "a/one", "name": "One"}, {"group": "g", "name": "G", "options": [{"value": "b/two"}]}]});
    let (_, said, _) =
        opened_with(AcpProvider::any(), spec(), json!({"sessionId": "s1", "configOptions": [models]}));
    let offer = |id: &str, name: &str| ModelOffer { id: id.to_owned(), name: name.to_owned() };
    assert_eq!(said[0], Said::Models(vec![offer("a/one", "One"), offer("b/two", "b/two")]));
    assert!(said.contains(&opened("s1")), "{said:?}");
}
