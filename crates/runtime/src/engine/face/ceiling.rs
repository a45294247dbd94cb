//! What a child may have at most: the bounds of its parent. A request is narrowed to them where that can be said to its
//! provider, and refused where it cannot; the model of a parent cannot raise its rights by spawning.

use std::sync::Arc;

use subagent_config::{Ceiling, Effective, Given, PermissionMode, Sandbox, ToolList};
use subagent_core::policy;
use subagent_core::run::Subagent;
use subagent_model::request::SpawnRequest;
use subagent_model::{
    Ask, Bounds, ErrorCode, McpTransport, Permissions, PolicyWord, Problem, Subject, ToolFilter,
};
use subagent_provider::Provider;

use super::super::Engine;
use super::problem;

/// More levels than any tree has.
const DEEPEST: usize = 1_000;

/// Names that agents have for the tool that runs any command.
const SHELLS: &[&str] = &["Bash", "bash", "shell", "execute", "run_shell_command"];

/// Claude Code's modes of permissions.
const CLAUDE_MODES: [(&str, PermissionMode); 7] = [
    ("plan", PermissionMode::Plan),
    ("dontAsk", PermissionMode::Deny),
    ("default", PermissionMode::Ask),
    ("manual", PermissionMode::Ask),
    ("acceptEdits", PermissionMode::AcceptEdits),
    ("auto", PermissionMode::Auto),
    ("bypassPermissions", PermissionMode::Bypass),
];

/// Codex's sandboxes, each with what is asked in it.
const CODEX_MODES: [(&str, PermissionMode, Sandbox); 3] = [
    ("read-only", PermissionMode::Ask, Sandbox::ReadOnly),
    ("workspace-write", PermissionMode::AcceptEdits, Sandbox::WorkspaceWrite),
    ("danger-full-access", PermissionMode::Ask, Sandbox::FullAccess),
];

/// What an agent's own word for its mode of permissions comes to. Nothing is known of other agents' words.
pub(super) fn stance(provider: &str, word: Option<&str>) -> (Option<PermissionMode>, Option<Sandbox>) {
    match (provider, word) {
        ("claude", Some(word)) => {
            (CLAUDE_MODES.iter().find(|(it, _)| *it == word).map(|(_, mode)| *mode), None)
        }
        ("codex", Some(word)) => {
            let found = CODEX_MODES.iter().find(|(it, ..)| *it == word);
            (found.map(|(_, mode, _)| *mode), found.map(|(.., sandbox)| *sandbox))
        }
        _ => (None, None),
    }
}

/// Claude Code's word for a mode that it can be put into.
pub(super) fn claude_word(mode: PermissionMode) -> Option<&'static str> {
    // What is there anyway needs no word.
    CLAUDE_MODES.iter().find(|(_, it)| *it == mode && mode != PermissionMode::Ask).map(|(word, _)| *word)
}

/// What is there where nothing is said: agents that can ask do.
fn usual(provider: &dyn Provider) -> Option<PermissionMode> {
    provider.capabilities().approvals.then_some(PermissionMode::Ask)
}

/// What bounds the children of a parent.
pub(super) fn ceiling(bounds: &Bounds) -> Ceiling {
    let word = |text: &Option<String>| text.clone();
    Ceiling {
        tools: match &bounds.tools.allow {
            None => Given::Omitted,
            Some(list) if list.is_empty() => Given::Nothing,
            Some(list) => Given::Value(ToolList::new(list.iter().cloned())),
        },
        disallowed_tools: match bounds.tools.deny.as_slice() {
            [] => Given::Omitted,
            list => Given::Value(ToolList::new(list.iter().cloned())),
        },
        permission_mode: word(&bounds.permission_mode).and_then(|it| known(PermissionMode::WORDS, &it)),
        sandbox: word(&bounds.sandbox).and_then(|it| known(Sandbox::WORDS, &it)),
        allowed_subagents: match &bounds.types {
            None => Given::Omitted,
            Some(list) if list.is_empty() => Given::Nothing,
            Some(list) => Given::Value(list.clone()),
        },
        max_depth: bounds.depth.map(|levels| levels.saturating_sub(1)),
    }
}

fn known<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(it, _)| *it == word).map(|(_, value)| *value)
}

