//! Lists, waits and events, as far as the caller may see.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::run::Subagent;
use subagent_core::snapshot::record;
use subagent_model::request::{ListFilter, Page, WaitReply};
use subagent_model::{Cursor, ErrorCode, Problem, RunNumber, SubagentId};
use subagent_store::Store;

use super::super::writer::Message;
use super::super::{Engine, Inner};
use super::authority::{Access, is_person, subagent_of};
use super::{LARGEST_PAGE, not_found, problem, waited};
use crate::runtime::{Caller, EventPage};

impl Engine {
    pub(super) fn list_for(&self, caller: &Caller, filter: ListFilter) -> Result<Page, Problem> {
        if is_person(&caller.requester) {
            return self.list_all(filter);
        }
        // Others see little of what there is: their pages are filled from as many pages as it takes.
        let limit = filter.limit.unwrap_or(50).clamp(1, LARGEST_PAGE) as usize;
        let root = match subagent_of(&caller.requester) {
            Some(own) => Some(self.known(own)?.root),
            None => filter.root,
        };
        let mut may_see = self.judge(caller);
        let mut page = Page { items: Vec::new(), next: None, damaged: Vec::new() };
        let mut before = filter.before;
        loop {
            let next = ListFilter { before, root, limit: Some(LARGEST_PAGE), ..filter.clone() };
            let all = self.list_all(next)?;
            let own = subagent_of(&caller.requester);
            for record in all.items {
                // Itself is no part of what is below it.
                if own != Some(record.id) && may_see(record.id) {
                    if page.items.len() == limit {
                        page.next = page.items.last().map(|record| record.id);
                        return Ok(page);
                    }
                    page.items.push(record);
                }
            }
            before = all.next;
            if before.is_none() {
                return Ok(page);
            }
        }
    }

    fn list_all(&self, filter: ListFilter) -> Result<Page, Problem> {
        let limit = filter.limit.unwrap_or(50).clamp(1, LARGEST_PAGE);
        let filter = ListFilter { limit: Some(limit), ..filter };
        let durable = self.inner.store.list(&filter).map_err(problem)?;
        let volatile = self.inner.memory.list(&filter).map_err(problem)?;
        let more = durable.next.is_some() || volatile.next.is_some();
        let mut items: Vec<_> = durable.items.into_iter().chain(volatile.items).collect();
        items.sort_unstable_by_key(|state| std::cmp::Reverse(state.id));
        let cut = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().map(|state| state.id).filter(|_| more || cut);
        Ok(Page { items: items.iter().map(|state| record(state)).collect(), next, damaged: durable.damaged })
    }

    pub(super) async fn wait_for(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: RunNumber,
        wait: Duration,
    ) -> Result<WaitReply, Problem> {
        let ended = self.inner.waiters.register(id, run);
        // Looked at after registering: the end is either in the state or still to come.
        let state = self.for_caller(caller, id, Access::See)?;
        if state.duty(run).is_none() {
            return Err(not_found(format!("{id} with a run {run}")));
        }
        if state.run.number > run || state.is_ended() {
            return Ok(waited(&state, run, true));
        }
        let _lent = self.lend(caller, &state);
        if let Ok(Ok(state)) = tokio::time::timeout(wait, ended).await {
            return Ok(waited(&state, run, true));
        }
        // The time ran out, or the engine is going down: either way the run goes on.
        let state = self.known(id)?;
        let ended = state.run.number > run || state.is_ended();
        Ok(waited(&state, run, ended))
    }

    /// A live subagent that waits for what is below it lends its slot as long as the value lives.
    pub(super) fn lend(&self, caller: &Caller, state: &Arc<Subagent>) -> Option<Lent> {
        let lender = subagent_of(&caller.requester)?;
        if lender == state.id || !self.is_theirs(caller, state, Access::Control).unwrap_or(false) {
            return None;
        }
        self.inner.send(Message::CallWaits(lender, true));
        Some(Lent { inner: Arc::clone(&self.inner), lender })
    }

    pub(super) async fn read_events(
        &self,
        caller: &Caller,
        after: Cursor,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<EventPage, Problem> {
        let limit = limit.clamp(1, LARGEST_PAGE);
        let until = wait.map(|wait| tokio::time::Instant::now() + wait);
        let mut may_see = self.judge(caller);
        let head = self.inner.feed.head();
        // What is committed can be read a moment before it is told.
        if after > head
            && self.inner.store.events(Cursor(after.0.saturating_sub(1)), 1).map_err(problem)?.is_empty()
        {
            // Nothing would come until it is reached, and then a part would be missing: it is of another history.
            let message = format!("there is no event {after} yet: the newest is {head}");
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        }
        let mut after = after;
        loop {
            let left = until.map(|until| until.saturating_duration_since(tokio::time::Instant::now()));
            let events =
                self.inner.feed.read(&self.inner.store, after, limit, left).await.map_err(problem)?;
            let Some(last) = events.last().map(|event| event.seq) else {
                return Ok(EventPage { items: Vec::new(), next: after });
            };
            if events.first().is_some_and(|first| first.seq.0 > after.0 + 1) {
                self.not_released(after)?;
            }
            let items: Vec<_> = events.into_iter().filter(|event| may_see(event.subagent)).collect();
            let patient = until.is_some_and(|until| tokio::time::Instant::now() < until);
            if !items.is_empty() || !patient {
                return Ok(EventPage { items, next: last });
            }
            after = last;
        }
    }

    /// Refuses a position behind which events were released.
    fn not_released(&self, after: Cursor) -> Result<(), Problem> {
        let first = self.inner.store.first_event().map_err(problem)?;
        if after.0 + 1 >= first.0 {
            return Ok(());
        }
        let from = first.0.saturating_sub(1);
        let message = format!("events up to {from} were released; go on after {from}");
        Err(Problem::new(ErrorCode::CursorGone, message).with_numbers(after.0, from))
    }
}

/// A loan of a slot.
pub(super) struct Lent {
    inner: Arc<Inner>,
    lender: SubagentId,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.inner.send(Message::CallWaits(self.lender, false));
    }
}
