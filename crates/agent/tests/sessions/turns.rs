//! Turns: steering, cancelling, limits, shapes of answers, compaction, permissions, loading and forking.

use serde_json::{Value, json};
use subagent_agent::endpoint::config::ModelFacts;
use subagent_agent::session::Mode;
use subagent_agent::wire::Wire;
use subagent_testkit::model_server::Answer;
use subagent_testkit::until_async;

use crate::client::World;

fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn steer_a_message_into_a_turn_is_taken_once_and_one_after_it_is_not() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    let turn = client.begin("session/prompt", prompt(&session, "[[gate:g]] [[say:first]]")).await;
    let gate = world.model.gate("g");
    until_async("the model to be asked", async || (world.model.conversations().len() == 1).then_some(()))
        .await;
    let steer = json!({"sessionId": session, "text": "[[say:steered]]", "number": 5});
    let one = client.begin("_subagent/steer", steer.clone()).await;
    let twice = client.begin("_subagent/steer", steer.clone()).await;
    gate.open();
    assert_eq!(client.answer(one).await.unwrap()["taken"], true);
    assert_eq!(client.answer(twice).await.unwrap()["taken"], true);
    assert_eq!(client.answer(turn).await.unwrap()["stopReason"], "end_turn");
    assert!(client.last_message().contains("steered users=2"), "once: {}", client.last_message());
    let late = json!({"sessionId": session, "text": "too late", "number": 6});
    assert_eq!(client.call("_subagent/steer", late).await.unwrap()["taken"], false);
    client.end().await;
}

#[tokio::test]
async fn stop_a_cancel_ends_the_turn_its_tools_and_the_session_goes_on() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    for script in
        ["[[hang]]", "[[sh:echo $$ > pid; sleep 60]]", "[[mute]]", "[[status:503]] [[retry-after:15]]"]
    {
        let asked = world.model.conversations().len();
        let turn = client.begin("session/prompt", prompt(&session, script)).await;
        until_async("the model to be asked", async || {
            (world.model.conversations().len() > asked).then_some(())
        })
        .await;
        if script.contains("pid") {
            until_async("the command", async || (!world.read("pid").is_empty()).then_some(())).await;
        }
        client
            .send(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}))
            .await;
        assert_eq!(client.answer(turn).await.unwrap()["stopReason"], "cancelled", "{script}");
    }
    let pid = world.read("pid");
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "the command is gone");
    let (stop, text) = client.prompt(&session, "[[say:still here]]").await.unwrap();
    assert_eq!((stop.as_str(), text.contains("still here users=5")), ("end_turn", true), "{text}");
    client.end().await;
}

#[tokio::test]
async fn queue_13_a_limit_of_turns_asks_to_wrap_up_and_then_cuts() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    let own = json!({"limits": {"max_turns": 1, "grace_turns": 2}});
    let session = client.session(&world.work(), own).await;
    // The request to wrap up is a prompt without a script: the model ends.
    let (stop, _) =
        client.prompt(&session, "[[sh:echo a >> log]] [[sh:echo b >> log]] [[say:x]]").await.unwrap();
    assert_eq!((stop.as_str(), world.read("log").as_str()), ("end_turn", "a\n"));
    assert!(client.of("notice")[0]["title"].as_str().unwrap().contains("wrap up"));
    let always = Answer::call("bash", json!({"command": "echo c >> log"}));
    world.model.when(|request| request.conversation.is_some()).answer(always);
    let (stop, _) = client.prompt(&session, "never ends").await.unwrap();
    assert_eq!(stop, "max_turn_requests");
    assert!(
        world.read("log").matches('c').count() <= 2,
        "nothing is carried out behind the limit: {}",
        world.read("log")
    );
    client.end().await;
}

