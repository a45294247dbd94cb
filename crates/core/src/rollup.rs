//! Use rolled up: what a subagent and everything below it used, each member once. Use that nobody reported is unknown and
//! stays absent. What may still be spent is `budget`'s.
//!
//! What a provider reports of its own helpers is a part of the report of the one that started them, and no member here.

use std::collections::{BTreeMap, BTreeSet};

use subagent_model::request::UsageReport;
use subagent_model::{SubagentId, Usage};

use crate::run::Subagent;
use crate::tree::{Member, Tree};

/// One member of a tree with its use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Used {
    /// Its place in the tree.
    pub member: Member,
    /// The root that it names.
    pub root: SubagentId,
    /// All its runs together, failed attempts among them; `None` when nothing was reported.
    pub usage: Option<Usage>,
}

impl From<&Subagent> for Used {
    fn from(state: &Subagent) -> Self {
        let member = Member {
            id: state.id,
            parent: state.parent,
            live: state.is_live(),
            detached: !state.spec.mode.is_delivered(),
        };
        Self { member, root: state.root, usage: state.usage }
    }
}

/// The use of `id` and of what is below it among `members`. Of two with the same id the last counts. Below a root is
/// whatever names it as its root, though a link between them may be lost.
pub fn roll_up(id: SubagentId, members: impl IntoIterator<Item = Used>) -> UsageReport {
    let members: BTreeMap<_, _> = members.into_iter().map(|used| (used.member.id, used)).collect();
    let tree = Tree::new(members.values().map(|used| used.member));
    let named = members.values().filter(|used| used.root == id).map(|used| used.member.id);
    let mut below: BTreeSet<_> = tree.subtree(id).into_iter().chain(named).collect();
    below.remove(&id);
    let own = members.get(&id).and_then(|used| used.usage);
    let sum = below.iter().filter_map(|id| members.get(id)?.usage).reduce(Usage::plus);
    UsageReport {
        id,
        own,
        below: sum,
        total: own.into_iter().chain(sum).reduce(Usage::plus),
        members: u32::try_from(below.len()).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::{Used, roll_up};
    use crate::tree::Member;
    use subagent_model::{SubagentId, Usage};

    fn id(n: u128) -> SubagentId {
        SubagentId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn tokens(input: impl Into<Option<u64>>) -> Option<Usage> {
        input.into().map(|input| Usage { input, total: input, ..Usage::default() })
    }

    fn used(n: u128, parent: Option<u128>, usage: Option<Usage>) -> Used {
        let member = Member { id: id(n), parent: parent.map(id), live: false, detached: n == 3 };
        Used { member, root: id(1), usage }
    }

    /// 1 ─ 2 ─ 4; 1 ─ 3 (detached) ─ 5.
    fn family() -> Vec<Used> {
        vec![
            used(1, None, tokens(1)),
            used(2, Some(1), tokens(10)),
            used(3, Some(1), tokens(100)),
            used(4, Some(2), tokens(1_000)),
            used(5, Some(3), tokens(10_000)),
        ]
    }

    #[test]
    fn rec_14_use_is_rolled_up_to_each_level_once() {
        for (at, own, below, members) in
            [(1, 1, Some(11_110), 4), (2, 10, Some(1_000), 1), (3, 100, Some(10_000), 1), (4, 1_000, None, 0)]
        {
            let report = roll_up(id(at), family());
            assert_eq!(report.id, id(at));
            assert_eq!((report.own, report.members), (tokens(own), members), "{at}");
            assert_eq!(report.below, tokens(below), "{at}");
            assert_eq!(report.total, tokens(own + below.unwrap_or(0)), "{at}");
        }
    }

    #[test]
    fn rec_14_of_two_with_the_same_id_the_last_counts() {
        let twice = family().into_iter().chain([used(2, Some(1), tokens(20))]);
        let report = roll_up(id(1), twice);
        assert_eq!((report.below, report.members), (tokens(11_120), 4));
    }

    #[test]
    fn rec_10_broken_and_circular_links_count_nobody_twice() {
        // 4 hangs on one that is not stored any more; the root it names has it all the same.
        let mut members = family();
        members.retain(|used| used.member.id != id(2));
        let report = roll_up(id(1), members);
        assert_eq!((report.below, report.members), (tokens(11_100), 3));
        let circle = [used(6, Some(7), tokens(1)), used(7, Some(6), tokens(2)), used(7, Some(6), tokens(2))];
        let report = roll_up(id(6), circle);
        assert_eq!(
            (report.own, report.below, report.total, report.members),
            (tokens(1), tokens(2), tokens(3), 1)
        );
    }

    #[test]
    fn rec_15_what_nobody_reported_is_unknown() {
        let silent = |n, parent| used(n, parent, None);
        let report = roll_up(id(1), [silent(1, None), silent(2, Some(1))]);
        assert_eq!((report.own, report.below, report.total, report.members), (None, None, None, 1));
        let report = roll_up(id(1), [silent(1, None), silent(2, Some(1)), used(3, Some(1), tokens(3))]);
        assert_eq!((report.own, report.below, report.total), (None, tokens(3), tokens(3)));
        let free = Some(Usage { cost_usd: None, ..Usage::default() });
        let report = roll_up(id(1), [silent(1, None), used(2, Some(1), free)]);
        assert_eq!(report.below, free, "0 that was reported is 0");
        assert_eq!(report.total.and_then(|total| total.cost_usd), None, "money that nobody named is unknown");
    }
}
