//! Fields that several dialects have, under whatever name.

use crate::definition::{AgentDefinition, McpServer, Prompt};
use crate::dialect::{Body, Input};
use crate::fields::{Fields, is_none, join};
use crate::given::Given;
use crate::name::AgentName;
use crate::raw::Value;
use crate::tools::ToolList;
use crate::words::{Effort, ModelChoice, PromptMode};

/// A name that has to be there, unless there is another one.
pub(crate) fn name(fields: &mut Fields<'_>, otherwise: Option<&str>) -> Option<AgentName> {
    match fields.text(&["name"]) {
        Some(name) => checked(fields, &name),
        None if fields.failed() => None,
        None if otherwise.is_none() => {
            fields.refuse_missing("name", "");
            None
        }
        None => checked(fields, otherwise?),
    }
}

fn checked(fields: &mut Fields<'_>, name: &str) -> Option<AgentName> {
    match AgentName::new(name) {
        Ok(name) => Some(name),
        Err(error) => {
            fields.refuse_about(&["name"], error.to_string());
            None
        }
    }
}

/// A definition with what every one has. A missing description is refused.
pub(crate) fn begin(
    input: &Input<'_>,
    fields: &mut Fields<'_>,
    name: AgentName,
    body: Body,
    mode: PromptMode,
) -> Option<AgentDefinition> {
    let Some(description) = fields.text(&["description"]) else {
        if !fields.failed() {
            fields.refuse_missing("description", "it says when to use this type");
        }
        return None;
    };
    let prompt = Prompt { text: body.text, mode, template: false };
    let mut definition = AgentDefinition::new(name, description, prompt, input.source.clone());
    definition.display_name = fields.text(&["display_name"]);
    Some(definition)
}

/// A prompt that replaces everything has to say something.
pub(crate) fn check_prompt(definition: &AgentDefinition, fields: &mut Fields<'_>) {
    if definition.prompt.mode == PromptMode::Replace && definition.prompt.text.trim().is_empty() {
        fields.refuse_missing("prompt", "it takes the place of every other prompt, and is empty");
    }
}

/// Other names.
pub(crate) fn aliases(fields: &mut Fields<'_>) -> Vec<AgentName> {
    let mut aliases = Vec::new();
    for alias in fields.words(&["aliases"]).value().into_iter().flatten() {
        match AgentName::new(alias) {
            Ok(alias) => aliases.push(alias),
            Err(error) => fields.refuse_about(&["aliases"], format!("{alias:?}: {error}")),
        }
    }
    aliases
}

/// Tools. The word `all` is a pattern for every tool.
pub(crate) fn tools(fields: &mut Fields<'_>, names: &[&str]) -> Given<ToolList> {
    fields.words(names).map(|tools| {
        ToolList::new(
            tools.into_iter().map(|tool| if tool.eq_ignore_ascii_case("all") { "*".into() } else { tool }),
        )
    })
}

/// Takes out of a list of tools which types may be spawned: `Agent(a, b)` is the tool `Agent` and two types.
pub(crate) fn spawns(tools: Given<ToolList>) -> (Given<ToolList>, Given<Vec<String>>) {
    let mut types: Given<Vec<String>> = Given::Omitted;
    let tools = tools.map(|list| {
        let plain = list.patterns().iter().map(|tool| {
            let Some((name @ ("Agent" | "Task"), rest)) = tool.split_once('(') else { return tool.clone() };
            let named = rest.trim_end_matches(')').split(',').map(str::trim);
            let named: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let mut all = types.value().cloned().unwrap_or_default();
            all.extend(named);
            types = if all.is_empty() { Given::Nothing } else { Given::Value(all) };
            name.to_owned()
        });
        ToolList::new(plain.collect::<Vec<_>>())
    });
    (tools, types)
}

/// A model.
pub(crate) fn model(fields: &mut Fields<'_>, names: &[&str]) -> Given<ModelChoice> {
    let model = fields.given_text(names);
    if let Given::Value(text) = &model
        && (text.len() > 200 || text.contains(|char: char| char.is_control()))
    {
        fields.refuse_about(names, "it is no name of a model");
    }
    model.map(|text| {
        if text.eq_ignore_ascii_case("inherit") { ModelChoice::Inherit } else { ModelChoice::Named(text) }
    })
}

