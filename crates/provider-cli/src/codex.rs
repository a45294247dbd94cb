//! The provider `codex`: Codex by its app-server. Each child is a process with one thread.
//!
//! What a run may do without asking is set on its thread, see `rights`; whatever codex asks comes to the supervisor. How
//! hard it thinks and its MCP servers are given as configuration of the thread.

mod asks;
mod conversation;
mod failures;
mod frames;
mod inner;
mod items;
mod limits;
mod opening;
mod rights;
mod shell;
mod spending;
mod turn;

use subagent_model::{Problem, SpawnSpec, SystemPromptUse};
use subagent_provider::{
    Capabilities, Codec, Job, Launch, Login, LoginAnswer, LoginQuestion, ProcessEnd, Provider, Steering,
    Verdict,
};

use crate::logins;

pub use conversation::AppServer;

use crate::native::{Native, check_override};
use rights::Rights;

/// Codex as a subagent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Codex;

impl Codex {
    /// The provider's name.
    pub const NAME: &str = "codex";
    /// The program that is started where the spec names no other.
    pub const PROGRAM: &str = "codex";
    /// What to do where the program is missing.
    pub const INSTALL: &str = "Install it with `npm install -g @openai/codex`, then log in with `codex login`, or name \
                               the program in the spec.";
}

impl Provider for Codex {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            steering: Steering::Live,
            interrupt: true,
            resume: true,
            warm: true,
            adopt: true,
            approvals: true,
            model: true,
            turns: true,
            usage: true,
            cost: false,
            fork: true,
            output_schema: true,
            tool_filter: false,
            system_prompt: SystemPromptUse::Override,
            effort: true,
            mcp_servers: true,
            images: true,
            texts: true,
        }
    }

    fn program(&self) -> Option<&str> {
        Some(Self::PROGRAM)
    }

    fn install_hint(&self) -> Option<&str> {
        Some(Self::INSTALL)
    }

    fn login_question(&self) -> Option<LoginQuestion> {
        Some(logins::CODEX)
    }

    fn login(&self, answer: &LoginAnswer) -> Login {
        logins::codex(answer)
    }

    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        check_override(Self::NAME, spec)?;
        Rights::of(spec.setup.permission_mode.as_deref()).map(|_| ())
    }

    fn codec(&self, _: &Job) -> Option<Box<dyn Codec>> {
        Some(Box::new(AppServer::default()))
    }

    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        let native = Native { program: Self::PROGRAM, args: vec![String::from("app-server")], files: vec![] };
        Ok(native.launch(&job.spec))
    }

    fn conclude(&self, _: &Job, end: &ProcessEnd) -> Verdict {
        end.ended_unsaid()
    }
}

#[cfg(test)]
mod tests;
