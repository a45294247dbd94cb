//! Free space of the data directory, looked at no more than once a second.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Remembers the last look.
#[derive(Debug)]
pub(crate) struct DiskProbe {
    dir: PathBuf,
    last: Option<(Instant, Option<u64>)>,
}

impl DiskProbe {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, last: None }
    }

    /// Free megabytes; `None` when the file system does not tell.
    pub(crate) fn free_mb(&mut self) -> Option<u64> {
        if let Some((at, free)) = self.last
            && at.elapsed() < Duration::from_secs(1)
        {
            return free;
        }
        let free = rustix::fs::statvfs(&self.dir)
            .ok()
            .map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) / (1024 * 1024));
        self.last = Some((Instant::now(), free));
        free
    }
}
