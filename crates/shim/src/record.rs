//! Writing the exit record: whole or not at all (temporary file and rename), durable only when nobody is
//! connected who could take the exit over the socket.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use subagent_core::frame::control::EXIT_FILE;
use subagent_model::process::ExitRecord;

use super::sys;

const TEMPORARY: &str = "exit.json.tmp";

/// Writes the record; it survives a crash of every process, not yet a power cut.
pub(crate) fn write(dir: &Path, record: &ExitRecord) -> io::Result<()> {
    let mut text = serde_json::to_vec(record)?;
    text.push(b'\n');
    let temporary = dir.join(TEMPORARY);
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(&text));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    std::fs::rename(&temporary, dir.join(EXIT_FILE))
}

/// Makes a written record survive a power cut.
pub(crate) fn make_durable(dir: &Path) -> io::Result<()> {
    File::open(dir.join(EXIT_FILE))?.sync_all()?;
    sys::sync_dir(dir)
}
