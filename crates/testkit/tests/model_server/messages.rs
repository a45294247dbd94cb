//! Anthropic Messages.

use serde_json::{Value, json};
use subagent_testkit::ModelServer;

use crate::asking::{Heard, ask};

fn request(prompt: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "max_tokens": 100, "system": [{"type": "text", "text": "be good"}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>not a prompt</system-reminder>"},
            {"type": "text", "text": prompt}]}],
        "tools": [{"name": "Bash", "input_schema": {"type": "object", "required": ["command"],
            "properties": {"command": {"type": "string"}, "description": {"type": "string"}}}},
            {"name": "Write", "input_schema": {"type": "object", "required": ["file_path", "content"],
            "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}}}}]})
}

/// What a client puts together from a stream.
#[track_caller]
fn put_together(heard: &Heard) -> Value {
    let mut message = Value::Null;
    let mut arguments = String::new();
    for event in heard.events() {
        let data = event.json();
        assert_eq!(event.name, data["type"].as_str().unwrap());
        match event.name.as_str() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!(data["index"], content.len());
                content.push(data["content_block"].clone());
                arguments.clear();
            }
            "content_block_delta" => {
                let block = message["content"].as_array_mut().unwrap().last_mut().unwrap();
                let delta = &data["delta"];
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(&mut block["text"], &delta["text"]),
                    "thinking_delta" => append(&mut block["thinking"], &delta["thinking"]),
                    "signature_delta" => append(&mut block["signature"], &delta["signature"]),
                    "input_json_delta" => {
                        arguments += delta["partial_json"].as_str().unwrap();
                    }
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                let block = message["content"].as_array_mut().unwrap().last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&arguments).unwrap();
                }
            }
            "message_delta" => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["usage"] = data["usage"].clone();
            }
            "message_stop" | "ping" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(heard.events().last().unwrap().name, "message_stop");
    message
}

fn append(to: &mut Value, more: &Value) {
    *to = format!("{}{}", to.as_str().unwrap(), more.as_str().unwrap()).into();
}

/// The same, once streamed and once whole, without what differs from request to request.
#[track_caller]
fn both(server: &ModelServer, prompt: &str) -> Value {
    let strip = |mut message: Value| {
        message["id"].take();
        for block in message["content"].as_array_mut().unwrap() {
            if let Some(id) = block.get_mut("id") {
                assert!(id.as_str().unwrap().starts_with("toolu_"), "{id}");
                id.take();
            }
        }
        message
    };
    let streamed = put_together(&ask(server, "/v1/messages?beta=true", &request(prompt, true)));
    let whole = ask(server, "/v1/messages", &request(prompt, false)).json();
    assert_eq!(strip(streamed.clone()), strip(whole));
    streamed
}

#[test]
fn a_text() {
    let server = ModelServer::start();
    let message = both(&server, "say it [[say:hello]] [[usage:5,6,7,8]]");
    let text = "hello users=1 results=0 first='say it'";
    assert_eq!(message["content"], json!([{"type": "text", "text": text}]));
    assert_eq!(
        (message["stop_reason"].as_str(), message["role"].as_str()),
        (Some("end_turn"), Some("assistant"))
    );
    assert_eq!(
        message["usage"],
        json!({"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 7,
            "cache_creation_input_tokens": 8})
    );
}

#[test]
fn thinking_comes_first() {
    let server = ModelServer::start();
    let message = both(&server, "[[think:hm]] [[exactly:done]]");
    assert_eq!(message["content"][0]["thinking"], "hm");
    assert_eq!(message["content"][1]["text"], "done");
}

#[test]
fn tools_one_by_one_and_then_the_text() {
    let server = ModelServer::start();
    let prompt = "[[write:a.txt|it's]] [[sh:ls]] [[echo]]";
    let first = both(&server, prompt);
    assert_eq!(first["stop_reason"], "tool_use");
    let call = &first["content"][0];
    assert_eq!(
        (call["name"].as_str(), &call["input"]),
        (Some("Write"), &json!({"file_path": "a.txt", "content": "it's"}))
    );

    let mut body = request(prompt, true);
    let mut result = |call: &Value, text: &str| {
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": [call]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": text}]},
            {"type": "text", "text": "<system-reminder>mind the time</system-reminder>"}]}));
        put_together(&ask(&server, "/v1/messages", &body))
    };
    let second = result(call, "written");
    let call = &second["content"][0];
    assert_eq!((call["name"].as_str(), &call["input"]["command"]), (Some("Bash"), &json!("ls")));
    assert_ne!(first["content"][0]["id"], call["id"]);
    let third = result(call, "a.txt");
    assert_eq!(third["stop_reason"], "end_turn");
    assert_eq!(third["content"][0]["text"], "FAKE-OK users=1 results=2 first='' last='a.txt'");
}

#[test]
fn several_at_once_beside_each_other() {
    let server = ModelServer::start();
    let message = both(&server, "[[together]] [[sh:one]] [[sh:two]]");
    let commands: Vec<_> =
        message["content"].as_array().unwrap().iter().map(|call| call["input"]["command"].clone()).collect();
    assert_eq!(commands, ["one", "two"]);
}

#[test]
fn failures_in_their_shape() {
    let server = ModelServer::start();
    let refused = ask(&server, "/v1/messages", &request("[[status:401]]", true));
    assert_eq!(refused.status, 401);
    assert_eq!(refused.json()["type"], "error");
    assert_eq!(refused.json()["error"]["type"], "authentication_error");
    let overloaded = ask(&server, "/v1/messages", &request("[[status:529]] [[retry-after:7]]", true));
    assert_eq!((overloaded.status, overloaded.retry_after.as_deref()), (529, Some("7")));
    assert_eq!(overloaded.json()["error"]["type"], "overloaded_error");
    let quota = ask(&server, "/v1/messages", &request("[[quota:90]]", true));
    assert_eq!((quota.status, quota.retry_after.as_deref()), (429, Some("90")));
}

#[test]
fn an_error_in_the_stream() {
    let server = ModelServer::start();
    let events = ask(&server, "/v1/messages", &request("[[error:overloaded]]", true)).events();
    let last = events.last().unwrap();
    assert_eq!((last.name.as_str(), &last.json()["error"]["type"]), ("error", &json!("overloaded_error")));
}

#[test]
fn tokens_are_counted() {
    let server = ModelServer::start();
    let counted = ask(&server, "/v1/messages/count_tokens", &request("x", false)).json();
    assert!(counted["input_tokens"].as_u64().unwrap() > 50, "{counted}");
}
