//! What a thread does, item by item. Items of kinds that are not known are ignored.

use serde_json::Value;
use subagent_provider::{PlanState, PlanStep, Said};

use crate::bounds::{DETAIL_BYTES, MOST_OPTIONS, NAME_BYTES, TITLE_BYTES, as_text, cut};

/// A message of the model.
pub(super) struct Spoken<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    pub(super) phase: Phase,
}

/// What a message is for. Phases are set inconsistently: one that is absent or not known is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The answer.
    Final,
    /// The answer, where no other is called so.
    Plain,
    /// On the way: never the answer.
    Commentary,
}

/// Reads an item as a message of the model.
pub(super) fn text(item: &Value) -> Option<Spoken<'_>> {
    if item["type"] != "agentMessage" {
        return None;
    }
    let phase = match item["phase"].as_str() {
        Some("final_answer") => Phase::Final,
        Some("commentary" | "partial_answer") => Phase::Commentary,
        _ => Phase::Plain,
    };
    Some(Spoken { id: item["id"].as_str()?, text: item["text"].as_str()?, phase })
}

/// Whether an item is a message to the model.
pub(super) fn is_of_user(item: &Value) -> bool {
    item["type"] == "userMessage"
}

/// The paths of a change of files.
pub(super) fn changes(item: &Value) -> Option<(&str, Vec<String>)> {
    if item["type"] != "fileChange" {
        return None;
    }
    let paths = item["changes"].as_array()?.iter().filter_map(|change| {
        let path = change["path"].as_str()?;
        Some(match change["kind"]["type"].as_str() {
            Some("update") => match change["kind"]["move_path"].as_str() {
                Some(to) => format!("{path} -> {to}"),
                None => path.to_owned(),
            },
            Some(kind) => format!("{kind} {path}"),
            None => path.to_owned(),
        })
    });
    Some((item["id"].as_str()?, paths.collect()))
}

/// A call of a tool: its name and what it was given.
fn call(item: &Value) -> Option<(String, Option<String>)> {
    let given = |field: &str| Some(&item[field]).filter(|value| !value.is_null()).map(as_text);
    let name = |field: &str| item[field].as_str().unwrap_or("?");
    Some(match item["type"].as_str()? {
        "commandExecution" => (String::from("shell"), given("command")),
        "fileChange" => (String::from("apply_patch"), given("changes")),
        "mcpToolCall" => (format!("mcp__{}__{}", name("server"), name("tool")), given("arguments")),
        "dynamicToolCall" => (name("tool").to_owned(), given("arguments")),
        "webSearch" => (String::from("web_search"), given("query")),
        "imageView" => (String::from("view_image"), given("path")),
        "imageGeneration" => (String::from("image_generation"), None),
        "sleep" => (String::from("sleep"), None),
        "collabAgentToolCall" => (name("tool").to_owned(), given("prompt")),
        _ => return None,
    })
}

/// The beginning of an item.
pub(super) fn started(item: &Value) -> Option<Said> {
    let (name, input) = call(item)?;
    let id = cut(item["id"].as_str()?, NAME_BYTES);
    Some(Said::ToolStarted { id, name: cut(&name, NAME_BYTES), input })
}

/// The end of an item.
pub(super) fn ended(item: &Value) -> Option<Said> {
    match item["type"].as_str()? {
        "reasoning" => {
            let parts = ["summary", "content"].into_iter().filter_map(|part| item[part].as_array());
            let text = parts.flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
            return (!text.trim().is_empty()).then_some(Said::Thought(text));
        }
        "plan" => return item["text"].as_str().map(|text| Said::Thought(text.to_owned())),
        "contextCompaction" => return Some(Said::Compacted),
        _ => {}
    }
    call(item)?;
    let output = ["aggregatedOutput", "result", "contentItems"]
        .into_iter()
        .find_map(|field| Some(&item[field]).filter(|value| !value.is_null()).map(as_text));
    let error = item["error"]["message"].as_str().map(str::to_owned);
    let failed = match (item["status"].as_str(), item["success"].as_bool()) {
        (Some("completed"), Some(false)) | (Some("failed" | "declined" | "interrupted"), _) => Some(true),
        (Some("completed"), _) => Some(false),
        _ => None,
    };
    Some(Said::ToolEnded { id: cut(item["id"].as_str()?, NAME_BYTES), failed, output: error.or(output) })
}

/// What it means to do.
pub(super) fn plan(params: &Value) -> Option<Said> {
    let steps = params["plan"].as_array()?.iter().take(8 * MOST_OPTIONS).filter_map(|step| {
        let state = match step["status"].as_str() {
            Some("completed") => PlanState::Done,
            Some("inProgress") => PlanState::Active,
            _ => PlanState::Pending,
        };
        Some(PlanStep { text: cut(step["step"].as_str()?, TITLE_BYTES), state })
    });
    Some(Said::Plan(steps.collect()))
}

/// A word for people, by its method.
pub(super) fn notice(method: &str, params: &Value) -> Option<String> {
    let text = match method {
        "warning" | "guardianWarning" => params["message"].as_str()?.to_owned(),
        "configWarning" | "deprecationNotice" => {
            let parts = [params["summary"].as_str(), params["details"].as_str()];
            parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
        }
        "mcpServer/startupStatus/updated" if params["status"] == "failed" => {
            let name = params["name"].as_str().unwrap_or("?");
            format!("the MCP server {name} did not start: {}", as_text(&params["error"]))
        }
        _ => return None,
    };
    Some(cut(&text, DETAIL_BYTES))
}
