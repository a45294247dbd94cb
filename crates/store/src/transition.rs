//! What is written: one subagent's step, with the facts it took, the state they fold to, and the texts that came with
//! them.

use std::fmt;
use std::sync::Arc;

use subagent_core::run::{IllegalEvent, Subagent, born};
use subagent_model::{Cursor, EventKind, Requester, RunNumber, SubagentId, Timestamp};

use crate::error::StoreError;

/// One subagent's step. Facts and folded state commit together.
#[derive(Debug, Clone)]
pub struct Transition {
    /// The revision that the step was decided on; 0 is a birth. The store refuses a step on any other.
    pub before: u64,
    /// The state after it.
    pub state: Arc<Subagent>,
    /// The facts, in order.
    pub events: Vec<Fact>,
    /// Whole texts that are too long for their preview.
    pub content: Vec<Content>,
    /// The key of the request that led to the birth. Only births carry one.
    pub idempotency: Option<IdempotencyKey>,
}

/// An event before it has a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// When it was decided.
    pub at: Timestamp,
    /// Of which run.
    pub run: RunNumber,
    /// What.
    pub kind: EventKind,
}

/// A whole text of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Which run.
    pub run: RunNumber,
    /// Which text of it.
    pub kind: ContentKind,
    /// The text.
    pub text: Arc<str>,
}

/// Which text of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentKind {
    /// What was asked.
    Prompt,
    /// What came back.
    Result,
}

impl ContentKind {
    /// The word in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Result => "result",
        }
    }
}

impl fmt::Display for ContentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Names one request of one requester: asking again with it gives the same subagent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    /// Who asked; keys of different requesters never meet.
    pub requester: Requester,
    /// The key that they chose.
    pub key: String,
}

/// The numbers that a batch's events got: `first..=last`, in the order of the batch, without gaps. A batch without
/// events has `last` = the head of the log and `first` = the number after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Number of the first event.
    pub first: Cursor,
    /// Number of the last event.
    pub last: Cursor,
}

impl Transition {
    /// A birth from its facts, the first of which is the acceptance.
    pub fn birth(id: SubagentId, facts: Vec<EventKind>, at: Timestamp) -> Result<Self, IllegalEvent> {
        let mut facts = facts.into_iter();
        let Some(first) = facts.next() else {
            return Err(IllegalEvent { event: "nothing", status: "unborn" });
        };
        let state = born(id, at, &first)?;
        let first = Fact { at, run: state.run.number, kind: first };
        Self::after(0, state, vec![first], facts, at)
    }

    /// The step from `before` by `facts`.
    pub fn step(before: &Subagent, facts: Vec<EventKind>, at: Timestamp) -> Result<Self, IllegalEvent> {
        Self::after(before.revision, before.clone(), Vec::with_capacity(facts.len()), facts, at)
    }

    fn after(
        before: u64,
        mut state: Subagent,
        mut events: Vec<Fact>,
        facts: impl IntoIterator<Item = EventKind>,
        at: Timestamp,
    ) -> Result<Self, IllegalEvent> {
        for kind in facts {
            state.apply(at, &kind)?;
            // A fact about an earlier run names it by itself.
            let run = kind.of_run().unwrap_or(state.run.number);
            events.push(Fact { at, run, kind });
        }
        Ok(Self { before, state: Arc::new(state), events, content: Vec::new(), idempotency: None })
    }

    /// With a whole text beside it.
    #[must_use]
    pub fn with_content(mut self, content: Content) -> Self {
        self.content.push(content);
        self
    }

    /// With the key of the request.
    #[must_use]
    pub fn with_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency = Some(key);
        self
    }

    /// Whether the parts fit together. Every store asks this before it writes anything: a state that its facts do not
    /// lead to would be found only by the next audit.
    pub fn check(&self) -> Result<(), StoreError> {
        let id = self.state.id;
        let folded = self.before.saturating_add(self.events.len() as u64);
        if self.state.revision != folded {
            let reason = format!(
                "{} facts on revision {} give no revision {}",
                self.events.len(),
                self.before,
                self.state.revision
            );
            return Err(StoreError::Invalid { id, reason });
        }
        if self.before == 0 && self.events.is_empty() {
            return Err(StoreError::Invalid { id, reason: String::from("a birth has no facts") });
        }
        if self.before > 0 && self.idempotency.is_some() {
            return Err(StoreError::Invalid {
                id,
                reason: String::from("only a birth may carry an idempotency key"),
            });
        }
        Ok(())
    }
}
