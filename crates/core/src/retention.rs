//! What may be released, and in which order: heavy parts (logs, whole results) before records, oldest first. A sweep is
//! a value that can be shown before it is carried out. Never released: anything of a live run, anything of an unread
//! result, and a record below which something is still live.

use serde::{Deserialize, Serialize};
use subagent_model::{SubagentId, Timestamp};

use crate::tree::{Member, Tree};

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Heavy parts of a read result, in milliseconds after its end.
    pub heavy_ms: u64,
    /// The record of a read result, in milliseconds after its end.
    pub record_ms: u64,
    /// Bytes of heavy parts altogether. Above it the oldest go before their time.
    pub heavy_bytes: u64,
}

impl Default for Policy {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        Self { heavy_ms: 7 * DAY, record_ms: 90 * DAY, heavy_bytes: 10 << 30 }
    }
}

/// What a sweep looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Identity.
    pub id: SubagentId,
    /// Its parent.
    pub parent: Option<SubagentId>,
    /// When its current run was over; none while it is live.
    pub ended_at: Option<Timestamp>,
    /// A result of it waits to be consumed.
    pub unread: bool,
    /// Bytes of its heavy parts.
    pub heavy_bytes: u64,
}

/// What to release.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sweep {
    /// Whose heavy parts, oldest first. To be done before the records.
    pub heavy: Vec<SubagentId>,
    /// Whose records, children before their parents. Heavy parts of each are in `heavy`, if there are any.
    pub records: Vec<SubagentId>,
    /// Bytes that become free.
    pub bytes: u64,
}

/// Plans what to release at `now`.
pub fn sweep(now: Timestamp, policy: &Policy, summaries: &[Summary]) -> Sweep {
    let tree = Tree::new(summaries.iter().map(|summary| Member {
        id: summary.id,
        parent: summary.parent,
        live: summary.ended_at.is_none(),
        detached: false,
    }));
    let mut releasable: Vec<_> = summaries
        .iter()
        .filter_map(|summary| Some((summary.ended_at.filter(|_| !summary.unread)?, summary)))
        .collect();
    releasable.sort_by_key(|(ended_at, summary)| (*ended_at, summary.id));

    let age_ms = |ended_at: Timestamp| u64::try_from(now.since(ended_at).as_millis()).unwrap_or(u64::MAX);
    let mut held = summaries.iter().fold(0_u64, |sum, summary| sum.saturating_add(summary.heavy_bytes));
    let mut plan = Sweep::default();
    for (ended_at, summary) in releasable {
        let record_goes = age_ms(ended_at) >= policy.record_ms && !tree.has_live_descendant(summary.id);
        let heavy_goes = record_goes || age_ms(ended_at) >= policy.heavy_ms || held > policy.heavy_bytes;
        if heavy_goes && summary.heavy_bytes > 0 {
            held -= summary.heavy_bytes.min(held);
            plan.bytes = plan.bytes.saturating_add(summary.heavy_bytes);
            plan.heavy.push(summary.id);
        }
        if record_goes {
            plan.records.push(summary.id);
        }
    }
    // A crash in the middle then never leaves a child whose parent is gone.
    plan.records.sort_by_key(|id| (std::cmp::Reverse(tree.ancestors(*id).len()), *id));
    plan
}

#[cfg(test)]
mod tests {
    use super::{Policy, Summary, sweep};
    use subagent_model::{SubagentId, Timestamp};

    fn id(n: u128) -> SubagentId {
        SubagentId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_micros(ms * 1000)
    }

    fn ended(n: u128, ms: i64) -> Summary {
        Summary { id: id(n), parent: None, ended_at: Some(at(ms)), unread: false, heavy_bytes: 10 }
    }

    const POLICY: Policy = Policy { heavy_ms: 100, record_ms: 1000, heavy_bytes: 1000 };

    #[test]
    fn rec_06_heavy_parts_go_before_records() {
        let all = [ended(1, 0), ended(2, 950), ended(3, 1000)];
        let plan = sweep(at(1050), &POLICY, &all);
        assert_eq!((plan.heavy, plan.records, plan.bytes), (vec![id(1), id(2)], vec![id(1)], 20));
    }

    #[test]
    fn result_33_unread_results_and_live_runs_are_never_released() {
        let unread = Summary { unread: true, ..ended(1, 0) };
        let live = Summary { ended_at: None, ..ended(2, 0) };
        let tight = Policy { heavy_bytes: 0, ..POLICY };
        assert_eq!(sweep(at(1_000_000), &tight, &[unread, live]), super::Sweep::default());
    }

    #[test]
    fn an_ended_parent_stays_while_anything_below_is_live() {
        let child = Summary { parent: Some(id(1)), ..ended(2, 0) };
        let grandchild = Summary { parent: Some(id(2)), ended_at: None, ..ended(3, 0) };
        let plan = sweep(at(5000), &POLICY, &[ended(1, 0), child, grandchild]);
        assert_eq!((plan.heavy, plan.records), (vec![id(1), id(2)], vec![]));
        let over = Summary { ended_at: Some(at(0)), ..grandchild };
        assert_eq!(sweep(at(5000), &POLICY, &[ended(1, 0), child, over]).records, [id(3), id(2), id(1)]);
    }

    #[test]
    fn above_the_bound_the_oldest_go_first_and_no_more_than_needed() {
        let all: Vec<_> = (0_u8..5).map(|n| ended(n.into(), n.into())).collect();
        let plan = sweep(at(10), &Policy { heavy_bytes: 25, ..POLICY }, &all);
        assert_eq!((plan.heavy, plan.records), (vec![id(0), id(1), id(2)], vec![]));
    }
}
