//! OpenAI Chat Completions.

use serde_json::{Value, json};
use subagent_testkit::ModelServer;

use crate::asking::ask;

fn request(prompt: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "stream_options": {"include_usage": true},
        "messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": prompt}],
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object",
            "properties": {"command": {"type": "string"}}}}}]})
}

/// What a client puts together from a stream: text, name and arguments of the call, reason of the end, usage.
#[track_caller]
fn put_together(chunks: &[Value]) -> (String, String, String, Value, Value) {
    let (mut text, mut name, mut arguments) = (String::new(), String::new(), String::new());
    let (mut finish, mut usage) = (Value::Null, Value::Null);
    for chunk in chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        if !chunk["usage"].is_null() {
            usage = chunk["usage"].clone();
            assert_eq!(chunk["choices"], json!([]));
            continue;
        }
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        text += delta["content"].as_str().unwrap_or_default();
        let call = &delta["tool_calls"][0]["function"];
        name += call["name"].as_str().unwrap_or_default();
        arguments += call["arguments"].as_str().unwrap_or_default();
        if !choice["finish_reason"].is_null() {
            assert!(finish.is_null());
            finish = choice["finish_reason"].clone();
        }
    }
    (text, name, arguments, finish, usage)
}

#[test]
fn a_text_streamed_and_whole() {
    let server = ModelServer::start();
    let heard = ask(&server, "/v1/chat/completions", &request("hi [[usage:5,6,1,1,2]]", true));
    assert_eq!(heard.events().last().unwrap().data, "[DONE]");
    let (text, _, _, finish, usage) = put_together(&heard.documents());
    assert_eq!((text.as_str(), finish.as_str()), ("FAKE-OK users=1 results=0 first='hi'", Some("stop")));
    let expected = json!({"prompt_tokens": 7, "completion_tokens": 6, "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 2}});
    assert_eq!(usage, expected);

    let whole = ask(&server, "/chat/completions", &request("hi [[usage:5,6,1,1,2]]", false)).json();
    assert_eq!(whole["choices"][0]["message"]["content"], "FAKE-OK users=1 results=0 first='hi'");
    assert_eq!((&whole["choices"][0]["finish_reason"], &whole["usage"]), (&json!("stop"), &expected));
}

#[test]
fn usage_only_where_it_is_asked_for() {
    let server = ModelServer::start();
    let mut body = request("hi", true);
    body.as_object_mut().unwrap().remove("stream_options");
    let (.., usage) = put_together(&ask(&server, "/v1/chat/completions", &body).documents());
    assert_eq!(usage, Value::Null);
}

#[test]
fn a_tool_and_its_result() {
    let server = ModelServer::start();
    let prompt = r#"[[sh:echo "x"]]"#;
    let heard = ask(&server, "/v1/chat/completions", &request(prompt, true)).documents();
    let (text, name, arguments, finish, _) = put_together(&heard);
    assert_eq!((text.as_str(), name.as_str(), finish.as_str()), ("", "bash", Some("tool_calls")));
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), json!({"command": "echo \"x\""}));

    let mut body = request(prompt, false);
    let message = ask(&server, "/v1/chat/completions", &body).json()["choices"][0]["message"].take();
    assert_eq!(message["content"], Value::Null);
    let id = message["tool_calls"][0]["id"].clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([message, json!({"role": "tool", "tool_call_id": id, "content": "x"})]);
    let answer = ask(&server, "/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "FAKE-OK users=1 results=1 first=''");
}

#[test]
fn a_second_prompt_begins_anew() {
    let server = ModelServer::start();
    let mut body = request("one [[sh:ls]]", true);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "tool", "tool_call_id": "c", "content": "x"}));
    messages.push(json!({"role": "assistant", "content": "did"}));
    messages.push(json!({"role": "user", "content": [{"type": "text", "text": "two [[say:again]]"}]}));
    let (text, ..) = put_together(&ask(&server, "/v1/chat/completions", &body).documents());
    assert_eq!(text, "again users=2 results=0 first='one'");
}

#[test]
fn failures_in_their_shape() {
    let server = ModelServer::start();
    let refused = ask(&server, "/v1/chat/completions", &request("[[status:429]]", true));
    assert_eq!((refused.status, refused.retry_after.as_deref()), (429, Some("1")));
    assert_eq!(refused.json()["error"]["type"], "rate_limit_exceeded");
    let events = ask(&server, "/v1/chat/completions", &request("[[error:server_error]]", true)).documents();
    assert_eq!(events.last().unwrap()["error"]["type"], "server_error");
}
