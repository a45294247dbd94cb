//! The file system: which files there are, and what is in them. Everything is bounded, and what is no plain file is left
//! alone: reading a pipe would never end.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read as _};

use camino::{Utf8Path, Utf8PathBuf};

use crate::diagnostic::{Diagnostic, Severity};
use crate::front::{self, EncodingError};
use crate::places::{Spot, What, real};

/// The largest file that is read: 1 MiB.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
/// The most files of one directory and those below it.
const FILES: usize = 1_000;
/// How many entries of directories are looked at to find them.
const ENTRIES: usize = 20_000;
/// How deep directories are searched.
const DEEP: usize = 8;

/// A file that was found.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: Utf8PathBuf,
    /// Its path below the directory, without its ending.
    pub(crate) stem: String,
    pub(crate) metadata: Metadata,
}

/// The files of a spot in the order of their paths, and what was wrong with others.
pub(crate) fn list(spot: &Spot) -> (Vec<Place>, Vec<Diagnostic>) {
    let mut walk = Walk { spot, places: Vec::new(), remarks: Vec::new(), seen: BTreeSet::new(), entries: 0 };
    match &spot.what {
        What::Directory { path, .. } => walk.directory(path, "", DEEP),
        What::Table { path } => walk.table(path),
    }
    walk.places.sort_by(|left, right| left.path.cmp(&right.path));
    (walk.places, walk.remarks)
}

struct Walk<'a> {
    spot: &'a Spot,
    places: Vec<Place>,
    remarks: Vec<Diagnostic>,
    /// Directories that were searched, so that a link cannot lead in a circle.
    seen: BTreeSet<Utf8PathBuf>,
    entries: usize,
}

impl Walk<'_> {
    fn table(&mut self, path: &Utf8Path) {
        match fs::metadata(path) {
            Ok(metadata) if self.within(path) => {
                self.places.push(Place { path: path.to_owned(), stem: String::new(), metadata });
            }
            Ok(_) => self.leads_out(path),
            Err(error) => self.cannot("read", path, &error),
        }
    }

    fn directory(&mut self, path: &Utf8Path, prefix: &str, deep: usize) {
        let What::Directory { below, ending, .. } = self.spot.what else { return };
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.cannot("list", path, &error),
        };
        if !self.within(path) {
            return self.leads_out(path);
        }
        if !self.seen.insert(real(path)) {
            return;
        }
        let mut found: Vec<Utf8PathBuf> = Vec::new();
        for entry in entries {
            self.entries += 1;
            if self.entries > ENTRIES {
                return self.too_many(path);
            }
            let Ok(entry) = entry else { continue };
            match Utf8PathBuf::from_path_buf(entry.path()) {
                Ok(path) => found.push(path),
                Err(path) => {
                    let message = format!("the name of {:?} is not UTF-8; it is not read", path.file_name());
                    self.remarks.push(Diagnostic::error(self.spot.path(), message));
                }
            }
        }
        found.sort();
        for path in found {
            let Some(name) = path.file_name().filter(|name| !name.starts_with('.')) else { continue };
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                // A link into nowhere is told only where it looks like a definition.
                Err(_) if path.extension() != Some(ending) => continue,
                Err(error) => {
                    self.remarks.push(Diagnostic::error(&path, format!("it cannot be read: {error}")));
                    continue;
                }
            };
            if metadata.is_dir() {
                if below && deep > 0 {
                    self.directory(&path, &format!("{prefix}{name}/"), deep - 1);
                }
                continue;
            }
            if path.extension() != Some(ending) {
                continue;
            }
            // The directory was looked at before, so that only a link can lead elsewhere.
            if path.is_symlink() && !self.within(&path) {
                self.leads_out(&path);
                continue;
            }
            if self.places.len() >= FILES {
                return self.too_many(&path);
            }
            let stem = format!("{prefix}{}", path.file_stem().unwrap_or_default());
            self.places.push(Place { path: path.clone(), stem, metadata });
        }
    }

    /// Whether the real place of a path is where the project is.
    fn within(&self, path: &Utf8Path) -> bool {
        self.spot.fence.as_ref().is_none_or(|fence| real(path).starts_with(fence))
    }

    fn leads_out(&mut self, path: &Utf8Path) {
        self.remarks
            .push(Diagnostic::error(path, "it is a link that leads out of the project; it is not read"));
    }

    fn too_many(&mut self, path: &Utf8Path) {
        if self.remarks.iter().any(|remark| remark.message.starts_with("there are more than")) {
            return;
        }
        let message =
            format!("there are more than {FILES} definitions or {ENTRIES} files; the rest is not read");
        self.remarks.push(Diagnostic::error(path, message));
    }

    fn cannot(&mut self, verb: &str, path: &Utf8Path, error: &std::io::Error) {
        // What is not there, or is a file where a directory would be, is no fault.
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            let message = format!("cannot {verb} it: {error}");
            self.remarks.push(Diagnostic::new(Severity::Error, path, message));
        }
    }
}

/// The text of a file.
pub(crate) fn text(path: &Utf8Path) -> Result<String, Diagnostic> {
    let cannot = |error: std::io::Error| Diagnostic::error(path, format!("it cannot be read: {error}"));
    let metadata = fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Diagnostic::error(path, "it is no plain file"));
    }
    let too_large =
        || Diagnostic::error(path, format!("it is larger than {} KiB; it is not read", MAX_BYTES / 1024));
    if metadata.len() > MAX_BYTES as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(cannot)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > MAX_BYTES {
        return Err(too_large());
    }
    decoded(path, &bytes)
}

/// The text of the bytes of a file.
pub(crate) fn decoded(path: &Utf8Path, bytes: &[u8]) -> Result<String, Diagnostic> {
    front::decode(bytes).map(str::to_owned).map_err(|error| {
        let remark = Diagnostic::error(path, error.to_string());
        match error {
            EncodingError::Invalid(at) | EncodingError::Zero(at) => remark.at(at),
            EncodingError::Other(_) => remark,
        }
    })
}

/// A file that another one points to, relative to it, within the same fence.
pub(crate) fn beside(spot: &Spot, from: &Utf8Path, to: &Utf8Path) -> Result<(Utf8PathBuf, String), String> {
    let path = from.parent().unwrap_or(from).join(to);
    if spot.fence.as_ref().is_some_and(|fence| !real(&path).starts_with(fence)) {
        return Err(format!("{to} is not in the project; it is not read"));
    }
    match text(&path) {
        Ok(text) => Ok((path, text)),
        Err(remark) => Err(format!("{to}: {}", remark.message)),
    }
}
