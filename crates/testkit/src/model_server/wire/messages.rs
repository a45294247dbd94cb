//! Anthropic Messages.

use serde_json::{Value, json};

use super::super::answer::{Reply, Stop, Usage};
use super::super::conversation::{Conversation, Format};
use super::{Frame, Setting, halves, list, result_text, speak, texts};

pub(super) fn read(body: &Value) -> Conversation {
    let model = body["model"].as_str().unwrap_or_default();
    let mut read = Conversation::new(Format::Messages, model, body["stream"] == true);
    read.system = texts(&body["system"]).join("\n");
    let schema = ["/output_config/format/schema", "/output_format/schema"];
    read.schema = schema.iter().find_map(|path| body.pointer(path)).cloned();
    for tool in list(&body["tools"]) {
        read.offer(tool["name"].as_str().unwrap_or_default(), false, &tool["input_schema"]);
    }
    for message in list(&body["messages"]).iter().filter(|message| message["role"] == "user") {
        for part in list(&message["content"]).iter().filter(|part| part["type"] == "tool_result") {
            read.gave(result_text(&part["content"]));
        }
        read.said(texts(&message["content"]));
    }
    read
}

pub(super) fn whole(reply: &Reply, setting: &Setting) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &reply.thinking {
        content.push(json!({"type": "thinking", "thinking": thinking, "signature": "c2lnbmVk"}));
    }
    if reply.speaks() {
        content.push(json!({"type": "text", "text": reply.whole_text()}));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        content.push(json!({"type": "tool_use", "id": call_id(setting, index), "name": call.name,
            "input": call.arguments}));
    }
    json!({"id": format!("msg_{}", setting.seed), "type": "message", "role": "assistant", "model": setting.model,
        "content": content, "stop_reason": stop(reply), "stop_sequence": null,
        "usage": usage(&reply.usage, reply.usage.output)})
}

pub(super) fn stream(reply: &Reply, setting: &Setting) -> Vec<Frame> {
    let mut frames = vec![
        Frame::named(
            "message_start",
            &json!({"type": "message_start", "message": {"id": format!("msg_{}", setting.seed), "type": "message",
                "role": "assistant", "model": setting.model, "content": [], "stop_reason": null,
                "stop_sequence": null, "usage": usage(&reply.usage, 1)}}),
        ),
        Frame::named("ping", &json!({"type": "ping"})),
    ];
    let mut index = 0;
    if let Some(thinking) = &reply.thinking {
        frames.push(start(index, &json!({"type": "thinking", "thinking": "", "signature": ""})));
        frames.push(delta(index, &json!({"type": "thinking_delta", "thinking": thinking})));
        frames.push(delta(index, &json!({"type": "signature_delta", "signature": "c2lnbmVk"})));
        frames.push(end(index));
        index += 1;
    }
    if reply.speaks() {
        frames.push(start(index, &json!({"type": "text", "text": ""})));
        let text = |text: &str| delta(index, &json!({"type": "text_delta", "text": text}));
        let failed = |what: &str| {
            let error = json!({"type": format!("{what}_error"), "message": format!("scripted {what}")});
            vec![Frame::named("error", &json!({"type": "error", "error": error}))]
        };
        let spoken = speak(reply, text, failed);
        frames.extend(spoken.frames);
        if spoken.over {
            return frames;
        }
        frames.push(end(index));
        index += 1;
    }
    for (number, call) in reply.calls.iter().enumerate() {
        let block =
            json!({"type": "tool_use", "id": call_id(setting, number), "name": call.name, "input": {}});
        frames.push(start(index, &block));
        for half in halves(&call.arguments.to_string()) {
            frames.push(delta(index, &json!({"type": "input_json_delta", "partial_json": half})));
        }
        frames.push(end(index));
        index += 1;
    }
    frames.push(Frame::named(
        "message_delta",
        &json!({"type": "message_delta", "delta": {"stop_reason": stop(reply), "stop_sequence": null},
            "usage": usage(&reply.usage, reply.usage.output)}),
    ));
    frames.push(Frame::named("message_stop", &json!({"type": "message_stop"})));
    frames
}

/// The error of a status.
pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": kind, "message": message})
}

fn start(index: usize, block: &Value) -> Frame {
    let event = json!({"type": "content_block_start", "index": index, "content_block": block});
    Frame::named("content_block_start", &event)
}

fn delta(index: usize, delta: &Value) -> Frame {
    let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
    Frame::named("content_block_delta", &event)
}

fn end(index: usize) -> Frame {
    Frame::named("content_block_stop", &json!({"type": "content_block_stop", "index": index}))
}

fn call_id(setting: &Setting, index: usize) -> String {
    format!("toolu_{}_{index}", setting.seed)
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop() {
        Stop::End => "end_turn",
        Stop::Tools => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Refusal => "refusal",
    }
}

fn usage(usage: &Usage, output: u64) -> Value {
    json!({"input_tokens": usage.input, "output_tokens": output, "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.stored})
}
