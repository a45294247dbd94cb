//! From a conversation to a prompt, and from what the model wrote to an answer. Models of this size call no tools by themselves:
//! tools become one schema with a branch for each and one for a final answer, and what is written under it is turned back. Pure.

use serde_json::{Map, Value, json};

use crate::grammar::Machine;
use crate::schema;
use crate::wire::{ChatRequest, Message, Refused, Tool};

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A control token by its name.
    Control(&'static str),
    /// Text, whatever it looks like.
    Text(String),
}

/// How what the model writes is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As it is.
    Plain,
    /// As a call or an answer in JSON; whether the answer is JSON itself.
    Tools {
        /// Whether an answer is a value, not a text.
        structured: bool,
    },
}

/// What is asked of the model.
#[derive(Debug)]
pub struct Asked {
    /// The prompt.
    pub pieces: Vec<Piece>,
    /// What the answer has to follow.
    pub grammar: Option<Machine>,
    /// How to read it.
    pub reading: Reading,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A text.
    Text(String),
    /// A call: name, and arguments as JSON.
    Call(String, String),
}

/// What a request asks for, or why it cannot be asked.
pub fn ask(request: &ChatRequest) -> Result<Asked, Refused> {
    if request.messages.is_empty() {
        return Err(Refused::new(
            "invalid_messages",
            "`messages` is empty; send at least one message of the user",
        ));
    }
    if request.n.is_some_and(|count| count != 1) {
        return Err(Refused::new(
            "unsupported_n",
            "`n` other than 1 is not supported; send the request again instead",
        ));
    }
    let format = format(request)?;
    let tools = chosen(request)?;
    let (grammar, reading) = if tools.is_empty() {
        let grammar = format.as_ref().map(|schema| compile("response_format", schema)).transpose()?;
        (grammar, Reading::Plain)
    } else {
        let must = must_call(request);
        let schema = tool_schema(&tools, format.as_ref(), must);
        (Some(compile("tools", &schema)?), Reading::Tools { structured: format.is_some() })
    };
    Ok(Asked { pieces: prompt(request, &tools, format.as_ref())?, grammar, reading })
}

fn compile(what: &str, schema: &Value) -> Result<Machine, Refused> {
    schema::machine(schema)
        .map_err(|error| Refused::new("unsupported_schema", format!("the schema of `{what}`: {error}")))
}

fn format(request: &ChatRequest) -> Result<Option<Value>, Refused> {
    let Some(format) = request.response_format.as_ref().filter(|format| !format.is_null()) else {
        return Ok(None);
    };
    match format["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(json!({"type": "object"}))),
        Some("json_schema") => match format.pointer("/json_schema/schema") {
            Some(schema) => Ok(Some(schema.clone())),
            None => Err(Refused::new(
                "invalid_response_format",
                "`response_format.json_schema.schema` is missing",
            )),
        },
        _ => Err(Refused::new(
            "invalid_response_format",
            "`response_format.type` has to be text, json_object or json_schema",
        )),
    }
}

/// The tools that may be called.
fn chosen(request: &ChatRequest) -> Result<Vec<&Tool>, Refused> {
    let tools: Vec<&Tool> = request.tools.iter().flatten().collect();
    match request.tool_choice.as_ref() {
        None | Some(Value::Null) => Ok(tools),
        Some(Value::String(word)) => match word.as_str() {
            "none" => Ok(Vec::new()),
            "auto" => Ok(tools),
            "required" if !tools.is_empty() => Ok(tools),
            _ => Err(Refused::new(
                "invalid_tool_choice",
                "`tool_choice` has to be none, auto, or, with tools, required",
            )),
        },
        Some(choice) => {
            let name = choice.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
            let one: Vec<&Tool> = tools.into_iter().filter(|tool| tool.function.name == name).collect();
            if one.is_empty() {
                return Err(Refused::new(
                    "invalid_tool_choice",
                    format!("`tool_choice` names `{name}`, which is not among `tools`"),
                ));
            }
            Ok(one)
        }
    }
}

fn must_call(request: &ChatRequest) -> bool {
    match &request.tool_choice {
        Some(Value::String(word)) => word == "required",
        Some(Value::Object(_)) => true,
        _ => false,
    }
}

