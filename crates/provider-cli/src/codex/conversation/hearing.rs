//! What is heard of an app-server, and what it means for our thread and our turn.

use serde_json::Value;
use subagent_model::{ErrorCode, ErrorInfo};
use subagent_provider::{Heard, Said, TurnEnd};

use super::super::asks::{Asked, FAILED};
use super::super::failures::{TurnError, not_carried_out, not_opened};
use super::super::frames::{Fault, Note, notify, refuse};
use super::super::items::{self, Phase};
use super::super::opening::{Plan, THREAD};
use super::super::spending::Spending;
use super::super::turn::Turn;
use super::{AppServer, Last, Stage, interrupt, steer};
use crate::bounds::{DETAIL_BYTES, MOST_ASKS, NAME_BYTES, cut, failure};
use crate::ids;

impl AppServer {
    pub(super) fn answered(&mut self, id: &Value, outcome: Result<Value, Fault>, heard: &mut Heard) {
        let Some(id) = id.as_str() else { return };
        match (&self.stage, outcome) {
            (Stage::Greeting(plan), outcome) if id.starts_with("open:") => match outcome {
                Ok(_) => {
                    heard.reply.extend(notify("initialized"));
                    heard.reply.extend(self.wish.as_ref().map(|wish| wish.open(plan)).unwrap_or_default());
                    self.stage = Stage::Opening(plan.clone());
                }
                Err(fault) => self.not_open(not_opened(false, &fault), heard),
            },
            (Stage::Opening(plan), outcome) if id == THREAD => match outcome {
                Ok(opened) => self.opened(&plan.clone(), &opened, heard),
                Err(fault) => self.not_open(not_opened(*plan != Plan::Start, &fault), heard),
            },
            (Stage::Open(_), outcome) => self.answered_in_turn(id, outcome, heard),
            _ => {}
        }
    }

    fn not_open(&mut self, error: ErrorInfo, heard: &mut Heard) {
        self.stage = Stage::Broken;
        heard.said.push(Said::Done(TurnEnd::Failed(error)));
    }

    fn opened(&mut self, plan: &Plan, opened: &Value, heard: &mut Heard) {
        let Some(thread) = opened["thread"]["id"].as_str().filter(|id| (1..=NAME_BYTES).contains(&id.len()))
        else {
            return self.broken("its thread has no name", heard);
        };
        let Some(wish) = &self.wish else { return self.broken("it opened a thread unasked", heard) };
        if let Some(why) = wish.rights.missing(opened) {
            let message = format!("codex did not take the rights of this run: {why}");
            return self.not_open(failure(ErrorCode::NotCapable, &message, None), heard);
        }
        if let Some(model) = opened["model"].as_str() {
            heard.said.push(Said::Model(cut(model, NAME_BYTES)));
        }
        heard.said.extend(wish.differs(opened).map(Said::Notice));
        if *plan == Plan::Start {
            self.spending = Spending::of_new();
        }
        self.stage = Stage::Open(thread.to_owned());
        heard.said.push(Said::Opened { session: Some(thread.to_owned()) });
    }

    fn answered_in_turn(&mut self, id: &str, outcome: Result<Value, Fault>, heard: &mut Heard) {
        let Some(turn) = &mut self.turn else { return };
        if turn.request == id && turn.id.is_none() {
            match outcome {
                Ok(begun) => self.begun(&begun, heard),
                Err(fault) => {
                    let error = not_carried_out("the turn could not be begun", &fault);
                    turn.over = Some(TurnEnd::Failed(error));
                }
            }
        } else if let Some(number) = ids::message(id) {
            match outcome {
                Ok(_) => turn.steers.accept(number),
                // Its turn has changed: it is nobody else's.
                Err(_) => {
                    if turn.steers.settle(number) {
                        heard.said.push(Said::Declined(number));
                    }
                }
            }
        }
    }

    /// The request that begins a turn was taken.
    fn begun(&mut self, begun: &Value, heard: &mut Heard) {
        let before = self.last.as_ref().and_then(|last| last.turn.clone());
        let Some(turn) = &mut self.turn else { return };
        if !begun["turn"]["id"].as_str().is_some_and(|id| turn.name(id, before.as_deref())) {
            return self.broken("it told of another turn than the one that it began", heard);
        }
        for note in std::mem::take(&mut turn.early) {
            self.ours(&note, heard);
        }
    }

