//! Chat Completions.

use serde_json::{Value, json};
use subagent_model::Usage;

use super::{Answer, Ask, Part, count, input_of};
use crate::conversation::{Call, CallResult, Message, Reply, Stop};

pub(super) fn body(ask: &Ask<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": ask.system})];
    for message in ask.messages {
        match message {
            Message::User(text) => messages.push(json!({"role": "user", "content": text})),
            Message::Assistant(reply) => messages.push(assistant(reply)),
            Message::Results(results) => {
                let one = |result: &CallResult| json!({"role": "tool", "tool_call_id": result.call, "content": result.text});
                messages.extend(results.iter().map(one));
            }
        }
    }
    let mut body = json!({"model": ask.model, "messages": messages, "stream": true,
        "stream_options": {"include_usage": true}});
    if !ask.tools.is_empty() {
        let tool = |tool: &crate::tools::ToolSpec| {
            json!({"type": "function", "function": {"name": tool.name, "description": tool.description,
                "parameters": tool.parameters}})
        };
        body["tools"] = ask.tools.iter().map(tool).collect();
        if ask.answer_only {
            body["tool_choice"] = json!("none");
        }
    }
    if let Some(schema) = ask.schema {
        body["response_format"] =
            json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    }
    if let Some(effort) = ask.effort {
        body["reasoning_effort"] = json!(effort);
    }
    if let Some(most) = ask.max_output {
        body["max_tokens"] = json!(most);
    }
    body
}

fn assistant(reply: &Reply) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.calls.is_empty() {
        let call = |call: &Call| {
            let arguments = match &call.input {
                Value::String(text) => text.clone(),
                input => input.to_string(),
            };
            json!({"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}})
        };
        message["tool_calls"] = reply.calls.iter().map(call).collect();
    }
    message
}

/// An answer that comes.
#[derive(Debug, Default)]
pub(super) struct Chat {
    text: String,
    calls: Vec<Partial>,
    finish: Option<String>,
    usage: Option<Usage>,
}

#[derive(Debug, Default)]
struct Partial {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Chat {
    pub(super) fn event(&mut self, event: &Value) -> Vec<Part> {
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage_of(usage));
        }
        let Some(choice) = event.pointer("/choices/0") else { return vec![] };
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        let delta = &choice["delta"];
        let mut parts = Vec::new();
        let thought = ["reasoning_content", "reasoning"].iter().find_map(|field| delta.get(field)?.as_str());
        if let Some(thought) = thought.filter(|thought| !thought.is_empty()) {
            parts.push(Part::Thought(thought.to_owned()));
        }
        let said = ["content", "refusal"].iter().find_map(|field| delta.get(field)?.as_str());
        if let Some(text) = said.filter(|text| !text.is_empty()) {
            self.text.push_str(text);
            parts.push(Part::Text(text.to_owned()));
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call);
        }
        parts
    }

    /// Parts of a call belong together by their index; servers that leave it out send calls whole.
    fn call(&mut self, part: &Value) {
        let index = part.get("index").and_then(Value::as_u64);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&part["id"]);
        let known = self.calls.iter().position(|call| match index {
            Some(_) => call.index == index && (id.is_empty() || call.id.is_empty() || call.id == id),
            None => !id.is_empty() && call.id == id,
        });
        let at = known.unwrap_or_else(|| {
            self.calls.push(Partial { index, ..Partial::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        let function = &part["function"];
        call.name.push_str(function["name"].as_str().unwrap_or_default());
        match &function["arguments"] {
            Value::String(arguments) => call.arguments.push_str(arguments),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }

    pub(super) fn finish(self) -> Option<Answer> {
        let finish = self.finish?;
        let stop = match finish.as_str() {
            "length" => Stop::Length,
            "content_filter" => Stop::Refusal,
            _ => Stop::End,
        };
        let calls = self.calls.into_iter().map(|call| Call {
            id: call.id,
            tool: call.name,
            input: input_of(&call.arguments),
            seal: None,
        });
        let reply = Reply { text: self.text, thoughts: vec![], calls: calls.collect(), stop };
        Some(Answer { reply, usage: self.usage })
    }
}

/// Cached tokens are among those of the prompt.
fn usage_of(usage: &Value) -> Usage {
    let details = usage.get("prompt_tokens_details").unwrap_or(&Value::Null);
    let cache_read = count(details, "cached_tokens").max(count(usage, "prompt_cache_hit_tokens"));
    let cache_write = count(details, "cache_write_tokens");
    let input = count(usage, "prompt_tokens").saturating_sub(cache_read).saturating_sub(cache_write);
    let output = count(usage, "completion_tokens");
    Usage::default().plus(Usage { input, output, cache_write, cache_read, total: 0, cost_usd: None })
}
