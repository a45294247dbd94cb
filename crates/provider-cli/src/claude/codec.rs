//! The codec of one conversation: what its frames mean in their order. A state machine without IO, clock or randomness.

mod notices;
mod speech;

use std::collections::{BTreeMap, VecDeque};

use subagent_model::text::cut_at_boundary;
use subagent_provider::{Attached, Codec, Heard, Job, Order, Said, TurnEnd, WasTold, with_origin};

use super::asks::{self, Pending};
use super::ends::{self, Fault};
use super::frames::{self, Asked, Frame, Init, Lifecycle, Request, Response, ResultFrame};
use super::inner::Tasks;
use super::mail::{Fate, Mail};
use super::names::{self, LineKind};
use super::orders::{self, Body, INITIALIZE, Permission, Was};
use super::tools::Tools;
use super::usage::Ledger;
use notices::{notice, retries};
use speech::tool_results;

/// Most bytes of a line that are shown when it does not fit.
const EXCERPT_BYTES: usize = 200;
/// Most bytes of a name that is given back.
const NAME_BYTES: usize = 1024;
/// Most questions that wait at once, and denials that are remembered.
const MOST: usize = 256;

/// The codec of one Claude Code that speaks stream-json.
#[derive(Debug, Clone, PartialEq)]
pub struct Claude {
    stage: Stage,
    /// Its session, as far as it is known.
    session: String,
    /// The session had a life before this process.
    continues: bool,
    tools: Tools,
    mail: Mail,
    asks: BTreeMap<String, Pending>,
    /// Ids that were used for two questions at once: none is asked or answered under them any more.
    spoilt: VecDeque<String>,
    tasks: Tasks,
    ledger: Ledger,
    model: Option<String>,
    fault: Fault,
    /// What the last result means, until it is known that nothing follows on it.
    last: Option<TurnEnd>,
    /// It tells when it is idle: until then a turn is not over.
    tells_idle: bool,
    /// Denials that were told of.
    denied: VecDeque<String>,
    interrupts: u32,
}

/// How far the conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has not answered yet.
    Opening,
    /// It takes prompts.
    Open,
    /// It cannot be spoken with.
    Broken,
}

impl Claude {
    /// For the child of `job`.
    pub fn new(job: &Job) -> Self {
        let own = names::session(&job.key);
        // Whoever takes the conversation over is told of the session that this attempt began itself.
        let other = job.session.as_ref().is_some_and(|session| *session != own);
        let continues = other || job.spec.setup.fork_of.is_some();
        Self {
            stage: Stage::Opening,
            session: job.session.clone().unwrap_or(own),
            continues,
            tools: Tools::of(&job.spec),
            mail: Mail::of(&job.key),
            asks: BTreeMap::new(),
            spoilt: VecDeque::new(),
            tasks: Tasks::default(),
            ledger: Ledger::new(continues),
            model: None,
            fault: Fault::default(),
            last: None,
            tells_idle: false,
            denied: VecDeque::new(),
            interrupts: 0,
        }
    }

    fn understand(&mut self, frame: Frame, heard: &mut Heard) {
        let said = &mut heard.said;
        match frame {
            Frame::Init(init) => self.init(init, said),
            Frame::State(state) => {
                self.tells_idle = true;
                if state == "idle" {
                    self.idle(heard);
                }
            }
            Frame::Lifecycle(Lifecycle { command_uuid, state }) => {
                said.extend(self.mail.hear(&command_uuid, Fate::of(&state)));
            }
            Frame::Assistant(message) => self.message(message, said),
            Frame::User(user) => tool_results(&user, said),
            Frame::Stream(stream) => self.stream(stream, said),
            Frame::TaskStarted(task) => said.extend(self.tasks.started(task).map(Said::Inner)),
            Frame::TaskUpdated(task) => said.extend(self.tasks.updated(task).map(Said::Inner)),
            Frame::TaskNotification(task) => said.extend(self.tasks.over(&task).map(Said::Inner)),
            Frame::BackgroundTasks(now) => said.extend(self.tasks.live_now(&now, self.tells_idle)),
            Frame::Retry(retry) => retries(&retry, said),
            Frame::RateLimit(limit) => self.limited(&limit, said),
            Frame::Compacted => said.push(Said::Compacted),
            Frame::Notice(text) => said.push(notice(&text)),
            Frame::Denied(denial) => said.extend(self.denial(&denial)),
            Frame::Result(result) => self.result(&result, heard),
            Frame::Request(request) => self.request(*request, heard),
            Frame::Cancelled(key) => {
                if self.asks.remove(&key).is_some() {
                    said.push(Said::TookBack { key });
                }
            }
            Frame::Response(response) => self.response(response, said),
            Frame::Other => {}
        }
    }

