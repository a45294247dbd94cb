//! What all wire formats have in common, held for each of them.

use serde_json::json;

use super::{Ask, Wire};
use crate::conversation::{Call, CallResult, Message, Reply};
use crate::tools::{Kind, ToolSpec};

const ALL: [Wire; 3] = [Wire::Chat, Wire::Messages, Wire::Gemini];

fn tools() -> Vec<ToolSpec> {
    ["bash", "read"]
        .map(|name| ToolSpec {
            name: name.into(),
            description: "d".into(),
            parameters: json!({"type": "object"}),
            kind: Kind::Other,
        })
        .to_vec()
}

fn ask<'a>(messages: &'a [Message], tools: &'a [ToolSpec]) -> Ask<'a> {
    Ask {
        model: "m",
        system: "the system prompt",
        messages,
        tools,
        answer_only: false,
        schema: None,
        effort: None,
        max_output: None,
        number: 3,
    }
}

fn story() -> Vec<Message> {
    let call = |id: &str, input| Call { id: id.into(), tool: "bash".into(), input, seal: None };
    let result = |id: &str, text: &str, failed| CallResult {
        call: id.into(),
        tool: "bash".into(),
        text: text.into(),
        failed,
    };
    vec![
        Message::User("one".into()),
        Message::Assistant(Reply {
            calls: vec![call("a", json!({"command": "x"})), call("b", json!("broken"))],
            ..Reply::default()
        }),
        Message::Results(vec![result("a", "", false), result("b", "no", true)]),
        Message::User("two".into()),
    ]
}

#[test]
fn a_longer_conversation_begins_with_the_same_bytes() {
    let (tools, story) = (tools(), story());
    for wire in ALL {
        let list = |messages: &[Message]| {
            let mut body = wire.body(&ask(messages, &tools));
            let key = if wire == Wire::Gemini { "contents" } else { "messages" };
            let mut list = body[key].take();
            // The mark of the end of the cached part moves.
            for block in list.as_array_mut().into_iter().flatten() {
                for part in block["content"].as_array_mut().into_iter().flatten() {
                    part.as_object_mut().map(|part| part.remove("cache_control"));
                }
            }
            (body, list.as_array().cloned().unwrap())
        };
        let (short, long) = (list(&story[..1]), list(&story));
        assert_eq!(short.0, long.0, "{wire:?}: tools and system prompt");
        assert_eq!(long.1[..short.1.len()], short.1[..], "{wire:?}");
        let closing = wire.body(&Ask { answer_only: true, ..ask(&story, &tools) });
        assert_eq!(
            closing["tools"],
            wire.body(&ask(&story, &tools))["tools"],
            "{wire:?}: tools are named to the last"
        );
    }
}

#[test]
fn roles_take_turns_where_a_format_wants_it() {
    let body = Wire::Messages.body(&ask(&story(), &tools()));
    let roles: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "results and the next prompt are one message");
    assert_eq!(body["messages"][1]["content"][1]["input"], json!({"text": "broken"}), "inputs are objects");
    assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
}

#[test]
fn an_answer_that_breaks_off_is_no_answer() {
    for (wire, event) in [
        (Wire::Chat, json!({"choices": [{"delta": {"content": "half"}}]})),
        (
            Wire::Messages,
            json!({"type": "content_block_start", "content_block": {"type": "text", "text": "half"}}),
        ),
        (Wire::Gemini, json!({"candidates": [{"content": {"parts": [{"text": "half"}]}}]})),
    ] {
        let mut reader = wire.reader(1);
        reader.event(&event.to_string()).unwrap();
        let failure = reader.finish().unwrap_err();
        assert!(failure.is_passing(), "{wire:?}: {failure}");
        assert!(wire.reader(1).event("{\"x\":").unwrap_err().is_passing());
        let error = json!({"error": {"type": "overloaded_error", "message": "m"}, "type": "error"});
        assert!(wire.reader(1).event(&error.to_string()).unwrap_err().is_passing());
    }
}

#[test]
fn calls_without_a_name_of_their_own_get_one() {
    let mut reader = Wire::Gemini.reader(3);
    let call = json!({"functionCall": {"name": "bash", "args": {"command": "x"}}, "thoughtSignature": "s"});
    let event = json!({"candidates": [{"content": {"parts": [call, call]}, "finishReason": "STOP"}]});
    reader.event(&event.to_string()).unwrap();
    let reply = reader.finish().unwrap().reply;
    assert_eq!([&reply.calls[0].id, &reply.calls[1].id], ["call_3_0", "call_3_1"]);
    assert_eq!(reply.calls[0].seal.as_deref(), Some("s"));
    let back = Wire::Gemini.body(&ask(&[Message::Assistant(reply)], &[]));
    assert_eq!(
        back["contents"][0]["parts"][0]["thoughtSignature"], "s",
        "a seal goes back where it came from"
    );
}

#[test]
fn parts_of_calls_belong_together_however_a_server_numbers_them() {
    let delta = |calls: serde_json::Value| json!({"choices": [{"delta": {"tool_calls": calls}}]}).to_string();
    let mut reader = Wire::Chat.reader(0);
    for part in [
        json!([{"index": 0, "id": "x", "function": {"name": "bash", "arguments": "{\"a\""}}]),
        json!([{"index": 1, "id": "y", "function": {"name": "read", "arguments": ""}}]),
        json!([{"index": 0, "function": {"arguments": ":1}"}}]),
        json!([{"id": "z", "function": {"name": "ls", "arguments": {"path": "."}}}]),
    ] {
        reader.event(&delta(part)).unwrap();
    }
    reader.event(&json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}).to_string()).unwrap();
    reader
        .event(
            &json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 80}}})
            .to_string(),
        )
        .unwrap();
    let answer = reader.finish().unwrap();
    let calls: Vec<_> =
        answer.reply.calls.iter().map(|call| (call.tool.as_str(), call.input.clone())).collect();
    assert_eq!(calls, [("bash", json!({"a": 1})), ("read", json!({})), ("ls", json!({"path": "."}))]);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.total), (20, 80, 25));
}
