//! The names that definitions may use, as far as the caller knows them: a misspelt tool is refused, never silently no
//! tool.

use crate::definition::AgentDefinition;
use crate::fields::{Fields, join, nearest};
use crate::tools::ToolList;

/// What there is. Where a list is absent, nobody knows, and every name passes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// Tools, of all providers together.
    pub tools: Option<Vec<String>>,
    /// Servers of the Model Context Protocol that are configured.
    pub servers: Option<Vec<String>>,
    /// Providers.
    pub providers: Option<Vec<String>>,
    /// Variables of prompts, beside those that there always are.
    pub variables: Vec<String>,
}

impl Known {
    pub(crate) fn check(&self, definition: &AgentDefinition, fields: &mut Fields<'_>) {
        for (names, list) in [
            (&["tools"][..], definition.tools.value()),
            (&["disallowed_tools", "tools", "permission"][..], definition.disallowed_tools.value()),
        ] {
            self.check_tools(names, list, definition, fields);
        }
        if let Some(known) = &self.servers {
            for server in definition.mcp_servers.value().into_iter().flatten() {
                if server.config.is_none() && !known.contains(&server.name) {
                    fields.refuse_about(&["mcp_servers"], unknown("server", &server.name, known));
                }
            }
        }
        if let (Some(known), Some(provider)) = (&self.providers, &definition.provider)
            && !known.contains(provider)
        {
            fields.refuse_about(&["provider"], unknown("provider", provider, known));
        }
    }

    fn check_tools(
        &self,
        names: &[&str],
        list: Option<&ToolList>,
        definition: &AgentDefinition,
        fields: &mut Fields<'_>,
    ) {
        for tool in list.into_iter().flat_map(ToolList::patterns) {
            let name = tool.split('(').next().unwrap_or_default();
            if let Some(server) = server_of(name) {
                let inline = definition.mcp_servers.value().into_iter().flatten().any(|it| it.name == server);
                if let Some(known) = &self.servers
                    && !inline
                    && !known.iter().any(|known| known == server)
                {
                    fields.refuse_about(names, unknown("server", server, known));
                }
            } else if let Some(known) = &self.tools
                && !name.contains('*')
                && !name.contains(':')
                && !known.iter().any(|known| known == name)
            {
                fields.refuse_about(names, unknown("tool", name, known));
            }
        }
    }
}

/// The server of `mcp__server__tool`, unless a star stands for it.
fn server_of(tool: &str) -> Option<&str> {
    let rest = tool.strip_prefix("mcp__")?;
    let server = rest.split("__").next().filter(|server| !server.is_empty())?;
    (!server.contains('*')).then_some(server)
}

fn unknown(kind: &str, name: &str, known: &[String]) -> String {
    let hint = nearest(name, known.iter().map(String::as_str))
        .map(|meant| format!("; did you mean {meant:?}?"))
        .unwrap_or_default();
    format!("there is no {kind} {name:?}{hint} There are: {}", join(known))
}
