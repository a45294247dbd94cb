//! The shim's own control group (version 2): membership by birth, one write to kill, one read to verify.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::sys;

pub(crate) struct Cgroup {
    path: PathBuf,
    dir: File,
    events: File,
    kill: Option<File>,
    memory: Option<File>,
}

impl Cgroup {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            dir: File::open(path)?,
            events: File::open(path.join("cgroup.events"))?,
            // Absent before Linux 5.14; the walk does the work then.
            kill: OpenOptions::new().write(true).open(path.join("cgroup.kill")).ok(),
            // Present with the memory controller only.
            memory: File::open(path.join("memory.events")).ok(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory's descriptor, to be born into.
    pub(crate) fn fd(&self) -> libc::c_int {
        self.dir.as_raw_fd()
    }

    /// Path of the member list, for kernels that cannot fork into a group.
    pub(crate) fn procs_path(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Whether a live process is in the group or below it.
    pub(crate) fn populated(&self) -> bool {
        let mut text = [0; 256];
        let count = sys::read_at(&self.events, &mut text, 0).unwrap_or(0);
        text[..count].split(|byte| *byte == b'\n').any(|line| line == b"populated 1")
    }

    /// Kills everything in the group and below it.
    pub(crate) fn kill(&self) {
        if let Some(mut kill) = self.kill.as_ref() {
            // Verified by `populated` and by waiting; a failure shows there.
            let _ = kill.write_all(b"1");
        }
    }

    /// Processes of this group killed for memory so far, where the kernel counts them.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let mut text = [0; 512];
        let count = sys::read_at(self.memory.as_ref()?, &mut text, 0).ok()?;
        std::str::from_utf8(&text[..count])
            .ok()?
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}
