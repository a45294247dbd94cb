//! Codex, `exec --json`.

use subagent_testkit::real_agents::{Ran, run};
use subagent_testkit::{Agent, AgentHome, ModelServer, RealAgents};

fn home(model: &ModelServer) -> AgentHome {
    RealAgents::new().home(Agent::Codex, model)
}

/// The texts that it gave out as its messages.
fn messages(ran: &Ran) -> Vec<serde_json::Value> {
    let items = ran.of_type("item.completed").into_iter().map(|line| line["item"].clone());
    items.filter(|item| item["type"] == "agent_message").map(|item| item["text"].clone()).collect()
}

#[test]
fn a_text() {
    let model = ModelServer::start();
    let ran = home(&model).run("tell me [[usage:7,8,2]]").ended(0);
    assert_eq!(messages(&ran), ["FAKE-OK users=1 results=0 first='tell me'"], "{ran:#?}");
    let usage = &ran.of_type("turn.completed")[0]["usage"];
    let tokens = ["input_tokens", "cached_input_tokens", "output_tokens"].map(|name| usage[name].as_u64());
    assert_eq!(tokens, [Some(9), Some(2), Some(8)], "{ran:#?}");
}

#[test]
fn a_file_and_a_command() {
    let model = ModelServer::start();
    let home = home(&model);
    let ran = home.run("[[write:a.txt|it's codex]] [[sh:cat a.txt; echo !]] [[echo]]").ended(0);
    assert_eq!(std::fs::read_to_string(home.work().join("a.txt")).unwrap(), "it's codex");
    let text = messages(&ran)[0].to_string();
    assert!(text.contains("results=2") && text.contains("it's codex!"), "{ran:#?}");
}

#[test]
fn a_patch_where_the_model_has_the_tool_for_it() {
    let model = ModelServer::start();
    let home = home(&model);
    let mut command = home.command(["exec", "--model", "gpt-5.5", "--json", "--skip-git-repo-check"]);
    command.arg("[[write:a.txt|one\ntwo]]");
    let ran = run(command).ended(0);
    assert_eq!(std::fs::read_to_string(home.work().join("a.txt")).unwrap(), "one\ntwo\n");
    let changed = ran.of_type("item.completed").iter().any(|line| line["item"]["type"] == "file_change");
    assert!(changed, "{ran:#?}");
}

#[test]
fn a_key_that_is_refused() {
    let model = ModelServer::start();
    let ran = home(&model).run("[[status:401]]").ended(1);
    assert_eq!(messages(&ran), [""; 0]);
    let failed = ran.of_type("turn.failed");
    assert!(failed[0]["error"]["message"].as_str().unwrap().contains("401"), "{ran:#?}");
}

#[test]
fn its_home_is_no_place_for_temporary_files() {
    let model = ModelServer::start();
    let ran = home(&model).run("tell me").ended(0);
    assert!(!ran.err.contains("Refusing to create helper binaries"), "{ran:#?}");
}

#[test]
fn mishaps_that_pass() {
    let model = ModelServer::start();
    for mishap in ["[[status:500*1]] [[retry-after:0]]", "[[drop*1]]"] {
        let ran = home(&model).run(mishap).ended(0);
        assert_eq!(messages(&ran).last().unwrap(), "FAKE-OK users=1 results=0 first=''", "{ran:#?}");
    }
}

#[test]
fn a_child_of_its_own() {
    let model = ModelServer::start();
    let prompt = r#"parent [[call:multi_agent_v1.spawn_agent|{"message":"child [[say:CHILD]]"}]]
        [[call:multi_agent_v1.wait_agent|{"targets":["{{agent_id}}"]}]] [[echo]]"#;
    let ran = home(&model).run(prompt).ended(0);
    let text = messages(&ran).last().unwrap().to_string();
    assert!(text.contains("CHILD users=1 results=0 first='child'"), "{ran:#?}");
    assert!(!ran.of_type("item.completed").iter().all(|line| line["item"]["type"] != "collab_tool_call"));
}
