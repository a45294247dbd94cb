//! What Claude Code asks: permissions for its tools, and questions to a person, which are the use of a tool for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use subagent_model::text::cut_at_boundary;
use subagent_model::{Answer, Ask, AskOption, Choice, Subject};

use super::frames::ToolAsk;
use super::orders::{Body, Permission, respond};

/// The tool by which it asks a person.
pub(super) const QUESTION: &str = "AskUserQuestion";

/// Most bytes of a title. It is what policies match, so a longer action says that it is longer.
const TITLE_BYTES: usize = 16 * 1024;
/// Most bytes of a detail and of a question.
const DETAIL_BYTES: usize = 16 * 1024;
/// Most bytes of an input that is kept until the answer. A larger one is not given back with a yes: it holds as it is.
const KEPT_BYTES: usize = 64 * 1024;
/// Most choices of a question.
const MOST_CHOICES: usize = 32;

/// A question that waits for its answer: what it was about, as far as the answer needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    tool: String,
    input: Option<String>,
}

impl Pending {
    /// The same question once more. What was too large to keep is never known to be the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.input.is_some() && self == other
    }
}

/// The question in our words, and what is kept of it.
pub(super) fn ask(key: &str, asked: &ToolAsk) -> (Ask, Pending) {
    let input = asked.input.get();
    let subject = question(asked).unwrap_or_else(|| approval(asked));
    let kept = (input.len() <= KEPT_BYTES).then(|| input.to_owned());
    (Ask { key: key.to_owned(), subject }, Pending { tool: asked.tool_name.clone(), input: kept })
}

/// The line that gives the answer.
pub(super) fn answer(
    key: &str,
    pending: Option<&Pending>,
    ask: &Ask,
    answer: &Answer,
    reason: Option<&str>,
) -> Vec<u8> {
    let input = pending.and_then(|pending| pending.input.as_deref());
    let updated = match (answer, &ask.subject) {
        (Answer::Choice { choice }, Subject::Approval { .. }) if choice.is_allow() => {
            Some(input.map(str::to_owned))
        }
        (Answer::Text { text }, Subject::Question { .. }) => {
            input.and_then(|input| answered(input, text)).map(Some)
        }
        _ => None,
    };
    if let Some(input) = updated {
        let input = input.and_then(|input| RawValue::from_string(input).ok());
        return respond(key, Body::Permission(Permission::Allow { updated_input: input.as_deref() }));
    }
    let nobody = matches!(answer, Answer::None);
    let otherwise = if nobody { "Nobody answers. Decide by yourself." } else { "This was denied." };
    deny(key, reason.unwrap_or(otherwise))
}

/// The line that says no.
pub(super) fn deny(key: &str, why: &str) -> Vec<u8> {
    respond(key, Body::Permission(Permission::Deny { message: why }))
}

fn approval(asked: &ToolAsk) -> Subject {
    let mut detail = String::new();
    let parts = [
        ("", &asked.description),
        ("asked by its subagent ", &asked.agent_id),
        ("outside of what it may touch: ", &asked.blocked_path),
        ("because: ", &asked.decision_reason),
    ];
    for (label, part) in parts {
        if let Some(part) = part {
            // Writing to a string cannot fail.
            let _ = writeln!(detail, "{label}{}", cut_at_boundary(part, DETAIL_BYTES / 8));
        }
    }
    let room = DETAIL_BYTES - detail.len();
    detail.push_str(cut_at_boundary(asked.input.get(), room));
    Subject::Approval {
        action: action(&asked.tool_name).to_owned(),
        title: title(&asked.tool_name, asked.input.get()),
        detail: Some(detail),
        options: [
            ("allow_once", "Yes", Choice::AllowOnce),
            ("allow_always", "Yes, and the same again", Choice::AllowAlways),
            ("deny_once", "No", Choice::DenyOnce),
        ]
        .into_iter()
        .map(|(id, name, kind)| AskOption { id: id.to_owned(), name: name.to_owned(), kind })
        .collect(),
    }
}

/// The kind of action that using a tool is.
fn action(tool: &str) -> &'static str {
    match tool {
        "Bash" | "PowerShell" | "BashOutput" | "KillShell" | "KillBash" | "Monitor" | "REPL" => "execute",
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => "edit",
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" | "LSP" => "read",
        "WebFetch" | "WebSearch" => "fetch",
        _ => "other",
    }
}

/// The whole action in one text: the command line, the path, the address.
pub(super) fn title(tool: &str, input: &str) -> String {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(input).unwrap_or_default();
    let field = |name: &str| -> Option<String> { serde_json::from_str(fields.get(name)?.get()).ok() };
    let known = match tool {
        "Bash" | "PowerShell" => field("command"),
        "Edit" | "MultiEdit" | "Write" | "Read" => field("file_path"),
        "NotebookEdit" | "NotebookRead" => field("notebook_path"),
        "LS" => field("path"),
        "Glob" | "Grep" => field("pattern").map(|pattern| match field("path") {
            Some(path) => format!("{pattern} in {path}"),
            None => pattern,
        }),
        "WebFetch" => field("url"),
        "WebSearch" => field("query"),
        _ => None,
    };
    bounded(known.unwrap_or_else(|| format!("{tool} {input}")))
}

/// A title that is too long names its length and its digest: a standing answer to it covers no other one.
fn bounded(title: String) -> String {
    if title.len() <= TITLE_BYTES {
        return title;
    }
    let digest = Sha256::digest(title.as_bytes());
    let digest = digest.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let mark = format!(" [... {} bytes in all, SHA-256 {digest}...]", title.len());
    format!("{}{mark}", cut_at_boundary(&title, TITLE_BYTES - mark.len()))
}

#[derive(Deserialize)]
struct Questions {
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    question: String,
    #[serde(default)]
    options: Vec<Offer>,
}

#[derive(Deserialize)]
struct Offer {
    label: String,
    #[serde(default)]
    description: String,
}

/// Questions come several at once, and one text answers them.
fn question(asked: &ToolAsk) -> Option<Subject> {
    if asked.tool_name != QUESTION {
        return None;
    }
    let Questions { questions } = serde_json::from_str(asked.input.get()).ok()?;
    let [first, rest @ ..] = questions.as_slice() else { return None };
    let mut text = String::new();
    for question in &questions {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", question.question);
        for offer in &question.options {
            let _ = writeln!(text, "- {}: {}", offer.label, offer.description);
        }
    }
    let choices = if rest.is_empty() { first.options.as_slice() } else { &[] };
    let choices = choices.iter().take(MOST_CHOICES);
    Some(Subject::Question {
        text: cut_at_boundary(text.trim_end(), DETAIL_BYTES).to_owned(),
        choices: choices.map(|offer| cut_at_boundary(&offer.label, DETAIL_BYTES / 8).to_owned()).collect(),
    })
}

/// The input of the question with its answer.
fn answered(input: &str, text: &str) -> Option<String> {
    let Questions { questions } = serde_json::from_str(input).ok()?;
    let mut input: serde_json::Map<String, serde_json::Value> = serde_json::from_str(input).ok()?;
    let answers: serde_json::Map<_, _> =
        questions.into_iter().map(|question| (question.question, text.into())).collect();
    input.insert(String::from("answers"), answers.into());
    serde_json::to_string(&input).ok()
}
