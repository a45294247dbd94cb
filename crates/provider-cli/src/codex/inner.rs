//! Subagents of codex itself: threads below ours. They are shown as such, their texts are never ours, and their tokens
//! count.

use std::collections::BTreeMap;

use serde_json::Value;
use subagent_model::Usage;
use subagent_provider::{Inner, InnerState, Said};

use super::frames::Note;
use super::spending::Spending;
use crate::bounds::{NAME_BYTES, TITLE_BYTES, cut};

/// Most of them that are known by name. Whatever is beyond is not shown.
const MOST: usize = 256;

/// The subagents of one conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Inners {
    known: BTreeMap<String, Known>,
    /// How many were said to be at work after the turn.
    told_live: u32,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Known {
    state: Option<InnerState>,
    /// The turn that it is at.
    turn: Option<String>,
    spending: Spending,
}

impl Inners {
    /// An item of a thread of ours that tells of them.
    pub(super) fn item(&mut self, ours: &str, item: &Value) -> Vec<Said> {
        match item["type"].as_str() {
            Some("collabAgentToolCall") => self.called(ours, item),
            Some("subAgentActivity") => {
                let Some(id) = item["agentThreadId"].as_str() else { return vec![] };
                let state = match item["kind"].as_str() {
                    Some("started" | "interacted") => Some(InnerState::Running),
                    Some("interrupted") => Some(InnerState::Stopped),
                    Some("completed") => Some(InnerState::Completed),
                    _ => None,
                };
                let title = item["agentPath"].as_str();
                self.said(id, None, title, state).into_iter().collect()
            }
            _ => vec![],
        }
    }

    fn called(&mut self, ours: &str, item: &Value) -> Vec<Said> {
        let sender = item["senderThreadId"].as_str().filter(|sender| *sender != ours);
        let title = item["prompt"].as_str().filter(|_| item["tool"] == "spawnAgent");
        let receivers = item["receiverThreadIds"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut said = Vec::new();
        for id in receivers.take(MOST) {
            let state = match item["agentsStates"][id]["status"].as_str() {
                Some("pendingInit" | "running") => Some(InnerState::Running),
                Some("interrupted" | "shutdown") => Some(InnerState::Stopped),
                Some("completed") => Some(InnerState::Completed),
                Some("errored") => Some(InnerState::Failed),
                Some("notFound") => Some(InnerState::Unknown),
                _ => None,
            };
            said.extend(self.said(id, sender, title, state));
        }
        said
    }

    fn said(
        &mut self,
        id: &str,
        parent: Option<&str>,
        title: Option<&str>,
        state: Option<InnerState>,
    ) -> Option<Said> {
        if id.len() > NAME_BYTES || (self.known.len() >= MOST && !self.known.contains_key(id)) {
            return None;
        }
        let known = self.known.entry(id.to_owned()).or_default();
        // What is over stays over until a new turn of it begins.
        let state = match (known.state, state) {
            (Some(InnerState::Completed | InnerState::Failed), Some(InnerState::Running))
                if known.turn.is_none() =>
            {
                None
            }
            (_, state) => state,
        };
        let news = state.is_some() && state != known.state;
        known.state = state.or(known.state);
        (news || title.is_some()).then(|| {
            Said::Inner(Inner {
                id: id.to_owned(),
                parent: parent.map(|parent| cut(parent, NAME_BYTES)),
                title: title.map(|title| cut(title, TITLE_BYTES)),
                state,
                can_cancel: None,
            })
        })
    }

    /// Whether a thread is one of them: it is known, or its turn goes back to one of ours.
    pub(super) fn is_one(&self, thread: &str, note: &Note, turn: Option<&str>) -> bool {
        let root = note.params["turn"]["rootTurnId"].as_str();
        let parent = note.params["thread"]["parentThreadId"].as_str();
        self.known.contains_key(thread)
            || (root.is_some() && root == turn)
            || parent.is_some_and(|parent| self.known.contains_key(parent))
    }

    /// News of a thread that is one of them.
    pub(super) fn note(&mut self, thread: &str, note: &Note) -> Vec<Said> {
        let turn = &note.params["turn"];
        let said = match note.method.as_str() {
            "thread/started" => {
                let thread_facts = &note.params["thread"];
                let parent =
                    thread_facts["parentThreadId"].as_str().filter(|id| self.known.contains_key(*id));
                let parent = parent.map(str::to_owned);
                self.said(thread, parent.as_deref(), thread_facts["agentNickname"].as_str(), None)
            }
            "turn/started" => {
                // Known by its name first: what is over begins again by a turn.
                self.said(thread, None, None, None);
                if let (Some(known), Some(id)) = (self.known.get_mut(thread), turn["id"].as_str()) {
                    known.turn = Some(cut(id, NAME_BYTES));
                }
                self.said(thread, None, None, Some(InnerState::Running))
            }
            "turn/completed" => {
                if let Some(known) = self.known.get_mut(thread) {
                    known.turn = None;
                }
                let state = match turn["status"].as_str() {
                    Some("completed") => InnerState::Completed,
                    Some("interrupted") => InnerState::Stopped,
                    Some("failed") => InnerState::Failed,
                    _ => InnerState::Unknown,
                };
                self.said(thread, None, None, Some(state))
            }
            "thread/status/changed" => {
                let flags = note.params["status"]["activeFlags"].as_array();
                let waits = flags.is_some_and(|flags| !flags.is_empty());
                let at_work = self.known.get(thread).is_some_and(|known| known.turn.is_some());
                let state = if waits { InnerState::Asking } else { InnerState::Running };
                at_work.then_some(state).and_then(|state| self.said(thread, None, None, Some(state)))
            }
            "thread/closed" => {
                if let Some(known) = self.known.get_mut(thread) {
                    known.turn = None;
                }
                None
            }
            "thread/tokenUsage/updated" => {
                let used = self.used(thread, note);
                return used.map(Said::Used).into_iter().collect();
            }
            _ => None,
        };
        said.into_iter().collect()
    }

    fn used(&mut self, thread: &str, note: &Note) -> Option<Usage> {
        let known = self.known.get_mut(thread)?;
        known.spending.update(&note.params["tokenUsage"], true)
    }

    /// Those that are at a turn: thread and turn.
    pub(super) fn live(&self) -> impl Iterator<Item = (&str, &str)> {
        self.known.iter().filter_map(|(thread, known)| Some((thread.as_str(), known.turn.as_deref()?)))
    }

    /// What is to be said of those at work while no turn of ours is open. A change only.
    pub(super) fn background(&mut self) -> Option<Said> {
        let live = u32::try_from(self.live().count()).unwrap_or(u32::MAX);
        if live == self.told_live {
            return None;
        }
        self.told_live = live;
        Some(Said::Background { live })
    }
}
