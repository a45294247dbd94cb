//! Who may start now: the running limit, limits of providers and models, cool-downs, and loans. All of it is counted
//! over the live attempts and can be made anew from them; nothing here is remembered by anyone else.
//!
//! A live parent that waits for its own descendants **lends** its place: one descendant at a time runs on it when there
//! is no other. So a tree cannot block itself, at a limit of 1 and at any depth. What works, which is all holders but
//! the lenders, stays within every limit. It exceeds one only when a lender goes on while a descendant still runs on
//! its place, or when a limit is lowered; then nothing new starts until it fits again.

mod pool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use subagent_model::{SubagentId, Timestamp};

use self::pool::{Place, Pool};
use crate::admission::Limits;
use crate::queue::{Queue, Ticket};

/// A live attempt that holds a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run's subagent.
    pub run: SubagentId,
    /// How its child is driven.
    pub provider: String,
    /// Its model, if it names one.
    pub model: Option<String>,
    /// Its ancestors, nearest first.
    pub ancestors: Vec<SubagentId>,
}

impl From<&Ticket> for Holder {
    fn from(ticket: &Ticket) -> Self {
        Self {
            run: ticket.run,
            provider: ticket.provider.clone(),
            model: ticket.model.clone(),
            ancestors: ticket.ancestors.clone(),
        }
    }
}

/// A run may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// On the place of this ancestor, which waits; none when there is room without.
    pub loan_from: Option<SubagentId>,
}

/// Why a run does not start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// As many run as may.
    Running {
        /// How many.
        limit: u32,
    },
    /// As many of its provider run as may.
    Provider {
        /// Which.
        name: String,
        /// How many.
        limit: u32,
    },
    /// As many of its model run as may.
    Model {
        /// Which.
        name: String,
        /// How many.
        limit: u32,
    },
    /// Its provider, account and model cool down.
    CoolDown {
        /// Until then.
        until: Timestamp,
    },
}

/// What cools down. An account or a model that is not named stands for all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoolKey {
    /// The provider.
    pub provider: String,
    /// The account.
    pub account: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// The slots of a node.
#[derive(Debug, Clone)]
pub struct Slots {
    limits: Limits,
    holders: BTreeMap<SubagentId, Arc<Holder>>,
    running: Pool,
    /// For what is held now; limits are looked up by name.
    providers: BTreeMap<String, Pool>,
    models: BTreeMap<String, Pool>,
    cool_downs: BTreeMap<CoolKey, Timestamp>,
}

