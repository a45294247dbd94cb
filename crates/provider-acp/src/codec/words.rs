//! What we say, as it stands on the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use subagent_model::{McpServer, McpTransport, SpawnSpec, SystemPrompt, SystemPromptMode, ToolFilter};
use subagent_provider::Attached;

/// The version of the protocol that is spoken here.
pub(super) const VERSION: u64 = 1;

/// Where our own remarks stand in `_meta`: the session that is continued.
pub(super) const CONTINUES: &str = "subagent/continues";

pub(super) const INITIALIZE: &str = "initialize";
pub(super) const NEW: &str = "session/new";
pub(super) const LOAD: &str = "session/load";
pub(super) const RESUME: &str = "session/resume";
pub(super) const FORK: &str = "session/fork";
pub(super) const SET_MODE: &str = "session/set_mode";
pub(super) const SET_MODEL: &str = "session/set_model";
pub(super) const SET_OPTION: &str = "session/set_config_option";
pub(super) const PROMPT: &str = "session/prompt";
pub(super) const CANCEL: &str = "session/cancel";
pub(super) const CLOSE: &str = "session/close";
/// A message into a turn: of our own agent only.
pub(super) const STEER: &str = "_subagent/steer";

/// An object without anything in it: "it is there".
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Yes {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize<'a> {
    protocol_version: u64,
    client_capabilities: ClientCapabilities,
    client_info: ClientInfo,
    #[serde(rename = "_meta", skip_serializing_if = "BTreeMap::is_empty")]
    meta: BTreeMap<&'static str, &'a str>,
}

/// No files and no terminals: the agent has its own access to both, and is contained as a process (`docs/adr/0016`).
#[derive(Serialize)]
struct ClientCapabilities {
    fs: Files,
    terminal: bool,
    session: SessionExtras,
    subagents: Yes,
    elicitation: Elicitation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Files {
    read_text_file: bool,
    write_text_file: bool,
}

/// Without `notices` some agents write their warnings into their answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionExtras {
    compaction: Yes,
    config_options: ConfigOptions,
    notices: Yes,
}

#[derive(Serialize)]
struct ConfigOptions {
    boolean: Yes,
}

#[derive(Serialize)]
struct Elicitation {
    form: Yes,
}

#[derive(Serialize)]
struct ClientInfo {
    name: &'static str,
    version: &'static str,
}

impl<'a> Initialize<'a> {
    pub(super) fn new(continues: Option<&'a str>) -> Self {
        Self {
            protocol_version: VERSION,
            client_capabilities: ClientCapabilities {
                fs: Files { read_text_file: false, write_text_file: false },
                terminal: false,
                session: SessionExtras {
                    compaction: Yes {},
                    config_options: ConfigOptions { boolean: Yes {} },
                    notices: Yes {},
                },
                subagents: Yes {},
                elicitation: Elicitation { form: Yes {} },
            },
            client_info: ClientInfo { name: "subagent", version: env!("CARGO_PKG_VERSION") },
            meta: continues.map(|session| (CONTINUES, session)).into_iter().collect(),
        }
    }
}

/// A session to begin, to continue or to fork.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Begin<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<&'a str>,
    pub(super) cwd: &'a str,
    pub(super) mcp_servers: Vec<Server<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_prompt: Option<Instructions<'a>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Own<SetUp<'a>>>,
}

/// What only our own agent is told.
#[derive(Serialize)]
pub(super) struct Own<T> {
    subagent: T,
}

impl<T> Own<T> {
    pub(super) fn new(subagent: T) -> Self {
        Self { subagent }
    }
}

/// How our own agent is set up.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetUp<'a> {
    #[serde(skip_serializing_if = "ToolFilter::is_open")]
    tools: &'a ToolFilter,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a Value>,
}

impl<'a> SetUp<'a> {
    pub(super) fn of(spec: &'a SpawnSpec) -> Self {
        Self { tools: &spec.setup.tools, output_schema: spec.output_schema.as_ref() }
    }
}

#[derive(Serialize)]
pub(super) struct Instructions<'a> {
    mode: &'static str,
    content: [Block<'a>; 1],
}

