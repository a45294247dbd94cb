//! The server over HTTP: routes, reading what comes, and playing answers step by step.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tower_http::decompression::RequestDecompressionLayer;

use super::answer::{Answer, Failure, Piece, Reply};
use super::conversation::Format;
use super::requests::{Log, Outcome, Request, Watch};
use super::rules::{Ruled, Rules};
use super::script::{self, Memory};
use super::wire::{self, Frame, Setting};

/// Largest body, unpacked.
const LARGEST_BODY: usize = 256 * 1024 * 1024;
/// How long what was sent gets on its way before the connection is cut.
const BEFORE_CUT: Duration = Duration::from_millis(20);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) log: Log,
    pub(super) rules: Rules,
    pub(super) memory: Memory,
    /// What is said where nothing else is asked for.
    pub(super) say: String,
    /// Makes identifiers differ from those of another server, which may be in the same conversation.
    pub(super) seed: String,
    pub(super) begun: Instant,
}

type World = State<Arc<Shared>>;

/// All routes.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    // Agents differ in which part of a path belongs to the address that they are given.
    for base in ["", "/v1", "/v1beta"] {
        router = router
            .route(&format!("{base}/messages"), post(messages))
            .route(&format!("{base}/messages/count_tokens"), post(count_tokens))
            .route(&format!("{base}/responses"), post(responses))
            .route(&format!("{base}/chat/completions"), post(chat))
            .route(&format!("{base}/models"), get(models))
            .route(&format!("{base}/models/{{model}}"), get(model).post(gemini));
    }
    router
        .route("/", any(root))
        .route("/_log", get(all))
        .route("/_log/{number}", get(one))
        .route("/_stats", get(async |State(it): World| answer_json(&it.log.stats())))
        .route("/_reset", any(reset))
        .route("/_gates", get(gates))
        .route("/_gates/{name}", post(open_gate))
        .fallback(nothing)
        .layer(RequestDecompressionLayer::new())
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

async fn messages(state: World, request: HttpRequest) -> Response {
    converse(state, Format::Messages, "", false, request).await
}

async fn responses(state: World, request: HttpRequest) -> Response {
    converse(state, Format::Responses, "", false, request).await
}

async fn chat(state: World, request: HttpRequest) -> Response {
    converse(state, Format::Chat, "", false, request).await
}

/// Model and verb are one segment: `MODEL:VERB`.
async fn gemini(state: World, Path(call): Path<String>, request: HttpRequest) -> Response {
    let (model, verb) = call.split_once(':').unwrap_or((&call, ""));
    match verb {
        "generateContent" => converse(state, Format::Gemini, model, false, request).await,
        "streamGenerateContent" => converse(state, Format::Gemini, model, true, request).await,
        "countTokens" => noted(state, request, |bytes| json!({"totalTokens": bytes.div_ceil(4)})).await,
        "embedContent" | "batchEmbedContents" => {
            let nothing = json!({"values": [0.0, 0.0, 0.0, 0.0]});
            noted(state, request, |_| json!({"embedding": nothing, "embeddings": [nothing]})).await
        }
        _ => nothing(state, request).await,
    }
}

async fn count_tokens(state: World, request: HttpRequest) -> Response {
    noted(state, request, |bytes| json!({"input_tokens": bytes.div_ceil(4)})).await
}

async fn models(state: World, request: HttpRequest) -> Response {
    let list = json!({"object": "list", "data": [a_model("fake-model")], "has_more": false,
        "first_id": "fake-model", "last_id": "fake-model",
        "models": [{"name": "models/fake-model", "displayName": "fake-model",
            "supportedGenerationMethods": ["generateContent"]}]});
    noted(state, request, |_| list).await
}

async fn model(state: World, Path(name): Path<String>, request: HttpRequest) -> Response {
    noted(state, request, |_| a_model(&name)).await
}

/// A model, in the shapes of two at once.
fn a_model(name: &str) -> Value {
    json!({"id": name, "type": "model", "object": "model", "display_name": name, "created": 1,
        "created_at": "2026-01-01T00:00:00Z", "owned_by": "script"})
}

