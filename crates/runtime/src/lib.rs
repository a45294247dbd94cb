//! The engine of `subagent` behind the [`Runtime`] trait: the imperative shell around `subagent-core`.
//!
//! One writer thread decides and commits; everything else reads, or carries out what the committed state still needs.
//! Faces depend on the trait alone, which the client of the daemon implements as well. Stores and providers come from
//! outside; this crate knows their ports only.

mod engine;
mod runtime;

pub use engine::{AgentFiles, Engine, EngineConfig, Graces, Shutdown, StartError, find_program};
pub use runtime::{AckReply, AckTarget, Caller, EventPage, ResumeReply, Runtime, SpawnReply};
pub use subagent_core::admission::Limits;
pub use subagent_core::retention::Policy as Retention;
pub use subagent_hooks as hooks;
