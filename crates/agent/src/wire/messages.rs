//! Anthropic Messages.

use serde_json::{Value, json};
use subagent_model::Usage;

use super::{Answer, Ask, Part, input_for, input_of};
use crate::conversation::{Call, Message, Reply, Stop, Thought};

/// Most tokens of an answer, where nobody says otherwise: the format wants a number.
const MAX_OUTPUT: u64 = 16_384;

pub(super) fn body(ask: &Ask<'_>) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    for message in ask.messages {
        let (role, content) = match message {
            Message::User(text) => ("user", vec![json!({"type": "text", "text": text})]),
            Message::Assistant(reply) => ("assistant", assistant(reply)),
            Message::Results(results) => ("user", results.iter().map(result).collect()),
        };
        match messages.last_mut() {
            // The roles take turns.
            Some(last) if last["role"] == role => {
                if let Some(list) = last["content"].as_array_mut() {
                    list.extend(content);
                }
            }
            _ if content.is_empty() => {}
            _ => messages.push(json!({"role": role, "content": content})),
        }
    }
    // What is cached ends here, and the next request begins with the same.
    if let Some(block) = messages.last_mut().and_then(|last| last["content"].as_array_mut()?.last_mut()) {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
    let thinks = ask.effort.and_then(budget);
    let most = ask.max_output.unwrap_or(MAX_OUTPUT) + thinks.unwrap_or(0);
    let mut body = json!({"model": ask.model, "max_tokens": most, "stream": true,
        "system": [{"type": "text", "text": ask.system, "cache_control": {"type": "ephemeral"}}],
        "messages": messages});
    if !ask.tools.is_empty() {
        let tool = |tool: &crate::tools::ToolSpec| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters});
        body["tools"] = ask.tools.iter().map(tool).collect();
        if ask.answer_only {
            body["tool_choice"] = json!({"type": "none"});
        }
    }
    if let Some(budget) = thinks {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    }
    if let Some(schema) = ask.schema {
        body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
    }
    body
}

/// Tokens to think with.
fn budget(effort: &str) -> Option<u64> {
    Some(match effort {
        "none" | "off" => return None,
        "minimal" | "low" => 2_048,
        "medium" => 8_192,
        _ => 24_576,
    })
}

fn assistant(reply: &Reply) -> Vec<Value> {
    // A thought without its seal is refused.
    let thoughts = reply.thoughts.iter().filter_map(|thought| {
        let seal = thought.seal.as_deref()?;
        Some(if thought.hidden {
            json!({"type": "redacted_thinking", "data": seal})
        } else {
            json!({"type": "thinking", "thinking": thought.text, "signature": seal})
        })
    });
    let mut content: Vec<_> = thoughts.collect();
    // Neither is a text without anything in it taken.
    if !reply.text.trim().is_empty() {
        content.push(json!({"type": "text", "text": reply.text}));
    }
    content.extend(reply.calls.iter().map(
        |call| json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": input_for(&call.input)}),
    ));
    if content.is_empty() {
        content.push(json!({"type": "text", "text": "(nothing)"}));
    }
    content
}

fn result(result: &crate::conversation::CallResult) -> Value {
    let text = if result.text.trim().is_empty() { "(nothing)" } else { &result.text };
    let mut block = json!({"type": "tool_result", "tool_use_id": result.call,
        "content": [{"type": "text", "text": text}]});
    if result.failed {
        block["is_error"] = json!(true);
    }
    block
}

/// An answer that comes.
#[derive(Debug, Default)]
pub(super) struct Messages {
    blocks: Vec<Block>,
    stop: Option<String>,
    usage: Usage,
    told: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thought(Thought),
    Call { id: String, name: String, input: Value, text: String },
    Other,
}

impl Messages {
    pub(super) fn event(&mut self, event: &Value) -> Vec<Part> {
        match event["type"].as_str() {
            Some("message_start") => self.used(&event["message"]["usage"]),
            Some("content_block_start") => {
                let block = &event["content_block"];
                let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
                self.blocks.push(match block["type"].as_str() {
                    Some("text") => Block::Text(text("text")),
                    Some("thinking") => {
                        Block::Thought(Thought { text: text("thinking"), ..Thought::default() })
                    }
                    Some("redacted_thinking") => Block::Thought(Thought {
                        seal: Some(text("data")),
                        hidden: true,
                        ..Thought::default()
                    }),
                    Some("tool_use") => Block::Call {
                        id: text("id"),
                        name: text("name"),
                        input: block["input"].clone(),
                        text: String::new(),
                    },
                    _ => Block::Other,
                });
            }
            Some("content_block_delta") => return self.delta(&event["delta"]),
            Some("message_delta") => {
                if let Some(stop) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop.to_owned());
                }
                self.used(&event["usage"]);
            }
            _ => {}
        }
        vec![]
    }

    fn delta(&mut self, delta: &Value) -> Vec<Part> {
        let text = |field: &str| delta[field].as_str().unwrap_or_default();
        match (delta["type"].as_str(), self.blocks.last_mut()) {
            (Some("text_delta"), Some(Block::Text(all))) => {
                all.push_str(text("text"));
                vec![Part::Text(text("text").to_owned())]
            }
            (Some("thinking_delta"), Some(Block::Thought(thought))) => {
                thought.text.push_str(text("thinking"));
                vec![Part::Thought(text("thinking").to_owned())]
            }
            (Some("signature_delta"), Some(Block::Thought(thought))) => {
                thought.seal.get_or_insert_default().push_str(text("signature"));
                vec![]
            }
            (Some("input_json_delta"), Some(Block::Call { text: all, .. })) => {
                all.push_str(text("partial_json"));
                vec![]
            }
            _ => vec![],
        }
    }

    /// The last word on each number counts.
    fn used(&mut self, usage: &Value) {
        let mut take = |field: &str, into: &mut u64| {
            if let Some(count) = usage.get(field).and_then(Value::as_u64) {
                *into = count;
                self.told = true;
            }
        };
        take("input_tokens", &mut self.usage.input);
        take("output_tokens", &mut self.usage.output);
        take("cache_read_input_tokens", &mut self.usage.cache_read);
        take("cache_creation_input_tokens", &mut self.usage.cache_write);
    }

    pub(super) fn finish(self) -> Option<Answer> {
        let stop = match self.stop?.as_str() {
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refusal,
            _ => Stop::End,
        };
        let mut reply = Reply { stop, ..Reply::default() };
        for block in self.blocks {
            match block {
                Block::Text(text) => reply.text.push_str(&text),
                Block::Thought(thought) => reply.thoughts.push(thought),
                Block::Call { id, name, input, text } => {
                    let input =
                        if text.trim().is_empty() && input.is_object() { input } else { input_of(&text) };
                    reply.calls.push(Call { id, tool: name, input, seal: None });
                }
                Block::Other => {}
            }
        }
        let usage = self.told.then(|| Usage::default().plus(self.usage));
        Some(Answer { reply, usage })
    }
}
