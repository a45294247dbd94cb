//! opencode: `.opencode/agent(s)/**/*.md` and the key `agent` of `opencode.json`. The name is the path of the file below
//! its directory.

use super::{Body, Input, Read, Reader, Rules, common, finish, permission};
use crate::definition::AgentDefinition;
use crate::fields::Fields;
use crate::given::Given;
use crate::name::AgentName;
use crate::raw::{Node, Value};
use crate::tools::ToolList;
use crate::words::{Effort, PromptMode, Visibility};

const KEYS: &[&str] = &[
    "description",
    "prompt",
    "tools",
    "permission",
    "model",
    "variant",
    "reasoning_effort",
    "steps",
    "max_steps",
    "mode",
    "hidden",
    "disable",
];

const QUIET: &[&str] = &["name", "color", "temperature", "top_p", "options"];

pub(super) const RULES: Rules = Rules { reader: read as Reader, known: KEYS, quiet: QUIET };

/// Who uses an agent of opencode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Primary,
    Subagent,
    All,
}

const MODES: &[(&str, Mode)] =
    &[("primary", Mode::Primary), ("subagent", Mode::Subagent), ("all", Mode::All)];

fn read(input: &Input<'_>, fields: &mut Fields<'_>, mut body: Body) -> Option<AgentDefinition> {
    let name = match AgentName::nested(input.stem) {
        Ok(name) => name,
        Err(error) => {
            fields.refuse_missing("name", &format!("the file gives it, and {error}"));
            return None;
        }
    };
    if fields.peek("description").is_none() {
        fields.note(&format!(
            "`{name}` has no description: it is a setting of opencode's own agent, and not read"
        ));
        return None;
    }
    if body.text.is_empty()
        && let Some(prompt) = fields.text(&["prompt"])
    {
        if prompt.contains("{file:") || prompt.contains("{env:") {
            let message = "what stands between {file: or {env: and } is not read here: put the prompt into a Markdown file";
            fields.refuse_about(&["prompt"], message);
        }
        body.text = prompt;
    }
    // Without a prompt of its own an agent of opencode has the one of its provider.
    let mode = if body.text.is_empty() { PromptMode::Append } else { PromptMode::Replace };
    let mut it = common::begin(input, fields, name, body, mode)?;
    let rules = permission::opencode(fields);
    it.tools = rules.tools;
    if !rules.denied.is_empty() {
        it.disallowed_tools = Given::Value(ToolList::new(rules.denied));
    }
    it.permissions = rules.permissions;
    it.allowed_subagents = rules.subagents;
    it.model = common::model(fields, &["model"]);
    it.effort = common::effort(fields, &["reasoning_effort"]);
    variant(fields, &mut it);
    it.limits.max_turns = fields.count32(&["steps", "max_steps"]);
    let primary = fields.word(&["mode"], MODES) == Some(Mode::Primary);
    let disabled = fields.switch(&["disable"]) == Some(true);
    let hidden = fields.switch(&["hidden"]) == Some(true);
    // A primary agent is one that a person speaks with; opencode does not let it be spawned either.
    it.visibility = match (primary || disabled, hidden) {
        (true, _) => Visibility::Disabled,
        (false, true) => Visibility::Hidden,
        (false, false) => Visibility::Listed,
    };
    Some(it)
}

/// A variant of a model is a name of opencode's; where it is the word for an effort, it is the effort.
fn variant(fields: &mut Fields<'_>, it: &mut AgentDefinition) {
    let Some(variant) = fields.text(&["variant"]) else { return };
    match Effort::WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(&variant)) {
        Some((_, effort)) if it.effort.is_omitted() => it.effort = Given::Value(*effort),
        _ => {
            it.extra.insert(String::from("variant"), variant.into());
        }
    }
}

/// Reads the table of `opencode.json`.
pub(super) fn table(input: &Input<'_>, root: Node) -> Read {
    let mut read = Read::default();
    let Value::Map(entries) = root.value else { return read };
    let agents = entries.into_iter().find(|(key, _)| key.text == "agent").map(|(_, node)| node);
    let Some(agents) = agents else { return read };
    let kind = agents.kind();
    let Value::Map(agents) = agents.value else {
        let message = format!("it must be a table of agents, and is {kind}");
        let remark = crate::Diagnostic::error(input.path, message).at(agents.at).field("agent");
        read.remarks.push(remark);
        return read;
    };
    for (key, node) in agents {
        let name = key.text;
        let one = Input { stem: &name, ..input.clone() };
        let mut fields = Fields::of(input.path, &format!("agent.{name}."), node);
        let body = Body { text: String::new(), line: 1 };
        let definition = if fields.failed() { None } else { self::read(&one, &mut fields, body) };
        let one = finish(&one, &RULES, fields, definition, Some(name.clone()));
        read.found.extend(one.found);
        read.remarks.extend(one.remarks);
    }
    read
}
