//! One tool of a server, as it was announced, bounded.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::super::context::Context;
use super::super::{Kind, Output, Tool, text};
use super::server::Server;

/// The longest name that all endpoints take.
const MAX_NAME: usize = 64;
/// The most characters of a description.
const MAX_DESCRIPTION: usize = 2000;
/// The largest schema.
const MAX_SCHEMA: usize = 16 * 1024;

pub(super) struct McpTool {
    server: Arc<Server>,
    /// The name that the model knows.
    name: String,
    /// The name that the server knows.
    theirs: String,
    description: String,
    parameters: Value,
    kind: Kind,
}

impl McpTool {
    /// `None` with the reason when it cannot be offered.
    pub(super) fn new(server: &Arc<Server>, announced: &rmcp::model::Tool) -> Result<Self, String> {
        let theirs = announced.name.to_string();
        let usable = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
        let name = format!("mcp__{}__{}", server.name(), theirs.chars().map(usable).collect::<String>());
        if theirs.is_empty() || name.len() > MAX_NAME {
            return Err(format!("the tool {} has a name that no model takes", text::one_line(&theirs, 80)));
        }
        let schema = Value::Object(announced.input_schema.as_ref().clone());
        let is_object = schema.get("type").is_none_or(|kind| kind == "object");
        if !is_object || schema.to_string().len() > MAX_SCHEMA {
            return Err(format!(
                "the tool {} takes an input that no model can be told",
                text::one_line(&theirs, 80)
            ));
        }
        let parameters =
            if schema.get("type").is_some() { schema } else { json!({ "type": "object", "properties": {} }) };
        let description = announced.description.as_deref().unwrap_or_default();
        let description = clean(description, MAX_DESCRIPTION);
        // Hints of a stranger decide how a call is shown, and no right.
        let reads = announced.annotations.as_ref().and_then(|hints| hints.read_only_hint).unwrap_or(false);
        let kind = if reads { Kind::Fetch } else { Kind::Other };
        Ok(Self { server: Arc::clone(server), name, theirs, description, parameters, kind })
    }
}

/// A text of several lines without what is not seen.
fn clean(given: &str, max: usize) -> String {
    let cut: String = given.chars().take(max).collect();
    let mut lines: Vec<_> = cut.lines().map(|line| text::one_line(line, max)).collect();
    if given.chars().nth(max).is_some() {
        lines.push(String::from("[...]"));
    }
    lines.join("\n")
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters(&self) -> Value {
        self.parameters.clone()
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn title(&self, input: &Value) -> String {
        let first =
            input.as_object().and_then(|members| members.values().find_map(Value::as_str)).unwrap_or("");
        format!("{} {}: {first}", self.server.name(), self.theirs).trim_end_matches([' ', ':']).to_owned()
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            let arguments = match input {
                Value::Object(members) => members,
                Value::Null => Map::new(),
                Value::String(text) => match serde_json::from_str(&text) {
                    Ok(Value::Object(members)) => members,
                    _ => return Output::failed(format!("the input of {} must be an object", self.name)),
                },
                _ => return Output::failed(format!("the input of {} must be an object", self.name)),
            };
            self.server.call(&self.theirs, arguments, cx).await
        })
    }
}
