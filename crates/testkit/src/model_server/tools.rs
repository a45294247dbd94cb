//! Picking the tool of an agent that does what a directive asks for, and filling in its arguments: every agent names
//! both its own way.

use serde_json::{Map, Value, json};

use super::answer::Call;
use super::conversation::{Conversation, Tool};

/// Names of tools that run a command, best first.
const SHELLS: &[&str] = &[
    "Bash",
    "bash",
    "shell",
    "exec_command",
    "shell_command",
    "local_shell",
    "run_shell_command",
    "developer__shell",
    "terminal",
    "execute_command",
    "run_terminal_command",
    "exec",
];
/// What is part of the name of other such tools.
const LIKE_SHELLS: &[&str] = &["shell", "bash", "exec_command", "terminal"];

/// Names of tools that write a file, best first.
const WRITERS: &[&str] = &[
    "Write",
    "write",
    "write_file",
    "create_file",
    "str_replace_based_edit_tool",
    "text_editor",
    "developer__text_editor",
    "write_to_file",
    "apply_patch",
];
/// What is part of the name of tools that write, and not files.
const WRITE_OTHERS: &[&str] = &["stdin", "todo", "memory"];

/// The call that runs a command, if there is a tool for it.
pub(super) fn shell(conversation: &Conversation, command: &str) -> Option<Call> {
    let tool = named(conversation, SHELLS).or_else(|| {
        conversation.tools.iter().find(|tool| {
            let name = tool.name.to_lowercase();
            LIKE_SHELLS.iter().any(|like| name.contains(like))
        })
    })?;
    let properties = tool.schema["properties"].as_object().cloned().unwrap_or_default();
    let key = ["command", "cmd", "script"].into_iter().find(|key| properties.contains_key(*key));
    let key = key.unwrap_or("command");
    let mut arguments = Map::new();
    let list = properties.get(key).is_some_and(|property| is(property, "array"));
    arguments.insert(key.into(), if list { json!(["bash", "-lc", command]) } else { json!(command) });
    if properties.contains_key("description") {
        arguments.insert("description".into(), json!("scripted"));
    }
    // How long the tool waits before it gives back what there is.
    if properties.contains_key("yield_time_ms") {
        arguments.insert("yield_time_ms".into(), json!(10_000));
    }
    Some(call(tool, arguments))
}

/// The call that writes a file: with a tool for that, or else in a shell.
pub(super) fn write(conversation: &Conversation, path: &str, text: &str) -> Option<Call> {
    let tool = named(conversation, WRITERS).or_else(|| {
        conversation.tools.iter().find(|tool| {
            let name = tool.name.to_lowercase();
            name.contains("write") && !WRITE_OTHERS.iter().any(|other| name.contains(other))
        })
    });
    let Some(tool) = tool else {
        return shell(conversation, &format!("printf %s {} > {}", quoted(text), quoted(path)));
    };
    if tool.name == "apply_patch" {
        let input = patch(path, text);
        let arguments = if tool.free { json!(input) } else { json!({"input": input}) };
        return Some(Call { name: tool.name.clone(), arguments, free: tool.free });
    }
    let properties = tool.schema["properties"].as_object().cloned().unwrap_or_default();
    let mut arguments = Map::new();
    for key in properties.keys() {
        let value = match key.as_str() {
            "file_path" | "filePath" | "path" | "absolute_path" | "filename" => path,
            "content" | "file_text" | "contents" | "text" => text,
            "command" if properties.contains_key("file_text") => "create",
            "command" => "write",
            _ => continue,
        };
        arguments.insert(key.clone(), json!(value));
    }
    Some(call(tool, arguments))
}

/// The call of a tool by its name, whether the request declares it or not.
pub(super) fn named_call(conversation: &Conversation, name: &str, arguments: Value) -> Call {
    let free = conversation.tool(name).map_or(arguments.is_string(), |tool| tool.free);
    Call { name: name.to_owned(), arguments, free }
}

/// The smallest value that a JSON Schema accepts, as far as a model is ever asked for one.
pub(super) fn smallest(schema: &Value) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[choice].get(0) {
            return smallest(first);
        }
    }
    if is(schema, "object") || schema.get("properties").is_some() {
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let required = schema["required"].as_array().cloned();
        let wanted = |name: &str| required.as_ref().is_none_or(|list| list.iter().any(|it| it == name));
        let filled = properties.iter().filter(|(name, _)| wanted(name));
        return filled.map(|(name, schema)| (name.clone(), smallest(schema))).collect::<Map<_, _>>().into();
    }
    if is(schema, "array") {
        let least = schema["minItems"].as_u64().unwrap_or(0);
        return (0..least).map(|_| smallest(&schema["items"])).collect::<Vec<_>>().into();
    }
    match () {
        () if is(schema, "boolean") => json!(false),
        () if is(schema, "integer") || is(schema, "number") => {
            schema.get("minimum").cloned().unwrap_or(json!(1))
        }
        () if is(schema, "null") => Value::Null,
        () => json!("x"),
    }
}