    /// It says this before every turn; only what is new in it counts.
    fn init(&mut self, init: Init, said: &mut Vec<Said>) {
        if let Some(session) = init.session_id.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES)
            && session != self.session
        {
            self.session.clone_from(&session);
            if self.stage == Stage::Open {
                said.push(Said::Opened { session: Some(session) });
            }
        }
        if let Some(model) = init.model.filter(|name| name.len() <= NAME_BYTES)
            && self.model.as_ref() != Some(&model)
        {
            self.model = Some(model.clone());
            said.push(Said::Model(model));
        }
    }

    fn result(&mut self, result: &ResultFrame, heard: &mut Heard) {
        if self.stage == Stage::Opening {
            let end = ends::not_opened(result, self.continues);
            heard.said.push(Said::Done(end));
            return;
        }
        heard.said.extend(self.ledger.settle(result).map(Said::Used));
        for denial in &result.permission_denials {
            heard.said.extend(self.denial(denial));
        }
        for name in &result.user_message_uuids {
            heard.said.extend(self.mail.hear(name, Fate::Begun));
        }
        let end = ends::end(result, &self.fault);
        self.fault.class = None;
        if !matches!(end, TurnEnd::Finished { .. }) {
            // It does not take them back by itself, and is not idle while one is open.
            let open: Vec<_> = self.asks.keys().cloned().collect();
            heard.said.extend(open.into_iter().map(|key| Said::TookBack { key }));
            self.deny_all(heard);
        }
        // What follows on it is done in the same turn, so only the last result is its end.
        if let Some(TurnEnd::Failed(error)) = self.last.replace(end) {
            heard.said.push(notice(&format!("it went on after a failure: {}", error.message)));
        }
        if !self.tells_idle {
            self.idle(heard);
        }
    }

    /// It has nothing to do any more: what it ended with is the end.
    fn idle(&mut self, heard: &mut Heard) {
        let end = self.last.take().or_else(|| match self.mail.unanswered()? {
            Fate::Cancelled => Some(TurnEnd::Cancelled),
            _ => Some(ends::without_result()),
        });
        match end {
            // It was idle before it saw a line of ours that is on its way: the end that counts is the one after that.
            Some(end) if self.tells_idle && self.mail.is_on_its_way() => self.last = Some(end),
            Some(end) => self.done(end, heard),
            None => heard.said.extend(self.tasks.all_over()),
        }
    }

    fn done(&mut self, end: TurnEnd, heard: &mut Heard) {
        self.mail.turn_over();
        // Whoever could answer counts on no answer any more.
        self.deny_all(heard);
        // A turn that it began by itself ends the waiting for what it was begun for.
        if self.tasks.is_waited_for() {
            heard.said.push(Said::Done(end));
            heard.said.extend(self.tasks.all_over());
        } else {
            heard.said.extend(self.tasks.all_over());
            heard.said.push(Said::Done(end));
        }
        self.tasks.turn_over();
    }

    fn deny_all(&mut self, heard: &mut Heard) {
        for key in std::mem::take(&mut self.asks).into_keys() {
            heard.reply.extend(asks::deny(&key, "Its turn is over."));
        }
    }

    fn request(&mut self, Request { id, ask }: Request, heard: &mut Heard) {
        let asked = match &ask {
            Asked::Tool(tool) => Some(asks::ask(&id, tool)),
            _ => None,
        };
        let repeated = self
            .asks
            .get(&id)
            .is_some_and(|open| asked.as_ref().is_some_and(|(_, pending)| open.is_same(pending)));
        if repeated {
            return;
        }
        // Another request under the name of an open one: a yes to the one would be a yes to the other. One answer goes to
        // both, and nobody is asked any more.
        if self.asks.remove(&id).is_some() {
            heard.said.push(Said::TookBack { key: id.clone() });
            if self.spoilt.len() >= MOST {
                self.spoilt.pop_front();
            }
            self.spoilt.push_back(id.clone());
        }
        let reply = match ask {
            _ if id.is_empty() || id.len() > NAME_BYTES => orders::refuse(&id, "its id is too long"),
            Asked::Tool(tool) if !self.tools.allow(&tool.tool_name) => {
                let why = format!("{} is none of the tools that may be used here.", tool.tool_name);
                asks::deny(&id, &why)
            }
            Asked::Tool(_) if self.spoilt.contains(&id) => {
                asks::deny(&id, "Its id is that of another question.")
            }
            Asked::Tool(_) if self.asks.len() >= MOST => asks::deny(&id, "Too many questions are open."),
            Asked::Tool(_) => {
                if let Some((ask, pending)) = asked {
                    self.asks.insert(id, pending);
                    heard.said.push(Said::Asked(ask));
                }
                return;
            }
            Asked::Unfit => orders::refuse(&id, "the request cannot be read"),
            Asked::Elicitation => orders::respond(&id, Body::Elicitation { action: "decline" }),
            Asked::Dialog => orders::respond(&id, Body::Permission(Permission::Cancelled)),
            Asked::Hook => orders::respond(&id, Body::Hook {}),
            Asked::Unknown(what) => {
                let what = cut_at_boundary(&what, EXCERPT_BYTES);
                heard.said.push(notice(&format!("it asked for something unknown, and was refused: {what}")));
                orders::refuse(&id, "this is not known here")
            }
        };
        heard.reply.extend(reply);
    }

    fn response(&mut self, response: Response, said: &mut Vec<Said>) {
        if response.request_id == INITIALIZE {
            if self.stage != Stage::Opening {
                return;
            }
            if response.subtype != "success" {
                self.stage = Stage::Broken;
                let why = response.error.unwrap_or_default();
                said.push(Said::Broken(format!(
                    "it could not be begun: {}",
                    cut_at_boundary(&why, EXCERPT_BYTES)
                )));
                return;
            }
            self.stage = Stage::Open;
            said.push(Said::Opened { session: Some(self.session.clone()) });
            return;
        }
        if let (Some(task), false) =
            (response.request_id.strip_prefix(orders::STOP_TASK), response.subtype == "success")
        {
            let why = response.error.as_deref().unwrap_or("without a reason");
            let why = cut_at_boundary(why, EXCERPT_BYTES);
            said.push(notice(&format!(
                "its agent {} was not stopped: {why}",
                cut_at_boundary(task, EXCERPT_BYTES)
            )));
        }
        for name in response.receipt.into_iter().flat_map(|receipt| receipt.cancelled) {
            said.extend(self.mail.hear(&name, Fate::Cancelled));
        }
    }

    fn user(&mut self, kind: LineKind, text: &str, attached: &[Attached]) -> Vec<u8> {
        let name = self.mail.name(kind);
        orders::user(name, text, attached, matches!(kind, LineKind::Steer(_)))
    }
}

