//! Opens sessions, and plays scripts, one step a line:
//!
//! - what it says: `say TEXT` (a message of its own), `part TEXT` (more of the same), `think TEXT`, `tool NAME`, `notice TEXT`,
//!   `cost USD`, `use IN OUT` (told with the end of the turn), `update KIND JSON`, `of SESSION KIND JSON` (any update, of any
//!   session), `raw TEXT` (a line as it is)
//! - its own subagents: `inner ID JSON` (announced or changed on its session), `below PARENT ID JSON` (on that of another)
//! - what it asks: `ask KIND,KIND TITLE` (a permission; the options in this order), `ask-as SESSION KIND,KIND TITLE`,
//!   `start-ask ...` (without waiting), `request METHOD JSON`, `question TEXT`. `$answer` is what came last: the option, the
//!   outcome, the code of an error
//! - time: `file PATH` (holds until it is there), `touch PATH`, `sleep MS`, `cancelled ID` (holds until that subagent of its
//!   own was cancelled)
//! - the end of the turn: `end` (the script goes on after it), `stop REASON`, `error CODE TEXT`, `exit CODE`; without one the
//!   turn ends by itself with the script
//! - manners: `deaf` (no cancel is heeded), `deaf-inner` (none of a subagent of its own), `ignore-term`
//!
//! Texts may hold `$answer`, `$session`, `$history` (what was asked in this session before) and `$pid`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_testkit::wire::{Wire, leave};

use crate::sessions::Sessions;

/// How often a step that holds looks at what it waits for.
const LOOK: Duration = Duration::from_millis(5);
/// An answer that takes as long as that never comes.
const NEVER: Duration = Duration::from_mins(1);

/// In what it differs from a good agent.
pub(crate) struct Knobs {
    pub(crate) version: Option<u64>,
    pub(crate) can: BTreeSet<String>,
    pub(crate) slow_start: Duration,
    pub(crate) slow_leave: Duration,
    pub(crate) slow_close: Duration,
    pub(crate) session: Option<String>,
    pub(crate) login: Option<String>,
    pub(crate) banner: Option<String>,
}

impl Default for Knobs {
    fn default() -> Self {
        let can = ["load", "resume", "fork", "close", "instructions"].map(str::to_owned).into();
        let (slow_start, slow_leave, slow_close) = Default::default();
        Self {
            version: Some(1),
            can,
            slow_start,
            slow_leave,
            slow_close,
            session: None,
            login: None,
            banner: None,
        }
    }
}

/// The turn is over before the end of its script.
struct TurnOver;

type Played = Result<(), TurnOver>;

pub(crate) struct Player {
    wire: Wire,
    knobs: Knobs,
    sessions: Sessions,
    session: String,
    /// What was asked in this session before.
    history: Vec<String>,
    prompts: Vec<Value>,
    /// The id of the prompt at work.
    turn: Option<Value>,
    script: String,
    said: Vec<String>,
    messages: u32,
    used: Option<Value>,
    made: u64,
    /// What it asked and was not answered.
    asked: Vec<Value>,
    answer: String,
    cancelled: BTreeSet<String>,
    deaf: bool,
    deaf_inner: bool,
}

impl Player {
    pub(crate) fn new(knobs: Knobs) -> Self {
        Self {
            wire: Wire::new(),
            knobs,
            sessions: Sessions::new(),
            session: String::new(),
            history: vec![],
            prompts: vec![],
            turn: None,
            script: String::new(),
            said: vec![],
            messages: 0,
            used: None,
            made: 0,
            asked: vec![],
            answer: String::new(),
            cancelled: BTreeSet::new(),
            deaf: false,
            deaf_inner: false,
        }
    }

    pub(crate) fn play(mut self) {
        loop {
            while self.prompts.is_empty() {
                // Between two turns nothing is left early.
                let _ = self.listen(Duration::from_hours(1));
            }
            let prompt = self.prompts.remove(0);
            self.work(&prompt);
        }
    }

