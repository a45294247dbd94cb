//! The store port of subagent: what is durable, and how it is asked for. A store keeps the folded state of every
//! subagent, the facts it was folded from, whole texts too long for their preview, and idempotency keys. One
//! [`Transition`] commits all of that together or not at all. The port is synchronous: the runtime commits from its
//! one writer thread and reads from anywhere. [`MemoryStore`] is the store of what need not be durable;
//! [`conformance`] is the suite that every store passes.

pub mod audit;
pub mod conformance;
mod error;
pub mod filter;
pub mod journal;
pub mod memory;
mod port;
pub mod prefix;
mod reply;
mod transition;

pub use audit::audit;
pub use error::StoreError;
pub use memory::{Capacity, MemoryStore};
pub use port::{Store, TREE_MOST};
pub use reply::{ContentPart, ListPage, LivePage, OwedRun, Place, Resolved, StoreMode, StoredSummary};
pub use subagent_model::request::{DamagedRow, ListFilter};
pub use transition::{Committed, Content, ContentKind, Fact, IdempotencyKey, Transition};
