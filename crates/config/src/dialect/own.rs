//! Our own files: `.subagent/agents/*.md`. The name is that of the file unless the header says another; the body is a
//! template; a misspelt limit is refused.

use std::collections::BTreeSet;

use super::{Body, Input, Reader, Rules, common, permission};
use crate::definition::{AgentDefinition, ContextOptions, Field, Limits, Skills};
use crate::fields::{Fields, join, nearest};
use crate::given::Given;
use crate::prompt;
use crate::raw::Value;
use crate::words::{
    ContextStart, Isolation, MAX_DURATION_MS, MemoryScope, PermissionMode, PromptMode, Sandbox, Visibility,
    duration_ms,
};

/// Keys that have a meaning, in the order of the documentation.
pub(crate) const KEYS: &[&str] = &[
    "name",
    "display_name",
    "aliases",
    "description",
    "prompt_mode",
    "tools",
    "disallowed_tools",
    "model",
    "effort",
    "permission_mode",
    "permissions",
    "sandbox",
    "max_turns",
    "grace_turns",
    "max_tokens",
    "max_cost_usd",
    "max_tool_calls",
    "timeout",
    "provider",
    "command",
    "skills",
    "mcp_servers",
    "hooks",
    "memory",
    "background",
    "isolation",
    "context",
    "allowed_subagents",
    "max_depth",
    "visibility",
    "locks",
];

/// Keys that keep a child back: one of these, misspelt, would be no bound at all.
const BOUNDS: &[&str] = &[
    "tools",
    "disallowed_tools",
    "permission_mode",
    "permissions",
    "sandbox",
    "max_turns",
    "grace_turns",
    "max_tokens",
    "max_cost_usd",
    "max_tool_calls",
    "timeout",
    "isolation",
    "allowed_subagents",
    "max_depth",
    "visibility",
    "locks",
];

pub(super) const RULES: Rules = Rules { reader: read as Reader, known: KEYS, quiet: &["color"] };

/// The most tokens and the most money that a definition may set.
const MAX_TOKENS: u64 = 1_000_000_000_000;
const MAX_COST: f64 = 1_000_000.0;

fn read(input: &Input<'_>, fields: &mut Fields<'_>, body: Body) -> Option<AgentDefinition> {
    let name = common::name(fields, Some(input.stem))?;
    let mode = fields.word(&["prompt_mode"], PromptMode::WORDS).unwrap_or(PromptMode::Append);
    let line = body.line;
    let mut it = common::begin(input, fields, name, body, mode)?;
    it.prompt.template = true;
    if let Err((at, error)) = prompt::check(&it.prompt.text, &input.known.variables) {
        fields.refuse_at(at.down(line - 1), "prompt", error.to_string());
    }
    common::check_prompt(&it, fields);
    it.aliases = common::aliases(fields);
    it.tools = common::tools(fields, &["tools"]);
    it.disallowed_tools = common::tools(fields, &["disallowed_tools"]);
    it.model = common::model(fields, &["model"]);
    it.effort = common::effort(fields, &["effort"]);
    it.permission_mode = fields.word(&["permission_mode"], PermissionMode::WORDS);
    it.permissions = permission::own(fields);
    it.sandbox = fields.word(&["sandbox"], Sandbox::WORDS);
    it.limits = limits(fields);
    it.provider = fields.text(&["provider"]);
    command(fields, &mut it);
    it.skills = skills(fields, &["skills"]);
    it.mcp_servers = common::servers(fields, &["mcp_servers"]);
    it.hooks = common::hooks(fields);
    it.memory = fields.given_word(&["memory"], MemoryScope::WORDS);
    it.background = fields.switch(&["background"]);
    it.isolation = fields.given_word(&["isolation"], Isolation::WORDS);
    it.context = context(fields);
    it.allowed_subagents = common::types(fields, &["allowed_subagents"]);
    it.max_depth = common::depth(fields, &["max_depth"]);
    it.visibility = fields.word(&["visibility"], Visibility::WORDS).unwrap_or(Visibility::Listed);
    it.locks = locks(fields);
    misspelt(fields);
    Some(it)
}

fn limits(fields: &mut Fields<'_>) -> Limits {
    Limits {
        max_turns: fields.count32(&["max_turns"]),
        grace_turns: fields.count32(&["grace_turns"]),
        max_tokens: fields.count(&["max_tokens"], MAX_TOKENS),
        max_cost_usd: fields.amount(&["max_cost_usd"], MAX_COST),
        max_tool_calls: fields.count32(&["max_tool_calls"]),
        timeout_ms: timeout(fields),
    }
}