    fn work(&mut self, prompt: &Value) {
        let blocks = prompt["params"]["prompt"].as_array().cloned().unwrap_or_default();
        let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let script = texts.join("\n");
        self.turn = Some(prompt["id"].clone());
        self.said.clear();
        self.script.clone_from(&script);
        if self.steps(&script).is_ok() {
            self.end_turn("end_turn");
        }
        self.history.push(script);
    }

    fn steps(&mut self, script: &str) -> Played {
        for line in script.lines().filter(|line| !line.trim().is_empty()) {
            // What was told before this step counts before it.
            while self.listen(Duration::ZERO)? {}
            self.step(line)?;
        }
        Ok(())
    }

    fn step(&mut self, line: &str) -> Played {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let text = self.filled(rest);
        match word {
            "say" => {
                self.messages += 1;
                self.said.push(text.clone());
                self.chunk(&text);
            }
            "part" => self.chunk(&text),
            "think" => self.update("agent_thought_chunk", json!({"content": {"type": "text", "text": text}})),
            "tool" => self.tool(rest),
            "notice" => self.update("notice", json!({"severity": "warning", "title": text})),
            "cost" => {
                let cost = json!({"amount": rest.parse::<f64>().expect("a number"), "currency": "USD"});
                self.update("usage_update", json!({"used": 1, "size": 100, "cost": cost}));
            }
            "use" => {
                let numbers: Vec<u64> = rest.split(' ').map(|n| n.parse().expect("a number")).collect();
                self.used = Some(json!({
                    "inputTokens": numbers[0], "outputTokens": numbers[1], "totalTokens": numbers[0] + numbers[1],
                }));
            }
            "update" => {
                let (kind, fields) = split(rest);
                self.update(kind, parsed(fields));
            }
            "of" => {
                let (session, rest) = split(rest);
                let (kind, fields) = split(rest);
                self.update_of(session, kind, parsed(fields));
            }
            "raw" => self.wire.raw(&text),
            "inner" => {
                let (id, fields) = split(rest);
                let session = self.session.clone();
                self.inner(&session, id, parsed(fields));
            }
            "below" => {
                let (parent, rest) = split(rest);
                let (id, fields) = split(rest);
                self.inner(parent, id, parsed(fields));
            }
            "ask" | "start-ask" => {
                let session = self.session.clone();
                self.ask(&session, rest);
                if word == "ask" {
                    self.hold(|player| player.asked.is_empty())?;
                }
            }
            "ask-as" => {
                let (session, rest) = split(rest);
                self.ask(session, rest);
                self.hold(|player| player.asked.is_empty())?;
            }
            "question" => {
                let form = json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]});
                let session = &self.session;
                let params =
                    json!({"sessionId": session, "mode": "form", "message": text, "requestedSchema": form});
                self.request("elicitation/create", &params);
                self.hold(|player| player.asked.is_empty())?;
            }
            "request" => {
                let (method, params) = split(rest);
                let mut params = parsed(params);
                params["sessionId"] = json!(self.session);
                self.request(method, &params);
                self.hold(|player| player.asked.is_empty())?;
            }
            "file" => self.hold(|_| Path::new(rest).exists())?,
            "touch" => std::fs::write(rest, "").expect("a file can be made"),
            "sleep" => {
                let until = Instant::now() + Duration::from_millis(rest.parse().expect("a number"));
                self.hold(|_| Instant::now() >= until)?;
            }
            "cancelled" => self.hold(|player| player.cancelled.contains(rest))?,
            "end" => self.end_turn("end_turn"),
            "stop" => {
                self.end_turn(rest);
                return Err(TurnOver);
            }
            "error" => {
                let (code, message) = split(rest);
                let error = json!({"code": code.parse::<i64>().expect("a number"), "message": message});
                if let Some(id) = self.turn.take() {
                    self.wire.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
                }
                return Err(TurnOver);
            }
            "exit" => leave(rest.parse().unwrap_or(0)),
            "deaf" => self.deaf = true,
            "deaf-inner" => self.deaf_inner = true,
            "ignore-term" => subagent_testkit::wire::ignore_term(),
            // An agent answers whatever it is told.
            _ => {
                self.messages += 1;
                self.chunk(&format!("heard: {}", self.filled(line)));
            }
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
            Err(RecvTimeoutError::Disconnected) => {
                self.sessions.told(&json!({"method": "end of input"}));
                std::thread::sleep(self.knobs.slow_leave);
                leave(0)
            }
        };
        self.sessions.told(&told);
        let (id, params) = (&told["id"], &told["params"]);
        let session = params["sessionId"].as_str().unwrap_or_default();
        match told["method"].as_str() {
            Some("initialize") => self.initialize(id),
            Some("session/new") => self.begin(id, None, false),
            Some("session/load") => self.begin(id, Some(session), true),
            Some("session/resume") => self.begin(id, Some(session), false),
            Some("session/fork") => self.fork(id, session),
            Some("session/prompt") => self.prompts.push(told),
            Some("session/cancel") => return self.cancel(session).map(|()| true),
            Some("session/close") => self.close(id),
            Some("session/set_mode" | "session/set_config_option") => self.answer(id, &json!({})),
            Some(_) if !id.is_null() => self.refuse(id, -32_601, "there is no such method"),
            None if self.asked.contains(id) => {
                self.asked.retain(|asked| asked != id);
                self.answer = answer_of(&told);
            }
            _ => {}
        }
        Ok(true)
    }

    /// A session is to be cancelled: its own, or that of a subagent of its own.
    fn cancel(&mut self, session: &str) -> Played {
        if session != self.session {
            self.cancelled.insert(session.to_owned());
            if !self.deaf_inner {
                let state = json!({"state": {"state": "idle", "stopReason": "cancelled"}});
                self.inner(&self.session, session, state);
            }
            return Ok(());
        }
        if self.turn.is_none() || self.deaf {
            return Ok(());
        }
        self.end_turn("cancelled");
        Err(TurnOver)
    }

    fn close(&self, id: &Value) {
        if self.knobs.slow_close < NEVER {
            std::thread::sleep(self.knobs.slow_close);
            self.answer(id, &json!({}));
        }
    }

    fn initialize(&self, id: &Value) {
        std::thread::sleep(self.knobs.slow_start);
        let can = |word: &str| self.knobs.can.contains(word);
        let mut session = json!({});
        for word in ["resume", "fork", "close"] {
            if can(word) {
                session[word] = json!({});
            }
        }
        if can("instructions") {
            session["systemPrompt"] = json!({"mode": {"override": {}}});
        }
        let mut result = json!({
            "agentInfo": {"name": "acp-agent", "version": "1"},
            "agentCapabilities": {
                "loadSession": can("load"),
                "promptCapabilities": {"image": can("image")},
                "sessionCapabilities": session,
            },
            "authMethods": [{"id": "key", "name": "API key"}],
        });
        if let Some(version) = self.knobs.version {
            result["protocolVersion"] = json!(version);
        }
        self.answer(id, &result);
    }

    /// Begins a session, or goes on with one that there was.
    fn begin(&mut self, id: &Value, old: Option<&str>, with_history: bool) {
        if let Some(message) = &self.knobs.login {
            return self.refuse(id, -32_000, message);
        }
        let Some(old) = old else {
            if self.knobs.session.as_deref() == Some("none") {
                return self.answer(id, &json!({}));
            }
            self.session = self.new_name();
            self.sessions.begin(&self.session);
            self.answer(id, &json!({"sessionId": self.session}));
            return self.say_banner();
        };
        let Some(turns) = self.sessions.turns(old) else {
            return self.refuse(id, -32_002, &format!("Resource not found: {old}"));
        };
        old.clone_into(&mut self.session);
        for turn in turns {
            let asked = turn["asked"].as_str().unwrap_or_default().to_owned();
            if with_history {
                let text = |text: &Value| json!({"content": {"type": "text", "text": text}});
                self.update("user_message_chunk", text(&turn["asked"]));
                for said in turn["said"].as_array().into_iter().flatten() {
                    self.update("agent_message_chunk", text(said));
                }
                self.tool("history");
                self.inner(old, "of-history", json!({"title": "long gone", "state": {"state": "running"}}));
                self.update(
                    "usage_update",
                    json!({"used": 1, "size": 9, "cost": {"amount": 7.5, "currency": "USD"}}),
                );
            }
            self.history.push(asked);
        }
        self.answer(id, &json!({}));
    }

    fn fork(&mut self, id: &Value, of: &str) {
        let Some(turns) = self.sessions.turns(of) else {
            return self.refuse(id, -32_002, &format!("Resource not found: {of}"));
        };
        self.history.extend(turns.iter().filter_map(|turn| Some(turn["asked"].as_str()?.to_owned())));
        self.session = self.new_name();
        self.sessions.copy(of, &self.session);
        self.answer(id, &json!({"sessionId": self.session}));
    }

    fn new_name(&self) -> String {
        self.knobs.session.clone().unwrap_or_else(|| format!("acp-{}", std::process::id()))
    }

    fn say_banner(&mut self) {
        if let Some(banner) = self.knobs.banner.clone() {
            self.wire.raw("acp-agent says hello, and this is no JSON");
            self.chunk(&banner);
        }
    }

    fn end_turn(&mut self, reason: &str) {
        let Some(id) = self.turn.take() else { return };
        let mut result = json!({"stopReason": reason});
        if let Some(used) = self.used.take() {
            result["usage"] = used;
        }
        self.sessions.keep(&self.session, &self.script, &self.said);
        self.answer(&id, &result);
    }

    fn chunk(&self, text: &str) {
        let id = format!("m{}", self.messages);
        self.update(
            "agent_message_chunk",
            json!({"messageId": id, "content": {"type": "text", "text": text}}),
        );
    }

    fn tool(&mut self, name: &str) {
        self.made += 1;
        let id = format!("t{}", self.made);
        let call = json!({"toolCallId": id, "title": name, "kind": "execute", "status": "in_progress"});
        self.update("tool_call", call);
        self.update("tool_call_update", json!({"toolCallId": id, "status": "completed"}));
    }

    fn inner(&self, on: &str, id: &str, mut fields: Value) {
        fields["sessionId"] = json!(id);
        self.update_of(on, "subagent_update", fields);
    }

    fn update(&self, kind: &str, fields: Value) {
        self.update_of(&self.session, kind, fields);
    }

    fn update_of(&self, session: &str, kind: &str, mut fields: Value) {
        fields["sessionUpdate"] = json!(kind);
        let params = json!({"sessionId": session, "update": fields});
        self.wire.say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn ask(&mut self, session: &str, rest: &str) {
        let (kinds, title) = split(rest);
        self.made += 1;
        let option = |kind: &str| json!({"optionId": format!("id-{kind}"), "name": kind, "kind": kind});
        let options: Vec<_> = kinds.split(',').filter(|kind| !kind.is_empty()).map(option).collect();
        let call = json!({"toolCallId": format!("t{}", self.made), "title": title, "kind": "execute"});
        self.request(
            "session/request_permission",
            &json!({"sessionId": session, "toolCall": call, "options": options}),
        );
    }

    fn request(&mut self, method: &str, params: &Value) {
        self.made += 1;
        let id = json!(self.made);
        self.asked.push(id.clone());
        self.wire.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn answer(&self, id: &Value, result: &Value) {
        self.wire.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn refuse(&self, id: &Value, code: i64, message: &str) {
        self.wire.say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }

    fn filled(&self, text: &str) -> String {
        let history = self.history.join(" | ").replace('\n', " / ");
        let pid = std::process::id().to_string();
        let names = [
            ("$answer", self.answer.as_str()),
            ("$session", &self.session),
            ("$history", &history),
            ("$pid", &pid),
        ];
        names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// What an answer of the client comes to, in a word.
fn answer_of(told: &Value) -> String {
    let result = &told["result"];
    let outcome = &result["outcome"];
    let words = [
        &outcome["optionId"],
        &outcome["outcome"],
        &result["content"]["answer"],
        &result["action"],
        &told["error"]["code"],
    ];
    let word = words.into_iter().find(|word| !word.is_null());
    word.map_or_else(String::new, |word| word.as_str().map_or_else(|| word.to_string(), str::to_owned))
}

fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn parsed(fields: &str) -> Value {
    if fields.is_empty() { json!({}) } else { serde_json::from_str(fields).expect("the fields are JSON") }
}
