//! What may be released, and in which order: heavy parts (logs, whole results) before records, oldest first, and the
//! oldest part of the journal once nobody needs it. A sweep is a value that can be shown before it is carried out. Never
//! released: anything of a live run, anything of an unread result, and a record below which another one stays.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use subagent_model::{SubagentId, Timestamp};

use crate::tree::{Member, Tree};

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Heavy parts of a read result, in milliseconds after its end or after it was read, whichever was later.
    pub heavy_ms: u64,
    /// The record of a read result, in milliseconds after the same moment.
    pub record_ms: u64,
    /// Bytes of heavy parts altogether. Above it the oldest go before their time.
    pub heavy_bytes: u64,
    /// Events, in milliseconds after they were written. Those of a subagent stay together while it is younger.
    pub events_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        Self { heavy_ms: 7 * DAY, record_ms: 90 * DAY, heavy_bytes: 10 << 30, events_ms: 90 * DAY }
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
    /// When it changed last: not before its end. A receipt is a change.
    pub updated_at: Timestamp,
    /// A result of it waits to be consumed.
    pub unread: bool,
    /// Bytes of its heavy parts.
    pub heavy_bytes: u64,
}

impl Summary {
    /// Since when nothing has happened to it; none while it is live or owes a result.
    fn over_since(&self) -> Option<Timestamp> {
        self.ended_at.filter(|_| !self.unread).map(|ended_at| ended_at.max(self.updated_at))
    }
}

/// What to release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Whose heavy parts, oldest first. To be done before the records.
    pub heavy: Vec<SubagentId>,
    /// Whose records, children before their parents. Heavy parts of each are in `heavy`, if there are any.
    pub records: Vec<SubagentId>,
    /// Bytes that become free.
    pub bytes: u64,
    /// How far the journal may go. To be done after the records.
    pub journal: JournalCut,
}

impl Sweep {
    /// True when neither texts nor records go. Of the journal this says nothing.
    pub fn is_empty(&self) -> bool {
        self.heavy.is_empty() && self.records.is_empty()
    }
}

/// Which events may go: the longest stretch from the first one on of which each may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalCut {
    /// Only events that were written up to then.
    pub up_to: Timestamp,
    /// Only events of others: these are live, unread, or have changed lately, and keep their events from birth on.
    pub held: BTreeSet<SubagentId>,
}

impl JournalCut {
    /// True when an event of `subagent` that was written at `at` may go, those before it provided.
    pub fn may_go(&self, subagent: SubagentId, at: Timestamp) -> bool {
        at <= self.up_to && !self.held.contains(&subagent)
    }
}

/// Plans what to release at `now`.
pub fn sweep(now: Timestamp, policy: &Policy, summaries: &[Summary]) -> Sweep {
    let records = records(now, policy, summaries);
    let gone: BTreeSet<_> = records.iter().copied().collect();
    let mut releasable: Vec<_> =
        summaries.iter().filter_map(|summary| Some((summary.over_since()?, summary))).collect();
    releasable.sort_by_key(|(since, summary)| (*since, summary.id));

    let mut held = summaries.iter().fold(0_u64, |sum, summary| sum.saturating_add(summary.heavy_bytes));
    let mut plan =
        Sweep { heavy: Vec::new(), records, bytes: 0, journal: journal(now, policy, summaries, &gone) };
    for (since, summary) in releasable {
        let goes =
            gone.contains(&summary.id) || age_ms(now, since) >= policy.heavy_ms || held > policy.heavy_bytes;
        if goes && summary.heavy_bytes > 0 {
            held -= summary.heavy_bytes.min(held);
            plan.bytes = plan.bytes.saturating_add(summary.heavy_bytes);
            plan.heavy.push(summary.id);
        }
    }
    plan
}

/// Whose records go: each whose time is over and below which nothing stays, children before their parents. A crash in
/// the middle then never leaves a child whose parent is gone. What stands in a loop of parent links stays: it is damaged.
fn records(now: Timestamp, policy: &Policy, summaries: &[Summary]) -> Vec<SubagentId> {
    let tree = Tree::new(summaries.iter().map(|summary| Member {
        id: summary.id,
        parent: summary.parent,
        live: summary.ended_at.is_none(),
        detached: false,
    }));
    let mut kept: BTreeSet<_> = tree.looped().into_iter().collect();
    let mut deepest_first: Vec<_> =
        summaries.iter().map(|summary| (Reverse(tree.ancestors(summary.id).len()), summary)).collect();
    deepest_first.sort_by_key(|(depth, summary)| (*depth, summary.id));
    let mut records = Vec::new();
    for (_, summary) in deepest_first {
        let over = summary.over_since().is_some_and(|since| age_ms(now, since) >= policy.record_ms);
        if over && !kept.contains(&summary.id) {
            records.push(summary.id);
        } else {
            kept.extend(summary.parent);
        }
    }
    records
}