async fn root(state: World, request: HttpRequest) -> Response {
    noted(state, request, |_| json!({"model-server": "ready"})).await
}

async fn nothing(State(shared): World, request: HttpRequest) -> Response {
    let Ok((_, mut watch)) = take(&shared, request, None).await else { return bad_body() };
    watch.ended(Outcome::Answered);
    watch.status(404);
    let error = json!({"type": "error", "error": {"type": "not_found_error", "message": "no such path"}});
    (StatusCode::NOT_FOUND, answer_json(&error)).into_response()
}

async fn all(State(shared): World) -> Response {
    answer_json(&json!(shared.log.all()))
}

async fn one(State(shared): World, Path(number): Path<usize>) -> Response {
    match shared.log.all().into_iter().find(|request| request.number == number) {
        Some(request) => answer_json(&request.document()),
        None => (StatusCode::NOT_FOUND, answer_json(&json!({"error": "no such request"}))).into_response(),
    }
}

async fn reset(State(shared): World) -> Response {
    shared.log.clear();
    shared.memory.reset();
    answer_json(&json!({"reset": true}))
}

async fn gates(State(shared): World) -> Response {
    answer_json(&shared.memory.gates().into_iter().collect())
}

async fn open_gate(State(shared): World, Path(name): Path<String>) -> Response {
    shared.memory.gate(&name).open();
    answer_json(&json!({"open": name}))
}

/// Notes a request, and answers at once.
async fn noted(State(shared): World, request: HttpRequest, answer: impl FnOnce(usize) -> Value) -> Response {
    let Ok((request, mut watch)) = take(&shared, request, None).await else { return bad_body() };
    watch.ended(Outcome::Answered);
    watch.status(200);
    answer_json(&answer(request.bytes))
}

/// A request for an answer of the model.
async fn converse(
    State(shared): World,
    format: Format,
    model: &str,
    stream: bool,
    request: HttpRequest,
) -> Response {
    let Ok((request, mut watch)) = take(&shared, request, Some((format, model, stream))).await else {
        return bad_body();
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let Some(conversation) = &request.conversation else {
        watch.ended(Outcome::Answered);
        return failed(format, &Failure::new(400, "the body is no JSON object"), now, &watch);
    };
    let (rules, memory) = (&shared.rules, &shared.memory);
    let answer = match rules.apply(&request) {
        Some(Ruled::Answer(answer)) => answer,
        Some(Ruled::Script(script)) => script::answer(conversation, &script, &shared.say, memory),
        None => script::answer(conversation, conversation.prompt(), &shared.say, memory),
    };
    let reply = match answer {
        Answer::Reply(reply) => reply,
        Answer::Failure(failure) => {
            watch.ended(Outcome::Answered);
            return failed(format, &failure, now, &watch);
        }
        Answer::Silence => std::future::pending().await,
    };
    let setting = Setting {
        seed: format!("{}{}", shared.seed, request.number),
        model: conversation.model.clone(),
        now,
        usage_asked: request.body["stream_options"]["include_usage"] == true,
    };
    for hold in &reply.first {
        hold.pass().await;
    }
    if !conversation.stream {
        return whole(format, &reply, &setting, watch).await;
    }
    watch.status(200);
    // Gemini streams events only to those who ask for them; to others, one list.
    let list = format == Format::Gemini && !request.query.split('&').any(|pair| pair == "alt=sse");
    let kind = if list { "application/json" } else { "text/event-stream" };
    let frames = wire::stream(format, &reply, &setting);
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    (headers, playing(frames, list, watch)).into_response()
}

/// Reads a request and notes it.
async fn take(
    shared: &Shared,
    request: HttpRequest,
    asks: Option<(Format, &str, bool)>,
) -> Result<(Request, Watch), axum::Error> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, LARGEST_BODY).await?;
    let mut request = noting(shared, &head.method, &head.uri, &head.headers, &body);
    if let Some((format, model, stream)) = asks
        && request.body.is_object()
    {
        request.conversation = Some(wire::read(format, &request.body, model, stream));
    }
    let request = shared.log.add(request);
    let watch = Watch::new(&shared.log, request.number);
    Ok((request, watch))
}