fn named<'a>(conversation: &'a Conversation, names: &[&str]) -> Option<&'a Tool> {
    names.iter().find_map(|name| conversation.tool(name))
}

/// A call with what else the tool insists on.
fn call(tool: &Tool, mut arguments: Map<String, Value>) -> Call {
    for name in tool.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !arguments.contains_key(name) {
            arguments.insert(name.to_owned(), smallest(&tool.schema["properties"][name]));
        }
    }
    Call { name: tool.name.clone(), arguments: arguments.into(), free: false }
}

/// Whether a schema is of this type; some write it in capitals, some write several.
fn is(schema: &Value, name: &str) -> bool {
    match &schema["type"] {
        Value::String(it) => it.eq_ignore_ascii_case(name),
        Value::Array(several) => several.first().is_some_and(|it| it == name),
        _ => false,
    }
}

fn patch(path: &str, text: &str) -> String {
    let lines: String = text.lines().flat_map(|line| ["+", line, "\n"]).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::super::conversation::Format;
    use super::*;

    fn with(tools: &[(&str, bool, Value)]) -> Conversation {
        let mut conversation = Conversation::new(Format::Chat, "m", true);
        for (name, free, schema) in tools {
            conversation.offer(name, *free, schema);
        }
        conversation
    }

    #[test]
    fn commands_as_text_and_as_list() {
        let list = json!({"properties": {"command": {"type": "array"}}});
        let found = shell(&with(&[("shell", false, list)]), "ls").unwrap();
        assert_eq!(found.arguments, json!({"command": ["bash", "-lc", "ls"]}));
        let text = json!({"properties": {"cmd": {"type": "string"}, "yield_time_ms": {"type": "number"}}});
        let found = shell(&with(&[("exec_command", false, text)]), "ls").unwrap();
        assert_eq!(found.arguments, json!({"cmd": "ls", "yield_time_ms": 10_000}));
    }

    #[test]
    fn what_is_required_is_filled_in() {
        let schema = json!({
            "properties": {"command": {"type": "string"}, "danger": {"type": "boolean"}, "n": {"type": "integer"},
                           "dir": {"type": ["string", "null"]}, "kind": {"enum": ["a", "b"]}},
            "required": ["command", "danger", "n", "dir", "kind"],
        });
        let found = shell(&with(&[("my_bash_tool", false, schema)]), "ls").unwrap();
        assert_eq!(
            found.arguments,
            json!({"command": "ls", "danger": false, "n": 1, "dir": "x", "kind": "a"})
        );
    }

    #[test]
    fn writing_by_whatever_there_is() {
        let schema = json!({"properties": {"filePath": {}, "content": {}}});
        let shell_too = ("bash", false, json!({"properties": {"command": {}}}));
        let found = write(&with(&[shell_too.clone(), ("write", false, schema)]), "a", "b").unwrap();
        assert_eq!(
            (found.name.as_str(), found.arguments),
            ("write", json!({"filePath": "a", "content": "b"}))
        );

        let found = write(&with(&[("apply_patch", true, Value::Null)]), "a", "b\nc").unwrap();
        assert!(found.free);
        assert_eq!(found.arguments, "*** Begin Patch\n*** Add File: a\n+b\n+c\n*** End Patch\n");

        let stdin = ("write_stdin", false, json!({}));
        let found = write(&with(&[stdin.clone(), shell_too]), "a", "it's").unwrap();
        assert_eq!(found.arguments, json!({"command": r"printf %s 'it'\''s' > 'a'"}));

        assert_eq!(write(&with(&[stdin]), "a", "b"), None);
    }

    #[test]
    fn small_values() {
        let schema = json!({"type": "OBJECT", "required": ["a", "c"], "properties": {
            "a": {"type": "array", "items": {"type": "string"}, "minItems": 1}, "b": {"type": "string"},
            "c": {"anyOf": [{"type": "object", "properties": {"d": {"const": 7}}}, {"type": "null"}]}}});
        assert_eq!(smallest(&schema), json!({"a": ["x"], "c": {"d": 7}}));
    }
}
