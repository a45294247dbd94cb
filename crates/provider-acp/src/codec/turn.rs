//! A turn: what is said while a prompt is at work, what is asked, and how it ends.
//!
//! The protocol streams parts of messages and never says that a message is whole. A new message begins where its id
//! changes; where the agent gives no ids, at the next call of a tool. The answer is the last message of the prompt: what was
//! said before it, or without any prompt, is none. Turns of the model have no frame here, and none is made up.

use serde_json::Value;
use subagent_model::{ErrorCode, Limit};
use subagent_provider::{Heard, PlanState, PlanStep, Said, TurnEnd};

use super::asks::{self, Waiting};
use super::bounds::{DETAIL_BYTES, MESSAGE_BYTES, TITLE_BYTES, cut, list, name, text};
use super::failure::{self, failure};
use super::form::Form;
use super::frame::{self, Id, RpcError, code};
use super::tools::{Call, Calls, block_text};
use super::{Acp, Stage, own, usage};

/// Most steps of a plan.
const MOST_STEPS: usize = 256;

/// A prompt at work.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn {
    /// The id of its request.
    pub(super) id: u64,
    /// It is to be cancelled.
    pub(super) cancelling: bool,
    calls: Calls,
    message: Message,
    /// Its agent failed beneath it, and may end it as if nothing had happened.
    failed: Option<String>,
    /// The last error that was told on the way.
    error: Option<String>,
    /// It tries again, and nothing came since.
    unheard: bool,
}

/// A message that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Message {
    id: Option<String>,
    text: String,
    /// It was longer than what is kept.
    cut: bool,
}

impl Turn {
    pub(super) fn new(id: u64) -> Self {
        let (calls, message) = (Calls::default(), Message::default());
        Self { id, cancelling: false, calls, message, failed: None, error: None, unheard: false }
    }

    /// codex-acp ends a turn whose model could not be reached like a good one; that its thread failed stands beside it.
    fn beside(&mut self, update: &Value) {
        let codex = &update["_meta"]["codex"];
        if let Some(error) = text(&codex["error"], "message", TITLE_BYTES) {
            self.error = Some(error);
        }
        match codex["threadStatus"]["type"].as_str() {
            Some("systemError") => {
                let error = self.error.clone();
                self.failed = Some(error.unwrap_or_else(|| String::from("its agent failed")));
            }
            Some("active") => self.failed = None,
            _ => {}
        }
    }

    /// A part of a message.
    fn chunk(&mut self, update: &Value) -> Vec<Said> {
        let Some(text) = block_text(&update["content"]) else { return vec![] };
        let id = name(update.get("messageId"));
        let mut said = Vec::new();
        if id.is_some() && id != self.message.id {
            said.extend(self.whole());
            self.message.id = id;
        }
        let room = MESSAGE_BYTES.saturating_sub(self.message.text.len());
        let part = cut(&text, room);
        self.message.cut |= part.len() < text.len();
        self.message.text.push_str(&part);
        if !part.is_empty() {
            self.unheard = false;
            said.push(Said::Delta(part));
        }
        said
    }

    /// The words with which pi-acp says that pi tries again. What it had said by then was no answer, and unless more is
    /// said the turn has failed, whatever it ends with.
    fn retry(&mut self, update: &Value) -> Option<Vec<Said>> {
        let said = block_text(&update["content"])?;
        let said = said.trim();
        let tries = said.starts_with("Retrying (attempt ") && said.ends_with("...");
        if !tries && said != "Retry finished, resuming." {
            return None;
        }
        self.message = Message::default();
        self.unheard = true;
        Some(vec![Said::Notice(said.to_owned())])
    }

    /// The message that is whole now.
    fn whole(&mut self) -> Option<Said> {
        let message = std::mem::take(&mut self.message);
        (!message.text.is_empty()).then_some(Said::Message(message.text))
    }

    /// Something came between: a message without an id is whole.
    fn break_message(&mut self) -> Option<Said> {
        if self.message.id.is_none() { self.whole() } else { None }
    }