    pub(super) fn asked(&mut self, id: &Value, method: &str, params: &Value, heard: &mut Heard) {
        let below = |ours: &String| params["threadId"].as_str().is_some_and(|thread| thread != ours);
        let open = matches!(&self.stage, Stage::Open(ours) if self.turn.is_some() || below(ours));
        if !open {
            // Nobody can answer.
            heard.reply.extend(refuse(id, FAILED, "no turn is open"));
            let method = cut(method, NAME_BYTES);
            return heard.said.push(Said::Notice(format!(
                "codex asked while no turn was open, and was refused: {method}"
            )));
        }
        let changes = &self.changes;
        match self.asks.ask(id, method, params, |item| changes.get(item).cloned()) {
            Asked::Ask(ask) => heard.said.push(Said::Asked(ask)),
            Asked::Refused(reply, notice) => {
                heard.reply.extend(reply);
                heard.said.push(Said::Notice(notice));
            }
            Asked::Known => {}
        }
    }

    pub(super) fn noted(&mut self, note: Note, heard: &mut Heard) {
        self.remember_changes(&note);
        match note.method.as_str() {
            "account/rateLimits/updated" => return self.limits.update(&note.params["rateLimits"]),
            "serverRequest/resolved" => {
                let key = self.asks.resolved(&note.params["requestId"]);
                return heard.said.extend(key.map(|key| Said::TookBack { key }));
            }
            method => heard.said.extend(items::notice(method, &note.params).map(Said::Notice)),
        }
        let thread = note.thread().or_else(|| note.params["thread"]["id"].as_str()).map(str::to_owned);
        let (Some(thread), Stage::Open(ours)) = (thread, &self.stage) else { return };
        if thread == *ours {
            let before = self.last.as_ref().and_then(|last| last.turn.as_deref());
            let unknown = note.turn().is_some_and(|turn| Some(turn) != before);
            match &mut self.turn {
                Some(turn) if turn.id.is_none() && turn.over.is_none() && unknown => {
                    if !turn.keep(note) {
                        self.broken("it tells of a turn without end and does not say that it began", heard);
                    }
                }
                _ => self.ours(&note, heard),
            }
        } else {
            self.below(&thread, &note, heard);
        }
    }

    /// News of a thread below ours, or of a stranger.
    fn below(&mut self, thread: &str, note: &Note, heard: &mut Heard) {
        let turn = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        let Stage::Open(ours) = &self.stage else { return };
        if !self.inners.is_one(thread, note, turn) {
            return;
        }
        if note.method.starts_with("item/") {
            heard.said.extend(self.inners.item(ours, &note.params["item"]));
        } else {
            heard.said.extend(self.inners.note(thread, note));
        }
        if self.turn.is_none() {
            heard.said.extend(self.inners.background());
        }
    }

    /// News of our thread.
    fn ours(&mut self, note: &Note, heard: &mut Heard) {
        let current = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        let is_current = current.is_some() && current == note.turn();
        if note.method == "thread/tokenUsage/updated" {
            let used = self.spending.update(&note.params["tokenUsage"], is_current);
            heard.said.extend(used.map(Said::Used));
            if let (Some(_), true, Some(turn)) = (used, is_current, &mut self.turn) {
                turn.counted = true;
                heard.said.push(Said::Turn { more: std::mem::take(&mut turn.tools) });
            }
            return;
        }
        let (true, Some(turn)) = (is_current, &mut self.turn) else { return };
        turn.live = true;
        let item = &note.params["item"];
        match note.method.as_str() {
            "item/started" => {
                if let Some(message) = items::text(item) {
                    // What is no answer is told as a whole, once it is there.
                    let may_be = message.phase != Phase::Commentary && message.id.len() <= NAME_BYTES;
                    turn.streams = may_be.then(|| message.id.to_owned());
                }
                if let Some(started) = items::started(item) {
                    turn.tools = true;
                    heard.said.push(started);
                }
                self.item(item, heard);
            }
            "item/completed" => {
                if let Some(message) = items::text(item) {
                    let text = message.text.to_owned();
                    let may_be = turn.answer(&message);
                    heard.said.push(if may_be { Said::Message(text) } else { Said::Thought(text) });
                }
                heard.said.extend(items::ended(item));
                self.item(item, heard);
            }
            "item/agentMessage/delta" => {
                let (of, delta) = (note.params["itemId"].as_str(), note.params["delta"].as_str());
                if let (Some(delta), true) = (delta, of.is_some() && of == turn.streams.as_deref()) {
                    heard.said.push(Said::Delta(delta.to_owned()));
                }
            }
            "turn/plan/updated" => heard.said.extend(items::plan(&note.params)),
            "model/rerouted" => {
                if let Some(model) = note.params["toModel"].as_str() {
                    heard.said.push(Said::Model(cut(model, NAME_BYTES)));
                }
            }
            "error" => {
                let error = TurnError::read(&note.params["error"]);
                if note.params["willRetry"] == true {
                    let text =
                        [Some(error.text()), error.details()].into_iter().flatten().collect::<Vec<_>>();
                    heard.said.push(Said::Notice(cut(&text.join(": "), DETAIL_BYTES)));
                    if error.is_of_a_limit() {
                        heard.said.push(Said::HeldUp { until: self.limits.reset_at_of(error.code()) });
                    }
                    turn.retried = Some(error);
                } else {
                    turn.failure = Some(error);
                }
            }
            "turn/completed" => self.over(&note.params["turn"], heard),
            _ => {}
        }
    }

