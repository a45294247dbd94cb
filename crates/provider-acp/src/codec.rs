//! The codec of one agent: a state machine without IO, clock or randomness.
//!
//! It opens the session that is asked for (`opening`), then has at most one prompt at work (`turn`). Everything that it
//! must know after a daemon died follows from the lines of both directions: orders are carried out by writing them and
//! then recalling what was written, so that living through a conversation and reading it again come to the same.
//!
//! Ids of our requests are numbers that tell what they are: even ones are counted, odd ones are the prompts that are
//! messages, `2n + 1` for message `n`.

mod asks;
mod bounds;
mod failure;
mod form;
mod frame;
mod inner;
mod opening;
mod own;
mod settings;
mod tools;
mod turn;
mod usage;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use subagent_model::text::cut_at_boundary;
use subagent_model::{MessageNumber, SpawnSpec};
use subagent_provider::{Codec, Heard, Job, Order, Said, WasTold};

use crate::agents::Agent;
use asks::Asks;
use frame::{Frame, NoFrame, code};
use inner::Below;
use opening::Announced;
use settings::{Setting, Settings};
use turn::Turn;
use usage::Cost;

/// Most bytes of a line that are shown.
const EXCERPT_BYTES: usize = 200;
/// Most remarks of ours about what the agent does.
const MOST_REMARKS: u8 = 16;
/// The largest number of a message that an id can be made of: agents keep numbers as doubles.
const LARGEST_NUMBER: u64 = (1 << 52) - 1;

/// The codec of one conversation over the Agent Client Protocol, version 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Acp {
    agent: Agent,
    spec: Option<Arc<SpawnSpec>>,
    /// The session that is continued.
    continues: Option<String>,
    stage: Stage,
    /// How many even ids are used up.
    ids: u64,
    announced: Announced,
    settings: Settings,
    /// The session that is spoken in.
    session: Option<String>,
    turn: Option<Turn>,
    /// The first prompt was given: what came before it is of no run.
    prompted: bool,
    asks: Asks,
    below: Below,
    /// How many subagents of its own it was last said to have at work outside of its turn.
    background: u32,
    cost: Cost,
    model: Option<String>,
    compaction: Option<String>,
    remarks: u8,
    /// What an order made it say, said with what is heard next.
    due: Vec<Said>,
    /// The run, and its prompt where that is known.
    run: u32,
    prompt: Option<Arc<str>>,
    /// The session that is continued does not have the prompt of the run.
    lacks_prompt: bool,
    /// Messages into a turn that it has not answered.
    steers: BTreeSet<u64>,
}

/// How far the conversation is.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// Nothing was said.
    New,
    /// A step of the opening is asked for by the request of this id.
    Opening { id: u64, step: Step },
    /// It takes prompts.
    Open,
    /// Its session is to be closed by the request of this id.
    Closing { id: u64 },
    /// Its session is closed.
    Closed,
    /// It broke its protocol, or could not be opened.
    Over,
}

/// A step of the opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Initialize,
    Session(How),
    Set(Setting),
}

/// How a session is come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    New,
    Load,
    Resume,
    Fork,
}

impl How {
    const ALL: [Self; 4] = [Self::New, Self::Load, Self::Resume, Self::Fork];

    fn method(self) -> &'static str {
        match self {
            Self::New => words::NEW,
            Self::Load => words::LOAD,
            Self::Resume => words::RESUME,
            Self::Fork => words::FORK,
        }
    }

    /// The session is one that there was before.
    fn continues(self) -> bool {
        matches!(self, Self::Load | Self::Resume)
    }
}

impl Acp {
    pub(crate) fn of(agent: &Agent) -> Self {
        Self {
            agent: *agent,
            spec: None,
            continues: None,
            stage: Stage::New,
            ids: 0,
            announced: Announced::default(),
            settings: Settings::default(),
            session: None,
            turn: None,
            prompted: false,
            asks: Asks::default(),
            below: Below::default(),
            background: 0,
            cost: Cost::default(),
            model: None,
            compaction: None,
            remarks: 0,
            due: Vec::new(),
            run: 0,
            prompt: None,
            lacks_prompt: false,
            steers: BTreeSet::new(),
        }
    }

