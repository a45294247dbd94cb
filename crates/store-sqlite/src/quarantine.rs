//! Rows that cannot be read. They stay where they are, because a later version may read them; here they are remembered,
//! so that each is told once and none is counted as work that could be done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use subagent_model::SubagentId;
use subagent_store::DamagedRow;

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