/// One branch for each tool, and one for the answer.
fn tool_schema(tools: &[&Tool], format: Option<&Value>, must: bool) -> Value {
    let mut branches = Vec::new();
    let mut definitions = Map::new();
    for tool in tools {
        let mut parameters = tool.function.parameters.clone().unwrap_or_else(|| json!({"type": "object"}));
        hoist(&tool.function.name, &mut parameters, &mut definitions);
        branches
            .push(json!({"type": "object", "required": ["tool", "arguments"], "additionalProperties": false,
            "properties": {"tool": {"const": tool.function.name}, "arguments": parameters}}));
    }
    if !must {
        let mut answer = format.cloned().unwrap_or_else(|| json!({"type": "string", "minLength": 1}));
        hoist("", &mut answer, &mut definitions);
        branches.push(json!({"type": "object", "required": ["answer"], "additionalProperties": false,
            "properties": {"answer": answer}}));
    }
    json!({"anyOf": branches, "$defs": definitions})
}

/// Definitions of a schema that becomes part of another one, moved so that `$ref` still leads to them.
fn hoist(owner: &str, schema: &mut Value, into: &mut Map<String, Value>) {
    let key = format!("{}:{owner}", into.len());
    let mut own = Map::new();
    for name in ["$defs", "definitions"] {
        if let Some(found) = schema.as_object_mut().and_then(|map| map.remove(name)) {
            own.insert(name.to_owned(), found);
        }
    }
    let mut own = Value::Object(own);
    let escaped = key.replace('~', "~0").replace('/', "~1");
    redirect(schema, &escaped);
    redirect(&mut own, &escaped);
    into.insert(key, own);
}

fn redirect(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if name == "$ref"
                    && let Value::String(target) = value
                    && let Some(rest) = target.strip_prefix("#/")
                {
                    *target = format!("#/$defs/{key}/{rest}");
                } else {
                    redirect(value, key);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, key)),
        _ => {}
    }
}

/// `ChatML`, which all the models in question were taught. What is said of tools comes first, so that it is computed once.
fn prompt(request: &ChatRequest, tools: &[&Tool], format: Option<&Value>) -> Result<Vec<Piece>, Refused> {
    let mut system = String::new();
    for message in request.messages.iter().take_while(|message| is_system(message)) {
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        system.push_str(&text(&message.content)?);
    }
    if system.is_empty() {
        system.push_str("You are a helpful assistant.");
    }
    if !tools.is_empty() {
        system.push_str("\n\nYou can use these tools:\n");
        for Tool { function } in tools {
            let parameters = function.parameters.as_ref().map(Value::to_string).unwrap_or_default();
            let description = &function.description;
            system.push_str(&format!("- {}: {description} Arguments: {parameters}\n", function.name));
        }
        system.push_str(
            "To use a tool, reply with JSON only: {\"tool\": \"NAME\", \"arguments\": {...}}\n\
             When you have what you need, reply: {\"answer\": \"...\"}",
        );
    }
    if let Some(schema) = format {
        system.push_str(&format!("\n\nThe answer is JSON that follows this schema: {schema}"));
    }
    let mut pieces = Vec::new();
    say(&mut pieces, "system", system);
    for message in request.messages.iter().skip_while(|message| is_system(message)) {
        let (role, words) = spoken(message, !tools.is_empty())?;
        say(&mut pieces, role, words);
    }
    pieces.push(Piece::Control("<|im_start|>"));
    pieces.push(Piece::Text("assistant\n".to_owned()));
    Ok(pieces)
}

fn is_system(message: &Message) -> bool {
    matches!(message.role.as_str(), "system" | "developer")
}

/// Who says what, in the words of the model.
fn spoken(message: &Message, with_tools: bool) -> Result<(&'static str, String), Refused> {
    match message.role.as_str() {
        "system" | "developer" => Ok(("system", text(&message.content)?)),
        "user" => Ok(("user", text(&message.content)?)),
        "tool" => Ok(("user", format!("Result of the tool:\n{}", text(&message.content)?))),
        "assistant" => {
            let calls = message.tool_calls.iter().flatten().map(|call| {
                let arguments = serde_json::from_str(&call.function.arguments);
                json!({"tool": call.function.name, "arguments": arguments.unwrap_or(Value::Null)}).to_string()
            });
            let calls: Vec<String> = calls.collect();
            let said = text(&message.content)?;
            // In the form it has to keep to, or the model follows its own history and not the rule.
            let words = match (calls.is_empty(), with_tools) {
                (false, _) => calls.join("\n"),
                (true, true) => json!({"answer": said}).to_string(),
                (true, false) => said,
            };
            Ok(("assistant", words))
        }
        other => Err(Refused::new(
            "invalid_messages",
            format!("the role `{other}` is not known; use system, user, assistant or tool"),
        )),
    }
}

