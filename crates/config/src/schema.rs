//! The header of our own files, described for editors.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde_json::{Value, json};

use crate::words::{ContextStart, Isolation, MemoryScope, PermissionMode, PromptMode, Sandbox, Visibility};

/// The JSON Schema of the header of `.subagent/agents/*.md`.
pub fn agent_file() -> Schema {
    let mut schema = schema_for!(AgentFile);
    for key in NEVER_EMPTY {
        if let Some(field) = schema.pointer_mut(&format!("/properties/{key}")) {
            without_null(field);
        }
    }
    for key in OR_NONE {
        if let Some(Value::Array(any)) = schema.pointer_mut(&format!("/properties/{key}/anyOf")) {
            any.push(json!({"const": "none"}));
        }
    }
    schema
}

/// Fields in which an empty one has no meaning.
const NEVER_EMPTY: &[&str] = &[
    "name",
    "display_name",
    "description",
    "prompt_mode",
    "permission_mode",
    "sandbox",
    "provider",
    "command",
    "background",
    "max_depth",
    "visibility",
];

/// Fields of words that may be `none` as well.
const OR_NONE: &[&str] = &["memory", "isolation"];

/// Takes out that a field may be null.
fn without_null(field: &mut Value) {
    let Value::Object(field) = field else { return };
    if let Some(Value::Array(kinds)) = field.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            field.insert(String::from("type"), only);
        }
    }
    if let Some(Value::Array(any)) = field.get_mut("anyOf") {
        any.retain(|one| one.get("type") != Some(&json!("null")));
    }
}

/// The header of an agent definition file of subagent. An empty field and the word `none` say that there is none; a field
/// that is left out is decided by the call or the default.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Agent definition of subagent")]
struct AgentFile {
    /// Name of the type; that of the file when absent.
    #[schemars(length(min = 1, max = 64))]
    name: Option<String>,
    /// Name for people.
    display_name: Option<String>,
    /// Other names that find it.
    aliases: Option<Words>,
    /// When to use this type.
    description: String,
    /// What the body does to the prompt that is there without it; `append` when absent.
    prompt_mode: Option<PromptMode>,
    /// Tools that it has: names, or patterns with `*`. All when absent, none when empty.
    tools: Option<Words>,
    /// Tools that are taken away, whatever `tools` says.
    disallowed_tools: Option<Words>,
    /// Model: its name or a part of it, or `inherit` for that of the parent.
    model: Option<String>,
    /// How much it thinks.
    effort: Option<EffortWord>,
    /// What it may do without asking.
    permission_mode: Option<PermissionMode>,
    /// Rules of permission.
    permissions: Option<PermissionTable>,
    /// What the operating system lets it do.
    sandbox: Option<Sandbox>,
    /// Turns of the model. 0 and `none`: without limit.
    max_turns: Option<Count>,
    /// Turns that it may use after it was asked to wrap up.
    grace_turns: Option<Count>,
    /// Tokens.
    max_tokens: Option<Count>,
    /// Money in US dollars.
    max_cost_usd: Option<Amount>,
    /// Tool calls.
    max_tool_calls: Option<Count>,
    /// Wall clock of one run: `90s`, `10m`, `1h30m`.
    timeout: Option<String>,
    /// How it is driven.
    provider: Option<String>,
    /// Program and arguments, for provider `exec`.
    #[schemars(length(min = 1))]
    command: Option<Vec<String>>,
    /// Skills that it has from the beginning; true for all.
    skills: Option<SkillWords>,
    /// Servers of the Model Context Protocol: names, or a table of servers.
    mcp_servers: Option<Servers>,
    /// Hooks.
    hooks: Option<BTreeMap<String, Value>>,
    /// Where it keeps its memory.
    memory: Option<MemoryScope>,
    /// Whether the caller goes on at once.
    background: Option<bool>,
    /// How its files are kept apart.
    isolation: Option<Isolation>,
    /// With what it begins.
    context: Option<ContextTable>,
    /// Types that it may spawn. Any when absent, none when empty.
    allowed_subagents: Option<Words>,
    /// How deep the tree below it may become.
    #[schemars(range(max = 64))]
    max_depth: Option<u32>,
    /// Whether it is offered; `listed` when absent.
    visibility: Option<Visibility>,
    /// Fields that a call cannot change.
    locks: Option<Locks>,
}

