//! What is left of an attempt whose shim was killed: found by the control group, or by the marker every
//! process of an attempt inherits in its environment, and ended with identity checks. Blocking; call it
//! from a thread that may wait.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use subagent_core::frame::control::MARKER;
use subagent_model::process::ProcessIdentity;

use crate::cgroup::Cgroup;
use crate::identity::{identify, signal_checked};
use crate::platform;

/// Pause between two rounds.
const ROUND: Duration = Duration::from_millis(2);

/// Looks in a row that must find nothing.
const EMPTY_LOOKS: u32 = 3;

/// Processes of one attempt that have no shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanTree {
    /// Key of the attempt, as the processes' environment says.
    pub attempt: String,
    /// The processes.
    pub processes: Vec<ProcessIdentity>,
}

/// All processes of this user that carry an attempt's marker, by attempt, but for the attempts in
/// `except` (those that have a shim). A process that took the marker out of its environment is found
/// through its parent while that lives.
#[allow(clippy::implicit_hasher)] // one caller, one kind of set
pub fn orphans(except: &HashSet<String>) -> Vec<OrphanTree> {
    let mut trees: HashMap<String, Vec<ProcessIdentity>> = HashMap::new();
    for (attempt, process) in marked() {
        if !except.contains(&attempt) {
            trees.entry(attempt).or_default().push(process);
        }
    }
    let mut out: Vec<_> =
        trees.into_iter().map(|(attempt, processes)| OrphanTree { attempt, processes }).collect();
    out.sort_by(|a, b| a.attempt.cmp(&b.attempt));
    out
}

/// Kills what is left of an attempt and waits until it is gone: the control group if there is one, and
/// every process with the marker, descendants included. Returns whether nothing is left after `limit`.
pub fn kill_leftovers(attempt: &str, cgroup: Option<&Path>, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut empty = true;
    if let Some(path) = cgroup {
        let group = Cgroup::from_path(path.to_owned());
        empty = group.kill_and_wait(limit).unwrap_or(false);
        if empty {
            // Whoever made it may have removed it already.
            let _ = group.remove();
        }
    }
    let mut looks = 0;
    loop {
        let left: Vec<_> =
            marked().into_iter().filter(|(key, _)| key == attempt).map(|(_, process)| process).collect();
        if left.is_empty() {
            // A process that is just executing a program shows no environment for a moment.
            looks += 1;
            if looks == EMPTY_LOOKS {
                return empty;
            }
            std::thread::sleep(ROUND);
            continue;
        }
        looks = 0;
        // Frozen first: a process that is stopped cannot fork while the others are killed.
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            for process in &left {
                // Gone or not ours: the next look tells.
                let _ = signal_checked(process, signal);
            }
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(ROUND);
    }
}

/// Live processes of this user that carry the marker or descend from one that does.
fn marked() -> Vec<(String, ProcessIdentity)> {
    let user = rustix::process::getuid().as_raw();
    let own = std::process::id();
    let mut parents = HashMap::new();
    let mut attempts: HashMap<u32, String> = HashMap::new();
    for pid in platform::all_pids() {
        let Some(stat) = platform::stat(pid).filter(|stat| !stat.gone) else {
            continue;
        };
        parents.insert(pid, stat.parent);
        if pid == own || platform::owner(pid) != Some(user) {
            continue;
        }
        if let Some(attempt) = platform::environ(pid).and_then(|environ| marker(&environ)) {
            attempts.insert(pid, attempt);
        }
    }
    let inherited: Vec<_> = parents
        .keys()
        .filter(|pid| !attempts.contains_key(pid))
        .filter_map(|pid| {
            let attempt = ancestors(*pid, &parents).find_map(|ancestor| attempts.get(&ancestor))?;
            Some((*pid, attempt.clone()))
        })
        .collect();
    // This program may itself run inside an attempt. That one is never its own to end.
    let around = platform::environ(own).and_then(|environ| marker(&environ));
    let above: HashSet<u32> = ancestors(own, &parents).collect();
    attempts
        .into_iter()
        .chain(inherited)
        .filter(|(pid, attempt)| *pid != own && !above.contains(pid) && around.as_ref() != Some(attempt))
        .filter_map(|(pid, attempt)| Some((attempt, identify(pid)?)))
        .collect()
}

fn ancestors(pid: u32, parents: &HashMap<u32, u32>) -> impl Iterator<Item = u32> + '_ {
    // Bounded, since the table was not read in one instant and may hold a circle.
    std::iter::successors(parents.get(&pid).copied(), |pid| parents.get(pid).copied()).take(64)
}

/// The attempt an environment names.
pub(crate) fn marker(environ: &[u8]) -> Option<String> {
    environ.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_a_whole_name() {
        assert_eq!(marker(b"A=1\0SUBAGENT_ATTEMPT=k-1\0B=2\0"), Some("k-1".to_owned()));
        assert_eq!(marker(b"XSUBAGENT_ATTEMPT=k\0SUBAGENT_ATTEMPTS=k\0"), None);
    }
}
