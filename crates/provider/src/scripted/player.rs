//! One scripted child: plays its script and reacts to orders, before each step and while it holds.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use subagent_model::{
    Answer, Ask, AskOption, Choice, ErrorCode, ErrorInfo, MessageNumber, Requester, Steering, Subject,
    Timestamp,
};

use super::Scripted;
use super::script::{self, Manner, Step};
use super::world::{Begin, Told, ToldKind};
use crate::{Attached, Link, Order, Said, TaskContext, TurnEnd};

/// Why the steps of a script are left before their end.
enum Leave {
    /// The turn is over, however it ended.
    Turn,
    /// The child is gone.
    Child,
}

type Played = Result<(), Leave>;

/// A message or a prompt, as it came.
struct Message {
    number: Option<MessageNumber>,
    from: Requester,
    text: String,
    attached: Vec<Attached>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a matter of its own, and none excludes another")]
pub(super) struct Player {
    fake: Scripted,
    context: TaskContext,
    link: Link,
    begin: Begin,
    session: String,
    /// A prompt is being worked on.
    in_turn: bool,
    /// Prompts that came before their time.
    prompts: VecDeque<Message>,
    /// Messages that wait for a boundary.
    waiting: VecDeque<Message>,
    /// Messages that it has and that the script has not looked at.
    taken: VecDeque<Message>,
    /// What it asked and waits for, the newest last.
    asked: Vec<String>,
    /// How many requests and calls it made: makes their names.
    made: usize,
    manner: Manner,
    deaf: bool,
    /// It does not mind being cancelled.
    stubborn: bool,
    answer: String,
    steer: String,
    from: String,
    said: Option<String>,
    truncated: bool,
}

impl Player {
    pub(super) fn new(fake: Scripted, begin: Begin, context: TaskContext, link: Link) -> Self {
        let session = match &begin {
            Begin::In(session) | Begin::Gone(session) => session.clone(),
        };
        let stubborn = context.prompt.lines().any(|line| line == "hang");
        Self {
            fake,
            context,
            link,
            begin,
            session,
            in_turn: false,
            prompts: VecDeque::new(),
            waiting: VecDeque::new(),
            taken: VecDeque::new(),
            asked: Vec::new(),
            made: 0,
            manner: Manner::Take,
            deaf: false,
            stubborn,
            answer: String::new(),
            steer: String::new(),
            from: String::new(),
            said: None,
            truncated: false,
        }
    }

    /// Lives until it is closed, cancelled, or its script ends it.
    pub(super) async fn play(mut self) {
        if let Begin::Gone(session) = &self.begin {
            let error = failure(ErrorCode::SessionGone, format!("there is no session {session}"), None);
            self.say(Said::Done(TurnEnd::Failed(error)));
            return;
        }
        let prompt = self.context.prompt.to_string();
        // What is wrong with the script is told when it is to be played.
        let before_open = script::read(&prompt, self.context.key.attempt).unwrap_or_default().before_open;
        if self.steps(before_open).await.is_err() {
            return;
        }
        let session = self.fake.can.resume.then(|| self.session.clone());
        self.say(Said::Opened { session });
        while let Ok(prompt) = self.next_prompt().await {
            self.in_turn = true;
            let end = self.work(prompt).await;
            self.in_turn = false;
            if matches!(end, Err(Leave::Child)) {
                return;
            }
        }
    }

    async fn next_prompt(&mut self) -> Result<Message, Leave> {
        loop {
            if let Some(prompt) = self.prompts.pop_front() {
                return Ok(prompt);
            }
            self.order().await?;
        }
    }

    async fn work(&mut self, prompt: Message) -> Played {
        let Message { number, from, text, attached } = prompt;
        self.keep(Told { attached, ..self.told(ToldKind::Prompt, number, Some(from), &text) });
        if let Some(number) = number {
            self.say(Said::Took(number));
        }
        (self.said, self.truncated) = (None, false);
        let attempt = self.context.key.attempt;
        let (begun, kept) = {
            let mut world = self.fake.world();
            let session = world.session(&self.session);
            (std::mem::replace(&mut session.begun, true), session.on_continue.clone())
        };
        let continues = begun && !script::is_script(&text);
        let script = if !continues {
            script::read(&text, attempt)
        } else if kept.is_empty() {
            Ok(script::Script {
                steps: vec![Step::Say(format!("heard: {text}"))],
                ..script::Script::default()
            })
        } else {
            script::read(&kept, attempt)
        };
        let script = match script {
            Ok(script) => script,
            Err(wrong) => return self.end_turn(TurnEnd::Failed(failure(ErrorCode::Crashed, wrong, None))),
        };
        // What was kept is used up; a script that keeps nothing leaves it.
        if continues || !script.on_continue.is_empty() {
            self.fake.world().session(&self.session).on_continue = script.on_continue;
        }
        let said_when = script.steps.contains(&Step::Done);
        self.steps(script.steps).await?;
        if !said_when {
            self.finish();
        }
        Ok(())
    }

