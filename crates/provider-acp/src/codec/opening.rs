//! The opening: `initialize`, then the session that is asked for, then what is to be set of it, one after the other. What
//! the agent turns out to lack ends the opening with the exact reason; nothing is left out in silence.

use serde_json::Value;
use subagent_model::{Attachment, ErrorCode, ErrorInfo, McpTransport, SpawnSpec, SystemPromptMode};
use subagent_provider::{Heard, Said, TurnEnd};

use super::bounds::{NAME_BYTES, cut, list, name};
use super::failure::{self, failure};
use super::frame::{self, RpcError};
use super::settings::{Setting, Via, Wish};
use super::usage::Cost;
use super::{Acp, How, Stage, Step, words};

/// Most ways to log in that are named.
const MOST_LOGINS: usize = 8;

/// What the agent said that it can do.
#[expect(clippy::struct_excessive_bools, reason = "each is an ability of its own, and none excludes another")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Announced {
    load: bool,
    resume: bool,
    fork: bool,
    pub(super) close: bool,
    instructions: bool,
    instructions_instead: bool,
    http_servers: bool,
    images: bool,
    texts: bool,
    /// Ways to log in, for people.
    logins: Vec<String>,
    /// Its name and version, for people.
    who: Option<String>,
}

impl Announced {
    fn of(result: &Value) -> Self {
        let can = &result["agentCapabilities"];
        let session = &can["sessionCapabilities"];
        // An ability is an object that is there; some say true.
        let has = |value: &Value| value.is_object() || value.as_bool() == Some(true);
        let logins = list(result.get("authMethods")).iter().take(MOST_LOGINS);
        let word = |field: &str| result["agentInfo"].get(field).and_then(Value::as_str);
        let who = word("name").map(|name| {
            let version = word("version").map(|version| format!(" {version}")).unwrap_or_default();
            cut(&format!("{name}{version}"), NAME_BYTES)
        });
        Self {
            load: can["loadSession"].as_bool() == Some(true),
            resume: has(&session["resume"]),
            fork: has(&session["fork"]),
            close: has(&session["close"]),
            instructions: has(&session["systemPrompt"]),
            instructions_instead: has(&session["systemPrompt"]["mode"]["override"]),
            http_servers: can["mcpCapabilities"]["http"].as_bool() == Some(true),
            images: can["promptCapabilities"]["image"].as_bool() == Some(true),
            texts: can["promptCapabilities"]["embeddedContext"].as_bool() == Some(true),
            logins: logins.filter_map(|login| name(login.get("name").or_else(|| login.get("id")))).collect(),
            who,
        }
    }

    /// Why it does not take one of these files, in words.
    pub(super) fn lacks_for<'a>(&self, files: impl IntoIterator<Item = &'a Attachment>) -> Option<String> {
        files.into_iter().find_map(|file| {
            let (what, word, can) = if file.is_image() {
                ("images", "promptCapabilities.image", self.images)
            } else {
                ("texts beside the task", "promptCapabilities.embeddedContext", self.texts)
            };
            (!can).then(|| format!("takes no {what}, as {:?} is: it does not announce {word}", file.name))
        })
    }

    fn continues(&self) -> bool {
        self.load || self.resume
    }
}

impl Acp {
    /// A step of the opening was answered.
    pub(super) fn opened_by(&mut self, step: Step, outcome: Result<Value, RpcError>) -> Heard {
        match (step, outcome) {
            (Step::Initialize, Ok(result)) => self.initialized(&result),
            (Step::Initialize, Err(error)) => self.not_opened(words::INITIALIZE, &error),
            (Step::Session(how), Ok(result)) => self.has_session(how, &result),
            (Step::Session(how), Err(error)) if how.continues() && failure::names_no_session(&error) => {
                let gone = failure::of_opening(how.method(), &error, &[]);
                self.fails(ErrorInfo { code: ErrorCode::SessionGone, retryable: false, ..gone })
            }
            (Step::Session(how), Err(error)) => self.not_opened(how.method(), &error),
            (Step::Set(setting), Ok(result)) => {
                self.settings.learn(&result);
                self.set_after(Some(setting))
            }
            (Step::Set(setting), Err(error)) => {
                self.not_opened(&format!("the {} could not be set", setting.word()), &error)
            }
        }
    }

