//! What children ask, answered at the command line and over HTTP.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use subagent_model::ErrorCode;
use subagent_testkit::{Home, until};

/// What is open.
fn open(home: &Home) -> Vec<Value> {
    home.run(&["requests", "--json"]).ended(0).json()["items"].as_array().cloned().unwrap()
}

#[track_caller]
fn until_open(home: &Home, many: usize) -> Vec<Value> {
    until("the requests", || Some(open(home)).filter(|open| open.len() == many))
}

#[test]
fn perm_01_the_full_action_is_listed_and_the_answer_reaches_the_child() {
    let home = Home::new();
    let id = home.talks(&[], "ask execute git push --force\nsay I was told $answer");
    let item = until_open(&home, 1).remove(0);
    assert_eq!(
        (&item["action"], &item["title"]),
        (&json!("execute"), &json!("git push --force")),
        "{item:#}"
    );
    let record = home.show(&id);
    assert_eq!((&record["status"], &record["waiting_on"]["for"]), (&json!("waiting"), &json!("approval")));
    let listed = home.run(&["requests"]).ended(0);
    assert!(listed.out.contains("git push --force"), "{listed:#?}");
    let name = item["id"].as_str().unwrap();
    home.run(&["approve", name]).ended(0);
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "I was told allow_once\n");
    // An answer counts once.
    let late = home.run(&["deny", name]);
    assert_eq!(late.code, 1, "{late:#?}");
    assert!(late.err.contains("already_answered") && late.err.contains("help:"), "{late:#?}");
}

#[test]
fn perm_02_a_denial_goes_to_the_child_with_its_reason_and_stands_beside_the_result() {
    let home = Home::new();
    let id = home.talks(&[], "ask edit main.rs\nsay I was told $answer");
    until_open(&home, 1);
    home.run(&["deny", "--reason", "not on this branch", &id]).ended(0);
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "I was told deny_once\n");
    let record = home.show(&id);
    assert!(record["marks"].to_string().contains("permission_denied"), "{record:#}");
    assert_eq!(record["requests"][0]["answered"]["reason"], "not on this branch", "{record:#}");
    // What nobody will answer is denied at once, and what expires as well.
    let output = home.talk(&["--unattended"], "ask edit main.rs\nsay $answer").ended(0);
    assert_eq!(output.out, "deny_once\n");
    let output = home.talk(&["--answer-within", "100ms"], "ask edit main.rs\nsay $answer").ended(0);
    assert_eq!(output.out, "deny_once\n");
}

#[test]
fn perm_06_the_policy_of_the_spawn_is_tried_before_anybody_is_asked() {
    let home = Home::new();
    let flags = ["--deny", "execute:rm *", "--allow", "execute:"];
    let script = "ask execute ls\nsay $answer\nask execute rm -rf x\nsay $answer";
    let output = home.talk(&flags, script).ended(0);
    assert!(output.out.contains("deny_once"), "{output:#?}");
    let script = "ask execute ls\nsay $answer";
    assert_eq!(home.talk(&flags, script).ended(0).out, "allow_once\n");
    assert_eq!(
        home.talk(&["--approve-all"], "ask fetch https://x\nsay $answer").ended(0).out,
        "allow_once\n"
    );
}

#[test]
fn perm_05_a_question_is_answered_in_words_and_a_wrong_kind_of_answer_is_refused() {
    let home = Home::new();
    let id = home.talks(&[], "question Which one?\nsay then $answer");
    until_open(&home, 1);
    assert_eq!(home.show(&id)["waiting_on"]["for"], "question");
    let wrong = home.run(&["approve", &id]);
    assert!(wrong.code == 2 && wrong.err.contains("wrong_answer"), "{wrong:#?}");
    assert!(wrong.err.contains("subagent answer"), "{wrong:#?}");
    home.run_with_input(&["answer", &id, "-"], b"the second").ended(0);
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "then the second\n");
    let nothing = home.run(&["answer", &id, "again"]);
    assert!(nothing.code == 3 && nothing.err.contains("asks for nothing"), "{nothing:#?}");
}

#[test]
fn perm_04_an_answer_for_always_holds_for_its_subagent_and_can_be_taken_back() {
    let home = Home::new();
    let id = home.talks(&["--warm"], "ask execute make\nask execute make\nsay twice $answer");
    until_open(&home, 1);
    home.run(&["approve", "--always", &id]).ended(0);
    let record = home.until_status(&id, "idle");
    assert_eq!(record["grants"].as_array().unwrap().len(), 1, "asked once: {record:#}");
    home.run(&["revoke", &id]).ended(0);
    home.run(&["resume", "--background", &id, "ask execute make\nsay again $answer"]).ended(0);
    until_open(&home, 1);
    home.run(&["deny", &id]).ended(0);
    home.run(&["wait", &id]).ended(0);
    assert!(home.run(&["result", &id]).ended(0).out.ends_with("again deny_once\n"));
    home.run(&["stop", "--wait", &id]).ended(0);
}

#[test]
fn perm_03_a_stop_withdraws_what_is_open() {
    let home = Home::new();
    let id = home.talks(&[], "ask execute make\nsay $answer");
    let name = until_open(&home, 1)[0]["id"].as_str().unwrap().to_owned();
    home.run(&["stop", "--wait", &id]).ended(0);
    assert!(open(&home).is_empty());
    let late = home.run(&["approve", &name]);
    assert!(late.code == 1 && late.err.contains("already_answered"), "{late:#?}");
    assert_eq!(home.show(&id)["requests"][0]["state"], "withdrawn");
}

#[test]
fn perm_01_over_http_only_those_above_see_and_answer() {
    let home = Home::new();
    home.run(&["ls"]).ended(0);
    let http = home.http();
    let (alice, bob) = (http.requester("alice"), http.requester("bob"));
    let talker = home.talker();
    let request = json!({
        "provider": "exec", "mode": "async", "cwd": home.path(), "prompt": "ask execute make\nsay $answer",
        "env": {"PATH": "/usr/bin:/bin"},
        "exec": {"program": talker[0], "args": talker[1..], "talk": "lines"},
    });
    let id = alice.post("/v1/subagents", &request).with(201)["record"]["id"].as_str().unwrap().to_owned();
    let item = until("the request", || {
        alice.get("/v1/requests").with(200)["items"].as_array().unwrap().first().cloned()
    });
    assert_eq!(bob.get("/v1/requests").with(200)["items"], json!([]));
    let path = format!("/v1/requests/{}", item["id"].as_str().unwrap());
    bob.post(&path, &json!({"choice": "allow_once"})).refused(ErrorCode::NotYours);
    alice.post(&path, &json!({"text": "yes"})).refused(ErrorCode::WrongAnswer);
    alice.post(&path, &json!({"choice": "allow_once"})).with(200);
    let reply = alice.post(&format!("/v1/subagents/{id}/wait"), &json!(null)).with(200);
    assert_eq!(reply["record"]["result"]["preview"], "allow_once", "{reply:#}");
    alice.post(&path, &json!({"choice": "deny_once"})).refused(ErrorCode::AlreadyAnswered);
}
