//! The loop of the server: reads lines, answers, and gives each session to a task of its own.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_model::Usage;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Options;
use super::frame::{self, Frame, Refusal, code};
use super::open::{self, EFFORTS, How, Opened};
use super::voice::{Line, counted};
use super::words::Prompt;
use crate::fact::End;
use crate::session::{Mode, Session, Steer};

/// The version of the protocol.
const PROTOCOL: u64 = 1;
/// Most bytes of a line.
const MOST_LINE: u64 = 64 << 20;
/// How long sessions may take to end once the client is gone.
const CLOSING: Duration = Duration::from_secs(8);

/// What a session is told.
enum Order {
    Prompt { id: Value, text: String, run: Option<u32>, cancel: CancellationToken },
    Mode(Mode),
    Effort(Option<String>),
    Close { id: Value },
}

/// A session that is open.
struct Live {
    orders: mpsc::UnboundedSender<Order>,
    steers: mpsc::UnboundedSender<Steer>,
    /// Of the prompt at work.
    cancel: CancellationToken,
    busy: Arc<AtomicBool>,
}

struct Server {
    options: Options,
    line: Arc<Line>,
    sessions: HashMap<String, Live>,
    tasks: JoinSet<()>,
}

/// Serves one client until its input ends.
pub async fn serve(
    options: Options,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, mut lines) = mpsc::unbounded_channel::<Vec<u8>>();
    let writer = tokio::spawn(async move {
        let mut output = output;
        while let Some(line) = lines.recv().await {
            output.write_all(&line).await?;
            // What is there already goes out together.
            while let Ok(line) = lines.try_recv() {
                output.write_all(&line).await?;
            }
            output.flush().await?;
        }
        Ok::<_, io::Error>(())
    });
    let line = Arc::new(Line::new(out));
    let mut server = Server { options, line, sessions: HashMap::new(), tasks: JoinSet::new() };
    let mut input = BufReader::new(input);
    let read = loop {
        let mut text = Vec::new();
        match (&mut input).take(MOST_LINE).read_until(b'\n', &mut text).await {
            Ok(0) => break Ok(()),
            Ok(_) if text.last() != Some(&b'\n') && text.len() as u64 >= MOST_LINE => {
                break Err(io::Error::other("a line of the client has no end"));
            }
            Ok(_) => server.heard(&text),
            Err(error) => break Err(error),
        }
    };
    server.close().await;
    drop(server);
    match writer.await {
        // A client that went away reads no more: its input has ended too.
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => read.and(Err(error)),
        _ => read,
    }
}

impl Server {
    fn heard(&mut self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        match frame::read(text) {
            Ok(Frame::Request { id, method, params }) => match self.requested(&id, &method, params) {
                Ok(Some(result)) => self.line.send(frame::answer(&id, Ok(result))),
                Ok(None) => {}
                Err(refusal) => self.line.send(frame::answer(&id, Err(refusal))),
            },
            Ok(Frame::Note { method, params }) => {
                if method == "session/cancel"
                    && let Some(live) = params["sessionId"].as_str().and_then(|id| self.sessions.get(id))
                {
                    live.cancel.cancel();
                }
            }
            Ok(Frame::Answer { id, result }) => self.line.answered(&id, result),
            Err(refusal) => self.line.send(frame::answer(&Value::Null, Err(refusal))),
        }
    }

