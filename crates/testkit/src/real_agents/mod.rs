//! Real agents, as `cargo xtask agents` installs them, each with a private home and a configuration that leads it to a
//! scripted model instead of a real one.

mod acp;
mod config;
mod home;
mod run;

use std::path::{Path, PathBuf};

pub use acp::Acp;
pub use home::AgentHome;
pub use run::{Ran, run};

use crate::model_server::ModelServer;

/// Where they are when it is not the target directory.
const ELSEWHERE: &str = "SUBAGENT_AGENTS";

/// A real agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// pi.
    Pi,
    /// pi, spoken with in ACP.
    PiAcp,
    /// Claude Code, spoken with in ACP.
    ClaudeAcp,
    /// Codex, spoken with in ACP.
    CodexAcp,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Qwen Code.
    Qwen,
}

impl Agent {
    /// Those that every full test runs.
    pub const FIRST: &[Self] = &[Self::Claude, Self::Codex, Self::Pi, Self::PiAcp];
    /// Those that `cargo xtask agents --all` brings along.
    pub const MORE: &[Self] = &[Self::ClaudeAcp, Self::CodexAcp, Self::Gemini, Self::Opencode, Self::Qwen];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Pi => "pi",
            Self::PiAcp => "pi-acp",
            Self::ClaudeAcp => "claude-agent-acp",
            Self::CodexAcp => "codex-acp",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
        }
    }

    /// What installs it.
    pub fn install_command(self) -> &'static str {
        if Self::FIRST.contains(&self) { "cargo xtask agents" } else { "cargo xtask agents --all" }
    }
}

/// Where the agents are.
#[derive(Debug, Clone)]
pub struct RealAgents {
    programs: PathBuf,
}

impl Default for RealAgents {
    fn default() -> Self {
        Self::new()
    }
}

impl RealAgents {
    /// The agents of the target directory that this test was built in, or of `SUBAGENT_AGENTS`.
    pub fn new() -> Self {
        let place = std::env::var_os(ELSEWHERE).map_or_else(
            || {
                let own = std::env::current_exe().expect("a test knows its own program");
                let profile = own.ancestors().find(|dir| dir.ends_with("deps")).and_then(Path::parent);
                let target = profile.and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
                target.join("agents")
            },
            PathBuf::from,
        );
        Self { programs: place.join("bin") }
    }

    /// The directory of their programs, to be put on a `PATH`.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// The program of an agent. It has to be there.
    #[track_caller]
    pub fn program(&self, agent: Agent) -> PathBuf {
        let program = self.programs.join(agent.name());
        assert!(
            program.exists(),
            "{} is not installed in {}: run `{}`",
            agent.name(),
            self.programs.display(),
            agent.install_command()
        );
        program
    }

    /// A home for an agent, which asks this server for its model.
    #[track_caller]
    pub fn home(&self, agent: Agent, model: &ModelServer) -> AgentHome {
        AgentHome::new(agent, self.program(agent), &self.programs, &model.url())
    }
}
