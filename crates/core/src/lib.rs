//! The pure core of `subagent`: every state machine and planner, without IO, clock or randomness.
//!
//! A shell reads the world, asks the core what follows, writes that down, and carries out what the core says is still
//! needed. Nothing here can fail half-way, and every rule can be tested in milliseconds. What touches a file, a
//! process, a socket or a clock must not come here; `clippy.toml` holds that.

pub mod admission;
pub mod budget;
pub mod delivery;
pub mod feed;
pub mod frame;
pub mod inner;
pub mod lease;
pub mod mailbox;
pub mod need;
pub mod policy;
pub mod quality;
pub mod queue;
pub mod recover;
pub mod replay;
pub mod retention;
pub mod retry;
pub mod rollup;
pub mod run;
pub mod slots;
pub mod snapshot;
pub mod tree;
pub mod workspace;
