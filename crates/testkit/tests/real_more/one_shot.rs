//! Agents that do one task and end.

use subagent_testkit::{Agent, ModelServer, RealAgents};

#[track_caller]
fn a_text_and_a_file(agent: Agent) {
    let model = ModelServer::start();
    let home = RealAgents::new().home(agent, &model);
    let path = home.work().join("a.txt");
    // The text in one piece: some print pieces as they come.
    let prompt = format!("do it [[write:{}|by itself]] [[drip:400*0]]", path.display());
    let ran = home.run(&prompt).ended(0);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "by itself", "{ran:#?}");
    let seen = model.conversations();
    let last = seen.last().unwrap().conversation.clone().unwrap();
    assert_eq!((last.prompts.len(), last.results.len()), (1, 1), "{ran:#?}");
    // Some put a prompt in quotation marks.
    assert!(last.prompt().contains(&prompt), "{}", last.prompt());
    assert!(ran.out.contains("FAKE-OK users=1 results=1 first="), "{ran:#?}");
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
