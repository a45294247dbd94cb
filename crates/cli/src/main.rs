//! The `subagent` command: wiring of daemon, client and command line.
fn main() {}
