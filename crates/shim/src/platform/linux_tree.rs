//! The tree below this process, found through `/proc`. Since the shim adopts orphans, every process of
//! the attempt is a descendant of the shim: double forks and new sessions do not change that.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::linux::read_small;
use crate::sys;

/// Upper bound of freeze passes within one round.
const FREEZE_PASSES: usize = 64;
/// Upper bound of quick passes over own children within one round.
const CHASE_PASSES: usize = 300;

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start: u64,
}

impl Stat {
    fn gone(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

pub(super) fn read_stat(pid: u32) -> Option<Stat> {
    let mut buffer = [0; 1024];
    parse_stat(pid, read_small(&format!("/proc/{pid}/stat"), &mut buffer)?)
}

fn parse_stat(pid: u32, bytes: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may hold anything, more parentheses included.
    let after = bytes.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&bytes[after..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // Field 22 of the file; field 6 was taken last.
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat { pid, state, parent, group, session, start })
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
    text.split(u8::is_ascii_whitespace).filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

/// Children of one process, or `None` if the kernel does not list them.
fn children(pid: u32, out: &mut Vec<u32>) -> Option<()> {
    if pid == std::process::id() {
        out.extend(numbers(&std::fs::read(format!("/proc/{pid}/task/{pid}/children")).ok()?));
        return Some(());
    }
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Some(());
    };
    for task in tasks.flatten() {
        if let Ok(text) = std::fs::read(task.path().join("children")) {
            out.extend(numbers(&text));
        }
    }
    Some(())
}

/// All live descendants of this process.
fn descendants() -> Vec<Stat> {
    let root = std::process::id();
    let mut queue = Vec::new();
    if children(root, &mut queue).is_none() {
        return scan(root);
    }
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while let Some(pid) = queue.pop() {
        if !seen.insert(pid) {
            continue;
        }
        if let Some(stat) = read_stat(pid).filter(|stat| !stat.gone()) {
            found.push(stat);
            children(pid, &mut queue);
        }
    }
    found
}

/// All live descendants, by reading every process there is.
fn scan(root: u32) -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut all: Vec<Stat> =
        entries.flatten().filter_map(|entry| read_stat(entry.file_name().to_str()?.parse().ok()?)).collect();
    let mut family = HashSet::from([root]);
    loop {
        let before = family.len();
        family.extend(
            all.iter().filter(|stat| family.contains(&stat.parent)).map(|stat| stat.pid).collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    all.retain(|stat| stat.pid != root && family.contains(&stat.pid) && !stat.gone());
    all
}

/// Sends a signal to exactly this process: the descriptor pins it, then its start time is compared.
fn signal(target: Stat, signo: libc::c_int) {
    // SAFETY: no memory is involved; a new descriptor or -1 comes back.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, target.pid, 0) };
    let same = || read_stat(target.pid).is_some_and(|now| now.start == target.start);
    let Ok(raw) = libc::c_int::try_from(raw) else {
        return;
    };
    if raw >= 0 {
        // SAFETY: the call succeeded, so the descriptor is open and ours.
        let pidfd = unsafe { OwnedFd::from_raw_fd(raw) };
        if same() {
            // SAFETY: a null info pointer asks for the same fields as kill; a dead target is an error.
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    pidfd.as_raw_fd(),
                    signo,
                    std::ptr::null::<libc::siginfo_t>(),
                    0,
                )
            };
        }
    } else if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) && same() {
        // Kernels before 5.3: the check right before is the best there is.
        let _ = sys::signal_child(target.pid, signo);
    }
}

/// Live processes of the tree.
pub(crate) fn count_tree() -> usize {
    descendants().len()
}

/// Sends signals, in order, to every live process of the tree.
pub(crate) fn signal_tree(_leader: u32, signals: &[libc::c_int]) {
    for target in descendants() {
        for signo in signals {
            signal(target, *signo);
        }
    }
}

/// One round of killing everything below this process. The caller waits for the dead and repeats until
/// nothing is left. Whole process groups go first, since the kernel signals a group in one step that a
/// fork cannot cross; the others are frozen before they are killed, so that they cannot multiply.
pub(crate) fn kill_round(_leader: u32) {
    let own = read_stat(std::process::id());
    let mut frozen: HashSet<(u32, u64)> = HashSet::new();
    for _ in 0..FREEZE_PASSES {
        let tree = descendants();
        let mut grew = false;
        let mut groups = HashSet::new();
        for stat in &tree {
            let foreign = own.is_none_or(|own| stat.session == own.session || stat.group == own.group);
            if !foreign && groups.insert(stat.group) {
                kill_group(*stat);
            }
            if frozen.insert((stat.pid, stat.start)) {
                grew = true;
                signal(*stat, libc::SIGSTOP);
            }
        }
        if !grew {
            break;
        }
    }
    for stat in descendants() {
        signal(stat, libc::SIGKILL);
    }
    chase();
}

/// Kills the process group of a member that is still the same and still in it. A session below the
/// shim's child holds descendants only, and so does a group within it.
fn kill_group(member: Stat) {
    let same = read_stat(member.pid)
        .is_some_and(|now| now.start == member.start && now.group == member.group && !now.gone());
    if let (true, Ok(group)) = (same && member.group > 1, libc::pid_t::try_from(member.group)) {
        // SAFETY: no memory is involved.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Chains of processes that fork and exit hop into our hands: each orphan becomes a child of ours. Own
/// children keep their pid until waited for, so they are killed without a further look.
fn chase() {
    let root = std::process::id();
    let mut own = Vec::new();
    for _ in 0..CHASE_PASSES {
        own.clear();
        if children(root, &mut own).is_none() || own.is_empty() {
            return;
        }
        let mut live = false;
        for pid in &own {
            if read_stat(*pid).is_some_and(|stat| !stat.gone()) {
                live = true;
            }
            let _ = sys::signal_child(*pid, libc::SIGKILL);
        }
        if !live {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text = b"12 (a) S 1) R) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2 3";
        let stat = parse_stat(12, text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group, stat.session, stat.start), (b'S', 7, 8, 9, 4242));
    }

    #[test]
    fn both_ways_find_a_grandchild_and_it_can_be_signalled() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 600 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();
        let has = |tree: &[Stat], pid| tree.iter().any(|stat| stat.pid == pid);
        let scanned = scan(std::process::id());
        assert!(has(&scanned, sleeper) && has(&scanned, child.id()));
        let stat = read_stat(sleeper).unwrap();
        signal(Stat { start: stat.start + 1, ..stat }, libc::SIGKILL);
        assert!(!read_stat(sleeper).unwrap().gone());
        signal(stat, libc::SIGKILL);
        child.wait().unwrap();
        assert!(!has(&scan(std::process::id()), sleeper));
    }

    #[test]
    fn own_stat_is_readable() {
        let stat = read_stat(std::process::id()).unwrap();
        assert!(stat.start > 0);
        assert!(!stat.gone());
    }
}
