//! Trees of subagents, from parent links alone: ancestors, the order of a stop, who still has live children. Links come
//! from stored records, which may be damaged: a walk always ends, and a loop is told, not followed. What a limit
//! allows is `admission`'s.

use std::collections::{BTreeMap, BTreeSet};

use subagent_model::SubagentId;

/// One subagent as a tree sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Identity.
    pub id: SubagentId,
    /// Its parent; it may be one that is no longer stored.
    pub parent: Option<SubagentId>,
    /// Its current run has not ended.
    pub live: bool,
    /// It survives its parent.
    pub detached: bool,
}

/// Parent links, ready to be walked both ways.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    members: BTreeMap<SubagentId, Member>,
    children: BTreeMap<SubagentId, BTreeSet<SubagentId>>,
}

impl Tree {
    /// A tree of `members`. Of two with the same id the last counts.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let members: BTreeMap<_, _> = members.into_iter().map(|member| (member.id, member)).collect();
        let mut children: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for member in members.values() {
            // Under its parent's id even when the parent is not stored any more.
            if let Some(parent) = member.parent {
                children.entry(parent).or_default().insert(member.id);
            }
        }
        Self { members, children }
    }

    /// The ancestors of `id`, nearest first. The walk ends at a root, at a parent that is not stored (which is still
    /// named), or where a loop would begin.
    pub fn ancestors(&self, id: SubagentId) -> Vec<SubagentId> {
        let mut seen = BTreeSet::from([id]);
        let mut found = Vec::new();
        let mut at = id;
        while let Some(parent) = self.members.get(&at).and_then(|member| member.parent) {
            if !seen.insert(parent) {
                break;
            }
            found.push(parent);
            at = parent;
        }
        found
    }

    /// True when `ancestor` is above `id`.
    pub fn is_below(&self, id: SubagentId, ancestor: SubagentId) -> bool {
        self.ancestors(id).contains(&ancestor)
    }

    /// `id` and what a stop of it takes along: parents before their children, so that a parent that is being stopped
    /// cannot spawn behind the back of the walk. Detached subagents stay, with all that is below them. Ended ones are
    /// walked through: a live grandchild may hang on an ended child.
    pub fn stop_order(&self, id: SubagentId) -> Vec<SubagentId> {
        self.walk(id, |member| !member.detached)
    }

    /// `id` and everything below it, parents before their children.
    pub fn subtree(&self, id: SubagentId) -> Vec<SubagentId> {
        self.walk(id, |_| true)
    }

    /// The live children of `id`: what a limit on breadth counts.
    pub fn live_children(&self, id: SubagentId) -> usize {
        self.children_of(id).filter(|child| child.live).count()
    }

    /// The live children that keep `id` from ending: detached ones do not.
    pub fn owned_live_children(&self, id: SubagentId) -> usize {
        self.children_of(id).filter(|child| child.live && !child.detached).count()
    }

    /// True when anything below `id` is live, detached or not.
    pub fn has_live_descendant(&self, id: SubagentId) -> bool {
        self.subtree(id).into_iter().skip(1).any(|below| self.members.get(&below).is_some_and(|m| m.live))
    }

    /// Members whose parent links come back to themselves: damaged records, to be listed.
    pub fn looped(&self) -> Vec<SubagentId> {
        self.members.keys().copied().filter(|id| self.comes_back(*id)).collect()
    }

    fn children_of(&self, id: SubagentId) -> impl Iterator<Item = &Member> {
        self.children.get(&id).into_iter().flatten().filter_map(|child| self.members.get(child))
    }

    fn walk(&self, id: SubagentId, follow: impl Fn(&Member) -> bool) -> Vec<SubagentId> {
        let mut seen = BTreeSet::from([id]);
        let mut order = vec![id];
        let mut next = 0;
        while let Some(at) = order.get(next).copied() {
            next += 1;
            for child in self.children_of(at) {
                if follow(child) && seen.insert(child.id) {
                    order.push(child.id);
                }
            }
        }
        order
    }

    fn comes_back(&self, id: SubagentId) -> bool {
        let mut seen = BTreeSet::new();
        let mut at = id;
        while let Some(parent) = self.members.get(&at).and_then(|member| member.parent) {
            if parent == id {
                return true;
            }
            if !seen.insert(parent) {
                return false;
            }
            at = parent;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Member, Tree};
    use subagent_model::SubagentId;

    fn id(n: u128) -> SubagentId {
        SubagentId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn member(n: u128, parent: Option<u128>, live: bool, detached: bool) -> Member {
        Member { id: id(n), parent: parent.map(id), live, detached }
    }

    /// 1 ─ 2 (ended) ─ 4; 1 ─ 3 (detached) ─ 5.
    fn family() -> Tree {
        Tree::new([
            member(1, None, true, false),
            member(2, Some(1), false, false),
            member(3, Some(1), true, true),
            member(4, Some(2), true, false),
            member(5, Some(3), true, false),
        ])
    }

    #[test]
    fn stop_14_a_stop_takes_the_tree_but_what_is_detached() {
        assert_eq!(family().stop_order(id(1)), [id(1), id(2), id(4)]);
        assert_eq!(family().stop_order(id(3)), [id(3), id(5)]);
        assert_eq!(family().subtree(id(1)).len(), 5);
    }

    #[test]
    fn counts_and_ancestors() {
        let tree = family();
        assert_eq!(tree.ancestors(id(5)), [id(3), id(1)]);
        assert!(tree.is_below(id(4), id(1)) && !tree.is_below(id(1), id(4)));
        assert_eq!((tree.live_children(id(1)), tree.owned_live_children(id(1))), (1, 0));
        assert!(tree.has_live_descendant(id(2)) && !tree.has_live_descendant(id(4)));
    }

    #[test]
    fn rec_10_loops_end_every_walk_and_are_told() {
        let tree = Tree::new([
            member(1, Some(2), true, false),
            member(2, Some(1), true, false),
            member(3, Some(2), true, false),
            member(4, Some(4), true, false),
        ]);
        assert_eq!(tree.ancestors(id(1)), [id(2)]);
        assert_eq!(tree.ancestors(id(3)), [id(2), id(1)]);
        assert_eq!(tree.stop_order(id(1)), [id(1), id(2), id(3)]);
        assert_eq!(tree.looped(), [id(1), id(2), id(4)]);
        assert!(tree.has_live_descendant(id(4)) || tree.subtree(id(4)) == [id(4)]);
    }

    #[test]
    fn a_parent_that_is_not_stored_still_names_its_children() {
        let tree = Tree::new([member(2, Some(1), true, false)]);
        assert_eq!(tree.stop_order(id(1)), [id(1), id(2)]);
        assert_eq!(tree.ancestors(id(2)), [id(1)]);
    }
}
