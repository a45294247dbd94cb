//! Trust in a project: what its files may not do before somebody trusted it, and the list of those that are trusted.

use std::collections::BTreeMap;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use subagent_model::PolicyWord;

use crate::definition::{AgentDefinition, Dialect, Limits};
use crate::fields::{Fields, join};
use crate::given::Given;
use crate::words::{PermissionMode, Sandbox, Visibility};

/// Takes out of a definition that is not trusted whatever would give it power, and says so. What keeps it back stays.
pub(crate) fn hold_back(it: &mut AgentDefinition, fields: &mut Fields<'_>) {
    if it.source.trusted {
        return;
    }
    let mut dropped = |names: &[&str], what: &str| {
        fields.warn_about(names, format!("{what} until the project is trusted"));
    };
    // To have none of the hooks that there are is power too: some of them stand guard.
    if !it.hooks.is_omitted() {
        it.hooks = Given::Omitted;
        dropped(&["hooks"], "what it says about hooks is ignored");
    }
    if it.isolation.is_nothing() {
        it.isolation = Given::Omitted;
        dropped(&["isolation"], "to have no isolation is ignored");
    }
    for names in limited(&mut it.limits) {
        dropped(names, "to have no limit is ignored");
    }
    if let Given::Value(servers) = &mut it.mcp_servers
        && servers.iter().any(|server| server.config.is_some())
    {
        let inline = servers.iter().filter(|server| server.config.is_some()).map(|server| &server.name);
        let what = format!("servers that are configured here ({}) are ignored", join(inline));
        servers.retain(|server| server.config.is_none());
        if servers.is_empty() {
            it.mcp_servers = Given::Nothing;
        }
        dropped(&["mcp_servers"], &what);
    }
    if !it.command.is_empty() {
        it.command.clear();
        it.visibility = Visibility::Disabled;
        dropped(&["command"], "the command is ignored, and the type is disabled");
    }
    if let Some(mode) = it.permission_mode.filter(|mode| *mode > PermissionMode::Ask) {
        it.permission_mode = None;
        dropped(&["permission_mode", "approval_policy"], &format!("the permission mode {mode} is ignored"));
    }
    if let Some(sandbox) = it.sandbox.filter(|sandbox| *sandbox > Sandbox::WorkspaceWrite) {
        it.sandbox = None;
        dropped(&["sandbox", "sandbox_mode"], &format!("the sandbox {sandbox} is ignored"));
    }
    if let Some(permissions) = &mut it.permissions {
        let before = permissions.clone();
        // To ask where a rule allowed keeps the rules after it from being reached, as its author meant.
        for rule in &mut permissions.rules {
            rule.say = rule.say.max(PolicyWord::Ask);
        }
        permissions.otherwise = permissions.otherwise.max(PolicyWord::Ask);
        permissions.expire_ms = None;
        if *permissions != before {
            dropped(&["permissions", "permission"], "what is allowed here is asked");
        }
    }
    if !it.locks.is_empty() {
        it.locks.clear();
        dropped(&["locks"], "locks are ignored");
    }
    // Any setting of Codex may stand in its files: programs to call, other servers for the model, and so on.
    if it.source.dialect == Dialect::Codex && !it.extra.is_empty() {
        let what = format!("other settings ({}) are ignored", join(it.extra.keys()));
        let first = it.extra.keys().next().cloned().unwrap_or_default();
        it.extra.clear();
        dropped(&[&first], &what);
    }
}

/// Takes back that there is no limit, and says of which fields.
fn limited(limits: &mut Limits) -> Vec<&'static [&'static str]> {
    fn one<T>(limit: &mut Given<T>) -> bool {
        let without = limit.is_nothing();
        if without {
            *limit = Given::Omitted;
        }
        without
    }
    let all: [(bool, &'static [&'static str]); 6] = [
        (one(&mut limits.max_turns), &["max_turns", "steps", "max_steps", "turn_budget"]),
        (one(&mut limits.grace_turns), &["grace_turns", "turn_budget"]),
        (one(&mut limits.max_tokens), &["max_tokens"]),
        (one(&mut limits.max_cost_usd), &["max_cost_usd"]),
        (one(&mut limits.max_tool_calls), &["max_tool_calls"]),
        (one(&mut limits.timeout_ms), &["timeout", "timeout_ms", "timeout_mins"]),
    ];
    all.into_iter().filter(|(without, _)| *without).map(|(_, names)| names).collect()
}

