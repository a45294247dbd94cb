//! Requests of the app-server: each is answered. What people may decide goes to them; anything else is refused at once.
//!
//! A yes is for this time only: "for ever" is remembered by the supervisor, where it can be taken back. A no lets the turn
//! go on.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subagent_model::{Answer, Ask, AskOption, Choice, Subject};

use super::frames::{answer, refuse};
use super::shell::unwrapped;
use crate::bounds::{DETAIL_BYTES, MOST_ASKS, MOST_OPTIONS, NAME_BYTES, TITLE_BYTES, action, as_text, cut};

/// A method that is not known.
const NO_METHOD: i64 = -32_601;
/// Anything else that went wrong.
pub(super) const FAILED: i64 = -32_603;

/// Requests that wait for an answer, by their key.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Asks(BTreeMap<String, Open>);

#[derive(Debug, Clone, PartialEq)]
struct Open {
    thread: Option<String>,
    wants: Wants,
}

/// The form of the answer.
#[derive(Debug, Clone, PartialEq)]
enum Wants {
    Decision,
    /// The permissions that were asked for.
    Permissions(Value),
    /// The ids of the questions.
    Answers(Vec<String>),
    /// A yes or no to a server's request.
    Consent(Value),
    /// A form to fill in: the name of its only text, where it has just one.
    Form(Option<String>),
}

/// What becomes of a request.
pub(super) enum Asked {
    /// It waits for people.
    Ask(Ask),
    /// It was refused: the answer, and what people are told.
    Refused(Vec<u8>, String),
    /// It is known already.
    Known,
}

impl Asks {
    /// A request has come. `changes` tells what the change of an item is.
    pub(super) fn ask(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        changes: impl Fn(&str) -> Option<Vec<String>>,
    ) -> Asked {
        let key = id.to_string();
        if self.0.contains_key(&key) {
            return Asked::Known;
        }
        let Some((wants, subject)) = subject(method, params, changes) else {
            let message = format!("{} is not done here", cut(method, 100));
            return Asked::Refused(
                refuse(id, NO_METHOD, &message),
                format!("codex asked for something unknown: {message}"),
            );
        };
        if key.len() > NAME_BYTES || self.0.len() >= MOST_ASKS {
            let message = format!("more than {MOST_ASKS} requests are open");
            return Asked::Refused(
                refuse(id, FAILED, &message),
                format!("a request of codex was refused: {message}"),
            );
        }
        let thread = params["threadId"].as_str().map(|thread| cut(thread, NAME_BYTES));
        self.0.insert(key.clone(), Open { thread, wants });
        Asked::Ask(Ask { key, subject })
    }

    /// It no longer waits for this one. The key, where it did.
    pub(super) fn resolved(&mut self, id: &Value) -> Option<String> {
        let key = id.to_string();
        self.0.remove(&key).map(|_| key)
    }

    /// The turn of a thread is over, and nothing of it waits.
    pub(super) fn close(&mut self, thread: &str) {
        self.0.retain(|_, open| open.thread.as_deref() != Some(thread));
    }

    /// The answer to a request.
    pub(super) fn answer(&mut self, key: &str, given: &Answer) -> Result<Vec<u8>, String> {
        let open = self.0.get(key).ok_or("it no longer waits for this answer")?;
        let id: Value = serde_json::from_str(key).map_err(|error| error.to_string())?;
        let yes = matches!(given, Answer::Choice { choice } if choice.is_allow());
        let text = match given {
            Answer::Text { text } => Some(text),
            Answer::Choice { .. } | Answer::None => None,
        };
        let result = match &open.wants {
            Wants::Decision => json!({ "decision": if yes { "accept" } else { "decline" } }),
            Wants::Permissions(asked) => {
                json!({ "permissions": if yes { asked.clone() } else { json!({}) }, "scope": "turn" })
            }
            Wants::Answers(questions) => {
                let answers = questions
                    .iter()
                    .filter_map(|question| text.map(|text| (question.clone(), json!({ "answers": [text] }))));
                json!({ "answers": answers.collect::<serde_json::Map<_, _>>() })
            }
            Wants::Consent(content) if yes => elicited("accept", content),
            Wants::Form(field) => match text.and_then(|text| filled(field.as_deref(), text)) {
                Some(content) => elicited("accept", &content),
                None => elicited("decline", &Value::Null),
            },
            Wants::Consent(_) => elicited("decline", &Value::Null),
        };
        self.0.remove(key);
        Ok(answer(&id, &result))
    }
}

fn elicited(action: &str, content: &Value) -> Value {
    json!({ "action": action, "content": content, "_meta": null })
}

/// The content of a form: the only text of it, or an object that was given as JSON.
fn filled(field: Option<&str>, text: &str) -> Option<Value> {
    match field {
        Some(field) => Some(json!({ field: text })),
        None => serde_json::from_str(text).ok().filter(Value::is_object),
    }
}

