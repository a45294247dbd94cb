//! Free space of the data directory and free memory, looked at no more than once a second.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use subagent_core::admission::Limits;

/// What there was at the last look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Room {
    /// Free megabytes of the data directory's disk; unknown where the file system does not tell.
    pub(crate) disk_mb: Option<u64>,
    /// Free megabytes of memory; unknown where the system does not tell.
    pub(crate) memory_mb: Option<u64>,
}

/// Remembers the last look.
#[derive(Debug)]
pub(crate) struct RoomProbe {
    dir: PathBuf,
    last: Option<(Instant, Room)>,
    short: bool,
}

impl RoomProbe {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, last: None, short: false }
    }

    /// What there is.
    pub(crate) fn look(&mut self) -> Room {
        if let Some((at, room)) = self.last
            && at.elapsed() < Duration::from_secs(1)
        {
            return room;
        }
        let disk_mb = rustix::fs::statvfs(&self.dir)
            .ok()
            .map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) / (1024 * 1024));
        let room = Room { disk_mb, memory_mb: subagent_process::memory_available_mb() };
        self.last = Some((Instant::now(), room));
        room
    }

    /// What is short of its floor: nothing new starts meanwhile, what runs goes on.
    pub(crate) fn hold(&mut self, limits: &Limits) -> Option<&'static str> {
        let room = self.look();
        let short = |free: Option<u64>, floor: u64| free.is_some_and(|free| free < floor);
        let hold = if short(room.disk_mb, limits.disk_floor_mb) {
            Some("disk")
        } else if short(room.memory_mb, limits.memory_floor_mb) {
            Some("memory")
        } else {
            None
        };
        self.short = hold.is_some();
        hold
    }

    /// Something was short at the last look.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }
}
