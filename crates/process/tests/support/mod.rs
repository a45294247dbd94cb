//! What the tests with real shims share: the program, a directory of their own, waiting with a limit.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use subagent_process::{
    Containment, ExitRecord, ExitWait, Graces, LauncherConfig, Shim, ShimLauncher, StartJob, StdinSource,
};

/// The shim beside the tests' own target directory, built once per test process.
pub fn shim_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let program = own.parent().unwrap().parent().unwrap().join("subagent-shim");
        let release = own.components().any(|part| part.as_os_str() == "release");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "subagent-shim"]);
        if release {
            build.arg("--release");
        }
        if is_stale(&program) {
            assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        }
        program
    })
}

/// Whether the program is missing or older than its source.
fn is_stale(program: &Path) -> bool {
    let Ok(built) = program.metadata().and_then(|metadata| metadata.modified()) else {
        return true;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut dirs = vec![root.join("shim/src"), root.join("core/src/frame")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else if metadata.modified().unwrap() > built {
                return true;
            }
        }
    }
    false
}

/// A directory for one test, with what it started.
pub struct World {
    pub dir: tempfile::TempDir,
    pub launcher: ShimLauncher,
    tag: String,
}

impl World {
    pub fn new(containment: Containment) -> Self {
        let dir = tempfile::Builder::new().prefix("sa").tempdir().unwrap();
        let sockets = dir.path().join("s");
        std::fs::create_dir(&sockets).unwrap();
        let name = dir.path().file_name().unwrap().to_string_lossy().into_owned();
        let tag = format!("test-{name}");
        let launcher = ShimLauncher::new(LauncherConfig {
            program: shim_program().to_owned(),
            sockets,
            containment,
            tag: tag.clone(),
        })
        .unwrap();
        Self { dir, launcher, tag }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn attempt_dir(&self, key: &str) -> PathBuf {
        self.path("a").join(key)
    }

    /// A job that runs a shell script.
    pub fn script(&self, key: &str, script: &str) -> StartJob {
        let mut job = self.job(key, "/bin/sh");
        job.args = vec!["-c".to_owned(), script.to_owned()];
        job
    }

    pub fn job(&self, key: &str, program: &str) -> StartJob {
        let dir = self.attempt_dir(key);
        std::fs::create_dir_all(&dir).unwrap();
        let mut job =
            StartJob::new(self.key(key), dir.to_str().unwrap(), program, self.dir.path().to_str().unwrap());
        job.env.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        job.graces = Graces { term: Duration::from_millis(500), kill: Duration::from_secs(5) };
        job
    }

    /// Unique on this machine, so that a search by marker finds this test's processes only.
    pub fn key(&self, key: &str) -> String {
        format!("{}-{key}", self.tag)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let except = std::collections::HashSet::new();
        for tree in subagent_process::leftovers::orphans(&except) {
            if tree.attempt.starts_with(&self.tag) {
                subagent_process::leftovers::kill_leftovers(&tree.attempt, None, Duration::from_secs(5));
            }
        }
        if let Some(root) = self.launcher.cgroup_root() {
            let until = Instant::now() + Duration::from_secs(5);
            while Instant::now() < until {
                for group in root.groups().unwrap_or_default() {
                    let _ = group.remove();
                }
                if root.remove().is_ok() || !root.path().exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

pub fn piped(mut job: StartJob) -> StartJob {
    job.stdin = StdinSource::Pipe;
    job
}

pub fn graces(term: u64, kill: u64) -> Graces {
    Graces { term: Duration::from_millis(term), kill: Duration::from_millis(kill) }
}

/// The exit, within ten seconds.
pub async fn exit(shim: &Shim) -> ExitRecord {
    exit_within(shim, Duration::from_secs(10)).await
}

pub async fn exit_within(shim: &Shim, limit: Duration) -> ExitRecord {
    match tokio::time::timeout(limit, shim.exit()).await.expect("no exit in time") {
        ExitWait::Exited(record) => (*record).clone(),
        ExitWait::ShimLost => panic!("the shim was lost"),
    }
}

/// Waits until `done` says so, at most `seconds`.
pub async fn eventually(seconds: u64, what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(seconds);
    while !done() {
        assert!(Instant::now() < until, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn stdout(dir: &Path) -> Vec<u8> {
    let text =
        subagent_process::log::read_stream(dir, subagent_core::frame::Kind::Stdout, usize::MAX, 0).unwrap();
    text.head
}

pub fn stdout_text(dir: &Path) -> String {
    String::from_utf8_lossy(&stdout(dir)).into_owned()
}

pub fn alive(pid: u32) -> bool {
    subagent_process::identify(pid).is_some()
}

/// Live processes with the marker of this attempt.
pub fn members(key: &str) -> Vec<u32> {
    subagent_process::leftovers::orphans(&std::collections::HashSet::new())
        .into_iter()
        .filter(|tree| tree.attempt == key)
        .flat_map(|tree| tree.processes)
        .map(|process| process.pid)
        .collect()
}

/// Waits until the child's output holds `text`.
pub async fn output_holds(dir: &Path, text: &str) {
    eventually(10, text, || stdout_text(dir).contains(text)).await;
}
