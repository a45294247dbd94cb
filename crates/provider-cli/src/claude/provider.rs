//! The provider `claude`.

use subagent_model::{Capabilities, Problem, SpawnSpec, Steering, SystemPromptUse};
use subagent_provider::{
    Codec, Job, Launch, Login, LoginAnswer, LoginQuestion, ProcessEnd, Provider, Verdict,
};

use crate::logins;

use super::{Claude, command};

/// Claude Code as a subagent.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaudeCode;

impl ClaudeCode {
    /// The provider's name.
    pub const NAME: &str = "claude";
}

impl Provider for ClaudeCode {
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
            cost: true,
            fork: true,
            output_schema: true,
            tool_filter: true,
            system_prompt: SystemPromptUse::Override,
            effort: true,
            mcp_servers: true,
            images: true,
            texts: true,
        }
    }

    /// Each configuration directory has a login of its own.
    fn account(&self, spec: &SpawnSpec) -> Option<String> {
        spec.env.get("CLAUDE_CONFIG_DIR").cloned()
    }

    fn program(&self) -> Option<&str> {
        Some(command::PROGRAM)
    }

    /// The aliases of its newest ones.
    fn models(&self) -> &[&str] {
        &["sonnet", "opus", "haiku", "fable"]
    }

    fn install_hint(&self) -> Option<&str> {
        Some(
            "Install Claude Code (`npm install -g @anthropic-ai/claude-code`) and log in with `claude`, or name its \
             program.",
        )
    }

    fn login_question(&self) -> Option<LoginQuestion> {
        Some(logins::CLAUDE)
    }

    fn login(&self, answer: &LoginAnswer) -> Login {
        logins::claude(answer)
    }

    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        command::check(spec)
    }

    fn codec(&self, job: &Job) -> Option<Box<dyn Codec>> {
        Some(Box::new(Claude::new(job)))
    }

    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        Ok(Launch::Conversation(command::launch(job)))
    }

    /// What it said by its end is known to the runtime; an exit code after a result changes nothing there.
    fn conclude(&self, _: &Job, end: &ProcessEnd) -> Verdict {
        end.ended_unsaid()
    }
}
