//! Providers that drive programs by their command line. `exec` runs any program as a subagent, and speaks with those that
//! know the protocol "lines"; natively driven agents join it here.

mod claude;
mod exec;
mod lines;

pub use claude::{Claude, ClaudeCode};
pub use exec::Exec;
pub use lines::{Lines, VERSION as LINES_VERSION};