    fn called(&mut self, update: &Value) -> Vec<Said> {
        let (new, told) = self.calls.update(update);
        let mut said = Vec::new();
        if new {
            said.extend(self.break_message());
        }
        said.extend(told);
        said
    }
}

impl Acp {
    /// A notification about a session.
    pub(super) fn updated(&mut self, params: &Value) -> Vec<Said> {
        let Some(session) = params.get("sessionId").and_then(Value::as_str) else { return vec![] };
        let update = params.get("update").unwrap_or(&Value::Null);
        let Some(kind) = update.get("sessionUpdate").and_then(Value::as_str) else { return vec![] };
        let own = self.session.as_deref() == Some(session);
        if !own {
            // Of one below it only its own announcements count; what is not known is of nobody's.
            let announces = kind == "subagent_update" && self.below.knows(session);
            return if announces { self.announced_below(Some(session), update) } else { vec![] };
        }
        match (kind, &mut self.turn) {
            ("agent_message_chunk", Some(turn)) => match turn.retry(update) {
                Some(notice) if self.agent.retries_in_text => notice,
                _ => turn.chunk(update),
            },
            ("user_message_chunk", Some(turn)) => turn.break_message().into_iter().collect(),
            ("agent_thought_chunk", Some(_)) => {
                let thought = block_text(&update["content"]).filter(|text| !text.is_empty());
                thought.map(|text| Said::Thought(cut(&text, MESSAGE_BYTES))).into_iter().collect()
            }
            ("tool_call" | "tool_call_update", Some(turn)) => turn.called(update),
            ("plan", Some(_)) => vec![Said::Plan(steps(update.get("entries")))],
            ("plan_update", Some(_)) => vec![Said::Plan(plan_of(&update["plan"]))],
            ("plan_removed", Some(_)) => vec![Said::Plan(vec![])],
            ("compaction_update", Some(_)) => {
                let used = self.agent.own.then(|| own::used_by_compaction(update)).flatten();
                self.compacted(update).into_iter().chain(used).collect()
            }
            ("usage_update", turn) if self.agent.own => {
                let whole = turn.as_mut().and_then(Turn::whole);
                whole.into_iter().chain(own::turn(update)).collect()
            }
            ("usage_update", _) => {
                let cost = update.get("cost").unwrap_or(&Value::Null);
                self.cost.sum(cost, self.prompted).map(Said::Used).into_iter().collect()
            }
            ("notice", _) => {
                let held = self.agent.own.then(|| own::held(update)).flatten();
                notice(update).into_iter().chain(held).collect()
            }
            ("session_info_update", Some(turn)) => {
                turn.beside(update);
                vec![]
            }
            ("config_option_update", _) => {
                self.settings.learn(update);
                if self.stage == Stage::Open { self.model_news().into_iter().collect() } else { vec![] }
            }
            ("current_mode_update", _) => {
                if let Some(mode) = update.get("currentModeId").and_then(Value::as_str) {
                    self.settings.mode_is(mode);
                }
                vec![]
            }
            // While a session is loaded its history comes again, with those below it that are long gone.
            ("subagent_update", _) if self.prompted => self.announced_below(None, update),
            _ => vec![],
        }
    }

    fn announced_below(&mut self, parent: Option<&str>, update: &Value) -> Vec<Said> {
        if name(update.get("sessionId")) == self.session {
            return vec![];
        }
        let mut said: Vec<_> = self.below.update(parent, update).map(Said::Inner).into_iter().collect();
        if self.turn.is_none() {
            said.extend(self.background_news());
        }
        said
    }

    /// How much is at work outside of a turn, where that is news.
    fn background_news(&mut self) -> Option<Said> {
        let live = self.below.live();
        let news = live != self.background;
        self.background = live;
        news.then_some(Said::Background { live })
    }