fn journal(
    now: Timestamp,
    policy: &Policy,
    summaries: &[Summary],
    gone: &BTreeSet<SubagentId>,
) -> JournalCut {
    let is_old =
        |summary: &Summary| summary.over_since().is_some_and(|since| age_ms(now, since) >= policy.events_ms);
    let held = summaries.iter().filter(|summary| !gone.contains(&summary.id) && !is_old(summary));
    JournalCut {
        up_to: before(now, Duration::from_millis(policy.events_ms)),
        held: held.map(|summary| summary.id).collect(),
    }
}

fn age_ms(now: Timestamp, since: Timestamp) -> u64 {
    u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX)
}

fn before(now: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(micros))
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
        Summary {
            id: id(n),
            parent: None,
            ended_at: Some(at(ms)),
            updated_at: at(ms),
            unread: false,
            heavy_bytes: 10,
        }
    }

    const POLICY: Policy = Policy { heavy_ms: 100, record_ms: 1000, heavy_bytes: 1000, events_ms: 500 };

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
        let plan = sweep(at(1_000_000), &tight, &[unread, live]);
        assert!(plan.is_empty() && plan.bytes == 0, "{plan:?}");
        assert!([id(1), id(2)].iter().all(|held| !plan.journal.may_go(*held, at(0))));
    }

    #[test]
    fn result_33_what_was_read_late_stays_as_long_as_what_was_read_at_once() {
        let read = Summary { updated_at: at(5000), ..ended(1, 0) };
        assert!(sweep(at(5099), &POLICY, &[read]).is_empty());
        assert_eq!(sweep(at(5100), &POLICY, &[read]).heavy, [id(1)]);
        assert_eq!(sweep(at(5999), &POLICY, &[read]).records, []);
        assert_eq!(sweep(at(6000), &POLICY, &[read]).records, [id(1)]);
    }

    #[test]
    fn an_ended_parent_stays_while_anything_below_stays() {
        let child = Summary { parent: Some(id(1)), ..ended(2, 0) };
        let grandchild = Summary { parent: Some(id(2)), ..ended(3, 0) };
        let family = |grandchild| [ended(1, 0), child, grandchild];
        assert_eq!(sweep(at(5000), &POLICY, &family(grandchild)).records, [id(3), id(2), id(1)]);
        let live = Summary { ended_at: None, ..grandchild };
        let unread = Summary { unread: true, ..grandchild };
        let young = Summary { updated_at: at(4990), ..grandchild };
        for kept in [live, unread, young] {
            let plan = sweep(at(5000), &POLICY, &family(kept));
            assert_eq!((plan.heavy, plan.records), (vec![id(1), id(2)], vec![]), "{kept:?}");
        }
    }

    #[test]
    fn rec_10_a_loop_of_parents_ends_the_walk_and_stays() {
        let one = Summary { parent: Some(id(2)), ..ended(1, 0) };
        let two = Summary { parent: Some(id(1)), ..ended(2, 0) };
        let below = Summary { parent: Some(id(2)), ..ended(3, 0) };
        let own = Summary { parent: Some(id(4)), ..ended(4, 0) };
        let plan = sweep(at(5000), &POLICY, &[one, two, below, own]);
        assert_eq!((plan.heavy.len(), plan.records), (4, vec![id(3)]));
    }

    #[test]
    fn above_the_bound_the_oldest_go_first_and_no_more_than_needed() {
        let all: Vec<_> = (0_u8..5).map(|n| ended(n.into(), n.into())).collect();
        let plan = sweep(at(10), &Policy { heavy_bytes: 25, ..POLICY }, &all);
        assert_eq!((plan.heavy, plan.records), (vec![id(0), id(1), id(2)], vec![]));
    }

    #[test]
    fn rec_09_events_go_once_they_are_old_and_nobody_needs_them() {
        let all = [ended(1, 100), ended(2, 101), Summary { ended_at: None, ..ended(3, 0) }, ended(4, 600)];
        let cut = sweep(at(600), &POLICY, &all).journal;
        assert_eq!((cut.up_to, cut.held.clone()), (at(100), [id(2), id(3), id(4)].into()));
        assert!(cut.may_go(id(1), at(100)) && !cut.may_go(id(1), at(101)));
        assert!(!cut.may_go(id(2), at(0)), "its events stay together while it is young");
        assert!(cut.may_go(id(999), at(99)), "of a record that is gone");
        // A record that goes in the same sweep holds nothing, however young.
        let brief = Policy { record_ms: 0, ..POLICY };
        assert_eq!(sweep(at(600), &brief, &all).journal.held, [id(3)].into());
        // No clock reaches before the beginning of time.
        let ever = Policy { events_ms: u64::MAX, ..POLICY };
        assert!(!sweep(at(600), &ever, &all).journal.may_go(id(999), at(0)));
    }
}
