//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::super::answer::{Reply, Stop, Usage};
use super::super::conversation::{Conversation, Format};
use super::{Frame, Setting, halves, list, result_text, speak, texts};

pub(super) fn read(body: &Value) -> Conversation {
    let model = body["model"].as_str().unwrap_or_default();
    let mut read = Conversation::new(Format::Chat, model, body["stream"] == true);
    read.schema = body.pointer("/response_format/json_schema/schema").cloned();
    for tool in list(&body["tools"]) {
        if let Some(custom) = tool.get("custom") {
            read.offer(custom["name"].as_str().unwrap_or_default(), true, &Value::Null);
        } else {
            let function = tool.get("function").unwrap_or(tool);
            read.offer(function["name"].as_str().unwrap_or_default(), false, &function["parameters"]);
        }
    }
    for message in list(&body["messages"]) {
        match message["role"].as_str() {
            Some("system" | "developer") => read.system += &texts(&message["content"]).join("\n"),
            Some("tool") => read.gave(result_text(&message["content"])),
            Some("user") => read.said(texts(&message["content"])),
            _ => {}
        }
    }
    read
}

pub(super) fn whole(reply: &Reply, setting: &Setting) -> Value {
    let text = reply.speaks().then(|| reply.whole_text());
    let mut message = json!({"role": "assistant", "content": text, "refusal": null});
    if let Some(thinking) = &reply.thinking {
        message["reasoning_content"] = thinking.clone().into();
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().enumerate();
        message["tool_calls"] = calls
            .map(|(index, call)| {
                json!({"id": call_id(setting, index), "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments.to_string()}})
            })
            .collect();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": stop(reply)});
    json!({"id": format!("chatcmpl-{}", setting.seed), "object": "chat.completion", "created": setting.now,
        "model": setting.model, "choices": [choice], "usage": usage(&reply.usage)})
}

pub(super) fn stream(reply: &Reply, setting: &Setting) -> Vec<Frame> {
    let chunk = |choices: Value, usage: Value| {
        Frame::data(&json!({"id": format!("chatcmpl-{}", setting.seed), "object": "chat.completion.chunk",
            "created": setting.now, "model": setting.model, "choices": choices, "usage": usage}))
    };
    let choice = |delta: Value, finish: Value| {
        chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]), Value::Null)
    };
    let delta = |delta: Value| choice(delta, Value::Null);
    let mut frames = vec![delta(json!({"role": "assistant", "content": ""}))];
    if let Some(thinking) = &reply.thinking {
        frames.push(delta(json!({"reasoning_content": thinking})));
    }
    let failed = |what: &str| {
        let error = json!({"message": format!("scripted {what}"), "type": what, "code": what});
        vec![Frame::data(&json!({"error": error}))]
    };
    let spoken = speak(reply, |text| delta(json!({"content": text})), failed);
    frames.extend(spoken.frames);
    if spoken.over {
        return frames;
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let [one, two] = halves(&call.arguments.to_string());
        frames.push(delta(json!({"tool_calls": [{"index": index, "id": call_id(setting, index),
            "type": "function", "function": {"name": call.name, "arguments": one}}]})));
        frames.push(delta(json!({"tool_calls": [{"index": index, "function": {"arguments": two}}]})));
    }
    frames.push(choice(json!({}), stop(reply).into()));
    if setting.usage_asked {
        frames.push(chunk(json!([]), usage(&reply.usage)));
    }
    frames.push(Frame::Event(None, "[DONE]".into()));
    frames
}

fn call_id(setting: &Setting, index: usize) -> String {
    format!("call_{}_{index}", setting.seed)
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop() {
        Stop::End => "stop",
        Stop::Tools => "tool_calls",
        Stop::Length => "length",
        Stop::Refusal => "content_filter",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({"prompt_tokens": usage.read(), "completion_tokens": usage.output,
        "total_tokens": usage.read() + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning}})
}