    fn compacted(&mut self, update: &Value) -> Option<Said> {
        let id = name(update.get("compactionId"))?;
        let done = update.get("status").and_then(Value::as_str) == Some("completed");
        (done && self.compaction.replace(id.clone()) != Some(id)).then_some(Said::Compacted)
    }

    /// What the last turn called is over with it.
    pub(super) fn calls_over(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.calls.clear();
        }
    }

    /// The prompt at work was answered.
    pub(super) fn turn_answered(&mut self, outcome: Result<Value, RpcError>) -> Heard {
        let Some(mut turn) = self.turn.take() else { return Heard::default() };
        let cut = turn.message.cut;
        let mut said: Vec<_> = turn.whole().into_iter().collect();
        let end = match outcome {
            Ok(result) => {
                // Our own agent has told it with each message.
                let used = result.get("usage").filter(|_| !self.agent.own);
                said.extend(used.and_then(usage::of_turn).map(Said::Used));
                let unheard = turn.unheard.then(|| String::from("its model could not be reached"));
                match (end_of(&result, turn.cancelling, cut), turn.failed.take().or(unheard)) {
                    (TurnEnd::Finished { .. }, Some(error)) => {
                        TurnEnd::Failed(failure(ErrorCode::Overloaded, error))
                    }
                    (end, _) => end,
                }
            }
            // Cancelled on our word, however the agent puts it.
            Err(_) if turn.cancelling => TurnEnd::Cancelled,
            Err(error) if error.code == code::CANCELLED => unasked(),
            Err(error) => TurnEnd::Failed(failure::of_turn(&error)),
        };
        said.extend(self.background_news());
        // Nobody waits for these any more. Those below it that are at work do.
        let (own, below) = (self.session.clone(), self.below.clone());
        let over = |session: Option<&str>| {
            below.live() == 0 || session.is_none_or(|session| own.as_deref() == Some(session))
        };
        let mut reply = Vec::new();
        for (key, waiting) in self.asks.take_if(over) {
            reply.extend(waiting.cancelled());
            said.push(Said::TookBack { key });
        }
        said.push(Said::Done(end));
        Heard { said, reply }
    }

    /// The agent asks for something.
    pub(super) fn requested(&mut self, id: Id, method: &str, params: &Value) -> Heard {
        let key = id.key();
        let session = name(params.get("sessionId"));
        let (waiting, ask) = match method {
            "session/request_permission" => {
                let Some(call_id) = params.get("toolCall").and_then(|call| name(call.get("toolCallId")))
                else {
                    return self.malformed(&id, method, "toolCall.toolCallId is missing");
                };
                let own = session == self.session;
                let call = match &mut self.turn {
                    Some(turn) if own => turn.calls.learn(&call_id, &params["toolCall"]).clone(),
                    _ => Call::of(&params["toolCall"]),
                };
                (Waiting::permission(id, session), asks::permission(key.clone(), &call, params))
            }
            "elicitation/create" => {
                let form = match params.get("mode").and_then(Value::as_str) {
                    Some("form") | None => Form::of(params.get("requestedSchema").unwrap_or(&Value::Null)),
                    Some(_) => None,
                };
                let Some(form) = form else {
                    self.asks.take(&key);
                    let said =
                        self.remark(String::from("it wanted something filled in that no text can answer"));
                    return Heard { said, reply: frame::answer(&id, super::words::Filled::Decline) };
                };
                let message = params.get("message").and_then(Value::as_str).unwrap_or("It wants to know:");
                let ask = asks::question(key.clone(), message, &form);
                (Waiting::question(id, session, form), ask)
            }
            other => {
                let shown = cut(other, TITLE_BYTES);
                let said = self.remark(format!("it asked for {shown:?}, which is not served here"));
                return Heard { said, reply: asks::refused(&id, other) };
            }
        };
        // Before the first prompt, between two, and once a turn is to be cancelled nobody could answer.
        let inner = waiting.session.as_deref().is_some_and(|session| self.below.is_cancelling(session));
        let nobody = match &self.turn {
            Some(turn) => turn.cancelling || inner,
            None => self.below.live() == 0 || inner,
        };
        let cancelled = waiting.cancelled();
        if nobody {
            self.asks.take(&key);
            return Heard { said: vec![], reply: cancelled };
        }
        if !self.asks.open(key.clone(), waiting) {
            self.asks.take(&key);
            let said =
                self.remark(String::from("it asked for too many things at once; the last was not asked"));
            return Heard { said, reply: cancelled };
        }
        Heard { said: vec![Said::Asked(ask)], reply: vec![] }
    }

    fn malformed(&mut self, id: &Id, method: &str, why: &str) -> Heard {
        let said = self.remark(format!("its {method} cannot be understood: {why}"));
        Heard { said, reply: frame::refusal(Some(id), code::INVALID_PARAMS, why) }
    }

    /// The agent gives up a request of its own.
    pub(super) fn request_cancelled(&mut self, params: &Value) -> Heard {
        let Some(id) = params.get("requestId").and_then(|id| Id::of_key(&id.to_string())) else {
            return Heard::default();
        };
        let key = id.key();
        match self.asks.take_if_waiting(&key) {
            Some(_) => Heard {
                said: vec![Said::TookBack { key }],
                reply: frame::refusal(Some(&id), code::CANCELLED, "cancelled as asked"),
            },
            None => Heard::default(),
        }
    }
}