    /// The next even id.
    fn id(&mut self) -> u64 {
        let id = self.ids.saturating_mul(2);
        self.ids += 1;
        id
    }

    /// An id that was used is not used again.
    fn used(&mut self, id: u64) {
        if id.is_multiple_of(2) && id <= LARGEST_NUMBER {
            self.ids = self.ids.max(id / 2 + 1);
        }
    }

    /// It cannot be spoken with any more.
    fn broken(&mut self, why: String) -> Heard {
        self.stage = Stage::Over;
        Heard { said: vec![Said::Broken(why)], reply: vec![] }
    }

    /// A remark for people about what the agent does; only so many of them.
    fn remark(&mut self, text: String) -> Vec<Said> {
        if self.remarks >= MOST_REMARKS {
            return vec![];
        }
        self.remarks += 1;
        vec![Said::Notice(text)]
    }

    fn understood(&mut self, line: &[u8]) -> Heard {
        match frame::read(line) {
            Ok(Frame::Answer { id, outcome }) => match id.number() {
                Some(id) => self.answered(id, outcome),
                None => Heard::default(),
            },
            Ok(Frame::Note { method, params }) => self.noted(&method, &params),
            Ok(Frame::Request { id, method, params }) => self.requested(id, &method, &params),
            Err(NoFrame::UnnamedRequest) => Heard {
                said: vec![],
                reply: frame::refusal(None, code::INVALID_REQUEST, "the id is no number and no short text"),
            },
            // A banner, a log line: it is not what matters, and something that matters may still come.
            Err(NoFrame::Stray) => {
                let line = String::from_utf8_lossy(&line[..line.len().min(EXCERPT_BYTES)]);
                let line = cut_at_boundary(line.trim(), EXCERPT_BYTES);
                let said =
                    self.remark(format!("it wrote a line that is no message of its protocol: {line:?}"));
                Heard { said, reply: vec![] }
            }
        }
    }

    fn answered(&mut self, id: u64, outcome: Result<Value, frame::RpcError>) -> Heard {
        if let Stage::Opening { id: asked, step } = self.stage
            && asked == id
        {
            return self.opened_by(step, outcome);
        }
        if self.turn.as_ref().is_some_and(|turn| turn.id == id) {
            return self.turn_answered(outcome);
        }
        if self.stage == (Stage::Closing { id }) {
            // Refused or not: nothing more is waited for.
            self.stage = Stage::Closed;
            return Heard { said: vec![Said::Closed], reply: vec![] };
        }
        if self.steers.remove(&id) {
            let number = MessageNumber(id / 2);
            let took = outcome.is_ok_and(|result| result["taken"] == true);
            let said = if took { Said::Took(number) } else { Said::Declined(number) };
            return Heard { said: vec![said], reply: vec![] };
        }
        Heard::default()
    }

    fn noted(&mut self, method: &str, params: &Value) -> Heard {
        match method {
            "session/update" => {
                let mut heard = Heard { said: self.updated(params), reply: vec![] };
                // The last one below it is done, and no turn is open: nobody waits for an answer any more.
                if self.turn.is_none() && self.below.live() == 0 {
                    for (key, waiting) in self.asks.take_if(|_| true) {
                        heard.reply.extend(waiting.cancelled());
                        heard.said.push(Said::TookBack { key });
                    }
                }
                heard
            }
            "$/cancel_request" => self.request_cancelled(params),
            _ => Heard::default(),
        }
    }

