//! The daemon's log: what it tells, in which form, and how much of it is kept.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

/// A log longer than this begins anew.
const MOST: u64 = 5 * 1024 * 1024;
/// How often a daemon that runs on looks at its size.
const LOOK: Duration = Duration::from_mins(10);

/// Tells to standard error. `SUBAGENT_LOG` chooses what: `info` unless it says otherwise.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("SUBAGENT_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // Fails only when another one was set before: then there is one.
    let _ = subscriber.try_init();
}

/// Empties the log when it has become too long.
pub(crate) fn trim(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() > MOST) {
        // Writers append, so they go on at the new end.
        let _ = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(0));
    }
}

/// Keeps the log short for as long as the daemon runs.
pub(crate) async fn keep_short(path: std::path::PathBuf) {
    loop {
        tokio::time::sleep(LOOK).await;
        trim(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, trim};

    #[test]
    fn a_long_log_begins_anew_and_a_short_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        trim(&path);
        assert!(!path.exists());
        std::fs::write(&path, "short").unwrap();
        trim(&path);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 5);
        std::fs::File::create(&path).unwrap().set_len(MOST + 1).unwrap();
        trim(&path);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }
}