    fn not_opened(&mut self, what: &str, error: &RpcError) -> Heard {
        let error = failure::of_opening(what, error, &self.announced.logins);
        self.fails(error)
    }

    /// It could not be opened.
    fn fails(&mut self, error: ErrorInfo) -> Heard {
        self.stage = Stage::Over;
        Heard { said: vec![Said::Done(TurnEnd::Failed(error))], reply: vec![] }
    }

    fn lacks(&mut self, code: ErrorCode, what: &str) -> Heard {
        let who = self.announced.who.as_deref().unwrap_or("the agent");
        let error = failure(code, format!("{who} {what}"));
        self.fails(error)
    }

    fn initialized(&mut self, result: &Value) -> Heard {
        match result.get("protocolVersion") {
            Some(version) if version.as_u64() == Some(words::VERSION) => {}
            Some(version) => {
                let version = cut(&version.to_string(), NAME_BYTES);
                let only = words::VERSION;
                return self.broken(format!(
                    "it speaks version {version} of the Agent Client Protocol, and only version {only} is spoken here"
                ));
            }
            None => {
                return self.broken(String::from("it answered initialize without a version of its protocol"));
            }
        }
        self.announced = Announced::of(result);
        let Some(spec) = self.spec.clone() else {
            return self.broken(String::from("it was answered before anything was asked"));
        };
        if let Some(missing) = self.missing(&spec) {
            return self.lacks(ErrorCode::NotCapable, &missing);
        }
        let announced = &self.announced;
        let (how, session) = match (&self.continues, &spec.setup.fork_of) {
            (Some(session), _) if announced.resume => (How::Resume, Some(session.clone())),
            (Some(session), _) if announced.load => (How::Load, Some(session.clone())),
            (Some(_), _) => {
                let what = "can continue no session: it announces neither session/load nor session/resume";
                return self.lacks(ErrorCode::NotResumable, what);
            }
            (None, Some(session)) if announced.fork => (How::Fork, Some(session.clone())),
            (None, Some(_)) => {
                return self.lacks(
                    ErrorCode::NotCapable,
                    "cannot fork a session: it does not announce session/fork",
                );
            }
            (None, None) => (How::New, None),
        };
        let id = self.id();
        let params = words::Begin {
            session_id: session.as_deref(),
            cwd: spec.cwd.as_str(),
            mcp_servers: spec.setup.mcp_servers.iter().map(words::Server::of).collect(),
            system_prompt: spec.setup.system_prompt.as_ref().map(words::Instructions::of),
            meta: self.agent.own.then(|| words::Own::new(words::SetUp::of(&spec))),
        };
        let reply = frame::request(id, how.method(), params);
        if how.continues() {
            self.session = session;
        }
        self.stage = Stage::Opening { id, step: Step::Session(how) };
        Heard { said: vec![], reply }
    }

    /// What is asked for and was not announced, in words.
    fn missing(&self, spec: &SpawnSpec) -> Option<String> {
        let announced = &self.announced;
        match spec.setup.system_prompt.as_ref().map(|prompt| prompt.mode) {
            Some(_) if !announced.instructions => {
                return Some(String::from("takes no instructions: it does not announce systemPrompt"));
            }
            Some(SystemPromptMode::Override) if !announced.instructions_instead => {
                return Some(String::from(
                    "takes no instructions instead of its own: it does not announce systemPrompt.mode.override",
                ));
            }
            _ => {}
        }
        // Of a session that goes on the task was given before.
        if self.continues.is_none()
            && let Some(lacking) = announced.lacks_for(&spec.attachments)
        {
            return Some(lacking);
        }
        let http =
            spec.setup.mcp_servers.iter().find(|server| matches!(server.via, McpTransport::Http { .. }));
        http.filter(|_| !announced.http_servers).map(|server| {
            format!(
                "takes no MCP server over HTTP, as {:?} is: it does not announce mcpCapabilities.http",
                server.name
            )
        })
    }

