//! Is a working directory one? Asked before a spawn is accepted, so that there is one clear refusal and no process.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use subagent_model::{ErrorCode, Problem};

/// How long an answer of a file system may take: a dead one must not hold the caller for ever.
const ANSWER: Duration = Duration::from_secs(5);
/// A directory that was good so recently is not looked at again: the start itself looks once more.
const FRESH: Duration = Duration::from_secs(1);
/// Most directories remembered.
const REMEMBERED: usize = 256;

/// Directories that were good a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Cwds {
    good: Mutex<HashMap<Utf8PathBuf, Instant>>,
}

impl Cwds {
    /// The same, but for a directory that may be gone by now: what was seen a moment ago does not count. Nothing else looks
    /// once more where the child is no process.
    pub(crate) async fn check_anew(&self, cwd: &Utf8Path) -> Result<(), Problem> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner).remove(cwd);
        self.check(cwd).await
    }

    /// Refuses what cannot be a working directory.
    pub(crate) async fn check(&self, cwd: &Utf8Path) -> Result<(), Problem> {
        if cwd.as_str().is_empty() || cwd.is_relative() {
            return Err(bad(format!("the working directory {cwd:?} is not an absolute path")));
        }
        let fresh = |seen: &Instant| seen.elapsed() < FRESH;
        if self.good.lock().unwrap_or_else(PoisonError::into_inner).get(cwd).is_some_and(fresh) {
            return Ok(());
        }
        // On a thread that may hang without holding anybody else up.
        let path = cwd.to_owned();
        let look = tokio::task::spawn_blocking(move || look(&path));
        match tokio::time::timeout(ANSWER, look).await {
            Ok(Ok(Ok(()))) => {
                let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
                if good.len() >= REMEMBERED {
                    good.retain(|_, seen| fresh(seen));
                }
                good.insert(cwd.to_owned(), Instant::now());
                Ok(())
            }
            Ok(Ok(Err(error))) => Err(bad(format!("the working directory {cwd} cannot be entered: {error}"))),
            Ok(Err(_)) | Err(_) => Err(bad(format!("the working directory {cwd} does not answer"))),
        }
    }
}

fn look(path: &Utf8Path) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    rustix::fs::access(path.as_std_path(), rustix::fs::Access::EXEC_OK).map_err(io::Error::from)
}

/// None was given: the daemon's own is never meant.
pub(crate) fn missing() -> Problem {
    bad("no working directory was given")
}

fn bad(message: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidCwd, message)
}
