//! A home of its own for one test: the real command line against a real daemon, and nothing left behind.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use subagent_client::Client;
use subagent_model::Requester;
use subagent_runtime::Caller;

use crate::programs::subagent_program;
use crate::until::until;

/// A home directory with a daemon that is started on demand. Dropping it ends daemon and children.
pub struct Home {
    dir: tempfile::TempDir,
}

/// What a command printed and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Output {
    /// The one JSON document on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// The same output, of a command that must have ended with this code.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "many callers only want the check")]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// An empty home.
    pub fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("sa-").tempdir().expect("a temporary directory") }
    }

    /// A home with this configuration.
    pub fn with_config(config: &str) -> Self {
        let home = Self::new();
        std::fs::write(home.path().join("config.toml"), config).expect("the home can be written");
        home
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A command of this home, not yet started. Its working directory is the home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(subagent_program());
        command
            .args(args)
            .current_dir(self.path())
            .env("SUBAGENT_HOME", self.path())
            .env("NO_COLOR", "1")
            .env_remove("SUBAGENT_ID")
            .env_remove("SUBAGENT_SOCKET")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        Self::finish(self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn(), b"")
    }

    /// Runs a command with something on its standard input.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        Self::finish(
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn(),
            input,
        )
    }

    /// Waits for a started command.
    pub fn finish(child: std::io::Result<Child>, input: &[u8]) -> Output {
        let mut child = child.expect("the program can be started");
        let stdin = child.stdin.take();
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || {
            if let Some(mut stdin) = stdin {
                // A command that wants no more input says so by its end.
                let _ = stdin.write_all(&input);
            }
        });
        let output = child.wait_with_output().expect("a child can be waited for");
        feeder.join().expect("feeding cannot panic");
        Output {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts a program in the background and gives its record.
    #[track_caller]
    pub fn background(&self, program: &[&str]) -> Value {
        let args: Vec<_> = ["run", "--json", "--background", "--"].iter().chain(program).copied().collect();
        self.run(&args).ended(0).json()
    }

    /// The record of a subagent.
    #[track_caller]
    pub fn show(&self, id: &str) -> Value {
        self.run(&["show", "--json", id]).ended(0).json()
    }

    /// Waits until the subagent has this status and gives the record.
    #[track_caller]
    pub fn until_status(&self, id: &str, status: &str) -> Value {
        until(&format!("{id} to be {status}"), || {
            Some(self.show(id)).filter(|record| record["status"] == status)
        })
    }

    /// Waits until the child's process is known and gives its pid.
    #[track_caller]
    pub fn until_pid(&self, id: &str) -> i32 {
        until(&format!("the process of {id}"), || {
            let record = self.show(id);
            let pid = record["attempts"].as_array()?.last()?["process"]["pid"].as_i64()?;
            i32::try_from(pid).ok()
        })
    }

    /// The daemon's pid, when one serves.
    pub fn daemon_pid(&self) -> Option<i32> {
        let status = self.run(&["status", "--json"]);
        (status.code == 0).then(|| i32::try_from(status.json()["pid"].as_i64().unwrap()).unwrap())
    }

    /// Ends the daemon the hard way and waits until it is gone.
    #[track_caller]
    pub fn kill_daemon(&self) {
        let pid = self.daemon_pid().expect("a daemon serves");
        kill(pid, rustix::process::Signal::KILL);
        until("the daemon to be gone", || (!is_alive(pid)).then_some(()));
    }

    /// A client of the daemon, which must be serving.
    pub fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        let status = self.run(&["doctor", "--json"]);
        let report: Value = serde_json::from_str(&status.out).expect("doctor speaks JSON");
        PathBuf::from(report["socket"].as_str().expect("doctor names the socket"))
    }

    /// The person at the command line.
    pub fn caller() -> Caller {
        Caller { requester: Requester(format!("user:{}", rustix::process::getuid().as_raw())) }
    }

    /// Processes that carry the marker of an attempt of this home's subagents.
    pub fn survivors(&self, ids: &[String]) -> Vec<String> {
        let trees = subagent_process::leftovers::orphans(&std::collections::HashSet::new());
        trees
            .into_iter()
            .filter(|tree| ids.iter().any(|id| tree.attempt.starts_with(id)))
            .map(|tree| format!("{}: {:?}", tree.attempt, tree.processes))
            .collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Whatever a failed test left: the daemon stops its children within the bound, or is ended.
        let pid = self.daemon_pid();
        let _ = self.run(&["shutdown", "--stop-children", "--timeout", "5s"]);
        if let Some(pid) = pid {
            let end = std::time::Instant::now() + Duration::from_secs(12);
            while is_alive(pid) && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            if is_alive(pid) {
                kill(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Sends a signal to a process that the test knows to be its own.
pub fn kill(pid: i32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // It may have gone by itself.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// True while a process of this pid runs; a zombie does not.
pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