#[tokio::test]
async fn an_answer_is_held_to_its_schema() {
    let world = World::new(Wire::Gemini);
    let mut client = world.client().await;
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let session = client.session(&world.work(), json!({"outputSchema": schema})).await;
    world
        .model
        .when(|request| request.prompt().contains("does not fit"))
        .times(1)
        .script("[[exactly:{\"n\": 4}]]");
    let (stop, text) = client.prompt(&session, "[[exactly:four]]").await.unwrap();
    assert_eq!((stop.as_str(), text.as_str()), ("end_turn", "{\"n\": 4}"));
    world.model.when(|request| request.conversation.is_some()).script("[[exactly:never]]");
    let error = client.prompt(&session, "again").await.unwrap_err();
    assert_eq!(error["data"]["class"], "schema_mismatch", "{error}");
    client.end().await;
    let mut other = world.client().await;
    let params =
        json!({"cwd": world.work(), "mcpServers": [], "_meta": {"subagent": {"outputSchema": {"type": 7}}}});
    assert!(other.call("session/new", params).await.is_err(), "what is no schema is refused at once");
    other.end().await;
}

#[tokio::test]
async fn rec_12_a_long_conversation_is_summed_up_announced_and_counted() {
    let mut world = World::new(Wire::Chat);
    world
        .config
        .models
        .insert("test/fake-model".into(), ModelFacts { window: Some(1_000), ..ModelFacts::default() });
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    world.model.when(|request| request.prompt().starts_with("Sum this up")).answer(Answer::text("SUMMARY"));
    world.model.when(|request| request.prompt().contains("<summary>")).script("[[exactly:end]]");
    let script = "[[usage:900,20,0,0,0]] [[sh:echo once >> log]] [[say:end]]";
    let (stop, _) = client.prompt(&session, script).await.unwrap();
    assert_eq!((stop.as_str(), world.read("log").as_str()), ("end_turn", "once\n"));
    let told = client.of("compaction_update");
    assert_eq!(told[0]["status"], "in_progress");
    assert_eq!(
        (&told[1]["status"], &told[1]["_meta"]["subagent/used"]["inputTokens"]),
        (&json!("completed"), &json!(100))
    );
    let last = world.model.conversations().pop().unwrap();
    assert!(last.body.to_string().contains("SUMMARY"), "{}", last.body);
    client.end().await;
}

#[tokio::test]
async fn an_empty_answer_gets_a_final_answer_turn() {
    let world = World::new(Wire::Messages);
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    world.model.when(|request| request.prompt().contains("was empty")).script("[[exactly:here it is]]");
    let (stop, text) = client.prompt(&session, "[[sh:true]] [[empty]]").await.unwrap();
    assert_eq!((stop.as_str(), text.as_str()), ("end_turn", "here it is"));
    client.end().await;
}

#[tokio::test]
async fn acp_08_what_does_more_than_look_is_asked_for_and_a_no_is_a_result() {
    let mut world = World::new(Wire::Chat);
    world.mode = Mode::Ask;
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    for (choice, done) in [("yes", true), ("no", false)] {
        let script = format!("[[call:ls|{{}}]] [[sh:echo {choice} > {choice}]] [[say:over]] [[echo]]");
        let turn = client.begin("session/prompt", prompt(&session, &script)).await;
        let asked = client.until("a request", |line| line["method"] == "session/request_permission").await;
        assert_eq!(asked["params"]["toolCall"]["kind"], "execute", "looking is not asked for: {asked}");
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": choice}});
        client.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})).await;
        assert_eq!(client.answer(turn).await.unwrap()["stopReason"], "end_turn");
        assert_eq!(!world.read(choice).is_empty(), done, "{choice}");
    }
    assert!(client.last_message().contains("Not permitted"), "{}", client.last_message());
    client.call("session/set_mode", json!({"sessionId": session, "modeId": "read-only"})).await.unwrap();
    client.prompt(&session, "[[sh:echo x > x]] [[say:y]]").await.unwrap();
    assert_eq!(world.read("x"), "", "a session that only looks changes nothing, and asks for nothing");
    client.end().await;
}

