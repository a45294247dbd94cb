//! Processor time of an attempt's tree, seen from outside: whether it still works. What a standstill means is decided
//! above.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use subagent_model::process::ProcessIdentity;

use crate::identity::is_alive;
use crate::platform;

/// Processor time used so far by an attempt's tree: of its control group if it has one, else of its live child with all
/// descendants and what those waited for. `None` if neither can be seen.
///
/// Two readings are to be compared, and any difference says that the tree worked. A single one says little: a group
/// counts the earlier attempts of its shim as well, and without a group the sum falls when a process leaves the tree.
/// Without a group, a process that made itself an orphan does not count. Blocking, for the time of a few reads with a
/// group, of one for each process of the machine without.
pub fn cpu_time(cgroup: Option<&Path>, child: &ProcessIdentity) -> Option<Duration> {
    cgroup.and_then(of_group).or_else(|| of_tree(child))
}

fn of_group(dir: &Path) -> Option<Duration> {
    parse_usage(&std::fs::read_to_string(dir.join("cpu.stat")).ok()?)
}

fn parse_usage(text: &str) -> Option<Duration> {
    let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    micros.trim().parse().ok().map(Duration::from_micros)
}

fn of_tree(child: &ProcessIdentity) -> Option<Duration> {
    if !is_alive(child) {
        return None;
    }
    let processes: HashMap<_, _> =
        platform::all_pids().into_iter().filter_map(|pid| Some((pid, platform::stat(pid)?))).collect();
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, stat) in &processes {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let mut ticks = processes.get(&child.pid)?.ticks;
    // Each is taken out once, so a circle in a table that was not read in one instant ends.
    let mut open = children.remove(&child.pid).unwrap_or_default();
    while let Some(pid) = open.pop() {
        ticks += processes.get(&pid).map_or(0, |stat| stat.ticks);
        open.extend(children.remove(&pid).unwrap_or_default());
    }
    let second = platform::ticks_per_second()?;
    Some(
        Duration::from_secs(ticks / second)
            + Duration::from_secs(ticks % second) / u32::try_from(second).ok()?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_is_its_own_line() {
        let text = "usage_usec 1500000\nuser_usec 9\nsystem_usec 3\n";
        assert_eq!(parse_usage(text), Some(Duration::from_millis(1500)));
        assert_eq!(parse_usage("user_usec 9\n"), None);
    }
}