    async fn steps(&mut self, steps: Vec<Step>) -> Played {
        for step in steps {
            // What was ordered before this step counts before it.
            self.hold(std::future::ready(())).await?;
            self.step(step).await?;
        }
        Ok(())
    }

    #[allow(clippy::panic, reason = "the script asks for it")]
    async fn step(&mut self, step: Step) -> Played {
        match step {
            Step::Say(text) => {
                let text = self.filled(&text);
                self.said = Some(text.clone());
                self.say(Said::Message(text));
            }
            Step::Delta(text) => {
                let text = self.filled(&text);
                self.say(Said::Delta(text));
            }
            Step::Turn { more } => {
                self.say(Said::Turn { more });
                self.boundary();
            }
            Step::Use(usage) => self.say(Said::Used(usage)),
            Step::ToolStart { id, name } => self.say(Said::ToolStarted { id, name, input: None }),
            Step::ToolEnd { id } => self.say(Said::ToolEnded { id, failed: None, output: None }),
            Step::Tool(name) => {
                let id = self.make("tool");
                self.say(Said::ToolStarted { id: id.clone(), name, input: None });
                self.say(Said::ToolEnded { id, failed: None, output: None });
            }
            Step::Compact => self.say(Said::Compacted),
            Step::Offer(models) => self.say(Said::Models(models)),
            Step::Denied(what) => self.say(Said::Denied(what.clone())),
            Step::Background(live) => self.say(Said::Background { live }),
            Step::HeldUp(by) => self.say(Said::HeldUp { until: by.map(from_now) }),
            Step::Ask { action, title, always } => {
                let (title, detail) = (self.filled(&title), None);
                self.ask(Subject::Approval { action, title, detail, options: options(always) });
            }
            Step::Question { text, choices } => {
                let text = self.filled(&text);
                self.ask(Subject::Question { text, choices });
            }
            Step::AwaitAnswer => {
                let newest = self.asked.last().cloned();
                while newest.as_ref().is_some_and(|newest| self.asked.contains(newest)) {
                    self.order().await?;
                }
            }
            Step::TakeBack => {
                if let Some(key) = self.asked.pop() {
                    self.say(Said::TookBack { key });
                }
            }
            Step::AwaitSteer => {
                self.boundary();
                let message = loop {
                    if let Some(message) = self.taken.pop_front() {
                        break message;
                    }
                    self.order().await?;
                    self.boundary();
                };
                (self.steer, self.from) = (message.text, message.from.0);
            }
            Step::Steers(manner) => self.manner = manner,
            Step::Gate(name) => {
                self.boundary();
                let gate = self.fake.gate(&name);
                self.hold(async move { gate.pass().await }).await?;
            }
            Step::Sleep(by) => self.hold(tokio::time::sleep(by)).await?,
            Step::Done => {
                self.finish();
                (self.said, self.truncated) = (None, false);
            }
            Step::Truncated => self.truncated = true,
            Step::Blank => {
                let blank = String::from(" \n");
                self.said = Some(blank.clone());
                self.say(Said::Message(blank));
                self.finish();
                return Err(Leave::Turn);
            }
            Step::Fail { code, reset, text } => {
                let text = self.filled(&text);
                return self.end_turn(TurnEnd::Failed(failure(code, text, reset.map(from_now))));
            }
            Step::Cancelled => return self.end_turn(TurnEnd::Cancelled),
            Step::Limit(limit) => return self.end_turn(TurnEnd::CutOff(limit)),
            Step::Break(text) => {
                self.say(Said::Broken(text));
                // Whatever it is told now, it does not understand. Only its end is left.
                (self.deaf, self.manner, self.in_turn) = (true, Manner::Ignore, false);
                loop {
                    self.order().await?;
                }
            }
            Step::Exit => return Err(Leave::Child),
            Step::Panic(text) => panic!("{text}"),
            Step::Deaf => self.deaf = true,
            Step::Hang => std::future::pending::<()>().await,
        }
        Ok(())
    }

