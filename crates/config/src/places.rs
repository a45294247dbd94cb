//! Where definitions lie. The caller says which directories there are; this is the one place that knows what is looked
//! for in them, and which comes first.

use camino::{Utf8Path, Utf8PathBuf};

use crate::definition::{AgentDefinition, Dialect, Scope};
use crate::known::Known;

/// The configuration directory of each product, for one person or one machine. An absent one is not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Homes {
    /// Ours: `agents/*.md`.
    pub subagent: Option<Utf8PathBuf>,
    /// Claude Code: `agents/**/*.md`.
    pub claude: Option<Utf8PathBuf>,
    /// Codex: `agents/**/*.toml`, and `config.toml`.
    pub codex: Option<Utf8PathBuf>,
    /// opencode: `agent/**/*.md`, `agents/**/*.md`, `opencode.json` and `opencode.jsonc`.
    pub opencode: Option<Utf8PathBuf>,
    /// pi: `agents/*.md`.
    pub pi: Option<Utf8PathBuf>,
    /// Gemini CLI: `agents/*.md`.
    pub gemini: Option<Utf8PathBuf>,
}

impl Homes {
    /// Where the products keep their configuration unless told otherwise: below the home directory of a person, and
    /// below the directory for configuration. What a variable such as `CLAUDE_CONFIG_DIR`, `CODEX_HOME` or
    /// `PI_CODING_AGENT_DIR` sets is put in afterwards by whoever may read it.
    pub fn below(home: &Utf8Path, config: &Utf8Path) -> Self {
        Self {
            subagent: Some(config.join("subagent")),
            claude: Some(home.join(".claude")),
            codex: Some(home.join(".codex")),
            opencode: Some(config.join("opencode")),
            pi: Some(home.join(".pi/agent")),
            gemini: Some(home.join(".gemini")),
        }
    }
}

/// A project, as seen from a directory in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Where the looking begins.
    pub start: Utf8PathBuf,
    /// Where it ends: the root of the repository.
    pub root: Utf8PathBuf,
}

impl Project {
    /// The project around a directory: its root is the nearest directory that holds `.git`, or the directory itself.
    pub fn around(start: &Utf8Path) -> Self {
        let start = start.canonicalize_utf8().unwrap_or_else(|_| start.to_owned());
        let root = start.ancestors().find(|above| above.join(".git").exists()).unwrap_or(&start).to_owned();
        Self { start, root }
    }

    /// The directories from the start to the root, the nearest first.
    fn levels(&self) -> impl Iterator<Item = &Utf8Path> {
        let inside = self.start.starts_with(&self.root);
        let stop = self.root.parent();
        self.start.ancestors().take_while(move |level| Some(*level) != stop).take(if inside {
            usize::MAX
        } else {
            1
        })
    }
}

/// All that decides which definitions there are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Places {
    /// Set by whoever administers the machine.
    pub managed: Homes,
    /// Definitions that a program added while it runs.
    pub runtime: Vec<AgentDefinition>,
    /// The project.
    pub project: Option<Project>,
    /// The person's.
    pub user: Homes,
    /// Directories that are trusted, with everything below them; see [`crate::TrustStore`].
    pub trusted: Vec<Utf8PathBuf>,
    /// Names that definitions may use.
    pub known: Known,
}

/// The rank of what a program added while it runs: after what is managed, before everything else.
pub(crate) const RUNTIME: usize = 100;

/// What is looked for at a spot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// The files of a directory with this ending, and of those below it.
    Directory { path: Utf8PathBuf, below: bool, ending: &'static str },
    /// A table in one file.
    Table { path: Utf8PathBuf },
}

/// One thing to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) scope: Scope,
    pub(crate) dialect: Dialect,
    /// Spots of one rank are one place: a name may stand there once. A lower one comes first.
    pub(crate) rank: usize,
    pub(crate) trusted: bool,
    /// Links may not lead out of this directory, which is written without any.
    pub(crate) fence: Option<Utf8PathBuf>,
    pub(crate) what: What,
}

