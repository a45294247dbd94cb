//! Plays a script, one step a line:
//!
//! As the scripted fake of `subagent-provider` does: `say TEXT`, `delta TEXT`, `turn`, `last turn`, `use IN OUT [COST]`,
//! `tool NAME`, `tool start ID NAME`, `tool end ID`, `compact`, `background N`, `held-up`, `ask ACTION TITLE`,
//! `question TEXT`, `start-ask ACTION TITLE`, `await answer`, `take-back`, `await steer`, `steers take|decline|ignore`,
//! `sleep MS`, `done`, `truncated`, `blank`, `fail [CODE] TEXT`, `refuse TEXT`, `cancelled`, `deaf`, `hang`, and the
//! prefixes `attempt N`, `on-continue`, `repeat N`, in this order. Texts may hold `$answer`, `$steer`, `$from`,
//! `$session` and `$pid`.
//!
//! As only a process can: `file PATH` (holds until the file is there), `touch PATH`, `break TEXT` (a line that is no
//! message), `exit CODE`, `err TEXT` (to standard error), `long BYTES` (a message of this size), `recite` (says all that
//! its session was told), `ignore-term`, `spin` (burns processor time and hears nothing), `spin MS`, `spawn-sleeper`
//! (leaves a process behind).

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::session::Session;
use crate::wire::{Wire, ignore_term, leave};

/// How often a step that holds looks at what it waits for.
const LOOK: Duration = Duration::from_millis(5);

/// The turn is over before the end of its script.
struct TurnOver;

type Played = Result<(), TurnOver>;

#[expect(clippy::struct_excessive_bools, reason = "each is a matter of its own, and none excludes another")]
pub(crate) struct Player {
    wire: Wire,
    session: Session,
    attempt: u64,
    took: bool,
    in_turn: bool,
    prompts: Vec<Value>,
    taken: Vec<Value>,
    asked: Vec<String>,
    made: usize,
    manner: String,
    deaf: bool,
    answer: String,
    steer: String,
    from: String,
    said: Option<String>,
    truncated: bool,
}

impl Player {
    pub(crate) fn new(wire: Wire, session: Session, attempt: u64, took: bool) -> Self {
        Self {
            wire,
            session,
            attempt,
            took,
            in_turn: false,
            prompts: vec![],
            taken: vec![],
            asked: vec![],
            made: 0,
            manner: String::from("take"),
            deaf: false,
            answer: String::new(),
            steer: String::new(),
            from: String::new(),
            said: None,
            truncated: false,
        }
    }

    /// Works on one prompt after the other until it is closed.
    pub(crate) fn play(mut self, before_open: &str) {
        let _ = self.steps(before_open);
        self.wire.say(&json!({"type": "ready"}));
        loop {
            while self.prompts.is_empty() {
                // Between two turns nothing is left early.
                let _ = self.listen(Duration::from_hours(1));
            }
            let prompt = self.prompts.remove(0);
            self.in_turn = true;
            let _ = self.work(&prompt);
            self.in_turn = false;
        }
    }

    fn work(&mut self, prompt: &Value) -> Played {
        let text = prompt["text"].as_str().unwrap_or_default();
        let new = self.session.is_new();
        self.session.keep(prompt.clone());
        self.took(prompt);
        (self.said, self.truncated) = (None, false);
        let kept = self.session.on_continue();
        let first = text.split_whitespace().next().unwrap_or_default();
        let continues = !new && !WORDS.contains(&first);
        let script = if !continues {
            text.to_owned()
        } else if kept.is_empty() {
            format!("say heard: {}", text.replace('\n', " "))
        } else {
            kept
        };
        let later = |line: &str| Some(format!("{}\n", self.mine(line)?.strip_prefix("on-continue ")?));
        let later: String = script.lines().filter_map(later).collect();
        // What was kept is used up; a script that keeps nothing leaves it.
        if continues || !later.is_empty() {
            self.session.keep(json!({"on_continue": later}));
        }
        self.steps(&script)?;
        if !script.lines().any(|line| line == "done") {
            self.finish();
        }
        Ok(())
    }