    /// Waits for `until`, and reacts to orders meanwhile, to those that are there already first.
    async fn hold(&mut self, until: impl Future<Output = ()>) -> Played {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                biased;
                reacted = self.order() => reacted?,
                () = &mut until => return Ok(()),
            }
        }
    }

    /// Waits for one order, and reacts to it.
    async fn order(&mut self) -> Played {
        let order = tokio::select! {
            biased;
            order = self.link.orders.recv() => order.ok_or(Leave::Child)?,
            () = self.context.cancelled.cancelled(), if !self.stubborn => return Err(Leave::Child),
        };
        match order {
            Order::Prompt { number, from, text, attached } => {
                self.prompts.push_back(Message { number, from, text, attached });
            }
            Order::Steer { number, from, text, attached } => {
                let message = Message { number: Some(number), from, text, attached };
                match self.manner {
                    Manner::Ignore => {}
                    Manner::Take if !self.in_turn => self.say(Said::Declined(number)),
                    Manner::Decline => self.say(Said::Declined(number)),
                    Manner::Take if self.fake.can.steering == Steering::Live => self.take(message),
                    Manner::Take => self.waiting.push_back(message),
                }
            }
            Order::Interrupt => {
                self.remember(ToldKind::Interrupt, None, None, "");
                if self.in_turn && !self.deaf {
                    return self.end_turn(TurnEnd::Cancelled);
                }
            }
            Order::Answer { key, answer, .. } => {
                let word = word(&answer);
                self.remember(ToldKind::Answer, None, None, &word);
                if self.asked.contains(&key) {
                    self.asked.retain(|asked| *asked != key);
                    self.answer = word;
                }
            }
            // It has none.
            Order::StopInner { .. } => {}
            Order::Close => {
                self.remember(ToldKind::Close, None, None, "");
                if !self.deaf {
                    return Err(Leave::Child);
                }
            }
        }
        Ok(())
    }

    /// Takes what waits for a boundary.
    fn boundary(&mut self) {
        while let Some(message) = self.waiting.pop_front() {
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        let told = self.told(ToldKind::Steer, message.number, Some(message.from.clone()), &message.text);
        self.keep(Told { attached: message.attached.clone(), ..told });
        if let Some(number) = message.number {
            self.say(Said::Took(number));
        }
        self.taken.push_back(message);
    }

    /// Ends the turn well: with the last message as its answer.
    fn finish(&mut self) {
        self.boundary();
        let end = TurnEnd::Finished { answer: self.said.clone(), truncated: self.truncated };
        self.over(end);
    }

    /// Ends the turn in another way: what it waits for and what it did not take goes back.
    fn end_turn(&mut self, end: TurnEnd) -> Played {
        for key in std::mem::take(&mut self.asked) {
            self.say(Said::TookBack { key });
        }
        for message in std::mem::take(&mut self.waiting) {
            message.number.into_iter().for_each(|number| self.say(Said::Declined(number)));
        }
        self.over(end);
        Err(Leave::Turn)
    }

    fn over(&mut self, end: TurnEnd) {
        self.in_turn = false;
        self.taken.clear();
        self.say(Said::Done(end));
    }

    fn ask(&mut self, subject: Subject) {
        let key = self.make("ask");
        self.asked.push(key.clone());
        self.say(Said::Asked(Ask { key, subject }));
    }

    fn make(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{what}-{}", self.made)
    }

    /// Says it, as far as its provider can report that.
    fn say(&self, said: Said) {
        let can = self.fake.can;
        let said = match said {
            Said::Turn { .. } | Said::ToolStarted { .. } | Said::ToolEnded { .. } if !can.turns => return,
            Said::Used(_) if !can.usage => return,
            Said::Used(mut usage) if !can.cost => {
                usage.cost_usd = None;
                Said::Used(usage)
            }
            said => said,
        };
        // Nobody listens any more when the daemon has let go of it.
        let _ = self.link.say.send(said);
    }

    fn remember(&self, kind: ToldKind, number: Option<MessageNumber>, from: Option<Requester>, text: &str) {
        self.keep(self.told(kind, number, from, text));
    }

    fn told(
        &self,
        kind: ToldKind,
        number: Option<MessageNumber>,
        from: Option<Requester>,
        text: &str,
    ) -> Told {
        Told { key: self.context.key, kind, number, from, text: text.to_owned(), attached: vec![] }
    }

    fn keep(&self, told: Told) {
        self.fake.world().told.push(told);
    }

    fn filled(&self, text: &str) -> String {
        let names = [
            ("$answer", &self.answer),
            ("$steer", &self.steer),
            ("$from", &self.from),
            ("$session", &self.session),
        ];
        names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// All four kinds, in an order that misleads who goes by the place; without "always" two of them.
fn options(always: bool) -> Vec<AskOption> {
    let all = [Choice::DenyAlways, Choice::AllowAlways, Choice::DenyOnce, Choice::AllowOnce];
    let offered =
        all.into_iter().filter(|kind| always || !matches!(kind, Choice::DenyAlways | Choice::AllowAlways));
    offered
        .map(|kind| AskOption { id: format!("option-{}", kind as u8), name: choice(kind).to_owned(), kind })
        .collect()
}

fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::AllowOnce => "allow_once",
        Choice::AllowAlways => "allow_always",
        Choice::DenyOnce => "deny_once",
        Choice::DenyAlways => "deny_always",
    }
}

fn word(answer: &Answer) -> String {
    match answer {
        Answer::Choice { choice: chosen } => choice(*chosen).to_owned(),
        Answer::Text { text } => text.clone(),
        Answer::None => String::from("none"),
    }
}

fn failure(code: ErrorCode, message: String, reset_at: Option<Timestamp>) -> ErrorInfo {
    let retryable = matches!(code, ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::Timeout);
    ErrorInfo { code, message, detail: None, retryable, reset_at, exit: None }
}

fn from_now(by: Duration) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().after(now).after(by)
}

/// A broken protocol, where nobody listens to what was said.
pub(super) fn broken(text: String) -> ErrorInfo {
    failure(ErrorCode::Protocol, text, None)
}
