//! Other Unix systems, macOS above all: what compiles there and keeps the promises that can be kept
//! without subreapers and control groups. Not tested.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::path::{Path, PathBuf};

use crate::sys::check;

/// There is no such thing here; orphans of the child go to process 1.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

pub(crate) fn reset_reserved_signals() {}

pub(crate) fn die_with_parent() {}

pub(crate) fn hide_descriptors(_first: libc::c_uint) {}

pub(crate) fn pipe_cloexec(ends: &mut [libc::c_int; 2]) -> io::Result<()> {
    // SAFETY: the array has room for the two descriptors.
    check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    crate::sys::set_cloexec(ends[0])?;
    crate::sys::set_cloexec(ends[1])
}

pub(crate) fn set_limit(resource: libc::c_int, limit: &libc::rlimit) -> bool {
    // SAFETY: the pointer is to a live value.
    unsafe { libc::setrlimit(resource, limit) == 0 }
}

/// Polls with SIGCHLD let through. A signal between unblocking and polling is lost, so the time is
/// capped and the caller waits for children on every turn.
pub(crate) fn wait_ready(fds: &mut [libc::pollfd], timeout_millis: Option<u64>) -> io::Result<()> {
    let millis = timeout_millis.unwrap_or(50).min(50);
    let millis = libc::c_int::try_from(millis).unwrap_or(50);
    // SAFETY: `fds` is a live slice of that length; the sets are plain old data.
    let result = unsafe {
        let mut child: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut child);
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const child, std::ptr::null_mut());
        let result = libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis);
        let error = io::Error::last_os_error();
        libc::sigprocmask(libc::SIG_BLOCK, &raw const child, std::ptr::null_mut());
        if result < 0 { Err(error) } else { Ok(()) }
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            for fd in fds {
                fd.revents = 0;
            }
            Ok(())
        }
        other => other,
    }
}

pub(crate) fn awake_millis() -> u64 {
    // The monotonic clock of macOS goes on while the machine sleeps.
    #[cfg(target_os = "macos")]
    const CLOCK: libc::clockid_t = libc::CLOCK_UPTIME_RAW;
    #[cfg(not(target_os = "macos"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live, writable value.
    unsafe { libc::clock_gettime(CLOCK, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

pub(crate) fn boot_id() -> String {
    String::new()
}

pub(crate) fn start_time(_pid: u32) -> u64 {
    0
}

/// # Safety
///
/// None is needed: nothing happens.
pub(crate) unsafe fn fork_into(
    _cgroup: Option<libc::c_int>,
    _entry: extern "C" fn(*const c_void) -> !,
    _data: *const c_void,
) -> Option<io::Result<u32>> {
    None
}

pub(crate) fn count_tree() -> usize {
    0
}

/// The child leads a session and a group of its own; that group is all that can be reached here.
pub(crate) fn signal_tree(leader: u32, signals: &[libc::c_int]) {
    if let Ok(group) = libc::pid_t::try_from(leader) {
        for signo in signals {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(-group, *signo) };
        }
    }
}

pub(crate) fn kill_round(leader: u32) {
    signal_tree(leader, &[libc::SIGKILL]);
}

pub(crate) enum Cgroup {}

impl Cgroup {
    pub(crate) fn open(_path: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn path(&self) -> &Path {
        match *self {}
    }

    pub(crate) fn fd(&self) -> libc::c_int {
        match *self {}
    }

    pub(crate) fn procs_path(&self) -> PathBuf {
        match *self {}
    }

    pub(crate) fn populated(&self) -> bool {
        match *self {}
    }

    pub(crate) fn kill(&self) {
        match *self {}
    }

    pub(crate) fn oom_kills(&self) -> Option<u64> {
        match *self {}
    }
}
