//! The store of what need not be durable: the same semantics as any other, in memory and bounded. Ended subagents whose
//! result is not owed any more are kept up to a number; older ones go, with their texts and keys. Events are a window:
//! the oldest go first, a position before it continues at its beginning.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subagent_core::delivery::{self, Owed};
use subagent_core::run::Subagent;
use subagent_model::request::{DamagedRow, ListFilter};
use subagent_model::{Cursor, Event, Handle, NodeId, Requester, RunNumber, SubagentId, Timestamp};

use crate::error::StoreError;
use crate::filter::ended_at;
use crate::reply::{ContentPart, ListPage, LivePage, OwedRun, Place, Resolved, StoreMode, StoredSummary};
use crate::transition::{Committed, ContentKind, IdempotencyKey, Transition};
use crate::{Store, TREE_MOST, filter, prefix};

/// How much a memory store keeps of what is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Ended subagents whose result is not owed.
    pub ended: usize,
    /// Events.
    pub events: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { ended: 1_000, events: 20_000 }
    }
}

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    node: NodeId,
    capacity: Capacity,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: BTreeMap<SubagentId, Record>,
    handles: BTreeMap<String, SubagentId>,
    keys: BTreeMap<IdempotencyKey, SubagentId>,
    children: BTreeSet<(SubagentId, SubagentId)>,
    /// Root and member, of what has a parent.
    members: BTreeSet<(SubagentId, SubagentId)>,
    live: BTreeSet<SubagentId>,
    /// What is owed to whom.
    owed: BTreeMap<Place, Requester>,
    /// Over: what may go once it has no children, oldest end first.
    over: BTreeSet<(Timestamp, SubagentId)>,
    /// Births below each root.
    trees: BTreeMap<SubagentId, u32>,
    events: VecDeque<Event>,
    head: u64,
}

