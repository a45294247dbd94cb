//! What is heard of pi, and what it means for our turn.

use serde_json::Value;
use subagent_model::ErrorCode;
use subagent_provider::{Heard, Said, TurnEnd};

use super::super::dialogs::Shown;
use super::super::failures;
use super::super::words::{Message, Response, Spent, command, message, text_of};
use super::{CLEAR_FIRST, CLEAR_REST, FIRST_LOOK, INTERRUPT, LOOK, OPEN, Rpc, Stage, interrupt};
use crate::bounds::{DETAIL_BYTES, NAME_BYTES, as_text, cut, failure};
use crate::ids;

impl Rpc {
    pub(super) fn answered(&mut self, response: &Response, heard: &mut Heard) {
        let Some(id) = response.id.as_deref() else {
            let why = cut(response.why(), DETAIL_BYTES);
            return heard.said.push(Said::Notice(format!("pi could not read what it was told: {why}")));
        };
        match id {
            OPEN => self.state(response, heard),
            FIRST_LOOK => self.looked_first(response, heard),
            LOOK => {
                let sums = Spent::of_session(&response.data);
                heard.said.extend(sums.and_then(|sums| self.spending.look(sums)).map(Said::Used));
                if let Some(turn) = &mut self.turn {
                    turn.looked = true;
                }
            }
            CLEAR_FIRST | CLEAR_REST => {
                if let Some(turn) = &mut self.turn {
                    let removed = response.data["steering"].as_array().map_or(0, Vec::len);
                    heard.said.extend(turn.cleared(removed));
                }
            }
            INTERRUPT => {
                if let Some(turn) = &mut self.turn {
                    turn.aborts = turn.aborts.saturating_sub(1);
                }
            }
            id => self.answered_in_turn(id, response, heard),
        }
    }

    fn state(&mut self, response: &Response, heard: &mut Heard) {
        let Stage::Opening { expected, session } = &mut self.stage else { return };
        if !response.success {
            let message = format!("pi does not say how it stands: {}", response.why());
            return self.not_open(ErrorCode::StartFailed, &message, heard);
        }
        let data = &response.data;
        let Some(id) = data["sessionId"].as_str().filter(|id| (1..=NAME_BYTES).contains(&id.len())) else {
            self.stage = Stage::Broken;
            return heard.said.push(Said::Broken(String::from("its session has no name")));
        };
        if let Some(expected) = expected.as_deref().filter(|expected| *expected != id) {
            let message = format!("pi has begun another session than {expected:?}");
            return self.not_open(ErrorCode::SessionGone, &message, heard);
        }
        *session = Some(id.to_owned());
        let takes = data["model"]["input"].as_array();
        self.blind = takes.is_some_and(|takes| !takes.iter().any(|kind| kind == "image"));
        if let (Some(provider), Some(model)) =
            (data["model"]["provider"].as_str(), data["model"]["id"].as_str())
        {
            heard.said.push(Said::Model(cut(&format!("{provider}/{model}"), NAME_BYTES)));
        }
    }

    fn looked_first(&mut self, response: &Response, heard: &mut Heard) {
        let Stage::Opening { session: Some(session), .. } = &self.stage else { return };
        if let Some(sums) = Spent::of_session(&response.data) {
            self.spending.look(sums);
        }
        heard.said.push(Said::Opened { session: Some(session.clone()) });
        self.stage = Stage::Open;
    }

    fn not_open(&mut self, code: ErrorCode, message: &str, heard: &mut Heard) {
        self.stage = Stage::Broken;
        heard.said.push(Said::Done(TurnEnd::Failed(failure(code, message, None))));
    }

    fn answered_in_turn(&mut self, id: &str, response: &Response, heard: &mut Heard) {
        let Some(turn) = &mut self.turn else { return };
        let handled = response.data["disposition"] == "handled";
        if turn.request == id {
            if !response.success || handled {
                let end = if response.success {
                    TurnEnd::Finished { answer: None, truncated: false }
                } else {
                    TurnEnd::Failed(failures::failed(response.why()))
                };
                return self.no_turn(end, heard);
            }
            turn.accepted = true;
            for (number, text, attached) in turn.steers.release() {
                heard.reply.extend(message(&ids::of_message(number), "steer", &text, &attached));
            }
            if std::mem::take(&mut turn.cancel) {
                heard.reply.extend(interrupt(turn, &mut self.dialogs));
            }
        } else if let Some(number) = ids::message(id) {
            if response.success && !handled {
                turn.steers.accept(number);
            } else if turn.steers.settle(number) {
                heard.said.push(if handled { Said::Took(number) } else { Said::Declined(number) });
            }
        }
    }

