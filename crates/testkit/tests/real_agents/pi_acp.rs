//! pi, spoken with in ACP.

use subagent_testkit::real_agents::Acp;
use subagent_testkit::{Agent, ModelServer, RealAgents};

#[test]
fn a_text_a_file_and_a_refusal() {
    let model = ModelServer::start();
    let home = RealAgents::new().home(Agent::PiAcp, &model);
    let mut acp = Acp::start(home.acp());
    let session = acp.session(&home.work());
    let (stop, text) = acp.prompt(&session, "tell me");
    assert_eq!(stop, Ok("end_turn".into()));
    assert!(text.ends_with("FAKE-OK users=1 results=0 first='tell me'"), "{text}");
    let (stop, text) = acp.prompt(&session, "[[write:a.txt|from pi]]");
    assert_eq!((stop, text.as_str()), (Ok("end_turn".into()), "FAKE-OK users=2 results=1 first='tell me'"));
    assert_eq!(std::fs::read_to_string(home.work().join("a.txt")).unwrap(), "from pi");
    let (stop, text) = acp.prompt(&session, "[[status:401]]");
    // It says that all went well, and says nothing.
    assert_eq!((stop, text.as_str()), (Ok("end_turn".into()), ""));
    acp.end();
}
