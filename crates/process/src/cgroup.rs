//! Control groups of version 2: finding a place where this process may make one, and ending what is in
//! it. Only membership and killing are used, so a mount without controllers (hybrid layouts) is enough.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Prefix of the directories made here.
const PREFIX: &str = "subagent-";

/// Why no control group can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupUnavailable {
    /// There is no version 2 hierarchy mounted writable.
    #[error("no writable cgroup2 mount")]
    NoMount,
    /// This process's own group in it is not known.
    #[error("this process's own cgroup2 path is not known")]
    NoOwnPath,
    /// A group may not be made there.
    #[error("cannot make a control group in {dir}: {reason}")]
    NotWritable {
        /// The parent directory.
        dir: String,
        /// The system's reason.
        reason: String,
    },
    /// The kernel cannot kill a group (Linux before 5.14).
    #[error("the kernel has no cgroup.kill")]
    NoKill,
}

/// A directory below which this program makes one group per shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupRoot {
    path: PathBuf,
}

impl CgroupRoot {
    /// Finds or makes `subagent-<uid>-<tag>` below this process's own group. `tag` keeps daemons apart.
    ///
    /// # Errors
    ///
    /// The reason why there is none; `doctor` shows it.
    pub fn discover(tag: &str) -> Result<Self, CgroupUnavailable> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let candidates = mounts_of_cgroup2(&mounts, true);
        if candidates.is_empty() {
            return Err(CgroupUnavailable::NoMount);
        }
        let relative = own_path(&own).ok_or(CgroupUnavailable::NoOwnPath)?;
        let uid = rustix::process::getuid().as_raw();
        let mut reason = CgroupUnavailable::NoMount;
        for mount in candidates {
            let parent = mount.join(relative.trim_start_matches('/'));
            match Self::at(&parent.join(format!("{PREFIX}{uid}-{tag}"))) {
                Ok(root) => return Ok(root),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    /// Uses or makes exactly this directory.
    ///
    /// # Errors
    ///
    /// It cannot be made, or its kernel cannot kill groups.
    pub fn at(path: &Path) -> Result<Self, CgroupUnavailable> {
        if let Err(error) = std::fs::create_dir(path)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(CgroupUnavailable::NotWritable {
                dir: path.parent().unwrap_or(path).display().to_string(),
                reason: error.to_string(),
            });
        }
        if path.join("cgroup.kill").exists() {
            Ok(Self { path: path.to_owned() })
        } else {
            let _ = std::fs::remove_dir(path);
            Err(CgroupUnavailable::NoKill)
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the group of one shim.
    pub fn make(&self, name: &str) -> io::Result<Cgroup> {
        let path = self.path.join(name);
        match std::fs::create_dir(&path) {
            // The root may have been removed by another daemon of the same tag that found it empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::create_dir_all(&path)?,
            other => other?,
        }
        Ok(Cgroup { path })
    }

    /// Groups that exist below this one.
    pub fn groups(&self) -> io::Result<Vec<Cgroup>> {
        let mut out = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                out.push(Cgroup { path: entry.path() });
            }
        }
        Ok(out)
    }

    /// Removes the directory if it holds no group.
    pub fn remove(&self) -> io::Result<()> {
        std::fs::remove_dir(&self.path)
    }
}

/// The group of one shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// The group with this directory; it need not exist any more.
    pub fn from_path(path: PathBuf) -> Self {
        Self { path }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a live process is in the group or below it. A group that is gone is empty.
    pub fn populated(&self) -> io::Result<bool> {
        match std::fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(text) => Ok(text.lines().any(|line| line == "populated 1")),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Pids of the processes directly in the group.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        match std::fs::read_to_string(self.path.join("cgroup.procs")) {
            Ok(text) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
            Err(error) if is_gone(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Kills everything in the group and below it, atomically.
    pub fn kill(&self) -> io::Result<()> {
        match std::fs::write(self.path.join("cgroup.kill"), "1") {
            Err(error) if is_gone(&error) => Ok(()),
            other => other,
        }
    }

    /// Kills everything and waits, blocking, until the group is empty; false if it is not after `limit`.
    pub fn kill_and_wait(&self, limit: Duration) -> io::Result<bool> {
        let until = Instant::now() + limit;
        loop {
            if !self.populated()? {
                return Ok(true);
            }
            self.kill()?;
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Removes the group and the empty groups below it. Fails while a process is in it.
    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.path, 0)
    }
}

fn remove_tree(path: &Path, depth: u32) -> io::Result<()> {
    match std::fs::remove_dir(path) {
        Ok(()) => return Ok(()),
        Err(error) if is_gone(&error) => return Ok(()),
        Err(error) if depth >= 16 => return Err(error),
        Err(_) => {}
    }
    // A child that made groups of its own left them below.
    for entry in std::fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path(), depth + 1)?;
        }
    }
    std::fs::remove_dir(path)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// Where version 2 hierarchies are mounted, read-only ones included.
pub(crate) fn mounts() -> Vec<PathBuf> {
    mounts_of_cgroup2(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default(), false)
}

/// The group of this process and those around it, the innermost first, as far as they can be seen.
pub(crate) fn around_self() -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // A path that leads out of what is visible here names groups of somebody else.
    let relative = own_path(&table).filter(|path| !path.split('/').any(|name| name == ".."));
    let (Some(relative), Some(mount)) = (relative, mounts().into_iter().next()) else {
        return Vec::new();
    };
    let own = mount.join(relative.trim_start_matches('/'));
    own.ancestors().take_while(|dir| dir.starts_with(&mount)).map(Path::to_owned).collect()
}

/// Mount points of version 2 hierarchies, in the order of the table; only `writable` ones if that is asked.
fn mounts_of_cgroup2(table: &str, writable: bool) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_, point, kind, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let usable = !writable || options.split(',').any(|option| option == "rw");
            (kind == "cgroup2" && usable).then(|| PathBuf::from(unescape(point)))
        })
        .collect()
}

/// Path of a process in the version 2 hierarchy.
pub(crate) fn own_path(table: &str) -> Option<&str> {
    table.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The table writes blanks and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).filter(|digits| {
            bytes[at] == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) && digits[0] < b'4'
        });
        if let Some(digits) = digits {
            out.push(digits.iter().fold(0, |value, digit| value * 8 + (digit - b'0')));
            at += 4;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_mount_in_a_hybrid_layout_and_skips_read_only_ones() {
        let table = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n\
                     cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n\
                     cgroup2 /ro cgroup2 ro,nosuid 0 0\n\
                     cgroup2 /sys/fs/with\\040blank cgroup2 rw,nosuid 0 0\n";
        assert_eq!(mounts_of_cgroup2(table, true), [PathBuf::from("/sys/fs/with blank")]);
        assert_eq!(mounts_of_cgroup2(table, false)[0], PathBuf::from("/ro"));
    }

    #[test]
    fn own_path_is_the_line_without_controllers() {
        assert_eq!(own_path("9:name=systemd:/x\n0::/user.slice/a\n"), Some("/user.slice/a"));
        assert_eq!(own_path("4:memory:/x\n"), None);
    }

    #[test]
    fn unescape_takes_octal_and_leaves_the_rest() {
        assert_eq!(unescape("a\\134b\\0c\\"), "a\\b\\0c\\");
    }
}
