//! The box of tools of one session: made once from what the session may do, asked by the loop for each call. The lists
//! of allowed and denied tools are applied here, at each call, whatever the model was told or a server has announced
//! since.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::join_all;
use serde_json::Value;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::groups::Groups;
use super::mcp::{McpServer, Server};
use super::nested::Nested;
use super::rules::{Refusal, Rules, alias};
use super::spill::Spill;
use super::workspace::{Policy, Workspace};
use super::{Output, Tool, ToolSpec, bash, edit, find, grep, ls, nested, read, text, write};

/// What the tools of a session may do.
#[derive(Clone, Default)]
pub struct Settings {
    /// The directories that file tools may touch, absolute; the first is the working directory. At least one.
    pub roots: Vec<PathBuf>,
    /// Directories that file tools may look at and not change, absolute.
    pub read_only: Vec<PathBuf>,
    /// Files and directories that file tools never touch even if they lie in a root, absolute: keys, journals.
    pub hidden: Vec<PathBuf>,
    /// Names of files (`.env`) that usually hold credentials and may be read all the same.
    pub revealed: Vec<String>,
    /// The environment of commands and of MCP servers, in full: see [`for_commands`](super::for_commands).
    pub environment: Vec<(String, String)>,
    /// Where outputs that are too long for an answer are kept; outside of the roots. Without it the rest is lost.
    pub spill: Option<PathBuf>,
    /// Tools that may be used, as agent files name them; all that are built in when absent.
    pub allow: Option<Vec<String>>,
    /// Tools that may not be used, as agent files name them. They win over `allow`.
    pub deny: Vec<String>,
    /// MCP servers whose tools are offered. They are started when [`Toolbox::prepare`] is first called.
    pub servers: Vec<McpServer>,
    /// How to start a subagent. The tool for it is offered only where `allow` names it (`subagent`, `Task`, `Agent`); a
    /// star or no list is not enough.
    pub nested: Option<Nested>,
    /// Tools of the loop itself. The lists do not concern them.
    pub own: Vec<Arc<dyn Tool>>,
}