/// An effort: a word, a number, or none.
pub(crate) fn effort(fields: &mut Fields<'_>, names: &[&str]) -> Given<Effort> {
    let Some(entry) = fields.take(names) else { return Given::Omitted };
    match &entry.node.value {
        value if is_none(value) => Given::Nothing,
        Value::Text(text) if text.trim().eq_ignore_ascii_case("off") => Given::Nothing,
        Value::Int(number) => match u32::try_from(*number) {
            Ok(0) => Given::Nothing,
            Ok(number) => Given::Value(Effort::Number(number)),
            Err(_) => {
                fields.wrong_kind(&entry, "a word or a number from 0");
                Given::Omitted
            }
        },
        Value::Text(_) => fields.word_of(&entry, Effort::WORDS).map_or(Given::Omitted, Given::Value),
        _ => {
            let words = join(Effort::WORDS.iter().map(|(word, _)| *word));
            fields.wrong_kind(&entry, &format!("one of {words}, none, or a whole number"));
            Given::Omitted
        }
    }
}

/// Servers: names, or a table of names with how each is reached, or a list of both.
pub(crate) fn servers(fields: &mut Fields<'_>, names: &[&str]) -> Given<Vec<McpServer>> {
    let Some(entry) = fields.take(names) else { return Given::Omitted };
    let mut servers: Vec<McpServer> = Vec::new();
    let items = match &entry.node.value {
        value if is_none(value) => return Given::Nothing,
        Value::List(items) => items.clone(),
        Value::Map(_) => vec![entry.node.clone()],
        Value::Text(_) => match fields.words_of(&entry) {
            Given::Value(names) => {
                let server = |name| McpServer { name, config: None };
                return Given::Value(names.into_iter().map(server).collect());
            }
            other => return other.map(|_| Vec::new()),
        },
        _ => {
            fields.wrong_kind(&entry, "a list of names, or a table of servers");
            return Given::Omitted;
        }
    };
    for item in items {
        match item.value {
            Value::Text(name) => servers.push(McpServer { name, config: None }),
            Value::Map(entries) => {
                for (key, node) in entries {
                    match node.value {
                        Value::Map(_) => {
                            servers.push(McpServer { name: key.text, config: Some(node.to_json()) });
                        }
                        Value::Null => servers.push(McpServer { name: key.text, config: None }),
                        _ => fields.refuse_at(
                            node.at,
                            entry.name(),
                            format!("how {:?} is reached must be a table, and is {}", key.text, node.kind()),
                        ),
                    }
                }
            }
            _ => fields.refuse_at(item.at, entry.name(), "an item must be a name, or a table of servers"),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for server in &servers {
        if server.name.trim().is_empty() || server.name.len() > 200 || server.name.contains(char::is_control)
        {
            fields.refuse(&entry, format!("{:?} is no name of a server", server.name));
        } else if !seen.insert(&server.name) {
            fields.refuse(&entry, format!("the server {:?} stands in it twice", server.name));
        }
    }
    if servers.is_empty() { Given::Nothing } else { Given::Value(servers) }
}

/// Hooks, which others read.
pub(crate) fn hooks(fields: &mut Fields<'_>) -> Given<serde_json::Value> {
    let Some(entry) = fields.take(&["hooks"]) else { return Given::Omitted };
    match &entry.node.value {
        value if is_none(value) => Given::Nothing,
        Value::Map(entries) if entries.is_empty() => Given::Nothing,
        Value::Map(_) => Given::Value(entry.node.to_json()),
        _ => {
            fields.wrong_kind(&entry, "a table of hooks");
            Given::Omitted
        }
    }
}

/// Types that may be spawned. The word `all`, and a star, are no bound.
pub(crate) fn types(fields: &mut Fields<'_>, names: &[&str]) -> Given<Vec<String>> {
    match fields.words(names) {
        Given::Value(types) if types.iter().any(|name| name == "*" || name.eq_ignore_ascii_case("all")) => {
            Given::Omitted
        }
        types => types,
    }
}

/// A depth, of which 0 is one.
pub(crate) fn depth(fields: &mut Fields<'_>, names: &[&str]) -> Option<u32> {
    const DEEPEST: i64 = 64;
    let entry = fields.take(names)?;
    match &entry.node.value {
        Value::Int(depth) if (0..=DEEPEST).contains(depth) => u32::try_from(*depth).ok(),
        _ => {
            fields.wrong_kind(&entry, &format!("a whole number from 0 to {DEEPEST}"));
            None
        }
    }
}
