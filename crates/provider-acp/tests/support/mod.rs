//! A conversation without a process: lines are heard and orders told, and everything that went both ways is kept. At its
//! end the conversation is taken over from that log, as a daemon does whose predecessor is gone, and must come to the same.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::needless_pass_by_value, reason = "tests read better with values")]

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use subagent_model::{
    Answer, Ask, AttemptKey, AttemptNumber, BoundedText, Choice, ErrorInfo, ExecSpec, MessageNumber,
    PromptVia, Requester, ResultFrom, RunNumber, SpawnSpec, SubagentId, Talk as ExecTalk,
};
use subagent_provider::{Codec, Job, Order, Provider, Said, TurnEnd, WasTold};
use subagent_provider_acp::AcpProvider;

/// The schemas of everything that is said here, as the official types have them.
pub(crate) static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../official/said-by-us.schema.json"))
        .expect("it was written by a program")
});

/// One line of the log.
enum Line {
    Heard { line: String, said: Vec<Said>, reply: Vec<u8> },
    Told(String),
}

pub(crate) struct Talk {
    pub(crate) codec: Box<dyn Codec>,
    provider: AcpProvider,
    job: Job,
    log: Vec<Line>,
    session: Option<String>,
}

pub(crate) fn program(program: &str) -> ExecSpec {
    ExecSpec {
        program: program.to_owned(),
        args: vec![],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: ExecTalk::None,
    }
}

pub(crate) fn spec() -> SpawnSpec {
    let prompt = BoundedText::whole("do it").expect("it is short");
    SpawnSpec { exec: Some(program("agent")), ..SpawnSpec::new("acp", prompt, "/work".into()) }
}

pub(crate) fn job(spec: SpawnSpec, session: Option<&str>) -> Job {
    let key = AttemptKey {
        subagent: SubagentId::from_uuid(uuid::Uuid::from_u128(7)),
        run: RunNumber(1),
        attempt: AttemptNumber(1),
    };
    Job {
        key,
        prompt: spec.prompt.clone(),
        spec: Arc::new(spec),
        prompt_text: None,
        dir: "/jobs/7".into(),
        session: session.map(str::to_owned),
    }
}

/// What an able agent answers to `initialize`.
pub(crate) fn able() -> Value {
    json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "fake", "version": "1"},
        "agentCapabilities": {
            "loadSession": true,
            "mcpCapabilities": {"http": true},
            "sessionCapabilities": {"resume": {}, "fork": {}, "systemPrompt": {"mode": {"override": {}}}},
        },
        "authMethods": [{"id": "key", "name": "API key"}],
    })
}

impl Talk {
    /// A conversation that has begun, and its first line.
    pub(crate) fn begin(provider: AcpProvider, spec: SpawnSpec, session: Option<&str>) -> (Self, Value) {
        let job = job(spec, session);
        let codec = provider.codec(&job).expect("it is spoken with");
        let mut talk = Self { codec, provider, job, log: vec![], session: None };
        let opening = talk.codec.open(&talk.job.clone());
        let mut lines = talk.wrote(&opening);
        assert_eq!(lines.len(), 1);
        (talk, lines.remove(0))
    }

    /// One that takes prompts, of an agent of which nothing was asked.
    pub(crate) fn open() -> Self {
        let (mut talk, _) = Self::begin(AcpProvider::any(), spec(), None);
        let (said, wrote) = talk.answer(0, able());
        assert_eq!((said, wrote.len()), (vec![], 1));
        let (said, wrote) = talk.answer(2, json!({"sessionId": "s1"}));
        assert_eq!(said, [Said::Opened { session: Some("s1".into()) }]);
        assert!(wrote.is_empty());
        talk
    }

    /// One that works on the prompt of its run, whose request has id 4.
    pub(crate) fn prompted() -> Self {
        let mut talk = Self::open();
        let told = talk.tell(&prompt("do it")).unwrap();
        assert_eq!(told[0]["id"], 4);
        talk
    }

    /// Hears a line; gives what it means and what is written at once.
    pub(crate) fn hear(&mut self, line: &str) -> (Vec<Said>, Vec<Value>) {
        let heard = self.codec.hear(line.as_bytes());
        for said in &heard.said {
            if let Said::Opened { session } = said {
                self.session.clone_from(session);
            }
        }
        self.log.push(Line::Heard {
            line: line.to_owned(),
            said: heard.said.clone(),
            reply: heard.reply.clone(),
        });
        let wrote = self.wrote(&heard.reply);
        (heard.said, wrote)
    }

    pub(crate) fn hears(&mut self, message: &Value) -> (Vec<Said>, Vec<Value>) {
        self.hear(&message.to_string())
    }

