//! Reading the exit record a shim left in an attempt's directory: `exit.json`, or the last frame of the
//! log. A shim writes the file only when nobody was connected to take the exit. Writing is its business.

use std::io;
use std::path::Path;

use subagent_core::frame::control::{ControlFrame, EXIT_FILE};
use subagent_core::frame::{Frame, Kind};
use subagent_model::process::ExitRecord;

/// Largest record that is read, in bytes; a real one is below two kilobytes.
const MAX_LEN: u64 = 256 * 1024;

/// Why an exit record could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExitRecordError {
    /// The file is there and cannot be read.
    #[error("cannot read the exit record")]
    Io(#[from] io::Error),
    /// The file is there and is no exit record.
    #[error("the exit record is damaged")]
    Damaged(#[source] serde_json::Error),
    /// The file is far larger than any record.
    #[error("the exit record has {0} bytes, which no record has")]
    TooLarge(u64),
}

/// The exit record of the attempt with this directory; `None` if it has none (yet).
///
/// # Errors
///
/// `exit.json` exists and cannot be used.
pub fn read(dir: &Path) -> Result<Option<ExitRecord>, ExitRecordError> {
    let path = dir.join(EXIT_FILE);
    let length = match std::fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(from_log(dir)),
        Err(error) => return Err(error.into()),
    };
    if length > MAX_LEN {
        return Err(ExitRecordError::TooLarge(length));
    }
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(ExitRecordError::Damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(from_log(dir)),
        Err(error) => Err(error.into()),
    }
}

/// The record at the end of the log. A log without one, whatever its state, is an attempt without one.
fn from_log(dir: &Path) -> Option<ExitRecord> {
    let frame = crate::log::last_frame(dir).ok()??;
    match frame {
        Frame { kind: Kind::Control, payload, .. } => match serde_json::from_slice(&payload) {
            Ok(ControlFrame::Exit { record }) => Some(*record),
            _ => None,
        },
        _ => None,
    }
}
