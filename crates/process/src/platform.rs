//! What differs between operating systems, behind one set of names. Linux is the tested one.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other_unix;
mod spawn;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    Exec, all_pids, boot_id, environ, group_of, owner, reap, signal_pinned, stat, ticks_per_second,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use other_unix::{
    Exec, all_pids, boot_id, environ, group_of, owner, reap, signal_pinned, stat, ticks_per_second,
};
pub(crate) use spawn::spawn;

/// What is known about a process from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
    /// A zombie or dead.
    pub(crate) gone: bool,
    /// Processor time used by it and by what it waited for, in clock ticks.
    pub(crate) ticks: u64,
}
