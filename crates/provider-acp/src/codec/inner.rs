//! Subagents of the agent's own: sessions that it announces on this conversation, and shows under the one that they belong
//! to. They are known here by their session ids, and only as long as the conversation lasts.

use std::collections::BTreeMap;

use serde_json::Value;
use subagent_provider::{Inner, InnerState};

use super::bounds::{TITLE_BYTES, cut, name};

/// Most of them that are remembered; further ones are not shown.
const MOST_INNER: usize = 256;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Child {
    parent: Option<String>,
    title: Option<String>,
    state: Option<InnerState>,
    can_cancel: bool,
    /// It was told to cancel what it is at.
    cancelling: bool,
}

/// The sessions below the one that is spoken with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Below {
    children: BTreeMap<String, Child>,
}

impl Below {
    /// Whether it was announced.
    pub(super) fn knows(&self, session: &str) -> bool {
        self.children.contains_key(session)
    }

    /// How many are at work.
    pub(super) fn live(&self) -> u32 {
        let live = self.children.values().filter(|child| child.is_live()).count();
        u32::try_from(live).unwrap_or(u32::MAX)
    }

    /// Those at work that can be cancelled by themselves.
    pub(super) fn cancellable(&self) -> impl Iterator<Item = &str> {
        self.children
            .iter()
            .filter(|(_, child)| child.is_live() && child.can_cancel)
            .map(|(id, _)| id.as_str())
    }

    /// Whether this one can be cancelled by itself now; `Err` says why not.
    pub(super) fn may_be_cancelled(&self, session: &str) -> Result<(), String> {
        match self.children.get(session) {
            None => Err(String::from("it has announced no such session")),
            Some(child) if !child.is_live() => Err(String::from("that session works on nothing")),
            Some(child) if !child.can_cancel => Err(String::from(
                "it announces no cancel for that session; only its whole turn can be cancelled",
            )),
            Some(_) => Ok(()),
        }
    }

    /// It was told to cancel this one.
    pub(super) fn cancels(&mut self, session: &str) {
        if let Some(child) = self.children.get_mut(session) {
            child.cancelling = child.is_live();
        }
    }

    /// Whether this one is being cancelled.
    pub(super) fn is_cancelling(&self, session: &str) -> bool {
        self.children.get(session).is_some_and(|child| child.cancelling)
    }

    /// Takes in what `parent` tells of one below it; none for the session that is spoken with. Gives what is new of it: a
    /// state that is told again is no second end.
    pub(super) fn update(&mut self, parent: Option<&str>, update: &Value) -> Option<Inner> {
        let id = name(update.get("sessionId"))?;
        let first = !self.knows(&id);
        if first && self.children.len() >= MOST_INNER {
            return None;
        }
        let child = self.children.entry(id.clone()).or_default();
        if first {
            child.parent = parent.map(str::to_owned);
        }
        let before = child.clone();
        // What is left out is unchanged, null clears.
        if let Some(title) = update.get("title") {
            child.title = title.as_str().map(|title| cut(title, TITLE_BYTES));
        }
        if child.title.is_none()
            && let Some(description) = update.get("description").and_then(Value::as_str)
        {
            child.title = Some(cut(description, TITLE_BYTES));
        }
        if let Some(capabilities) = update.get("capabilities") {
            child.can_cancel = capabilities.get("cancel").is_some_and(Value::is_object);
        }
        if let Some(state) = update.get("state") {
            child.state = Some(state_of(state));
            child.cancelling &= child.is_live();
        }
        if !first && *child == before {
            return None;
        }
        let title =
            if child.title == before.title { None } else { Some(child.title.clone().unwrap_or_default()) };
        Some(Inner {
            id,
            parent: child.parent.clone(),
            title,
            state: child.state.filter(|_| child.state != before.state),
            can_cancel: (first || child.can_cancel != before.can_cancel).then_some(child.can_cancel),
        })
    }
}

impl Child {
    fn is_live(&self) -> bool {
        matches!(self.state, Some(InnerState::Running | InnerState::Asking))
    }
}

/// What is not known of a state is not guessed.
fn state_of(state: &Value) -> InnerState {
    let word = |field: &str| state.get(field).and_then(Value::as_str);
    match (word("state"), word("stopReason")) {
        (Some("running"), _) => InnerState::Running,
        (Some("requires_action"), _) => InnerState::Asking,
        (Some("idle"), Some("end_turn" | "max_tokens")) => InnerState::Completed,
        (Some("idle"), Some("cancelled")) => InnerState::Stopped,
        (Some("idle"), Some("error" | "refusal" | "max_turn_requests")) => InnerState::Failed,
        _ => InnerState::Unknown,
    }
}
