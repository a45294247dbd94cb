//! Starting the shim itself: `posix_spawn`, because a daemon may be large and has threads, with the
//! control connection as descriptor 3, null streams, and an empty environment.
#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Starts `program` and returns its pid.
pub(crate) fn spawn(program: &Path, args: Vec<OsString>, control: BorrowedFd<'_>) -> io::Result<u32> {
    let program = CString::new(program.as_os_str().to_owned().into_vec())?;
    let mut strings = vec![c"subagent-shim".to_owned()];
    for arg in args {
        strings.push(CString::new(arg.into_vec())?);
    }
    let mut pointers: Vec<*mut libc::c_char> =
        strings.iter().map(|string| string.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let environment: [*mut libc::c_char; 1] = [std::ptr::null_mut()];

    // SAFETY: both structures are initialised by their own functions before use and destroyed once;
    // every pointer outlives the call. The child runs nothing of ours before exec.
    unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        check(libc::posix_spawn_file_actions_init(&raw mut actions))?;
        let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
        check(libc::posix_spawnattr_init(&raw mut attributes))?;
        let mut prepare = || -> io::Result<()> {
            for stream in 0..3 {
                let null = c"/dev/null".as_ptr();
                check(libc::posix_spawn_file_actions_addopen(
                    &raw mut actions,
                    stream,
                    null,
                    libc::O_RDWR,
                    0,
                ))?;
            }
            check(libc::posix_spawn_file_actions_adddup2(&raw mut actions, control.as_raw_fd(), 3))?;
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            check(libc::posix_spawnattr_setsigmask(&raw mut attributes, &raw const none))?;
            let flags = libc::c_short::try_from(libc::POSIX_SPAWN_SETSIGMASK).unwrap_or(0);
            check(libc::posix_spawnattr_setflags(&raw mut attributes, flags))
        };
        let mut pid = 0;
        let result = prepare().and_then(|()| {
            check(libc::posix_spawn(
                &raw mut pid,
                program.as_ptr(),
                &raw const actions,
                &raw const attributes,
                pointers.as_ptr(),
                environment.as_ptr(),
            ))
        });
        libc::posix_spawnattr_destroy(&raw mut attributes);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        result?;
        u32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// These functions return the error number instead of setting it.
fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}
