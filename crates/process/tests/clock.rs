//! Times here are lengths, measured while the machine is awake: the wall clock decides nothing.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else {
            out.push(path);
        }
    }
}

#[test]
fn queue_17_no_wall_clock_is_asked() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 15);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for clock in ["SystemTime", "UNIX_EPOCH", "CLOCK_REALTIME", "CLOCK_BOOTTIME"] {
            assert!(!text.contains(clock), "{} asks {clock}", file.display());
        }
    }
}
