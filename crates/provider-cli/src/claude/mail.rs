//! The lines that were written to the child for its model, and what became of them. It tells of each line when it is in its
//! queue, when the model gets it, and when it never will.

use subagent_model::AttemptKey;
use subagent_provider::Said;
use uuid::Uuid;

use super::names::{LineKind, LineNames};

/// Most lines that are followed at once.
const MOST: usize = 64;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in the queue.
    Queued,
    /// The model has it.
    Begun,
    /// The model never gets it, or not to its end.
    Cancelled,
    /// A word that is not known.
    Unknown,
}

impl Fate {
    pub(super) fn of(state: &str) -> Self {
        match state {
            "queued" => Self::Queued,
            "started" | "completed" => Self::Begun,
            "cancelled" => Self::Cancelled,
            _ => Self::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    name: Uuid,
    kind: LineKind,
    /// It has read the line.
    read: bool,
    /// It was idle once since the line was written.
    idled: bool,
}

/// The lines that the model does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mail {
    names: LineNames,
    waiting: Vec<Line>,
    /// It tells what becomes of a line.
    tells: bool,
    /// What became of the lines since the last end of a turn.
    since: Option<Fate>,
}

impl Mail {
    pub(super) fn of(key: &AttemptKey) -> Self {
        Self { names: LineNames::of(key), waiting: vec![], tells: false, since: None }
    }

    /// The name of a new line, which is written now.
    pub(super) fn name(&mut self, kind: LineKind) -> Uuid {
        let name = self.names.name(kind);
        self.written(name, kind);
        name
    }

    /// A line that was written before.
    pub(super) fn recall(&mut self, name: Uuid) -> Option<LineKind> {
        let kind = self.names.recall(name)?;
        self.written(name, kind);
        Some(kind)
    }

    fn written(&mut self, name: Uuid, kind: LineKind) {
        if self.waiting.len() >= MOST {
            self.waiting.remove(0);
        }
        self.waiting.push(Line { name, kind, read: false, idled: false });
    }

    /// It tells what becomes of a line, by its name.
    pub(super) fn hear(&mut self, name: &str, fate: Fate) -> Option<Said> {
        let name = name.parse().ok()?;
        self.names.kind(name)?;
        self.tells = true;
        let at = self.waiting.iter().position(|line| line.name == name)?;
        if matches!(fate, Fate::Queued | Fate::Unknown) {
            self.waiting[at].read = true;
            return None;
        }
        let line = self.waiting.remove(at);
        if fate == Fate::Begun || self.since.is_none() {
            self.since = Some(fate);
        }
        match (line.kind, fate) {
            (LineKind::Steer(number), Fate::Begun) => Some(Said::Took(number)),
            (LineKind::Steer(number), _) => Some(Said::Declined(number)),
            (LineKind::Prompt | LineKind::Message(_), _) => None,
        }
    }

    /// It says when the model has a line.
    pub(super) fn acknowledges(&self) -> bool {
        self.tells
    }

    /// What became of the lines since the last end of a turn: none where there were none.
    pub(super) fn unanswered(&self) -> Option<Fate> {
        self.since
    }

    /// It is idle, and there is a line that it has not read. One that it does not read until it is idle again is lost.
    pub(super) fn is_on_its_way(&mut self) -> bool {
        if !self.tells {
            return false;
        }
        let unread = self.waiting.iter_mut().filter(|line| !line.read);
        unread.fold(false, |any, line| any | !std::mem::replace(&mut line.idled, true))
    }

    /// A turn is over.
    pub(super) fn turn_over(&mut self) {
        self.since = None;
    }
}
