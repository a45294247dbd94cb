//! Agents of the Agent Client Protocol in a home: `acp-agent` as a child of the real daemon, and what all of them were told.

use serde_json::Value;

use crate::home::{Home, Output};
use crate::programs::acp_agent_program;

impl Home {
    /// `subagent run -p acp FLAGS SCRIPT -- acp-agent KNOBS`.
    pub fn acp(&self, flags: &[&str], knobs: &[&str], script: &str) -> Output {
        let sessions = self.path().join("acp-sessions");
        std::fs::create_dir_all(&sessions).expect("the home can be written");
        // As an argument: what `--env` sets is gone with its daemon.
        let sessions = format!("ACP_SESSIONS={}", sessions.display());
        let agent = acp_agent_program().to_str().expect("paths of tests are UTF-8");
        let args: Vec<_> = ["run", "-p", "acp"]
            .into_iter()
            .chain(flags.iter().copied())
            .chain([script, "--", "env", &sessions, agent])
            .chain(knobs.iter().copied())
            .collect();
        self.run(&args)
    }

    /// Starts one in the background and gives its id.
    #[track_caller]
    pub fn acps(&self, flags: &[&str], knobs: &[&str], script: &str) -> String {
        let flags: Vec<_> = ["--background", "--json"].iter().chain(flags).copied().collect();
        let record = self.acp(&flags, knobs, script).ended(0).json();
        record["id"].as_str().expect("a record has an id").to_owned()
    }

    /// Runs one to its end, whatever that is, and gives its record.
    #[track_caller]
    pub fn acp_record(&self, flags: &[&str], knobs: &[&str], script: &str) -> Value {
        let flags: Vec<_> = ["--json"].iter().chain(flags).copied().collect();
        self.acp(&flags, knobs, script).json()
    }

    /// What all of them were told, in order: each message of the protocol.
    pub fn acp_told(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join("acp-sessions/told.jsonl")).unwrap_or_default();
        let told =
            |line: &str| serde_json::from_str::<Value>(line).expect("it was written whole")["told"].take();
        text.lines().map(told).collect()
    }

    /// The methods among them that one of these names is of, each with its session.
    pub fn acp_methods(&self, names: &[&str]) -> Vec<String> {
        let word = |told: Value| {
            let method = told["method"].as_str().filter(|method| names.contains(method))?.to_owned();
            Some(told["params"]["sessionId"].as_str().map_or(method.clone(), |id| format!("{method} {id}")))
        };
        self.acp_told().into_iter().filter_map(word).collect()
    }

    /// The agents that run inside of a subagent, as the API tells of them.
    #[track_caller]
    pub fn inner(&self, id: &str) -> Vec<Value> {
        let list = self.http().get(&format!("/v1/subagents/{id}/inner")).with(200);
        list["items"].as_array().expect("a list has items").clone()
    }
}
