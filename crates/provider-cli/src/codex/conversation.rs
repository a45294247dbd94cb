//! The conversation with an app-server: one thread, of which it is made sure that its turns are ours. A state machine
//! without IO.
//!
//! The ids of our requests say what they are, so that the log of a conversation is enough to go on with it: `prompt:N`,
//! `mN` for message N, `interrupt`, and `open:...` with the thread that was meant.

mod hearing;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subagent_model::MessageNumber;
use subagent_provider::{Attached, Codec, Heard, Job, Order, Said, TurnEnd, WasTold, with_texts};

use super::asks::Asks;
use super::frames::{Frame, request};
use super::inner::Inners;
use super::limits::Limits;
use super::opening::{Plan, Wish};
use super::spending::Spending;
use super::turn::Turn;
use crate::bounds::{MOST_NOISE, attributed, noise};
use crate::ids::{self, Prompts};

/// The id of requests to cancel our turn.
const INTERRUPT: &str = "interrupt";
/// The id of requests to cancel turns below ours.
const INTERRUPT_INNER: &str = "interrupt:inner";

/// The codec of one app-server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppServer {
    stage: Stage,
    wish: Option<Wish>,
    prompts: Prompts,
    turn: Option<Turn>,
    last: Option<Last>,
    spending: Spending,
    limits: Limits,
    asks: Asks,
    inners: Inners,
    /// What changes of files are about, by item: whoever asks for a permission does not say it again.
    changes: BTreeMap<String, Vec<String>>,
    /// The names of messages come back with their items.
    echoes: bool,
    /// It was found to be open, and that was not said yet.
    unsaid: bool,
    noise: u8,
}

/// How far the conversation is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Stage {
    /// Not begun.
    #[default]
    New,
    /// We have said hello.
    Greeting(Plan),
    /// The thread is being opened.
    Opening(Plan),
    /// It takes prompts.
    Open(String),
    /// It cannot be spoken with.
    Broken,
}

/// The turn before.
#[derive(Debug, Clone, PartialEq)]
struct Last {
    turn: Option<String>,
    end: TurnEnd,
}

impl AppServer {
    fn prompt(&self, id: &str, thread: &str, text: &str, attached: &[Attached]) -> Vec<u8> {
        let input = input(text, attached);
        let mut params = json!({ "threadId": thread, "input": input, "clientUserMessageId": id });
        if let Some(schema) = self.wish.as_ref().and_then(|wish| wish.schema.as_ref()) {
            params["outputSchema"] = schema.clone();
        }
        request(id, "turn/start", &params)
    }
}

impl Codec for AppServer {
    fn open(&mut self, job: &Job) -> Vec<u8> {
        let plan = Plan::of(job);
        self.wish = Some(Wish::of(&job.spec));
        let client = json!({ "name": "subagent", "title": "subagent", "version": env!("CARGO_PKG_VERSION") });
        let hello = request(&plan.id(), "initialize", &json!({ "clientInfo": client }));
        self.stage = Stage::Greeting(plan);
        hello
    }

    fn hear(&mut self, line: &[u8]) -> Heard {
        let mut heard = Heard::default();
        if self.stage == Stage::Broken || line.trim_ascii().is_empty() {
            return heard;
        }
        if let (true, Stage::Open(thread)) = (std::mem::take(&mut self.unsaid), &self.stage) {
            heard.said.push(Said::Opened { session: Some(thread.clone()) });
        }
        match Frame::read(line) {
            Some(Frame::Answer { id, outcome }) => self.answered(&id, outcome, &mut heard),
            Some(Frame::Request { id, method, params }) => self.asked(&id, &method, &params, &mut heard),
            Some(Frame::Note(note)) => self.noted(note, &mut heard),
            None if self.noise < MOST_NOISE => {
                self.noise += 1;
                heard.said.push(Said::Notice(noise(line)));
            }
            None => {}
        }
        if self.stage != Stage::Broken {
            self.release(&mut heard);
            self.finish(&mut heard);
        }
        heard
    }