impl<'a> Instructions<'a> {
    pub(super) fn of(prompt: &'a SystemPrompt) -> Self {
        let mode = match prompt.mode {
            SystemPromptMode::Append => "append",
            SystemPromptMode::Override => "override",
        };
        Self { mode, content: [Block::text(&prompt.text)] }
    }
}

/// The one kind of block that every agent takes.
#[derive(Serialize)]
pub(super) struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> Block<'a> {
    fn text(text: &'a str) -> Self {
        Self { r#type: "text", text }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Server<'a> {
    Program { name: &'a str, command: &'a str, args: &'a [String], env: Vec<Named<'a>> },
    Http { r#type: &'static str, name: &'a str, url: &'a str, headers: Vec<Named<'a>> },
}

#[derive(Serialize)]
pub(super) struct Named<'a> {
    name: &'a str,
    value: &'a str,
}

impl<'a> Server<'a> {
    pub(super) fn of(server: &'a McpServer) -> Self {
        let name = server.name.as_str();
        match &server.via {
            McpTransport::Stdio { command, args, env } => {
                Self::Program { name, command, args, env: named(env) }
            }
            McpTransport::Http { url, headers } => {
                Self::Http { r#type: "http", name, url, headers: named(headers) }
            }
        }
    }
}

fn named(map: &BTreeMap<String, String>) -> Vec<Named<'_>> {
    map.iter().map(|(name, value)| Named { name, value }).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt<'a> {
    session_id: &'a str,
    #[serde(rename = "prompt")]
    parts: Vec<Part<'a>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Own<OfRun>>,
}

/// The run that a prompt belongs to: our own agent says which one it has.
#[derive(Serialize)]
struct OfRun {
    run: u32,
}

/// A part of a prompt.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: &'a str,
    },
    Resource {
        resource: Resource<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    uri: String,
    mime_type: &'a str,
    text: Cow<'a, str>,
}

impl<'a> Part<'a> {
    fn of(file: &'a Attached) -> Self {
        let mime_type = &file.about.media_type;
        if file.is_image() {
            return Self::Image { data: file.base64(), mime_type };
        }
        let uri = format!("attachment:///{}", path_segment(&file.about.name));
        Self::Resource { resource: Resource { uri, mime_type, text: file.text() } }
    }
}

/// A name as a part of an address: RFC 3986, 3.3.
fn path_segment(name: &str) -> String {
    name.bytes().fold(String::with_capacity(name.len()), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    })
}

impl<'a> Prompt<'a> {
    /// The files come before the text that speaks of them.
    pub(super) fn new(
        session_id: &'a str,
        text: &'a str,
        attached: &'a [Attached],
        run: Option<u32>,
    ) -> Self {
        let parts = attached.iter().map(Part::of).chain([Part::Text { text }]).collect();
        let meta = run.map(|run| Own::new(OfRun { run }));
        Self { session_id, parts, meta }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Steer<'a> {
    pub(super) session_id: &'a str,
    pub(super) text: &'a str,
    pub(super) number: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancel<'a> {
    pub(super) session_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Close<'a> {
    pub(super) session_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetMode<'a> {
    pub(super) session_id: &'a str,
    pub(super) mode_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetModel<'a> {
    pub(super) session_id: &'a str,
    pub(super) model_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetOption<'a> {
    pub(super) session_id: &'a str,
    pub(super) config_id: &'a str,
    pub(super) value: &'a str,
}

/// The answer to a request for a permission.
#[derive(Serialize)]
pub(super) struct Permitted<'a> {
    outcome: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum Outcome<'a> {
    Selected {
        #[serde(rename = "optionId")]
        option_id: &'a str,
    },
    Cancelled,
}

impl<'a> Permitted<'a> {
    /// By an option, or not answered at all.
    pub(super) fn by(option: Option<&'a str>) -> Self {
        Self { outcome: option.map_or(Outcome::Cancelled, |option_id| Outcome::Selected { option_id }) }
    }
}

/// The answer to a form.
#[derive(Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum Filled {
    Accept { content: BTreeMap<String, Value> },
    Decline,
    Cancel,
}
