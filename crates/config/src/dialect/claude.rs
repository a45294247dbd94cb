//! Claude Code: `.claude/agents/**/*.md`. The name is the one in the header; a file without one is a document. The same
//! fields in JSON are what its `--agents` takes.

use super::{Body, Input, Read, Reader, Rules, common, finish};
use crate::definition::AgentDefinition;
use crate::fields::Fields;
use crate::raw::{Key, Node, Value};
use crate::words::{Isolation, MemoryScope, PermissionMode, PromptMode};

const KEYS: &[&str] = &[
    "name",
    "description",
    "prompt",
    "tools",
    "disallowed_tools",
    "model",
    "effort",
    "permission_mode",
    "mcp_servers",
    "hooks",
    "max_turns",
    "auto_compact_window",
    "skills",
    "initial_prompt",
    "memory",
    "background",
    "omit_claude_md",
    "isolation",
];

const QUIET: &[&str] = &["color", "observer", "observer_message", "observe_subagents"];

pub(super) const RULES: Rules = Rules { reader: read as Reader, known: KEYS, quiet: QUIET };

const PERMISSION_MODES: &[(&str, PermissionMode)] = &[
    ("default", PermissionMode::Ask),
    ("acceptEdits", PermissionMode::AcceptEdits),
    ("plan", PermissionMode::Plan),
    ("dontAsk", PermissionMode::Deny),
    ("auto", PermissionMode::Auto),
    ("bypassPermissions", PermissionMode::Bypass),
];

fn read(input: &Input<'_>, fields: &mut Fields<'_>, mut body: Body) -> Option<AgentDefinition> {
    if fields.peek("name").is_none() {
        fields.note("it has no `name`, so it is taken for a document and not read");
        return None;
    }
    let name = common::name(fields, None)?;
    if body.text.is_empty()
        && let Some(prompt) = fields.text(&["prompt"])
    {
        body.text = prompt;
    }
    let mut it = common::begin(input, fields, name, body, PromptMode::Replace)?;
    common::check_prompt(&it, fields);
    (it.tools, it.allowed_subagents) = common::spawns(common::tools(fields, &["tools"]));
    it.disallowed_tools = common::tools(fields, &["disallowed_tools"]);
    it.model = common::model(fields, &["model"]);
    it.effort = common::effort(fields, &["effort"]);
    it.permission_mode = fields.word(&["permission_mode"], PERMISSION_MODES);
    it.mcp_servers = common::servers(fields, &["mcp_servers"]);
    it.hooks = common::hooks(fields);
    it.limits.max_turns = fields.count32(&["max_turns"]);
    it.skills = super::own::skills(fields, &["skills"]);
    it.memory = fields.given_word(&["memory"], MemoryScope::WORDS);
    it.background = fields.switch(&["background"]);
    it.isolation = fields.given_word(&["isolation"], Isolation::WORDS);
    it.context.instructions = fields.switch(&["omit_claude_md"]).map(|omit| !omit);
    it.context.initial_prompt = fields.given_text(&["initial_prompt"]);
    it.context.compact_at = fields.count(&["auto_compact_window"], 1_000_000_000);
    Some(it)
}

/// Reads the JSON form: names, each with its fields.
pub(super) fn table(input: &Input<'_>, root: Node) -> Read {
    let mut read = Read::default();
    let mut outer = Fields::of(input.path, "", root);
    for (spelled, entry) in outer.take_all() {
        let mut node = entry.node;
        if let Value::Map(entries) = &mut node.value {
            entries.retain(|(key, _)| key.text != "name");
            let key = Key { text: String::from("name"), at: node.at };
            entries.push((key, Node::text(node.at, spelled.clone())));
        }
        let mut fields = Fields::of(input.path, &format!("{spelled}."), node);
        let body = Body { text: String::new(), line: 1 };
        let definition = if fields.failed() { None } else { self::read(input, &mut fields, body) };
        let one = finish(input, &RULES, fields, definition, Some(spelled));
        read.found.extend(one.found);
        read.remarks.extend(one.remarks);
    }
    read.remarks.extend(outer.into_remarks());
    read
}
