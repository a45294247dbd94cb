//! A daemon, a scripted model and one real agent as a child of it.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use subagent_testkit::home::{Output, is_alive};
use subagent_testkit::{Agent, AgentHome, Home, ModelServer, RealAgents, until};

/// A real agent under a provider of ours.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) model: ModelServer,
    pub(crate) agent: AgentHome,
}

impl World {
    pub(crate) fn new(agent: Agent) -> Self {
        let model = ModelServer::start();
        let agent = RealAgents::new().home(agent, &model);
        Self {
            home: Home::with_config("[daemon]\nterm_grace_ms = 500\n[limits]\nmax_attempts = 2\n"),
            model,
            agent,
        }
    }

    /// The provider that drives it.
    pub(crate) fn provider(&self) -> &'static str {
        provider(self.agent.agent())
    }

    /// A file in the directory that the agent works in.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.agent.work().join(name)
    }

    /// A directive that writes a file by a tool of the agent's.
    pub(crate) fn writes(&self, name: &str, text: &str) -> String {
        format!("[[write:{}|{text}]]", self.file(name).display())
    }

    /// `subagent COMMAND` in the agent's surroundings, its whole environment handed over.
    pub(crate) fn command(&self, command: &str, flags: &[&str], rest: &[&str]) -> Output {
        let work = self.agent.work();
        let variables: Vec<_> =
            self.agent.environment().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut args = vec![command];
        for variable in &variables {
            args.extend(["--env", variable]);
        }
        args.extend(flags);
        args.extend(rest);
        let mut command = self.home.command(&args);
        command.env("PATH", &self.agent.environment()["PATH"]).current_dir(&work);
        Home::finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn(), b"")
    }

    /// Runs a task to its end and gives its record, whatever came of it.
    #[track_caller]
    pub(crate) fn run(&self, flags: &[&str], task: &str) -> Value {
        let id = self.start(flags, task);
        self.end(&id)
    }

    /// Starts a task and gives its handle.
    #[track_caller]
    pub(crate) fn start(&self, flags: &[&str], task: &str) -> String {
        let fixed = ["-p", self.provider(), "--background"];
        let flags: Vec<_> = fixed.iter().chain(flags).copied().collect();
        self.command("run", &flags, &[task]).ended(0).out.trim().to_owned()
    }

    /// The record at the end of the present run.
    #[track_caller]
    pub(crate) fn end(&self, id: &str) -> Value {
        self.home.run(&["wait", "--timeout", "60s", id]);
        let record = self.home.show(id);
        let fin = ["completed", "steered", "aborted", "stopped", "error", "lost"];
        let over = fin.contains(&record["status"].as_str().unwrap());
        assert!(over, "it has not ended: {record:#}\n{}", self.told(id));
        record
    }

    /// What went over its pipes, for a failure.
    pub(crate) fn told(&self, id: &str) -> String {
        let all = self.home.run(&["logs", "--raw", id]).out;
        let lines = all.lines().map(|line| line.chars().take(400).collect::<String>());
        let lines: Vec<_> = lines.collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// The result of a run that came to a good end.
    #[track_caller]
    pub(crate) fn good(&self, record: &Value) -> String {
        let id = record["handle"].as_str().unwrap();
        assert_eq!(record["status"], "completed", "{record:#}\n{}", self.told(id));
        record["result"]["preview"].as_str().unwrap_or_default().to_owned()
    }

    /// The error of a run that failed.
    #[track_caller]
    pub(crate) fn bad(&self, record: &Value) -> Value {
        let id = record["handle"].as_str().unwrap();
        assert_eq!(record["status"], "error", "{record:#}\n{}", self.told(id));
        record["error"].clone()
    }

    /// The types in its transcript, in order.
    #[track_caller]
    pub(crate) fn transcript(&self, id: &str) -> Vec<Value> {
        let lines = self.home.run(&["logs", "--json", id]).ended(0).out;
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Nothing of it is left running.
    #[track_caller]
    pub(crate) fn nobody_is_left(&self, id: &str) {
        let whole = self.home.show(id)["id"].as_str().unwrap().to_owned();
        let work = self.agent.work();
        until("no process of it to be left", || {
            let marked = self.home.survivors(std::slice::from_ref(&whole));
            (marked.is_empty() && processes_in(&work).is_empty()).then_some(())
        });
    }
}

/// Processes that work in a directory, whoever started them.
fn processes_in(dir: &std::path::Path) -> Vec<i32> {
    let dir = dir.canonicalize().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&dir)))
        .filter(|pid| is_alive(*pid))
        .collect()
}

/// The provider of an agent.
pub(crate) fn provider(agent: Agent) -> &'static str {
    match agent {
        Agent::Claude => "claude",
        Agent::Codex => "codex",
        Agent::Pi => "pi",
        Agent::PiAcp => "pi-acp",
        Agent::ClaudeAcp => "claude-acp",
        Agent::CodexAcp => "codex-acp",
        Agent::Gemini => "gemini",
        Agent::Opencode => "opencode",
        Agent::Qwen => "qwen",
    }
}

/// Speaks the Agent Client Protocol: it takes no words into a turn.
pub(crate) fn is_acp(agent: Agent) -> bool {
    !matches!(agent, Agent::Claude | Agent::Codex | Agent::Pi)
}

/// Takes texts beside the task; pi-acp announces images only.
pub(crate) fn takes_texts(agent: Agent) -> bool {
    agent != Agent::PiAcp
}

/// Asks before it acts. pi does as it is told; codex-acp, opencode and qwen ask nobody in the configuration of these tests.
pub(crate) fn asks(agent: Agent) -> bool {
    matches!(agent, Agent::Claude | Agent::Codex | Agent::ClaudeAcp | Agent::Gemini)
}
