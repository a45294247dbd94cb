//! Rows that cannot be read. They stay where they are, because a later version may read them; here they are remembered,
//! so that each is told once and none is counted as work that could be done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use subagent_model::Requester;
use subagent_store::DamagedRow;

#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    reason: String,
    /// To whom its end is owed, by the columns beside it.
    owed_to: Option<String>,
}

impl Quarantine {
    /// Remembers a row.
    pub(crate) fn put(&self, row: &DamagedRow, owed_to: Option<String>) {
        let known = Known { reason: row.reason.clone(), owed_to };
        if self.known().insert(row.id.clone(), known).is_none() {
            tracing::warn!(id = row.id, reason = row.reason, "a stored row cannot be read and was set aside");
        }
    }

    /// Forgets a row that is gone.
    pub(crate) fn forget(&self, id: &str) {
        self.known().remove(id);
    }

    /// How many rows of `requester`, or of anyone, look owed and can never be delivered.
    pub(crate) fn owed_count(&self, requester: Option<&Requester>) -> u64 {
        let known = self.known();
        let owed = known.values().filter_map(|known| known.owed_to.as_deref());
        owed.filter(|to| requester.is_none_or(|requester| requester.as_str() == *to)).count() as u64
    }

    pub(crate) fn rows(&self) -> Vec<DamagedRow> {
        let row =
            |(id, known): (&String, &Known)| DamagedRow { id: id.clone(), reason: known.reason.clone() };
        self.known().iter().map(row).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
