//! The writer's book: slots taken, the queue, live children, spawn rates, timers, accounts of trees. All of it follows
//! from the live states and can be made anew from them; no step looks at all records.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use subagent_core::admission::Limits;
use subagent_core::budget::{Amount, TreeAccount};
use subagent_core::need::next_timer;
use subagent_core::queue::{Queue, Ticket};
use subagent_core::run::{Phase, Subagent};
use subagent_core::slots::{CoolKey, Grant, Held, Holder, Slots};
use subagent_model::{ActivityOn, QueueReason, Requester, SpawnSpec, SubagentId, Timestamp};

/// More levels than any tree has.
const DEEPEST: usize = 1_000;

/// Counts over the live states.
pub(crate) struct Book {
    pub(crate) slots: Slots,
    pub(crate) queue: Queue,
    /// Warm subagents between runs.
    pub(crate) idle: HashSet<SubagentId>,
    children: HashMap<SubagentId, HashSet<SubagentId>>,
    /// Children that are told of and keep their parent from ending.
    bound: HashMap<SubagentId, u32>,
    /// Live subagents below each root.
    trees: HashMap<SubagentId, u32>,
    /// Parents of what is in a tree with anything live.
    parents: HashMap<SubagentId, SubagentId>,
    totals: HashMap<SubagentId, u32>,
    spawns: HashMap<SubagentId, VecDeque<Timestamp>>,
    timers: BTreeSet<(Timestamp, SubagentId)>,
    timer_of: HashMap<SubagentId, Timestamp>,
    /// What trees with a budget have used and reserved.
    pub(crate) accounts: HashMap<SubagentId, TreeAccount>,
    /// How many calls wait on behalf of a live subagent for its own descendants.
    waiting_calls: HashMap<SubagentId, u32>,
}

