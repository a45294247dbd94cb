//! OpenAI Responses.

use serde_json::{Value, json};

use super::super::answer::{Call, Reply, Stop, Usage};
use super::super::conversation::{Conversation, Format};
use super::{Frame, Setting, halves, list, result_text, speak, texts};

pub(super) fn read(body: &Value) -> Conversation {
    let model = body["model"].as_str().unwrap_or_default();
    let mut read = Conversation::new(Format::Responses, model, body["stream"] == true);
    read.system += body["instructions"].as_str().unwrap_or_default();
    read.schema = body.pointer("/text/format/schema").cloned();
    for tool in list(&body["tools"]) {
        // Tools in a namespace are called by both names.
        let (within, tools) = match tool["type"].as_str() {
            Some("namespace") => (tool["name"].as_str(), list(&tool["tools"])),
            _ => (None, std::slice::from_ref(tool)),
        };
        for tool in tools {
            let name = tool["name"].as_str().or_else(|| tool["type"].as_str()).unwrap_or_default();
            let name = within.map_or_else(|| name.to_owned(), |within| format!("{within}.{name}"));
            read.offer(&name, tool["type"] == "custom", &tool["parameters"]);
        }
    }
    if let Some(text) = body["input"].as_str() {
        read.said([text]);
    }
    for item in list(&body["input"]) {
        let role = item["role"].as_str();
        match item["type"].as_str().unwrap_or("message") {
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                read.gave(result_text(&item["output"]));
            }
            "message" if role == Some("user") => read.said(texts(&item["content"])),
            "message" if role == Some("system") => read.system += &texts(&item["content"]).join("\n"),
            _ => {}
        }
    }
    read
}

pub(super) fn whole(reply: &Reply, setting: &Setting) -> Value {
    let writer = Writer { setting, frames: Vec::new(), items: Vec::new() };
    writer.write(reply).1
}

pub(super) fn stream(reply: &Reply, setting: &Setting) -> Vec<Frame> {
    let writer = Writer { setting, frames: Vec::new(), items: Vec::new() };
    writer.write(reply).0
}

/// Events are numbered, items have a place, and the last event holds all items once more.
struct Writer<'a> {
    setting: &'a Setting,
    frames: Vec<Frame>,
    items: Vec<Value>,
}