/// A list, or a text with commas.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is never made: it describes")]
enum Words {
    List(Vec<String>),
    Text(String),
}

/// A list, a text with commas, or all or none.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is never made: it describes")]
enum SkillWords {
    All(bool),
    List(Vec<String>),
    Text(String),
}

/// A whole number, or `none`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is never made: it describes")]
enum Count {
    Number(u64),
    None(NoneWord),
}

/// A number, or `none`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is never made: it describes")]
enum Amount {
    Number(f64),
    None(NoneWord),
}

/// The word for nothing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it is never made: it describes")]
enum NoneWord {
    None,
}

/// A word, or a number in the measure of the provider.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is never made: it describes")]
enum EffortWord {
    Word(EffortName),
    Number(u32),
}

/// How much it thinks.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it is never made: it describes")]
enum EffortName {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

/// Names, or how each server is reached, or a list of both.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is never made: it describes")]
enum Servers {
    Table(BTreeMap<String, Value>),
    List(Vec<Value>),
    Text(String),
}

/// Rules of permission. The first that fits counts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PermissionTable {
    /// What is said where no rule fits; `ask` when absent.
    otherwise: Option<subagent_model::PolicyWord>,
    /// Rules.
    rules: Option<Vec<subagent_model::PolicyRule>>,
    /// Nobody can answer: what would be asked is denied at once.
    unattended: Option<bool>,
    /// How long a request waits for an answer: `15m`.
    expire: Option<String>,
}

/// With what it begins.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ContextTable {
    /// Whether the instruction files of the project enter its prompt.
    instructions: Option<bool>,
    /// With its task alone, or with the conversation of its parent.
    start: Option<ContextStart>,
    /// What is put before the task.
    initial_prompt: Option<String>,
    /// The size of the window, in tokens, at which it shortens its conversation.
    compact_at: Option<Count>,
}

/// `all`, or a list of fields.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is never made: it describes")]
enum Locks {
    List(Vec<LockWord>),
    Text(String),
}

/// A field that can be locked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it is never made: it describes")]
enum LockWord {
    Model,
    Effort,
    MaxTurns,
    GraceTurns,
    MaxTokens,
    MaxCostUsd,
    MaxToolCalls,
    Timeout,
    Provider,
    Skills,
    Memory,
    Background,
    Isolation,
    Context,
    All,
}

#[cfg(test)]
mod tests {
    use super::agent_file;
    use crate::definition::Field;
    use crate::dialect::OWN_KEYS;

    #[test]
    fn the_schema_has_the_keys_of_the_loader() {
        let schema = agent_file();
        let properties = schema.get("properties").and_then(|it| it.as_object()).unwrap();
        let mut described: Vec<_> = properties.keys().map(String::as_str).collect();
        let mut known = OWN_KEYS.to_vec();
        described.sort_unstable();
        known.sort_unstable();
        assert_eq!(described, known);
        assert_eq!(schema.get("required").unwrap(), &serde_json::json!(["description"]));
    }

    #[test]
    fn the_schema_has_the_fields_that_can_be_locked() {
        let schema = agent_file();
        let words = schema.pointer("/$defs/LockWord/enum").unwrap().as_array().unwrap();
        let mut words: Vec<_> = words.iter().map(|word| word.as_str().unwrap()).collect();
        let mut fields: Vec<_> =
            Field::ALL.iter().filter(|field| !field.only_narrows()).map(|field| field.as_str()).collect();
        fields.push("all");
        words.sort_unstable();
        fields.sort_unstable();
        assert_eq!(words, fields);
    }
}
