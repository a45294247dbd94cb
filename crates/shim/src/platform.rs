//! What differs between operating systems, behind one set of names. Linux is the tested one.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod linux_cgroup;
#[cfg(target_os = "linux")]
mod linux_tree;
#[cfg(not(target_os = "linux"))]
mod other_unix;

#[cfg(target_os = "linux")]
pub(crate) use {
    linux::{
        awake_millis, become_subreaper, boot_id, die_with_parent, fork_into, hide_descriptors, pipe_cloexec,
        reset_reserved_signals, set_limit, start_time, wait_ready,
    },
    linux_cgroup::Cgroup,
    linux_tree::{count_tree, kill_round, signal_tree},
};

#[cfg(not(target_os = "linux"))]
pub(crate) use other_unix::{
    Cgroup, awake_millis, become_subreaper, boot_id, count_tree, die_with_parent, fork_into,
    hide_descriptors, kill_round, pipe_cloexec, reset_reserved_signals, set_limit, signal_tree, start_time,
    wait_ready,
};
