//! What the tools have started: each program in a process group of its own, ended as a whole. A leader is not reaped
//! before its group is done with, so that the number of the group means nothing else meanwhile.
//!
//! A process that leaves its group (`setsid`) leaves this too. The supervisor that holds the agent ends the whole tree.

use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long a group may take to end by itself once it was asked.
const GRACE: Duration = Duration::from_secs(1);
/// How long is waited for a group that was killed.
const KILLED: Duration = Duration::from_secs(2);

/// The groups that may still have processes.
#[derive(Debug, Default)]
pub(super) struct Groups(Mutex<Vec<Group>>);

impl Groups {
    /// Takes over a group that goes on in the background.
    pub(super) fn keep(&self, group: Group) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended meanwhile are let go of here.
        groups.retain_mut(Group::is_alive);
        groups.push(group);
    }

    /// Ends them all.
    pub(super) async fn end(&self) {
        let groups = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        futures_util::future::join_all(groups.into_iter().map(|group| async move {
            let mut group = group;
            group.end(GRACE).await;
        }))
        .await;
    }
}

/// A program and what it has started. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    /// Whether the leader was reaped: from then on its number may be another one's.
    reaped: bool,
}

impl Group {
    /// Takes a child that was started as the leader of a group.
    pub(super) fn of(leader: Child) -> Self {
        let id = Pid::from_child(&leader);
        Self { leader, id, reaped: false }
    }

    /// Its number.
    pub(super) fn number(&self) -> i32 {
        self.id.as_raw_nonzero().get()
    }

    /// Waits for the end of the leader, without reaping it.
    pub(super) async fn leader_ended(&self) {
        let id = self.id;
        let _ = tokio::task::spawn_blocking(move || {
            loop {
                match waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                    Err(rustix::io::Errno::INTR) => {}
                    _ => return,
                }
            }
        })
        .await;
    }

    /// How the leader ended. It must have ended; after this the group cannot be signalled.
    pub(super) fn reap(&mut self) -> Option<std::process::ExitStatus> {
        self.reaped = true;
        self.leader.wait().ok()
    }

    /// How the leader ended, if it has, while the group stays what it is.
    pub(super) fn how(&self) -> Option<How> {
        let status = waitid(
            WaitId::Pid(self.id),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG,
        )
        .ok()
        .flatten()?;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(How::Code(code)),
            (None, Some(signal)) => Some(How::Signal(signal)),
            (None, None) => None,
        }
    }

    /// Whether anything of it lives.
    pub(super) fn is_alive(&mut self) -> bool {
        !self.reaped && (self.how().is_none() || has_members(self.id))
    }

    /// Sends a signal to all of it.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.reaped {
            let _ = kill_process_group(self.id, signal);
        }
    }

    /// Ends it: asks, waits a while, kills. The leader is not reaped.
    pub(super) async fn end(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(grace, self.gone()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = tokio::time::timeout(KILLED, self.gone()).await;
        }
    }

    async fn gone(&mut self) {
        // Short at first: most end at once.
        let mut pause = Duration::from_millis(2);
        while self.is_alive() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.signal(Signal::KILL);
        self.reaped = true;
        // What was killed ends at once, unless the kernel holds it: then nobody waits for it here.
        for _ in 0..20 {
            if !matches!(self.leader.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// How a leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Code(i32),
    Signal(i32),
}

/// Whether a group has processes other than ended ones.
#[cfg(target_os = "linux")]
fn has_members(group: Pid) -> bool {
    let wanted = group.as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return rustix::process::test_kill_process_group(group).is_ok();
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let is_process = name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
        is_process
            && std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| {
                member(&stat).is_some_and(|(state, group)| group == wanted && !"ZX".contains(state))
            })
    })
}

/// State and process group of a line of `/proc/PID/stat`, see `proc_pid_stat(5)`. The name may contain anything.
#[cfg(target_os = "linux")]
fn member(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

#[cfg(not(target_os = "linux"))]
fn has_members(group: Pid) -> bool {
    // Ended processes do not count there.
    rustix::process::test_kill_process_group(group).is_ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::member;

    #[test]
    fn a_name_cannot_pretend_to_be_fields() {
        assert_eq!(member("42 (a) Z 1 1) S 7 99 99 0"), Some(('S', 99)));
        assert_eq!(member("42 (sh) Z 7 99 99 0"), Some(('Z', 99)));
        assert_eq!(member("nothing"), None);
    }
}
