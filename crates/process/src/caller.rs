//! Which attempt a process belongs to, for whoever connects to the daemon. A process is not asked: the kernel is, by its
//! control group and by its ancestors; what stands in its environment comes last, since anybody can write that. What a
//! caller may do is decided elsewhere.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use subagent_model::process::ProcessIdentity;

use crate::cgroup;
use crate::leftovers::marker;
use crate::platform::{self, Stat};

/// Ancestors looked at, at most.
const GENERATIONS: usize = 64;

/// How it is known to which attempt a process belongs, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// It lives in the control group of the attempt. Only someone with rights over that group can bring a process in
    /// or out.
    Group,
    /// It descends from the attempt's child, or its shim has adopted it.
    Ancestors,
    /// Its first environment names the attempt, which lives. A hint: any process of this user could say so.
    Environment,
}

/// A process that belongs to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Key of the attempt.
    pub attempt: String,
    /// How that is known.
    pub evidence: Evidence,
}

#[derive(Debug)]
struct Member {
    start_time: u64,
    attempt: String,
}

#[derive(Debug, Default)]
struct Index {
    /// Paths within the hierarchy, as `/proc/PID/cgroup` shows them.
    groups: HashMap<String, String>,
    members: HashMap<u32, Member>,
    /// What was entered for an attempt: its group and pids.
    attempts: HashMap<String, (Option<String>, Vec<u32>)>,
    /// Start time of the oldest member. What is older descends from none.
    oldest: u64,
}

/// The live attempts and their processes. It does not look for them: whoever starts or adopts an attempt enters it, and
/// whoever settles one takes it out. Both are cheap, and no lock is held while the kernel is asked.
#[derive(Debug, Default)]
pub struct Callers {
    index: RwLock<Index>,
}

impl Callers {
    /// None are known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An attempt lives in this shim, in this control group directory if it has one ([`crate::Shim::cgroup`]). May be
    /// repeated when the child is known; what was entered for the attempt before is replaced. A shim that serves
    /// another attempt may be entered for it before the earlier one was taken out.
    pub fn enter(
        &self,
        cgroup: Option<&Path>,
        shim: ProcessIdentity,
        child: Option<ProcessIdentity>,
        attempt: String,
    ) {
        let group = cgroup.and_then(group_path);
        let members: Vec<_> = [Some(shim), child]
            .into_iter()
            .flatten()
            .filter(|one| one.boot_id == platform::boot_id())
            .collect();
        let mut index = self.write();
        index.remove(&attempt);
        if let Some(group) = &group {
            index.groups.insert(group.clone(), attempt.clone());
        }
        let pids = members.iter().map(|one| one.pid).collect();
        for one in members {
            index.members.insert(one.pid, Member { start_time: one.start_time, attempt: attempt.clone() });
        }
        index.attempts.insert(attempt, (group, pids));
        index.find_oldest();
    }

    /// The attempt is over. One that is not known is no error.
    pub fn leave(&self, attempt: &str) {
        let mut index = self.write();
        index.remove(attempt);
        index.find_oldest();
    }

    /// The key of the attempt this process belongs to; `None` if to none that is known, or if it is gone.
    pub fn attempt_of(&self, pid: u32) -> Option<String> {
        self.find(pid).map(|caller| caller.attempt)
    }

    /// The same, and how it is known. Reads a few small files of `/proc`.
    pub fn find(&self, pid: u32) -> Option<Caller> {
        let stat = platform::stat(pid).filter(|stat| !stat.gone)?;
        if self.read().is_before_all(&stat) {
            return None;
        }
        let found = |attempt, evidence| Caller { attempt, evidence };
        let caller = self
            .by_group(pid)
            .map(|attempt| found(attempt, Evidence::Group))
            .or_else(|| self.by_ancestors(pid, stat).map(|attempt| found(attempt, Evidence::Ancestors)))
            .or_else(|| self.by_environment(pid).map(|attempt| found(attempt, Evidence::Environment)))?;
        // The answers above are about one process only if the pid was not used again meanwhile.
        let still = platform::stat(pid).filter(|now| !now.gone)?;
        (still.start_time == stat.start_time).then_some(caller)
    }

    fn by_group(&self, pid: u32) -> Option<String> {
        if self.read().groups.is_empty() {
            return None;
        }
        let path = platform::group_of(pid)?;
        self.read().by_group(&path)
    }

    fn by_ancestors(&self, mut pid: u32, mut stat: Stat) -> Option<String> {
        for _ in 0..GENERATIONS {
            {
                let index = self.read();
                if let Some(attempt) = index.by_member(pid, &stat) {
                    return Some(attempt);
                }
                if index.is_before_all(&stat) {
                    return None;
                }
            }
            if stat.parent <= 1 {
                return None;
            }
            // A parent is never younger; one that is has the pid of the real one, which is gone.
            match platform::stat(stat.parent) {
                Some(next) if !next.gone && next.start_time <= stat.start_time => {
                    pid = stat.parent;
                    stat = next;
                }
                _ => {
                    // Somebody adopted it meanwhile.
                    let again = platform::stat(pid)?;
                    if again.parent == stat.parent || again.start_time != stat.start_time {
                        return None;
                    }
                    stat = again;
                }
            }
        }
        None
    }

