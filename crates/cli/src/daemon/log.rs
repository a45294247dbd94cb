//! The daemon's log: what it tells, in which form, and how much of it is kept.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// A log longer than this begins anew.
const MOST: u64 = 5 * 1024 * 1024;
/// How often a daemon that runs on looks at its size.
const LOOK: Duration = Duration::from_mins(10);

/// Tells to standard error. `SUBAGENT_LOG` chooses what: a level, or levels by module such as
/// `info,subagent_runtime=debug`; `info` unless it says otherwise.
pub(crate) fn start() {
    let wish = std::env::var("SUBAGENT_LOG").ok().filter(|wish| !wish.trim().is_empty());
    let chosen = wish.as_ref().map(|wish| wish.parse::<Targets>());
    let refused = matches!(chosen, Some(Err(_)));
    // Levels by module without patterns: the matcher of `EnvFilter` alone would be a tenth of the program.
    let filter = chosen.and_then(Result::ok).unwrap_or_else(|| Targets::new().with_default(Level::INFO));
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // Fails only when another one was set before: then there is one.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    if refused {
        tracing::warn!(SUBAGENT_LOG = wish, "not understood; logging at info");
    }
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
