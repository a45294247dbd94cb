//! Thin, retrying wrappers around the few POSIX calls the standard library does not offer. Nothing here
//! is specific to one operating system; that lives in `platform`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Turns a `-1` into the error it stands for.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reads once.
pub(crate) fn read(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live, writable buffer.
    retry(|| unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Reads once at an offset, without moving the file position.
pub(crate) fn read_at(fd: &impl AsRawFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the pointer and length describe a live, writable buffer.
    retry(|| unsafe { libc::pread(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), offset) })
}

/// Writes once.
pub(crate) fn write(fd: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe a live buffer.
    retry(|| unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// Writes the concatenation of up to three buffers completely, in one system call as a rule.
pub(crate) fn write_all_vectored(file: &File, parts: [&[u8]; 3]) -> io::Result<()> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let mut done = 0;
    while done < total {
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 3];
        let mut used = 0;
        let mut skip = done;
        for part in parts {
            let rest = &part[skip.min(part.len())..];
            skip = skip.saturating_sub(part.len());
            if !rest.is_empty() {
                vectors[used] =
                    libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
                used += 1;
            }
        }
        let count = libc::c_int::try_from(used).unwrap_or(0);
        // SAFETY: the first `used` vectors point into `parts`, which outlive the call; writev only reads.
        let written = retry(|| unsafe { libc::writev(file.as_raw_fd(), vectors.as_ptr(), count) })?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        done += written;
    }
    Ok(())
}

/// Bytes in a pipe that its reader has not taken; 0 where the system does not tell.
pub(crate) fn unread(pipe: &OwnedFd) -> u64 {
    let mut count: libc::c_int = 0;
    // SAFETY: this request writes one int, to a live, writable value.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if result == 0 { u64::try_from(count).unwrap_or(0) } else { 0 }
}

/// A pipe whose ends are closed by exec: (read end, write end).
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    super::platform::pipe_cloexec(&mut ends)?;
    // SAFETY: the call succeeded, so both are open and owned by nobody else.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Makes reads and writes on this description return instead of wait.
pub(crate) fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: only flags of an open descriptor are touched.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// Marks a descriptor to be closed by exec.
pub(crate) fn set_cloexec(fd: RawFd) -> io::Result<()> {
    // SAFETY: only flags of a descriptor are touched; a closed one is reported as an error.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// Takes ownership of a descriptor the shim was started with.
///
/// # Safety
///
/// Nothing else in the process may own `fd`.
pub(crate) unsafe fn take_inherited<T: From<OwnedFd>>(fd: RawFd) -> io::Result<T> {
    set_cloexec(fd)?;
    // SAFETY: `set_cloexec` proved it open; the caller promises it is not owned elsewhere.
    Ok(T::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Becomes a session leader; harmless if it is one already.
pub(crate) fn new_session() {
    // SAFETY: takes no memory; EPERM means the process leads a group already.
    unsafe { libc::setsid() };
}

extern "C" fn on_child(_signal: libc::c_int) {}

/// Gives every signal its default action, then blocks all of them for good; SIGCHLD gets a handler that
/// does nothing, so that it interrupts a poll that lets it through. Blocked signals are not inherited by
/// children as pending, and the default actions are what an exec'd child must find.
pub(crate) fn quiet_signals() {
    super::platform::reset_reserved_signals();
    // SAFETY: all structures are plain old data initialised before use; the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        action.sa_sigaction = on_child as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Runs `make` with a file mode mask that leaves nothing to others, and restores the inherited mask.
pub(crate) fn with_private_umask<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: umask cannot fail and touches no memory.
    let before = unsafe { libc::umask(0o177) };
    let result = make();
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    result
}

/// Sends a signal to an own child that was not waited for yet, so that its pid cannot be someone else's.
pub(crate) fn signal_child(pid: u32, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no memory is involved.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// How a child ended.
#[derive(Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) pid: u32,
    pub(crate) status: libc::c_int,
    pub(crate) usage: libc::rusage,
}

/// What a wait without waiting found.
pub(crate) enum Wait {
    /// A child ended and was reaped.
    Reaped(Reaped),
    /// Children exist, none has ended.
    Running,
    /// There is no child, hence no descendant either: this process adopts all orphans among them.
    None,
}

/// Reaps one ended child, if any.
pub(crate) fn wait_any() -> Wait {
    loop {
        let mut status = 0;
        // SAFETY: rusage is plain old data.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live, writable values.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        match u32::try_from(pid) {
            Ok(0) => return Wait::Running,
            Ok(pid) => return Wait::Reaped(Reaped { pid, status, usage }),
            Err(_) => {
                if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                    return Wait::None;
                }
            }
        }
    }
}

/// Makes a directory's entries durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Microseconds since the epoch.
pub(crate) fn now_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// The error number of an error, 0 if it has none.
pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}
