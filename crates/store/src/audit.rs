//! The slow look through a whole store, for `doctor`: every record is read, every event is folded again, and the two
//! must agree. What was pruned from the journal cannot be folded any more; the audit says of how many that is so.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use subagent_core::run::{Subagent, born};
use subagent_model::{Cursor, Event, EventKind, SubagentId};

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
    /// Records that were read but not compared: their first events were pruned.
    pub pruned: u64,
    /// Everything that is not as it must be.
    pub problems: Vec<DamagedRow>,
}

/// Reads all of `store`. Costs time and memory in proportion to it. Steps that are committed meanwhile are not
/// mistaken for damage: a record that is ahead of its events is passed over.
pub fn audit(store: &dyn Store) -> Result<Audit, StoreError> {
    loop {
        if let Some(seen) = pass(store)? {
            return Ok(seen);
        }
    }
}

/// One pass; none when events were pruned before it had read them.
fn pass(store: &dyn Store) -> Result<Option<Audit>, StoreError> {
    let mut seen = Audit::default();
    let first = store.first_event()?;
    let states = records(store, &mut seen)?;
    let mut folded = Folded { is_pruned: first > Cursor(1), ..Folded::default() };
    let mut after = Cursor(first.0.saturating_sub(1));
    loop {
        let page = store.events(after, LONGEST_PAGE)?;
        // A number is missing where an event is damaged, too.
        let is_next = page.first().is_none_or(|event| event.seq.0 == after.0 + 1);
        if !is_next && store.first_event()?.0 > after.0 + 1 {
            return Ok(None);
        }
        let Some(last) = page.last() else { break };
        after = last.seq;
        seen.events += page.len() as u64;
        for event in page {
            folded.add(&event, &states);
        }
    }
    folded.compare(&states, &mut seen);
    for row in store.damaged()? {
        if !seen.problems.contains(&row) {
            seen.problems.push(row);
        }
    }
    Ok(Some(seen))
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
    /// The journal does not begin with its first event.
    is_pruned: bool,
    states: BTreeMap<SubagentId, Subagent>,
    wrong: BTreeMap<SubagentId, String>,
    /// Those whose first events are not there, in a journal that was pruned.
    headless: BTreeSet<SubagentId>,
}

impl Folded {
    fn add(&mut self, event: &Event, stored: &BTreeMap<SubagentId, Subagent>) {
        let id = event.subagent;
        // Records that are gone, and those that cannot be read, have nothing to be compared with.
        let Some(record) = stored.get(&id) else { return };
        if self.wrong.contains_key(&id) || self.headless.contains(&id) {
            return;
        }
        let step = match self.states.get_mut(&id) {
            None if self.is_pruned && !matches!(event.kind, EventKind::Accepted { .. }) => {
                self.headless.insert(id);
                Ok(())
            }
            None => born(id, event.at, &event.kind).map(|state| drop(self.states.insert(id, state))),
            // Committed after the record was read.
            Some(state) if state.revision >= record.revision => Ok(()),
            Some(state) => state.apply(event.at, &event.kind),
        };
        if let Err(error) = step {
            self.wrong.insert(id, format!("event {}: {error}", event.seq));
        }
    }

    fn compare(self, stored: &BTreeMap<SubagentId, Subagent>, seen: &mut Audit) {
        for (id, record) in stored {
            let reason = match (self.wrong.get(id), self.states.get(id)) {
                (Some(reason), _) => reason.clone(),
                (None, None) if self.is_pruned => {
                    seen.pruned += 1;
                    continue;
                }
                (None, None) => String::from("it has no events"),
                (None, Some(state)) if state.revision < record.revision => {
                    format!(
                        "its events end at revision {}, the record is at {}",
                        state.revision, record.revision
                    )
                }
                (None, Some(state)) if !agree(record, state) => {
                    String::from("its events fold to another state")
                }
                (None, Some(_)) => continue,
            };
            seen.problems.push(DamagedRow { id: id.to_string(), reason });
        }
    }
}

/// True when a record says nothing else than its events. One that an older version wrote may leave out what this one
/// folds in.
fn agree(record: &Subagent, folded: &Subagent) -> bool {
    record == folded
        || match (serde_json::to_value(record), serde_json::to_value(folded)) {
            (Ok(record), Ok(folded)) => says_no_more(&record, &folded),
            _ => false,
        }
}

fn says_no_more(older: &Value, newer: &Value) -> bool {
    match (older, newer) {
        (Value::Object(older), Value::Object(newer)) => {
            older.iter().all(|(name, value)| newer.get(name).is_some_and(|newer| says_no_more(value, newer)))
        }
        (Value::Array(older), Value::Array(newer)) => {
            older.len() == newer.len()
                && older.iter().zip(newer).all(|(older, newer)| says_no_more(older, newer))
        }
        _ => older == newer,
    }
}
