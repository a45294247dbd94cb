//! Linux: `/proc` and process descriptors.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Stat;

/// Identity of this boot.
pub(crate) fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim_end().to_owned())
            .unwrap_or_default()
    })
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    // In one call, since many are read in a row; none is longer.
    let mut text = [0; 1024];
    let count = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut text).ok()?;
    parse_stat(&text[..count])
}

fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may hold anything, more parentheses included.
    let after = bytes.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&bytes[after..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // Fields 14 to 17 of the file, of which field 4 was taken last; then field 22.
    let mut ticks: u64 = fields.nth(9)?.parse().ok()?;
    for _ in 0..3 {
        // Those of the waited-for are signed in the kernel's format.
        let more: i64 = fields.next()?.parse().ok()?;
        ticks = ticks.saturating_add(more.max(0).unsigned_abs());
    }
    let start_time = fields.nth(4)?.parse().ok()?;
    Some(Stat { parent, start_time, gone: matches!(state, "Z" | "X" | "x"), ticks })
}

/// Clock ticks in a second, the unit of [`Stat::ticks`].
pub(crate) fn ticks_per_second() -> Option<u64> {
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)]
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0)
}

/// Path of a process in the version 2 hierarchy of control groups.
pub(crate) fn group_of(pid: u32) -> Option<String> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    crate::cgroup::own_path(&table).map(ToOwned::to_owned)
}

/// User that owns a process.
pub(crate) fn owner(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|metadata| metadata.uid())
}

/// Initial environment of a process, as the kernel shows it.
pub(crate) fn environ(pid: u32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Every process there is.
pub(crate) fn all_pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Pins a process, asks whether it is still the right one, and signals it. False if it is gone.
pub(crate) fn signal_pinned(pid: u32, signal: i32, right: impl Fn() -> bool) -> io::Result<bool> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(false);
    };
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    let pinned = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pinned) => pinned,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(rustix::io::Errno::NOSYS) => {
            // Kernels before 5.3: the check right before is the best there is.
            return match right().then(|| rustix::process::kill_process(pid, signal)) {
                None | Some(Err(rustix::io::Errno::SRCH)) => Ok(false),
                Some(result) => result.map(|()| true).map_err(io::Error::from),
            };
        }
        Err(error) => return Err(error.into()),
    };
    if !right() {
        return Ok(false);
    }
    match pidfd_send_signal(&pinned, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A program that was opened once; executing it does not depend on its path any more.
#[derive(Debug)]
pub(crate) struct Exec {
    file: OwnedFd,
}

impl Exec {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        // Out of the way of the descriptors a child is given.
        Ok(Self { file: rustix::io::fcntl_dupfd_cloexec(&file, 64)? })
    }

    /// The path to execute in a child of this process.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

/// Waits in the background for a child of this process, so that it does not stay a zombie.
pub(crate) fn reap(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    // SAFETY: an `OwnedFd` keeps the same open descriptor until it is dropped, and is dropped once.
    #[allow(unsafe_code)]
    let ended = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    let Ok(ended) = ended else {
        return;
    };
    tokio::spawn(async move {
        if ended.readable().await.is_ok() {
            // Someone else may have waited for it already; then there is nothing to do.
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text = b"12 (a) S 1) R) Z 7 8 9 0 -1 4194560 1 2 3 4 50 600 7 8 20 0 1 0 4242 1 2 3";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.parent, stat.start_time, stat.gone, stat.ticks), (7, 4242, true, 665));
    }
}
