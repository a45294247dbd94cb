//! The writer's book: slots taken, the queue, live children, spawn rates. All of it follows from the live states and
//! can be made anew from them; no step looks at all records.

use std::collections::{HashMap, HashSet, VecDeque};

use subagent_core::queue::Queue;
use subagent_core::run::{Phase, Subagent};
use subagent_model::{QueueReason, SubagentId, Timestamp};

/// Counts over the live states.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) running: u32,
    pub(crate) queue: Queue,
    children: HashMap<SubagentId, HashSet<SubagentId>>,
    /// Children that are told of and keep their parent from ending.
    bound: HashMap<SubagentId, u32>,
    /// Live subagents below each root.
    trees: HashMap<SubagentId, u32>,
    totals: HashMap<SubagentId, u32>,
    spawns: HashMap<SubagentId, VecDeque<Timestamp>>,
}

impl Book {
    pub(crate) fn of<'a>(live: impl IntoIterator<Item = &'a Subagent>) -> Self {
        let mut book = Self::default();
        let mut states: Vec<_> = live.into_iter().collect();
        states.sort_by_key(|state| state.id);
        for state in states {
            book.step(None, state);
        }
        book
    }

    /// Follows a state from `before` to `after`.
    pub(crate) fn step(&mut self, before: Option<&Subagent>, after: &Subagent) {
        let was_live = before.is_some_and(|state| !state.is_ended());
        match (before.is_some_and(Subagent::holds_slot), after.holds_slot()) {
            (false, true) => self.running += 1,
            (true, false) => self.running = self.running.saturating_sub(1),
            _ => {}
        }
        match &after.run.phase {
            Phase::Queued { reason, .. } => {
                let not_before = match reason {
                    QueueReason::Capacity => None,
                    QueueReason::Retry { at } => Some(*at),
                };
                self.queue.push(after.id, &after.requester, not_before);
            }
            _ => {
                self.queue.remove(after.id);
            }
        }
        if let Some(parent) = after.parent {
            let bound = after.spec.mode.is_delivered();
            match (was_live, !after.is_ended()) {
                (false, true) => {
                    *self.trees.entry(after.root).or_default() += 1;
                    self.children.entry(parent).or_default().insert(after.id);
                    *self.bound.entry(parent).or_default() += u32::from(bound);
                }
                (true, false) => {
                    if let Some(count) = self.trees.get_mut(&after.root) {
                        *count = count.saturating_sub(1);
                        if *count == 0 {
                            self.trees.remove(&after.root);
                        }
                    }
                    if let Some(children) = self.children.get_mut(&parent) {
                        children.remove(&after.id);
                        if children.is_empty() {
                            self.children.remove(&parent);
                        }
                    }
                    if let Some(count) = self.bound.get_mut(&parent) {
                        *count = count.saturating_sub(u32::from(bound));
                        if *count == 0 {
                            self.bound.remove(&parent);
                        }
                    }
                }
                _ => {}
            }
        }
        if after.is_ended() {
            self.spawns.remove(&after.id);
            self.totals.remove(&after.id);
        }
    }

    /// Live subagents of a tree, its root left out.
    pub(crate) fn live_in_tree(&self, root: SubagentId) -> u32 {
        self.trees.get(&root).copied().unwrap_or(0)
    }

    pub(crate) fn live_child_count(&self, parent: SubagentId) -> u32 {
        self.children.get(&parent).map_or(0, |children| u32::try_from(children.len()).unwrap_or(u32::MAX))
    }

    /// True while a child lives that its parent must wait for.
    pub(crate) fn is_held_by_children(&self, parent: SubagentId) -> bool {
        self.bound.contains_key(&parent)
    }

    /// Subagents of a tree so far; read from the store once, counted on from there.
    pub(crate) fn tree_total<E>(
        &mut self,
        root: SubagentId,
        read: impl FnOnce() -> Result<u32, E>,
    ) -> Result<u32, E> {
        if let Some(total) = self.totals.get(&root) {
            return Ok(*total);
        }
        let total = read()?;
        self.totals.insert(root, total);
        Ok(total)
    }

    pub(crate) fn note_spawn(&mut self, parent: SubagentId, root: SubagentId, now: Timestamp) {
        if let Some(total) = self.totals.get_mut(&root) {
            *total += 1;
        }
        self.spawns.entry(parent).or_default().push_back(now);
    }

    /// Spawns of a parent within the window before `now`.
    pub(crate) fn recent_spawns(
        &mut self,
        parent: SubagentId,
        now: Timestamp,
        window: std::time::Duration,
    ) -> u32 {
        let Some(spawns) = self.spawns.get_mut(&parent) else { return 0 };
        while spawns.front().is_some_and(|at| now.since(*at) > window) {
            spawns.pop_front();
        }
        u32::try_from(spawns.len()).unwrap_or(u32::MAX)
    }
}