impl Codec for Claude {
    fn open(&mut self, job: &Job) -> Vec<u8> {
        *self = Self::new(job);
        orders::initialize()
    }

    fn hear(&mut self, line: &[u8]) -> Heard {
        let mut heard = Heard::default();
        if self.stage == Stage::Broken {
            return heard;
        }
        match frames::read(line) {
            Ok(frame) => self.understand(frame, &mut heard),
            Err(why) => {
                self.stage = Stage::Broken;
                let line = String::from_utf8_lossy(line);
                let why = format!("{why}: {:?}", cut_at_boundary(&line, EXCERPT_BYTES));
                heard.said.push(Said::Broken(why));
            }
        }
        heard
    }

    fn tell(&mut self, order: &Order) -> Result<Vec<u8>, String> {
        match (self.stage, order) {
            // The end of its input says it.
            (_, Order::Close) => return Ok(vec![]),
            (Stage::Broken, _) => return Err(String::from("it has broken its protocol")),
            (Stage::Opening, _) => return Err(String::from("it is not ready yet")),
            (Stage::Open, _) => {}
        }
        Ok(match order {
            Order::Prompt { number: None, text, attached, .. } => self.user(LineKind::Prompt, text, attached),
            // Its protocol has no field for who speaks, and takes each text for its user's.
            Order::Prompt { number: Some(number), from, text, attached } => {
                self.user(LineKind::Message(*number), &with_origin(from, text), attached)
            }
            Order::Steer { number, from, text, attached } => {
                self.user(LineKind::Steer(*number), &with_origin(from, text), attached)
            }
            Order::Interrupt => {
                self.interrupts = self.interrupts.wrapping_add(1);
                orders::interrupt(self.interrupts)
            }
            Order::StopInner { key } if self.tasks.is_live(key) => orders::stop_task(key),
            Order::StopInner { .. } => return Err(String::from("it has no such agent at work")),
            Order::Answer { key, ask, answer, reason } => {
                if self.spoilt.contains(key) {
                    return Err(String::from("it used the id of this question for another one"));
                }
                let pending = self.asks.remove(key);
                asks::answer(key, pending.as_ref(), ask, answer, reason.as_deref())
            }
            Order::Close => vec![],
        })
    }

    fn acknowledges(&self) -> bool {
        self.mail.acknowledges()
    }

    fn recall(&mut self, line: &[u8]) -> Vec<WasTold> {
        match orders::read(line) {
            Was::User(name) => match self.mail.recall(name) {
                Some(LineKind::Prompt) => vec![WasTold::Prompt],
                Some(LineKind::Message(number) | LineKind::Steer(number)) => vec![WasTold::Message(number)],
                None => vec![],
            },
            Was::Interrupt => {
                self.interrupts = self.interrupts.wrapping_add(1);
                vec![WasTold::Interrupt]
            }
            Was::StopTask(task) => vec![WasTold::StopInner(task)],
            Was::Answer(key) => {
                self.asks.remove(&key);
                vec![WasTold::Answer(key)]
            }
            Was::Other => vec![],
        }
    }
}
