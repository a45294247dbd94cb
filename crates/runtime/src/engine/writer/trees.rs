//! What a step of one run means for its tree: a stop goes down, the last child's end goes up.

use std::sync::Arc;

use subagent_core::run::{Command, Phase, Subagent};
use subagent_model::{ActivityOn, Cause, Mode, Requester, SubagentId, Timestamp};

use super::super::batch::Batch;
use super::Writer;
use super::message::stop_command;

/// More levels than any tree has.
const DEEPEST: usize = 1_000;

impl Writer {
    /// A parent whose turn is over goes on or ends with its last child.
    pub(super) fn tell_waiting_parent(
        &mut self,
        batch: &mut Batch,
        parent: Option<SubagentId>,
        now: Timestamp,
    ) {
        let Some(parent) = parent else { return };
        if self.book.is_held_by_children(parent) {
            return;
        }
        let waits = |state: &Subagent| {
            matches!(state.run.phase, Phase::Waiting { on: ActivityOn::Children, held: Some(_), .. })
        };
        let waiting = match batch.get(parent) {
            Some(state) => waits(state),
            None => self.inner.live(parent).is_some_and(|state| waits(&state)),
        };
        if !waiting {
            return;
        }
        let unread = self.unread_of(batch, parent, now);
        if let Err(error) = self.try_act(batch, parent, Command::ChildrenEnded { unread }, None, now) {
            tracing::warn!(%parent, %error, "cannot end a run that waited for its children");
        }
    }

    /// Stops the live descendants, except detached ones and what is below them. One below an ancestor that has ended is a
    /// descendant all the same.
    pub(super) fn cascade(&mut self, batch: &mut Batch, id: SubagentId, now: Timestamp) -> Vec<SubagentId> {
        let Some(root) = self.newest(batch, id).map(|state| state.root) else { return Vec::new() };
        if self.book.live_in_tree(root) == 0 {
            return Vec::new();
        }
        let of_tree = |state: &Subagent| state.root == root && state.id != id && state.is_live();
        let mut family: Vec<_> = self.inner.live_where(of_tree).iter().map(|state| state.id).collect();
        family.extend(batch.states().filter(|state| of_tree(state)).map(|state| state.id));
        // Ids sort by birth: parents come before their children.
        family.sort_unstable();
        family.dedup();
        let mut stopped = Vec::new();
        for child in family {
            let Some(parent) = self.bound_below(batch, child, id) else { continue };
            let command = stop_command(Requester::subagent(parent).as_str(), Cause::ParentStopped);
            if let Ok(true) = self.try_act(batch, child, command, None, now) {
                stopped.push(child);
            }
        }
        stopped
    }

    /// The turn of a parent was interrupted: what it waited for is stopped, and what is in the background where that was
    /// set.
    pub(super) fn interrupt_children(
        &mut self,
        batch: &mut Batch,
        id: SubagentId,
        by: &Requester,
        now: Timestamp,
    ) {
        let background = self.inner.config.interrupt_stops_background;
        let goes = |state: &Subagent| {
            let fits = match state.spec.mode {
                Mode::Sync => true,
                Mode::Async | Mode::Warm => background,
                Mode::Detached => false,
            };
            state.parent == Some(id) && state.is_live() && fits
        };
        let mut children: Vec<_> = self.inner.live_where(goes).iter().map(|state| state.id).collect();
        children.extend(batch.states().filter(|state| goes(state)).map(|state| state.id));
        children.sort_unstable();
        children.dedup();
        for child in children {
            let command = stop_command(by.as_str(), Cause::ParentInterrupted);
            if let Ok(true) = self.try_act(batch, child, command, None, now) {
                self.cascade(batch, child, now);
            }
        }
    }

    /// The parent of `child`, if `ancestor` is above it and nothing between them is detached.
    fn bound_below(&mut self, batch: &Batch, child: SubagentId, ancestor: SubagentId) -> Option<SubagentId> {
        let first = self.newest(batch, child)?.parent?;
        let mut at = child;
        // A tree is no deeper than its limit; a damaged one must not loop.
        for _ in 0..DEEPEST {
            let state = self.newest(batch, at)?;
            if !state.spec.mode.is_delivered() {
                return None;
            }
            let parent = state.parent?;
            if parent == ancestor {
                return Some(first);
            }
            at = parent;
        }
        None
    }

    /// True when `ancestor` is above `id`.
    pub(super) fn is_below(&mut self, batch: &Batch, id: SubagentId, ancestor: SubagentId) -> bool {
        let mut at = id;
        for _ in 0..DEEPEST {
            match self.newest(batch, at).and_then(|state| state.parent) {
                Some(parent) if parent == ancestor => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }

    /// A subagent as it will be after this round.
    pub(super) fn newest(&mut self, batch: &Batch, id: SubagentId) -> Option<Arc<Subagent>> {
        match batch.get(id) {
            Some(state) => Some(Arc::new(state.clone())),
            None => self.committed(id).ok(),
        }
    }
}