fn noting(
    shared: &Shared,
    method: &Method,
    uri: &axum::http::Uri,
    headers: &HeaderMap,
    body: &Bytes,
) -> Request {
    let headers = headers.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    Request {
        number: 0,
        at_ms: u64::try_from(shared.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect(),
        bytes: body.len(),
        body: serde_json::from_slice(body).unwrap_or_default(),
        conversation: None,
        status: None,
        outcome: Outcome::Open,
    }
}

/// Answers with one document.
async fn whole(format: Format, reply: &Reply, setting: &Setting, mut watch: Watch) -> Response {
    let document = wire::whole(format, reply, setting).to_string();
    for piece in &reply.pieces {
        match piece {
            Piece::Text(_) => {}
            Piece::Hold(hold) => hold.pass().await,
            Piece::Hang => std::future::pending().await,
            Piece::Error(what) => {
                watch.ended(Outcome::Answered);
                return failed(format, &Failure::new(500, &format!("scripted {what}")), setting.now, &watch);
            }
            Piece::Cut | Piece::Garbage => {
                watch.status(200);
                let half = document[..document.floor_char_boundary(document.len() / 2)].to_owned();
                let mut frames = vec![Frame::Event(None, half)];
                if *piece == Piece::Cut {
                    frames.push(Frame::Cut);
                }
                let body = raw(frames, watch);
                return ([(header::CONTENT_TYPE, "application/json")], body).into_response();
            }
        }
    }
    watch.ended(Outcome::Answered);
    watch.status(200);
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

fn failed(format: Format, failure: &Failure, now: u64, watch: &Watch) -> Response {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    watch.status(status.as_u16());
    let (body, headers) = wire::failure(format, failure, now);
    let mut response = (status, answer_json(&body)).into_response();
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn bad_body() -> Response {
    (StatusCode::BAD_REQUEST, answer_json(&json!({"error": {"message": "the body cannot be read"}})))
        .into_response()
}

fn answer_json(document: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.to_string()).into_response()
}

/// A body that plays frames as events, or as one list of their data.
fn playing(frames: Vec<Frame>, list: bool, watch: Watch) -> Body {
    let final_place = frames.len().saturating_sub(1);
    let frames = frames.into_iter().enumerate().map(|(at, frame)| match frame {
        Frame::Event(_, data) if list => {
            let (open, close) = (if at == 0 { "[" } else { ",\n" }, if at == final_place { "]" } else { "" });
            Frame::Event(None, format!("{open}{data}{close}"))
        }
        Frame::Event(Some(name), data) => Frame::Event(None, format!("event: {name}\ndata: {data}\n\n")),
        Frame::Event(None, data) => Frame::Event(None, format!("data: {data}\n\n")),
        other => other,
    });
    raw(frames.collect(), watch)
}

/// A body that plays frames as they are.
fn raw(frames: Vec<Frame>, watch: Watch) -> Body {
    let state = (VecDeque::from(frames), watch);
    Body::from_stream(stream::unfold(state, async |(mut frames, mut watch)| {
        loop {
            match frames.pop_front() {
                Some(Frame::Event(_, data)) => {
                    return Some((Ok::<_, io::Error>(Bytes::from(data)), (frames, watch)));
                }
                Some(Frame::Hold(hold)) => hold.pass().await,
                Some(Frame::Hang) => std::future::pending::<()>().await,
                Some(Frame::Cut) => {
                    watch.ended(Outcome::Cut);
                    tokio::time::sleep(BEFORE_CUT).await;
                    frames.clear();
                    return Some((Err(io::Error::other("cut by the script")), (frames, watch)));
                }
                None => {
                    watch.ended(Outcome::Answered);
                    return None;
                }
            }
        }
    }))
}
