//! The daemon: `subagent serve`, its lock, its socket and its log.

mod engine;
pub(crate) mod lock;
mod log;
mod open_files;
pub(crate) mod serve;
mod signals;
mod socket;

pub(crate) use log::trim as trim_log;
