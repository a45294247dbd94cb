//! Calls of tools: announced, patched, ended. What was told of a call is remembered while its turn lasts, since a patch
//! has only what changed, and a request for a permission may name nothing but the call.

use std::collections::BTreeMap;

use serde_json::Value;
use subagent_provider::Said;

use super::bounds::{DETAIL_BYTES, NAME_BYTES, TITLE_BYTES, as_text, cut, list, name, text};

/// Most calls that are remembered.
const MOST_CALLS: usize = 128;

/// One call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Call {
    name: Option<String>,
    pub(super) title: Option<String>,
    pub(super) kind: Option<String>,
    input: Option<String>,
    /// What it does, in the words of its input: a command, a path, an address.
    action: Option<String>,
    output: Option<String>,
    raw_output: Option<String>,
    /// The output of its command, as it comes: codex-acp and others tell it so, beside the protocol.
    streamed: String,
    /// It was said that it is at work, with this name and input.
    said: Option<(String, Option<String>)>,
    /// It is done: what is told of it later changes nothing.
    ended: bool,
    /// In the order in which they came.
    at: u64,
}

/// The calls of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Calls {
    calls: BTreeMap<String, Call>,
    count: u64,
}

impl Calls {
    /// Nothing stays at work.
    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }

    /// Takes in what is told of a call; gives whether it is a new one, and what is to be said.
    pub(super) fn update(&mut self, update: &Value) -> (bool, Vec<Said>) {
        let Some(id) = name(update.get("toolCallId")) else { return (false, vec![]) };
        let call = self.learn(&id, update);
        if call.ended {
            return (false, vec![]);
        }
        let new = call.said.is_none();
        let mut said = Vec::new();
        let shown = (call.shown_name(), call.input.clone().or_else(|| call.title.clone()));
        if call.said.as_ref() != Some(&shown) {
            call.said = Some(shown.clone());
            let (name, input) = shown;
            said.push(Said::ToolStarted { id: id.clone(), name, input });
        }
        let failed = match update.get("status").and_then(Value::as_str) {
            Some("completed") => Some(false),
            Some("failed") => Some(true),
            _ => None,
        };
        if failed.is_some() {
            let streamed = Some(std::mem::take(&mut call.streamed)).filter(|text| !text.trim().is_empty());
            let output = call.output.take().or(streamed).or_else(|| call.raw_output.take());
            *call = Call { ended: true, at: call.at, ..Call::default() };
            said.push(Said::ToolEnded { id, failed, output });
        }
        (new, said)
    }

    /// Takes in what is told of a call, which is not at work for it yet.
    pub(super) fn learn(&mut self, id: &str, update: &Value) -> &mut Call {
        if self.calls.len() >= MOST_CALLS && !self.calls.contains_key(id) {
            let oldest = self.calls.iter().min_by_key(|(_, call)| call.at).map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                self.calls.remove(&oldest);
            }
        }
        self.count += 1;
        let at = self.count;
        let call = self.calls.entry(id.to_owned()).or_insert_with(|| Call { at, ..Call::default() });
        if !call.ended {
            call.learn(update);
        }
        call
    }
}

impl Call {
    /// What is told of a call by itself.
    pub(super) fn of(update: &Value) -> Self {
        let mut call = Self::default();
        call.learn(update);
        call
    }

