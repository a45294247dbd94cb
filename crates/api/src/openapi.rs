//! The OpenAPI document, made from one table of routes and the schemas of the types that really travel.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use subagent_model::agents::TypeList;
use subagent_model::request::{
    AnswerRequest, BudgetRequest, ClaimRequest, GcReply, GcRequest, Health, LogPage, MessageList,
    OpenRequest, Page, RequestList, ResumeRequest, ReturnRequest, RunList, SpawnRequest, SteerReply,
    SteerRequest, StopAllReply, StopAllRequest, TextPart, UsageReport,
};
use subagent_model::{
    Event, InnerList, Problem, StopInnerReply, StopInnerRequest, SubagentRecord, TranscriptPage,
};
use subagent_runtime::{AckReply, ResumeReply, SpawnReply};

use crate::handlers::{
    AckRequest, ActivityList, ActivityQuery, EventList, EventsQuery, Gone, GoneQuery, Inbox, InboxQuery,
    LimitsDocument, ListQuery, Named, OutputQuery, RequestsQuery, ResultQuery, Shown, StopBody, StopQuery,
    Stopped, TranscriptQuery, TypesQuery, WaitQuery, Waited,
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
    /// The answer to one who accepts nothing but JSON, where that is another.
    as_json: Option<Value>,
}

fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn whole<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    T::json_schema(generator).to_value()
}