fn timeout(fields: &mut Fields<'_>) -> Given<u64> {
    let Some(entry) = fields.take(&["timeout"]) else { return Given::Omitted };
    let told = match &entry.node.value {
        Value::Int(0) => return Given::Nothing,
        value if crate::fields::is_none(value) => return Given::Nothing,
        Value::Text(text) => duration_ms(text),
        Value::Int(number) => duration_ms(&number.to_string()),
        _ => Err(String::from("it must be a duration such as 90s, 10m or 1h30m")),
    };
    match told {
        Ok(0) => Given::Nothing,
        Ok(millis) => Given::Value(millis.min(MAX_DURATION_MS)),
        Err(message) => {
            fields.refuse(&entry, message);
            Given::Omitted
        }
    }
}

fn command(fields: &mut Fields<'_>, it: &mut AgentDefinition) {
    if let Some(entry) = fields.take(&["command"]) {
        match &entry.node.value {
            Value::List(items) if !items.is_empty() => {
                for item in items {
                    match &item.value {
                        Value::Text(word) if !word.contains('\0') => it.command.push(word.clone()),
                        _ => fields.refuse_at(item.at, entry.name(), "each part of it must be a text"),
                    }
                }
            }
            // No shell takes a text apart here, so where its words end would be a guess.
            _ => fields.wrong_kind(&entry, "a list: the program and its arguments"),
        }
        if it.command.first().is_some_and(|program| program.trim().is_empty()) {
            fields.refuse(&entry, "the program has no name");
        }
    }
    let exec = it.provider.as_deref() == Some("exec");
    if exec && it.command.is_empty() && !fields.failed() {
        fields.refuse_missing("command", "provider `exec` runs the program that it names");
    }
    if !exec && !it.command.is_empty() {
        fields.refuse_about(&["command"], "only provider `exec` runs a program that is named");
    }
}

pub(super) fn skills(fields: &mut Fields<'_>, names: &[&str]) -> Given<Skills> {
    let Some(entry) = fields.take(names) else { return Given::Omitted };
    match &entry.node.value {
        Value::Bool(true) => Given::Value(Skills::All),
        Value::Bool(false) => Given::Nothing,
        _ => fields.words_of(&entry).map(|skills| match skills.as_slice() {
            [only] if only == "*" || only.eq_ignore_ascii_case("all") => Skills::All,
            _ => Skills::Only(skills),
        }),
    }
}

fn context(fields: &mut Fields<'_>) -> ContextOptions {
    let Some(mut table) = fields.table(&["context"]) else { return ContextOptions::default() };
    let context = ContextOptions {
        instructions: table.switch(&["instructions"]),
        start: table.word(&["start"], ContextStart::WORDS),
        initial_prompt: table.given_text(&["initial_prompt"]),
        compact_at: table.count(&["compact_at"], MAX_TOKENS),
    };
    permission::strict(&mut table);
    fields.absorb(table);
    context
}

fn locks(fields: &mut Fields<'_>) -> BTreeSet<Field> {
    let mut locks = BTreeSet::new();
    let lockable = || Field::ALL.iter().copied().filter(|field| !field.only_narrows());
    for word in fields.words(&["locks"]).value().into_iter().flatten() {
        if word == "*" || word.eq_ignore_ascii_case("all") {
            locks.extend(lockable());
            continue;
        }
        let canonical = crate::fields::canonical(word);
        match Field::ALL.iter().find(|field| field.as_str() == canonical) {
            Some(field) if field.only_narrows() => {
                let message = format!("`{field}` needs no lock: a call can only narrow it");
                fields.refuse_about(&["locks"], message);
            }
            Some(field) => {
                locks.insert(*field);
            }
            None => {
                let message = format!("{word:?} cannot be locked; these can: {}, or all", join(lockable()));
                fields.refuse_about(&["locks"], message);
            }
        }
    }
    locks
}

/// Refuses keys that were meant to be a bound.
fn misspelt(fields: &mut Fields<'_>) {
    for (name, spelled, at) in fields.left() {
        let meant = nearest(&name, BOUNDS.iter().copied());
        if meant.is_none() && !name.starts_with("max_") && !name.starts_with("limit") {
            continue;
        }
        let hint = meant.map_or_else(
            || format!("the limits are {}", join(BOUNDS.iter().filter(|key| key.starts_with("max_")))),
            |meant| format!("did you mean `{meant}`?"),
        );
        fields.refuse_at(at, &spelled, format!("there is no such limit ({hint})"));
    }
}
