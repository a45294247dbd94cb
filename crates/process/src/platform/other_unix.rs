//! Other Unix systems, macOS above all: what compiles there. Identities fall back to the pid alone, so
//! nothing is signalled that was not started in this boot by this program. Not tested.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};

use super::Stat;

pub(crate) fn boot_id() -> &'static str {
    ""
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    rustix::process::test_kill_process(target).ok()?;
    Some(Stat { parent: 0, start_time: 0, gone: false, ticks: 0 })
}

pub(crate) fn owner(_pid: u32) -> Option<u32> {
    None
}

pub(crate) fn environ(_pid: u32) -> Option<Vec<u8>> {
    None
}

pub(crate) fn ticks_per_second() -> Option<u64> {
    None
}

/// There are no control groups here.
pub(crate) fn group_of(_pid: u32) -> Option<String> {
    None
}

pub(crate) fn all_pids() -> Vec<u32> {
    Vec::new()
}

pub(crate) fn signal_pinned(pid: u32, signal: i32, right: impl Fn() -> bool) -> io::Result<bool> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(false);
    };
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    if !right() {
        return Ok(false);
    }
    match rustix::process::kill_process(pid, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug)]
pub(crate) struct Exec {
    path: PathBuf,
}

impl Exec {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.canonicalize()? })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// Waits in the background for a child of this process, so that it does not stay a zombie.
pub(crate) fn reap(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        tokio::task::spawn_blocking(move || {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        });
    }
}