    fn tell(&mut self, order: &Order) -> Result<Vec<u8>, String> {
        // It ends with its input.
        if *order == Order::Close {
            return Ok(vec![]);
        }
        let Stage::Open(thread) = &self.stage else {
            let why =
                if self.stage == Stage::Broken { "it cannot be spoken with" } else { "it is not ready yet" };
            return Err(why.to_owned());
        };
        match order {
            Order::Prompt { number, from, text, attached } => {
                if self.turn.is_some() {
                    return Err(String::from("its turn is not over"));
                }
                let id = self.prompts.next(*number);
                let text = if number.is_some() { attributed(from, text) } else { text.clone() };
                let prompt = self.prompt(&id, thread, &text, attached);
                self.turn = Some(Turn::begun(id));
                Ok(prompt)
            }
            Order::Steer { number, from, text, attached } => {
                let turn = self.turn.as_mut().filter(|turn| turn.over.is_none());
                let turn = turn.ok_or("its turn is over")?;
                if turn.steers.has(*number) {
                    return Err(String::from("it was given this message before"));
                }
                let text = attributed(from, text);
                let Some(id) = turn.id.clone().filter(|_| turn.live) else {
                    turn.steers.hold(*number, text, attached.clone());
                    return Ok(vec![]);
                };
                turn.steers.give(*number);
                Ok(steer(thread, &id, *number, &text, attached))
            }
            Order::Interrupt => {
                let turn = self.turn.as_mut().filter(|turn| turn.over.is_none());
                let turn = turn.ok_or("no turn is open")?;
                let Some(id) = turn.id.as_ref().filter(|_| turn.live) else {
                    turn.cancel = true;
                    return Ok(vec![]);
                };
                let mut bytes = interrupt(thread, id);
                for (thread, turn) in self.inners.live() {
                    let params = json!({ "threadId": thread, "turnId": turn });
                    bytes.extend(request(INTERRUPT_INNER, "turn/interrupt", &params));
                }
                Ok(bytes)
            }
            Order::Answer { key, answer, .. } => self.asks.answer(key, answer),
            Order::StopInner { .. } => {
                Err(String::from("codex announces no way to stop one of its own agents"))
            }
            Order::Close => Ok(vec![]),
        }
    }

    fn recall(&mut self, line: &[u8]) -> Vec<WasTold> {
        let Some(frame) = Frame::read(line) else { return vec![] };
        match frame {
            Frame::Answer { id, outcome: Ok(_) } => {
                self.asks.resolved(&id);
                vec![WasTold::Answer(id.to_string())]
            }
            Frame::Request { id, method, params } => {
                let id = id.as_str().unwrap_or_default();
                self.recall_request(id, &method, &params).into_iter().collect()
            }
            Frame::Answer { .. } | Frame::Note(_) => vec![],
        }
    }
}

impl AppServer {
    fn recall_request(&mut self, id: &str, method: &str, params: &Value) -> Option<WasTold> {
        match method {
            "initialize" => {
                if let (Stage::Greeting(plan), Some(meant)) = (&mut self.stage, Plan::from_id(id)) {
                    *plan = meant;
                }
                None
            }
            "turn/start" => {
                self.is_open(params);
                self.turn = Some(Turn::begun(id.to_owned()));
                Some(self.prompts.recall(id))
            }
            "turn/steer" => {
                self.is_open(params);
                let number = ids::message(id)?;
                let turn = self.turn.get_or_insert_with(|| {
                    // It was on its way when its turn ended: that is said again once it has its last word.
                    let last = self.last.clone();
                    let id = params["expectedTurnId"].as_str().map(str::to_owned);
                    Turn::again(id, last.map(|last| last.end))
                });
                turn.steers.give(number);
                Some(WasTold::Message(number))
            }
            "turn/interrupt" if id == INTERRUPT => Some(WasTold::Interrupt),
            _ => None,
        }
    }

    /// A turn of the thread was spoken of: it was open, whatever of the beginning is lost.
    fn is_open(&mut self, params: &Value) {
        if let (Stage::Greeting(_) | Stage::Opening(_), Some(thread)) =
            (&self.stage, params["threadId"].as_str())
        {
            self.stage = Stage::Open(thread.to_owned());
            self.unsaid = true;
        }
    }
}

/// Images are read by codex itself, from where they are kept.
fn input(text: &str, attached: &[Attached]) -> Value {
    let text = with_texts(text, attached);
    let images = attached.iter().filter(|file| file.is_image());
    let images = images.map(|file| json!({ "type": "localImage", "path": file.path }));
    let text = json!({ "type": "text", "text": text, "text_elements": [] });
    images.chain([text]).collect()
}

fn steer(thread: &str, turn: &str, number: MessageNumber, text: &str, attached: &[Attached]) -> Vec<u8> {
    let id = ids::of_message(number);
    let params = json!({
        "threadId": thread,
        "expectedTurnId": turn,
        "input": input(text, attached),
        "clientUserMessageId": id,
    });
    request(&id, "turn/steer", &params)
}

fn interrupt(thread: &str, turn: &str) -> Vec<u8> {
    request(INTERRUPT, "turn/interrupt", &json!({ "threadId": thread, "turnId": turn }))
}