impl Writer<'_> {
    /// The stream, and the document at its end.
    fn write(mut self, reply: &Reply) -> (Vec<Frame>, Value) {
        let begun = self.response("in_progress", &json!([]));
        self.event("response.created", json!({"response": begun}));
        self.event("response.in_progress", json!({"response": begun}));
        if let Some(thinking) = &reply.thinking {
            self.reasoning(thinking);
        }
        if reply.speaks() && !self.message(reply) {
            return (self.frames, Value::Null);
        }
        for call in &reply.calls {
            self.call(call);
        }
        let (status, details) = match reply.stop() {
            Stop::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
            Stop::Refusal => ("incomplete", json!({"reason": "content_filter"})),
            Stop::End | Stop::Tools => ("completed", Value::Null),
        };
        let mut ended = self.response(status, &json!(self.items));
        ended["incomplete_details"] = details;
        ended["usage"] = usage(&reply.usage);
        let name = if status == "completed" { "response.completed" } else { "response.incomplete" };
        self.event(name, json!({"response": ended}));
        (self.frames, ended)
    }

    fn reasoning(&mut self, thinking: &str) {
        let (id, place) = (self.id("rs"), self.items.len());
        let item = |summary: Value| json!({"type": "reasoning", "id": id, "summary": summary});
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        let at = json!({"output_index": place, "item_id": id, "summary_index": 0});
        self.event("response.output_item.added", json!({"output_index": place, "item": item(json!([]))}));
        self.event("response.reasoning_summary_part.added", with(&at, json!({"part": part("")})));
        self.event("response.reasoning_summary_text.delta", with(&at, json!({"delta": thinking})));
        self.event("response.reasoning_summary_text.done", with(&at, json!({"text": thinking})));
        self.event("response.reasoning_summary_part.done", with(&at, json!({"part": part(thinking)})));
        self.done(item(json!([part(thinking)])));
    }

    /// Tells whether anything may follow.
    fn message(&mut self, reply: &Reply) -> bool {
        let (id, place) = (self.id("msg"), self.items.len());
        let item = |status: &str, content: Value| json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content});
        let part =
            |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        let at = json!({"output_index": place, "content_index": 0, "item_id": id});
        let added = item("in_progress", json!([]));
        self.event("response.output_item.added", json!({"output_index": place, "item": added}));
        self.event("response.content_part.added", with(&at, json!({"part": part("")})));
        let first = self.frames.len();
        let failed = |what: &str| {
            let mut failed = self.response("failed", &json!([]));
            failed["error"] = json!({"code": what, "message": format!("scripted {what}")});
            vec![Frame::named("response.failed", &json!({"type": "response.failed", "response": failed}))]
        };
        let text = |text: &str| {
            let event = json!({"type": "response.output_text.delta", "delta": text, "logprobs": []});
            Frame::named("response.output_text.delta", &with(&at, event))
        };
        let spoken = speak(reply, text, failed);
        self.frames.extend(spoken.frames);
        self.number_from(first);
        if spoken.over {
            return false;
        }
        let whole = reply.whole_text();
        self.event("response.output_text.done", with(&at, json!({"text": whole, "logprobs": []})));
        self.event("response.content_part.done", with(&at, json!({"part": part(&whole)})));
        self.done(item("completed", json!([part(&whole)])));
        true
    }

    fn call(&mut self, call: &Call) {
        let place = self.items.len();
        let call_id = self.id("call");
        let (kind, prefix, key) = if call.free {
            ("custom_tool_call", "ctc", "input")
        } else {
            ("function_call", "fc", "arguments")
        };
        let id = self.id(prefix);
        let split = call.name.split_once('.');
        let name = split.map_or(call.name.as_str(), |(_, name)| name);
        let item = |status: &str, value: &str| {
            let mut item = json!({"type": kind, "id": id, "call_id": call_id, "name": name, key: value});
            item["status"] = status.into();
            if let Some((within, _)) = split {
                item["namespace"] = within.into();
            }
            item
        };
        let value = match &call.arguments {
            Value::String(text) if call.free => text.clone(),
            other => other.to_string(),
        };
        let (delta, done) = if call.free {
            ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done")
        } else {
            ("response.function_call_arguments.delta", "response.function_call_arguments.done")
        };
        let at = json!({"output_index": place, "item_id": id});
        let added = item("in_progress", "");
        self.event("response.output_item.added", json!({"output_index": place, "item": added}));
        for half in halves(&value) {
            self.event(delta, with(&at, json!({"delta": half})));
        }
        self.event(done, with(&at, json!({key: value})));
        self.done(item("completed", &value));
    }

    fn done(&mut self, item: Value) {
        let done = json!({"output_index": self.items.len(), "item": item});
        self.event("response.output_item.done", done);
        self.items.push(item);
    }

    fn event(&mut self, name: &'static str, mut event: Value) {
        event["type"] = name.into();
        self.frames.push(Frame::named(name, &event));
        self.number_from(self.frames.len() - 1);
    }

    /// Gives the events from this frame on their numbers.
    fn number_from(&mut self, first: usize) {
        let mut number = self.frames[..first].iter().filter(|it| matches!(it, Frame::Event(..))).count();
        for frame in &mut self.frames[first..] {
            let Frame::Event(_, data) = frame else { continue };
            if let Ok(mut event) = serde_json::from_str::<Value>(data) {
                event["sequence_number"] = number.into();
                *data = event.to_string();
            }
            number += 1;
        }
    }

    /// An identifier; the place of the item makes it its own.
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.setting.seed, self.items.len())
    }

    fn response(&self, status: &str, output: &Value) -> Value {
        json!({"id": format!("resp_{}", self.setting.seed), "object": "response", "created_at": self.setting.now,
            "status": status, "error": null, "incomplete_details": null, "model": self.setting.model,
            "output": output, "parallel_tool_calls": true, "usage": null})
    }
}

/// One object of two.
fn with(one: &Value, two: Value) -> Value {
    let mut all = one.as_object().cloned().unwrap_or_default();
    if let Value::Object(two) = two {
        all.extend(two);
    }
    all.into()
}

fn usage(usage: &Usage) -> Value {
    json!({"input_tokens": usage.read(), "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.read() + usage.output})
}
