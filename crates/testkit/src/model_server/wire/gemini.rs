//! Gemini `generateContent`.

use serde_json::{Value, json};

use super::super::answer::{Failure, Reply, Stop, Usage};
use super::super::conversation::{Conversation, Format};
use super::{Frame, Setting, list, speak, texts};

pub(super) fn read(body: &Value, model: &str, stream: bool) -> Conversation {
    let mut read = Conversation::new(Format::Gemini, model, stream);
    read.system = texts(&body["systemInstruction"]["parts"]).join("\n");
    let config = &body["generationConfig"];
    read.schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema")).cloned();
    if read.schema.is_none() && config["responseMimeType"] == "application/json" {
        read.schema = Some(json!({"type": "object"}));
    }
    for tool in list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"])) {
        let schema = tool.get("parametersJsonSchema").unwrap_or(&tool["parameters"]);
        read.offer(tool["name"].as_str().unwrap_or_default(), false, schema);
    }
    for message in list(&body["contents"]).iter().filter(|message| message["role"] != "model") {
        let parts = list(&message["parts"]);
        let responses = parts.iter().filter_map(|part| part.get("functionResponse"));
        let before = read.results.len();
        for response in responses {
            let response = &response["response"];
            let text = response["output"].as_str().map(str::to_owned);
            read.gave(text.unwrap_or_else(|| response.to_string()));
        }
        // Text beside results is what the tool read, not what a person said.
        if read.results.len() == before {
            read.said(parts.iter().filter_map(|part| part["text"].as_str()));
        }
    }
    read
}

pub(super) fn whole(reply: &Reply, setting: &Setting) -> Value {
    let mut parts = first_parts(reply);
    if reply.speaks() {
        parts.push(json!({"text": reply.whole_text()}));
    }
    parts.extend(call_parts(reply, setting));
    document(reply, setting, &json!(parts), Some(stop(reply)))
}

pub(super) fn stream(reply: &Reply, setting: &Setting) -> Vec<Frame> {
    let chunk = |parts: Value, stop: Option<&str>| Frame::data(&document(reply, setting, &parts, stop));
    let mut frames: Vec<Frame> =
        first_parts(reply).into_iter().map(|part| chunk(json!([part]), None)).collect();
    let failed = |what: &str| {
        let error = json!({"code": 500, "message": format!("scripted {what}"), "status": "INTERNAL"});
        vec![Frame::data(&json!({"error": error}))]
    };
    let spoken = speak(reply, |text| chunk(json!([{"text": text}]), None), failed);
    frames.extend(spoken.frames);
    if spoken.over {
        return frames;
    }
    let calls = call_parts(reply, setting);
    let last = if calls.is_empty() { json!([{"text": ""}]) } else { json!(calls) };
    frames.push(chunk(last, Some(stop(reply))));
    frames
}

/// A failure, in the shape of its status.
pub(super) fn failure(failure: &Failure) -> Value {
    let status = match failure.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    let mut details = Vec::new();
    if failure.quota.is_some() {
        details.push(json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}));
    }
    if let Some(seconds) = failure.retry_after {
        details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s")}));
    }
    json!({"error": {"code": failure.status, "message": failure.message, "status": status, "details": details}})
}

fn first_parts(reply: &Reply) -> Vec<Value> {
    reply.thinking.iter().map(|thinking| json!({"text": thinking, "thought": true})).collect()
}

fn call_parts(reply: &Reply, setting: &Setting) -> Vec<Value> {
    let calls = reply.calls.iter().enumerate();
    calls
        .map(|(index, call)| {
            let id = format!("call_{}_{index}", setting.seed);
            json!({"functionCall": {"id": id, "name": call.name, "args": call.arguments}})
        })
        .collect()
}

fn document(reply: &Reply, setting: &Setting, parts: &Value, stop: Option<&str>) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(stop) = stop {
        candidate["finishReason"] = stop.into();
    }
    json!({"candidates": [candidate], "usageMetadata": usage(&reply.usage), "modelVersion": setting.model,
        "responseId": setting.seed})
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop() {
        Stop::End | Stop::Tools => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({"promptTokenCount": usage.read(), "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "thoughtsTokenCount": usage.reasoning, "totalTokenCount": usage.read() + usage.output})
}
