//! Linux: forking into a control group, parent-death signals, clocks, and identities from `/proc`.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read};

use crate::sys::check;

/// Orphaned descendants become children of this process, so nothing escapes its waits.
pub(crate) fn become_subreaper() -> io::Result<()> {
    // It was executed through a descriptor, whose number would be its name in process lists otherwise.
    // SAFETY: a string of fewer than 16 bytes, its end included, that lives as long as the program.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"subagent-shim".as_ptr(), 0, 0, 0) };
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// Gives the signals that the C library keeps for itself, and does not let anyone set, their default
/// action: a parent may have left them ignored.
pub(crate) fn reset_reserved_signals() {
    // The kernel's own structure, all zero: default action, no flags, empty mask.
    let default = [0_u64; 4];
    for signal in 32..34 {
        // SAFETY: the pointer is to a live structure of at least the kernel's size on every 64-bit target;
        // no old action is asked for.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null_mut::<u64>(), 8)
        };
    }
}

/// Called in the child: it is killed when the shim dies.
pub(crate) fn die_with_parent() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
}

/// Marks every descriptor from `first` on to be closed by exec. Best effort: the shim opens all its own
/// with that flag anyway.
pub(crate) fn hide_descriptors(first: libc::c_uint) {
    // SAFETY: no memory is involved; only flags change.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

pub(crate) fn pipe_cloexec(ends: &mut [libc::c_int; 2]) -> io::Result<()> {
    // SAFETY: the array has room for the two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }).map(drop)
}

/// Called in the child: limits one resource; false if refused.
pub(crate) fn set_limit(resource: libc::c_int, limit: &libc::rlimit) -> bool {
    // SAFETY: the pointer is to a live value; a negative resource is refused by the kernel.
    unsafe { libc::setrlimit(resource.unsigned_abs(), limit) == 0 }
}

/// Waits until a descriptor is ready, a child's state changes, or the time is over. SIGCHLD gets
/// through only while waiting, so no change is missed.
pub(crate) fn wait_ready(fds: &mut [libc::pollfd], timeout_millis: Option<u64>) -> io::Result<()> {
    let timeout = timeout_millis.map(|millis| libc::timespec {
        tv_sec: libc::time_t::try_from(millis / 1000).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::try_from(millis % 1000 * 1_000_000).unwrap_or(0),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `fds` is a live slice of that length; the time and the mask outlive the call.
    let result = unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut mask);
        libc::sigdelset(&raw mut mask, libc::SIGCHLD);
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, &raw const mask)
    };
    match check(result) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            for fd in fds {
                fd.revents = 0;
            }
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Milliseconds the machine was awake since it booted.
pub(crate) fn awake_millis() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live, writable value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Identity of this boot.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim_end().to_owned())
        .unwrap_or_default()
}

/// Start time of a process in clock ticks since boot; 0 if it cannot be read.
pub(crate) fn start_time(pid: u32) -> u64 {
    super::linux_tree::read_stat(pid).map_or(0, |stat| stat.start)
}

/// Reads a small file of `/proc` in one call.
pub(super) fn read_small<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let count = File::open(path).ok()?.read(buffer).ok()?;
    Some(&buffer[..count])
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const CHILD_STACK: usize = 32 * 1024;

#[repr(C, align(64))]
struct ChildStack(UnsafeCell<[u8; CHILD_STACK]>);

// SAFETY: used by one child at a time: the parent is suspended until that child is done with it, and the
// shim has one thread.
unsafe impl Sync for ChildStack {}

static STACK: ChildStack = ChildStack(UnsafeCell::new([0; CHILD_STACK]));

/// Starts a child in the memory of this process and waits until it has exec'd or exited, like `vfork`
/// but on a stack of its own, directly inside the control group if one is given. Returns its pid.
/// `None` means the kernel does not offer this, and nothing happened.
///
/// # Safety
///
/// `entry` runs in a child that shares all memory with this suspended process: it must only make
/// async-signal-safe calls, must not allocate, and must end in exec or `_exit`. All signals must be
/// blocked.
pub(crate) unsafe fn fork_into(
    cgroup: Option<libc::c_int>,
    entry: extern "C" fn(*const c_void) -> !,
    data: *const c_void,
) -> Option<io::Result<u32>> {
    let shared = u64::from((libc::CLONE_VM | libc::CLONE_VFORK).unsigned_abs());
    let mut args = CloneArgs {
        flags: shared | CLONE_CLEAR_SIGHAND,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        stack: STACK.0.get() as u64,
        stack_size: CHILD_STACK as u64,
        ..CloneArgs::default()
    };
    if let Some(fd) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(fd.unsigned_abs());
    }
    // SAFETY: the arguments are valid for the call and the caller vouches for `entry`.
    let result = unsafe { clone_call(&raw mut args, entry, data)? };
    if let Ok(pid) = u32::try_from(result) {
        return Some(Ok(pid));
    }
    let errno = i32::try_from(-result).unwrap_or(libc::EINVAL);
    match errno {
        libc::ENOSYS | libc::EINVAL | libc::EPERM => None,
        _ => Some(Err(io::Error::from_raw_os_error(errno))),
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::unnecessary_wraps)] // other processors have no such call
unsafe fn clone_call(
    args: *mut CloneArgs,
    entry: extern "C" fn(*const c_void) -> !,
    data: *const c_void,
) -> Option<i64> {
    let result: i64;
    // SAFETY: in the parent this is one system call that clobbers rcx and r11. The child begins with the
    // stack pointer at the 64-byte aligned top of its own stack and never leaves `entry`.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") args,
            in("rsi") size_of::<CloneArgs>(),
            in("r12") data,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    Some(result)
}

#[cfg(target_arch = "aarch64")]
#[allow(clippy::unnecessary_wraps)] // other processors have no such call
unsafe fn clone_call(
    args: *mut CloneArgs,
    entry: extern "C" fn(*const c_void) -> !,
    data: *const c_void,
) -> Option<i64> {
    let result: i64;
    // SAFETY: as on x86-64.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            inlateout("x0") args => result,
            in("x1") size_of::<CloneArgs>(),
            in("x8") libc::SYS_clone3,
            in("x20") data,
            in("x21") entry,
        );
    }
    Some(result)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone_call(
    _args: *mut CloneArgs,
    _entry: extern "C" fn(*const c_void) -> !,
    _data: *const c_void,
) -> Option<i64> {
    None
}