impl Book {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            slots: Slots::new(limits),
            queue: Queue::default(),
            idle: HashSet::new(),
            children: HashMap::new(),
            bound: HashMap::new(),
            trees: HashMap::new(),
            parents: HashMap::new(),
            totals: HashMap::new(),
            spawns: HashMap::new(),
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
            accounts: HashMap::new(),
            waiting_calls: HashMap::new(),
        }
    }

    /// The book of these live states. Whoever waited longest comes first again, and requesters take turns as before.
    pub(crate) fn of<'a>(
        limits: &Limits,
        live: impl IntoIterator<Item = &'a Subagent>,
        now: Timestamp,
    ) -> Self {
        let mut book = Self::new(limits);
        let mut states: Vec<_> = live.into_iter().collect();
        states.sort_by_key(|state| state.id);
        for state in &states {
            book.step(None, state, now);
        }
        book.put_in_order(states, Timestamp::never());
        book
    }

    /// Puts what waits into the order in which it came: by its time in the queue, and requesters take turns as before. What
    /// came back to the queue since `returned_since` had its place before, and has it again.
    pub(crate) fn put_in_order<'a>(
        &mut self,
        live: impl IntoIterator<Item = &'a Subagent>,
        returned_since: Timestamp,
    ) {
        let mut served: BTreeMap<Requester, Timestamp> = BTreeMap::new();
        let mut tickets = Vec::new();
        let mut states: Vec<_> = live.into_iter().collect();
        states.sort_by_key(|state| state.id);
        for state in states {
            if let Some(facts) = state.run.attempts.last() {
                let last = served.entry(state.requester.clone()).or_insert(facts.claimed_at);
                *last = facts.claimed_at.max(*last);
            }
            if let Phase::Queued { since, .. } = &state.run.phase
                && state.may_claim()
            {
                let returned = !state.run.attempts.is_empty() && *since >= returned_since;
                let waits_since = if returned { state.run.accepted_at } else { *since };
                tickets.push((waits_since, self.ticket(state)));
            }
        }
        self.queue = Queue::rebuilt(tickets, &served);
    }

    /// Follows a state from `before` to `after`.
    pub(crate) fn step(&mut self, before: Option<&Subagent>, after: &Subagent, now: Timestamp) {
        let was_live = before.is_some_and(Subagent::is_live);
        let is_live = after.is_live();
        let was_open = before.is_some_and(|state| !state.is_ended());
        self.follow_family([was_live, is_live], [was_open, !after.is_ended()], after);
        match (before.is_some_and(Subagent::holds_slot), after.holds_slot()) {
            (false, true) => {
                let holder = Holder {
                    run: after.id,
                    provider: after.spec.provider.clone(),
                    model: after.spec.model.clone(),
                    ancestors: self.ancestors(after.parent),
                };
                self.slots.take(holder);
            }
            (true, false) => {
                self.slots.free(after.id);
                self.waiting_calls.remove(&after.id);
            }
            _ => {}
        }
        if after.holds_slot() {
            self.lend_or_reclaim(after);
        }
        if after.may_claim() {
            self.queue.push(self.ticket(after));
            if let Phase::Queued { reason: QueueReason::Rate { until, .. }, .. } = &after.run.phase {
                self.slots.cool_down(cool_key(after), *until, now);
            }
        } else {
            self.queue.remove(after.id);
        }
        if after.is_idle() {
            self.idle.insert(after.id);
        } else {
            self.idle.remove(&after.id);
        }
        self.set_timer(after, now);
        self.follow_account(before, after);
        if !is_live {
            self.spawns.remove(&after.id);
            self.totals.remove(&after.id);
        }
    }

    /// An idle child is a live one, but nobody waits for it to end.
    fn follow_family(&mut self, live: [bool; 2], open: [bool; 2], after: &Subagent) {
        let Some(parent) = after.parent else { return };
        match live {
            [false, true] => {
                *self.trees.entry(after.root).or_default() += 1;
                self.parents.insert(after.id, parent);
                self.children.entry(parent).or_default().insert(after.id);
            }
            [true, false] => {
                less(&mut self.trees, after.root, 1);
                if let Some(children) = self.children.get_mut(&parent) {
                    children.remove(&after.id);
                    if children.is_empty() {
                        self.children.remove(&parent);
                    }
                }
                if !self.children.contains_key(&after.id) {
                    self.parents.remove(&after.id);
                }
            }
            _ => {}
        }
        if after.spec.mode.is_delivered() {
            match open {
                [false, true] => *self.bound.entry(parent).or_default() += 1,
                [true, false] => less(&mut self.bound, parent, 1),
                _ => {}
            }
        }
    }

    fn ticket(&self, state: &Subagent) -> Ticket {
        let not_before = match &state.run.phase {
            Phase::Queued { reason, .. } => reason.not_before(),
            _ => None,
        };
        let ticket = self.fresh_ticket(state.id, &state.spec, &state.requester, state.parent);
        Ticket { not_before, ..ticket }
    }

    fn fresh_ticket(
        &self,
        run: SubagentId,
        spec: &SpawnSpec,
        requester: &Requester,
        parent: Option<SubagentId>,
    ) -> Ticket {
        Ticket {
            run,
            requester: requester.clone(),
            provider: spec.provider.clone(),
            model: spec.model.clone(),
            account: spec.account.clone(),
            not_before: None,
            ancestors: self.ancestors(parent),
        }
    }

    /// Whether a run that asks now would start without waiting.
    pub(crate) fn would_start(
        &self,
        run: SubagentId,
        spec: &SpawnSpec,
        requester: &Requester,
        parent: Option<SubagentId>,
        now: Timestamp,
    ) -> bool {
        self.queue.is_empty()
            && self.slots.may_start(&self.fresh_ticket(run, spec, requester, parent), now).is_ok()
    }

    /// The ancestors as far as they are known, nearest first.
    fn ancestors(&self, parent: Option<SubagentId>) -> Vec<SubagentId> {
        let parent_of = |id: &SubagentId| self.parents.get(id).copied();
        std::iter::successors(parent, parent_of).take(DEEPEST).collect()
    }

    /// A run whose turn is over, or that only waits for an answer about its own descendants, lends its slot to them.
    fn lend_or_reclaim(&mut self, state: &Subagent) {
        let waits = matches!(state.run.phase, Phase::Waiting { on: ActivityOn::Children, .. });
        if waits || self.waiting_calls.contains_key(&state.id) {
            self.slots.lend(state.id);
        } else {
            self.slots.reclaim(state.id);
        }
    }

    /// A call of a live subagent begins or ends to wait for its own descendants.
    pub(crate) fn call_waits(&mut self, state: &Subagent, begins: bool) {
        if begins {
            *self.waiting_calls.entry(state.id).or_default() += 1;
        } else {
            less(&mut self.waiting_calls, state.id, 1);
        }
        if state.holds_slot() {
            self.lend_or_reclaim(state);
        }
    }

    /// Calls that wait are in no record: a book that is made anew takes them over from the one before.
    pub(crate) fn keep_calls<'a>(&mut self, before: &Self, live: impl IntoIterator<Item = &'a Subagent>) {
        for state in live {
            if let Some(calls) = before.waiting_calls.get(&state.id) {
                self.waiting_calls.insert(state.id, *calls);
                if state.holds_slot() {
                    self.lend_or_reclaim(state);
                }
            }
        }
    }

    /// Nothing of the same provider, account and model starts before.
    pub(crate) fn cool_down(&mut self, state: &Subagent, until: Timestamp, now: Timestamp) {
        self.slots.cool_down(cool_key(state), until, now);
    }

    fn set_timer(&mut self, state: &Subagent, now: Timestamp) {
        let next = if state.is_live() { next_timer(state, now) } else { None };
        if let Some(old) = self.timer_of.remove(&state.id) {
            self.timers.remove(&(old, state.id));
        }
        if let Some(next) = next {
            self.timer_of.insert(state.id, next);
            self.timers.insert((next, state.id));
        }
    }

    /// Those for whom a time has come.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<SubagentId> {
        self.timers.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    /// The next time at which anything happens by the passing of time alone.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The next time at which a run that waits may become ready by the passing of time alone.
    pub(crate) fn next_ready(&self, now: Timestamp) -> Option<Timestamp> {
        if self.queue.is_empty() {
            return None;
        }
        [self.queue.next_ready(now), self.slots.next_ready(now)].into_iter().flatten().min()
    }

    /// The next run that may start; it is the writer's to take its slot.
    pub(crate) fn next_start(&mut self, now: Timestamp) -> Option<(SubagentId, Grant)> {
        let (ticket, grant) = self.slots.next(&mut self.queue, now)?;
        Some((ticket.run, grant))
    }

    /// What keeps a run in the queue from starting now.
    pub(crate) fn held_by(&self, id: SubagentId, now: Timestamp) -> Option<Held> {
        let ticket = self.queue.get(id)?;
        if let Some(until) = ticket.not_before.filter(|at| *at > now) {
            return Some(Held::CoolDown { until });
        }
        self.slots.may_start(ticket, now).err()
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
        self.note_run(parent, now);
    }

    /// A run of a child of `parent` was admitted.
    pub(crate) fn note_run(&mut self, parent: SubagentId, now: Timestamp) {
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

    /// Keeps the account of a tree that has one.
    fn follow_account(&mut self, before: Option<&Subagent>, after: &Subagent) {
        let Some(account) = self.accounts.get_mut(&after.root) else { return };
        let spent = spent_by(after);
        account.charge(after.id, spent);
        let opened = before.is_none_or(|before| before.run.number < after.run.number);
        if after.is_ended() {
            account.end(after.id);
        } else if opened {
            account.reserve(after.id, reservation(after));
        }
    }

    /// Opens the account of a tree with these members.
    pub(crate) fn open_account<'a>(
        &mut self,
        root: &Subagent,
        members: impl IntoIterator<Item = &'a Subagent>,
    ) {
        if root.spec.tree_budget.is_unlimited() || self.accounts.contains_key(&root.id) {
            return;
        }
        let mut account = TreeAccount::new(root.spec.tree_budget);
        for member in members {
            account.charge(member.id, spent_by(member));
            if !member.is_ended() {
                account.reserve(member.id, reservation(member));
            }
        }
        self.accounts.insert(root.id, account);
    }
}

fn less(counts: &mut HashMap<SubagentId, u32>, id: SubagentId, by: u32) {
    if let Some(count) = counts.get_mut(&id) {
        *count = count.saturating_sub(by);
        if *count == 0 {
            counts.remove(&id);
        }
    }
}

fn spent_by(state: &Subagent) -> Amount {
    state.usage.map_or(Amount::default(), |used| Amount { tokens: used.total, cost_usd: used.cost_usd })
}

/// What a run reserves from its tree: its own limits.
pub(crate) fn reservation(state: &Subagent) -> Amount {
    let budget = &state.run.budget;
    Amount { tokens: budget.max_tokens.unwrap_or(0), cost_usd: budget.max_cost_usd }
}

fn cool_key(state: &Subagent) -> CoolKey {
    CoolKey {
        provider: state.spec.provider.clone(),
        account: state.spec.account.clone(),
        model: state.spec.model.clone(),
    }
}