    fn by_environment(&self, pid: u32) -> Option<String> {
        let attempt = marker(&platform::environ(pid)?)?;
        // Of an attempt that nobody entered this says nothing: it is over, or of another daemon.
        self.read().attempts.contains_key(&attempt).then_some(attempt)
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    fn remove(&mut self, attempt: &str) {
        let Some((group, pids)) = self.attempts.remove(attempt) else {
            return;
        };
        // A shim that serves the next attempt is that one's by now.
        if let Some(group) = group
            && self.groups.get(&group).is_some_and(|of| of == attempt)
        {
            self.groups.remove(&group);
        }
        for pid in pids {
            if self.members.get(&pid).is_some_and(|member| member.attempt == attempt) {
                self.members.remove(&pid);
            }
        }
    }

    fn find_oldest(&mut self) {
        self.oldest = self.members.values().map(|member| member.start_time).min().unwrap_or(0);
    }

    /// Whether this process is older than every attempt here, or there is none.
    fn is_before_all(&self, stat: &Stat) -> bool {
        self.attempts.is_empty() || stat.start_time < self.oldest
    }

    /// The innermost group counts: what is below an attempt's group belongs to it, but for other attempts' groups.
    fn by_group(&self, path: &str) -> Option<String> {
        let mut path = path;
        while !path.is_empty() {
            if let Some(attempt) = self.groups.get(path) {
                return Some(attempt.clone());
            }
            path = path.rsplit_once('/')?.0;
        }
        None
    }

    fn by_member(&self, pid: u32, stat: &Stat) -> Option<String> {
        let member = self.members.get(&pid)?;
        (member.start_time == stat.start_time).then(|| member.attempt.clone())
    }
}

/// A group's directory as a path within the hierarchy; `None` for the hierarchy itself and what is in none.
fn group_path(dir: &Path) -> Option<String> {
    let inner = cgroup::mounts()
        .iter()
        .filter_map(|mount| dir.strip_prefix(mount).ok())
        .min_by_key(|path| path.as_os_str().len())?
        .to_str()?
        .to_owned();
    (!inner.is_empty()).then(|| format!("/{inner}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn identity(pid: u32, start_time: u64) -> ProcessIdentity {
        ProcessIdentity { pid, start_time, boot_id: platform::boot_id().to_owned() }
    }

    fn stat(parent: u32, start_time: u64) -> Stat {
        Stat { parent, start_time, gone: false, ticks: 0 }
    }

    #[test]
    fn the_innermost_group_counts_and_names_are_whole() {
        let mut index = Index::default();
        index.groups.insert("/root/a".to_owned(), "outer".to_owned());
        index.groups.insert("/root/a/daemon/b".to_owned(), "inner".to_owned());
        assert_eq!(index.by_group("/root/a").as_deref(), Some("outer"));
        assert_eq!(index.by_group("/root/a/own/deep").as_deref(), Some("outer"));
        assert_eq!(index.by_group("/root/a/daemon/b/c").as_deref(), Some("inner"));
        assert_eq!(index.by_group("/root/ab"), None);
        assert_eq!(index.by_group("/"), None);
        assert_eq!(index.by_group(""), None);
    }

    #[test]
    fn a_shim_used_again_belongs_to_its_newer_attempt() {
        let callers = Callers::new();
        callers.enter(None, identity(10, 5), Some(identity(11, 7)), "one".to_owned());
        callers.enter(None, identity(10, 5), Some(identity(12, 9)), "two".to_owned());
        callers.leave("one");
        let index = callers.read();
        assert_eq!(index.by_member(10, &stat(1, 5)).as_deref(), Some("two"));
        assert_eq!(index.by_member(11, &stat(10, 7)), None);
        assert_eq!(index.oldest, 5);
        drop(index);
        callers.leave("two");
        let index = callers.read();
        assert!(index.members.is_empty() && index.groups.is_empty() && index.attempts.is_empty());
    }

    #[test]
    fn a_pid_used_again_and_another_boot_are_not_members() {
        let callers = Callers::new();
        callers.enter(None, identity(10, 5), None, "one".to_owned());
        let elsewhere = ProcessIdentity { boot_id: "another".to_owned(), ..identity(20, 5) };
        callers.enter(None, elsewhere, None, "two".to_owned());
        let index = callers.read();
        assert_eq!(index.by_member(10, &stat(1, 6)), None);
        assert_eq!(index.by_member(20, &stat(1, 5)), None);
    }
}
