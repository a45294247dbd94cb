//! Claude Code, `-p` with lines of JSON.

use subagent_testkit::real_agents::Ran;
use subagent_testkit::{Agent, AgentHome, ModelServer, RealAgents};

fn home(model: &ModelServer) -> AgentHome {
    RealAgents::new().home(Agent::Claude, model)
}

#[track_caller]
fn result(ran: &Ran) -> serde_json::Value {
    let results = ran.of_type("result");
    let [result] = results.as_slice() else { panic!("{ran:#?}") };
    result.clone()
}

#[test]
fn a_text() {
    let model = ModelServer::start();
    let ran = home(&model).run("tell me [[usage:7,8]]").ended(0);
    let result = result(&ran);
    assert_eq!(result["result"], "FAKE-OK users=1 results=0 first='tell me'", "{ran:#?}");
    assert_eq!((&result["subtype"], &result["is_error"]), (&"success".into(), &false.into()));
    assert_eq!((&result["usage"]["input_tokens"], &result["usage"]["output_tokens"]), (&7.into(), &8.into()));
}

#[test]
fn a_file_and_a_command() {
    let model = ModelServer::start();
    let home = home(&model);
    let path = home.work().join("a.txt");
    let prompt = format!("[[write:{}|from claude]] [[sh:cat a.txt; echo !]] [[echo]]", path.display());
    let ran = home.run(&prompt).ended(0);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "from claude");
    assert_eq!(result(&ran)["result"], "FAKE-OK users=1 results=2 first='' last='from claude!'", "{ran:#?}");
}

#[test]
fn a_key_that_is_refused() {
    let model = ModelServer::start();
    let ran = home(&model).run("[[status:401]]").ended(1);
    // Its word for this is success; only the flag tells.
    let result = result(&ran);
    assert_eq!((&result["subtype"], &result["is_error"]), (&"success".into(), &true.into()), "{ran:#?}");
    assert!(model.conversations().iter().all(|request| request.status == Some(401)));
}

#[test]
fn mishaps_that_pass() {
    let model = ModelServer::start();
    for mishap in ["[[status:429*1]] [[retry-after:0]]", "[[drop*1]]"] {
        let ran = home(&model).run(mishap).ended(0);
        assert_eq!(result(&ran)["result"], "FAKE-OK users=1 results=0 first=''", "{ran:#?}");
    }
}

#[test]
fn a_child_of_its_own() {
    let model = ModelServer::start();
    let prompt = r#"parent [[call:Agent|{"description":"d","prompt":"child [[say:CHILD]]",
        "subagent_type":"general-purpose","run_in_background":false}]] [[echo]]"#;
    let ran = home(&model).run(prompt).ended(0);
    let result = result(&ran);
    assert!(result["result"].as_str().unwrap().contains("CHILD users=1 results=0 first='child'"), "{ran:#?}");
    assert_eq!(
        (&result["subagent_stats"]["spawned"], &result["subagent_stats"]["completed"]),
        (&1.into(), &1.into())
    );
}