/// How an answer ends a turn.
fn end_of(result: &Value, cancelling: bool, truncated: bool) -> TurnEnd {
    match result.get("stopReason").and_then(Value::as_str) {
        Some("end_turn") => TurnEnd::Finished { answer: None, truncated },
        Some("max_tokens") => TurnEnd::Finished { answer: None, truncated: true },
        Some("max_turn_requests") => TurnEnd::CutOff(own::limit(result).unwrap_or(Limit::Turns)),
        Some("cancelled") if cancelling => TurnEnd::Cancelled,
        Some("cancelled") => unasked(),
        Some("refusal") => {
            TurnEnd::Failed(failure(ErrorCode::Refused, "the agent or its model refused the task"))
        }
        Some(other) => {
            let other = cut(other, TITLE_BYTES);
            let message = format!("its turn ended for a reason that is not known here: {other:?}");
            TurnEnd::Failed(failure(ErrorCode::Protocol, message))
        }
        None => TurnEnd::Failed(failure(ErrorCode::Protocol, "its turn ended without a reason")),
    }
}

fn unasked() -> TurnEnd {
    TurnEnd::Failed(failure(ErrorCode::Crashed, "it cancelled its turn, and nobody had asked for that"))
}

fn notice(update: &Value) -> Option<Said> {
    let title = text(update, "title", TITLE_BYTES)?;
    let more = text(update, "description", DETAIL_BYTES).map(|more| format!(": {more}")).unwrap_or_default();
    let severity = match update.get("severity").and_then(Value::as_str) {
        Some(word @ ("warning" | "error")) => format!("{word}: "),
        _ => String::new(),
    };
    Some(Said::Notice(format!("{severity}{title}{more}")))
}

fn plan_of(plan: &Value) -> Vec<PlanStep> {
    match text(plan, "content", DETAIL_BYTES).or_else(|| text(plan, "markdown", DETAIL_BYTES)) {
        Some(text) => vec![PlanStep { text, state: PlanState::Active }],
        None => steps(plan.get("entries")),
    }
}

fn steps(entries: Option<&Value>) -> Vec<PlanStep> {
    let step = |entry: &Value| {
        let state = match entry.get("status").and_then(Value::as_str) {
            Some("completed") => PlanState::Done,
            Some("in_progress") => PlanState::Active,
            _ => PlanState::Pending,
        };
        Some(PlanStep { text: text(entry, "content", TITLE_BYTES)?, state })
    };
    list(entries).iter().take(MOST_STEPS).filter_map(step).collect()
}