    /// Answers a request, or sees to it that it will be answered.
    fn requested(&mut self, id: &Value, method: &str, params: Value) -> Result<Option<Value>, Refusal> {
        match method {
            "initialize" => Ok(Some(self.initialize(&params))),
            "authenticate" => Ok(Some(json!({}))),
            "session/new" => self.open(How::New, params).map(Some),
            "session/load" => self.open(How::Load, params).map(Some),
            "session/resume" => self.open(How::Resume, params).map(Some),
            "session/fork" => self.open(How::Fork, params).map(Some),
            "session/list" => Ok(Some(open::list(&self.options.sessions, params["cwd"].as_str()))),
            "session/prompt" => self.prompt(id, params).map(|()| None),
            "session/set_mode" => {
                let name = params["modeId"].as_str().unwrap_or_default();
                let mode =
                    Mode::of(name).ok_or_else(|| Refusal::params(format!("there is no mode {name:?}")))?;
                self.order(&params, Order::Mode(mode))?;
                Ok(Some(json!({})))
            }
            "session/set_config_option" => self.set_option(&params).map(Some),
            "session/close" => {
                if let Some(live) = params["sessionId"].as_str().and_then(|id| self.sessions.remove(id)) {
                    live.cancel.cancel();
                    let _ = live.orders.send(Order::Close { id: id.clone() });
                    return Ok(None);
                }
                Err(unknown(&params))
            }
            "_subagent/steer" => self.steer(id, &params).map(|()| None),
            other => Err(Refusal::new(code::NO_METHOD, format!("{other:?} is not served here"))),
        }
    }

    fn initialize(&self, params: &Value) -> Value {
        let extras = &params["clientCapabilities"]["session"];
        self.line.notices.store(extras["notices"].is_object(), Ordering::Relaxed);
        json!({
            "protocolVersion": PROTOCOL,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": true, "sse": false},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "fork": {},
                    "additionalDirectories": {}, "systemPrompt": {"mode": {"override": {}}}},
                "_meta": {"subagent": {"steer": {}, "turns": {}}},
            },
            "authMethods": [],
            "agentInfo": {"name": "subagent", "title": "Subagent", "version": env!("CARGO_PKG_VERSION")},
        })
    }

    fn open(&mut self, how: How, params: Value) -> Result<Value, Refusal> {
        if let Some(id) = params["sessionId"].as_str()
            && how != How::Fork
            && self.sessions.contains_key(id)
        {
            return Err(Refusal::params(format!("session {id} is open already: close it first")));
        }
        let Opened { id, session, steers, answer } = open::open(&self.options, &self.line, how, params)?;
        let (orders, given) = mpsc::unbounded_channel();
        let busy = Arc::new(AtomicBool::new(false));
        let live = Live { orders, steers, cancel: CancellationToken::new(), busy: Arc::clone(&busy) };
        self.sessions.insert(id, live);
        self.tasks.spawn(live_on(session, given, Arc::clone(&self.line), busy));
        Ok(answer)
    }

    fn prompt(&mut self, id: &Value, params: Value) -> Result<(), Refusal> {
        let prompt = Prompt::read(params)?;
        let text = prompt.text()?;
        let Some(live) = self.sessions.get_mut(&prompt.session_id) else {
            return Err(unknown(&json!({"sessionId": prompt.session_id})));
        };
        if live.busy.swap(true, Ordering::AcqRel) {
            let message =
                "a prompt is at work: cancel it, wait for it, or send the message with _subagent/steer";
            return Err(Refusal::new(code::INVALID_REQUEST, message));
        }
        live.cancel = CancellationToken::new();
        let order = Order::Prompt { id: id.clone(), text, run: prompt.run(), cancel: live.cancel.clone() };
        live.orders.send(order).map_err(|_| unknown(&json!({"sessionId": prompt.session_id})))
    }

    fn order(&self, params: &Value, order: Order) -> Result<(), Refusal> {
        let live = params["sessionId"].as_str().and_then(|id| self.sessions.get(id));
        let live = live.ok_or_else(|| unknown(params))?;
        live.orders.send(order).map_err(|_| unknown(params))
    }

    fn set_option(&self, params: &Value) -> Result<Value, Refusal> {
        let (option, value) = (params["configId"].as_str(), params["value"].as_str());
        match (option, value) {
            (Some("effort"), Some(effort)) if EFFORTS.contains(&effort) => {
                let wanted = Some(effort.to_owned()).filter(|effort| effort != "default");
                self.order(params, Order::Effort(wanted.clone()))?;
                Ok(json!({"configOptions": open::options_of(wanted.as_deref())}))
            }
            _ => Err(Refusal::params(format!("there is no option {option:?} with the value {value:?}"))),
        }
    }

    /// A message into the turn: answered once it is stored, or once the turn is over without it.
    fn steer(&mut self, id: &Value, params: &Value) -> Result<(), Refusal> {
        let live = params["sessionId"].as_str().and_then(|id| self.sessions.get(id));
        let live = live.ok_or_else(|| unknown(params))?;
        let text = params["text"].as_str().filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| Refusal::params("text is missing"))?.to_owned();
        let number = params["number"].as_u64();
        let (way, id) = (Arc::clone(&self.line), id.clone());
        let told = move |taken: bool| way.send(frame::answer(&id, Ok(json!({"taken": taken}))));
        if !live.busy.load(Ordering::Acquire) {
            told(false);
            return Ok(());
        }
        let (taken, waits) = oneshot::channel();
        if live.steers.send(Steer { text, number, taken }).is_err() {
            told(false);
            return Ok(());
        }
        self.tasks.spawn(async move { told(waits.await.unwrap_or(false)) });
        Ok(())
    }

    /// The client is gone: all that is at work ends.
    async fn close(&mut self) {
        for (_, live) in self.sessions.drain() {
            live.cancel.cancel();
        }
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSING, all).await.is_err() {
            tracing::warn!("sessions did not end in time");
        }
    }
}

