//! The tools of the built-in agent as the loop uses them: through the box, with real files, commands and servers. What
//! stands in a file is always an order to break out here; the tools must not mind.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic of a test is its report")]

mod commands;
mod files;
mod hostile;
mod lists;
mod mcp;
mod nested;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use subagent_agent::tools::{Output, Settings, Toolbox};
use tokio_util::sync::CancellationToken;

/// A directory to work in, one outside of it with a secret, and a box of tools.
struct World {
    home: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    tools: Toolbox,
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(home.path()).unwrap();
        let (root, outside) = (base.join("work"), base.join("outside"));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("secret"), "the secret\n").unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut settings = Settings {
            roots: vec![root.clone()],
            environment: vec![("PATH".into(), path)],
            spill: Some(base.join("long")),
            ..Settings::default()
        };
        change(&mut settings);
        let tools = Toolbox::open(settings).unwrap();
        Self { home, root, outside, tools }
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    async fn call(&self, tool: &str, input: Value) -> Output {
        // Nothing here may hang: a test that waits for ever has found a fault.
        let cancel = CancellationToken::new();
        let call = self.tools.call(tool, input, &cancel);
        tokio::time::timeout(Duration::from_mins(1), call).await.expect("a tool that hangs")
    }

    async fn done(&self, tool: &str, input: Value) -> String {
        let output = self.call(tool, input).await;
        assert!(!output.failed, "{}", output.text);
        output.text
    }

    async fn refused(&self, tool: &str, input: Value) -> String {
        let output = self.call(tool, input).await;
        assert!(output.failed, "{}", output.text);
        output.text
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Whether a process with this number is there and has not ended.
fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        let state = stat[stat.rfind(')').unwrap() + 1..].trim_start().chars().next();
        !matches!(state, Some('Z' | 'X'))
    })
}

/// Waits for the number that a program has written into a file.
async fn pid_in(path: impl AsRef<Path>) -> i32 {
    let path = path.as_ref();
    for _ in 0..500 {
        if let Ok(pid) = std::fs::read_to_string(path).unwrap_or_default().trim().parse() {
            return pid;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing wrote {}", path.display());
}

/// Waits for the end of a process.
async fn gone(pid: i32) -> bool {
    for _ in 0..300 {
        if !alive(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}