#[derive(Debug)]
struct Record {
    state: Arc<Subagent>,
    key: Option<IdempotencyKey>,
    content: BTreeMap<(RunNumber, ContentKind), Arc<str>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        // The hasher's keys are random; nothing else in the standard library is.
        let number = RandomState::new().build_hasher().finish();
        Self::new(NodeId(format!("memory-{number:016x}")), Capacity::default())
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new(node: NodeId, capacity: Capacity) -> Self {
        Self { node, capacity, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A batch is checked whole before any of it is applied, so a panic leaves nothing half-done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(owed: &Owed<'_>) -> Place {
    Place { ended_at: owed.since, subagent: owed.subagent, run: owed.run }
}

/// The second of the pairs that begin with `first`, in order.
fn below(
    pairs: &BTreeSet<(SubagentId, SubagentId)>,
    first: SubagentId,
) -> impl Iterator<Item = SubagentId> + '_ {
    let lowest = SubagentId::from_uuid(uuid::Uuid::nil());
    pairs.range((first, lowest)..).take_while(move |(of, _)| *of == first).map(|(_, second)| *second)
}

impl Kept {
    /// Refuses a batch that cannot be applied as a whole.
    fn check(&self, batch: &[Transition]) -> Result<(), StoreError> {
        let mut revisions = BTreeMap::new();
        let mut handles = BTreeSet::new();
        let mut keys = BTreeMap::new();
        for step in batch {
            step.check()?;
            let id = step.state.id;
            let stored = || self.records.get(&id).map_or(0, |record| record.state.revision);
            let found = revisions.get(&id).copied().unwrap_or_else(stored);
            if found != step.before {
                return Err(StoreError::Conflict { id, expected: step.before, found });
            }
            revisions.insert(id, step.state.revision);
            if step.before > 0 {
                continue;
            }
            let handle = &step.state.handle;
            if self.handles.contains_key(handle.as_str()) || !handles.insert(handle) {
                return Err(StoreError::HandleTaken { handle: handle.clone() });
            }
            if let Some(key) = &step.idempotency {
                let taken = self.keys.get(key).copied().or_else(|| keys.insert(key, id));
                if let Some(id) = taken {
                    return Err(StoreError::KeyTaken { id });
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, step: &Transition) {
        let state = &step.state;
        let id = state.id;
        match self.records.entry(id) {
            Slot::Vacant(slot) => {
                slot.insert(Record {
                    state: Arc::clone(state),
                    key: step.idempotency.clone(),
                    content: BTreeMap::new(),
                });
                self.handles.insert(state.handle.0.clone(), id);
                if let Some(key) = &step.idempotency {
                    self.keys.insert(key.clone(), id);
                }
                if let Some(parent) = state.parent {
                    self.children.insert((parent, id));
                    self.members.insert((state.root, id));
                    let born = self.trees.entry(state.root).or_default();
                    *born = born.saturating_add(1);
                }
            }
            Slot::Occupied(mut slot) => {
                let before = std::mem::replace(&mut slot.get_mut().state, Arc::clone(state));
                self.unlist(&before);
            }
        }
        match ended_at(state) {
            None => drop(self.live.insert(id)),
            Some(_) if state.is_owed() => {}
            Some(at) => drop(self.over.insert((at, id))),
        }
        let owed = delivery::owed(state).map(|owed| (place(&owed), owed.requester.clone()));
        self.owed.extend(owed);
        if let Some(record) = self.records.get_mut(&id) {
            for content in &step.content {
                record.content.insert((content.run, content.kind), Arc::clone(&content.text));
            }
        }
        for fact in &step.events {
            self.head += 1;
            self.events.push_back(Event {
                seq: Cursor(self.head),
                at: fact.at,
                subagent: id,
                run: fact.run,
                kind: fact.kind.clone(),
            });
        }
    }

    fn unlist(&mut self, state: &Subagent) {
        self.live.remove(&state.id);
        if let Some(at) = ended_at(state) {
            self.over.remove(&(at, state.id));
        }
        for owed in delivery::owed(state) {
            self.owed.remove(&place(&owed));
        }
    }

    fn remove(&mut self, id: SubagentId) {
        let Some(record) = self.records.remove(&id) else { return };
        self.unlist(&record.state);
        self.handles.remove(record.state.handle.as_str());
        if let Some(key) = &record.key {
            self.keys.remove(key);
        }
        if let Some(parent) = record.state.parent {
            self.children.remove(&(parent, id));
            self.members.remove(&(record.state.root, id));
        }
        self.trees.remove(&id);
    }

    fn shrink(&mut self, capacity: Capacity) {
        while self.over.len() > capacity.ended {
            // What has children waits for them, so that every parent is there. Their number is bounded, too.
            let oldest = self.over.iter().map(|(_, id)| *id).find(|id| !self.has_children(*id));
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
        }
        while self.events.len() > capacity.events {
            self.events.pop_front();
        }
    }

    /// True when nothing of it is live or owed.
    fn is_over(&self, id: SubagentId) -> bool {
        self.records.get(&id).is_some_and(|record| !record.state.is_live() && !record.state.is_owed())
    }

    fn has_children(&self, id: SubagentId) -> bool {
        below(&self.children, id).any(|child| child != id)
    }

    fn first_event(&self) -> Cursor {
        self.events.front().map_or(Cursor(self.head + 1), |event| event.seq)
    }

    fn state(&self, id: SubagentId) -> Option<Arc<Subagent>> {
        self.records.get(&id).map(|record| Arc::clone(&record.state))
    }

    fn owed<'a>(
        &'a self,
        requester: Option<&'a Requester>,
        after: Option<Place>,
    ) -> impl Iterator<Item = Place> + 'a {
        self.owed
            .range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
            .filter(move |(_, to)| requester.is_none_or(|requester| requester == *to))
            .map(|(place, _)| *place)
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: &[Transition]) -> Result<Committed, StoreError> {
        let mut kept = self.kept();
        kept.check(batch)?;
        let first = Cursor(kept.head + 1);
        for step in batch {
            kept.apply(step);
        }
        kept.shrink(self.capacity);
        Ok(Committed { first, last: Cursor(kept.head) })
    }

    fn get(&self, id: SubagentId) -> Result<Option<Arc<Subagent>>, StoreError> {
        Ok(self.kept().state(id))
    }

    fn resolve(&self, name: &str) -> Result<Resolved, StoreError> {
        let kept = self.kept();
        if let Some(id) = kept.handles.get(name) {
            return Ok(Resolved::One(*id));
        }
        if name.is_empty() {
            return Ok(Resolved::None);
        }
        let most = Resolved::MOST + 1;
        let by_handle = kept.handles.range::<str, _>((Bound::Included(name), Bound::Unbounded));
        let by_handle = by_handle.take_while(|(handle, _)| handle.starts_with(name)).take(most);
        let mut found: Vec<_> = by_handle.map(|(handle, id)| (*id, Handle(handle.clone()))).collect();
        if let Some((low, high)) = prefix::ids(name) {
            let by_id = kept.records.range(low..=high).rev().take(most);
            found.extend(by_id.map(|(id, record)| (*id, record.state.handle.clone())));
            // A whole id is exact: it stands before handles that begin with it.
            if low == high && kept.records.contains_key(&low) {
                return Ok(Resolved::One(low));
            }
        }
        Ok(Resolved::from_candidates(found))
    }

    fn list(&self, filter: &ListFilter) -> Result<ListPage, StoreError> {
        let kept = self.kept();
        let len = filter::page_len(filter);
        let older = filter.before.map_or(Bound::Unbounded, Bound::Excluded);
        let mut items: Vec<_> = kept
            .records
            .range((Bound::Unbounded, older))
            .rev()
            .filter(|(_, record)| filter::matches(filter, &record.state))
            .take(len + 1)
            .map(|(_, record)| Arc::clone(&record.state))
            .collect();
        let more = items.len() > len;
        items.truncate(len);
        let next = items.last().filter(|_| more).map(|state| state.id);
        Ok(ListPage { items, next, damaged: Vec::new() })
    }

    fn live(&self) -> Result<LivePage, StoreError> {
        let kept = self.kept();
        let items = kept.live.iter().filter_map(|id| kept.state(*id)).collect();
        Ok(LivePage { items, damaged: Vec::new() })
    }

    fn owed(
        &self,
        requester: Option<&Requester>,
        after: Option<Place>,
        limit: u32,
    ) -> Result<Vec<OwedRun>, StoreError> {
        let kept = self.kept();
        let run =
            |Place { ended_at, subagent, run }| Some(OwedRun { state: kept.state(subagent)?, run, ended_at });
        Ok(kept.owed(requester, after).take(limit as usize).filter_map(run).collect())
    }

    fn owed_requesters(&self, prefix: &str) -> Result<Vec<Requester>, StoreError> {
        let kept = self.kept();
        let named: BTreeSet<_> =
            kept.owed.values().filter(|requester| requester.as_str().starts_with(prefix)).collect();
        Ok(named.into_iter().cloned().collect())
    }

    fn owed_count(&self, requester: Option<&Requester>) -> Result<u64, StoreError> {
        let kept = self.kept();
        Ok(match requester {
            None => kept.owed.len() as u64,
            Some(_) => kept.owed(requester, None).count() as u64,
        })
    }

    fn events(&self, after: Cursor, limit: u32) -> Result<Vec<Event>, StoreError> {
        let kept = self.kept();
        let start = kept.events.partition_point(|event| event.seq <= after);
        Ok(kept.events.range(start..).take(limit as usize).cloned().collect())
    }

    fn head(&self) -> Result<Cursor, StoreError> {
        Ok(Cursor(self.kept().head))
    }

    fn first_event(&self) -> Result<Cursor, StoreError> {
        Ok(self.kept().first_event())
    }

    fn prune_events(&self, before: Cursor) -> Result<u64, StoreError> {
        let mut kept = self.kept();
        let before = before.min(Cursor(kept.head));
        let mut pruned = 0;
        while let Some(first) = kept.events.front() {
            let of = first.subagent;
            if first.seq >= before || (kept.records.contains_key(&of) && !kept.is_over(of)) {
                break;
            }
            kept.events.pop_front();
            pruned += 1;
        }
        Ok(pruned)
    }

    fn content(
        &self,
        id: SubagentId,
        run: RunNumber,
        kind: ContentKind,
        offset: u64,
        max: u32,
    ) -> Result<Option<ContentPart>, StoreError> {
        let kept = self.kept();
        let text = kept.records.get(&id).and_then(|record| record.content.get(&(run, kind)));
        Ok(text.map(|text| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
            let end = start.saturating_add(max as usize).min(text.len());
            ContentPart { bytes: text.as_bytes()[start..end].to_vec(), total: text.len() as u64 }
        }))
    }

    fn by_idempotency_key(&self, key: &IdempotencyKey) -> Result<Option<SubagentId>, StoreError> {
        Ok(self.kept().keys.get(key).copied())
    }

    fn children(&self, parent: SubagentId) -> Result<Vec<SubagentId>, StoreError> {
        Ok(below(&self.kept().children, parent).collect())
    }

    fn tree(&self, root: SubagentId) -> Result<Vec<Arc<Subagent>>, StoreError> {
        let kept = self.kept();
        let mut members: BTreeSet<_> = below(&kept.members, root).collect();
        members.insert(root);
        let states = members.into_iter().filter_map(|id| kept.state(id));
        Ok(states.filter(|state| state.root == root).take(TREE_MOST as usize).collect())
    }

    fn tree_total(&self, root: SubagentId) -> Result<u32, StoreError> {
        let kept = self.kept();
        let below = kept.trees.get(&root).copied().unwrap_or(0);
        Ok(below.saturating_add(u32::from(kept.records.contains_key(&root))))
    }

    fn handle_taken(&self, handle: &Handle) -> Result<bool, StoreError> {
        Ok(self.kept().handles.contains_key(handle.as_str()))
    }

    fn summaries(&self, after: Option<SubagentId>, limit: u32) -> Result<Vec<StoredSummary>, StoreError> {
        let kept = self.kept();
        let newer = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let summary = |(id, record): (&SubagentId, &Record)| StoredSummary {
            id: *id,
            parent: record.state.parent,
            root: record.state.root,
            ended_at: ended_at(&record.state),
            unread: record.state.is_owed(),
            bytes: record.content.values().fold(0, |sum, text| sum + text.len() as u64),
            updated_at: record.state.updated_at,
        };
        Ok(kept.records.range(newer).take(limit as usize).map(summary).collect())
    }

    fn release_content(&self, ids: &[SubagentId]) -> Result<u32, StoreError> {
        let mut kept = self.kept();
        let mut released = 0;
        for id in ids {
            if !kept.is_over(*id) {
                continue;
            }
            if let Some(record) = kept.records.get_mut(id).filter(|record| !record.content.is_empty()) {
                record.content.clear();
                released += 1;
            }
        }
        Ok(released)
    }

    fn delete(&self, ids: &[SubagentId]) -> Result<u32, StoreError> {
        let mut kept = self.kept();
        let mut removed = 0;
        for id in ids {
            if kept.is_over(*id) && !kept.has_children(*id) {
                kept.remove(*id);
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn damaged(&self) -> Result<Vec<DamagedRow>, StoreError> {
        Ok(Vec::new())
    }

    fn node(&self) -> NodeId {
        self.node.clone()
    }

    fn mode(&self) -> StoreMode {
        StoreMode::ReadWrite
    }
}
