//! The shim: holds one child's streams, process tree and exit record, and outlives the daemon that
//! started it. One thread, one poll loop, no async runtime. `server` is the loop and the conversation,
//! `attempt` one child from start to record; everything that asks the operating system lives in `sys`
//! and `platform`. No policy lives here: what to run, how long and how often is the daemon's decision.

mod attempt;
mod clock;
mod connection;
mod hearing;
mod input;
mod launch;
mod limits;
mod log;
mod platform;
mod record;
mod server;
mod spawn;
mod sys;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit codes: 2 for wrong usage, 3 if the shim could not set itself up.
fn main() -> ExitCode {
    let mut socket = None;
    let mut cgroup = None;
    let mut args = std::env::args_os().skip(1);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--version") => {
                let line = format!("subagent-shim protocol {}\n", subagent_core::frame::control::PROTOCOL);
                return match std::io::stdout().write_all(line.as_bytes()) {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(_) => ExitCode::from(3),
                };
            }
            Some("--socket") => socket = args.next(),
            Some("--cgroup") => cgroup = args.next(),
            _ => return usage(),
        }
    }
    let Some(socket) = socket else {
        return usage();
    };
    match server::run(&PathBuf::from(socket), cgroup.map(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("subagent-shim: {error}\n"));
            ExitCode::from(3)
        }
    }
}

fn path(arg: OsString) -> PathBuf {
    PathBuf::from(arg)
}

fn usage() -> ExitCode {
    complain("usage: subagent-shim --socket PATH [--cgroup DIR] | --version\n");
    ExitCode::from(2)
}

fn complain(text: &str) {
    // Nobody is left to tell if this fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
