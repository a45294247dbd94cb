//! One limit and those who count towards it. A holder that waits may have lent its place to one descendant; the two
//! count as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use subagent_model::SubagentId;

use super::Holder;

/// The holders of one limit.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    holders: BTreeMap<SubagentId, Arc<Holder>>,
    /// Those of them that wait for their descendants.
    waiting: BTreeSet<SubagentId>,
    /// Borrower by lender. A lender waits and both are holders, so there are never more loans than waiting holders.
    loans: BTreeMap<SubagentId, SubagentId>,
}

/// Where a new holder finds room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On a place of its own.
    Own,
    /// On the place of an ancestor.
    Loan(SubagentId),
}

impl Pool {
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Places in use.
    pub(super) fn used(&self) -> u32 {
        count(self.holders.len() - self.loans.len())
    }

    /// Holders that do not wait.
    pub(super) fn working(&self) -> u32 {
        count(self.holders.len() - self.waiting.len())
    }

    pub(super) fn is_full(&self, limit: u32) -> bool {
        self.used() >= limit
    }

    pub(super) fn lender_of(&self, run: SubagentId) -> Option<SubagentId> {
        self.loans.iter().find(|(_, borrower)| **borrower == run).map(|(lender, _)| *lender)
    }

    /// The place for a new holder below `ancestors`, if there is one. While more work than the limit allows, there is
    /// none on loan either.
    pub(super) fn place(&self, limit: u32, ancestors: &[SubagentId]) -> Option<Place> {
        if !self.is_full(limit) {
            return Some(Place::Own);
        }
        self.lender_for(ancestors).filter(|_| self.working() < limit).map(Place::Loan)
    }

    /// As [`Pool::place`]; and when all holders wait, anyone finds room. Two trees could otherwise wait for each other
    /// for ever: each with a parent at one provider and its child in the queue for the other.
    pub(super) fn place_or_stranger(&self, limit: u32, ancestors: &[SubagentId]) -> Option<Place> {
        let all_wait = limit > 0 && self.working() == 0;
        self.place(limit, ancestors).or_else(|| all_wait.then_some(Place::Own))
    }

    /// Lenders that are free, when the limit is reached and loans are what is left.
    pub(super) fn free_lenders(&self, limit: u32) -> impl Iterator<Item = SubagentId> {
        let needed = self.is_full(limit) && self.working() < limit;
        let waiting = self.waiting.iter().copied().filter(move |_| needed);
        waiting.filter(|run| !self.loans.contains_key(run))
    }

    pub(super) fn enter(&mut self, holder: &Arc<Holder>, limit: u32) {
        if self.is_full(limit)
            && let Some(lender) = self.lender_for(&holder.ancestors)
        {
            self.loans.insert(lender, holder.run);
        }
        self.holders.insert(holder.run, Arc::clone(holder));
        self.settle(limit);
    }

    pub(super) fn leave(&mut self, run: SubagentId, limit: u32) {
        self.holders.remove(&run);
        self.waiting.remove(&run);
        self.loans.retain(|lender, borrower| *lender != run && *borrower != run);
        self.settle(limit);
    }

    pub(super) fn lend(&mut self, run: SubagentId, limit: u32) {
        self.waiting.insert(run);
        self.settle(limit);
    }

    pub(super) fn reclaim(&mut self, run: SubagentId, limit: u32) {
        self.waiting.remove(&run);
        self.loans.remove(&run);
        self.settle(limit);
    }

    /// Deals all loans out anew when more places are in use than there are. Each holder gets that of its nearest free
    /// ancestor: with the ancestors of each in one line, that makes as many loans as can be.
    pub(super) fn settle(&mut self, limit: u32) {
        if self.used() <= limit || self.loans.len() == self.waiting.len() {
            return;
        }
        self.loans.clear();
        for holder in self.holders.values() {
            if let Some(lender) = self.lender_for(&holder.ancestors) {
                self.loans.insert(lender, holder.run);
            }
        }
    }

    fn lender_for(&self, ancestors: &[SubagentId]) -> Option<SubagentId> {
        let free = |above: &&SubagentId| self.waiting.contains(above) && !self.loans.contains_key(above);
        ancestors.iter().find(free).copied()
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
