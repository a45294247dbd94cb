//! The conversation with `pi --mode rpc`: commands and their answers, and events. A state machine without IO.
//!
//! A turn ends with `agent_settled` and nothing before it; then the sums of the session are looked at, and what is left in
//! the queue is taken out of it, so that no message comes along with the next prompt. The ids of our commands say what
//! they are, so that the log of a conversation is enough to go on with it: `prompt:N`, `mN` for message N, `interrupt`.

mod hearing;

use serde_json::Value;
use subagent_provider::{Attached, Codec, Heard, Job, Order, Said, WasTold};

use super::dialogs::Dialogs;
use super::spending::Spending;
use super::turn::Turn;
use super::words::{command, message};
use crate::bounds::{MOST_NOISE, attributed, noise};
use crate::ids::{self, Prompts};

/// The ids of our commands.
const OPEN: &str = "open";
const FIRST_LOOK: &str = "open:stats";
const LOOK: &str = "stats";
const INTERRUPT: &str = "interrupt";
const CLEAR_FIRST: &str = "interrupt:clear";
const CLEAR_REST: &str = "clear";

/// The codec of one pi.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rpc {
    stage: Stage,
    prompts: Prompts,
    turn: Option<Turn>,
    spending: Spending,
    dialogs: Dialogs,
    /// It was found to be open, and that was not said yet.
    unsaid: bool,
    /// Its model is known to take no images: pi would leave them out in silence.
    blind: bool,
    noise: u8,
}

/// How far the conversation is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Stage {
    /// Not begun.
    #[default]
    New,
    /// We have asked how it stands. The session that it was to continue, and the one that it has.
    Opening { expected: Option<String>, session: Option<String> },
    /// It takes prompts.
    Open,
    /// It cannot be spoken with.
    Broken,
}

impl Codec for Rpc {
    fn open(&mut self, job: &Job) -> Vec<u8> {
        self.stage = Stage::Opening { expected: job.session.clone(), session: None };
        [command(OPEN, "get_state"), command(FIRST_LOOK, "get_session_stats")].concat()
    }

    fn hear(&mut self, line: &[u8]) -> Heard {
        let mut heard = Heard::default();
        if self.stage == Stage::Broken || line.trim_ascii().is_empty() {
            return heard;
        }
        if std::mem::take(&mut self.unsaid) {
            heard.said.push(Said::Opened { session: None });
        }
        let read = serde_json::from_slice::<Value>(line).ok();
        match read.as_ref().and_then(|event| Some((event["type"].as_str()?, event))) {
            Some(("response", event)) => {
                if let Ok(response) = serde_json::from_value(event.clone()) {
                    self.answered(&response, &mut heard);
                }
            }
            Some((kind, event)) => self.event(kind, event, &mut heard),
            None if self.noise < MOST_NOISE => {
                self.noise += 1;
                heard.said.push(Said::Notice(noise(line)));
            }
            None => {}
        }
        self.finish(&mut heard);
        heard
    }

    fn tell(&mut self, order: &Order) -> Result<Vec<u8>, String> {
        // It ends with its input.
        if *order == Order::Close {
            return Ok(vec![]);
        }
        if self.stage != Stage::Open {
            let why =
                if self.stage == Stage::Broken { "it cannot be spoken with" } else { "it is not ready yet" };
            return Err(why.to_owned());
        }
        match order {
            Order::Prompt { attached, .. } | Order::Steer { attached, .. }
                if self.blind && attached.iter().any(Attached::is_image) =>
            {
                Err(String::from("its model takes no images, and pi would leave them out"))
            }
            Order::Prompt { number, from, text, attached } => {
                if self.turn.is_some() {
                    return Err(String::from("its turn is not over"));
                }
                let id = self.prompts.next(*number);
                let text = if number.is_some() { attributed(from, text) } else { text.clone() };
                let prompt = message(&id, "prompt", &text, attached);
                self.turn = Some(Turn::begun(id));
                Ok(prompt)
            }
            Order::Steer { number, from, text, attached } => {
                let turn = self.turn.as_mut().filter(|turn| turn.settled.is_none());
                let turn = turn.ok_or("its turn is over")?;
                if turn.steers.has(*number) {
                    return Err(String::from("it was given this message before"));
                }
                let text = attributed(from, text);
                if !turn.accepted {
                    turn.steers.hold(*number, text, attached.clone());
                    return Ok(vec![]);
                }
                turn.steers.give(*number);
                Ok(message(&ids::of_message(*number), "steer", &text, attached))
            }
            Order::Interrupt => {
                let turn = self.turn.as_mut().filter(|turn| turn.settled.is_none());
                let turn = turn.ok_or("no turn is open")?;
                if !turn.accepted {
                    turn.cancel = true;
                    return Ok(vec![]);
                }
                if turn.aborts > 0 || turn.clears > 0 {
                    return Err(String::from("its turn is being cancelled"));
                }
                Ok(interrupt(turn, &mut self.dialogs))
            }
            Order::Answer { key, answer, .. } => self.dialogs.answer(key, answer),
            Order::StopInner { .. } => Err(String::from("pi tells of no agents of its own")),
            Order::Close => Ok(vec![]),
        }
    }

    fn recall(&mut self, line: &[u8]) -> Vec<WasTold> {
        let Ok(told) = serde_json::from_slice::<Value>(line) else { return vec![] };
        let id = told["id"].as_str().unwrap_or_default();
        match told["type"].as_str().unwrap_or_default() {
            "prompt" => {
                self.is_open();
                self.turn = Some(Turn::begun(id.to_owned()));
                vec![self.prompts.recall(id)]
            }
            "steer" => {
                self.is_open();
                let Some(number) = ids::message(id) else { return vec![] };
                let turn = self.turn.get_or_insert_with(Turn::found);
                turn.steers.give(number);
                vec![WasTold::Message(number)]
            }
            "clear_queue" if id == CLEAR_FIRST => {
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.clears == 0) {
                    turn.clears = 1;
                }
                vec![]
            }
            "abort" => {
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.aborts == 0) {
                    turn.aborts = 1;
                }
                vec![WasTold::Interrupt]
            }
            "extension_ui_response" => {
                self.dialogs.answered(id);
                vec![WasTold::Answer(id.to_owned())]
            }
            _ => vec![],
        }
    }
}

impl Rpc {
    /// It was spoken to: it was open, whatever of the beginning is lost.
    fn is_open(&mut self) {
        if matches!(self.stage, Stage::Opening { .. }) {
            self.stage = Stage::Open;
            self.unsaid = true;
        }
    }
}

/// The queue is cleared first: what is in it would come along with the next prompt. Dialogs are cancelled last: an abort
/// waits for them.
fn interrupt(turn: &mut Turn, dialogs: &mut Dialogs) -> Vec<u8> {
    turn.clears += 1;
    turn.aborts += 1;
    [command(CLEAR_FIRST, "clear_queue"), command(INTERRUPT, "abort"), dialogs.cancel()].concat()
}
