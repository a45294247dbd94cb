//! The built-in agent: a compact loop of model and tools over any endpoint, itself an agent of the Agent Client
//! Protocol on stdio. The supervisor drives it like any other child, and editors can.
//!
//! What is decided lies in `turn`, which is pure; what happened lies in the journal (`fact`, `journal`); the shell that
//! asks, calls and writes is `session`. Nothing here prints, or reads the environment.

pub mod acp;
mod clock;
pub mod conversation;
pub mod endpoint;
pub mod fact;
pub mod failure;
pub mod inherit;
pub mod journal;
pub mod prompt;
pub mod session;
pub mod tools;
pub mod turn;
pub mod wire;