    /// The bytes of an order. Changes nothing: that is done by recalling them.
    fn bytes_of(&self, order: &Order) -> Result<Vec<u8>, String> {
        if *order == Order::Close {
            return self.bytes_of_close();
        }
        let (Stage::Open, Some(session)) = (&self.stage, &self.session) else {
            return Err(String::from(match self.stage {
                Stage::Over => "it has broken its protocol or could not be opened",
                Stage::Closing { .. } | Stage::Closed => "its session is closed",
                _ => "its session is not open yet",
            }));
        };
        match order {
            Order::Steer { number, text, .. } if self.agent.own && self.turn.is_some() => {
                let id = id_of(*number)?;
                let steer = words::Steer { session_id: session, text, number: number.0 };
                Ok(frame::request(id, words::STEER, steer))
            }
            Order::Steer { .. } if self.agent.own => Err(String::from("it works on nothing")),
            Order::Steer { .. } => Err(String::from("its protocol has no word for a message into a turn")),
            Order::Prompt { .. } if self.turn.is_some() => {
                Err(String::from("it works on a prompt, and takes one at a time"))
            }
            Order::Prompt { number, text, attached, .. } => {
                if let Some(lacking) = self.announced.lacks_for(attached.iter().map(|file| &file.about)) {
                    return Err(lacking);
                }
                let id = match number {
                    None => self.ids * 2,
                    Some(number) => id_of(*number)?,
                };
                let lacking = self.prompt.as_deref().filter(|_| number.is_none() && self.lacks_prompt);
                let run = self.agent.own.then_some(self.run);
                let prompt = words::Prompt::new(session, lacking.unwrap_or(text), attached, run);
                Ok(frame::request(id, words::PROMPT, prompt))
            }
            Order::Interrupt if self.turn.is_none() => Err(String::from("it works on nothing")),
            Order::Interrupt => {
                let children = self.below.cancellable();
                let sessions = std::iter::once(session.as_str()).chain(children);
                let cancels =
                    sessions.map(|session_id| frame::note(words::CANCEL, words::Cancel { session_id }));
                Ok(cancels.chain(self.asks.all_cancelled()).flatten().collect())
            }
            Order::Answer { key, ask, answer, .. } => self.asks.answer(key, ask, answer),
            Order::StopInner { .. } if self.is_cancelling() => {
                Err(String::from("its whole turn is being cancelled"))
            }
            Order::StopInner { key } => {
                self.below.may_be_cancelled(key)?;
                let cancel = frame::note(words::CANCEL, words::Cancel { session_id: key });
                Ok(std::iter::once(cancel).chain(self.asks.cancelled_of(key)).flatten().collect())
            }
            Order::Close => Ok(vec![]),
        }
    }

    /// Closing frees what the agent holds for the session; it can be loaded or resumed all the same.
    fn bytes_of_close(&self) -> Result<Vec<u8>, String> {
        match (&self.stage, &self.session) {
            (Stage::Open, Some(session_id)) if self.announced.close => {
                Ok(frame::request(self.ids.saturating_mul(2), words::CLOSE, words::Close { session_id }))
            }
            (Stage::Closing { .. } | Stage::Closed, _) => Ok(vec![]),
            _ => Err(String::from("the end of its input says it: it does not announce session/close")),
        }
    }

    /// The turn is to be cancelled, and all that belongs to it.
    fn is_cancelling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.cancelling)
    }
}

/// The id of the request that gives a message.
fn id_of(number: MessageNumber) -> Result<u64, String> {
    if number.0 > LARGEST_NUMBER / 2 {
        return Err(format!("no id can be made of message {number}"));
    }
    Ok(number.0 * 2 + 1)
}

impl Codec for Acp {
    fn open(&mut self, job: &Job) -> Vec<u8> {
        self.spec = Some(Arc::clone(&job.spec));
        self.continues.clone_from(&job.session);
        self.run = job.key.run.0;
        self.prompt.clone_from(&job.prompt_text);
        let id = self.id();
        self.stage = Stage::Opening { id, step: Step::Initialize };
        frame::request(id, words::INITIALIZE, words::Initialize::new(self.continues.as_deref()))
    }

    fn hear(&mut self, line: &[u8]) -> Heard {
        if self.stage == Stage::Over || line.trim_ascii().is_empty() {
            return Heard::default();
        }
        let mut said = std::mem::take(&mut self.due);
        let mut heard = self.understood(line);
        said.append(&mut heard.said);
        Heard { said, reply: heard.reply }
    }

