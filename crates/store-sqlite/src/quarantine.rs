//! Rows that cannot be read. They stay where they are, because a later version may read them; here they are remembered,
//! so that each is told once and none is counted as work that could be done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use subagent_model::{Cursor, SubagentId};
use subagent_store::DamagedRow;

/// How the name of an event begins: its number follows.
pub(crate) const EVENT: &str = "event ";

#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    /// Why each cannot be read.
    known: Mutex<BTreeMap<String, String>>,
}

impl Quarantine {
    /// Remembers a row.
    pub(crate) fn put(&self, row: &DamagedRow) {
        if self.known().insert(row.id.clone(), row.reason.clone()).is_none() {
            tracing::warn!(id = row.id, reason = row.reason, "a stored row cannot be read and was set aside");
        }
    }

    /// Forgets a row that is gone.
    pub(crate) fn forget(&self, id: &str) {
        self.known().remove(id);
    }

    /// Forgets events before a position: they are gone.
    pub(crate) fn forget_events(&self, before: Cursor) {
        let is_gone = |id: &str| {
            id.strip_prefix(EVENT).and_then(|seq| seq.parse().ok()).is_some_and(|seq| Cursor(seq) < before)
        };
        self.known().retain(|id, _| !is_gone(id));
    }

    /// The subagents among the rows.
    pub(crate) fn subagents(&self) -> Vec<SubagentId> {
        self.known().keys().filter_map(|id| id.parse().ok()).collect()
    }

    pub(crate) fn rows(&self) -> Vec<DamagedRow> {
        let row = |(id, reason): (&String, &String)| DamagedRow { id: id.clone(), reason: reason.clone() };
        self.known().iter().map(row).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
