//! From a prepared plan to a running program. The child side runs in a copy of the shim, or even in its
//! very memory (see `platform::fork_into`): it makes system calls only, allocates nothing, and never
//! returns.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use subagent_model::process::StartStage;

use super::platform::{self, Cgroup};
use super::sys;

/// Everything the child needs, prepared before it exists.
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a CStr,
    /// Ends with a null pointer.
    pub(crate) argv: &'a [*const c_char],
    /// Ends with a null pointer.
    pub(crate) envp: &'a [*const c_char],
    pub(crate) cwd: &'a CStr,
    pub(crate) streams: [RawFd; 3],
    pub(crate) limits: &'a [(libc::c_int, libc::rlimit)],
    pub(crate) cgroup: Option<&'a Cgroup>,
}

/// The step that failed and the system's reason.
pub(crate) struct Failed {
    pub(crate) stage: StartStage,
    pub(crate) error: io::Error,
}

struct ChildData<'a> {
    plan: &'a Plan<'a>,
    parent: u32,
    /// Member list of the control group to join, or -1.
    procs: RawFd,
    /// Pipe for the failure where memory is not shared, or -1.
    report: RawFd,
    stage: AtomicI32,
    errno: AtomicI32,
}

const STAGE_CWD: i32 = 1;
const STAGE_EXEC: i32 = 2;
const STAGE_CGROUP: i32 = 3;
const STAGE_OTHER: i32 = 4;

fn stage(code: i32) -> StartStage {
    match code {
        STAGE_CWD => StartStage::Cwd,
        STAGE_EXEC => StartStage::Exec,
        STAGE_CGROUP => StartStage::Cgroup,
        _ => StartStage::Other,
    }
}

/// Starts the program and waits until it has been exec'd; returns its pid.
pub(crate) fn spawn(plan: &Plan<'_>) -> Result<u32, Failed> {
    let mut data = ChildData {
        plan,
        parent: std::process::id(),
        procs: -1,
        report: -1,
        stage: AtomicI32::new(0),
        errno: AtomicI32::new(0),
    };
    let pointer = std::ptr::from_ref(&data).cast();
    // SAFETY: `child` keeps the promises asked for; signals are blocked from the start of the program.
    let pid = match unsafe { platform::fork_into(plan.cgroup.map(Cgroup::fd), child, pointer) } {
        Some(result) => result.map_err(|error| Failed { stage: clone_stage(plan, &error), error })?,
        None => fork(&mut data)?,
    };
    match data.stage.load(Ordering::Acquire) {
        0 => Ok(pid),
        code => Err(Failed {
            stage: stage(code),
            error: io::Error::from_raw_os_error(data.errno.load(Ordering::Acquire)),
        }),
    }
}

/// A refused clone with a control group is the group's fault, unless processes or memory ran out.
fn clone_stage(plan: &Plan<'_>, error: &io::Error) -> StartStage {
    let exhausted = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM));
    if plan.cgroup.is_some() && !exhausted { StartStage::Cgroup } else { StartStage::Exec }
}

/// The portable way: fork, and a pipe that tells of a failed exec by bytes and of a successful one by its
/// end.
fn fork(data: &mut ChildData<'_>) -> Result<u32, Failed> {
    let other = |error| Failed { stage: StartStage::Other, error };
    let (reader, writer) = sys::pipe().map_err(other)?;
    let procs = match data.plan.cgroup {
        Some(cgroup) => Some(
            OpenOptions::new()
                .write(true)
                .open(cgroup.procs_path())
                .map_err(|error| Failed { stage: StartStage::Cgroup, error })?,
        ),
        None => None,
    };
    data.report = writer.as_raw_fd();
    data.procs = procs.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: the process has one thread, and the child only runs `child`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child(std::ptr::from_ref(data).cast());
    }
    let pid = u32::try_from(pid)
        .map_err(|_| Failed { stage: StartStage::Exec, error: io::Error::last_os_error() })?;
    drop(writer);
    let mut report = [0; 8];
    if let Ok(8) = sys::read(&reader, &mut report) {
        let word = |at: usize| report[at..at + 4].try_into().map_or(libc::EIO, i32::from_ne_bytes);
        data.stage.store(word(0), Ordering::Release);
        data.errno.store(word(4), Ordering::Release);
    }
    Ok(pid)
}

extern "C" fn child(data: *const c_void) -> ! {
    // SAFETY: `data` is the parent's `ChildData`, alive while the parent waits for exec or exit (shared
    // memory), or in this process's own copy (fork). Only async-signal-safe calls follow.
    unsafe {
        let data = &*data.cast::<ChildData<'_>>();
        let plan = data.plan;
        libc::setsid();
        platform::die_with_parent();
        if u32::try_from(libc::getppid()) != Ok(data.parent) {
            // The shim died before the line above took effect.
            libc::_exit(127);
        }
        if data.procs >= 0 && libc::write(data.procs, c"0".as_ptr().cast(), 1) != 1 {
            fail(data, STAGE_CGROUP);
        }
        // The sources are all above 2: the shim keeps its own standard streams open.
        for (target, source) in (0..).zip(plan.streams) {
            if libc::dup2(source, target) < 0 {
                fail(data, STAGE_OTHER);
            }
        }
        platform::hide_descriptors(3);
        if libc::chdir(plan.cwd.as_ptr()) != 0 {
            fail(data, STAGE_CWD);
        }
        for (resource, limit) in plan.limits {
            if !platform::set_limit(*resource, limit) {
                fail(data, STAGE_OTHER);
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::execve(plan.program.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
        fail(data, STAGE_EXEC)
    }
}

/// # Safety
///
/// Only for the child.
unsafe fn fail(data: &ChildData<'_>, stage: i32) -> ! {
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    data.errno.store(errno, Ordering::Release);
    data.stage.store(stage, Ordering::Release);
    if data.report >= 0 {
        let report = [stage, errno];
        // SAFETY: eight bytes of a live array; the pipe takes them in one piece.
        unsafe { libc::write(data.report, report.as_ptr().cast(), 8) };
    }
    // SAFETY: ends this process without running anything of the parent's.
    unsafe { libc::_exit(127) }
}
