//! Rules of permission, in our words and in those of opencode.

use subagent_model::{Permissions, PolicyRule, PolicyWord};

use crate::fields::{Entry, Fields};
use crate::given::Given;
use crate::raw::Value;
use crate::tools::ToolList;
use crate::words::duration_ms;

const WORDS: &[(&str, PolicyWord)] =
    &[("allow", PolicyWord::Allow), ("ask", PolicyWord::Ask), ("deny", PolicyWord::Deny)];

/// The table of our own files.
pub(crate) fn own(fields: &mut Fields<'_>) -> Option<Permissions> {
    let mut table = fields.table(&["permissions"])?;
    let mut permissions = Permissions {
        otherwise: table.word(&["otherwise"], WORDS).unwrap_or_default(),
        unattended: table.switch(&["unattended"]).unwrap_or_default(),
        ..Permissions::default()
    };
    if let Some(text) = table.text(&["expire"]) {
        match duration_ms(&text) {
            Ok(expire) => permissions.expire_ms = Some(expire),
            Err(message) => table.refuse_about(&["expire"], message),
        }
    }
    if let Some(entry) = table.take(&["rules"]) {
        match entry.node.value.clone() {
            Value::List(items) => {
                for item in items {
                    let mut rule = Fields::of(table.path(), "permissions.rules.", item);
                    let action = rule.text(&["action"]);
                    let matches = rule.text(&["matches"]);
                    match rule.word(&["say"], WORDS) {
                        Some(say) => permissions.rules.push(PolicyRule { action, matches, say }),
                        None if rule.failed() => {}
                        None => rule.refuse_missing("say", "allow, ask or deny"),
                    }
                    strict(&mut rule);
                    table.absorb(rule);
                }
            }
            Value::Null => {}
            _ => table.wrong_kind(&entry, "a list of rules"),
        }
    }
    strict(&mut table);
    fields.absorb(table);
    Some(permissions)
}

/// Refuses what nobody took: a misspelt rule is never silently no rule.
pub(crate) fn strict(fields: &mut Fields<'_>) {
    for (_, spelled, at) in fields.left() {
        fields.refuse_at(at, &spelled, "there is no such field");
    }
}

/// What opencode's `permission` and its older `tools` say.
#[derive(Debug, Default)]
pub(crate) struct Opencode {
    pub(crate) tools: Given<ToolList>,
    pub(crate) denied: Vec<String>,
    pub(crate) permissions: Option<Permissions>,
    pub(crate) subagents: Given<Vec<String>>,
}

/// Reads both. In opencode the last rule that fits counts, so the order is turned around.
pub(crate) fn opencode(fields: &mut Fields<'_>) -> Opencode {
    let mut it = Opencode::default();
    if let Some(entry) = fields.take(&["tools"]) {
        switches(fields, &entry, &mut it);
    }
    let Some(entry) = fields.take(&["permission"]) else { return it };
    let mut rules: Vec<PolicyRule> = Vec::new();
    match entry.node.value.clone() {
        Value::Text(_) => {
            if let Some(say) = fields.word_of(&entry, WORDS) {
                rules.push(PolicyRule { action: None, matches: None, say });
            }
        }
        Value::Map(entries) => {
            for (key, node) in entries {
                let action = (key.text != "*").then(|| key.text.clone());
                let one = Entry::made(&format!("{}.{}", entry.name(), key.text), node.clone());
                let Value::Map(patterns) = node.value else {
                    let Some(say) = fields.word_of(&one, WORDS) else { continue };
                    match (key.text.as_str(), say) {
                        ("task", PolicyWord::Deny) => it.subagents = Given::Nothing,
                        ("task" | "*", _) => {}
                        (tool, PolicyWord::Deny) => it.denied.push(tool.to_owned()),
                        _ => {}
                    }
                    rules.push(PolicyRule { action, matches: None, say });
                    continue;
                };
                let mut types: Vec<String> = Vec::new();
                let mut closed = false;
                for (pattern, node) in patterns {
                    let one = Entry::made(&format!("{}.{}.{}", entry.name(), key.text, pattern.text), node);
                    let Some(say) = fields.word_of(&one, WORDS) else { continue };
                    match (pattern.text.as_str(), say) {
                        ("*", PolicyWord::Deny) => closed = true,
                        (name, PolicyWord::Allow | PolicyWord::Ask) => types.push(name.to_owned()),
                        _ => {}
                    }
                    rules.push(PolicyRule { action: action.clone(), matches: Some(pattern.text), say });
                }
                if key.text == "task" && closed {
                    it.subagents = if types.is_empty() { Given::Nothing } else { Given::Value(types) };
                }
            }
        }
        Value::Null => {}
        _ => fields.wrong_kind(&entry, "allow, ask, deny, or a table of them"),
    }
    rules.reverse();
    if !rules.is_empty() {
        it.permissions = Some(Permissions { rules, ..Permissions::default() });
    }
    it
}

/// `tools: {write: false}`: everything is there but what is switched off; with `"*": false`, nothing but what is
/// switched on.
fn switches(fields: &mut Fields<'_>, entry: &Entry, it: &mut Opencode) {
    let Value::Map(entries) = entry.node.value.clone() else {
        it.tools = fields.words_of(entry).map(ToolList::new);
        return;
    };
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for (key, node) in entries {
        match node.value {
            Value::Bool(true) => on.push(key.text),
            Value::Bool(false) => off.push(key.text),
            _ => {
                let one = Entry::made(&format!("{}.{}", entry.name(), key.text), node);
                fields.wrong_kind(&one, "true or false");
            }
        }
    }
    if off.iter().any(|tool| tool == "*") {
        off.retain(|tool| tool != "*");
        it.tools = if on.is_empty() { Given::Nothing } else { Given::Value(ToolList::new(on)) };
    }
    it.denied.append(&mut off);
}