#[tokio::test]
async fn acp_04_a_session_is_loaded_with_its_history_and_resumed_without() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    client.prompt(&session, "[[sh:true]] [[say:one]]").await.unwrap();
    let again = json!({"sessionId": session, "cwd": world.work(), "mcpServers": []});
    assert!(client.call("session/load", again.clone()).await.is_err(), "res_01: open once");
    let mut other = world.client().await;
    let error = other.call("session/resume", again.clone()).await.unwrap_err();
    assert_eq!(error["data"]["class"], "still_running", "res_01: also in another process: {error}");
    client.end().await;
    other.updates.clear();
    let loaded = other.call("session/load", again.clone()).await.unwrap();
    assert_eq!(loaded["_meta"]["subagent"]["prompts"], 1);
    assert_eq!(
        (other.of("user_message_chunk").len(), other.of("tool_call").len()),
        (1, 1),
        "before the answer"
    );
    let (_, text) = other.prompt(&session, "[[say:two]]").await.unwrap();
    assert!(text.contains("two users=2"), "{text}");
    other.call("session/close", json!({"sessionId": session})).await.unwrap();
    other.updates.clear();
    other.call("session/resume", again).await.unwrap();
    assert!(other.updates.is_empty(), "{:?}", other.updates);
    let listed = other.call("session/list", json!({"cwd": world.work()})).await.unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], *session, "{listed}");
    let missing =
        json!({"sessionId": "01a22d21-9704-741f-afa1-3082d0029501", "cwd": world.work(), "mcpServers": []});
    assert_eq!(other.call("session/load", missing).await.unwrap_err()["code"], -32002);
    other.end().await;
}

#[tokio::test]
async fn res_22_a_fork_knows_what_was_said_and_counts_nothing_of_it() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    std::fs::write(world.work().join("AGENTS.md"), "PARENT-DIRECTORY-TEXT").unwrap();
    let parent = client.session(&world.work(), json!({})).await;
    client.prompt(&parent, "[[sh:echo tool-traffic]] [[exactly:the parent knows 42]]").await.unwrap();
    let own = world.dir.path().join("own");
    std::fs::create_dir(&own).unwrap();
    let params = json!({"sessionId": parent, "cwd": own, "mcpServers": []});
    let child = client.call("session/fork", params).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(child, parent);
    client.prompt(&child, "[[say:child]]").await.unwrap();
    let body = world.model.conversations().pop().unwrap().body.to_string();
    assert!(body.contains("the parent knows 42") && body.contains("it is not your task"), "{body}");
    assert!(!body.contains("tool-traffic\\n"), "res_23: no tool traffic: {body}");
    assert!(!body.contains("PARENT-DIRECTORY-TEXT"), "nothing of the parent's directory: {body}");
    let usage = client.of("usage_update");
    assert_eq!(usage.len(), 1, "{usage:?}");
    client.end().await;
}

#[tokio::test]
async fn acp_06_what_is_not_known_is_answered_and_harms_nothing() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    assert_eq!(client.call("no/such", json!({})).await.unwrap_err()["code"], -32601);
    assert_eq!(client.call("session/prompt", prompt("none", "x")).await.unwrap_err()["code"], -32002);
    for cwd in ["relative", "/no/such/directory"] {
        let params = json!({"cwd": cwd, "mcpServers": []});
        assert_eq!(client.call("session/new", params).await.unwrap_err()["code"], -32602, "{cwd}");
    }
    client.send(json!("no message")).await;
    client.send(json!({"jsonrpc": "2.0", "method": "never/heard", "params": []})).await;
    client.send(json!({"jsonrpc": "2.0", "id": 999_999, "result": {}})).await;
    let session = client.session(&world.work(), json!({})).await;
    let turn = client.begin("session/prompt", prompt(&session, "[[slow:5*100]]")).await;
    let second = client.call("session/prompt", prompt(&session, "x")).await.unwrap_err();
    assert!(second["message"].as_str().unwrap().contains("a prompt is at work"), "{second}");
    client.answer(turn).await.unwrap();
    client.end().await;
}
