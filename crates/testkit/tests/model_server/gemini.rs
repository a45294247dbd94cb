//! Gemini `generateContent`.

use serde_json::{Value, json};
use subagent_testkit::ModelServer;

use crate::asking::ask;

const STREAM: &str = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse";
const WHOLE: &str = "/v1beta/models/gemini-2.5-flash:generateContent";

fn request(prompt: &str) -> Value {
    json!({"systemInstruction": {"parts": [{"text": "be good"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "This is the Gemini CLI. We are setting up"}]},
            {"role": "user", "parts": [{"text": prompt}]}],
        "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema":
            {"type": "object", "properties": {"command": {"type": "string"}}}}]}]})
}

#[track_caller]
fn text(chunks: &[Value]) -> String {
    let parts = chunks.iter().map(|chunk| &chunk["candidates"][0]["content"]["parts"][0]["text"]);
    parts.map(|text| text.as_str().unwrap_or_default()).collect()
}

#[test]
fn a_text_streamed_listed_and_whole() {
    let server = ModelServer::start();
    let expected = "FAKE-OK users=1 results=0 first='hi'";
    let chunks = ask(&server, STREAM, &request("hi")).documents();
    assert_eq!(text(&chunks), expected);
    let last = chunks.last().unwrap();
    assert_eq!(
        (&last["candidates"][0]["finishReason"], &last["modelVersion"]),
        (&json!("STOP"), &json!("gemini-2.5-flash"))
    );
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 120);
    assert!(chunks.iter().rev().skip(1).all(|chunk| chunk["candidates"][0]["finishReason"].is_null()));

    let listed = ask(&server, STREAM.trim_end_matches("?alt=sse"), &request("hi")).json();
    assert_eq!(text(listed.as_array().unwrap()), expected);
    assert_eq!(text(&[ask(&server, WHOLE, &request("hi")).json()]), expected);
}

#[test]
fn a_function_and_its_response() {
    let server = ModelServer::start();
    let mut body = request("[[sh:ls]] [[echo]]");
    let chunks = ask(&server, STREAM, &body).documents();
    let call = chunks[0]["candidates"][0]["content"]["parts"][0]["functionCall"].clone();
    assert_eq!((&call["name"], &call["args"]), (&json!("run_shell_command"), &json!({"command": "ls"})));
    let contents = body["contents"].as_array_mut().unwrap();
    contents.push(json!({"role": "model", "parts": [{"functionCall": call}]}));
    contents.push(json!({"role": "user", "parts": [{"functionResponse":
        {"name": call["name"], "response": {"output": "a.txt"}}}, {"text": "not a prompt"}]}));
    let answer = ask(&server, WHOLE, &body).json();
    assert_eq!(text(&[answer]), "FAKE-OK users=1 results=1 first='' last='a.txt'");
}

#[test]
fn questions_of_the_agent_itself_are_not_scripted() {
    let server = ModelServer::start();
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "[[status:500]]"}]}],
        "generationConfig": {"responseMimeType": "application/json", "responseSchema":
            {"type": "OBJECT", "properties": {"next": {"type": "STRING", "enum": ["user", "model"]}}}}});
    assert_eq!(text(&[ask(&server, WHOLE, &body).json()]), r#"{"next":"user"}"#);
    let counted = ask(&server, "/v1beta/models/g:countTokens", &body).json();
    assert!(counted["totalTokens"].as_u64().unwrap() > 10, "{counted}");
}

#[test]
fn failures_in_their_shape() {
    let server = ModelServer::start();
    let quota = ask(&server, STREAM, &request("[[quota:30]]"));
    assert_eq!(quota.status, 429);
    let error = quota.json()["error"].clone();
    assert_eq!((&error["code"], &error["status"]), (&json!(429), &json!("RESOURCE_EXHAUSTED")));
    assert_eq!(error["details"][1]["retryDelay"], "30s");
    let unknown = ask(&server, "/v1beta/models/g:predict", &request("hi"));
    assert_eq!(unknown.status, 404);
}
