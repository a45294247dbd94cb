//! Providers that drive programs by their command line. `exec` runs any program as a subagent, and speaks with those that
//! know the protocol "lines"; Claude Code, Codex and pi are driven in their own protocols, since these give more than any other.

mod bounds;
mod claude;
mod codex;
mod exec;
mod ids;
mod lines;
mod logins;
mod native;
mod pi;
mod steers;
#[cfg(test)]
mod testing;

pub use claude::{Claude, ClaudeCode};
pub use codex::{AppServer, Codex};
pub use exec::Exec;
pub use lines::{Lines, VERSION as LINES_VERSION};
pub use pi::{Pi, Rpc};
