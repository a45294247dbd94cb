//! The slow look through a whole store, for `doctor`: every record is read, every event is folded again, and the two
//! must agree.

use std::collections::BTreeMap;

use subagent_core::run::{Subagent, born};
use subagent_model::{Cursor, Event, SubagentId};

use crate::error::StoreError;
use crate::filter::LONGEST_PAGE;
use crate::port::Store;
use crate::{DamagedRow, ListFilter};

/// What an audit saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Records that were read.
    pub records: u64,
    /// Events that were read.
    pub events: u64,
    /// Everything that is not as it must be.
    pub problems: Vec<DamagedRow>,
}

/// Reads all of `store`. Costs time and memory in proportion to it. Steps that are committed meanwhile are not
/// mistaken for damage: a record that is ahead of its events is passed over.
pub fn audit(store: &dyn Store) -> Result<Audit, StoreError> {
    let mut seen = Audit::default();
    let states = records(store, &mut seen)?;
    let mut folded = Folded::default();
    let mut after = Cursor(0);
    loop {
        let page = store.events(after, LONGEST_PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        seen.events += page.len() as u64;
        for event in page {
            folded.add(&event, &states);
        }
    }
    folded.compare(&states, &mut seen.problems);
    for row in store.damaged()? {
        if !seen.problems.contains(&row) {
            seen.problems.push(row);
        }
    }
    Ok(seen)
}

fn records(store: &dyn Store, seen: &mut Audit) -> Result<BTreeMap<SubagentId, Subagent>, StoreError> {
    let mut states = BTreeMap::new();
    let mut filter = ListFilter { limit: Some(LONGEST_PAGE), ..ListFilter::default() };
    loop {
        let page = store.list(&filter)?;
        seen.records += page.items.len() as u64;
        seen.problems.extend(page.damaged);
        states.extend(page.items.into_iter().map(|state| (state.id, Subagent::clone(&state))));
        match page.next {
            Some(next) => filter.before = Some(next),
            None => return Ok(states),
        }
    }
}

/// The states that the events give, with the first thing that was wrong with each.
#[derive(Default)]
struct Folded {
    states: BTreeMap<SubagentId, Subagent>,
    wrong: BTreeMap<SubagentId, String>,
}

impl Folded {
    fn add(&mut self, event: &Event, stored: &BTreeMap<SubagentId, Subagent>) {
        let id = event.subagent;
        // Records that are gone, and those that cannot be read, have nothing to be compared with.
        let Some(record) = stored.get(&id) else { return };
        if self.wrong.contains_key(&id) {
            return;
        }
        let step = match self.states.get_mut(&id) {
            None => born(id, event.at, &event.kind).map(|state| drop(self.states.insert(id, state))),
            // Committed after the record was read.
            Some(state) if state.revision >= record.revision => Ok(()),
            Some(state) => state.apply(event.at, &event.kind),
        };
        if let Err(error) = step {
            self.wrong.insert(id, format!("event {}: {error}", event.seq));
        }
    }

    fn compare(self, stored: &BTreeMap<SubagentId, Subagent>, problems: &mut Vec<DamagedRow>) {
        for (id, record) in stored {
            let reason = match (self.wrong.get(id), self.states.get(id)) {
                (Some(reason), _) => reason.clone(),
                (None, None) => String::from("it has no events"),
                (None, Some(state)) if state.revision < record.revision => {
                    format!(
                        "its events end at revision {}, the record is at {}",
                        state.revision, record.revision
                    )
                }
                (None, Some(state)) if state != record => String::from("its events fold to another state"),
                (None, Some(_)) => continue,
            };
            problems.push(DamagedRow { id: id.to_string(), reason });
        }
    }
}