/// Why there is no box.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A directory of the session cannot be opened.
    #[error("cannot open {path}: {source}", path = .path.display())]
    Root {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no directory to work in.
    #[error("no directory to work in was given")]
    NoRoot,
    /// A list of tools asks for a limit that cannot be kept.
    #[error(transparent)]
    Rule(#[from] Refusal),
    /// A server has a name that its tools cannot carry.
    #[error("{0:?} cannot be the name of an MCP server: use letters, digits, `-` and single `_`")]
    ServerName(String),
    /// Two servers with one name.
    #[error("two MCP servers have the name {0:?}")]
    ServerTwice(String),
}

/// The tools that may be used.
pub struct Toolbox {
    built_in: Vec<Arc<dyn Tool>>,
    own: Vec<Arc<dyn Tool>>,
    servers: Vec<Arc<Server>>,
    announced: RwLock<Option<Vec<Arc<dyn Tool>>>>,
    rules: Rules,
    cx: Context,
    notes: Vec<String>,
}

impl Toolbox {
    /// Opens the directories, once, and checks the lists. Starts nothing.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let rules = Rules::new(settings.allow.as_deref(), &settings.deny)?;
        let mut servers: Vec<Arc<Server>> = Vec::new();
        for server in settings.servers {
            if !server.has_usable_name() {
                return Err(OpenError::ServerName(server.name));
            }
            if servers.iter().any(|other| other.name().eq_ignore_ascii_case(&server.name)) {
                return Err(OpenError::ServerTwice(server.name));
            }
            if rules.may_use_server(&server.name) {
                servers.push(Arc::new(Server::new(server)));
            }
        }
        let spill = Spill::new(settings.spill.clone());
        let mut read_only = settings.read_only;
        // What was cut off is read with the same tools.
        read_only.extend(settings.spill);
        let policy = Policy {
            hidden: settings.hidden,
            revealed: settings.revealed,
            denied: rules.denied_reads().to_vec(),
        };
        let workspace = Workspace::open(&settings.roots, &read_only, policy)?;
        let mut built_in: Vec<Arc<dyn Tool>> = vec![
            Arc::new(bash::Bash),
            Arc::new(edit::Edit),
            Arc::new(find::Find),
            Arc::new(grep::Grep),
            Arc::new(ls::Ls),
            Arc::new(read::Read),
            Arc::new(write::Write),
        ];
        if let Some(how) = settings.nested.filter(|_| rules.asks_for("subagent")) {
            built_in.push(Arc::new(nested::Subagent::new(how)));
        }
        let notes = rules.notes(&built_in.iter().map(|tool| tool.name()).collect::<Vec<_>>());
        built_in.retain(|tool| rules.may_use(tool.name()));
        built_in.sort_by(|a, b| a.name().cmp(b.name()));
        let cx = Context::new(workspace, settings.environment, Groups::default(), spill);
        Ok(Self { built_in, own: settings.own, servers, announced: RwLock::default(), rules, cx, notes })
    }

    /// How the lists were understood, where people should know; also among what `prepare` says.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Starts the MCP servers, all at once and each within its time, and takes what they announce. Later calls do
    /// nothing, so that what the model is told stays the same through a session. Says what people should know: what did
    /// not work, and how the lists were understood.
    pub async fn prepare(&self, cancel: &CancellationToken) -> Vec<String> {
        if self.announced.read().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Vec::new();
        }
        let cx = self.cx.for_call(cancel.clone());
        let answers = join_all(self.servers.iter().map(|server| Arc::clone(server).announce(&cx))).await;
        if cancel.is_cancelled() {
            return Vec::new();
        }
        let (mut tools, mut notes) = (Vec::<Arc<dyn Tool>>::new(), self.notes.clone());
        for (found, said) in answers {
            notes.extend(said);
            for tool in found {
                if tools.iter().any(|other| other.name() == tool.name()) {
                    notes.push(format!("{} is announced twice; the first counts", tool.name()));
                } else if self.rules.may_use(tool.name()) {
                    tools.push(tool);
                }
            }
        }
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        self.announced.write().unwrap_or_else(PoisonError::into_inner).get_or_insert(tools);
        notes
    }

    /// What the model is told, in a fixed order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.all()
            .iter()
            .map(|tool| ToolSpec {
                name: tool.name().to_owned(),
                description: tool.description().to_owned(),
                parameters: tool.parameters(),
                kind: tool.kind(),
            })
            .collect()
    }

    /// What people are told of a call: one line without control characters.
    pub fn title(&self, name: &str, input: &Value) -> String {
        let title = self.find(name).map_or_else(|| name.to_owned(), |tool| tool.title(input));
        text::one_line(&title, 200)
    }

    /// What kind of work a tool does, if there is that tool.
    pub fn kind(&self, name: &str) -> Option<super::Kind> {
        self.find(name).map(|tool| tool.kind())
    }

    /// Carries out a call, if that tool may be used, and in this way. A name is taken in any case.
    pub async fn call(&self, name: &str, input: Value, cancel: &CancellationToken) -> Output {
        let Some(tool) = self.find(name) else {
            return Output::failed(self.no_such_tool(name));
        };
        if cancel.is_cancelled() {
            return Output::failed("cancelled before it began");
        }
        let mut cx = self.cx.for_call(cancel.clone());
        let own = self.own.iter().any(|own| Arc::ptr_eq(own, &tool));
        if !own {
            match self.rules.check(tool.name(), &input) {
                Ok(paths) => cx.paths = paths,
                Err(why) => return Output::failed(why),
            }
        }
        tool.call(input, &cx).await
    }

    /// Ends all that the tools have started, and waits for it, within a few seconds.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
        self.cx.groups.end().await;
    }

    fn all(&self) -> Vec<Arc<dyn Tool>> {
        let announced = self.announced.read().unwrap_or_else(PoisonError::into_inner);
        self.built_in.iter().chain(&self.own).chain(announced.iter().flatten()).cloned().collect()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let mut all = self.all();
        let named = |name: &str| all.iter().position(|tool| tool.name().eq_ignore_ascii_case(name));
        let exact = all.iter().position(|tool| tool.name() == name);
        // Models know tools by the names of other agents; what may be used is decided by the name here.
        let place = exact.or_else(|| named(name)).or_else(|| named(alias(name)?))?;
        Some(all.swap_remove(place))
    }

    fn no_such_tool(&self, name: &str) -> String {
        let shown = text::one_line(name, 80);
        let mut said = if self.rules.denies(name) {
            format!("the tool {shown} may not be used in this session")
        } else {
            format!("there is no tool {shown}")
        };
        let names: Vec<_> = self.all().iter().map(|tool| tool.name().to_owned()).collect();
        let _ = if names.is_empty() {
            write!(said, "; there are none")
        } else {
            write!(said, "; there are: {}", names.join(", "))
        };
        said
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.all().iter().map(|tool| tool.name().to_owned()).collect();
        f.debug_struct("Toolbox").field("tools", &names).finish_non_exhaustive()
    }
}
