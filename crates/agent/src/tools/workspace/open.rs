//! Opening what lies at a place: regular files and directories only, without ever waiting for the other end of a pipe,
//! and nothing that the kernel makes up.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;

use super::{Place, Refused, Stamp, Want, Workspace, escapes};

/// A regular file that may be read.
pub(in super::super) struct Opened {
    pub(in super::super) file: File,
    pub(in super::super) length: u64,
    pub(in super::super) stamp: Stamp,
    /// Its rights and owners, for a file that takes its place.
    pub(super) metadata: std::fs::Metadata,
}

impl Workspace {
    /// Opens a file for reading.
    pub(in super::super) fn open_file(&self, place: &Place) -> Result<Opened, Refused> {
        let path = || place.shown.clone();
        if !place.exists {
            return Err(Refused::Missing { path: path(), near: self.near(place) });
        }
        // A pipe without a writer would be waited for, a terminal taken, a link followed that was not there before.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let dir = &self.root(place).dir;
        // Some devices do something when they are opened, so the kind is looked at before, and again after.
        let file =
            dir.metadata(&place.rel)
                .and_then(|before| {
                    if before.is_file() { dir.open_with(&place.rel, &options).map(Some) } else { Ok(None) }
                })
                .map_err(|error| self.refusal(place, "open", error))?;
        let Some(file) = file else {
            return Err(Refused::NotFile { path: path(), what: self.kind(place) });
        };
        let file = file.into_std();
        let metadata =
            file.metadata().map_err(|source| Refused::Io { path: path(), what: "look at", source })?;
        if !metadata.is_file() {
            return Err(Refused::NotFile { path: path(), what: "something special" });
        }
        if made_up(&file) {
            return Err(Refused::NotFile {
                path: path(),
                what: "made by the kernel about running processes",
            });
        }
        Ok(Opened { length: metadata.len(), stamp: Stamp::of(&metadata), file, metadata })
    }

    /// Opens a directory.
    pub(in super::super) fn open_dir(&self, place: &Place) -> Result<Dir, Refused> {
        let path = || place.shown.clone();
        if !place.exists {
            return Err(Refused::Missing { path: path(), near: self.near(place) });
        }
        self.root(place).dir.open_dir(&place.rel).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => Refused::NotDirectory { path: path() },
            _ => self.refusal(place, "open", error),
        })
    }

    /// Whether a directory lies there.
    pub(in super::super) fn is_directory(&self, place: &Place) -> bool {
        self.root(place).dir.metadata(&place.rel).is_ok_and(|found| found.is_dir())
    }

    /// What lies there itself, seen from within: `None` when it leads out or is gone. Links are not followed.
    pub(in super::super) fn look(&self, place: &Place) -> Option<cap_std::fs::Metadata> {
        self.root(place).dir.symlink_metadata(&place.rel).ok()
    }

    pub(in super::super) fn saw(&self, place: &Place, stamp: Stamp) {
        self.seen.note(&place.absolute, stamp);
    }

    pub(super) fn refusal(&self, place: &Place, what: &'static str, source: io::Error) -> Refused {
        let path = place.shown.clone();
        if escapes(&source) {
            return Refused::Outside { path, roots: self.names() };
        }
        match source.kind() {
            io::ErrorKind::NotFound => Refused::Missing { path, near: self.near(place) },
            _ => Refused::Io { path, what, source },
        }
    }

    fn kind(&self, place: &Place) -> &'static str {
        let Ok(found) = self.root(place).dir.metadata(&place.rel) else { return "gone" };
        let kind = found.file_type();
        if kind.is_dir() {
            return "a directory";
        }
        match std::fs::symlink_metadata(&place.absolute).map(|found| found.file_type()) {
            Ok(kind) if kind.is_fifo() => "a named pipe",
            Ok(kind) if kind.is_socket() => "a socket",
            Ok(kind) if kind.is_char_device() || kind.is_block_device() => "a device",
            _ => "something special",
        }
    }

    /// Paths that may have been meant: names like the first one that is not there, in the directory where it is not.
    fn near(&self, place: &Place) -> Vec<String> {
        let dir = &self.root(place).dir;
        let missing = place.rel.ancestors().take_while(|path| dir.symlink_metadata(path).is_err()).last();
        let Some((wanted, parent)) = missing.and_then(|path| Some((path.file_name()?, path.parent()?)))
        else {
            return Vec::new();
        };
        let wanted = wanted.to_string_lossy().to_lowercase();
        let here = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let Ok(entries) = dir.read_dir(here) else { return Vec::new() };
        let mut near: Vec<_> = entries
            .take(5000)
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|name| is_like(&name.to_string_lossy().to_lowercase(), &wanted))
            .map(|name| self.made(place.root, parent.join(name), true))
            .filter(|place| self.permit(place, Want::Look).is_ok())
            .map(|place| place.shown)
            .collect();
        near.sort();
        near.truncate(3);
        near
    }
}

/// Whether a name may have been meant by another one: two letters are wrong, or the ending, or the rest of the stem.
fn is_like(name: &str, wanted: &str) -> bool {
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let (a, b) = (stem(name), stem(wanted));
    let long_enough = a.len() > 2 && b.len() > 2;
    name == wanted
        || (long_enough && (a == b || a.starts_with(&b) || b.starts_with(&a)))
        || (wanted.len() > 3 && strsim::osa_distance(name, wanted) <= 2)
}

/// Whether a file lies in the process file system, where files are views of processes, their environments included.
#[cfg(target_os = "linux")]
fn made_up(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|about| about.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn made_up(_: &File) -> bool {
    false
}
