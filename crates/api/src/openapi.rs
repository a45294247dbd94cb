//! The OpenAPI document, made from one table of routes and the schemas of the types that really travel.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use subagent_model::request::{
    Health, LogPage, Page, SpawnRequest, StopReply, StopRequest, TextPart, WaitReply,
};
use subagent_model::{Event, Problem};
use subagent_runtime::{AckReply, SpawnReply};

use crate::handlers::{
    AckRequest, EventsQuery, Inbox, InboxQuery, ListQuery, ResultQuery, Runs, Shown, TranscriptQuery,
    WaitQuery,
};
use crate::server::ShutdownRequest;

struct Route {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    query: Option<Value>,
    body: Option<Value>,
    status: &'static str,
    answer: Option<Value>,
    content: &'static str,
}

fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn whole<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    T::json_schema(generator).to_value()
}

/// The document: OpenAPI 3.1.
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let g = &mut generator;
    let json = "application/json";
    let get = |path, summary, query, answer| Route {
        method: "get",
        path,
        summary,
        query,
        body: None,
        status: "200",
        answer: Some(answer),
        content: json,
    };
    let post = |path, summary, query, body, status, answer| Route {
        method: "post",
        path,
        summary,
        query,
        body,
        status,
        answer,
        content: json,
    };
    let routes = [
        post(
            "/v1/subagents",
            "Spawn a subagent",
            None,
            Some(reference::<SpawnRequest>(g)),
            "201",
            Some(reference::<SpawnReply>(g)),
        ),
        get(
            "/v1/subagents",
            "List subagents, newest first",
            Some(whole::<ListQuery>(g)),
            reference::<Page>(g),
        ),
        get("/v1/subagents/{id}", "Show a subagent", None, reference::<Shown>(g)),
        get("/v1/subagents/{id}/runs", "All runs of a subagent", None, reference::<Runs>(g)),
        get(
            "/v1/subagents/{id}/result",
            "Read the result of a run; reading it to the end consumes it",
            Some(whole::<ResultQuery>(g)),
            reference::<TextPart>(g),
        ),
        post(
            "/v1/subagents/{id}/wait",
            "Wait for the end of a run; a wait that sees it consumes the result",
            Some(whole::<WaitQuery>(g)),
            None,
            "200",
            Some(reference::<WaitReply>(g)),
        ),
        post(
            "/v1/subagents/{id}/stop",
            "Stop a subagent and its children; answers at once",
            None,
            Some(reference::<StopRequest>(g)),
            "200",
            Some(reference::<StopReply>(g)),
        ),
        get(
            "/v1/subagents/{id}/transcript",
            "Read the raw output of the newest attempt",
            Some(whole::<TranscriptQuery>(g)),
            reference::<LogPage>(g),
        ),
        get(
            "/v1/inbox",
            "What the requester has not consumed",
            Some(whole::<InboxQuery>(g)),
            reference::<Inbox>(g),
        ),
        post(
            "/v1/inbox/ack",
            "Consume results",
            None,
            Some(reference::<AckRequest>(g)),
            "200",
            Some(reference::<AckReply>(g)),
        ),
        Route {
            content: "text/event-stream",
            ..get(
                "/v1/events",
                "Events as they are committed; `Last-Event-ID` continues without gaps",
                Some(whole::<EventsQuery>(g)),
                reference::<Event>(g),
            )
        },
        get("/v1/health", "How the daemon stands", None, reference::<Health>(g)),
        post("/v1/shutdown", "End the daemon", None, Some(reference::<ShutdownRequest>(g)), "202", None),
        get("/openapi.json", "This document", None, json!({"type": "object"})),
    ];
    let problem = reference::<Problem>(g);
    let mut paths = Map::new();
    for route in routes {
        let operation = operation(&route, &problem);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "subagent",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Delegate work to any agent, and always get it back. Served on a unix socket of mode 0600.",
            "license": {"name": "MIT OR Apache-2.0"}
        },
        "paths": paths,
        "components": {"schemas": generator.take_definitions(true)}
    })
}

fn operation(route: &Route, problem: &Value) -> Value {
    let mut parameters = vec![json!({
        "name": crate::REQUESTER_HEADER, "in": "header", "schema": {"type": "string"},
        "description": "Who calls; results are addressed to it. `api` when absent."
    })];
    if route.path.contains("{id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": {"type": "string"},
            "description": "Id, handle, or the unique beginning of one."
        }));
    }
    let fields = route.query.as_ref().and_then(|query| query.get("properties")?.as_object());
    for (name, schema) in fields.into_iter().flatten() {
        parameters.push(json!({"name": name, "in": "query", "schema": schema}));
    }
    if route.method == "post" && route.path == "/v1/subagents" {
        parameters.push(json!({
            "name": "idempotency-key", "in": "header", "schema": {"type": "string"},
            "description": "Asking twice with the same key gives the same subagent."
        }));
    }
    let mut answer = json!({"description": "Done"});
    if let Some(schema) = &route.answer {
        answer["content"] = json!({route.content: {"schema": schema}});
    }
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": {
            route.status: answer,
            "default": {
                "description": "Refused; the code has a page in docs/errors/",
                "content": {"application/json": {"schema": problem}}
            }
        }
    });
    if let Some(body) = &route.body {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": body}}});
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches("/v1/").trim_start_matches('/');
    let words: Vec<_> = path.split(['/', '.']).filter(|word| !word.starts_with('{')).collect();
    format!("{}_{}", route.method, words.join("_"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    #[test]
    fn every_reference_points_at_a_schema() {
        let document = super::openapi();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for part in text.split("#/components/schemas/").skip(1) {
            let name: String = part.chars().take_while(|c| c.is_alphanumeric()).collect();
            assert!(schemas.contains_key(&name), "{name} has no schema");
        }
        assert!(document["paths"]["/v1/subagents"]["post"].is_object());
    }
}
