//! What the agent asks for and waits: permissions and forms. Each is answered once; none is left open. An option is chosen
//! by its kind and never by its place. What is allowed "always" is remembered by the daemon, which can take it back, and
//! not by the agent, which cannot: so a yes is a yes for this time wherever that is offered.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use subagent_model::{Answer, Ask, AskOption, Choice, Subject};

use super::bounds::{DETAIL_BYTES, NAME_BYTES, TITLE_BYTES, cut, list, name};
use super::form::Form;
use super::frame::{self, Id, code};
use super::tools::Call;
use super::words::{Filled, Permitted};

/// Most requests that wait at a time.
const MOST_WAITING: usize = 64;
/// Most options of a request.
const MOST_OPTIONS: usize = 32;
/// Most answered requests that are remembered, so that none is answered twice.
const MOST_ANSWERED: usize = 256;

/// A request that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waiting {
    id: Id,
    /// The session that it is of.
    pub(super) session: Option<String>,
    /// What is to be filled in; none for a permission.
    form: Option<Form>,
}

impl Waiting {
    pub(super) fn permission(id: Id, session: Option<String>) -> Self {
        Self { id, session, form: None }
    }

    pub(super) fn question(id: Id, session: Option<String>, form: Form) -> Self {
        Self { id, session, form: Some(form) }
    }

    /// Nobody answers it any more.
    pub(super) fn cancelled(&self) -> Vec<u8> {
        if self.form.is_some() {
            frame::answer(&self.id, Filled::Cancel)
        } else {
            frame::answer(&self.id, Permitted::by(None))
        }
    }
}

/// All requests that wait.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Asks {
    waiting: BTreeMap<String, Waiting>,
    answered: VecDeque<String>,
}

impl Asks {
    /// One more; none when too many wait already.
    pub(super) fn open(&mut self, key: String, waiting: Waiting) -> bool {
        if self.waiting.len() >= MOST_WAITING {
            return false;
        }
        // An id that is used again is a new request.
        self.answered.retain(|answered| *answered != key);
        self.waiting.insert(key, waiting);
        true
    }

    /// Those whose session fits wait no longer.
    pub(super) fn take_if(&mut self, fits: impl Fn(Option<&str>) -> bool) -> Vec<(String, Waiting)> {
        let fits = |waiting: &Waiting| fits(waiting.session.as_deref());
        let keys: Vec<_> =
            self.waiting.iter().filter(|(_, ask)| fits(ask)).map(|(key, _)| key.clone()).collect();
        keys.into_iter().filter_map(|key| self.take(&key).map(|waiting| (key, waiting))).collect()
    }

    /// It is answered; gives what waited for it.
    pub(super) fn take(&mut self, key: &str) -> Option<Waiting> {
        if self.answered.len() >= MOST_ANSWERED {
            self.answered.pop_front();
        }
        if !self.answered.iter().any(|answered| answered == key) {
            self.answered.push_back(key.to_owned());
        }
        self.waiting.remove(key)
    }

    /// The same for one that may never have been asked.
    pub(super) fn take_if_waiting(&mut self, key: &str) -> Option<Waiting> {
        if self.waiting.contains_key(key) { self.take(key) } else { None }
    }

    /// The answers that give all of them up.
    pub(super) fn all_cancelled(&self) -> impl Iterator<Item = Vec<u8>> {
        self.waiting.values().map(Waiting::cancelled)
    }

    /// The answers that give those of a session up.
    pub(super) fn cancelled_of(&self, session: &str) -> impl Iterator<Item = Vec<u8>> {
        let of = move |waiting: &&Waiting| waiting.session.as_deref() == Some(session);
        self.waiting.values().filter(of).map(Waiting::cancelled)
    }

    /// The bytes of an answer.
    pub(super) fn answer(&self, key: &str, ask: &Ask, answer: &Answer) -> Result<Vec<u8>, String> {
        let lost;
        let waiting = match self.waiting.get(key) {
            Some(waiting) => waiting,
            None if self.answered.iter().any(|answered| answered == key) => {
                return Err(String::from("it no longer waits for this answer"));
            }
            // Where it asked is lost from the log: what is asked stands in the order.
            None => {
                lost = Waiting::permission(Id::of_key(key).ok_or("it never asked for this")?, None);
                &lost
            }
        };
        Ok(match (&ask.subject, answer, &waiting.form) {
            (Subject::Approval { options, .. }, Answer::Choice { choice }, _) => {
                frame::answer(&waiting.id, Permitted::by(chosen(options, *choice)))
            }
            (Subject::Approval { .. }, ..) => frame::answer(&waiting.id, Permitted::by(None)),
            (Subject::Question { .. }, Answer::Text { text }, Some(form)) => {
                frame::answer(&waiting.id, form.filled(text))
            }
            (Subject::Question { .. }, ..) => frame::answer(&waiting.id, Filled::Cancel),
        })
    }
}

/// The id of the option that an answer comes to, by its kind.
fn chosen(offered: &[AskOption], choice: Choice) -> Option<&str> {
    let kinds: &[Choice] = match choice {
        // Never wider than it was said.
        Choice::AllowOnce => &[Choice::AllowOnce],
        Choice::AllowAlways => &[Choice::AllowOnce, Choice::AllowAlways],
        // A no may be.
        Choice::DenyOnce | Choice::DenyAlways => &[Choice::DenyOnce, Choice::DenyAlways],
    };
    let found = kinds.iter().find_map(|kind| offered.iter().find(|option| option.kind == *kind))?;
    Some(&found.id)
}

/// A request for a permission in the words of an ask.
pub(super) fn permission(key: String, call: &Call, params: &Value) -> Ask {
    let options = list(params.get("options")).iter().filter_map(option_of).take(MOST_OPTIONS).collect();
    let action = call.kind.clone().unwrap_or_else(|| String::from("other"));
    let (title, detail) = (call.action(), call.detail());
    Ask { key, subject: Subject::Approval { action, title, detail, options } }
}

/// An option whose kind is not known cannot be chosen, and does no harm.
fn option_of(option: &Value) -> Option<AskOption> {
    let kind = match option.get("kind")?.as_str()? {
        "allow_once" => Choice::AllowOnce,
        "allow_always" => Choice::AllowAlways,
        "reject_once" => Choice::DenyOnce,
        "reject_always" => Choice::DenyAlways,
        _ => return None,
    };
    let id = name(option.get("optionId"))?;
    let name = option.get("name").and_then(Value::as_str).unwrap_or(&id);
    Some(AskOption { name: cut(name, NAME_BYTES), id, kind })
}

/// A form in the words of an ask.
pub(super) fn question(key: String, message: &str, form: &Form) -> Ask {
    let mut text = cut(message, DETAIL_BYTES);
    let fields = form.in_words();
    if !fields.is_empty() {
        text = cut(&format!("{text}\n{fields}"), DETAIL_BYTES);
    }
    let choices = form.choices().into_iter().take(MOST_OPTIONS).map(|choice| cut(&choice, TITLE_BYTES));
    Ask { key, subject: Subject::Question { text, choices: choices.collect() } }
}

/// The refusal of a request that is not served here.
pub(super) fn refused(id: &Id, method: &str) -> Vec<u8> {
    let message = match method.split_once('/') {
        Some(("fs", _)) => "files are not served here, as was said: the agent has access of its own",
        Some(("terminal", _)) => "terminals are not served here, as was said: the agent runs its own",
        _ => "there is no such method here",
    };
    frame::refusal(Some(id), code::NO_METHOD, message)
}