impl Spot {
    /// The file or directory itself.
    pub(crate) fn path(&self) -> &Utf8Path {
        match &self.what {
            What::Directory { path, .. } | What::Table { path } => path,
        }
    }
}

/// What is at a configuration directory of a product.
fn contents(dialect: Dialect, at: &Utf8Path) -> Vec<What> {
    let directory = |name: &str, below, ending| What::Directory { path: at.join(name), below, ending };
    let table = |name: &str| What::Table { path: at.join(name) };
    match dialect {
        Dialect::Subagent | Dialect::Pi | Dialect::Gemini => vec![directory("agents", false, "md")],
        Dialect::Claude => vec![directory("agents", true, "md")],
        Dialect::Codex => vec![table("config.toml"), directory("agents", true, "toml")],
        Dialect::Opencode => vec![
            directory("agent", true, "md"),
            directory("agents", true, "md"),
            table("opencode.json"),
            table("opencode.jsonc"),
        ],
    }
}

/// What is at one level of a project.
fn level(dialect: Dialect, at: &Utf8Path) -> Vec<What> {
    let below = |name: &str| contents(dialect, &at.join(name));
    match dialect {
        Dialect::Subagent => below(".subagent"),
        Dialect::Claude => below(".claude"),
        Dialect::Codex => below(".codex"),
        Dialect::Opencode => {
            let mut all = below(".opencode");
            all.extend(["opencode.json", "opencode.jsonc"].map(|name| What::Table { path: at.join(name) }));
            all
        }
        Dialect::Pi => {
            let mut all = below(".pi");
            all.push(What::Directory { path: at.join(".agents/agents"), below: false, ending: "md" });
            all
        }
        Dialect::Gemini => below(".gemini"),
    }
}

impl Places {
    /// Everything to look at, the strongest first.
    pub(crate) fn spots(&self) -> Vec<Spot> {
        let mut spots = Vec::new();
        let mut rank = 0;
        let mut add = |scope, dialect, trusted, fence: Option<&Utf8Path>, all: Vec<What>| {
            rank = if scope == Scope::Managed { rank + 1 } else { rank.max(RUNTIME) + 1 };
            let fence = fence.map(Utf8Path::to_owned);
            spots.extend(all.into_iter().map(|what| Spot {
                scope,
                dialect,
                rank,
                trusted,
                fence: fence.clone(),
                what,
            }));
        };
        for (dialect, home) in self.managed.each() {
            add(Scope::Managed, dialect, true, None, contents(dialect, home));
        }
        if let Some(project) = &self.project {
            let fence = real(&project.root);
            let trusted = self.trusted.iter().any(|trusted| fence.starts_with(real(trusted)));
            let own: Vec<Utf8PathBuf> =
                self.user.each().chain(self.managed.each()).map(|(_, home)| real(home)).collect();
            for at in project.levels() {
                for dialect in Dialect::ALL.iter().copied() {
                    let mut all = level(dialect, at);
                    // In a project around the home directory its files would be the person's own, read as a stranger's.
                    all.retain(|what| {
                        let (What::Directory { path, .. } | What::Table { path }) = what;
                        path.parent().is_none_or(|parent| parent == at || !own.contains(&real(parent)))
                    });
                    add(Scope::Project, dialect, trusted, Some(&fence), all);
                }
            }
        }
        for (dialect, home) in self.user.each() {
            add(Scope::User, dialect, true, None, contents(dialect, home));
        }
        spots
    }
}

impl Homes {
    fn each(&self) -> impl Iterator<Item = (Dialect, &Utf8Path)> {
        Dialect::ALL.iter().filter_map(|dialect| {
            let home = match dialect {
                Dialect::Subagent => &self.subagent,
                Dialect::Claude => &self.claude,
                Dialect::Codex => &self.codex,
                Dialect::Opencode => &self.opencode,
                Dialect::Pi => &self.pi,
                Dialect::Gemini => &self.gemini,
            };
            home.as_deref().map(|home| (*dialect, home))
        })
    }
}

/// The place that a path leads to, through all links.
pub(crate) fn real(path: &Utf8Path) -> Utf8PathBuf {
    path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned())
}
