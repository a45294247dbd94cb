//! How far a journal may be pruned: the plan of `core::retention`, looked up in a store.

use subagent_core::retention::JournalCut;
use subagent_model::Cursor;

use crate::error::StoreError;
use crate::filter::LONGEST_PAGE;
use crate::port::Store;

/// The first event that has to stay, to be given to [`Store::prune_events`]. Reads what may go, in pages; nothing is
/// changed, so it can be shown first. Events that cannot be read go with those around them.
pub fn prunable(store: &dyn Store, cut: &JournalCut) -> Result<Cursor, StoreError> {
    let first = store.first_event()?;
    let mut after = Cursor(first.0.saturating_sub(1));
    loop {
        let page = store.events(after, LONGEST_PAGE)?;
        if let Some(kept) = page.iter().find(|event| !cut.may_go(event.subagent, event.at)) {
            return Ok(kept.seq);
        }
        let Some(last) = page.last() else { return Ok(Cursor(after.0 + 1)) };
        after = last.seq;
    }
}