/// The bounds of the children of an agent that has this.
pub(super) fn bounds_of(effective: &Effective, tools: &ToolFilter, provider: &dyn Provider) -> Bounds {
    let mode = effective.permission_mode.or_else(|| usual(provider));
    Bounds {
        tools: tools.clone(),
        permission_mode: mode.map(|mode| mode.as_str().to_owned()),
        sandbox: effective.sandbox.map(|sandbox| sandbox.as_str().to_owned()),
        types: match &effective.allowed_subagents {
            Given::Omitted => None,
            Given::Nothing => Some(Vec::new()),
            Given::Value(list) => Some(list.clone()),
        },
        depth: effective.max_depth,
    }
}

/// The bounds of the children of a program: those that bind it.
pub(super) fn passed_on(bounds: &Bounds) -> Bounds {
    Bounds { depth: bounds.depth.map(|levels| levels.saturating_sub(1)), ..bounds.clone() }
}

/// Refuses programs that a call brings, where its parent may not run any.
pub(super) fn programs_within(
    parent: &Subagent,
    request: &SpawnRequest,
    provider: &str,
) -> Result<(), Problem> {
    let filter = &parent.spec.bounds.tools;
    let own_server = |name: &str| parent.spec.setup.mcp_servers.iter().any(|server| server.name == name);
    let server = request
        .setup
        .mcp_servers
        .iter()
        .find(|server| matches!(server.via, McpTransport::Stdio { .. }) && !own_server(&server.name));
    let what = match (&request.exec, server) {
        (Some(exec), _) => format!("the program {:?}", exec.program),
        (None, Some(server)) => format!("the program of the MCP server {:?}", server.name),
        (None, None) => return Ok(()),
    };
    let allow = filter.allow.as_ref().map(|list| ToolList::new(list.iter().cloned()));
    let deny = ToolList::new(filter.deny.iter().cloned());
    let runs = SHELLS.iter().any(|shell| allow.as_ref().is_none_or(|list| list.covers(shell)))
        && !SHELLS.iter().any(|shell| deny.names(shell));
    if !runs {
        return Err(wider(format!("{what}: none of the tools of the parent runs programs")));
    }
    if let (Some(sandbox @ ("read-only" | "workspace-write")), false) =
        (parent.spec.bounds.sandbox.as_deref(), provider == "codex")
    {
        return Err(wider(format!("{what}: it would run outside of the parent's sandbox {sandbox}")));
    }
    Ok(())
}

/// It asks for more than its parent has.
pub(super) fn wider(message: String) -> Problem {
    Problem::new(ErrorCode::WiderThanParent, message)
}

impl Engine {
    /// What does not ask for permissions cannot be held to a policy while it runs: it is held against it here.
    pub(super) fn within_policies(
        &self,
        parent: &Arc<Subagent>,
        request: &SpawnRequest,
        provider: &dyn Provider,
    ) -> Result<(), Problem> {
        // A program that speaks lines may ask; whether it does is its own affair.
        if provider.is_agent() && provider.capabilities().approvals {
            return Ok(());
        }
        let policies = self.lineage(parent)?;
        let Some(exec) = request.exec.as_ref().filter(|_| !provider.is_agent()) else {
            if provider.is_agent() && policy::denies(&policies) {
                let name = provider.name();
                return Err(wider(format!(
                    "{name} does not ask for permissions, and the policies above it deny some"
                )));
            }
            return Ok(());
        };
        let title = std::iter::once(&exec.program).chain(&exec.args).cloned().collect::<Vec<_>>().join(" ");
        let subject =
            Subject::Approval { action: String::from("execute"), title, detail: None, options: vec![] };
        match policy::say(&policies, &Ask { key: String::new(), subject }) {
            (PolicyWord::Deny, why) => {
                let why = why.unwrap_or_default();
                Err(wider(format!("the parent may not run {:?}: {why}", exec.program)))
            }
            _ => Ok(()),
        }
    }

    /// The policies of a subagent and of those above it, its own first.
    fn lineage(&self, of: &Arc<Subagent>) -> Result<Vec<Permissions>, Problem> {
        let mut policies = vec![of.spec.permissions.clone()];
        let mut above = of.parent;
        while let Some(id) = above
            && policies.len() < DEEPEST
        {
            let Some(state) = self.inner.load(id).map_err(problem)? else { break };
            policies.push(state.spec.permissions.clone());
            above = state.parent;
        }
        Ok(policies)
    }
}
