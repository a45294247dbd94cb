//! Opening sessions: new ones, those that are on disk, and copies. All that can be wrong with one is found here, before
//! anything is asked of a model.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use subagent_model::ErrorCode;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::Options;
use super::frame::{Refusal, code};
use super::voice::{Line, Voice};
use super::words::{Begin, InstructionsMode, Own};
use crate::clock::now_ms;
use crate::endpoint::HttpModel;
use crate::endpoint::config::Choice;
use crate::fact::{Fact, Header, VERSION};
use crate::inherit;
use crate::journal::{Journal, JournalError};
use crate::prompt;
use crate::session::{Means, Mode, Session, Steer};
use crate::tools::{Settings, Toolbox};
use crate::turn::{Rules, Schema};

/// Files with instructions of a project; the first that is there counts.
const PROJECT_FILES: &[&str] = &["AGENTS.md", "CLAUDE.md"];
/// Most bytes of one that are read.
const PROJECT_BYTES: u64 = 64 * 1024;
/// How hard it can be told to think.
pub(super) const EFFORTS: [&str; 5] = ["default", "none", "low", "medium", "high"];

/// How a session is come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    New,
    Load,
    Resume,
    Fork,
}

/// A session that is open.
pub(super) struct Opened {
    pub(super) id: String,
    pub(super) session: Session,
    pub(super) steers: mpsc::UnboundedSender<Steer>,
    /// The answer to the client.
    pub(super) answer: Value,
}

/// Opens one.
pub(super) fn open(options: &Options, line: &Arc<Line>, how: How, params: Value) -> Result<Opened, Refusal> {
    let mut begin = Begin::read(params)?;
    let cwd = directory(&begin.cwd)?;
    let mut roots = vec![cwd.clone()];
    for more in &begin.additional_directories {
        roots.push(directory(more)?);
    }
    let own = begin.own().clone();
    let schema = own.output_schema.clone().map(Schema::new).transpose();
    let schema = schema.map_err(|error| Refusal::params(format!("outputSchema: {error}")))?;
    let (choice, model) = model(options, &own)?;
    let mode = match &own.mode {
        None => options.mode,
        Some(name) => Mode::of(name).ok_or_else(|| Refusal::params(format!("there is no mode {name:?}")))?,
    };
    let effort =
        own.effort.clone().or_else(|| options.config.effort.clone()).filter(|effort| effort != "default");
    let old = begin.session_id.clone();
    let (journal, facts, from) = match (how, old) {
        (How::New, _) => (None, vec![], None),
        (_, None) => return Err(Refusal::params("sessionId is missing")),
        (How::Fork, Some(old)) => {
            let (_, facts) =
                Journal::peek(&options.sessions, &old).map_err(|error| journal_refusal(&error))?;
            (None, vec![], Some((old, facts)))
        }
        (_, Some(old)) => {
            let (journal, facts) =
                Journal::open(&options.sessions, &old).map_err(|error| journal_refusal(&error))?;
            (Some(journal), facts, None)
        }
    };
    let id =
        journal.as_ref().map_or_else(|| Uuid::now_v7().to_string(), |journal| journal.header().id.clone());
    let servers = begin.servers()?;
    let hidden = options.hidden.iter().cloned().chain([options.sessions.clone()]).collect();
    let tools = Toolbox::open(Settings {
        roots,
        hidden,
        environment: options.for_commands.clone(),
        spill: Some(options.spill.join(&id)),
        allow: own.tools.allow.clone(),
        deny: own.tools.deny.clone(),
        servers,
        nested: options.nested.clone().filter(|_| may_delegate(&own)),
        ..Settings::default()
    })
    .map_err(|error| Refusal::params(error.to_string()))?;
    let mut rules = Rules { limits: own.limits.unwrap_or(options.config.limits), schema, ..Rules::default() };
    rules.window = choice.facts.window.unwrap_or(rules.window);
    rules.retries = options.config.retries.unwrap_or(rules.retries);
    let journal = if let Some(journal) = journal {
        journal
    } else {
        let header = header(&id, &cwd, &begin, rules.schema.as_ref().map(Schema::text))?;
        Journal::create(&options.sessions, header).map_err(|error| journal_refusal(&error))?
    };
    let effort_now = effort.clone();
    let means = Means {
        model: Arc::new(model),
        model_name: choice.model.clone(),
        facts: choice.facts,
        effort,
        rules,
        tools: Arc::new(tools),
        mode,
    };
    let voice = Arc::new(Voice { line: Arc::clone(line), session: id.clone() });
    let (steers, heard) = mpsc::unbounded_channel();
    let mut session = Session::new(journal, &facts, means, Arc::clone(&voice) as _, heard);
    if let Some((from, facts)) = from
        && let Some(text) = inherit::text_of(&facts, inherit::MOST_BYTES)
    {
        session.inherit(&from, text).map_err(|error| store(&error))?;
    }
    if how == How::Load {
        voice.replay(session.turn().messages());
    }
    let answer = answer(&id, how, mode, effort_now.as_deref(), &session, &choice);
    Ok(Opened { id, session, steers, answer })
}

fn answer(id: &str, how: How, mode: Mode, effort: Option<&str>, session: &Session, choice: &Choice) -> Value {
    let modes: Vec<_> = Mode::ALL
        .iter()
        .map(|(_, name, about)| json!({"id": name, "name": name, "description": about}))
        .collect();
    let mut own = json!({"model": choice.name(), "prompts": session.turn().prompts()});
    if let Some(run) = session.turn().last_run() {
        own["lastRun"] = json!(run);
    }
    let mut answer = json!({"modes": {"currentModeId": mode.name(), "availableModes": modes},
        "configOptions": options_of(effort), "_meta": {"subagent": own}});
    if matches!(how, How::New | How::Fork) {
        answer["sessionId"] = json!(id);
    }
    answer
}

