//! The one gate. Every path that makes a run passes the same ordered checks; a refusal is a value with a stable code
//! and the numbers. Being over the running limit is no refusal: that is what the queue is for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use subagent_model::{ErrorCode, Problem};

/// The limits of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Live attempts at once. 0 lets nothing start, here and in the next two: work is held, not refused.
    pub running: u32,
    /// Of these, so many of a provider; one that is not named has no limit of its own.
    pub per_provider: BTreeMap<String, u32>,
    /// Of these, so many of a model; one that is not named has no limit of its own.
    pub per_model: BTreeMap<String, u32>,
    /// Warm subagents that are idle at once. They hold no running slot.
    pub idle: u32,
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
    /// Free megabytes of memory that the machine must have.
    pub memory_floor_mb: u64,
    /// Attempts of one run.
    pub max_attempts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 4,
            per_provider: BTreeMap::new(),
            per_model: BTreeMap::new(),
            idle: 32,
            depth: 2,
            breadth: 8,
            tree_total: 200,
            rate: 8,
            rate_window_ms: 2_000,
            queue: 1_000,
            disk_floor_mb: 64,
            memory_floor_mb: 128,
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
    /// Levels that its own bounds leave below it; none where they say nothing.
    pub levels: Option<u32>,
    /// The types that it may spawn, where it is held to some, and the one that is asked for.
    pub types: Option<TypeFacts>,
}

/// What a parent that is held to some types asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeFacts {
    /// Types that it may spawn; none at all when empty.
    pub allowed: Vec<String>,
    /// The type of the spawn.
    pub wanted: String,
}

/// What asks for admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// A new subagent.
    Spawn,
    /// The next run of an existing one: a resume or a follow-up. Its tree grows neither deeper nor larger by it. It
    /// becomes live again, so it is one more live child of its parent.
    Resume,
}

/// What a tree's budget says about one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFacts {
    /// In tokens; none without such a limit.
    pub tokens: Option<Share>,
    /// In millionths of a US dollar; none without such a limit.
    pub micro_dollars: Option<Share>,
}

/// One amount of a tree's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// What the tree has.
    pub limit: u64,
    /// What of that is used or reserved.
    pub used: u64,
    /// What the run would reserve; 0 when it has no budget of its own.
    pub wants: u64,
}

/// What is known when a run asks for admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What asks.
    pub kind: Asking,
    /// The parent, if there is one. Limits of trees do not bind a spawn without.
    pub parent: Option<ParentFacts>,
    /// The budget of the tree, if it has one.
    pub tree: Option<TreeFacts>,
    /// Runs that wait.
    pub queued: u32,
    /// A slot is free and nobody waits for it: the run would not have to wait.
    pub would_start: bool,
    /// Free megabytes of the data directory's disk; unknown counts as enough.
    pub disk_free_mb: Option<u64>,
    /// Free megabytes of memory; unknown counts as enough.
    pub memory_free_mb: Option<u64>,
    /// The node takes no new work.
    pub draining: bool,
}

/// Passes or refuses, in the order of the contract. The spec, the agent type and what the provider can do were asked
/// before.
pub fn admit(limits: &Limits, facts: &Facts) -> Result<(), Problem> {
    if facts.draining {
        return Err(Problem::new(ErrorCode::Draining, "the daemon is shutting down"));
    }
    if let Some(parent) = &facts.parent {
        if !parent.open {
            return Err(Problem::new(ErrorCode::ParentEnded, "the parent has ended or is being stopped"));
        }
        let grows = facts.kind == Asking::Spawn;
        if grows {
            if let Some(types) = &parent.types {
                of_type(types)?;
            }
            let deepest = parent
                .levels
                .map_or(limits.depth, |levels| limits.depth.min(parent.depth.saturating_add(levels)));
            over(ErrorCode::DepthLimit, "depth", deepest, parent.depth)?;
        }
        over(ErrorCode::BreadthLimit, "live children of the parent", limits.breadth, parent.live_children)?;
        if grows {
            over(ErrorCode::TreeLimit, "subagents of the tree", limits.tree_total, parent.tree_total)?;
        }
        over(ErrorCode::SpawnRate, "recent spawns of the parent", limits.rate, parent.recent_spawns)?;
    }
    if let Some(tree) = &facts.tree {
        beyond(tree.tokens, |tokens| tokens, "tokens")?;
        beyond(tree.micro_dollars, |micros| micros.div_ceil(10_000), "cents")?;
    }
    under(ErrorCode::DiskFloor, "the disk", limits.disk_floor_mb, facts.disk_free_mb)?;
    under(ErrorCode::MemoryPressure, "the memory", limits.memory_floor_mb, facts.memory_free_mb)?;
    if facts.would_start {
        return Ok(());
    }
    over(ErrorCode::QueueFull, "queued runs", limits.queue, facts.queued)
}

