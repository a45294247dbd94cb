//! What a list filter asks for: one reading of it for every store.

use subagent_core::run::Subagent;
use subagent_model::Timestamp;
use subagent_model::request::ListFilter;

/// The length of a page when none is asked for.
pub const DEFAULT_PAGE: u32 = 50;

/// The longest page.
pub const LONGEST_PAGE: u32 = 1_000;

/// The length of the page that is asked for.
pub fn page_len(filter: &ListFilter) -> usize {
    filter.limit.unwrap_or(DEFAULT_PAGE).clamp(1, LONGEST_PAGE) as usize
}

/// When the current run was over, of what is not live.
pub fn ended_at(state: &Subagent) -> Option<Timestamp> {
    state.ended().filter(|_| !state.is_live()).map(|ended| ended.completed_at)
}

/// True when `state` is asked for; the place in the listing aside.
pub fn matches(filter: &ListFilter, state: &Subagent) -> bool {
    (filter.status.is_empty() || filter.status.contains(&state.status()))
        && (!filter.live || !state.status().is_final())
        && filter.root.is_none_or(|root| state.root == root)
        && filter.parent.is_none_or(|parent| state.parent == Some(parent))
        && filter.requester.as_ref().is_none_or(|requester| state.requester.as_str() == requester)
}
