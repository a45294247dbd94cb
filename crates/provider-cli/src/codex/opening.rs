//! How a thread comes to be: begun, resumed or forked, with everything that is set on it.

use serde_json::{Map, Value, json};
use subagent_model::{McpServer, McpTransport, SpawnSpec, SystemPromptMode};
use subagent_provider::Job;

use super::frames::request;
use super::rights::Rights;
use crate::bounds::{NAME_BYTES, cut};

/// The id of the request that opens the thread.
pub(super) const THREAD: &str = "thread";

/// Which thread is spoken with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// A new one.
    Start,
    /// The one of a former process.
    Resume(String),
    /// A copy of one.
    Fork(String),
}

impl Plan {
    pub(super) fn of(job: &Job) -> Self {
        match (&job.session, &job.spec.setup.fork_of) {
            (Some(session), _) => Self::Resume(session.clone()),
            (None, Some(other)) => Self::Fork(other.clone()),
            (None, None) => Self::Start,
        }
    }

    /// The id of the first request: it says what was meant, also to who reads it later.
    pub(super) fn id(&self) -> String {
        match self {
            Self::Start => String::from("open:start"),
            Self::Resume(thread) => format!("open:resume:{thread}"),
            Self::Fork(thread) => format!("open:fork:{thread}"),
        }
    }

    /// The plan that a first request with this id was for.
    pub(super) fn from_id(id: &str) -> Option<Self> {
        let plan = id.strip_prefix("open:")?;
        if plan == "start" {
            return Some(Self::Start);
        }
        let resumed = plan.strip_prefix("resume:").map(|thread| Self::Resume(thread.to_owned()));
        resumed.or_else(|| plan.strip_prefix("fork:").map(|thread| Self::Fork(thread.to_owned())))
    }
}

/// What is set on the thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wish {
    pub(super) rights: Rights,
    pub(super) schema: Option<Value>,
    settings: Map<String, Value>,
}

impl Wish {
    pub(super) fn of(spec: &SpawnSpec) -> Self {
        let setup = &spec.setup;
        // A mode that does not exist was refused at admission.
        let rights = Rights::of(setup.permission_mode.as_deref()).unwrap_or(Rights::USUAL);
        let mut settings = Map::new();
        settings.insert("cwd".into(), json!(spec.cwd));
        settings.insert("approvalPolicy".into(), json!(rights.approvals));
        settings.insert("approvalsReviewer".into(), json!("user"));
        settings.insert("sandbox".into(), json!(rights.sandbox));
        if let Some(model) = &spec.model {
            settings.insert("model".into(), json!(model));
        }
        if let Some(prompt) = &setup.system_prompt {
            let place = match prompt.mode {
                SystemPromptMode::Append => "developerInstructions",
                SystemPromptMode::Override => "baseInstructions",
            };
            settings.insert(place.into(), json!(prompt.text));
        }
        let mut config = Map::new();
        if let Some(effort) = &setup.effort {
            config.insert("model_reasoning_effort".into(), json!(effort));
        }
        if !setup.mcp_servers.is_empty() {
            let servers = setup.mcp_servers.iter().map(|server| (server.name.clone(), transport(server)));
            config.insert("mcp_servers".into(), Value::Object(servers.collect()));
        }
        if !config.is_empty() {
            settings.insert("config".into(), Value::Object(config));
        }
        Self { rights, schema: spec.output_schema.clone(), settings }
    }

    /// What of an opened thread is not as it was meant, where that does no harm.
    pub(super) fn differs(&self, opened: &Value) -> Option<String> {
        let differs = |name: &str| {
            let (asked, got) = (self.settings.get(name)?.as_str()?, opened[name].as_str()?);
            (asked.trim_end_matches('/') != got.trim_end_matches('/'))
                .then(|| format!("codex uses the {name} {:?} and not {asked:?}", cut(got, NAME_BYTES)))
        };
        let all = ["model", "cwd"].into_iter().filter_map(differs).collect::<Vec<_>>();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The request that opens the thread.
    pub(super) fn open(&self, plan: &Plan) -> Vec<u8> {
        let mut params = self.settings.clone();
        let (method, thread) = match plan {
            Plan::Start => ("thread/start", None),
            Plan::Resume(thread) => ("thread/resume", Some(thread)),
            Plan::Fork(thread) => ("thread/fork", Some(thread)),
        };
        if let Some(thread) = thread {
            params.insert("threadId".into(), json!(thread));
            params.insert("excludeTurns".into(), json!(true));
        }
        request(THREAD, method, &Value::Object(params))
    }
}

fn transport(server: &McpServer) -> Value {
    match &server.via {
        McpTransport::Stdio { command, args, env } => json!({ "command": command, "args": args, "env": env }),
        McpTransport::Http { url, headers } => json!({ "url": url, "http_headers": headers }),
    }
}