/// Refuses a type that the parent may not spawn. Case does not matter in names of types.
fn of_type(TypeFacts { allowed, wanted }: &TypeFacts) -> Result<(), Problem> {
    let folded = wanted.to_lowercase();
    if allowed.iter().any(|name| name.to_lowercase() == folded) {
        return Ok(());
    }
    let list = if allowed.is_empty() { String::from("none") } else { allowed.join(", ") };
    let message = format!("the parent may not spawn the type {wanted:?}; it may spawn: {list}");
    Err(Problem::new(ErrorCode::TypeNotAllowed, message).with_ids(allowed.clone()))
}

/// Refuses when nothing of a tree's budget is left, or less than the run would reserve. Numbers are told in `unit`.
fn beyond(share: Option<Share>, told: fn(u64) -> u64, unit: &str) -> Result<(), Problem> {
    let Some(Share { limit, used, wants }) = share else { return Ok(()) };
    let left = limit.saturating_sub(used);
    if left > 0 && wants <= left {
        return Ok(());
    }
    let (limit, used, wants) = (told(limit), told(used), told(wants));
    let message = format!("{unit} of the tree: {used} of {limit} used or reserved, {wants} asked for");
    Err(Problem::new(ErrorCode::TreeBudget, message).with_numbers(limit, used))
}