/// The format of the file of trusted projects.
pub const TRUST_VERSION: u32 = 1;

/// Why a file of trusted projects cannot be used. Then nothing is trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It is no such file.
    #[error("it is no list of trusted projects: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A newer version wrote it.
    #[error("it has format {0}, this version knows up to {TRUST_VERSION}")]
    TooNew(u32),
    /// A path that could mean several places.
    #[error("{0:?} is not an absolute path without `.` and `..`")]
    Path(String),
}

/// Projects that are trusted, as a file such as `trust.json` holds them. A project is trusted when it, or a directory
/// above it, is in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustStore {
    version: u32,
    #[serde(default)]
    projects: BTreeMap<Utf8PathBuf, Trusted>,
}

/// What is known about one trusted project.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trusted {
    /// Who trusted it and why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Default for TrustStore {
    fn default() -> Self {
        Self { version: TRUST_VERSION, projects: BTreeMap::new() }
    }
}

impl TrustStore {
    /// Reads the text of the file. An empty one is a list without entries.
    pub fn parse(text: &str) -> Result<Self, TrustError> {
        /// Enough of any version to know which one it is.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let head: Head = serde_json::from_str(text)?;
        if head.version > TRUST_VERSION {
            return Err(TrustError::TooNew(head.version));
        }
        let store: Self = serde_json::from_str(text)?;
        match store.projects.keys().find(|path| !is_plain(path)) {
            Some(path) => Err(TrustError::Path(path.to_string())),
            None => Ok(store),
        }
    }

    /// The text of the file.
    pub fn to_text(&self) -> Result<String, TrustError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Trusts a project.
    pub fn trust(&mut self, root: &Utf8Path, about: Trusted) -> Result<(), TrustError> {
        if !is_plain(root) {
            return Err(TrustError::Path(root.to_string()));
        }
        self.projects.insert(root.to_owned(), about);
        Ok(())
    }

    /// Trusts it no longer; false if it was not in the list.
    pub fn distrust(&mut self, root: &Utf8Path) -> bool {
        self.projects.remove(root).is_some()
    }

    /// The trusted directories.
    pub fn roots(&self) -> impl Iterator<Item = &Utf8Path> {
        self.projects.keys().map(Utf8PathBuf::as_path)
    }

    /// Whether a directory is trusted.
    pub fn trusts(&self, root: &Utf8Path) -> bool {
        is_plain(root) && self.roots().any(|trusted| root.starts_with(trusted))
    }
}

fn is_plain(path: &Utf8Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Utf8Component::RootDir | Utf8Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::{TrustError, TrustStore, Trusted};

    #[test]
    fn the_list_survives_its_file() {
        let mut store = TrustStore::default();
        store.trust(Utf8Path::new("/work/a"), Trusted { note: Some("ours".into()) }).unwrap();
        let text = store.to_text().unwrap();
        assert_eq!(
            text,
            "{\n  \"version\": 1,\n  \"projects\": {\n    \"/work/a\": {\n      \"note\": \"ours\"\n    }\n  }\n}\n"
        );
        assert_eq!(TrustStore::parse(&text).unwrap(), store);
        assert_eq!(TrustStore::parse(" \n").unwrap(), TrustStore::default());
        assert!(store.distrust(Utf8Path::new("/work/a")) && !store.distrust(Utf8Path::new("/work/a")));
    }

    #[test]
    fn trust_goes_down_and_nowhere_else() {
        let store = TrustStore::parse(r#"{"version":1,"projects":{"/work/a":{}}}"#).unwrap();
        for (path, trusted) in [
            ("/work/a", true),
            ("/work/a/b", true),
            ("/work/ab", false),
            ("/work", false),
            ("/work/a/../b", false),
            ("work/a", false),
        ] {
            assert_eq!(store.trusts(Utf8Path::new(path)), trusted, "{path}");
        }
    }

    #[test]
    fn what_is_no_list_trusts_nothing() {
        for wrong in ["[]", "{}", r#"{"version":1,"projects":{"a":{}}}"#, r#"{"version":1,"other":1}"#, "x"] {
            TrustStore::parse(wrong).unwrap_err();
        }
        let newer = TrustStore::parse(r#"{"version":9,"anything":true}"#);
        assert!(matches!(newer, Err(TrustError::TooNew(9))));
    }
}
