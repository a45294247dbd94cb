//! OpenAI Responses.

use serde_json::{Value, json};
use subagent_testkit::ModelServer;

use crate::asking::{Heard, ask};

fn request(prompt: &str, stream: bool) -> Value {
    let said = |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    json!({"model": "m", "stream": stream, "instructions": "be good",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
            said("<environment_context>\n<cwd>/</cwd></environment_context>"), said(prompt)],
        "tools": [
            {"type": "function", "name": "exec_command", "parameters": {"type": "object",
                "properties": {"cmd": {"type": "string"}}}},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
            {"type": "namespace", "name": "agents", "tools": [
                {"type": "function", "name": "spawn", "parameters": {"type": "object"}}]}]})
}

/// The names of the events, and the last event's response. The numbers must have no gap.
#[track_caller]
fn followed(heard: &Heard) -> (Vec<String>, Value) {
    let mut names = Vec::new();
    let mut last = Value::Null;
    for (number, event) in heard.events().iter().enumerate() {
        let data = event.json();
        assert_eq!((&data["sequence_number"], &data["type"]), (&json!(number), &json!(event.name)));
        names.push(event.name.clone());
        last = data["response"].clone();
    }
    names.dedup();
    (names, last)
}

#[test]
fn a_text_streamed_and_whole() {
    let server = ModelServer::start();
    let heard = ask(&server, "/v1/responses", &request("hi", true));
    let (names, last) = followed(&heard);
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let text = "FAKE-OK users=1 results=0 first='hi'";
    let deltas: String = heard
        .documents()
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(deltas, text);
    assert_eq!(last["output"][0]["content"][0]["text"], text);
    assert_eq!((&last["status"], &last["usage"]["total_tokens"]), (&json!("completed"), &json!(120)));

    let whole = ask(&server, "/v1/responses", &request("hi", false)).json();
    assert_eq!(whole["output"][0]["content"], last["output"][0]["content"]);
    assert_eq!(whole["usage"], last["usage"]);
}

#[test]
fn reasoning_has_a_place_of_its_own() {
    let server = ModelServer::start();
    let (_, last) = followed(&ask(&server, "/v1/responses", &request("[[think:hm]]", true)));
    assert_eq!(last["output"][0]["summary"][0]["text"], "hm");
    assert_eq!(last["output"][1]["type"], "message");
}

#[test]
fn functions_and_free_text() {
    let server = ModelServer::start();
    let prompt = "[[sh:ls]] [[write:a|x\ny]]";
    let (names, last) = followed(&ask(&server, "/v1/responses", &request(prompt, true)));
    assert!(names.contains(&"response.function_call_arguments.done".to_owned()), "{names:?}");
    let item = last["output"][0].clone();
    assert_eq!((&item["type"], &item["name"]), (&json!("function_call"), &json!("exec_command")));
    assert_eq!(item["arguments"], r#"{"cmd":"ls"}"#);

    let mut body = request(prompt, true);
    let input = body["input"].as_array_mut().unwrap();
    let output = json!({"type": "function_call_output", "call_id": item["call_id"], "output": "a b"});
    input.extend([item, output]);
    let (names, last) = followed(&ask(&server, "/v1/responses", &body));
    assert!(names.contains(&"response.custom_tool_call_input.delta".to_owned()), "{names:?}");
    let item = last["output"][0].clone();
    assert_eq!((&item["type"], &item["name"]), (&json!("custom_tool_call"), &json!("apply_patch")));
    assert_eq!(item["input"], "*** Begin Patch\n*** Add File: a\n+x\n+y\n*** End Patch\n");

    let input = body["input"].as_array_mut().unwrap();
    let output = json!({"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done"});
    input.extend([item, output]);
    let (_, last) = followed(&ask(&server, "/v1/responses", &body));
    assert_eq!(last["output"][0]["content"][0]["text"], "FAKE-OK users=1 results=2 first=''");
}

#[test]
fn a_tool_of_a_namespace() {
    let server = ModelServer::start();
    let prompt = r#"[[call:agents.spawn|{"task":"x"}]]"#;
    let (_, last) = followed(&ask(&server, "/v1/responses", &request(prompt, true)));
    let item = &last["output"][0];
    assert_eq!((&item["namespace"], &item["name"]), (&json!("agents"), &json!("spawn")));
    assert_eq!(item["arguments"], r#"{"task":"x"}"#);
    let tools = server.requests()[0].conversation.clone().unwrap().tools;
    assert_eq!(tools.last().unwrap().name, "agents.spawn");
}

#[test]
fn a_plain_string_and_a_document_asked_for() {
    let server = ModelServer::start();
    let schema = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
    let body = json!({"model": "m", "input": "hi",
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}});
    let whole = ask(&server, "/responses", &body).json();
    assert_eq!(whole["output"][0]["content"][0]["text"], r#"{"ok":false}"#);
}

#[test]
fn ends_that_are_no_completion() {
    let server = ModelServer::start();
    let (names, last) = followed(&ask(&server, "/v1/responses", &request("[[stop:length]]", true)));
    assert_eq!(names.last().unwrap(), "response.incomplete");
    assert_eq!(last["incomplete_details"]["reason"], "max_output_tokens");
    let (names, last) = followed(&ask(&server, "/v1/responses", &request("[[error:server_error]]", true)));
    assert_eq!(names.last().unwrap(), "response.failed");
    assert_eq!((&last["status"], &last["error"]["code"]), (&json!("failed"), &json!("server_error")));
    let quota = ask(&server, "/v1/responses", &request("[[quota:60]]", true));
    assert_eq!((quota.status, &quota.json()["error"]["type"]), (429, &json!("usage_limit_reached")));
}
