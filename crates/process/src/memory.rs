//! Memory that is left for new children: of the machine, and of the control groups around this process where they limit
//! it. How much is too little is decided above.

use std::path::Path;

use crate::cgroup;

/// Mebibytes that can be used before something must be swapped out or killed; `None` where that is not known.
pub fn memory_available_mb() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let groups = cgroup::around_self().into_iter().filter_map(|dir| of_group(&dir)).min();
    machine.into_iter().chain(groups).min().map(|bytes| bytes / (1024 * 1024))
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn of_group(dir: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
    left(&read("memory.max")?, &read("memory.current")?, &read("memory.stat").unwrap_or_default())
}

/// Bytes left in a group; `None` if it has no limit. Cached files that nobody used lately count as free, as they do for
/// the machine.
fn left(max: &str, current: &str, stat: &str) -> Option<u64> {
    let max: u64 = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let cached =
        stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok()).unwrap_or(0);
    Some(max.saturating_sub(current.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_in_kilobytes() {
        let text = "MemTotal:       100 kB\nMemFree:          10 kB\nMemAvailable:       2048 kB\n";
        assert_eq!(of_machine(text), Some(2 * 1024 * 1024));
        assert_eq!(of_machine("MemTotal:       100 kB\n"), None);
    }

    #[test]
    fn a_limit_leaves_what_is_not_used_and_old_cache_is_not_used() {
        assert_eq!(left("1000\n", "700\n", "anon 5\ninactive_file 200\n"), Some(500));
        assert_eq!(left("1000\n", "700\n", ""), Some(300));
        assert_eq!(left("1000\n", "1100\n", ""), Some(0));
        assert_eq!(left("max\n", "700\n", ""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_some_and_not_more_than_it_has() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
        let available = memory_available_mb();
        assert!(available.is_some_and(|mb| mb > 0), "{available:?}");
        assert!(
            available.zip(total).is_some_and(|(mb, total): (u64, u64)| mb <= total / 1024),
            "{available:?} {total:?}"
        );
    }
}
