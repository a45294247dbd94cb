//! Reading the exit record a shim left in an attempt's directory. Writing it is the shim's business.

use std::io;
use std::path::Path;

use subagent_core::frame::control::EXIT_FILE;
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
pub fn read(dir: &Path) -> Result<Option<ExitRecord>, ExitRecordError> {
    let path = dir.join(EXIT_FILE);
    let length = match std::fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if length > MAX_LEN {
        return Err(ExitRecordError::TooLarge(length));
    }
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(ExitRecordError::Damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
