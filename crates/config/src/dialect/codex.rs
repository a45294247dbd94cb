//! Codex: `.codex/agents/**/*.toml`, and the table `[agents.NAME]` of its `config.toml`, which may point to a file. Every
//! setting of Codex may stand in such a file; those without a home here are kept.

use camino::Utf8Path;

use super::{Beside, Body, Input, Read, Reader, Rules, common, finish};
use crate::definition::AgentDefinition;
use crate::fields::Fields;
use crate::given::Given;
use crate::raw::{self, Key, Node, Value};
use crate::words::{ModelChoice, PermissionMode, PromptMode, Sandbox};

const KEYS: &[&str] = &[
    "name",
    "description",
    "developer_instructions",
    "model",
    "model_provider",
    "model_reasoning_effort",
    "sandbox_mode",
    "approval_policy",
    "mcp_servers",
    "hooks",
];

const QUIET: &[&str] =
    &["nickname_candidates", "web_search", "skills", "model_reasoning_summary", "model_verbosity"];

pub(super) const RULES: Rules = Rules { reader: read as Reader, known: KEYS, quiet: QUIET };

const SANDBOXES: &[(&str, Sandbox)] = &[
    ("read-only", Sandbox::ReadOnly),
    ("workspace-write", Sandbox::WorkspaceWrite),
    ("danger-full-access", Sandbox::FullAccess),
];

const POLICIES: &[(&str, PermissionMode)] = &[
    ("untrusted", PermissionMode::Ask),
    ("on-request", PermissionMode::Auto),
    ("on-failure", PermissionMode::Auto),
    ("never", PermissionMode::Deny),
];

/// Settings beside the roles in the table `[agents]`.
const SETTINGS: &[&str] =
    &["max_threads", "max_depth", "max_concurrent_threads_per_session", "job_max_runtime_seconds"];

fn read(input: &Input<'_>, fields: &mut Fields<'_>, mut body: Body) -> Option<AgentDefinition> {
    let name = common::name(fields, None)?;
    match fields.text(&["developer_instructions"]) {
        Some(text) => body.text = text,
        None if fields.failed() => return None,
        None => {
            fields.refuse_missing("developer_instructions", "");
            return None;
        }
    }
    finish_role(input, fields, name, body)
}

fn finish_role(
    input: &Input<'_>,
    fields: &mut Fields<'_>,
    name: crate::AgentName,
    body: Body,
) -> Option<AgentDefinition> {
    let mut it = common::begin(input, fields, name, body, PromptMode::Append)?;
    it.model = common::model(fields, &["model"]);
    if let Some(provider) = fields.text(&["model_provider"]) {
        it.model = match it.model {
            Given::Value(ModelChoice::Named(model)) if !model.contains('/') => {
                Given::Value(ModelChoice::Named(format!("{provider}/{model}")))
            }
            other => {
                it.extra.insert(String::from("model_provider"), provider.into());
                other
            }
        };
    }
    it.effort = common::effort(fields, &["model_reasoning_effort"]);
    it.sandbox = fields.word(&["sandbox_mode"], SANDBOXES);
    it.permission_mode = fields.word(&["approval_policy"], POLICIES);
    it.mcp_servers = common::servers(fields, &["mcp_servers"]);
    it.hooks = common::hooks(fields);
    Some(it)
}

/// Reads the table of `config.toml`.
pub(super) fn table(input: &Input<'_>, root: Node, beside: &mut dyn FnMut(&Utf8Path) -> Beside) -> Read {
    let mut read = Read::default();
    let mut outer = Fields::of(input.path, "", root);
    let Some(mut agents) = outer.table(&["agents"]) else { return read };
    for (spelled, entry) in agents.take_all() {
        if SETTINGS.contains(&spelled.as_str()) && !matches!(entry.node.value, Value::Map(_)) {
            continue;
        }
        let prefix = format!("agents.{spelled}.");
        let mut fields = Fields::of(input.path, &prefix, entry.node);
        let one = match fields.text(&["config_file"]) {
            Some(file) if !fields.failed() => pointed(input, fields, &spelled, &file, beside),
            _ => declared(input, fields, &spelled),
        };
        read.found.extend(one.found);
        read.remarks.extend(one.remarks);
    }
    read.remarks.extend(agents.into_remarks());
    read
}

/// A role that is a description and nothing else.
fn declared(input: &Input<'_>, mut fields: Fields<'_>, name: &str) -> Read {
    let body = Body { text: String::new(), line: 1 };
    let definition = match crate::AgentName::new(name) {
        _ if fields.failed() => None,
        Ok(name) => finish_role(input, &mut fields, name, body),
        Err(error) => {
            fields.refuse_missing("name", &error.to_string());
            None
        }
    };
    finish(input, &RULES, fields, definition, Some(name.to_owned()))
}

/// A role whose settings are in a file.
fn pointed(
    input: &Input<'_>,
    mut fields: Fields<'_>,
    name: &str,
    file: &str,
    beside: &mut dyn FnMut(&Utf8Path) -> Beside,
) -> Read {
    let (path, text) = match beside(Utf8Path::new(file)) {
        Ok(found) => found,
        Err(reason) => {
            fields.refuse_about(&["config_file"], reason);
            return finish(input, &RULES, fields, None, Some(name.to_owned()));
        }
    };
    let mut node = match raw::toml(&text) {
        Ok(node) => node,
        Err(error) => return Read::bad(Some(name.to_owned()), super::syntax(&path, &error)),
    };
    // The name of the table is the name of the role; its description counts where the file has none.
    if let Value::Map(entries) = &mut node.value {
        let key = |text: &str| Key { text: text.to_owned(), at: node.at };
        entries.retain(|(key, _)| key.text != "name");
        entries.push((key("name"), Node::text(node.at, name)));
        if let Some(description) = fields.text(&["description"])
            && !entries.iter().any(|(key, _)| key.text == "description")
        {
            entries.push((key("description"), Node::text(node.at, description)));
        }
    }
    let source = crate::Source { path: Some(path.clone()), ..input.source.clone() };
    let inner = Input { path: &path, stem: name, source: &source, known: input.known };
    let mut read = super::definition(&inner, node, Body { text: String::new(), line: 1 });
    fields.rest(QUIET, KEYS);
    read.remarks.extend(fields.into_remarks());
    read
}

/// The files that the table of a `config.toml` points to.
pub(crate) fn config_files(text: &str) -> Vec<String> {
    let Ok(Node { value: Value::Map(root), .. }) = raw::toml(text) else { return Vec::new() };
    let maps = |node: Node| match node.value {
        Value::Map(entries) => entries,
        _ => Vec::new(),
    };
    root.into_iter()
        .filter(|(key, _)| key.text == "agents")
        .flat_map(|(_, agents)| maps(agents))
        .flat_map(|(_, role)| maps(role))
        .filter_map(|(key, node)| match node.value {
            Value::Text(file) if key.text == "config_file" => Some(file),
            _ => None,
        })
        .collect()
}
