//! What a session says, on the wire; and what it asks the client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use subagent_model::Usage;
use subagent_model::text::cut_at_boundary;
use tokio::sync::{mpsc, oneshot};

use super::frame;
use crate::conversation::{Call, Message};
use crate::session::{Host, News, Permit};
use crate::tools::Kind;

/// Most bytes of a result that are shown; the model has all of it.
const SHOWN_BYTES: usize = 16 * 1024;

/// The way to the client, shared by all sessions.
#[derive(Debug)]
pub(super) struct Line {
    out: mpsc::UnboundedSender<Vec<u8>>,
    asked: Mutex<HashMap<u64, oneshot::Sender<Option<Value>>>>,
    ids: AtomicU64,
    /// The client wants notices.
    pub(super) notices: AtomicBool,
}

impl Line {
    pub(super) fn new(out: mpsc::UnboundedSender<Vec<u8>>) -> Self {
        Self { out, asked: Mutex::default(), ids: AtomicU64::new(1), notices: AtomicBool::new(false) }
    }

    /// Sends a line. Where nobody reads any more, the end of the input says so too.
    pub(super) fn send(&self, line: Vec<u8>) {
        let _ = self.out.send(line);
    }

    /// The client has answered.
    pub(super) fn answered(&self, id: &Value, result: Option<Value>) {
        let id = id.as_u64().or_else(|| id.as_str()?.parse().ok());
        let waiting = id.and_then(|id| self.asked().remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(result);
        }
    }

    async fn ask(&self, method: &str, params: &Value) -> Option<Value> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (answer, waits) = oneshot::channel();
        self.asked().insert(id, answer);
        let gone = Forget { line: self, id };
        self.send(frame::request(id, method, params));
        let answer = waits.await.ok().flatten();
        drop(gone);
        answer
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Option<Value>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is given up is not waited for.
struct Forget<'a> {
    line: &'a Line,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.line.asked().remove(&self.id);
    }
}

/// The voice of one session.
#[derive(Debug)]
pub(super) struct Voice {
    pub(super) line: Arc<Line>,
    pub(super) session: String,
}

impl Voice {
    fn update(&self, update: &Value) {
        self.line.send(frame::note("session/update", &json!({"sessionId": self.session, "update": update})));
    }

    fn notice(&self, severity: &str, title: &str, meta: Option<Value>) {
        if !self.line.notices.load(Ordering::Relaxed) {
            return;
        }
        let mut update = json!({"sessionUpdate": "notice", "severity": severity, "title": title});
        if let Some(meta) = meta {
            update["_meta"] = meta;
        }
        self.update(&update);
    }

    /// What was said so far, for a client that loads the session.
    pub(super) fn replay(&self, messages: &[Message]) {
        for (number, message) in messages.iter().enumerate() {
            let chunk = |kind: &str, text: &str| {
                json!({"sessionUpdate": kind, "messageId": format!("h{number}"),
                    "content": {"type": "text", "text": text}})
            };
            match message {
                Message::User(text) => self.update(&chunk("user_message_chunk", text)),
                Message::Assistant(reply) => {
                    if !reply.text.is_empty() {
                        self.update(&chunk("agent_message_chunk", &reply.text));
                    }
                    for call in &reply.calls {
                        self.update(&json!({"sessionUpdate": "tool_call", "toolCallId": call.id,
                            "title": call.tool, "kind": "other", "status": "pending", "rawInput": call.input}));
                    }
                }
                Message::Results(results) => {
                    for result in results {
                        self.update(&ended(&result.call, &result.text, result.failed));
                    }
                }
            }
        }
    }
}

impl Host for Voice {
    fn news(&self, news: News) {
        let text = |kind: &str, message: u64, text: &str| {
            json!({"sessionUpdate": kind, "messageId": format!("m{message}"),
                "content": {"type": "text", "text": text}})
        };
        match news {
            News::Text { message, text: part } => self.update(&text("agent_message_chunk", message, &part)),
            News::Thought { message, text: part } => {
                self.update(&text("agent_thought_chunk", message, &part));
            }
            News::Called { call, title, kind } => {
                self.update(&json!({"sessionUpdate": "tool_call", "toolCallId": call.id, "title": title,
                    "name": call.tool, "kind": word(kind), "status": "in_progress", "rawInput": call.input}));
            }
            News::CallEnded { id, text, failed } => self.update(&ended(&id, &text, failed)),
            News::Turn { more, usage, context, window } => {
                let mut turn = json!({"more": more});
                if let Some(usage) = usage {
                    turn["usage"] = counted(usage);
                }
                self.update(&json!({"sessionUpdate": "usage_update", "used": context, "size": window,
                    "_meta": {"subagent/turn": turn}}));
            }
            News::Compacting { number } => {
                self.update(
                    &json!({"sessionUpdate": "compaction_update", "compactionId": format!("c{number}"),
                    "status": "in_progress"}),
                );
            }
            News::Compacted { number, usage, failed } => {
                let status = if failed.is_some() { "failed" } else { "completed" };
                let mut update = json!({"sessionUpdate": "compaction_update",
                    "compactionId": format!("c{number}"), "status": status});
                if let Some(usage) = usage {
                    update["_meta"] = json!({"subagent/used": counted(usage)});
                }
                self.update(&update);
                if let Some(why) = failed {
                    self.notice("warning", &format!("the context could not be summed up: {why}"), None);
                }
            }
            News::Notice(text) => self.notice("info", &text, None),
            News::Held { until, why } => {
                let meta = json!({"subagent/held": {"untilMs": until, "class": why.code.as_str()}});
                self.notice("warning", &format!("{}; trying again", why.message), Some(meta));
            }
        }
    }

    fn permit<'a>(&'a self, call: &'a Call, title: &'a str, kind: Kind) -> BoxFuture<'a, Permit> {
        Box::pin(async move {
            let params = json!({"sessionId": self.session,
                "toolCall": {"toolCallId": call.id, "title": title, "name": call.tool, "kind": word(kind),
                    "status": "pending", "rawInput": call.input},
                "options": [
                    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                    {"optionId": "no", "name": "Deny", "kind": "reject_once"}]});
            let answer = self.line.ask("session/request_permission", &params).await;
            let outcome = answer.as_ref().map(|answer| &answer["outcome"]);
            match outcome.and_then(|outcome| outcome["optionId"].as_str()) {
                Some("yes") => Permit::Yes,
                Some(_) => Permit::No(String::from("it was denied")),
                None => Permit::No(String::from("nobody permitted it")),
            }
        })
    }
}

fn ended(id: &str, text: &str, failed: bool) -> Value {
    let shown = cut_at_boundary(text, SHOWN_BYTES);
    json!({"sessionUpdate": "tool_call_update", "toolCallId": id,
        "status": if failed { "failed" } else { "completed" },
        "content": [{"type": "content", "content": {"type": "text", "text": shown}}]})
}

/// Counts in the words that the answer to a prompt has for them.
pub(super) fn counted(usage: Usage) -> Value {
    let mut counted = json!({"inputTokens": usage.input, "outputTokens": usage.output,
        "cachedReadTokens": usage.cache_read, "cachedWriteTokens": usage.cache_write,
        "totalTokens": usage.input + usage.output + usage.cache_read + usage.cache_write});
    if let Some(cost) = usage.cost_usd {
        counted["costUsd"] = json!(cost);
    }
    counted
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Search => "search",
        Kind::Edit => "edit",
        Kind::Execute => "execute",
        Kind::Fetch => "fetch",
        Kind::Other => "other",
    }
}
