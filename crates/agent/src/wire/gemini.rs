//! Gemini `streamGenerateContent`.

use serde_json::{Value, json};
use subagent_model::Usage;

use super::{Answer, Ask, Part, count, input_for};
use crate::conversation::{Call, Message, Reply, Stop};

pub(super) fn body(ask: &Ask<'_>) -> Value {
    let mut contents: Vec<Value> = Vec::new();
    for message in ask.messages {
        let (role, parts) = match message {
            Message::User(text) => ("user", vec![json!({"text": text})]),
            Message::Assistant(reply) => ("model", model(reply)),
            Message::Results(results) => ("user", results.iter().map(result).collect()),
        };
        if !parts.is_empty() {
            contents.push(json!({"role": role, "parts": parts}));
        }
    }
    let mut config = json!({});
    if let Some(most) = ask.max_output {
        config["maxOutputTokens"] = json!(most);
    }
    if let Some(budget) = ask.effort.map(budget) {
        config["thinkingConfig"] = json!({"thinkingBudget": budget, "includeThoughts": true});
    }
    if let Some(schema) = ask.schema {
        config["responseMimeType"] = json!("application/json");
        config["responseJsonSchema"] = schema.clone();
    }
    let mut body = json!({"systemInstruction": {"parts": [{"text": ask.system}]}, "contents": contents,
        "generationConfig": config});
    if !ask.tools.is_empty() {
        let tool = |tool: &crate::tools::ToolSpec| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters});
        let tools: Vec<_> = ask.tools.iter().map(tool).collect();
        body["tools"] = json!([{"functionDeclarations": tools}]);
        if ask.answer_only {
            body["toolConfig"] = json!({"functionCallingConfig": {"mode": "NONE"}});
        }
    }
    body
}

/// Tokens to think with.
fn budget(effort: &str) -> i64 {
    match effort {
        "none" | "off" => 0,
        "minimal" | "low" => 2_048,
        "medium" => 8_192,
        _ => 24_576,
    }
}

fn model(reply: &Reply) -> Vec<Value> {
    let mut parts = Vec::new();
    if !reply.text.trim().is_empty() {
        parts.push(json!({"text": reply.text}));
    }
    for call in &reply.calls {
        let mut part = json!({"functionCall": {"name": call.tool, "args": input_for(&call.input)}});
        if let Some(seal) = &call.seal {
            part["thoughtSignature"] = json!(seal);
        }
        parts.push(part);
    }
    if parts.is_empty() {
        parts.push(json!({"text": "(nothing)"}));
    }
    parts
}

fn result(result: &crate::conversation::CallResult) -> Value {
    let field = if result.failed { "error" } else { "output" };
    json!({"functionResponse": {"name": result.tool, "response": {field: result.text}}})
}

/// An answer that comes.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    text: String,
    calls: Vec<Call>,
    stop: Option<Stop>,
    usage: Option<Usage>,
}

impl Gemini {
    pub(super) fn event(&mut self, event: &Value) -> Vec<Part> {
        if let Some(usage) = event.get("usageMetadata") {
            self.usage = Some(usage_of(usage));
        }
        if event.pointer("/promptFeedback/blockReason").is_some() {
            self.stop = Some(Stop::Refusal);
        }
        let candidate = &event["candidates"][0];
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.stop = Some(match reason {
                "MAX_TOKENS" => Stop::Length,
                "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => Stop::Refusal,
                _ => Stop::End,
            });
        }
        let parts = candidate["content"]["parts"].as_array();
        parts.into_iter().flatten().filter_map(|part| self.part(part)).collect()
    }

    fn part(&mut self, part: &Value) -> Option<Part> {
        if let Some(call) = part.get("functionCall") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let input = call.get("args").filter(|args| args.is_object()).cloned();
            self.calls.push(Call {
                id: text(&call["id"]),
                tool: text(&call["name"]),
                input: input.unwrap_or_else(|| json!({})),
                seal: part.get("thoughtSignature").and_then(Value::as_str).map(str::to_owned),
            });
            return None;
        }
        let text = part.get("text")?.as_str().filter(|text| !text.is_empty())?;
        if part["thought"] == true {
            return Some(Part::Thought(text.to_owned()));
        }
        self.text.push_str(text);
        Some(Part::Text(text.to_owned()))
    }

    pub(super) fn finish(self) -> Option<Answer> {
        let reply = Reply { text: self.text, thoughts: vec![], calls: self.calls, stop: self.stop? };
        Some(Answer { reply, usage: self.usage })
    }
}

/// Cached tokens are among those of the prompt, thoughts are apart from the answer.
fn usage_of(usage: &Value) -> Usage {
    let cache_read = count(usage, "cachedContentTokenCount");
    let input = count(usage, "promptTokenCount").saturating_sub(cache_read);
    let output = count(usage, "candidatesTokenCount").saturating_add(count(usage, "thoughtsTokenCount"));
    Usage::default().plus(Usage { input, output, cache_write: 0, cache_read, total: 0, cost_usd: None })
}