impl Slots {
    /// Slots of which none is taken.
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            holders: BTreeMap::new(),
            running: Pool::default(),
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
            cool_downs: BTreeMap::new(),
        }
    }

    /// The slots as the live attempts take them; with each, whether it waits for its own descendants. Loans are dealt
    /// out anew: which descendant has which does not matter.
    pub fn rebuilt(limits: &Limits, live: impl IntoIterator<Item = (Holder, bool)>) -> Self {
        // Loans are for want of room only, so room is given after all are in.
        let unlimited = Limits { running: u32::MAX, ..Limits::default() };
        let mut slots = Self::new(&unlimited);
        for (holder, waits) in live {
            let run = holder.run;
            slots.take(holder);
            if waits {
                slots.lend(run);
            }
        }
        slots.set_limits(limits);
        slots
    }

    /// Other limits. What runs goes on.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.limits = limits.clone();
        self.running.settle(limits.running);
        for (name, pool) in &mut self.providers {
            pool.settle(limit_of(&limits.per_provider, name));
        }
        for (name, pool) in &mut self.models {
            pool.settle(limit_of(&limits.per_model, name));
        }
    }

    /// A run holds a slot from now on, on loan where that is needed. Whether it may is asked before; one that runs
    /// already is counted in any case.
    pub fn take(&mut self, holder: Holder) {
        let run = holder.run;
        let holder = Arc::new(holder);
        if self.holders.contains_key(&run) {
            return;
        }
        self.holders.insert(run, Arc::clone(&holder));
        self.each_pool(run, |pool, limit| pool.enter(&holder, limit));
    }

    /// A run no longer holds a slot; false when it held none.
    pub fn free(&mut self, run: SubagentId) -> bool {
        if !self.holders.contains_key(&run) {
            return false;
        }
        self.each_pool(run, |pool, limit| pool.leave(run, limit));
        if let Some(holder) = self.holders.remove(&run) {
            let empty = |pools: &BTreeMap<String, Pool>, name| pools.get(name).is_some_and(Pool::is_empty);
            if empty(&self.providers, &holder.provider) {
                self.providers.remove(&holder.provider);
            }
            if let Some(model) = &holder.model
                && empty(&self.models, model)
            {
                self.models.remove(model);
            }
        }
        true
    }

    /// A holder waits for its own descendants and for nothing else. False when it holds no slot that it could lend.
    pub fn lend(&mut self, run: SubagentId) -> bool {
        self.each_pool(run, |pool, limit| pool.lend(run, limit));
        self.holders.contains_key(&run)
    }

    /// A holder goes on by itself. A descendant that runs on its place counts by itself from now on.
    pub fn reclaim(&mut self, run: SubagentId) {
        self.each_pool(run, |pool, limit| pool.reclaim(run, limit));
    }

    /// Slots in use. A run on a loan uses that of its lender.
    pub fn running(&self) -> u32 {
        self.running.used()
    }

    /// True when the run holds a slot.
    pub fn holds(&self, run: SubagentId) -> bool {
        self.holders.contains_key(&run)
    }

    /// The ancestor on whose running slot a run is.
    pub fn lender_of(&self, run: SubagentId) -> Option<SubagentId> {
        self.running.lender_of(run)
    }

    /// Nothing that `key` covers starts before `until`. Of several times the latest counts.
    pub fn cool_down(&mut self, key: CoolKey, until: Timestamp, now: Timestamp) {
        self.cool_downs.retain(|_, until| *until > now);
        let ends = self.cool_downs.entry(key).or_insert(until);
        *ends = until.max(*ends);
    }

    /// The earliest time after `now` at which a cool-down ends.
    pub fn next_ready(&self, now: Timestamp) -> Option<Timestamp> {
        self.cool_downs.values().copied().filter(|until| *until > now).min()
    }

    /// Whether a run may start at `now`, and else what holds it: what time alone can change comes first, then what is
    /// narrower. Its not-before time is the queue's.
    pub fn may_start(&self, ticket: &Ticket, now: Timestamp) -> Result<Grant, Held> {
        self.ask(ticket, &ticket.ancestors, now)
    }

    /// Takes the next run out of the queue that may start at `now`: of all that may, the first by the rules of the
    /// queue. The caller then takes the slot for it.
    pub fn next(&self, queue: &mut Queue, now: Timestamp) -> Option<(Ticket, Grant)> {
        queue.ripen(now);
        let with_room = if self.running.is_full(self.limits.running) {
            None
        } else {
            // Without loans the answer is the same for all of a kind.
            queue.first_by_kind(|ticket| self.ask(ticket, &[], now).is_ok())
        };
        let on_loan = queue.first_below(self.free_lenders(), |ticket| self.may_start(ticket, now).is_ok());
        let choice = [with_room, on_loan].into_iter().flatten().min()?;
        let ticket = queue.take(choice)?;
        let grant = self.may_start(&ticket, now).unwrap_or_default();
        Some((ticket, grant))
    }

    fn ask(&self, ticket: &Ticket, ancestors: &[SubagentId], now: Timestamp) -> Result<Grant, Held> {
        if let Some(until) = self.cools_until(ticket, now) {
            return Err(Held::CoolDown { until });
        }
        let mut lender = None;
        let mut place = |pool: Option<&Pool>, limit: u32, narrow: bool| {
            let place = match pool {
                Some(pool) if narrow => pool.place_or_stranger(limit, ancestors),
                Some(pool) => pool.place(limit, ancestors),
                None => (limit > 0).then_some(Place::Own),
            };
            if let Some(Place::Loan(from)) = place {
                lender = Some(from);
            }
            place.is_some()
        };
        if let Some(limit) = self.limits.per_provider.get(&ticket.provider).copied()
            && !place(self.providers.get(&ticket.provider), limit, true)
        {
            return Err(Held::Provider { name: ticket.provider.clone(), limit });
        }
        if let Some(model) = &ticket.model
            && let Some(limit) = self.limits.per_model.get(model).copied()
            && !place(self.models.get(model), limit, true)
        {
            return Err(Held::Model { name: model.clone(), limit });
        }
        if !place(Some(&self.running), self.limits.running, false) {
            return Err(Held::Running { limit: self.limits.running });
        }
        Ok(Grant { loan_from: lender })
    }

    fn cools_until(&self, ticket: &Ticket, now: Timestamp) -> Option<Timestamp> {
        if self.cool_downs.is_empty() {
            return None;
        }
        let mut ends = None;
        for account in [None, ticket.account.as_ref()] {
            for model in [None, ticket.model.as_ref()] {
                let key = CoolKey {
                    provider: ticket.provider.clone(),
                    account: account.cloned(),
                    model: model.cloned(),
                };
                ends = ends.max(self.cool_downs.get(&key).copied());
            }
        }
        ends.filter(|until| *until > now)
    }

    /// Those whose place is free for a descendant, and needed because the limit is reached.
    fn free_lenders(&self) -> BTreeSet<SubagentId> {
        let named = |pools: &BTreeMap<String, Pool>, limits: &BTreeMap<String, u32>| -> Vec<SubagentId> {
            let limited = limits.iter().filter_map(|(name, limit)| Some((pools.get(name)?, *limit)));
            limited.flat_map(|(pool, limit)| pool.free_lenders(limit)).collect()
        };
        let mut found: BTreeSet<_> = self.running.free_lenders(self.limits.running).collect();
        found.extend(named(&self.providers, &self.limits.per_provider));
        found.extend(named(&self.models, &self.limits.per_model));
        found
    }

    /// Does something to each pool that a holder is in, with the limit of the pool.
    fn each_pool(&mut self, run: SubagentId, act: impl Fn(&mut Pool, u32)) {
        let Some(holder) = self.holders.get(&run) else { return };
        act(&mut self.running, self.limits.running);
        let provider = self.providers.entry(holder.provider.clone()).or_default();
        act(provider, limit_of(&self.limits.per_provider, &holder.provider));
        if let Some(model) = &holder.model {
            let pool = self.models.entry(model.clone()).or_default();
            act(pool, limit_of(&self.limits.per_model, model));
        }
    }
}

fn limit_of(limits: &BTreeMap<String, u32>, name: &str) -> u32 {
    limits.get(name).copied().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