    pub(crate) fn answer(&mut self, id: u64, result: Value) -> (Vec<Said>, Vec<Value>) {
        self.hears(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    pub(crate) fn error(&mut self, id: u64, code: i64, message: &str) -> (Vec<Said>, Vec<Value>) {
        self.hears(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
    }

    /// An update of the session `s1`.
    pub(crate) fn update(&mut self, kind: &str, fields: Value) -> Vec<Said> {
        self.update_of("s1", kind, fields)
    }

    pub(crate) fn update_of(&mut self, session: &str, kind: &str, mut fields: Value) -> Vec<Said> {
        fields["sessionUpdate"] = json!(kind);
        let params = json!({"sessionId": session, "update": fields});
        let (said, wrote) =
            self.hears(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        // Only requests that nobody can answer any more are.
        let answers = wrote.iter().all(|line| line["result"]["outcome"]["outcome"] == "cancelled");
        assert!(answers, "nobody answers a notification: {wrote:?}");
        said
    }

    /// A part of a message.
    pub(crate) fn chunk(&mut self, text: &str, message: Option<&str>) -> Vec<Said> {
        let mut fields = json!({"content": {"type": "text", "text": text}});
        if let Some(id) = message {
            fields["messageId"] = json!(id);
        }
        self.update("agent_message_chunk", fields)
    }

    /// A request of the agent.
    pub(crate) fn request(
        &mut self,
        id: impl Into<Value>,
        method: &str,
        params: Value,
    ) -> (Vec<Said>, Vec<Value>) {
        self.hears(&json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}))
    }

    /// Tells an order; gives the lines that are written.
    pub(crate) fn tell(&mut self, order: &Order) -> Result<Vec<Value>, String> {
        let bytes = self.codec.tell(order)?;
        Ok(self.wrote(&bytes))
    }

    pub(crate) fn tell_answer(&mut self, ask: &Ask, answer: Answer) -> Result<Value, String> {
        let order = Order::Answer { key: ask.key.clone(), ask: Box::new(ask.clone()), answer, reason: None };
        let mut wrote = self.tell(&order)?;
        assert_eq!(wrote.len(), 1);
        Ok(wrote.remove(0))
    }

    /// The end of the turn whose prompt has id 4.
    pub(crate) fn ends(&mut self, result: Value) -> Vec<Said> {
        self.answer(4, result).0
    }

    fn wrote(&mut self, bytes: &[u8]) -> Vec<Value> {
        let mut wrote = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let whole = line.strip_suffix(b"\n").expect("a line is written whole");
            let text = String::from_utf8(whole.to_vec()).unwrap();
            let message: Value = serde_json::from_str(&text).unwrap();
            Self::fits(&message);
            self.log.push(Line::Told(text));
            wrote.push(message);
        }
        wrote
    }

    /// Everything that is written fits the official types.
    fn fits(message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0");
        let result = &message["result"];
        let (name, value) = match message["method"].as_str() {
            Some(method) => (method, &message["params"]),
            None if result.get("outcome").is_some() => ("session/request_permission", result),
            None if result.get("action").is_some() => ("elicitation/create", result),
            None => ("error", &message["error"]),
        };
        // The older way to choose a model is in none of the official types any more.
        if name == "session/set_model" {
            return;
        }
        let schema = SCHEMAS.get(name).unwrap_or_else(|| panic!("{name} is no method of the official types"));
        let validator = jsonschema::validator_for(schema).unwrap();
        if let Err(error) = validator.validate(value) {
            panic!("{name} {value} does not fit the official types: {error}");
        }
    }

    /// Takes the conversation over from its log. What is due and not written is given again, what is written is not.
    pub(crate) fn taken_over(&self) -> (Box<dyn Codec>, Vec<WasTold>) {
        // By now the job knows the session that was opened.
        let job = Job { session: self.session.clone().or(self.job.session.clone()), ..self.job.clone() };
        let mut codec = self.provider.codec(&job).unwrap();
        codec.open(&job);
        let mut was = vec![];
        let mut owed: Vec<Vec<u8>> = vec![];
        for line in &self.log {
            match line {
                Line::Heard { line, said, reply } => {
                    let heard = codec.hear(line.as_bytes());
                    assert_eq!(heard.said, *said, "taken over, {line} means something else");
                    assert_eq!(heard.reply, *reply, "taken over, {line} is answered differently");
                    owed.extend(heard.reply.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
                }
                Line::Told(line) => {
                    if let Some(at) = owed.iter().position(|owed| owed.trim_ascii_end() == line.as_bytes()) {
                        owed.remove(at);
                    }
                    was.extend(codec.recall(line.as_bytes()));
                }
            }
        }
        assert!(owed.is_empty(), "taken over, it would say again: {owed:?}");
        (codec, was)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let (mut anew, _) = self.taken_over();
            // Both are where they were: what comes next means the same to both.
            let inner = Order::StopInner { key: String::from("c") };
            let orders = [prompt("more"), message(9, "more"), inner, Order::Interrupt, Order::Close];
            for order in orders {
                assert_eq!(anew.tell(&order), self.codec.tell(&order), "{order:?}");
            }
        }
    }
}

pub(crate) fn prompt(text: &str) -> Order {
    Order::Prompt { number: None, from: Requester::from("me"), text: text.to_owned(), attached: vec![] }
}

pub(crate) fn message(number: u64, text: &str) -> Order {
    Order::Prompt {
        number: Some(MessageNumber(number)),
        from: Requester::from("me"),
        text: text.to_owned(),
        attached: vec![],
    }
}

pub(crate) fn choice(choice: Choice) -> Answer {
    Answer::Choice { choice }
}

pub(crate) fn text(text: &str) -> Answer {
    Answer::Text { text: text.to_owned() }
}

pub(crate) fn message_said(text: &str) -> Said {
    Said::Message(text.to_owned())
}

pub(crate) fn finished() -> Said {
    Said::Done(TurnEnd::Finished { answer: None, truncated: false })
}

/// The failure that it says.
pub(crate) fn failed(said: &[Said]) -> ErrorInfo {
    match said.last() {
        Some(Said::Done(TurnEnd::Failed(error))) => error.clone(),
        other => panic!("it did not fail: {other:?}"),
    }
}

/// Why it is broken.
pub(crate) fn broken(said: &[Said]) -> String {
    match said {
        [Said::Broken(why)] => why.clone(),
        other => panic!("it is not broken: {other:?}"),
    }
}

/// The only thing that is asked.
pub(crate) fn asked(said: &[Said]) -> Ask {
    match said {
        [Said::Asked(ask)] => ask.clone(),
        other => panic!("it asks nothing: {other:?}"),
    }
}