    /// No turn came of a prompt.
    fn no_turn(&mut self, end: TurnEnd, heard: &mut Heard) {
        let mut turn = self.turn.take().unwrap_or_default();
        heard.said.extend(turn.steers.take_all().into_iter().map(Said::Declined));
        heard.said.push(Said::Done(end));
    }

    pub(super) fn event(&mut self, kind: &str, event: &Value, heard: &mut Heard) {
        let notice = |text: String| Said::Notice(cut(&text, DETAIL_BYTES));
        match kind {
            "extension_ui_request" => {
                match self.dialogs.show(event, self.turn.as_ref().is_some_and(|turn| turn.aborts == 0)) {
                    Shown::Ask(ask) => heard.said.push(Said::Asked(ask)),
                    Shown::Notice(text) => heard.said.push(Said::Notice(text)),
                    Shown::Cancelled(reply, why) => {
                        heard.reply.extend(reply);
                        heard.said.push(Said::Notice(why));
                    }
                    Shown::Nothing => {}
                }
            }
            "extension_error" => {
                let path = event["extensionPath"].as_str().unwrap_or("?");
                heard.said.push(notice(format!("an extension failed, {path}: {}", as_text(&event["error"]))));
            }
            _ => {}
        }
        // What extensions begin by themselves, before our prompt was taken or between two, is no turn of ours.
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.accepted) else { return };
        match kind {
            "message_update" => {
                let update = &event["assistantMessageEvent"];
                if let (true, Some(delta)) = (update["type"] == "text_delta", update["delta"].as_str()) {
                    heard.said.push(Said::Delta(delta.to_owned()));
                }
            }
            "message_end" => {
                let Some(message) = Message::of_model(&event["message"]) else { return };
                let (thoughts, text) = (message.thoughts(), message.text());
                if !thoughts.trim().is_empty() {
                    heard.said.push(Said::Thought(thoughts));
                }
                if turn.message(&message, &text) && !text.is_empty() {
                    heard.said.push(Said::Message(text));
                }
                heard.said.extend(self.spending.message(message.usage).map(Said::Used));
            }
            "turn_end" => {
                // Of a broken one the model had no turn: it is tried again, or all is over.
                if let Some(message) = Message::of_model(&event["message"])
                    && !matches!(message.stop_reason.as_str(), "error" | "aborted")
                {
                    heard.said.push(Said::Turn { more: message.stop_reason == "toolUse" });
                }
            }
            "tool_execution_start" => {
                if let (Some(id), Some(name)) = (event["toolCallId"].as_str(), event["toolName"].as_str()) {
                    let input = Some(&event["args"]).filter(|args| !args.is_null()).map(as_text);
                    let (id, name) = (cut(id, NAME_BYTES), cut(name, NAME_BYTES));
                    heard.said.push(Said::ToolStarted { id, name, input });
                }
            }
            "tool_execution_end" => {
                if let Some(id) = event["toolCallId"].as_str() {
                    let output = text_of(&event["result"]["content"], "text");
                    let output = Some(output).filter(|output| !output.is_empty());
                    let failed = event["isError"].as_bool();
                    heard.said.push(Said::ToolEnded { id: cut(id, NAME_BYTES), failed, output });
                }
            }
            "queue_update" => {
                let queue = event["steering"].as_array().map_or(0, Vec::len);
                heard.said.extend(turn.queue_is(queue));
            }
            "compaction_end" => match event["errorMessage"].as_str() {
                Some(why) => heard.said.push(notice(format!("its context could not be shortened: {why}"))),
                None if event["aborted"] != true && !event["result"].is_null() => {
                    heard.said.push(Said::Compacted);
                }
                None => {}
            },
            "auto_retry_start" => {
                let why = event["errorMessage"].as_str().unwrap_or_default();
                heard.said.push(notice(format!("it tries again: {why}")));
                if failures::is_of_a_limit(why) {
                    heard.said.push(Said::HeldUp { until: None });
                }
            }
            "agent_settled" if turn.settled.is_none() => {
                turn.settled = Some(event["aborted"] == true);
                heard.reply.extend(command(LOOK, "get_session_stats"));
            }
            _ => {}
        }
    }

    /// Says the end of a turn once everything is answered; takes out of the queue what nobody will read.
    pub(super) fn finish(&mut self, heard: &mut Heard) {
        let Some(turn) = &mut self.turn else { return };
        if turn.is_to_be_cleared() {
            turn.clears += 1;
            heard.reply.extend(command(CLEAR_REST, "clear_queue"));
        }
        if let Some(end) = turn.end() {
            self.turn = None;
            self.dialogs.close();
            heard.said.push(Said::Done(end));
        }
    }
}
