//! The provider `pi`: the pi coding agent in its mode `rpc`. Each child is a process with one session.
//!
//! Pi has no permissions of its own: what it may do is what its user may do. Dialogs of its extensions come to the
//! supervisor.

mod conversation;
mod dialogs;
mod failures;
mod spending;
mod turn;
mod words;

use std::sync::Arc;

use subagent_model::{ErrorCode, Problem, SpawnSpec, SystemPromptMode, SystemPromptUse};
use subagent_provider::{
    Capabilities, Codec, EndReason, Job, Launch, Login, LoginAnswer, LoginQuestion, ProcessEnd, Provider,
    Steering, Verdict,
};

use crate::logins;

pub use conversation::Rpc;

use crate::native::{Native, check_override};

/// The file that instructions lie in: as an argument they could be taken for the name of a file.
const INSTRUCTIONS_FILE: &str = "instructions.md";
/// What pi says of a session that it does not have, or not for this directory.
const GONE: [&str; 2] = ["No session found matching", "Session found in different project"];

/// Pi as a subagent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pi;

impl Pi {
    /// The provider's name.
    pub const NAME: &str = "pi";
    /// The program that is started where the spec names no other.
    pub const PROGRAM: &str = "pi";
    /// What to do where the program is missing.
    pub const INSTALL: &str = "Install it with `npm install -g @earendil-works/pi-coding-agent` (it needs Node 22.19 or \
                               newer), then log in with `pi auth login`, or name the program in the spec.";
}

impl Provider for Pi {
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
            approvals: false,
            model: true,
            turns: true,
            usage: true,
            cost: true,
            fork: true,
            output_schema: false,
            tool_filter: true,
            system_prompt: SystemPromptUse::Override,
            effort: true,
            mcp_servers: false,
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
        Some(logins::PI)
    }

    fn login(&self, answer: &LoginAnswer) -> Login {
        logins::pi(answer)
    }

    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        check_override(Self::NAME, spec)?;
        let setup = &spec.setup;
        if setup.permission_mode.is_some() {
            let message = "the provider pi has no modes of permissions";
            return Err(Problem::new(ErrorCode::NotCapable, message));
        }
        // They become arguments, and none may be taken for an option.
        let words = [&spec.model, &setup.effort, &setup.fork_of].into_iter().flatten();
        if let Some(word) = words.into_iter().find(|word| word.starts_with(['-', '@'])) {
            let message = format!("pi would take {word:?} for an option");
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        }
        let mut tools = setup.tools.allow.iter().flatten().chain(&setup.tools.deny);
        if let Some(tool) = tools.find(|tool| tool.contains(',') || tool.starts_with(['+', '-'])) {
            let message = format!("{tool:?} is no name of a tool of pi");
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        }
        Ok(())
    }

    fn codec(&self, _: &Job) -> Option<Box<dyn Codec>> {
        Some(Box::new(Rpc::default()))
    }

    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        let setup = &job.spec.setup;
        let mut args = vec![String::from("--mode"), String::from("rpc")];
        let mut give = |option: &str, value: String| args.extend([option.to_owned(), value]);
        match job.spec.model.as_deref().map(|model| model.split_once('/').ok_or(model)) {
            Some(Ok((provider, model))) => {
                give("--provider", provider.to_owned());
                give("--model", model.to_owned());
            }
            Some(Err(model)) => give("--model", model.to_owned()),
            None => {}
        }
        if let Some(effort) = &setup.effort {
            give("--thinking", effort.clone());
        }
        match (&job.session, &setup.fork_of) {
            (Some(session), _) => give("--session", session.clone()),
            (None, Some(other)) => give("--fork", other.clone()),
            (None, None) => {}
        }
        let mut files = Vec::new();
        if let Some(prompt) = &setup.system_prompt {
            let option = match prompt.mode {
                SystemPromptMode::Append => "--append-system-prompt",
                SystemPromptMode::Override => "--system-prompt",
            };
            give(option, job.dir.join(INSTRUCTIONS_FILE).to_string_lossy().into_owned());
            files.push((INSTRUCTIONS_FILE.to_owned(), Arc::from(prompt.text.as_str())));
        }
        if !setup.tools.deny.is_empty() {
            give("--exclude-tools", setup.tools.deny.join(","));
        }
        match setup.tools.allow.as_deref() {
            Some([]) => args.push(String::from("--no-tools")),
            Some(tools) => args.extend([String::from("--tools"), tools.join(",")]),
            None => {}
        }
        Ok(Native { program: Self::PROGRAM, args, files }.launch(&job.spec))
    }

    fn conclude(&self, job: &Job, end: &ProcessEnd) -> Verdict {
        let stderr = String::from_utf8_lossy(&end.stderr_tail);
        let gone = GONE.iter().any(|words| stderr.contains(words));
        if job.session.is_some() && gone && end.reason == EndReason::Natural && end.exit.signal.is_none() {
            let message = String::from("pi does not have the session any more");
            let mut verdict = end.ended_unsaid();
            verdict.conclusion.outcome = end.error(ErrorCode::SessionGone, message);
            return verdict;
        }
        end.ended_unsaid()
    }
}

#[cfg(test)]
mod tests;