fn unknown(params: &Value) -> Refusal {
    let id = params["sessionId"].as_str().unwrap_or_default();
    Refusal::new(
        code::NOT_FOUND,
        format!("session {id:?} is not open: session/new, session/load or session/resume opens one"),
    )
}

/// Lives through a session, one order after the other.
async fn live_on(
    mut session: Session,
    mut orders: mpsc::UnboundedReceiver<Order>,
    line: Arc<Line>,
    busy: Arc<AtomicBool>,
) {
    let mut closing = None;
    while let Some(order) = orders.recv().await {
        match order {
            Order::Prompt { id, text, run, cancel } => {
                let before = session.turn().usage();
                let end = session.prompt(text, run, &cancel).await;
                let outcome = match end {
                    Ok(end) => ended(&end, before, session.turn().usage()),
                    Err(error) => Err(open::store(&error)),
                };
                busy.store(false, Ordering::Release);
                // What came between the end and now is not taken any more.
                session.decline_steers();
                line.send(frame::answer(&id, outcome));
            }
            Order::Mode(mode) => session.means().mode = mode,
            Order::Effort(effort) => session.means().effort = effort,
            Order::Close { id } => {
                closing = Some(id);
                break;
            }
        }
    }
    session.close().await;
    if let Some(id) = closing {
        line.send(frame::answer(&id, Ok(json!({}))));
    }
}

/// The answer to a prompt.
fn ended(end: &End, before: Usage, after: Usage) -> Result<Value, Refusal> {
    let mut meta = None;
    let stop = match end {
        End::Finished { truncated: false } => "end_turn",
        End::Finished { truncated: true } => "max_tokens",
        End::Cancelled => "cancelled",
        End::CutOff { limit } => {
            meta = Some(json!({"subagent/limit": limit}));
            "max_turn_requests"
        }
        End::Failed { failure } if failure.code == subagent_model::ErrorCode::Refused => "refusal",
        End::Failed { failure } => return Err(Refusal::of(failure)),
    };
    let mut answer = json!({"stopReason": stop});
    if after.total > before.total {
        let cost_usd = after.cost_usd.map(|cost| cost - before.cost_usd.unwrap_or(0.0));
        let used = Usage {
            input: after.input - before.input,
            output: after.output - before.output,
            cache_write: after.cache_write - before.cache_write,
            cache_read: after.cache_read - before.cache_read,
            total: 0,
            cost_usd,
        };
        answer["usage"] = counted(used);
    }
    if let Some(meta) = meta {
        answer["_meta"] = meta;
    }
    Ok(answer)
}
