//! One round of the writer: states as they will be, the facts that lead there, and who waits for the answer. Nothing of
//! it is true before the commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use subagent_core::run::{Command, IllegalEvent, Refusal, Subagent, born, decide};
use subagent_model::{EventKind, Handle, SubagentId, Timestamp};
use subagent_store::{Content, ContentKind, Fact, IdempotencyKey, Transition};

/// A state on its way to the store.
pub(crate) struct Staged {
    before: u64,
    state: Subagent,
    events: Vec<Fact>,
    content: Vec<Content>,
    idempotency: Option<IdempotencyKey>,
}

/// Why a command was not staged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StageError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Illegal(#[from] IllegalEvent),
}

/// The states of one round.
#[derive(Default)]
pub(crate) struct Batch {
    staged: HashMap<SubagentId, Staged>,
    /// In the order of their first step: numbers of events follow it.
    order: Vec<SubagentId>,
    /// What the store does not know yet of this round's births.
    keys: HashMap<IdempotencyKey, SubagentId>,
    handles: HashSet<Handle>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The states as they will be.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Subagent> {
        self.staged.values().map(|staged| &staged.state)
    }

    pub(crate) fn get(&self, id: SubagentId) -> Option<&Subagent> {
        self.staged.get(&id).map(|staged| &staged.state)
    }

    /// The subagent that a request with this key gives in this round.
    pub(crate) fn by_key(&self, key: &IdempotencyKey) -> Option<SubagentId> {
        self.keys.get(key).copied()
    }

    /// True when a birth of this round has the handle.
    pub(crate) fn handle_taken(&self, handle: &Handle) -> bool {
        self.handles.contains(handle)
    }

    /// Stages a birth.
    pub(crate) fn birth(
        &mut self,
        id: SubagentId,
        facts: Vec<EventKind>,
        content: Vec<Content>,
        idempotency: Option<IdempotencyKey>,
        now: Timestamp,
    ) -> Result<&Subagent, StageError> {
        let mut facts = facts.into_iter();
        let Some(first) = facts.next() else {
            return Err(IllegalEvent { event: "nothing", status: "unborn" }.into());
        };
        let mut state = born(id, now, &first)?;
        let mut events = vec![Fact { at: now, run: state.run.number, kind: first }];
        for kind in facts {
            state.apply(now, &kind)?;
            events.push(Fact { at: now, run: state.run.number, kind });
        }
        self.order.push(id);
        self.handles.insert(state.handle.clone());
        if let Some(key) = &idempotency {
            self.keys.insert(key.clone(), id);
        }
        let staged = Staged { before: 0, state, events, content, idempotency };
        Ok(&self.staged.entry(id).or_insert(staged).state)
    }

    /// Decides a command on the newest state and stages what follows. Gives the state before and after; they are the
    /// same when there was nothing to change.
    pub(crate) fn act(
        &mut self,
        committed: &Arc<Subagent>,
        command: &Command,
        content: Option<Content>,
        now: Timestamp,
    ) -> Result<Step, StageError> {
        let id = committed.id;
        let current = self.staged.get(&id).map_or(&**committed, |staged| &staged.state);
        let facts = decide(current, command, now)?;
        if facts.is_empty() {
            return Ok(Step { changed: false, before: None });
        }
        let before = current.clone();
        // Folded aside: a fact that cannot follow leaves nothing behind.
        let mut after = before.clone();
        let mut events = Vec::with_capacity(facts.len());
        for kind in facts {
            after.apply(now, &kind)?;
            // A fact about an earlier run names it by itself.
            let run = kind.of_run().unwrap_or(after.run.number);
            events.push(Fact { at: now, run, kind });
        }
        // A text that came too late replaces none that counts.
        let content = content.filter(|content| events.iter().any(|fact| carries(&fact.kind, content.kind)));
        let staged = self.staged.entry(id).or_insert_with(|| {
            self.order.push(id);
            Staged {
                before: committed.revision,
                state: before.clone(),
                events: vec![],
                content: vec![],
                idempotency: None,
            }
        });
        staged.state = after;
        staged.events.extend(events);
        staged.content.extend(content);
        Ok(Step { changed: true, before: Some(before) })
    }

    /// The transitions in order: those for the durable store, and those for memory.
    pub(crate) fn into_transitions(mut self) -> (Vec<Transition>, Vec<Transition>) {
        let transitions =
            self.order.iter().filter_map(|id| self.staged.remove(id)).map(|staged| Transition {
                before: staged.before,
                state: Arc::new(staged.state),
                events: staged.events,
                content: staged.content,
                idempotency: staged.idempotency,
            });
        transitions.partition(|transition| transition.state.spec.durable)
    }
}

/// True for the facts with which a text of this kind is stored.
fn carries(fact: &EventKind, kind: ContentKind) -> bool {
    match kind {
        ContentKind::Prompt => matches!(fact, EventKind::Resumed { .. }),
        ContentKind::Result => matches!(
            fact,
            EventKind::Ended { .. } | EventKind::TurnEnded { .. } | EventKind::Waiting { held: Some(_), .. }
        ),
    }
}

/// What a staged command did.
pub(crate) struct Step {
    /// Something follows from it.
    pub(crate) changed: bool,
    /// The state it was decided on, when something follows.
    pub(crate) before: Option<Subagent>,
}
