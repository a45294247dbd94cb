//! The same conversations over every wire format, and what becomes of failures.

use serde_json::{Value, json};
use subagent_agent::wire::Wire;

use crate::client::{KEY, World};

const ALL: [Wire; 3] = [Wire::Chat, Wire::Messages, Wire::Gemini];

#[tokio::test]
async fn tools_thoughts_usage_and_a_second_prompt_over_every_wire_format() {
    for wire in ALL {
        let world = World::new(wire);
        let mut client = world.client().await;
        let session = client.session(&world.work(), json!({})).await;
        let script = "[[think:hm]] [[write:a.txt|hello]] [[sh:cat a.txt]] [[together]] [[say:done]] [[echo]] [[usage:50,7,30,0,2]]";
        let (stop, text) = client.prompt(&session, script).await.unwrap();
        assert_eq!(stop, "end_turn", "{wire:?}");
        assert!(text.contains("done users=1 results=2"), "{wire:?}: {text}");
        assert!(text.contains("hello"), "{wire:?}: what the command saw of the file: {text}");
        assert_eq!(world.read("a.txt"), "hello");
        assert_eq!(client.of("tool_call").len(), 2);
        let thought = client.of("agent_thought_chunk");
        assert!(thought.iter().any(|thought| thought["content"]["text"] == "hm"), "{wire:?}");
        let turns = client.of("usage_update");
        let told: Vec<_> = turns.iter().map(|turn| &turn["_meta"]["subagent/turn"]).collect();
        assert_eq!(told.len(), 2, "{wire:?}: {told:?}");
        assert_eq!((&told[0]["more"], &told[1]["more"]), (&json!(true), &json!(false)));
        for turn in told {
            let usage = &turn["usage"];
            assert_eq!(usage["inputTokens"], 50, "{wire:?}: {usage}");
            assert_eq!(usage["outputTokens"], 7, "{wire:?}: {usage}");
            assert_eq!(usage["cachedReadTokens"], 30, "rec_12 {wire:?}: {usage}");
        }
        let (_, text) = client.prompt(&session, "[[say:second]]").await.unwrap();
        assert!(text.contains("second users=2 results=0"), "{wire:?}: {text}");
        let request = world.model.conversations().pop().unwrap();
        assert_eq!(request.key(), Some(KEY), "{wire:?}");
        client.end().await;
    }
}

#[tokio::test]
async fn every_class_of_failure_reaches_the_client_by_its_word() {
    for wire in ALL {
        let mut world = World::new(wire);
        world.config.retries = Some(0);
        let mut client = world.client().await;
        for (script, class) in [
            ("[[status:413]]", "context_overflow"),
            ("[[status:401]]", "auth"),
            ("[[status:429]]", "rate_limited"),
            ("[[quota:60]]", "quota_exhausted"),
            ("[[status:503]]", "overloaded"),
            ("[[status:404]]", "invalid_request"),
            ("[[drop]]", "overloaded"),
            ("[[garbage]]", "overloaded"),
            ("[[error:overloaded]]", "overloaded"),
        ] {
            // Each in a session of its own: where roles take turns, prompts without an answer become one.
            let session = client.session(&world.work(), json!({})).await;
            let error = client.prompt(&session, script).await.unwrap_err();
            assert_eq!(error["data"]["class"], class, "{wire:?} {script}: {error}");
            assert!(!error.to_string().contains(KEY), "{error}");
            if class == "quota_exhausted" {
                assert!(error["data"]["resetAtMs"].as_u64().unwrap() > 1_700_000_000_000, "queue_20 {error}");
            }
        }
        let session = client.session(&world.work(), json!({})).await;
        let (stop, _) = client.prompt(&session, "[[stop:refusal]] [[exactly:no]]").await.unwrap();
        assert_eq!(stop, "refusal", "acp_11 {wire:?}");
        let (stop, _) = client.prompt(&session, "[[stop:length]] [[exactly:half]]").await.unwrap();
        assert_eq!(stop, "max_tokens", "acp_11 {wire:?}");
        let (stop, text) = client.prompt(&session, "[[say:and it goes on]]").await.unwrap();
        assert_eq!((stop.as_str(), text.contains("and it goes on")), ("end_turn", true), "{wire:?}");
        client.end().await;
    }
}

#[tokio::test]
async fn a_passing_failure_is_tried_again_and_told() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    let (stop, text) =
        client.prompt(&session, "[[status:429*1]] [[retry-after:1]] [[say:in the end]]").await.unwrap();
    assert_eq!((stop.as_str(), text.contains("in the end users=1")), ("end_turn", true), "{text}");
    let held = client.of("notice");
    assert_eq!(held[0]["_meta"]["subagent/held"]["class"], "rate_limited", "queue_19 {held:?}");
    let asked = world.model.conversations();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].at_ms - asked[0].at_ms >= 1_000, "never earlier than told");
    let (_, text) = client.prompt(&session, "[[drop*2]] [[say:whole]]").await.unwrap();
    assert!(text.contains("whole users=2"), "what broke off is no part of the answer: {text}");
    client.end().await;
}

#[tokio::test]
async fn a_key_is_nowhere_but_in_requests() {
    let world = World::new(Wire::Chat);
    std::fs::write(world.work().join("leak.txt"), format!("the key is {KEY}\n")).unwrap();
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    client
        .prompt(&session, "[[sh:cat leak.txt; env; cat /proc/self/environ]] [[echo]] [[say:done]]")
        .await
        .unwrap();
    let told = serde_json::to_string(&client.updates).unwrap();
    assert!(told.contains("the key is [key]") && !told.contains(KEY), "{told}");
    client.end().await;
    for entry in std::fs::read_dir(world.sessions()).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(KEY), "{text}");
    }
    for request in world.model.conversations() {
        assert!(!request.body.to_string().contains(KEY));
    }
}

#[tokio::test]
async fn a_key_that_is_missing_is_told_before_anything_is_asked() {
    let mut world = World::new(Wire::Chat);
    world.config.endpoints.get_mut("test").unwrap().key_env = Some("NOT_SET".into());
    let mut client = world.client().await;
    let params = json!({"cwd": world.work(), "mcpServers": []});
    let error = client.call("session/new", params).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["class"]), (&json!(-32000), &json!("auth")), "acp_02");
    assert!(error["message"].as_str().unwrap().contains("NOT_SET"), "{error}");
    assert_eq!(world.model.requests().len(), 0);
    client.end().await;
}

#[tokio::test]
async fn requests_begin_alike_so_that_caches_stay_warm() {
    for wire in ALL {
        let world = World::new(wire);
        let mut client = world.client().await;
        for _ in 0..2 {
            let session = client.session(&world.work(), json!({})).await;
            client.prompt(&session, "[[sh:true]] [[say:x]]").await.unwrap();
        }
        let asked = world.model.conversations();
        let shared = |body: &Value| {
            let system = body.get("system").or_else(|| body.get("systemInstruction")).cloned();
            (body["tools"].clone(), system.unwrap_or_else(|| body["messages"][0].clone()))
        };
        for request in &asked {
            assert_eq!(shared(&request.body), shared(&asked[0].body), "{wire:?}");
        }
        client.end().await;
    }
}