    fn learn(&mut self, update: &Value) {
        let known = |field: &mut Option<String>, new: Option<String>| {
            if new.is_some() {
                *field = new;
            }
        };
        known(&mut self.name, text(update, "name", NAME_BYTES));
        known(&mut self.title, text(update, "title", TITLE_BYTES));
        known(&mut self.kind, text(update, "kind", NAME_BYTES));
        if let Some(input) = update.get("rawInput") {
            known(&mut self.input, as_text(input, DETAIL_BYTES));
        }
        let kind = self.kind.as_deref().unwrap_or_default();
        known(&mut self.action, action_of(kind, update));
        if let Some(output) = update.get("rawOutput") {
            known(&mut self.raw_output, as_text(output, DETAIL_BYTES));
        }
        known(&mut self.output, content_text(update.get("content"), DETAIL_BYTES));
        for field in ["terminal_output", "terminal_output_delta"] {
            let data = update.get("_meta").and_then(|meta| meta.get(field)?.get("data")?.as_str());
            let room = DETAIL_BYTES.saturating_sub(self.streamed.len());
            self.streamed.push_str(&cut(data.unwrap_or_default(), room));
        }
    }

    fn shown_name(&self) -> String {
        let kind = self.kind.clone().filter(|kind| kind != "other");
        let title = || self.title.as_deref().map(|title| cut(title, NAME_BYTES));
        self.name.clone().or(kind).or_else(title).unwrap_or_else(|| String::from("tool"))
    }

    /// The full action, as policies match it.
    pub(super) fn action(&self) -> String {
        let named = self.action.clone().or_else(|| self.title.clone()).or_else(|| self.name.clone());
        named.unwrap_or_else(|| String::from("an action without a name"))
    }

    /// More about it than its action: its title, what it would change, its input.
    pub(super) fn detail(&self) -> Option<String> {
        let action = self.action();
        let parts = [&self.title, &self.output, &self.input];
        let parts: Vec<_> = parts.into_iter().flatten().filter(|part| **part != action).cloned().collect();
        (!parts.is_empty()).then(|| cut(&parts.join("\n"), DETAIL_BYTES))
    }
}

/// The action of a call in the words of its input, where they can be found.
fn action_of(kind: &str, update: &Value) -> Option<String> {
    let input = update.get("rawInput").unwrap_or(&Value::Null);
    let first = |fields: &[&str]| fields.iter().find_map(|field| text(input, field, TITLE_BYTES));
    match kind {
        "execute" => {
            let words = list(input.get("command")).iter().filter_map(Value::as_str).collect::<Vec<_>>();
            if words.is_empty() {
                first(&["command", "cmd"])
            } else {
                Some(cut(&words.join(" "), TITLE_BYTES))
            }
        }
        "fetch" => first(&["url", "uri"]),
        "read" | "edit" | "delete" | "move" => {
            let place = list(update.get("locations")).first().and_then(|at| text(at, "path", TITLE_BYTES));
            first(&["file_path", "filePath", "path", "abs_path"]).or(place)
        }
        _ => None,
    }
}

/// The content of a call as a text: what it says and what it changes.
fn content_text(content: Option<&Value>, most: usize) -> Option<String> {
    let mut all = String::new();
    for part in list(content) {
        let part = match part.get("type").and_then(Value::as_str) {
            Some("content") => block_text(&part["content"]),
            Some("diff") => text(part, "path", TITLE_BYTES).map(|path| {
                let new = part.get("newText").and_then(Value::as_str).unwrap_or_default();
                format!("--- {path}\n{}", cut(new, most))
            }),
            _ => None,
        };
        if let Some(part) = part {
            if !all.is_empty() {
                all.push('\n');
            }
            all.push_str(&part);
        }
        if all.len() > most {
            break;
        }
    }
    (!all.trim().is_empty()).then(|| cut(&all, most))
}

/// A block of content as a text. None for a block without one.
pub(super) fn block_text(block: &Value) -> Option<String> {
    let field = |field: &str| block.get(field).and_then(Value::as_str);
    Some(match field("type")? {
        "text" => field("text")?.to_owned(),
        "resource_link" => format!("[{}]({})", field("name").unwrap_or("link"), field("uri")?),
        "resource" => block["resource"].get("text")?.as_str()?.to_owned(),
        kind @ ("image" | "audio") => {
            format!("[{kind}: {}]", field("mimeType").unwrap_or("of no known type"))
        }
        _ => return None,
    })
}
