//! Whether the files are still those that were read, without reading them: paths, sizes, times and numbers of files.

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;

use crate::definition::Dialect;
use crate::dialect;
use crate::places::{Places, What};
use crate::read;

/// The state of all files and places at one moment. Two that are equal mean that nothing has changed; it has no meaning
/// outside of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

/// Looks at all files.
pub fn fingerprint(places: &Places) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    // What the caller says decides as much as the files do.
    format!("{:?}", (&places.runtime, &places.trusted, &places.known)).hash(&mut hasher);
    for spot in places.spots() {
        let (files, remarks) = read::list(&spot);
        (spot.rank, spot.trusted, remarks.len()).hash(&mut hasher);
        for file in files {
            file.path.hash(&mut hasher);
            state(&file.metadata, &mut hasher);
            if spot.dialect == Dialect::Codex && matches!(spot.what, What::Table { .. }) {
                let text = read::text(&file.path).unwrap_or_default();
                let directory = file.path.parent().unwrap_or(&file.path);
                for pointed in dialect::config_files(&text) {
                    pointed.hash(&mut hasher);
                    if let Ok(metadata) = directory.join(pointed).metadata() {
                        state(&metadata, &mut hasher);
                    }
                }
            }
        }
    }
    Fingerprint(hasher.finish())
}

fn state(metadata: &Metadata, hasher: &mut DefaultHasher) {
    let file = (metadata.dev(), metadata.ino(), metadata.size(), metadata.mode());
    let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
    (file, times).hash(hasher);
}
