//! The provider: how an agent is launched, what can be asked of it, and what its end means.
//!
//! What an agent can do is known only once it has answered `initialize`. Until then it is stated as possible; what it then
//! lacks ends the start with the exact reason. What no agent can do over this protocol is refused at once.

use std::collections::BTreeMap;

use subagent_model::{ErrorCode, ExecSpec, Problem, PromptVia, ResultFrom, SpawnSpec, Talk};
use subagent_provider::{
    Capabilities, Codec, Job, Launch, ProcessEnd, ProcessLaunch, Provider, StdinPlan, Steering,
    SystemPromptUse, Verdict,
};

use crate::agents::{AGENTS, Agent};
use crate::codec::Acp;

/// Agents that speak the Agent Client Protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpProvider {
    agent: Agent,
    /// Its program, where that is known only now.
    program: Option<String>,
    /// What must be set up for it.
    lacks: Option<String>,
}

impl AcpProvider {
    /// The name under which any agent is driven.
    pub const NAME: &str = Agent::ANY.name;

    /// Any agent: its program stands in the spec.
    pub fn any() -> Self {
        Self::of(Agent::ANY)
    }

    /// One agent.
    pub fn of(agent: Agent) -> Self {
        Self { agent, program: None, lacks: None }
    }

    /// The agent of this program, which lies there, and what must be set up before it can work.
    pub fn builtin(program: String, lacks: Option<String>) -> Self {
        Self { agent: Agent::BUILTIN, program: Some(program), lacks }
    }

    /// Any agent, and each that is known by name.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::any()).chain(AGENTS.iter().copied().map(Self::of))
    }

    /// What it drives; its program is empty where the spec names it.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    fn program_of(&self, spec: &SpawnSpec) -> Result<(String, Vec<String>), Problem> {
        let (program, mut args) = match &spec.exec {
            Some(exec) => (exec.program.clone(), exec.args.clone()),
            None if self.program.is_some() => (self.program.clone().unwrap_or_default(), vec![]),
            None if self.agent.program.is_empty() => {
                let message =
                    "provider acp needs the program of an agent: `subagent run -p acp -- PROGRAM ARGS`";
                return Err(Problem::new(ErrorCode::InvalidRequest, message));
            }
            None => (self.agent.program.to_owned(), vec![]),
        };
        args.extend(self.agent.args.iter().map(|arg| (*arg).to_owned()));
        if let (Some(option), Some(model)) = (self.agent.model_option, &spec.model) {
            args.extend([option.to_owned(), model.clone()]);
        }
        let nul = |text: &String| text.contains('\0');
        if program.is_empty() || nul(&program) || args.iter().any(nul) {
            let message = "the program must have a name, and neither it nor an argument may hold a NUL byte";
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        }
        Ok((program, args))
    }
}

impl Provider for AcpProvider {
    fn name(&self) -> &str {
        self.agent.name
    }

    fn program(&self) -> Option<&str> {
        let known = Some(self.agent.program).filter(|program| !program.is_empty());
        self.program.as_deref().or(known)
    }

    fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    fn install_hint(&self) -> Option<&str> {
        Some(self.agent.install).filter(|install| !install.is_empty())
    }

    fn is_agent(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The protocol has no word for a message into a turn; our own agent has.
            steering: if self.agent.own { Steering::Live } else { Steering::AtBoundary },
            interrupt: true,
            resume: self.agent.resumes,
            warm: true,
            adopt: true,
            approvals: true,
            model: true,
            // Calls of tools are told, turns of the model are not; a limit on either must be able to act.
            turns: self.agent.own,
            usage: self.agent.tells_usage,
            cost: self.agent.tells_cost,
            fork: self.agent.resumes,
            output_schema: self.agent.own,
            tool_filter: self.agent.own,
            system_prompt: SystemPromptUse::Override,
            effort: true,
            mcp_servers: true,
            // What others take they say once they are asked; of our own it is known.
            images: !self.agent.own,
            texts: true,
        }
    }

    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        self.program_of(spec)?;
        let Some(ExecSpec { prompt_via, result, talk, .. }) = &spec.exec else { return Ok(()) };
        let message = match (talk, prompt_via, result) {
            (Talk::None, PromptVia::Stdin, ResultFrom::WholeOutput) => return Ok(()),
            (Talk::Lines, ..) => "an agent of this provider speaks the Agent Client Protocol and no lines",
            _ => {
                "an agent gets its prompt and gives its answer over its protocol: nothing of that can be chosen"
            }
        };
        Err(Problem::new(ErrorCode::InvalidRequest, message))
    }

    fn codec(&self, _: &Job) -> Option<Box<dyn Codec>> {
        Some(Box::new(Acp::of(&self.agent)))
    }

    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        let (program, args) = self.program_of(&job.spec)?;
        let own = self.agent.env.iter().filter(|(name, _)| !job.spec.env.contains_key(*name));
        let env: BTreeMap<_, _> =
            own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Ok(Launch::Conversation(ProcessLaunch { program, args, env, stdin: StdinPlan::Open, files: vec![] }))
    }

    fn conclude(&self, _: &Job, end: &ProcessEnd) -> Verdict {
        end.ended_unsaid()
    }
}

#[cfg(test)]
mod tests;
