//! The agent's side of the Agent Client Protocol, version 1: on a pair of streams, sessions that are spoken with. A
//! state machine per session is not needed here: the session is one (`session`), and this gives it words.
//!
//! Not by the official crate: its dependencies change how every crate of this program writes JSON
//! (`docs/adr/0016`, `docs/adr/0019`). Its schemas judge what is written here, in the tests.

mod frame;
mod open;
mod serve;
mod voice;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

use crate::endpoint::config::AgentConfig;
use crate::session::Mode;
use crate::tools::Nested;

pub use serve::serve;

/// Reads a variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the agent is given by the program that it is.
#[derive(Clone)]
pub struct Options {
    /// Where sessions lie.
    pub sessions: PathBuf,
    /// Where outputs lie that are too long for an answer.
    pub spill: PathBuf,
    /// What is configured.
    pub config: AgentConfig,
    /// The model, where nobody names one for a session.
    pub model: Option<String>,
    /// Its mode, where nobody names one.
    pub mode: Mode,
    /// The environment, for keys.
    pub environment: Environment,
    /// What commands get of it, without keys.
    pub for_commands: Vec<(String, String)>,
    /// Files and directories that tools never touch: configuration, keys.
    pub hidden: Vec<PathBuf>,
    /// How it starts subagents, where it may.
    pub nested: Option<Nested>,
}