/// What makes something, so that a key is taken.
const KEYED: [&str; 3] = ["/v1/subagents", "/v1/subagents/{id}/resume", "/v1/subagents/{id}/steer"];

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
        as_json: None,
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
        as_json: None,
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
        post(
            "/v1/subagents/{id}/resume",
            "Open the next run of a subagent that has ended or is idle",
            None,
            Some(reference::<ResumeRequest>(g)),
            "201",
            Some(reference::<ResumeReply>(g)),
        ),
        post(
            "/v1/subagents/{id}/steer",
            "Send a message, or interrupt the turn; answers with the receipt",
            None,
            Some(reference::<SteerRequest>(g)),
            "200",
            Some(reference::<SteerReply>(g)),
        ),
        post(
            "/v1/subagents/{id}/wait",
            "Wait for the end of a run; a wait that sees it consumes the result",
            Some(whole::<WaitQuery>(g)),
            None,
            "200",
            Some(reference::<Waited>(g)),
        ),
        post(
            "/v1/subagents/{id}/stop",
            "Stop a subagent and its children; answers at once unless told to wait until they are gone",
            Some(whole::<StopQuery>(g)),
            Some(reference::<StopBody>(g)),
            "200",
            Some(reference::<Stopped>(g)),
        ),
        get(
            "/v1/subagents/{id}/inner",
            "The subagents that a child runs inside of itself, as it tells of them",
            None,
            reference::<InnerList>(g),
        ),
        post(
            "/v1/subagents/{id}/inner/stop",
            "Tell a child to stop one of its own subagents, where it can",
            None,
            Some(reference::<StopInnerRequest>(g)),
            "200",
            Some(reference::<StopInnerReply>(g)),
        ),
        get(
            "/v1/subagents/{id}/gone",
            "Whether any process of a subagent and of what is below it is left",
            Some(whole::<GoneQuery>(g)),
            reference::<Gone>(g),
        ),
        get("/v1/subagents/{id}/runs", "All runs of a subagent", None, reference::<RunList>(g)),
        get(
            "/v1/subagents/{id}/usage",
            "What a subagent and everything below it used; what nobody reported is absent",
            None,
            reference::<UsageReport>(g),
        ),
        get(
            "/v1/subagents/{id}/messages",
            "The messages of a subagent with their receipts",
            None,
            reference::<MessageList>(g),
        ),
        get(
            "/v1/subagents/{id}/result",
            "Read the result of a run; reading it to the end consumes it",
            Some(whole::<ResultQuery>(g)),
            reference::<TextPart>(g),
        ),
        get(
            "/v1/types",
            "List agent types and providers",
            Some(whole::<TypesQuery>(g)),
            reference::<TypeList>(g),
        ),
        get(
            "/v1/subagents/{id}/transcript",
            "Read the transcript: what was said and told, in one form for all providers",
            Some(whole::<TranscriptQuery>(g)),
            reference::<TranscriptPage>(g),
        ),
        get(
            "/v1/subagents/{id}/output",
            "Read the raw output of the newest attempt",
            Some(whole::<OutputQuery>(g)),
            reference::<LogPage>(g),
        ),
        post(
            "/v1/subagents/{id}/budget",
            "Change the budget of the running run",
            None,
            Some(reference::<BudgetRequest>(g)),
            "200",
            Some(reference::<SubagentRecord>(g)),
        ),
        Route {
            method: "delete",
            ..get(
                "/v1/subagents/{id}/grants/{number}",
                "Take a standing answer back",
                None,
                reference::<SubagentRecord>(g),
            )
        },
        get("/v1/names/{id}", "The subagent that a name names", None, reference::<Named>(g)),
        post(
            "/v1/stop",
            "Stop everything that is the caller's",
            None,
            Some(reference::<StopAllRequest>(g)),
            "200",
            Some(reference::<StopAllReply>(g)),
        ),
        get(
            "/v1/requests",
            "What children ask and nobody has answered",
            Some(whole::<RequestsQuery>(g)),
            reference::<RequestList>(g),
        ),
        post(
            "/v1/requests/{id}",
            "Answer a request of a child",
            None,
            Some(reference::<AnswerRequest>(g)),
            "200",
            Some(reference::<OpenRequest>(g)),
        ),
        get(
            "/v1/inbox",
            "What the caller has not consumed",
            Some(whole::<InboxQuery>(g)),
            reference::<Inbox>(g),
        ),
        post(
            "/v1/inbox/claim",
            "Take unread results for a bounded time; what is not handed over is given back",
            None,
            Some(reference::<ClaimRequest>(g)),
            "200",
            Some(reference::<Inbox>(g)),
        ),
        post(
            "/v1/inbox/return",
            "Give claimed results back",
            None,
            Some(reference::<ReturnRequest>(g)),
            "204",
            None,
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
            as_json: Some(reference::<EventList>(g)),
            ..get(
                "/v1/events",
                "Events as they are committed; `Last-Event-ID` continues without gaps. `gone` says that events were \
                 released, and its id is the position behind them",
                Some(whole::<EventsQuery>(g)),
                reference::<Event>(g),
            )
        },
        get(
            "/v1/activity",
            "What children are doing right now: momentary, never stored",
            Some(whole::<ActivityQuery>(g)),
            reference::<ActivityList>(g),
        ),
        get("/v1/limits", "The limits in force", None, reference::<LimitsDocument>(g)),
        Route {
            method: "put",
            body: Some(reference::<LimitsDocument>(g)),
            ..get("/v1/limits", "Change some limits; only for a person", None, reference::<LimitsDocument>(g))
        },
        post(
            "/v1/gc",
            "Release what retention allows, or say what would be released",
            None,
            Some(reference::<GcRequest>(g)),
            "200",
            Some(reference::<GcReply>(g)),
        ),
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
        "description": "Who calls; results are addressed to it. Without it the user at the other end of the socket, \
                        as `user:UID`. A process of a subagent is that subagent, whatever stands here."
    })];
    if route.path.contains("{id}") {
        let description = if route.path.starts_with("/v1/requests/") {
            "Name of the request: `SUBAGENT.qN`."
        } else {
            "Id, handle, or the unique beginning of one."
        };
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": {"type": "string"},
            "description": description
        }));
    }
    if route.path.contains("{number}") {
        parameters.push(json!({
            "name": "number", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1},
            "description": "Number of the request whose answer stands."
        }));
    }
    let fields = route.query.as_ref().and_then(|query| query.get("properties")?.as_object());
    for (name, schema) in fields.into_iter().flatten() {
        parameters.push(json!({"name": name, "in": "query", "schema": schema}));
    }
    if route.method == "post" && KEYED.contains(&route.path) {
        parameters.push(json!({
            "name": crate::IDEMPOTENCY_HEADER, "in": "header", "schema": {"type": "string"},
            "description": "Asking twice with the same key makes nothing twice: the second answer tells of the first."
        }));
    }
    let mut answer = json!({"description": "Done"});
    if let Some(schema) = &route.answer {
        answer["content"] = json!({route.content: {"schema": schema}});
    }
    if let Some(schema) = &route.as_json {
        answer["content"]["application/json"] = json!({"schema": schema});
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

/// A name of its own: method and fixed parts of the path; what ends in a parameter says so.
fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches("/v1/").trim_start_matches('/');
    let words = path.split(['/', '.']).filter(|word| !word.starts_with('{'));
    let last = path.rsplit('/').next().and_then(|last| last.strip_prefix('{')?.strip_suffix('}'));
    let by = last.map(|last| format!("by_{last}"));
    let words: Vec<_> = [route.method].into_iter().chain(words).chain(by.as_deref()).collect();
    words.join("_")
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

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let document = super::openapi();
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|path| path.as_object().unwrap().values());
        let mut names: Vec<_> =
            operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    /// A route of the server that the document leaves out, or the other way round.
    #[test]
    fn the_document_has_the_routes_of_the_server() {
        let source = include_str!("server.rs");
        let parts = source.split(".route(\"").skip(1).filter_map(|part| part.split('"').next());
        let mut served: Vec<_> = parts.collect();
        let document = super::openapi();
        let mut told: Vec<_> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        served.sort_unstable();
        told.sort_unstable();
        assert_eq!(served, told);
    }
}
