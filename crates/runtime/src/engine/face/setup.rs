//! What is asked of an agent beyond its task, held against what its provider can do. Anything that would be accepted and
//! then ignored is refused here.

use subagent_model::{ErrorCode, McpTransport, Problem, SpawnSpec, SystemPromptMode, SystemPromptUse};

use super::prepare::cannot;

/// Longest text of instructions, in bytes: it stands in the record.
const LONGEST_INSTRUCTIONS: usize = 64 * 1024;
/// Longest name of a tool, an effort or a mode.
const LONGEST_NAME: usize = 256;
/// Most names in a list, and most servers.
const MOST: usize = 256;

/// Refuses a set-up that the provider cannot do, or that cannot be meant.
pub(super) fn lacks(spec: &SpawnSpec) -> Result<(), Problem> {
    let (setup, can, provider) = (&spec.setup, &spec.can, spec.provider.as_str());
    if spec.model.is_some() && !can.model {
        return Err(cannot(provider, "be given a model", "Leave the model out."));
    }
    if setup.effort.is_some() && !can.effort {
        return Err(cannot(provider, "be told how hard to think", "Leave the effort out."));
    }
    if !setup.tools.is_open() && !can.tool_filter {
        let hint = "Leave the tools out, or hold them back by a policy of permissions.";
        return Err(cannot(provider, "be given a choice of tools", hint));
    }
    if !setup.mcp_servers.is_empty() && !can.mcp_servers {
        return Err(cannot(provider, "be given MCP servers", "Leave the servers out."));
    }
    if setup.fork_of.is_some() && !can.fork {
        return Err(cannot(provider, "fork a session", "Begin a new session, or resume the old one."));
    }
    match setup.system_prompt.as_ref().map(|prompt| prompt.mode) {
        Some(_) if can.system_prompt == SystemPromptUse::None => {
            let hint = "Put the instructions into the task.";
            return Err(cannot(provider, "be given instructions of its own", hint));
        }
        Some(SystemPromptMode::Override) if can.system_prompt != SystemPromptUse::Override => {
            let hint = "Append them: the mode append.";
            return Err(cannot(provider, "have its system prompt replaced", hint));
        }
        _ => {}
    }
    fits(spec)
}

fn fits(spec: &SpawnSpec) -> Result<(), Problem> {
    let setup = &spec.setup;
    let invalid = |message: String| Err(Problem::new(ErrorCode::InvalidRequest, message));
    if let Some(prompt) = &setup.system_prompt {
        if prompt.text.trim().is_empty() {
            return invalid(String::from("the instructions are blank"));
        }
        if prompt.text.len() > LONGEST_INSTRUCTIONS {
            return invalid(format!("the instructions are longer than {LONGEST_INSTRUCTIONS} bytes"));
        }
    }
    let words = [&setup.effort, &setup.permission_mode, &setup.fork_of];
    let tools = setup.tools.allow.iter().flatten().chain(&setup.tools.deny);
    let servers = setup.mcp_servers.iter().map(|server| &server.name);
    let bad = |name: &&String| name.trim().is_empty() || name.len() > LONGEST_NAME || name.contains('\0');
    if let Some(name) = words.into_iter().flatten().chain(tools.clone()).chain(servers).find(bad) {
        return invalid(format!("a name in the set-up is blank or too long: {name:.40?}"));
    }
    if tools.count() > MOST || setup.mcp_servers.len() > MOST {
        return invalid(format!("the set-up lists more than {MOST} tools or servers"));
    }
    for (at, server) in setup.mcp_servers.iter().enumerate() {
        if setup.mcp_servers[..at].iter().any(|other| other.name == server.name) {
            return invalid(format!("two MCP servers are named {:?}", server.name));
        }
        match &server.via {
            McpTransport::Stdio { command, .. } if command.is_empty() => {
                return invalid(format!("the MCP server {:?} has no command", server.name));
            }
            McpTransport::Http { url, .. } if !url.starts_with("http://") && !url.starts_with("https://") => {
                return invalid(format!("the MCP server {:?} has no http address: {url:.80?}", server.name));
            }
            McpTransport::Stdio { .. } | McpTransport::Http { .. } => {}
        }
    }
    Ok(())
}
