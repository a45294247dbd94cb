//! Where the shim's program is.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use subagent_model::ErrorCode;

use crate::fail::Failure;

/// `SUBAGENT_SHIM`, else `subagent-shim` beside this program. No other one is taken.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os("SUBAGENT_SHIM").filter(|value| !value.is_empty()) {
        let path = std::path::absolute(&given).unwrap_or_else(|_| PathBuf::from(given));
        return usable(path, "SUBAGENT_SHIM names");
    }
    let own = std::env::current_exe().map_err(|error| {
        Failure::new(ErrorCode::ShimMissing, "cannot find out where this program is").because(error)
    })?;
    usable(own.with_file_name("subagent-shim"), "looked for")
}

/// Runs it once: a program that is there may still not run here.
pub(crate) fn try_out(path: &Path) -> Result<(), Failure> {
    let failed =
        |why: String| Failure::new(ErrorCode::ShimMissing, format!("{} does not run: {why}", path.display()));
    let output = std::process::Command::new(path)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(failed(output.status.to_string())) }
}

fn usable(path: PathBuf, how: &str) -> Result<PathBuf, Failure> {
    let missing =
        |why: &str| Failure::new(ErrorCode::ShimMissing, format!("{how} {}: {why}", path.display()));
    match std::fs::metadata(&path) {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Ok(path),
        Ok(_) => Err(missing("it is not a program")),
        Err(error) => Err(missing(&error.to_string())),
    }
}
