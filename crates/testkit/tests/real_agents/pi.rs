//! pi, `--mode json`.

use subagent_testkit::real_agents::Ran;
use subagent_testkit::{Agent, AgentHome, ModelServer, RealAgents};

fn home(model: &ModelServer) -> AgentHome {
    RealAgents::new().home(Agent::Pi, model)
}

/// The last message of the model.
#[track_caller]
fn last(ran: &Ran) -> serde_json::Value {
    let mut messages = ran.of_type("message_end").into_iter().map(|line| line["message"].clone());
    let last = messages.rfind(|message| message["role"] == "assistant");
    last.unwrap_or_else(|| panic!("{ran:#?}"))
}

#[test]
fn a_text() {
    let model = ModelServer::start();
    let ran = home(&model).run("tell me [[usage:7,8,2]]").ended(0);
    let last = last(&ran);
    assert_eq!(last["content"][0]["text"], "FAKE-OK users=1 results=0 first='tell me'", "{ran:#?}");
    let tokens = ["input", "output", "cacheRead"].map(|name| last["usage"][name].as_u64());
    assert_eq!(tokens, [Some(7), Some(8), Some(2)], "{ran:#?}");
    assert_eq!(ran.of_type("agent_settled").len(), 1, "{ran:#?}");
}

#[test]
fn a_file_and_a_command() {
    let model = ModelServer::start();
    let home = home(&model);
    let ran = home.run("[[write:a.txt|from pi]] [[sh:cat a.txt; echo !]] [[echo]]").ended(0);
    assert_eq!(std::fs::read_to_string(home.work().join("a.txt")).unwrap(), "from pi");
    let text = last(&ran)["content"][0]["text"].to_string();
    assert!(text.contains("results=2") && text.contains("from pi!"), "{ran:#?}");
}

#[test]
fn a_key_that_is_refused() {
    let model = ModelServer::start();
    // Its exit code tells nothing.
    let ran = home(&model).run("[[status:401]]").ended(0);
    let last = last(&ran);
    assert_eq!(last["stopReason"], "error", "{ran:#?}");
    assert!(last["errorMessage"].as_str().unwrap().contains("401"), "{ran:#?}");
}

#[test]
fn mishaps_that_pass() {
    let model = ModelServer::start();
    for mishap in ["[[status:429*1]] [[retry-after:0]]", "[[drop*1]]"] {
        let ran = home(&model).run(mishap).ended(0);
        assert_eq!(last(&ran)["content"][0]["text"], "FAKE-OK users=1 results=0 first=''", "{ran:#?}");
    }
}
