//! How an agent is set up, from the options of `run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use subagent_model::{
    AgentSetup, ErrorCode, McpServer, McpTransport, SystemPrompt, SystemPromptMode, ToolFilter,
};

use crate::commands::given;
use crate::fail::Failure;

/// The set-up of an agent.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Agent")]
pub(super) struct SetupArgs {
    /// How hard it thinks, in the provider's word: low, medium, high, ...
    #[arg(long, value_name = "LEVEL")]
    effort: Option<String>,
    /// Instructions after its own system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt")]
    append_system_prompt: Option<String>,
    /// Instructions instead of its own system prompt
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// It has these tools only, separated by commas; an empty list: none
    #[arg(long, value_name = "NAMES")]
    tools: Option<String>,
    /// It does not have these tools, separated by commas; may be repeated
    #[arg(long, value_name = "NAMES")]
    deny_tools: Vec<String>,
    /// Its own mode of permissions, in the provider's word
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
    /// MCP servers that it gets: a JSON file as agents have it, {"mcpServers": {NAME: {"command": ...}}}
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
    /// Begin with a copy of this session of the provider; the session itself stays as it is
    #[arg(long, value_name = "SESSION")]
    fork_session: Option<String>,
    /// The same with the session of this subagent, by its provider
    #[arg(long, value_name = "ID", conflicts_with = "fork_session")]
    pub(super) fork: Option<String>,
}

impl SetupArgs {
    pub(super) fn setup(&self) -> Result<AgentSetup, Failure> {
        let appended = self.append_system_prompt.clone().map(|text| (SystemPromptMode::Append, text));
        let replaced = self.system_prompt.clone().map(|text| (SystemPromptMode::Override, text));
        Ok(AgentSetup {
            effort: self.effort.clone(),
            system_prompt: appended.or(replaced).map(|(mode, text)| SystemPrompt { mode, text }),
            tools: ToolFilter {
                allow: self.tools.as_deref().map(names),
                deny: self.deny_tools.iter().flat_map(|list| names(list)).collect(),
            },
            permission_mode: self.permission_mode.clone(),
            mcp_servers: self.mcp_config.as_deref().map(servers).transpose()?.unwrap_or_default(),
            fork_of: self.fork_session.clone(),
        })
    }
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The file as coding agents have it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct McpFile {
    mcp_servers: BTreeMap<String, Server>,
}

#[derive(Deserialize)]
struct Server {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

fn servers(path: &Path) -> Result<Vec<McpServer>, Failure> {
    let bad = |message: String| {
        Failure::new(ErrorCode::InvalidRequest, message)
            .hint("Give {\"mcpServers\": {\"NAME\": {\"command\": \"PROGRAM\", \"args\": []}}}.")
    };
    let text = given::file(path, "list of MCP servers")?;
    let file: McpFile = serde_json::from_str(&text)
        .map_err(|error| bad(format!("{} is no list of MCP servers", path.display())).because(error))?;
    let server = |(name, server): (String, Server)| {
        let via = match (server.command, server.url) {
            (Some(command), None) => McpTransport::Stdio { command, args: server.args, env: server.env },
            (None, Some(url)) => McpTransport::Http { url, headers: server.headers },
            _ => return Err(bad(format!("the MCP server {name:?} needs either a command or a url"))),
        };
        Ok(McpServer { name, via })
    };
    file.mcp_servers.into_iter().map(server).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{SetupArgs, servers};
    use subagent_model::{AgentSetup, McpTransport};

    #[test]
    fn def_03_no_tools_and_all_tools_are_different_things() {
        assert!(SetupArgs::default().setup().unwrap().is_default());
        let none = SetupArgs { tools: Some(String::new()), ..SetupArgs::default() }.setup().unwrap();
        assert_eq!(none.tools.allow, Some(vec![]));
        let args = SetupArgs {
            tools: Some(String::from("Read, Grep")),
            deny_tools: vec![String::from("Bash"), String::from("Write,Edit")],
            ..SetupArgs::default()
        };
        let AgentSetup { tools, .. } = args.setup().unwrap();
        assert_eq!(tools.allow.unwrap(), ["Read", "Grep"]);
        assert_eq!(tools.deny, ["Bash", "Write", "Edit"]);
    }

    #[test]
    fn servers_are_read_as_agents_write_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp.json");
        let good = r#"{"mcpServers": {"a": {"command": "x", "args": ["y"]}, "b": {"type": "http", "url": "http://z"}}}"#;
        std::fs::write(&path, good).unwrap();
        let all = servers(&path).unwrap();
        assert!(
            matches!(&all[0].via, McpTransport::Stdio { command, args, .. } if command == "x" && args == &["y"])
        );
        assert!(matches!(&all[1].via, McpTransport::Http { url, .. } if url == "http://z"));
        for bad in [
            "{}",
            r#"{"mcpServers": {"a": {}}}"#,
            r#"{"mcpServers": {"a": {"command": "x", "url": "http://z"}}}"#,
        ] {
            std::fs::write(&path, bad).unwrap();
            assert!(servers(&path).is_err(), "{bad}");
        }
    }
}
