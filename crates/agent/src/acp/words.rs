//! What the client says that is more than a word, and the prompts in it.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::frame::Refusal;
use crate::tools::{McpServer, McpTransport};
use crate::turn::Limits;

/// A session to begin, to go on with, or to fork.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Begin {
    #[serde(default)]
    pub(super) session_id: Option<String>,
    pub(super) cwd: PathBuf,
    #[serde(default)]
    pub(super) additional_directories: Vec<PathBuf>,
    #[serde(default)]
    mcp_servers: Vec<Server>,
    #[serde(default)]
    pub(super) system_prompt: Option<Instructions>,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    subagent: Own,
}

/// What only this agent is told.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Own {
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) tools: Filter,
    pub(super) output_schema: Option<Value>,
    pub(super) limits: Option<Limits>,
    /// The run that a prompt belongs to.
    pub(super) run: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Filter {
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Instructions {
    #[serde(default)]
    pub(super) mode: InstructionsMode,
    content: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InstructionsMode {
    #[default]
    Append,
    Override,
}

impl Instructions {
    pub(super) fn text(&self) -> Result<String, Refusal> {
        text_of(&self.content)
    }
}

#[derive(Debug, Deserialize)]
struct Server {
    name: String,
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Named>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    value: String,
}

fn pairs(named: Vec<Named>) -> Vec<(String, String)> {
    named.into_iter().map(|Named { name, value }| (name, value)).collect()
}

impl Begin {
    pub(super) fn read(params: Value) -> Result<Self, Refusal> {
        serde_json::from_value(params).map_err(|error| Refusal::params(error.to_string()))
    }

    pub(super) fn own(&self) -> &Own {
        &self.meta.subagent
    }

    /// The servers, in the words of the tools.
    pub(super) fn servers(&mut self) -> Result<Vec<McpServer>, Refusal> {
        let one = |server: Server| {
            let Server { name, r#type, command, args, env, url, headers } = server;
            let transport = match (r#type.as_deref(), command, url) {
                (None | Some("stdio"), Some(command), _) => {
                    McpTransport::Stdio { program: command.into(), arguments: args, environment: pairs(env) }
                }
                (Some("http"), _, Some(url)) => McpTransport::Http { url, headers: pairs(headers) },
                (Some("sse"), ..) => {
                    let message =
                        format!("MCP server {name:?}: only stdio and http are spoken here, not sse");
                    return Err(Refusal::params(message));
                }
                _ => {
                    let message = format!("MCP server {name:?} has neither a command nor an address");
                    return Err(Refusal::params(message));
                }
            };
            Ok(McpServer::new(name, transport))
        };
        std::mem::take(&mut self.mcp_servers).into_iter().map(one).collect()
    }
}

/// A prompt.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt {
    pub(super) session_id: String,
    #[serde(rename = "prompt")]
    blocks: Vec<Value>,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

impl Prompt {
    pub(super) fn read(params: Value) -> Result<Self, Refusal> {
        serde_json::from_value(params).map_err(|error| Refusal::params(error.to_string()))
    }

    pub(super) fn text(&self) -> Result<String, Refusal> {
        let text = text_of(&self.blocks)?;
        if text.trim().is_empty() {
            return Err(Refusal::params("the prompt is empty"));
        }
        Ok(text)
    }

    pub(super) fn run(&self) -> Option<u32> {
        self.meta.subagent.run
    }
}

/// Blocks as one text. What is no text is refused, and never dropped in silence.
fn text_of(blocks: &[Value]) -> Result<String, Refusal> {
    let field = |block: &Value, field: &str| block.get(field).and_then(Value::as_str).map(str::to_owned);
    let one = |block: &Value| {
        let text = match field(block, "type").as_deref() {
            Some("text") => field(block, "text"),
            Some("resource_link") => field(block, "uri").map(|uri| {
                let name = field(block, "name").unwrap_or_else(|| uri.clone());
                format!("[{name}]({uri})")
            }),
            Some("resource") => {
                let resource = &block["resource"];
                let uri = field(resource, "uri").unwrap_or_default();
                field(resource, "text").map(|text| format!("<resource uri={uri:?}>\n{text}\n</resource>"))
            }
            _ => None,
        };
        text.ok_or_else(|| {
            let kind = field(block, "type").unwrap_or_else(|| String::from("no type"));
            Refusal::params(format!(
                "a block of {kind:?} is not taken here: text, resource and resource_link are"
            ))
        })
    };
    Ok(blocks.iter().map(one).collect::<Result<Vec<_>, _>>()?.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Begin, Prompt};

    #[test]
    fn acp_07_a_block_that_is_no_text_is_refused_and_never_dropped() {
        let prompt =
            |blocks: serde_json::Value| Prompt::read(json!({"sessionId": "s", "prompt": blocks})).unwrap();
        let fine = prompt(json!([{"type": "text", "text": "a"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": "b"}},
            {"type": "resource_link", "name": "n", "uri": "file:///y"}]));
        assert_eq!(
            fine.text().unwrap(),
            "a\n\n<resource uri=\"file:///x\">\nb\n</resource>\n\n[n](file:///y)"
        );
        for block in [
            json!({"type": "image", "data": "", "mimeType": "image/png"}),
            json!({"type": "resource", "resource": {"uri": "x", "blob": ""}}),
            json!({}),
            json!("text"),
        ] {
            assert!(prompt(json!([{"type": "text", "text": "a"}, block])).text().is_err(), "{block}");
        }
        assert!(prompt(json!([{"type": "text", "text": " "}])).text().is_err());
    }

    #[test]
    fn servers_are_taken_in_both_shapes() {
        let mut begin = Begin::read(json!({"cwd": "/", "mcpServers": [
            {"name": "a", "command": "x", "args": ["1"], "env": [{"name": "N", "value": "v"}]},
            {"type": "http", "name": "b", "url": "http://h", "headers": []}]}))
        .unwrap();
        assert_eq!(begin.servers().unwrap().len(), 2);
        for wrong in [json!({"type": "sse", "name": "c", "url": "http://h"}), json!({"name": "d"})] {
            let mut begin = Begin::read(json!({"cwd": "/", "mcpServers": [wrong]})).unwrap();
            assert!(begin.servers().is_err(), "{wrong}");
        }
    }
}
