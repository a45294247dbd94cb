//! Agents that are spoken with in ACP.

use subagent_testkit::real_agents::Acp;
use subagent_testkit::{Agent, ModelServer, RealAgents};

#[track_caller]
fn a_text_and_a_file(agent: Agent) {
    let model = ModelServer::start();
    let home = RealAgents::new().home(agent, &model);
    let mut acp = Acp::start(home.acp());
    let session = acp.session(&home.work());
    if agent == Agent::ClaudeAcp {
        // Otherwise it asks the model, and not the client, what it may do.
        let mode = serde_json::json!({"sessionId": session, "modeId": "default"});
        acp.ask("session/set_mode", &mode).expect("there is such a mode");
    }
    let (stop, text) = acp.prompt(&session, "tell me");
    assert_eq!(stop, Ok("end_turn".into()), "{text}");
    // Some put warnings around it.
    assert!(text.contains("FAKE-OK users=1 results=0 first='tell me'"), "{text}");
    let path = home.work().join("a.txt");
    let (stop, text) = acp.prompt(&session, &format!("[[write:{}|spoken]]", path.display()));
    assert_eq!(stop, Ok("end_turn".into()), "{text}");
    assert!(text.contains("FAKE-OK users=2 results=1 first='tell me'"), "{text}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "spoken");
    acp.end();
}

#[test]
fn claude() {
    a_text_and_a_file(Agent::ClaudeAcp);
}

#[test]
fn codex() {
    a_text_and_a_file(Agent::CodexAcp);
}

#[test]
fn gemini() {
    a_text_and_a_file(Agent::Gemini);
}

#[test]
fn opencode() {
    a_text_and_a_file(Agent::Opencode);
}

#[test]
fn qwen() {
    a_text_and_a_file(Agent::Qwen);
}
