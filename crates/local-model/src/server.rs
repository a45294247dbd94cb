//! HTTP: the OpenAI endpoints over an engine. Bounds on bodies stand here, those on work in the engine. It writes what the engine
//! says and decides nothing about it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::chat::{self, Answer, Reading};
use crate::engine::{Engine, Event, Job};
use crate::wire::{self, ChatRequest, Refused, Stops, Usage};

/// Largest body of a request, in bytes.
const LARGEST_BODY: usize = 2 * 1024 * 1024;
const RETRY_AFTER_SECONDS: &str = "2";
const MOST_STOPS: usize = 16;

struct Shared {
    engine: Engine,
    name: String,
    count: AtomicU64,
    begun: u64,
}

/// The service; `name` is what it calls its model.
pub fn router(engine: Engine, name: String) -> Router {
    let shared = Arc::new(Shared { engine, name, count: AtomicU64::new(1), begun: now() });
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(completions))
        .fallback(async || {
            let said = wire::error("there is only /v1/models and /v1/chat/completions here", "not_found");
            answer(StatusCode::NOT_FOUND, &said)
        })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(shared)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    answer(
        StatusCode::OK,
        &json!({"object": "list", "data": [{"id": shared.name, "object": "model", "created": shared.begun,
            "owned_by": "local", "context_length": shared.engine.context()}]}),
    )
}

async fn completions(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let request: ChatRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let said = format!("the body is no chat request: {error}");
            return answer(StatusCode::BAD_REQUEST, &wire::error(&said, "invalid_body"));
        }
    };
    let (reading, job, events) = match prepare(&shared.engine, &request) {
        Ok(prepared) => prepared,
        Err(refused) => return answer(StatusCode::BAD_REQUEST, &refused.json()),
    };
    if shared.engine.submit(job).is_err() {
        let said = "too many requests wait for the model; ask again after the time in retry-after";
        let mut response = answer(StatusCode::TOO_MANY_REQUESTS, &wire::error(said, "queue_full"));
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER_SECONDS));
        return response;
    }
    let number = shared.count.fetch_add(1, Ordering::Relaxed);
    let head = Head {
        id: format!("chatcmpl-{}-{number}", shared.begun),
        created: now(),
        model: shared.name.clone(),
    };
    if request.stream {
        let usage = request.stream_options.is_some_and(|options| options.include_usage);
        stream(head, reading, events, usage)
    } else {
        whole(&head, reading, events).await
    }
}

fn prepare(
    engine: &Engine,
    request: &ChatRequest,
) -> Result<(Reading, Job, mpsc::UnboundedReceiver<Event>), Refused> {
    let asked = chat::ask(request)?;
    let prompt = engine.encode(&asked.pieces)?;
    let most = request.max_completion_tokens.or(request.max_tokens).unwrap_or(usize::MAX);
    if most == 0 {
        return Err(Refused::new("invalid_max_tokens", "`max_tokens` has to be at least 1"));
    }
    let temperature = request.temperature.unwrap_or(0.0);
    if !(0.0..=2.0).contains(&temperature) {
        return Err(Refused::new("invalid_temperature", "`temperature` has to be from 0 to 2"));
    }
    let stops = match request.stop.clone() {
        None => Vec::new(),
        Some(Stops::One(one)) => vec![one],
        Some(Stops::Many(many)) => many,
    };
    if stops.len() > MOST_STOPS || stops.iter().any(String::is_empty) {
        return Err(Refused::new(
            "invalid_stop",
            format!("`stop` has to be up to {MOST_STOPS} texts, none of them empty"),
        ));
    }
    // Where tools are, what is written is not what is given out: a stop would cut the JSON in two.
    let stops = if asked.reading == Reading::Plain { stops } else { Vec::new() };
    let (to, events) = mpsc::unbounded_channel();
    let seed = request.seed.unwrap_or(0).cast_unsigned();
    Ok((asked.reading, Job { prompt, grammar: asked.grammar, most, temperature, seed, stops, to }, events))
}

struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    fn body(&self, object: &str, choices: &Value) -> Value {
        json!({"id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices})
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        self.body("chat.completion.chunk", &json!([{"index": 0, "delta": delta, "finish_reason": finish}]))
    }

    fn call(&self, name: &str, arguments: &str) -> Value {
        json!({"index": 0, "id": format!("call_{}", self.id), "type": "function",
            "function": {"name": name, "arguments": arguments}})
    }
}

async fn whole(head: &Head, reading: Reading, mut events: mpsc::UnboundedReceiver<Event>) -> Response {
    let mut written = String::new();
    loop {
        match events.recv().await {
            Some(Event::Text(text)) => written.push_str(&text),
            Some(Event::Done { whole, usage }) => {
                let (message, finish) = match finished(reading, &written, whole) {
                    (Some(Answer::Call(name, arguments)), finish) => {
                        let mut call = head.call(&name, &arguments);
                        if let Some(call) = call.as_object_mut() {
                            call.remove("index");
                        }
                        (json!({"role": "assistant", "content": null, "tool_calls": [call]}), finish)
                    }
                    (Some(Answer::Text(text)), finish) => {
                        (json!({"role": "assistant", "content": text}), finish)
                    }
                    (None, finish) => (json!({"role": "assistant", "content": ""}), finish),
                };
                let choices = json!([{"index": 0, "message": message, "finish_reason": finish}]);
                let mut body = head.body("chat.completion", &choices);
                body["usage"] = usage.json();
                return answer(StatusCode::OK, &body);
            }
            Some(Event::Failed(why)) => return failed(&why),
            None => return failed("the model has ended"),
        }
    }
}

fn failed(why: &str) -> Response {
    answer(StatusCode::INTERNAL_SERVER_ERROR, &wire::error(why, "internal"))
}

/// The answer and how it ended; a call that was cut off is none.
fn finished(reading: Reading, written: &str, whole: bool) -> (Option<Answer>, &'static str) {
    match chat::read(reading, written) {
        Some(Answer::Call(name, arguments)) => (Some(Answer::Call(name, arguments)), "tool_calls"),
        other => (other, if whole { "stop" } else { "length" }),
    }
}

fn stream(head: Head, reading: Reading, events: mpsc::UnboundedReceiver<Event>, usage: bool) -> Response {
    let state =
        Streaming { head, reading, events, usage, written: String::new(), begun: false, ended: false };
    let body = Body::from_stream(futures_util::stream::unfold(state, Streaming::next));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

/// A stream on its way. When the connection goes, so does its end of the events, and the engine notices.
struct Streaming {
    head: Head,
    reading: Reading,
    events: mpsc::UnboundedReceiver<Event>,
    usage: bool,
    written: String,
    begun: bool,
    ended: bool,
}

impl Streaming {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        if !self.begun {
            self.begun = true;
            let first = self.head.chunk(&json!({"role": "assistant", "content": ""}), None);
            return Some((Ok(lines(&[first])), self));
        }
        loop {
            match self.events.recv().await {
                Some(Event::Text(text)) if self.reading == Reading::Plain => {
                    let chunk = self.head.chunk(&json!({"content": text}), None);
                    return Some((Ok(lines(&[chunk])), self));
                }
                // Whether it is a call or an answer is known at the end.
                Some(Event::Text(text)) => self.written.push_str(&text),
                Some(Event::Done { whole, usage }) => {
                    self.ended = true;
                    return Some((Ok(self.last(whole, usage)), self));
                }
                Some(Event::Failed(why)) => {
                    self.ended = true;
                    return Some((Ok(lines(&[wire::error(&why, "internal")])), self));
                }
                None => return None,
            }
        }
    }

    fn last(&self, whole: bool, usage: Usage) -> Bytes {
        let mut chunks = Vec::new();
        let (answer, finish) = finished(self.reading, &self.written, whole);
        match answer {
            Some(Answer::Call(name, arguments)) => {
                chunks
                    .push(self.head.chunk(&json!({"tool_calls": [self.head.call(&name, &arguments)]}), None));
            }
            Some(Answer::Text(text)) if self.reading != Reading::Plain => {
                chunks.push(self.head.chunk(&json!({"content": text}), None));
            }
            _ => {}
        }
        chunks.push(self.head.chunk(&json!({}), Some(finish)));
        if self.usage {
            let mut last = self.head.body("chat.completion.chunk", &json!([]));
            last["usage"] = usage.json();
            chunks.push(last);
        }
        chunks.push(Value::from("[DONE]"));
        lines(&chunks)
    }
}

/// As server-sent events.
fn lines(values: &[Value]) -> Bytes {
    let mut all = String::new();
    for value in values {
        let data = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        all.push_str("data: ");
        all.push_str(&data);
        all.push_str("\n\n");
    }
    Bytes::from(all)
}