    fn tell(&mut self, order: &Order) -> Result<Vec<u8>, String> {
        let bytes = self.bytes_of(order)?;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.recall(line);
        }
        Ok(bytes)
    }

    /// A message into a turn is never taken, and a prompt is taken once it is written. Our own agent says when it has one.
    fn acknowledges(&self) -> bool {
        self.agent.own
    }

    fn is_closing(&self) -> bool {
        matches!(self.stage, Stage::Closing { .. })
    }

    fn recall(&mut self, line: &[u8]) -> Vec<WasTold> {
        let told = match frame::read(line) {
            Ok(Frame::Request { id, method, params }) => {
                id.number().and_then(|id| self.recall_request(id, &method, &params))
            }
            Ok(Frame::Note { method, params }) if method == words::CANCEL => self.recall_cancel(&params),
            Ok(Frame::Answer { id, outcome: Ok(result) }) => self.recall_answer(id.key(), &result),
            _ => None,
        };
        told.into_iter().collect()
    }
}

impl Acp {
    fn recall_cancel(&mut self, params: &Value) -> Option<WasTold> {
        let session = bounds::name(params.get("sessionId"))?;
        if self.session.as_ref() == Some(&session) {
            if let Some(turn) = &mut self.turn {
                turn.cancelling = true;
            }
            return Some(WasTold::Interrupt);
        }
        self.below.cancels(&session);
        // With the whole turn those below it go as well, and nobody asked for that one.
        (!self.is_cancelling()).then_some(WasTold::StopInner(session))
    }

    fn recall_request(&mut self, id: u64, method: &str, params: &Value) -> Option<WasTold> {
        self.used(id);
        let session = bounds::name(params.get("sessionId"));
        if method == words::INITIALIZE {
            // The job may know by now the session that this conversation opened; what it was to continue stands here.
            self.continues = bounds::name(params.get("_meta").and_then(|meta| meta.get(words::CONTINUES)));
            return None;
        }
        if method == words::STEER {
            self.steers.insert(id);
            return Some(WasTold::Message(MessageNumber(id / 2)));
        }
        if method == words::PROMPT {
            self.lacks_prompt = false;
            // Whatever of the beginning is lost from the log: it was open then.
            self.stage = Stage::Open;
            self.session = session.or(self.session.take());
            self.prompted = true;
            self.turn = Some(Turn::new(id));
            self.calls_over();
            return Some(match id % 2 {
                0 => WasTold::Prompt,
                _ => WasTold::Message(MessageNumber(id / 2)),
            });
        }
        if method == words::CLOSE && self.stage != Stage::Over {
            self.stage = Stage::Closing { id };
            return None;
        }
        if let Some(how) = How::ALL.into_iter().find(|how| how.method() == method) {
            let expected = matches!(self.stage, Stage::Opening { id: asked, .. } if asked == id);
            if !expected && self.stage != Stage::Over {
                self.stage = Stage::Opening { id, step: Step::Session(how) };
            }
        }
        None
    }

    fn recall_answer(&mut self, key: String, result: &Value) -> Option<WasTold> {
        let outcome = result.get("outcome").and_then(|outcome| outcome.get("outcome"));
        let word = outcome.or_else(|| result.get("action"))?.as_str()?;
        let waiting = self.asks.take(&key);
        let waited = waiting.is_some();
        let inner =
            waiting.and_then(|waiting| waiting.session).is_some_and(|id| self.below.is_cancelling(&id));
        match word {
            "cancelled" | "cancel" if waited && (inner || self.is_cancelling()) => {
                self.due.push(Said::TookBack { key: key.clone() });
            }
            "decline" if waited => {
                let why = String::from("the answer did not fit the form that it wanted, and was declined");
                let said = self.remark(why);
                self.due.extend(said);
            }
            _ => {}
        }
        Some(WasTold::Answer(key))
    }
}

#[cfg(test)]
mod tests;
