//! The agent types that can be asked for in a directory: definition files around it and at home, and the built-in ones.
//! Read anew when they change; a queued run keeps what it was accepted with.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use subagent_config::{Catalog, Catalogs, Homes, Known, Places, Project, TrustStore};
use subagent_provider::{Provider, Registry};

/// Most directories whose types are remembered.
const REMEMBERED: usize = 64;

/// Which agent is taken where nobody says: the first of these that is installed, then any other.
const PREFERRED: &[&str] = &["claude", "codex", "pi", "gemini", "opencode", "qwen"];

/// The agent that needs no installation.
const BUILTIN: &str = "builtin";

/// Where definitions are looked for beside the project.
#[derive(Debug, Clone, Default)]
pub struct AgentFiles {
    /// Directories of the machine.
    pub managed: Homes,
    /// Directories of the person.
    pub user: Homes,
    /// The list of trusted projects.
    pub trust: Option<PathBuf>,
}

/// The types, by the directory in which they are asked for.
pub(crate) struct Agents {
    files: AgentFiles,
    known: Vec<String>,
    by_directory: Mutex<HashMap<Utf8PathBuf, Arc<Catalogs>>>,
}

impl Agents {
    pub(crate) fn new(files: AgentFiles, registry: &Registry) -> Self {
        let known = registry.iter().map(|provider| provider.name().to_owned()).collect();
        Self { files, known, by_directory: Mutex::default() }
    }

    /// What there is now, seen from `cwd`. Reads files: never on a thread that others wait for.
    pub(crate) fn catalog(&self, cwd: &Utf8Path) -> Arc<Catalog> {
        let places = Places {
            managed: self.files.managed.clone(),
            runtime: Vec::new(),
            project: Some(Project::around(cwd)),
            user: self.files.user.clone(),
            trusted: self.trusted(),
            known: Known { providers: Some(self.known.clone()), ..Known::default() },
        };
        let known = self.by_directory.lock().unwrap_or_else(PoisonError::into_inner).get(cwd).cloned();
        if let Some(catalogs) = known {
            return catalogs.refresh(&places);
        }
        let catalogs = Arc::new(Catalogs::new(Catalog::load(&places)));
        let mut all = self.by_directory.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(cwd.to_owned(), Arc::clone(&catalogs));
        catalogs.current()
    }

    /// The projects that are trusted. A list that cannot be read trusts nobody.
    fn trusted(&self) -> Vec<Utf8PathBuf> {
        let Some(path) = &self.files.trust else { return Vec::new() };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the list of trusted projects cannot be read");
                return Vec::new();
            }
        };
        match TrustStore::parse(&text) {
            Ok(store) => store.roots().map(Utf8Path::to_owned).collect(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "no project is trusted");
                Vec::new()
            }
        }
    }
}

/// The file that a program's name means on a `PATH`, in its absolute directories only.
pub fn find(program: &str, path: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| Path::new(dir).join(program))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The agents in the order in which they are taken: `first`, then those that are preferred, then the others by name.
pub(crate) fn in_order<'a>(registry: &'a Registry, first: Option<&'a str>) -> Vec<&'a Arc<dyn Provider>> {
    let mut all: Vec<_> = registry.iter().filter(|provider| provider.program().is_some()).collect();
    let rank = |provider: &Arc<dyn Provider>| {
        let preferred = PREFERRED.iter().position(|name| *name == provider.name());
        // The built-in one is always there, and may have no model: it comes after all that somebody has installed.
        let own = provider.name() == BUILTIN;
        (first != Some(provider.name()), own, preferred.unwrap_or(usize::MAX))
    };
    all.sort_by_key(|provider| rank(provider));
    all
}
