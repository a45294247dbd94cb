//! Agents that speak the Agent Client Protocol, version 1, on their standard streams. [`AcpProvider`] drives any of them;
//! those of [`AGENTS`] by their name alone.
//!
//! The protocol is a [`Codec`](subagent_provider::Codec), a state machine without IO that can be built anew from the log
//! of what went both ways. That is why frames are read and written here and not by the official SDK, whose connection
//! lives in memory only (`docs/adr/0016`).

mod agents;
mod codec;
mod provider;

pub use agents::{AGENTS, Agent};
pub use codec::Acp;
pub use provider::AcpProvider;