    fn has_session(&mut self, how: How, result: &Value) -> Heard {
        if !how.continues() {
            let Some(session) = name(result.get("sessionId")) else {
                return self.broken(format!("it answered {} without the id of a session", how.method()));
            };
            self.session = Some(session);
        }
        if how == How::New {
            self.cost = Cost::none_yet();
        }
        self.settings.learn(result);
        // Its journal may not have come to the prompt that was written to it before its end.
        let last_run = result["_meta"]["subagent"]["lastRun"].as_u64().unwrap_or(0);
        self.lacks_prompt = self.agent.own && how.continues() && last_run < u64::from(self.run);
        let models = self.settings.models();
        let mut heard = self.set_after(None);
        if !models.is_empty() {
            heard.said.insert(0, Said::Models(models));
        }
        heard
    }

    /// Sets what is still to be set, then takes prompts.
    fn set_after(&mut self, after: Option<Setting>) -> Heard {
        let left =
            Setting::ALL.into_iter().skip_while(|setting| after.is_some_and(|after| *setting != after));
        let mut said = Vec::new();
        for setting in left.skip(usize::from(after.is_some())) {
            let Some((wanted, must)) = self.wanted(setting) else { continue };
            match self.settings.wish(setting, &wanted) {
                Wish::Fulfilled => {}
                Wish::Set(via, value) => {
                    let reply = self.set(setting, &via, &value);
                    return Heard { said, reply };
                }
                Wish::NotOffered(offer) if must => {
                    let what = format!("has no {} {wanted:?}: {offer}", setting.word());
                    return self.lacks(ErrorCode::NotCapable, &what);
                }
                Wish::NotOffered(offer) => {
                    said.extend(self.remark(format!("its mode stays what it is: no {wanted:?}, {offer}")));
                }
            }
        }
        self.stage = Stage::Open;
        said.extend(self.model_news());
        let names_it = self.agent.resumes && self.announced.continues();
        said.push(Said::Opened { session: self.session.clone().filter(|_| names_it) });
        Heard { said, reply: vec![] }
    }

    /// What is asked for, and whether it must be so.
    fn wanted(&self, setting: Setting) -> Option<(String, bool)> {
        let spec = self.spec.as_ref()?;
        match setting {
            Setting::Model if self.agent.model_option.is_some() => None,
            Setting::Model => spec.model.clone().map(|model| (model, true)),
            Setting::Effort => spec.setup.effort.clone().map(|effort| (effort, true)),
            Setting::Mode => {
                let asked = spec.setup.permission_mode.clone().map(|mode| (mode, true));
                let now = self.settings.current(Setting::Mode).unwrap_or_default();
                let own = self.agent.asks_in.first().filter(|_| !self.agent.asks_in.contains(&now));
                asked.or_else(|| own.map(|mode| ((*mode).to_owned(), false)))
            }
        }
    }

    fn set(&mut self, setting: Setting, via: &Via, value: &str) -> Vec<u8> {
        let id = self.id();
        self.stage = Stage::Opening { id, step: Step::Set(setting) };
        let session_id = self.session.as_deref().unwrap_or_default();
        match via {
            Via::Option(config_id) => {
                frame::request(id, words::SET_OPTION, words::SetOption { session_id, config_id, value })
            }
            Via::Modes => frame::request(id, words::SET_MODE, words::SetMode { session_id, mode_id: value }),
            Via::Models => {
                frame::request(id, words::SET_MODEL, words::SetModel { session_id, model_id: value })
            }
        }
    }

    /// The model that works now, where that is news.
    pub(super) fn model_news(&mut self) -> Option<Said> {
        let now = self.settings.current(Setting::Model)?.to_owned();
        let news = self.model.as_ref() != Some(&now);
        self.model = Some(now.clone());
        news.then_some(Said::Model(now))
    }
}