    /// The line without `attempt N`, where it is meant for this attempt.
    fn mine<'a>(&self, line: &'a str) -> Option<&'a str> {
        let Some(rest) = line.strip_prefix("attempt ") else { return Some(line) };
        let (number, rest) = rest.split_once(' ')?;
        (number.parse() == Ok(self.attempt)).then_some(rest)
    }

    fn steps(&mut self, script: &str) -> Played {
        for line in script.lines().filter(|line| !line.trim().is_empty()) {
            let Some(mut line) = self.mine(line).filter(|line| !line.starts_with("on-continue ")) else {
                continue;
            };
            let mut times = 1;
            if let Some(rest) = line.strip_prefix("repeat ") {
                let (number, rest) = rest.split_once(' ').expect("repeat N STEP");
                (times, line) = (number.parse().expect("repeat N STEP"), rest);
            }
            for _ in 0..times {
                // What was told before this step counts before it.
                while self.listen(Duration::ZERO)? {}
                self.step(line)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, line: &str) -> Played {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let text = self.filled(rest);
        match word {
            "say" => self.message(&text),
            "long" => self.message(&"x".repeat(rest.parse().expect("a number"))),
            "recite" => self.message(&self.session.recital()),
            "delta" => self.wire.say(&json!({"type": "delta", "text": text})),
            "turn" => self.wire.say(&json!({"type": "turn", "more": true})),
            "last" => self.wire.say(&json!({"type": "turn", "more": false})),
            "use" => {
                let numbers: Vec<Value> =
                    rest.split(' ').map(|n| serde_json::from_str(n).expect("a number")).collect();
                let cost = numbers.get(2);
                self.wire.say(
                    &json!({"type": "usage", "input": numbers[0], "output": numbers[1], "cost_usd": cost}),
                );
            }
            "tool" => self.tool(rest),
            "compact" => self.wire.say(&json!({"type": "compacted"})),
            "background" => {
                let many: u32 = rest.parse().expect("a number");
                self.wire.say(&json!({"type": "background", "live": many}));
            }
            "held-up" => self.wire.say(&json!({"type": "held_up"})),
            "ask" => {
                self.ask(rest);
                self.await_answer()?;
            }
            "start-ask" => self.ask(rest),
            "question" => {
                let key = self.make("ask");
                self.asked.push(key.clone());
                self.wire.say(&json!({"type": "question", "key": key, "text": text}));
                self.await_answer()?;
            }
            "take-back" => {
                if let Some(key) = self.asked.pop() {
                    self.wire.say(&json!({"type": "took_back", "key": key}));
                }
            }
            "await" if rest == "answer" => self.await_answer()?,
            "await" => {
                self.hold(|player| !player.taken.is_empty())?;
                let message = self.taken.remove(0);
                let field = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
                (self.steer, self.from) = (field("text"), field("from"));
            }
            "steers" => rest.clone_into(&mut self.manner),
            "file" => self.hold(|_| Path::new(rest).exists())?,
            "touch" => std::fs::write(rest, "").expect("a file can be made"),
            "sleep" => {
                let until = Instant::now() + Duration::from_millis(rest.parse().expect("a number"));
                self.hold(|_| Instant::now() >= until)?;
            }
            "done" => {
                self.finish();
                (self.said, self.truncated) = (None, false);
            }
            "truncated" => self.truncated = true,
            "blank" => {
                self.message(" \n");
                self.finish();
                return Err(TurnOver);
            }
            "fail" => {
                let (code, message) = text
                    .split_once(' ')
                    .filter(|(code, _)| CODES.contains(code))
                    .unwrap_or(("crashed", &text));
                return self.end_turn(&json!({"type": "failed", "code": code, "message": message}));
            }
            "refuse" => return self.end_turn(&json!({"type": "failed", "code": "refused", "message": text})),
            "cancelled" => return self.end_turn(&json!({"type": "cancelled"})),
            "break" => self.wire.raw(&text),
            "exit" => leave(rest.parse().unwrap_or(0)),
            "err" => {
                use std::io::Write as _;
                writeln!(std::io::stderr(), "{text}").expect("standard error can be written");
            }
            "deaf" => self.deaf = true,
            "hang" => loop {
                std::thread::park();
            },
            "ignore-term" => ignore_term(),
            "spin" => {
                let until = rest.parse().ok().map(|ms| Instant::now() + Duration::from_millis(ms));
                while until.is_none_or(|until| Instant::now() < until) {
                    std::hint::spin_loop();
                }
            }
            "spawn-sleeper" => {
                let mut sleeper = Command::new("sleep");
                sleeper.arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let sleeper = sleeper.spawn().expect("sleep can be started");
                // It outlives this process, so that nobody here can wait for it.
                std::mem::forget(sleeper);
            }
            _ => return self.end_turn(&json!({
                "type": "failed", "code": "crashed", "message": format!("the script has no step {line:?}"),
            })),
        }
        Ok(())
    }

    /// Listens until something is so.
    fn hold(&mut self, until: impl Fn(&Self) -> bool) -> Played {
        while !until(self) {
            self.listen(LOOK)?;
        }
        Ok(())
    }

    /// Reacts to one message, if one comes within this time.
    fn listen(&mut self, time: Duration) -> Result<bool, TurnOver> {
        let told = match self.wire.within(time) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) if self.deaf => {
                std::thread::sleep(LOOK);
                return Ok(false);
            }
            Err(RecvTimeoutError::Disconnected) => leave(0),
        };
        match told["type"].as_str().unwrap_or_default() {
            "prompt" => self.prompts.push(told),
            "steer" if self.manner == "ignore" => {}
            "steer" if self.manner == "decline" || !self.in_turn => {
                self.wire.say(&json!({"type": "declined", "number": told["number"]}));
            }
            "steer" => {
                self.session.keep(told.clone());
                self.took(&told);
                self.taken.push(told);
            }
            "interrupt" if self.in_turn && !self.deaf => {
                return self.end_turn(&json!({"type": "cancelled"})).map(|()| true);
            }
            "answer" => {
                let key = told["key"].as_str().unwrap_or_default();
                if self.asked.iter().any(|asked| asked == key) {
                    self.asked.retain(|asked| asked != key);
                    let word = told["text"].as_str().or(told["answer"].as_str());
                    word.unwrap_or_default().clone_into(&mut self.answer);
                }
            }
            "close" if !self.deaf => leave(0),
            _ => {}
        }
        Ok(true)
    }

    fn took(&self, told: &Value) {
        if self.took && told["number"].is_u64() {
            self.wire.say(&json!({"type": "took", "number": told["number"]}));
        }
    }

    fn message(&mut self, text: &str) {
        self.said = Some(text.to_owned());
        self.wire.say(&json!({"type": "message", "text": text}));
    }

    fn tool(&mut self, rest: &str) {
        let start = |id: &str, name: &str| json!({"type": "tool_started", "id": id, "name": name});
        let end = |id: &str| json!({"type": "tool_ended", "id": id});
        match rest.split(' ').collect::<Vec<_>>()[..] {
            ["start", id, name] => self.wire.say(&start(id, name)),
            ["end", id] => self.wire.say(&end(id)),
            _ => {
                let id = self.make("tool");
                self.wire.say(&start(&id, rest));
                self.wire.say(&end(&id));
            }
        }
    }

    fn ask(&mut self, rest: &str) {
        let key = self.make("ask");
        let (action, title) = rest.split_once(' ').unwrap_or((rest, ""));
        let options: Vec<Value> = ["deny_once", "allow_always", "allow_once"]
            .iter()
            .enumerate()
            .map(|(at, kind)| json!({"id": format!("option-{at}"), "kind": kind}))
            .collect();
        self.wire
            .say(&json!({"type": "ask", "key": key, "action": action, "title": title, "options": options}));
        self.asked.push(key);
    }

    fn await_answer(&mut self) -> Played {
        let Some(newest) = self.asked.last().cloned() else { return Ok(()) };
        self.hold(|player| !player.asked.contains(&newest))
    }

    fn make(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{what}-{}-{}", std::process::id(), self.made)
    }

    fn finish(&mut self) {
        self.in_turn = false;
        self.taken.clear();
        self.wire.say(&json!({"type": "done", "answer": self.said, "truncated": self.truncated}));
    }

    fn end_turn(&mut self, end: &Value) -> Played {
        for key in std::mem::take(&mut self.asked) {
            self.wire.say(&json!({"type": "took_back", "key": key}));
        }
        self.in_turn = false;
        self.taken.clear();
        self.wire.say(end);
        Err(TurnOver)
    }

    fn filled(&self, text: &str) -> String {
        let pid = std::process::id().to_string();
        let names = [
            ("$answer", self.answer.as_str()),
            ("$steer", &self.steer),
            ("$from", &self.from),
            ("$session", self.session.name()),
            ("$pid", &pid),
        ];
        names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// Failures that a script may name.
const CODES: &[&str] = &[
    "rate_limited",
    "quota_exhausted",
    "overloaded",
    "auth",
    "context_overflow",
    "refused",
    "timeout",
    "session_gone",
];

/// The words that a script begins with.
const WORDS: &[&str] = &[
    "say",
    "long",
    "recite",
    "delta",
    "turn",
    "last",
    "use",
    "tool",
    "compact",
    "background",
    "held-up",
    "ask",
    "start-ask",
    "question",
    "take-back",
    "await",
    "steers",
    "file",
    "touch",
    "sleep",
    "done",
    "truncated",
    "blank",
    "fail",
    "refuse",
    "cancelled",
    "break",
    "exit",
    "err",
    "deaf",
    "hang",
    "ignore-term",
    "spin",
    "spawn-sleeper",
    "attempt",
    "on-continue",
    "repeat",
];