    /// What an item says beside what it is.
    fn item(&mut self, item: &Value, heard: &mut Heard) {
        let (Some(turn), Stage::Open(ours)) = (&mut self.turn, &self.stage) else { return };
        if items::is_of_user(item) {
            let client = item["clientId"].as_str();
            self.echoes |= client.is_some();
            let number = match client {
                Some(client) => ids::message(client),
                // A peer that does not give names back takes messages in their order.
                None if !self.echoes => turn.steers.first(),
                None => None,
            };
            if let Some(number) = number.filter(|number| turn.steers.settle(*number)) {
                heard.said.push(Said::Took(number));
            }
        }
        heard.said.extend(self.inners.item(ours, item));
    }

    /// The turn has come to its end.
    fn over(&mut self, told: &Value, heard: &mut Heard) {
        let (Some(turn), Stage::Open(thread)) = (&mut self.turn, &self.stage) else { return };
        let end = match told["status"].as_str() {
            Some("completed") => TurnEnd::Finished { answer: Some(turn.final_answer()), truncated: false },
            Some("interrupted") => TurnEnd::Cancelled,
            status => {
                let retried = turn.retried.take();
                let error = match &told["error"] {
                    Value::Null => turn.failure.take().unwrap_or_default(),
                    error => TurnError::read(error),
                };
                let error = error.named_by(retried.as_ref());
                match (status, error.own_limit()) {
                    (Some("failed"), Some(limit)) => TurnEnd::CutOff(limit),
                    (Some("failed"), None) => TurnEnd::Failed(error.info(&self.limits)),
                    _ => {
                        let message = format!("its turn ended as {}", told["status"]);
                        TurnEnd::Failed(failure(ErrorCode::Crashed, &message, None))
                    }
                }
            }
        };
        // A peer that tells of no tokens has had one turn of its model at the least.
        if matches!(end, TurnEnd::Finished { .. }) && !turn.counted {
            heard.said.push(Said::Turn { more: false });
        }
        turn.over.get_or_insert(end);
        self.asks.close(thread);
    }

    /// Tells a turn that has begun what waited for it.
    pub(super) fn release(&mut self, heard: &mut Heard) {
        let (Some(turn), Stage::Open(thread)) = (&mut self.turn, &self.stage) else { return };
        let (true, None, Some(id)) = (turn.live, &turn.over, &turn.id) else { return };
        for (number, text, attached) in turn.steers.release() {
            heard.reply.extend(steer(thread, id, number, &text, &attached));
        }
        if std::mem::take(&mut turn.cancel) {
            heard.reply.extend(interrupt(thread, id));
        }
    }

    /// Says the end of a turn once every message for it has its last word.
    pub(super) fn finish(&mut self, heard: &mut Heard) {
        let is_over = |turn: &&mut Turn| turn.over.is_some() && turn.steers.accepted().is_some();
        let Some(turn) = self.turn.as_mut().filter(is_over) else { return };
        // Accepted, or not even given, and then the turn was over: nobody read them.
        heard.said.extend(turn.steers.take_all().into_iter().map(Said::Declined));
        let Some(Turn { id, over: Some(end), .. }) = self.turn.take() else { return };
        heard.said.extend(self.inners.background());
        heard.said.push(Said::Done(end.clone()));
        self.last = Some(Last { turn: id, end });
    }

    /// Notes what a change of files is about, of whichever thread.
    fn remember_changes(&mut self, note: &Note) {
        let Some((item, paths)) = items::changes(&note.params["item"]) else { return };
        if note.method == "item/completed" {
            self.changes.remove(item);
        } else if item.len() <= NAME_BYTES {
            self.changes.insert(item.to_owned(), paths);
            if self.changes.len() > MOST_ASKS {
                self.changes.pop_first();
            }
        }
    }

    fn broken(&mut self, why: &str, heard: &mut Heard) {
        self.stage = Stage::Broken;
        heard.said.push(Said::Broken(why.to_owned()));
    }
}