fn subject(
    method: &str,
    params: &Value,
    changes: impl Fn(&str) -> Option<Vec<String>>,
) -> Option<(Wants, Subject)> {
    Some(match method {
        "item/commandExecution/requestApproval" => (Wants::Decision, command(params)),
        "item/fileChange/requestApproval" => {
            let paths = params["itemId"].as_str().and_then(changes).unwrap_or_default().join(", ");
            let root = params["grantRoot"].as_str().map(|root| format!("writes below {root} from now on"));
            let title = match (paths.is_empty(), root) {
                (_, Some(root)) => root,
                (false, None) => paths,
                (true, None) => String::from("change files"),
            };
            (Wants::Decision, approval("edit", &title, reason(params)))
        }
        "item/permissions/requestApproval" => {
            let asked = params["permissions"].clone();
            let subject = approval("permissions", &asked.to_string(), reason(params));
            (Wants::Permissions(granted(asked)), subject)
        }
        "item/tool/requestUserInput" => questions(params)?,
        "mcpServer/elicitation/request" => elicitation(params),
        _ => return None,
    })
}

/// What is granted has no place for what was not asked for.
fn granted(asked: Value) -> Value {
    match asked {
        Value::Object(parts) => parts.into_iter().filter(|(_, part)| !part.is_null()).collect(),
        _ => json!({}),
    }
}

fn command(params: &Value) -> Subject {
    let command = params["command"].as_str().map(unwrapped);
    let host = params["networkApprovalContext"]["host"].as_str();
    if let Some(host) = host {
        let protocol = params["networkApprovalContext"]["protocol"].as_str().unwrap_or("network");
        return approval("fetch", &format!("{protocol}://{host}"), command.or_else(|| reason(params)));
    }
    let place = params["cwd"].as_str().map(|cwd| format!("in {cwd}"));
    let detail = [reason(params), place].into_iter().flatten().collect::<Vec<_>>().join("\n");
    let action = if params["kind"] == "writeStdin" { "input" } else { "execute" };
    let title = command.unwrap_or_else(|| String::from("a command that is not told"));
    approval(action, &title, Some(detail))
}

fn reason(params: &Value) -> Option<String> {
    params["reason"].as_str().map(str::to_owned)
}

fn approval(action_kind: &str, title: &str, detail: Option<String>) -> Subject {
    let option = |id: &str, name: &str, kind| AskOption { id: id.to_owned(), name: name.to_owned(), kind };
    Subject::Approval {
        action: action_kind.to_owned(),
        title: action(title),
        detail: detail.filter(|detail| !detail.is_empty()).map(|detail| cut(&detail, DETAIL_BYTES)),
        options: vec![
            option("accept", "Yes", Choice::AllowOnce),
            option("decline", "No, and go on without it", Choice::DenyOnce),
        ],
    }
}

fn questions(params: &Value) -> Option<(Wants, Subject)> {
    let questions = params["questions"].as_array()?;
    let ids: Vec<_> = questions
        .iter()
        .take(MOST_OPTIONS)
        .map(|question| question["id"].as_str().map(|id| cut(id, NAME_BYTES)))
        .collect::<Option<_>>()?;
    let texts = questions.iter().take(MOST_OPTIONS).map(|question| {
        let text = question["question"].as_str().unwrap_or_default();
        let options = labels(question).collect::<Vec<_>>().join(" | ");
        // Of a single question the choices stand beside it.
        if questions.len() == 1 || options.is_empty() {
            text.to_owned()
        } else {
            format!("{text} ({options})")
        }
    });
    let text = cut(&texts.collect::<Vec<_>>().join("\n\n"), DETAIL_BYTES);
    let choices = match questions.as_slice() {
        [only] => labels(only).take(MOST_OPTIONS).map(|label| cut(label, TITLE_BYTES)).collect(),
        _ => vec![],
    };
    Some((Wants::Answers(ids), Subject::Question { text, choices }))
}

fn labels(question: &Value) -> impl Iterator<Item = &str> {
    question["options"].as_array().into_iter().flatten().filter_map(|option| option["label"].as_str())
}

fn elicitation(params: &Value) -> (Wants, Subject) {
    let server = params["serverName"].as_str().unwrap_or("a server");
    let message = params["message"].as_str().unwrap_or_default();
    let title = format!("{server}: {message}");
    if let Some(url) = params["url"].as_str() {
        return (Wants::Consent(Value::Null), approval("mcp", &title, Some(url.to_owned())));
    }
    let fields = params["requestedSchema"]["properties"].as_object();
    match fields {
        Some(fields) if !fields.is_empty() => {
            let only =
                fields.iter().next().filter(|(_, field)| fields.len() == 1 && field["type"] == "string");
            let text = match only {
                Some((_, field)) => format!("{title}\n{}", as_text(&field["description"])),
                None => format!("{title}\nAnswer with a JSON object: {}", params["requestedSchema"]),
            };
            let field = only.map(|(name, _)| cut(name, NAME_BYTES));
            let text = text.trim_end_matches("\nnull");
            (Wants::Form(field), Subject::Question { text: cut(text, DETAIL_BYTES), choices: vec![] })
        }
        // Nothing is to be filled in: a yes or a no, such as for a tool of a server.
        _ => {
            let about = Some(&params["_meta"]).filter(|about| !about.is_null()).map(as_text);
            (Wants::Consent(json!({})), approval("mcp", &title, about))
        }
    }
}