fn say(pieces: &mut Vec<Piece>, role: &str, words: String) {
    pieces.push(Piece::Control("<|im_start|>"));
    pieces.push(Piece::Text(format!("{role}\n{words}")));
    pieces.push(Piece::Control("<|im_end|>"));
    pieces.push(Piece::Text("\n".to_owned()));
}

fn text(content: &Value) -> Result<String, Refused> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let mut all = String::new();
            for part in parts {
                let Some(text) = part["text"].as_str() else {
                    return Err(Refused::new(
                        "unsupported_content",
                        "only parts of type text are supported in `content`",
                    ));
                };
                all.push_str(text);
            }
            Ok(all)
        }
        _ => Err(Refused::new("invalid_messages", "`content` is neither a text nor a list of parts")),
    }
}

/// What was written, read back. `None` where it was cut off before it meant anything.
pub fn read(reading: Reading, written: &str) -> Option<Answer> {
    let Reading::Tools { structured } = reading else { return Some(Answer::Text(written.to_owned())) };
    let value: Value = serde_json::from_str(written).ok()?;
    if let Some(name) = value["tool"].as_str() {
        return Some(Answer::Call(name.to_owned(), value["arguments"].to_string()));
    }
    let answer = value.get("answer")?;
    Some(Answer::Text(match answer.as_str() {
        Some(text) if !structured => text.to_owned(),
        _ => answer.to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(value: Value) -> ChatRequest {
        serde_json::from_value(value).unwrap()
    }

    fn with_tools(choice: &Value) -> ChatRequest {
        request(json!({"messages": [{"role": "user", "content": "go"}], "tool_choice": choice, "tools": [
            {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "required": ["path"],
                "properties": {"path": {"$ref": "#/$defs/p/x"}}, "$defs": {"p/x": {"type": "string"}, "p": {"x": {"type": "string"}}}}}},
            {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]}))
    }

    #[test]
    fn tools_become_a_grammar_and_come_back() {
        let fits = |choice: Value, written: &str| {
            let grammar = ask(&with_tools(&choice)).unwrap().grammar.unwrap();
            grammar.after(written.as_bytes()).is_some_and(|after| after.may_end())
        };
        let (call, answer) = (r#"{"tool": "read", "arguments": {"path": "a"}}"#, r#"{"answer": "b"}"#);
        assert!(fits(json!("auto"), call) && fits(json!("auto"), answer));
        assert!(fits(json!("required"), call) && !fits(json!("required"), answer));
        let one = json!({"type": "function", "function": {"name": "ls"}});
        assert!(!fits(one.clone(), call) && fits(one, r#"{"tool":"ls","arguments":{}}"#));
        let tools = Reading::Tools { structured: false };
        assert_eq!(read(tools, call), Some(Answer::Call("read".into(), r#"{"path":"a"}"#.into())));
        assert_eq!(read(tools, answer), Some(Answer::Text("b".into())));
        assert_eq!(read(tools, r#"{"answer": "b"#), None);
    }

    #[test]
    fn words_of_a_user_are_never_control_tokens() {
        let asked = ask(&request(json!({"messages": [{"role": "user", "content": "<|im_end|>"}]}))).unwrap();
        assert!(asked.pieces.contains(&Piece::Text("user\n<|im_end|>".into())));
        let controls = asked.pieces.iter().filter(|piece| **piece == Piece::Control("<|im_end|>")).count();
        assert_eq!(controls, 2, "of the system and of the user");
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let user = json!([{"role": "user", "content": "x"}]);
        for (body, code) in [
            (json!({"messages": []}), "invalid_messages"),
            (json!({"messages": [{"role": "clown", "content": "x"}]}), "invalid_messages"),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
                "unsupported_content",
            ),
            (json!({"messages": user, "n": 2}), "unsupported_n"),
            (json!({"messages": user, "tool_choice": "required"}), "invalid_tool_choice"),
            (json!({"messages": user, "response_format": {"type": "grammar"}}), "invalid_response_format"),
            (
                json!({"messages": user, "response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}}),
                "unsupported_schema",
            ),
        ] {
            assert_eq!(ask(&request(body)).unwrap_err().code, code);
        }
    }
}
