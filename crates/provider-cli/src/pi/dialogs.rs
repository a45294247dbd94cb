//! Dialogs of pi's extensions: each blocks until it is answered. Those that people may decide go to them; anything else
//! is cancelled at once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subagent_model::{Answer, Ask, AskOption, Choice, Subject};

use crate::bounds::{DETAIL_BYTES, MOST_ASKS, MOST_OPTIONS, NAME_BYTES, TITLE_BYTES, action, cut, line};

/// Words of options that are a yes for this time, and a no for this time.
const YES: [&str; 6] = ["allow", "yes", "approve", "accept", "ok", "allow once"];
const NO: [&str; 7] = ["block", "no", "deny", "reject", "cancel", "decline", "deny once"];

/// Dialogs that wait for an answer, by their id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Dialogs(BTreeMap<String, Kind>);

/// The form of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Confirm,
    /// The options that are a yes and a no.
    Permission {
        yes: String,
        no: String,
    },
    Select(Vec<String>),
    Text,
}

/// What becomes of a request of an extension.
pub(super) enum Shown {
    /// It waits for people.
    Ask(Ask),
    /// A word for people.
    Notice(String),
    /// It was cancelled: the answer, and what people are told.
    Cancelled(Vec<u8>, String),
    /// Nothing.
    Nothing,
}

impl Dialogs {
    /// An extension shows something. `open`: people can answer.
    pub(super) fn show(&mut self, request: &Value, open: bool) -> Shown {
        let (method, id) = (request["method"].as_str().unwrap_or_default(), request["id"].as_str());
        match method {
            "notify" => {
                let text = request["message"].as_str().unwrap_or_default();
                return Shown::Notice(cut(text, DETAIL_BYTES));
            }
            "setStatus" | "setWidget" | "setTitle" | "set_editor_text" => return Shown::Nothing,
            _ => {}
        }
        let Some(id) = id else { return Shown::Nothing };
        if self.0.contains_key(id) {
            return Shown::Nothing;
        }
        let why = match dialog(method, request) {
            None => format!(
                "an extension asked in a way that is not known, and was cancelled: {}",
                cut(method, 100)
            ),
            Some(_) if !open => String::from("an extension asked while no turn was open, and was cancelled"),
            Some(_) if id.len() > NAME_BYTES || self.0.len() >= MOST_ASKS => {
                format!("an extension asked for more than {MOST_ASKS} things at once, and was cancelled")
            }
            Some((kind, subject)) => {
                self.0.insert(id.to_owned(), kind);
                return Shown::Ask(Ask { key: id.to_owned(), subject });
            }
        };
        Shown::Cancelled(response(id, "cancelled", &json!(true)), why)
    }

    /// The answer to a dialog.
    pub(super) fn answer(&mut self, key: &str, given: &Answer) -> Result<Vec<u8>, String> {
        let kind = self.0.remove(key).ok_or("it no longer waits for this answer")?;
        let allows = |choice: &Choice| choice.is_allow();
        Ok(match (kind, given) {
            (Kind::Confirm, Answer::Choice { choice }) => response(key, "confirmed", &json!(allows(choice))),
            (Kind::Permission { yes, no }, Answer::Choice { choice }) => {
                response(key, "value", &json!(if allows(choice) { yes } else { no }))
            }
            (Kind::Select(options), Answer::Text { text }) => {
                let same = |option: &&String| option.trim().eq_ignore_ascii_case(text.trim());
                let exact = options.iter().find(|option| *option == text);
                match exact.or_else(|| options.iter().find(same)) {
                    Some(option) => response(key, "value", &json!(option)),
                    None => response(key, "cancelled", &json!(true)),
                }
            }
            (Kind::Text, Answer::Text { text }) => response(key, "value", &json!(text)),
            _ => response(key, "cancelled", &json!(true)),
        })
    }

    /// Cancels everything that waits.
    pub(super) fn cancel(&mut self) -> Vec<u8> {
        let waiting = std::mem::take(&mut self.0);
        waiting.into_keys().flat_map(|id| response(&id, "cancelled", &json!(true))).collect()
    }

    /// A dialog was answered before.
    pub(super) fn answered(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// The turn is over: nothing waits.
    pub(super) fn close(&mut self) {
        self.0.clear();
    }
}

fn response(id: &str, field: &str, value: &Value) -> Vec<u8> {
    line(&json!({ "type": "extension_ui_response", "id": id, field: value }))
}

fn dialog(method: &str, request: &Value) -> Option<(Kind, Subject)> {
    let said = |field: &str| request[field].as_str().filter(|text| !text.trim().is_empty());
    let title = said("title").unwrap_or("a question of an extension");
    let question = |also: Option<&str>, choices: Vec<String>| {
        let text = also.map_or_else(|| title.to_owned(), |also| format!("{title}\n{also}"));
        Subject::Question { text: cut(&text, DETAIL_BYTES), choices }
    };
    Some(match method {
        "confirm" => {
            let title =
                said("message").map_or_else(|| title.to_owned(), |message| format!("{title}: {message}"));
            (Kind::Confirm, permission(&title, "yes", "no"))
        }
        "select" => {
            let options: Vec<_> = request["options"].as_array()?.iter().filter_map(Value::as_str).collect();
            let one_of = |words: &[&str]| {
                options.iter().find(|option| words.contains(&option.trim().to_lowercase().as_str()))
            };
            if let (Some(yes), Some(no), 2) = (one_of(&YES), one_of(&NO), options.len()) {
                // A permission by any other name.
                let kind = Kind::Permission { yes: (*yes).to_owned(), no: (*no).to_owned() };
                (kind, permission(title, yes, no))
            } else {
                let options: Vec<_> =
                    options.into_iter().take(MOST_OPTIONS).map(|option| cut(option, TITLE_BYTES)).collect();
                (Kind::Select(options.clone()), question(None, options))
            }
        }
        "input" => (Kind::Text, question(said("placeholder"), vec![])),
        "editor" => (Kind::Text, question(said("prefill"), vec![])),
        _ => return None,
    })
}

fn permission(title: &str, yes: &str, no: &str) -> Subject {
    let option = |name: &str, kind| AskOption { id: name.to_owned(), name: name.to_owned(), kind };
    Subject::Approval {
        action: String::from("confirm"),
        title: action(title),
        detail: None,
        options: vec![option(yes, Choice::AllowOnce), option(no, Choice::DenyOnce)],
    }
}
