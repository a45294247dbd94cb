//! Providers that drive programs by their command line. `exec` runs any program as a subagent; natively driven agents
//! join it here.

mod exec;

pub use exec::Exec;
