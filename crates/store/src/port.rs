//! The port itself.

use std::sync::Arc;

use subagent_core::run::Subagent;
use subagent_model::request::{DamagedRow, ListFilter};
use subagent_model::{Cursor, Event, Handle, NodeId, Requester, RunNumber, SubagentId};

use crate::error::StoreError;
use crate::reply::{ContentPart, ListPage, LivePage, OwedRun, Place, Resolved, StoreMode, StoredSummary};
use crate::transition::{Committed, ContentKind, IdempotencyKey, Transition};

/// The most members of a tree that are told.
pub const TREE_MOST: u32 = 10_000;

/// A store of subagents. Every method may be called from any thread; reads go on while a commit waits for the disk.
pub trait Store: Send + Sync + 'static {
    /// Writes a batch: all of it, durable on return, or nothing. A batch may hold several steps of one subagent, each
    /// on the one before it.
    fn commit(&self, batch: &[Transition]) -> Result<Committed, StoreError>;

    /// The state of a subagent. A damaged record is [`StoreError::Damaged`].
    fn get(&self, id: SubagentId) -> Result<Option<Arc<Subagent>>, StoreError>;

    /// What a name stands for: an exact handle or id (in any case, hyphens optional), else the only beginning of a
    /// handle or id. Never the newest of several. The empty name stands for nothing.
    fn resolve(&self, name: &str) -> Result<Resolved, StoreError>;

    /// A page of subagents, newest first by id. What is asked for is joined by "and"; `before` continues a page.
    fn list(&self, filter: &ListFilter) -> Result<ListPage, StoreError>;

    /// Everything that is live: its run is open, a process of it lives, or a message waits for its next run. Costs
    /// nothing for the rest.
    fn live(&self) -> Result<LivePage, StoreError>;

    /// Ended runs that are not acknowledged yet, oldest end first, of one requester or of all: each is addressed to
    /// whoever asked for that run. `after` continues behind a place. Damaged rows are left out.
    fn owed(
        &self,
        requester: Option<&Requester>,
        after: Option<Place>,
        limit: u32,
    ) -> Result<Vec<OwedRun>, StoreError>;

    /// The requesters whose names begin so and to whom something is owed. Cheap: no record is read.
    fn owed_requesters(&self, prefix: &str) -> Result<Vec<Requester>, StoreError>;

    /// How many runs [`Self::owed`] would give. Cheap. Rows that are known to be damaged are not counted.
    fn owed_count(&self, requester: Option<&Requester>) -> Result<u64, StoreError>;

    /// Events after a position, oldest first. An empty answer means that there are no more yet. A damaged event is
    /// left out: its number is missing.
    fn events(&self, after: Cursor, limit: u32) -> Result<Vec<Event>, StoreError>;

    /// Number of the last event.
    fn head(&self) -> Result<Cursor, StoreError>;

    /// Number of the oldest event that is still there; the one after [`Self::head`] when there is none. Who has read up
    /// to a position before its predecessor has missed what was dropped.
    fn first_event(&self) -> Result<Cursor, StoreError>;

    /// Drops the oldest events: those with lower numbers than `before`, and says how many. It stops at the first event
    /// of a subagent that is live or owes a result, and the last event of all always stays, so that numbers go on.
    /// Others may commit between two portions of it.
    fn prune_events(&self, before: Cursor) -> Result<u64, StoreError>;

    /// A part of a whole text; `None` when it was never too long for its preview, or was released.
    fn content(
        &self,
        id: SubagentId,
        run: RunNumber,
        kind: ContentKind,
        offset: u64,
        max: u32,
    ) -> Result<Option<ContentPart>, StoreError>;

    /// The subagent that a request with this key gave.
    fn by_idempotency_key(&self, key: &IdempotencyKey) -> Result<Option<SubagentId>, StoreError>;

    /// The children of a subagent, oldest first.
    fn children(&self, parent: SubagentId) -> Result<Vec<SubagentId>, StoreError>;

    /// The members of a tree that are stored, the root included, oldest first by id; [`TREE_MOST`] at most. It goes by
    /// the root that each names, so links that are broken or go in circles do no harm. Damaged rows are left out.
    fn tree(&self, root: SubagentId) -> Result<Vec<Arc<Subagent>>, StoreError>;

    /// Births in a tree over its whole life, the root included. Deleting members does not lower it; deleting the root
    /// forgets it.
    fn tree_total(&self, root: SubagentId) -> Result<u32, StoreError>;

    /// True when a subagent has this handle.
    fn handle_taken(&self, handle: &Handle) -> Result<bool, StoreError>;

    /// What retention has to know of each subagent, oldest first by id; `after` continues behind one. Cheap: no state is
    /// read, so damaged rows are told as well.
    fn summaries(&self, after: Option<SubagentId>, limit: u32) -> Result<Vec<StoredSummary>, StoreError>;

    /// Drops the whole texts of subagents, of all their runs, and says of how many there were any. What is live, owes a
    /// result of any run, or is not there is passed over. Records stay, with their previews.
    fn release_content(&self, ids: &[SubagentId]) -> Result<u32, StoreError>;

    /// Removes records with their texts and keys, and says how many. What is live, owes a result of any run, has a child
    /// that is still stored, or is not there is passed over: children go before their parents. Events stay, so that
    /// cursors have no gaps.
    fn delete(&self, ids: &[SubagentId]) -> Result<u32, StoreError>;

    /// Everything that reads have found to be damaged so far. It looks for nothing: [`crate::audit()`] does.
    fn damaged(&self) -> Result<Vec<DamagedRow>, StoreError>;

    /// The identity of this store, stable over restarts.
    fn node(&self) -> NodeId;

    /// Whether it takes commits.
    fn mode(&self) -> StoreMode;
}
