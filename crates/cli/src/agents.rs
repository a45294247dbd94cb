//! The providers of this program, and where definitions of agent types lie for this person.

use std::ffi::OsString;
use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use subagent_config::Homes;
use subagent_provider::{InProcess, Registry};
use subagent_provider_acp::AcpProvider;
use subagent_provider_cli::{ClaudeCode, Codex, Exec, Pi};
use subagent_runtime::AgentFiles;

use crate::config;
use crate::paths::Paths;

/// Every provider that there is, set up as the configuration says.
pub(crate) fn registry(paths: &Paths) -> Registry {
    let own = Registry::default().with(Exec).with(InProcess::default()).with(ClaudeCode).with(Codex).with(Pi);
    let with_known = AcpProvider::all().fold(own, Registry::with);
    match own_program() {
        Some(program) => with_known.with(AcpProvider::builtin(program, lacks_model(paths))),
        None => with_known,
    }
}

/// Nobody can guess the model of the built-in agent.
fn lacks_model(paths: &Paths) -> Option<String> {
    let named = config::agent(&paths.config).is_ok_and(|config| config.model.is_some());
    (!named).then(|| String::from("no model is named in [agent] of config.toml"))
}

/// Where this program is, for its own agent. One that was replaced while it runs is where the new one is.
fn own_program() -> Option<String> {
    let program = std::env::current_exe().ok()?.into_os_string().into_string().ok()?;
    Some(program.strip_suffix(" (deleted)").map_or(program.clone(), str::to_owned))
}

/// Where definitions are looked for beside the project.
pub(crate) fn files(paths: &Paths) -> AgentFiles {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut user = Homes::default();
    if let Some(home) = set("HOME").and_then(absolute) {
        let config = set("XDG_CONFIG_HOME").and_then(absolute).unwrap_or_else(|| home.join(".config"));
        user = Homes::below(&home, &config);
    }
    // Ours is the home that was set, whatever lies elsewhere.
    user.subagent = paths.config.parent().and_then(Utf8Path::from_path).map(Utf8Path::to_owned);
    // Products whose directory was moved are found where they are.
    for (home, variable) in [
        (&mut user.claude, "CLAUDE_CONFIG_DIR"),
        (&mut user.codex, "CODEX_HOME"),
        (&mut user.pi, "PI_CODING_AGENT_DIR"),
    ] {
        if let Some(moved) = set(variable).and_then(absolute) {
            *home = Some(moved);
        }
    }
    AgentFiles { managed: Homes::default(), user, trust: Some(trust_file(paths)) }
}

/// The list of trusted projects.
pub(crate) fn trust_file(paths: &Paths) -> PathBuf {
    paths.config.with_file_name("trust.json")
}

fn absolute(path: OsString) -> Option<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(PathBuf::from(path)).ok().filter(|path| path.is_absolute())
}