/// Refuses when less is free than the floor.
fn under(code: ErrorCode, what: &str, floor: u64, free: Option<u64>) -> Result<(), Problem> {
    match free {
        Some(free) if free < floor => {
            let message = format!("{what} has {free} MB free, the floor is {floor} MB");
            Err(Problem::new(code, message).with_numbers(floor, free))
        }
        _ => Ok(()),
    }
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
    use super::{Asking, Facts, Limits, ParentFacts, Share, TreeFacts, TypeFacts, admit};
    use subagent_model::ErrorCode;

    fn parent() -> ParentFacts {
        ParentFacts {
            depth: 0,
            open: true,
            live_children: 0,
            tree_total: 1,
            recent_spawns: 0,
            levels: None,
            types: None,
        }
    }

    fn types(allowed: &[&str], wanted: &str) -> TypeFacts {
        let allowed = allowed.iter().map(|name| (*name).to_owned()).collect();
        TypeFacts { allowed, wanted: wanted.to_owned() }
    }

    fn facts() -> Facts {
        Facts {
            kind: Asking::Spawn,
            parent: Some(parent()),
            tree: None,
            queued: 0,
            would_start: false,
            disk_free_mb: Some(10_000),
            memory_free_mb: Some(10_000),
            draining: false,
        }
    }

    fn tokens(limit: u64, used: u64, wants: u64) -> TreeFacts {
        TreeFacts { tokens: Some(Share { limit, used, wants }), micro_dollars: None }
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
        all.parent = Some(ParentFacts {
            depth: 9,
            open: false,
            live_children: 9,
            tree_total: 999,
            recent_spawns: 99,
            levels: None,
            types: Some(types(&[], "x")),
        });
        all.queued = 9_999;
        all.disk_free_mb = Some(0);
        all.memory_free_mb = Some(0);
        all.tree = Some(tokens(1, 1, 0));
        all.draining = true;
        let mut seen = vec![];
        while let Err(refusal) = admit(&limits, &all) {
            seen.push(refusal.code);
            match refusal.code {
                ErrorCode::Draining => all.draining = false,
                ErrorCode::ParentEnded => all.parent.as_mut().unwrap().open = true,
                ErrorCode::TypeNotAllowed => all.parent.as_mut().unwrap().types = None,
                ErrorCode::DepthLimit => all.parent.as_mut().unwrap().depth = 0,
                ErrorCode::BreadthLimit => all.parent.as_mut().unwrap().live_children = 0,
                ErrorCode::TreeLimit => all.parent.as_mut().unwrap().tree_total = 0,
                ErrorCode::SpawnRate => all.parent.as_mut().unwrap().recent_spawns = 0,
                ErrorCode::TreeBudget => all.tree = None,
                ErrorCode::DiskFloor => all.disk_free_mb = None,
                ErrorCode::MemoryPressure => all.memory_free_mb = None,
                _ => all.queued = 0,
            }
        }
        assert_eq!(
            seen,
            [
                E::Draining,
                E::ParentEnded,
                E::TypeNotAllowed,
                E::DepthLimit,
                E::BreadthLimit,
                E::TreeLimit,
                E::SpawnRate,
                E::TreeBudget,
                E::DiskFloor,
                E::MemoryPressure,
                E::QueueFull
            ]
        );
    }

    #[test]
    fn perm_06_a_parent_spawns_the_types_that_it_may_and_no_deeper_than_its_bounds() {
        let limits = Limits { depth: 5, ..Limits::default() };
        let asked = |kind, levels, types| {
            let parent = ParentFacts { depth: 2, levels, types, ..parent() };
            admit(&limits, &Facts { kind, parent: Some(parent), ..facts() })
        };
        asked(Asking::Spawn, None, Some(types(&["Explore"], "explore"))).unwrap();
        let refusal = asked(Asking::Spawn, None, Some(types(&["explore", "plan"], "worker"))).unwrap_err();
        assert_eq!((refusal.code, refusal.ids.len()), (ErrorCode::TypeNotAllowed, 2));
        assert!(refusal.message.contains("worker") && refusal.message.contains("explore, plan"));
        assert_eq!(
            asked(Asking::Spawn, None, Some(types(&[], "worker"))).unwrap_err().code,
            ErrorCode::TypeNotAllowed
        );
        asked(Asking::Spawn, Some(1), None).unwrap();
        let refusal = asked(Asking::Spawn, Some(0), None).unwrap_err();
        assert_eq!((refusal.code, refusal.limit, refusal.used), (ErrorCode::DepthLimit, Some(2), Some(2)));
        // The limit of the node counts all the same.
        let deep = ParentFacts { depth: 5, levels: Some(9), ..parent() };
        let refusal = admit(&limits, &Facts { parent: Some(deep), ..facts() }).unwrap_err();
        assert_eq!((refusal.limit, refusal.used), (Some(5), Some(5)));
        // The next run of a child that there is makes the tree no larger.
        asked(Asking::Resume, Some(0), Some(types(&[], "worker"))).unwrap();
    }

    #[test]
    fn queue_01_without_a_queue_a_run_that_can_start_is_taken() {
        let limits = Limits { queue: 0, ..Limits::default() };
        assert_eq!(admit(&limits, &facts()).unwrap_err().code, ErrorCode::QueueFull);
        admit(&limits, &Facts { would_start: true, ..facts() }).unwrap();
    }

    #[test]
    fn queue_09_a_resume_passes_the_same_gate_but_its_tree_does_not_grow() {
        use ErrorCode as E;
        let limits = Limits::default();
        let refused = |change: fn(&mut Facts)| {
            let mut facts = Facts { kind: Asking::Resume, ..facts() };
            change(&mut facts);
            admit(&limits, &facts).err().map(|refusal| refusal.code)
        };
        assert_eq!(refused(|f| f.parent.as_mut().unwrap().depth = 99), None);
        assert_eq!(refused(|f| f.parent.as_mut().unwrap().tree_total = 9_999), None);
        assert_eq!(refused(|f| f.parent.as_mut().unwrap().live_children = 8), Some(E::BreadthLimit));
        assert_eq!(refused(|f| f.parent.as_mut().unwrap().recent_spawns = 8), Some(E::SpawnRate));
        assert_eq!(refused(|f| f.parent.as_mut().unwrap().open = false), Some(E::ParentEnded));
        assert_eq!(refused(|f| f.tree = Some(tokens(10, 10, 0))), Some(E::TreeBudget));
        assert_eq!(refused(|f| f.queued = 1_000), Some(E::QueueFull));
        assert_eq!(refused(|f| f.draining = true), Some(E::Draining));
    }

    #[test]
    fn queue_14_a_tree_refuses_when_nothing_is_left_or_less_than_is_asked_for() {
        let asked = |tree| admit(&Limits::default(), &Facts { tree: Some(tree), ..facts() });
        asked(tokens(1_000, 700, 300)).unwrap();
        asked(tokens(1_000, 999, 0)).unwrap();
        for (used, wants) in [(700, 301), (1_000, 0), (1_200, 0)] {
            let refusal = asked(tokens(1_000, used, wants)).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::TreeBudget);
            assert_eq!((refusal.limit, refusal.used), (Some(1_000), Some(used)));
        }
        let money = Share { limit: 5_000_000, used: 4_500_000, wants: 600_000 };
        let refusal = asked(TreeFacts { tokens: None, micro_dollars: Some(money) }).unwrap_err();
        assert_eq!(refusal.message, "cents of the tree: 450 of 500 used or reserved, 60 asked for");
    }

    #[test]
    fn queue_12_floors_refuse_below_and_what_is_unknown_is_enough() {
        let limits = Limits::default();
        for (free, fits) in [(Some(127), false), (Some(128), true), (None, true)] {
            let answer = admit(&limits, &Facts { memory_free_mb: free, ..facts() });
            assert_eq!(answer.is_ok(), fits, "{free:?}");
        }
        let refusal = admit(&limits, &Facts { memory_free_mb: Some(5), ..facts() }).unwrap_err();
        assert_eq!((refusal.code, refusal.limit), (ErrorCode::MemoryPressure, Some(128)));
    }

    #[test]
    fn limits_are_read_with_defaults_and_without_unknown_names() {
        let read = |text| serde_json::from_str::<Limits>(text);
        assert_eq!(read("{}").unwrap(), Limits::default());
        let some = read(r#"{"per_provider": {"claude": 2}, "per_model": {"big": 1}}"#).unwrap();
        assert_eq!((some.per_provider["claude"], some.per_model["big"], some.idle), (2, 1, 32));
        assert!(read(r#"{"per_agent": {}}"#).is_err());
    }
}
