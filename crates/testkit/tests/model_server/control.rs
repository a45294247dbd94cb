//! Rules of a test, and the paths by which the server is asked what came.

use serde_json::json;
use subagent_testkit::ModelServer;
use subagent_testkit::model_server::{Answer, Format, Reply, Usage};

use crate::asking::{ask, get, send};

fn said(server: &ModelServer, prompt: &str) -> String {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": prompt}],
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": {}}}]});
    let heard = ask(server, "/v1/chat/completions", &body);
    if heard.status != 200 {
        return heard.status.to_string();
    }
    let message = &heard.json()["choices"][0]["message"];
    message["content"].as_str().map_or_else(|| message["tool_calls"].to_string(), str::to_owned)
}

#[test]
fn rules_before_scripts_in_their_order() {
    let server = ModelServer::start();
    server.when(|request| request.prompt().contains("one")).times(1).answer(Answer::status(503));
    server.when(|request| request.prompt().contains("one")).script("[[exactly:ruled]]");
    server
        .when(|request| request.prompt().contains("two"))
        .answer_with(|request| Answer::text(&format!("{} asked {}", request.number, request.prompt())));
    assert_eq!(said(&server, "one"), "503");
    assert_eq!(said(&server, "one"), "ruled");
    assert_eq!(said(&server, "two"), "3 asked two");
    assert_eq!(said(&server, "three [[exactly:scripted]]"), "scripted");
}

#[test]
fn a_rule_calls_tools() {
    let server = ModelServer::start();
    let usage = Usage { input: 1, ..Usage::default() };
    let reply = Reply::default().and_call("bash", json!({"command": "ls"})).with_usage(usage);
    server.when(|request| request.conversation.is_some()).answer(reply);
    assert!(said(&server, "x").contains(r#""arguments":"{\"command\":\"ls\"}","name":"bash""#));
}

#[test]
fn requests_are_kept_as_they_came() {
    let server = ModelServer::start();
    let body = br#"{"model": "m", "stream": false, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}"#;
    send(&server, "/v1/messages?beta=true", &[("x-api-key", "sk-a-long-secret-key")], body);
    get(&format!("{}/v1/models", server.url()));
    let conversations = server.conversations();
    let [request] = conversations.as_slice() else { panic!("{conversations:?}") };
    assert_eq!(
        (request.number, request.path.as_str(), request.query.as_str()),
        (1, "/v1/messages", "beta=true")
    );
    assert_eq!((request.key(), request.status), (Some("sk-a-long-secret-key"), Some(200)));
    assert_eq!(request.body["max_tokens"], 1);
    assert_eq!(request.conversation.as_ref().unwrap().format, Format::Messages);

    let log = get(&format!("{}/_log", server.url()));
    assert_eq!(log.json()[0]["conversation"]["prompts"], json!(["hi"]));
    assert_eq!(
        (&log.json()[0]["outcome"], &log.json()[1]["path"]),
        (&json!("answered"), &json!("/v1/models"))
    );
    let one = get(&format!("{}/_log/1", server.url()));
    assert_eq!(one.json()["body"]["max_tokens"], 1);
    assert!(!log.text.contains("secret") && !one.text.contains("secret"), "{log:?} {one:?}");
    let stats = get(&format!("{}/_stats", server.url())).json();
    assert_eq!((&stats["requests"], &stats["paths"]["/v1/messages"]), (&json!(2), &json!(1)));
}

#[test]
fn a_reset_forgets_what_came_and_what_failed() {
    let server = ModelServer::start();
    assert_eq!(said(&server, "[[status:500*1]]"), "500");
    assert_eq!(said(&server, "[[status:500*1]]"), "FAKE-OK users=1 results=0 first=''");
    ask(&server, "/_reset", &json!({}));
    assert!(server.requests().is_empty());
    assert_eq!(said(&server, "[[status:500*1]]"), "500");
}

#[test]
fn lists_heads_and_what_is_not_there() {
    let server = ModelServer::start();
    let models = get(&format!("{}/v1/models", server.url())).json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("fake-model")));
    assert_eq!(get(&format!("{}/v1/models/x", server.url())).json()["id"], "x");
    assert_eq!(ureq::head(server.url()).call().unwrap().status(), 200);
    let nothing = get(&format!("{}/api/other", server.url()));
    assert_eq!((nothing.status, &nothing.json()["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(server.requests().last().unwrap().path, "/api/other");
    let bad = send(&server, "/v1/responses", &[], b"no json");
    assert_eq!(bad.status, 400);
}

#[test]
fn two_servers_do_not_give_the_same_identifiers() {
    let (one, two) = (ModelServer::start(), ModelServer::start());
    let body = json!({"model": "m", "messages": []});
    let id = |server| ask(server, "/v1/chat/completions", &body).json()["id"].to_string();
    assert_ne!(id(&one), id(&two));
    assert_ne!(id(&one), id(&one));
}
