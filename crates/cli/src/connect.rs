//! Finding the daemon, and starting one when there is none. Any number of clients may do so at once: one of them starts
//! it, under a lock of its own, and all wait for its socket.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use subagent_model::{ErrorCode, Problem};
use tokio::net::UnixStream;

use crate::daemon::lock::{self, Lock};
use crate::fail::Failure;
use crate::paths::Paths;
use crate::{daemon, shim};

/// How long a daemon may take from its start to its first answer.
const START: Duration = Duration::from_secs(15);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The pause between two looks grows from this ...
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// ... to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Most lines of the daemon's log that are shown when it did not start.
const TAIL_LINES: usize = 20;

/// Variables that a daemon gets from the client that starts it: no secrets of anybody, and nothing a child inherits.
const DAEMON_ENV: &[&str] = &[
    "SUBAGENT_SHIM",
    "SUBAGENT_LOG",
    "RUST_BACKTRACE",
    "MALLOC_ARENA_MAX",
    "LLVM_PROFILE_FILE",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// The socket of the daemon that serves; `None` when none does.
pub(crate) async fn find(paths: &Paths) -> Result<Option<PathBuf>, Failure> {
    paths.check_runtime()?;
    if answers(&paths.socket).await {
        return Ok(Some(paths.socket.clone()));
    }
    // Started from other surroundings, it may listen elsewhere.
    match lock::holder(&paths.lock()) {
        Some(holder) if holder.socket != paths.socket && answers(&holder.socket).await => {
            Ok(Some(holder.socket))
        }
        _ => Ok(None),
    }
}

/// The socket of a daemon that serves, started if need be. `within_child` is told by whoever calls from within a child of
/// this very daemon: a daemon started there would end with the child.
pub(crate) async fn ensure(paths: &Paths, within_child: bool) -> Result<PathBuf, Failure> {
    if let Some(socket) = find(paths).await? {
        return Ok(socket);
    }
    let until = Instant::now() + START;
    let mut pause = FIRST_PAUSE;
    let mut starting: Option<Starting> = None;
    if !within_child {
        paths.make_data()?;
    }
    loop {
        if !within_child && starting.is_none() {
            starting = Starting::begin(paths).await?;
        }
        if let Some(socket) = find(paths).await? {
            return Ok(socket);
        }
        if let Some(started) = &starting
            && let Some(output) = started.ended()
        {
            // One that left quietly saw another daemon serve.
            if !output.status.success() {
                return Err(started.told(&output));
            }
            starting = None;
            tokio::time::sleep(LONGEST_PAUSE).await;
        }
        if Instant::now() >= until {
            return Err(too_late(paths, starting.as_ref(), within_child));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The program that is started as the daemon: this one.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe();
    program.and_then(|program| std::fs::metadata(&program).map(|_| program)).map_err(|error| {
        Failure::new(
            ErrorCode::DaemonUnreachable,
            "cannot start the daemon: this program was moved or replaced",
        )
        .because(error)
        .hint("Call the program where it is now.")
    })
}

/// Whether somebody accepts at this socket. One that is merely busy counts; one that was killed and whose last thread
/// still holds the socket for a moment does not.
pub(crate) async fn answers(socket: &Path) -> bool {
    match tokio::time::timeout(CONNECT, UnixStream::connect(socket)).await {
        Ok(Ok(stream)) => {
            let peer = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
            // Zero is a process of another namespace.
            peer.is_none_or(|pid| pid == 0 || subagent_process::identify(pid).is_some())
        }
        Err(_) => true,
        Ok(Err(error)) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

fn too_late(paths: &Paths, starting: Option<&Starting>, within_child: bool) -> Failure {
    let seconds = START.as_secs();
    if within_child {
        let message = format!("the daemon of this subagent is gone and did not come back within {seconds} s");
        return Failure::new(ErrorCode::DaemonUnreachable, message).hint(
            "A daemon started from within a child would end with it. Any `subagent` command outside of it, such as \
             `subagent ls`, starts one that adopts this child.",
        );
    }
    if let Some(starting) = starting {
        return starting.failure(&format!("the daemon was started and does not answer after {seconds} s"));
    }
    match lock::holder(&paths.lock()) {
        Some(holder) => {
            let pid = holder.process.pid;
            let message =
                format!("process {pid} is the daemon of {} and does not answer", paths.data.display());
            Failure::new(ErrorCode::DaemonUnreachable, message).hint(format!(
                "Look into {}; end it with `kill {pid}`: its children run on, and the next command starts a new one.",
                paths.log().display()
            ))
        }
        None => Failure::new(ErrorCode::DaemonUnreachable, format!("no daemon answers after {seconds} s")),
    }
}

/// A daemon that this process is starting. The lock is held until it serves or has failed.
struct Starting {
    ended: Receiver<Output>,
    log: PathBuf,
    log_began: u64,
    _lock: Lock,
}

impl Starting {
    /// Starts one, unless somebody else is just doing so or one serves by now.
    async fn begin(paths: &Paths) -> Result<Option<Self>, Failure> {
        let Some(lock) = Lock::try_take(&paths.start_lock())? else { return Ok(None) };
        if find(paths).await?.is_some() {
            return Ok(None);
        }
        // Told here, where somebody reads it.
        shim::find()?;
        let log = paths.log();
        daemon::trim_log(&log);
        let cannot = |what: &str, error: std::io::Error| {
            Failure::new(ErrorCode::DaemonUnreachable, format!("cannot start the daemon: {what}"))
                .because(error)
        };
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)
            .map_err(|error| cannot(&format!("opening {}", log.display()), error))?;
        let log_began = output.metadata().map_or(0, |meta| meta.len());
        let program = program()?;
        // Descriptors that this process was given, such as a script's or the job server of make, are not for a daemon:
        // whoever waits for their end would wait for it.
        close_fds::set_fds_cloexec(3, &[]);
        let child = Command::new(&program)
            .args(["serve", "--on-demand"])
            .env_clear()
            .envs(daemon_env(paths))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(output)
            .current_dir("/")
            .spawn()
            .map_err(|error| cannot(&format!("running {}", program.display()), error))?;
        let (sender, ended) = channel();
        // Collects it, so that a client that runs for long never has a dead daemon as a zombie.
        std::thread::spawn(move || {
            if let Ok(output) = child.wait_with_output() {
                let _ = sender.send(output);
            }
        });
        Ok(Some(Self { ended, log, log_began, _lock: lock }))
    }

    fn ended(&self) -> Option<Output> {
        self.ended.try_recv().ok()
    }

    /// Why it did not start: in its own words, as it told them on its standard output, or what can be known.
    fn told(&self, output: &Output) -> Failure {
        match serde_json::from_slice::<Problem>(&output.stdout) {
            Ok(problem) => Failure::from(problem),
            Err(_) => self.failure(&format!("the daemon ended at its start ({})", output.status)),
        }
    }

    /// A failure with what the daemon said.
    fn failure(&self, message: &str) -> Failure {
        let failure = Failure::new(ErrorCode::DaemonUnreachable, message);
        let hint = format!("Its log is {}; `subagent doctor` checks the installation.", self.log.display());
        match tail(&self.log, self.log_began) {
            Some(text) => failure.because(format!("its last words:\n{text}")).hint(hint),
            None => failure.hint(hint),
        }
    }
}

/// The last lines of the log from a position on.
fn tail(log: &Path, from: u64) -> Option<String> {
    let mut file = std::fs::File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    let from = if from > length { 0 } else { from };
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(16 * 1024)))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = crate::view::text::block(&String::from_utf8_lossy(&bytes));
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    Some(last).filter(|last| !last.is_empty())
}

fn daemon_env(paths: &Paths) -> Vec<(String, std::ffi::OsString)> {
    let vars = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let names = subagent_process::env::capture(std::env::vars_os().filter_map(text_pair), [""; 0]);
    let wanted = |name: &str| {
        let proxy = name.to_ascii_lowercase().ends_with("_proxy");
        DAEMON_ENV.contains(&name) || (names.contains_key(name) && !proxy && name != "SSH_AUTH_SOCK")
    };
    let mut env: Vec<_> = vars.filter(|(name, _)| wanted(name)).collect();
    env.extend(
        paths.home.as_ref().map(|home| (String::from("SUBAGENT_HOME"), home.clone().into_os_string())),
    );
    env
}

fn text_pair((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::{TAIL_LINES, tail};

    #[test]
    fn the_tail_begins_where_this_daemon_began_and_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("daemon.log");
        std::fs::write(&log, "old\n").unwrap();
        assert_eq!(tail(&log, 4), None);
        std::fs::write(&log, "old\nnew \u{1b}[31mred\u{1b}[0m\n\n").unwrap();
        assert_eq!(tail(&log, 4).unwrap(), "new red");
        std::fs::write(&log, "line\n".repeat(10_000)).unwrap();
        assert_eq!(tail(&log, 0).unwrap().lines().count(), TAIL_LINES);
        // Emptied meanwhile.
        std::fs::write(&log, "short\n").unwrap();
        assert_eq!(tail(&log, 1_000).unwrap(), "short");
        assert_eq!(tail(&dir.path().join("none"), 0), None);
    }
}
