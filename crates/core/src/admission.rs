//! The one gate. Every path that makes a run passes the same ordered checks; a refusal is a value with a stable code
//! and the numbers. Being over the running limit is no refusal: that is what the queue is for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use subagent_model::{ErrorCode, Problem};

/// The limits of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Live attempts at once.
    pub running: u32,
    /// Deepest level below a root; a root is at 0.
    pub depth: u32,
    /// Live children of one parent.
    pub breadth: u32,
    /// Subagents of one tree in its whole life.
    pub tree_total: u32,
    /// Spawns of one parent within `rate_window_ms`.
    pub rate: u32,
    /// The window of `rate`, in milliseconds.
    pub rate_window_ms: u64,
    /// Queued runs.
    pub queue: u32,
    /// Free megabytes that the data directory's disk must have.
    pub disk_floor_mb: u64,
    /// Attempts of one run.
    pub max_attempts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 4,
            depth: 2,
            breadth: 8,
            tree_total: 200,
            rate: 8,
            rate_window_ms: 2_000,
            queue: 1_000,
            disk_floor_mb: 64,
            max_attempts: 3,
        }
    }
}

impl Limits {
    /// The window of the spawn rate.
    pub fn rate_window(&self) -> Duration {
        Duration::from_millis(self.rate_window_ms)
    }
}

/// What is known about the parent of a spawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentFacts {
    /// Its distance from the root.
    pub depth: u32,
    /// It takes children: not ended, not being stopped.
    pub open: bool,
    /// Its live children.
    pub live_children: u32,
    /// Subagents of its tree so far, the root included.
    pub tree_total: u32,
    /// Its spawns within the rate window.
    pub recent_spawns: u32,
}

/// What is known when a run asks for admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The parent, if there is one. Limits of trees do not bind a spawn without.
    pub parent: Option<ParentFacts>,
    /// Runs that wait.
    pub queued: u32,
    /// Free megabytes of the data directory's disk; unknown counts as enough.
    pub disk_free_mb: Option<u64>,
    /// The node takes no new work.
    pub draining: bool,
}

/// Passes or refuses, in the order of the contract.
pub fn admit(limits: &Limits, facts: &Facts) -> Result<(), Problem> {
    if facts.draining {
        return Err(Problem::new(ErrorCode::Draining, "the daemon is shutting down"));
    }
    if let Some(parent) = &facts.parent {
        if !parent.open {
            return Err(Problem::new(ErrorCode::ParentEnded, "the parent has ended or is being stopped"));
        }
        over(ErrorCode::DepthLimit, "depth", limits.depth, parent.depth)?;
        over(ErrorCode::BreadthLimit, "live children of the parent", limits.breadth, parent.live_children)?;
        over(ErrorCode::TreeLimit, "subagents of the tree", limits.tree_total, parent.tree_total)?;
        over(ErrorCode::SpawnRate, "recent spawns of the parent", limits.rate, parent.recent_spawns)?;
    }
    if let Some(free) = facts.disk_free_mb
        && free < limits.disk_floor_mb
    {
        let message = format!("the disk has {free} MB free, the floor is {} MB", limits.disk_floor_mb);
        return Err(Problem::new(ErrorCode::DiskFloor, message).with_numbers(limits.disk_floor_mb, free));
    }
    over(ErrorCode::QueueFull, "queued runs", limits.queue, facts.queued)
}

/// Refuses when no more fits: one more than `used` would be over `limit`.
fn over(code: ErrorCode, what: &str, limit: u32, used: u32) -> Result<(), Problem> {
    if used < limit {
        return Ok(());
    }
    Err(Problem::new(code, format!("{what}: {used} of {limit} used")).with_numbers(limit.into(), used.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{Facts, Limits, ParentFacts, admit};
    use subagent_model::ErrorCode;

    fn parent() -> ParentFacts {
        ParentFacts { depth: 0, open: true, live_children: 0, tree_total: 1, recent_spawns: 0 }
    }

    fn facts() -> Facts {
        Facts { parent: Some(parent()), queued: 0, disk_free_mb: Some(10_000), draining: false }
    }

    #[test]
    fn each_limit_refuses_at_its_number_and_not_before() {
        type Case = (ErrorCode, fn(&mut Facts, u32));
        let limits = Limits::default();
        let cases: [(Case, u32); 5] = [
            ((ErrorCode::DepthLimit, |f, n| f.parent.as_mut().unwrap().depth = n), limits.depth),
            ((ErrorCode::BreadthLimit, |f, n| f.parent.as_mut().unwrap().live_children = n), limits.breadth),
            ((ErrorCode::TreeLimit, |f, n| f.parent.as_mut().unwrap().tree_total = n), limits.tree_total),
            ((ErrorCode::SpawnRate, |f, n| f.parent.as_mut().unwrap().recent_spawns = n), limits.rate),
            ((ErrorCode::QueueFull, |f, n| f.queued = n), limits.queue),
        ];
        for ((code, set), limit) in cases {
            let mut facts = facts();
            set(&mut facts, limit - 1);
            admit(&limits, &facts).unwrap();
            set(&mut facts, limit);
            let refusal = admit(&limits, &facts).unwrap_err();
            assert_eq!(refusal.code, code);
            assert_eq!((refusal.limit, refusal.used), (Some(limit.into()), Some(limit.into())));
        }
    }

    #[test]
    fn the_order_is_the_contracts() {
        use ErrorCode as E;
        let limits = Limits::default();
        let mut all = facts();
        all.parent =
            Some(ParentFacts { depth: 9, open: false, live_children: 9, tree_total: 999, recent_spawns: 99 });
        all.queued = 9_999;
        all.disk_free_mb = Some(0);
        all.draining = true;
        let mut seen = vec![];
        while let Err(refusal) = admit(&limits, &all) {
            seen.push(refusal.code);
            match refusal.code {
                ErrorCode::Draining => all.draining = false,
                ErrorCode::ParentEnded => all.parent.as_mut().unwrap().open = true,
                ErrorCode::DepthLimit => all.parent.as_mut().unwrap().depth = 0,
                ErrorCode::BreadthLimit => all.parent.as_mut().unwrap().live_children = 0,
                ErrorCode::TreeLimit => all.parent.as_mut().unwrap().tree_total = 0,
                ErrorCode::SpawnRate => all.parent.as_mut().unwrap().recent_spawns = 0,
                ErrorCode::DiskFloor => all.disk_free_mb = None,
                _ => all.queued = 0,
            }
        }
        assert_eq!(
            seen,
            [
                E::Draining,
                E::ParentEnded,
                E::DepthLimit,
                E::BreadthLimit,
                E::TreeLimit,
                E::SpawnRate,
                E::DiskFloor,
                E::QueueFull
            ]
        );
    }
}