/// Subagents of its own only where its tools are named and that one is among them.
fn may_delegate(own: &Own) -> bool {
    let names = own.tools.allow.iter().flatten();
    names.into_iter().any(|name| name.trim().eq_ignore_ascii_case("subagent"))
}

/// What can be set.
pub(super) fn options_of(effort: Option<&str>) -> Value {
    let values: Vec<_> = EFFORTS.iter().map(|effort| json!({"value": effort, "name": effort})).collect();
    json!([{"id": "effort", "name": "Effort", "category": "thought_level", "type": "select",
        "currentValue": effort.unwrap_or("default"), "options": values}])
}

/// The model, and its key.
fn model(options: &Options, own: &Own) -> Result<(Choice, HttpModel), Refusal> {
    let env = |name: &str| (options.environment)(name);
    let named = own.model.as_deref().or(options.model.as_deref());
    let choice = options.config.choose(named, &env);
    let choice = choice.map_err(|error| Refusal::class(ErrorCode::InvalidRequest, error.to_string()))?;
    let key = match &choice.key {
        None => None,
        Some(from) => match from.get(&env) {
            Ok(key) => Some(key),
            Err(_) if choice.key_optional => None,
            Err(error) => {
                let message = format!("model {}: {error}", choice.name());
                return Err(Refusal::class(ErrorCode::Auth, message));
            }
        },
    };
    let model = HttpModel::new(choice.clone(), key);
    Ok((choice, model))
}

/// A directory that can be worked in.
fn directory(path: &Path) -> Result<PathBuf, Refusal> {
    if !path.is_absolute() {
        return Err(Refusal::params(format!("cwd must be an absolute path, and {} is not", path.display())));
    }
    match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => Ok(path.to_owned()),
        Ok(_) => Err(Refusal::params(format!("{} is no directory", path.display()))),
        Err(error) => Err(Refusal::params(format!("{} cannot be entered: {error}", path.display()))),
    }
}

fn header(id: &str, cwd: &Path, begin: &Begin, schema: Option<&Value>) -> Result<Header, Refusal> {
    let instructions = begin.system_prompt.as_ref();
    let text = instructions.map(super::words::Instructions::text).transpose()?;
    let instead = instructions.is_some_and(|given| given.mode == InstructionsMode::Override);
    let project = project(cwd);
    let day = jiff::Timestamp::now().to_string();
    let cwd = cwd.to_string_lossy();
    let system = prompt::system(&prompt::Parts {
        instead: text.as_deref().filter(|_| instead),
        after: text.as_deref().filter(|_| !instead),
        project: project.as_ref().map(|(name, text)| (*name, text.as_str())),
        cwd: &cwd,
        system: std::env::consts::OS,
        day: day.get(..10).unwrap_or_default(),
        schema,
    });
    Ok(Header {
        format: Header::FORMAT.to_owned(),
        version: VERSION,
        id: id.to_owned(),
        cwd: cwd.into_owned(),
        system,
        at: now_ms(),
    })
}

/// The instructions of the project in this very directory. Never those of another one, such as a parent's.
fn project(cwd: &Path) -> Option<(&'static str, String)> {
    PROJECT_FILES.iter().find_map(|name| {
        let path = cwd.join(name);
        // A link could lead anywhere, and a pipe would never end.
        if !std::fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(&path).ok()?.take(PROJECT_BYTES).read_to_end(&mut bytes).ok()?;
        Some((*name, String::from_utf8_lossy(&bytes).into_owned()))
    })
}

fn journal_refusal(error: &JournalError) -> Refusal {
    let class = |class| Refusal::class(class, error.to_string());
    match error {
        JournalError::NotFound(_) => Refusal::new(code::NOT_FOUND, error.to_string()),
        JournalError::Busy(_) => class(ErrorCode::StillRunning),
        JournalError::TooNew { .. } => class(ErrorCode::StoreTooNew),
        JournalError::Damaged { .. } => class(ErrorCode::DamagedRecord),
        JournalError::Io { error: io, .. } if io.kind() == std::io::ErrorKind::StorageFull => {
            class(ErrorCode::StoreFull)
        }
        JournalError::Io { .. } => class(ErrorCode::StoreFailed),
    }
}

/// The journal cannot be written.
pub(super) fn store(error: &std::io::Error) -> Refusal {
    let class = if error.kind() == std::io::ErrorKind::StorageFull {
        ErrorCode::StoreFull
    } else {
        ErrorCode::StoreFailed
    };
    Refusal::class(class, format!("the journal of the session cannot be written: {error}"))
}

/// Sessions for a list: those of this directory, or all.
pub(super) fn list(dir: &Path, cwd: Option<&str>) -> Value {
    let all = Journal::list(dir).into_iter().filter(|header| cwd.is_none_or(|cwd| cwd == header.cwd));
    let one = |header: Header| {
        let (_, facts) = Journal::peek(dir, &header.id).ok()?;
        let title = facts.iter().find_map(|fact| match fact {
            Fact::Prompt { text, .. } => Some(text.lines().next().unwrap_or_default()),
            _ => None,
        });
        let title = subagent_model::text::cut_at_boundary(title.unwrap_or_default(), 80).to_owned();
        Some(json!({"sessionId": header.id, "cwd": header.cwd, "title": title}))
    };
    json!({"sessions": all.take(100).filter_map(one).collect::<Vec<_>>()})
}
