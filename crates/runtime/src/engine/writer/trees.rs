//! What a step of one run means for its tree: a stop goes down, the last child's end goes up.

use subagent_core::run::{Command, Phase, Subagent};
use subagent_model::{Cause, Requester, SubagentId, Timestamp};

use super::super::batch::Batch;
use super::Writer;
use super::message::stop_command;

impl Writer {
    /// A parent whose turn is over ends with its last child.
    pub(super) fn end_waiting_parent(
        &mut self,
        batch: &mut Batch,
        parent: Option<SubagentId>,
        now: Timestamp,
    ) {
        let Some(parent) = parent else { return };
        if self.book.is_held_by_children(parent) {
            return;
        }
        let waits = |state: &Subagent| matches!(state.run.phase, Phase::Waiting { held: Some(_), .. });
        let waiting = match batch.get(parent) {
            Some(state) => waits(state),
            None => self.inner.live(parent).is_some_and(|state| waits(&state)),
        };
        if waiting && let Err(error) = self.try_act(batch, parent, Command::ChildrenEnded, None, now) {
            tracing::warn!(%parent, %error, "cannot end a run that waited for its children");
        }
    }

    /// Stops the live descendants, except detached ones and what is below them.
    pub(super) fn cascade(&mut self, batch: &mut Batch, id: SubagentId, now: Timestamp) -> Vec<SubagentId> {
        let mut stopped = Vec::new();
        let mut below = vec![id];
        while let Some(parent) = below.pop() {
            for child in self.book.live_children(parent) {
                let detached = |state: &Subagent| !state.spec.mode.is_delivered();
                let is_detached = match batch.get(child) {
                    Some(state) => detached(state),
                    None => self.inner.live(child).is_none_or(|state| detached(&state)),
                };
                if is_detached {
                    continue;
                }
                below.push(child);
                let actor = Requester::subagent(parent);
                let command = stop_command(actor.as_str(), Cause::ParentStopped);
                if let Ok(true) = self.try_act(batch, child, command, None, now) {
                    stopped.push(child);
                }
            }
        }
        stopped
    }
}
