//! The daemon's life: who finds it, what hangs it, what replaces it, and what is left after all that.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use subagent_model::ErrorCode;
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, Http, Output, shim_program, subagent_program, until};

/// A control call answers within this, whatever else hangs (DAEMON-11).
const BOUND: Duration = Duration::from_secs(10);

fn output(command: &mut Command) -> Output {
    Home::finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn(), b"")
}

/// A child that goes on when the test says so.
struct Gated {
    id: String,
    pid: i32,
    gate: PathBuf,
}

impl Gated {
    #[track_caller]
    fn start(home: &Home, name: &str) -> Self {
        let gate = home.path().join(format!("gate.{name}"));
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let script = format!("read line < {}; echo through {name}", gate.display());
        let record = home.background(&["sh", "-c", &script]);
        let id = record["id"].as_str().unwrap().to_owned();
        Self { pid: home.until_pid(&id), id, gate }
    }

    /// Lets it go on.
    fn open(&self) {
        std::fs::write(&self.gate, "go\n").unwrap();
    }

    /// Lets it go on and sees it end well, in its first attempt.
    #[track_caller]
    fn completes(&self, home: &Home, text: &str) {
        self.open();
        let record = home.until_status(&self.id, "completed");
        assert_eq!(record["attempt"], 1, "{record:#}");
        assert_eq!(home.run(&["result", &self.id]).ended(0).out, format!("{text}\n"));
    }

    fn shim(&self) -> i32 {
        parent(self.pid).expect("a child that runs")
    }
}

fn stat_field(pid: i32, place: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().nth(place)?.to_owned())
}

fn parent(pid: i32) -> Option<i32> {
    stat_field(pid, 1)?.parse().ok()
}

fn children(pid: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|other| parent(*other) == Some(pid))
        .collect()
}

/// A process that is suspended until this is dropped, however the test ends.
struct Suspended(i32);

impl Suspended {
    fn new(pid: i32) -> Self {
        kill(pid, Signal::STOP);
        let suspended = Self(pid);
        until("the process to be suspended", || (stat_field(pid, 0)? == "T").then_some(()));
        suspended
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        kill(self.0, Signal::CONT);
    }
}

/// A daemon that its home no longer knows: gone with the test, however it ends.
struct Displaced(i32);

impl Drop for Displaced {
    fn drop(&mut self) {
        kill(self.0, Signal::KILL);
    }
}

/// Both programs in a directory of their own, as a user would install them.
struct Install(PathBuf);

impl Install {
    fn new(home: &Home, name: &str) -> Self {
        let dir = home.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::copy(subagent_program(), dir.join("subagent")).unwrap();
        std::fs::copy(shim_program(), dir.join("subagent-shim")).unwrap();
        Self(dir)
    }

    fn run(&self, home: &Home, args: &[&str]) -> Output {
        let like = home.command(args);
        let mut command = Command::new(self.0.join("subagent"));
        command.args(args).current_dir(home.path()).stdin(Stdio::null());
        for (name, value) in like.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        output(&mut command)
    }
}

#[test]
fn daemon_06_programs_that_are_replaced_and_deleted_disturb_nothing_and_an_upgrade_adopts() {
    let home = Home::with_config("[limits]\nrunning = 16\n");
    let old = Install::new(&home, "old");
    old.run(&home, &["ls"]).ended(0);
    let first = home.daemon_pid().unwrap();
    let exe = std::fs::read_link(format!("/proc/{first}/exe")).unwrap();
    assert_eq!(exe, old.0.canonicalize().unwrap().join("subagent"));
    let child = Gated::start(&home, "child");
    let other = Gated::start(&home, "other");
    std::fs::write(old.0.join("new"), "no program").unwrap();
    std::fs::rename(old.0.join("new"), old.0.join("subagent")).unwrap();
    std::fs::remove_file(old.0.join("subagent-shim")).unwrap();
    // More at once than there are shims that wait: new ones are started from the program that is gone.
    let more: Vec<_> = (0..10).map(|number| Gated::start(&home, &number.to_string())).collect();
    assert_eq!(home.daemon_pid(), Some(first));
    for (number, gated) in more.iter().enumerate() {
        gated.completes(&home, &format!("through {number}"));
    }
    other.completes(&home, "through other");
    let upgrade = home.run(&["upgrade", "--json"]).ended(0).json();
    assert_eq!(upgrade["recovery"]["adopted"], 1, "{upgrade:#}");
    let second = home.daemon_pid().unwrap();
    assert_ne!(second, first);
    assert!(!is_alive(first) && is_alive(child.pid));
    assert_eq!(std::fs::read_link(format!("/proc/{second}/exe")).unwrap(), subagent_program());
    child.completes(&home, "through child");
    assert_eq!(home.run(&["run", "--", "echo", "new"]).ended(0).out, "new\n");
}

#[test]
fn daemon_06_an_upgrade_that_cannot_work_leaves_the_old_daemon_serving() {
    let home = Home::new();
    let child = Gated::start(&home, "child");
    // Into its file rather than its log alone.
    home.run(&["shutdown"]).ended(0);
    home.run(&["ls"]).ended(0);
    let pid = home.daemon_pid();
    let serves = || {
        assert_eq!(home.daemon_pid(), pid, "the old daemon serves on");
        assert!(is_alive(child.pid));
        assert_eq!(home.run(&["run", "--", "echo", "served"]).ended(0).out, "served\n");
    };
    // Without its shim.
    let bare = Install::new(&home, "bare");
    std::fs::remove_file(bare.0.join("subagent-shim")).unwrap();
    let refused = bare.run(&home, &["upgrade"]).ended(6);
    assert!(refused.err.contains("shim_missing"), "{refused:#?}");
    serves();
    // Settings that it does not take.
    let config = home.path().join("config.toml");
    std::fs::write(&config, "[limits]\nrunning = many\n").unwrap();
    let refused = home.run(&["upgrade"]).ended(2);
    assert!(refused.err.contains("config.toml"), "{refused:#?}");
    std::fs::remove_file(&config).unwrap();
    serves();
    // A store of a newer version, as far as its head says: the field `user_version`.
    let store = home.path().join("subagent.sqlite");
    let head = std::fs::read(&store).unwrap()[60..64].to_owned();
    write_at(&store, 60, &1_000_u32.to_be_bytes());
    let refused = home.run(&["upgrade"]);
    write_at(&store, 60, &head);
    assert!(refused.clone().ended(1).err.contains("store_too_new"), "{refused:#?}");
    serves();
    child.completes(&home, "through child");
}

#[test]
fn daemon_06_an_upgrade_to_a_shim_that_does_not_run_leaves_the_old_daemon_serving() {
    let home = Home::with_config("");
    let child = Gated::start(&home, "child");
    let pid = home.daemon_pid();
    let broken = Install::new(&home, "broken");
    std::fs::write(broken.0.join("subagent-shim"), "#!/bin/sh\nexit 1\n").unwrap();
    let refused = broken.run(&home, &["upgrade"]);
    assert_ne!(refused.code, 0, "{refused:#?}");
    assert_eq!(home.daemon_pid(), pid, "the old daemon serves on");
    assert_eq!(home.run(&["run", "--", "echo", "served"]).ended(0).out, "served\n");
    child.completes(&home, "through child");
}

fn write_at(path: &Path, place: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, place).unwrap();
}

/// Everything that a person or a script may ask, each within the bound.
#[track_caller]
fn control_calls_answer(home: &Home, id: &str) {
    for args in [&["status"][..], &["ls", "--all"], &["show", id], &["inbox"], &["logs", id], &["doctor"]] {
        let begun = Instant::now();
        home.run(args).ended(0);
        assert!(begun.elapsed() < BOUND, "{args:?} took {:?}", begun.elapsed());
    }
    let begun = Instant::now();
    assert_eq!(home.run(&["run", "--", "echo", "other"]).ended(0).out, "other\n");
    assert!(begun.elapsed() < BOUND, "another run took {:?}", begun.elapsed());
    home.run(&["wait", "--timeout", "50ms", id]).ended(5);
}

#[test]
fn daemon_09_a_suspended_child_and_a_suspended_shim_hold_up_nobody_else() {
    let home = Home::with_config("[limits]\nrunning = 8\n[daemon]\nterm_grace_ms = 300\n");
    let (child, shim, bystander) =
        (Gated::start(&home, "child"), Gated::start(&home, "shim"), Gated::start(&home, "bystander"));
    let suspended = [Suspended::new(child.pid), Suspended::new(shim.shim())];
    control_calls_answer(&home, &child.id);
    control_calls_answer(&home, &shim.id);
    let begun = Instant::now();
    home.run(&["stop", "--wait", &bystander.id]).ended(0);
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(home.show(&bystander.id)["status"], "stopped");
    drop(suspended);
    child.completes(&home, "through child");
    shim.completes(&home, "through shim");
}

#[test]
fn daemon_09_a_stop_of_a_child_whose_shim_is_suspended_answers_and_is_carried_out() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 300\nkill_grace_ms = 2000\n");
    let child = Gated::start(&home, "child");
    let suspended = Suspended::new(child.shim());
    let begun = Instant::now();
    home.run(&["stop", &child.id]).ended(0);
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    let status = home.show(&child.id)["status"].clone();
    assert!(status == "stopping" || status == "stopped", "{status}");
    assert_eq!(home.run(&["run", "--", "echo", "other"]).ended(0).out, "other\n");
    drop(suspended);
    home.until_status(&child.id, "stopped");
    until("the child to be gone", || (!is_alive(child.pid)).then_some(()));
    assert!(home.survivors(&[child.id]).is_empty());
}

#[test]
fn daemon_11_a_suspended_daemon_is_told_within_the_bound_of_a_call() {
    let home = Home::new();
    let child = Gated::start(&home, "child");
    let suspended = Suspended::new(home.daemon_pid().unwrap());
    // At once, since each sits out the same bound.
    let begun = Instant::now();
    let (stop, result) = (["stop", &child.id], ["result", &child.id]);
    let calls: Vec<_> = [&["status"][..], &["ls"], &stop, &result]
        .into_iter()
        .map(|args| {
            let mut command = home.command(args);
            (args, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn())
        })
        .collect();
    for (args, call) in calls {
        let output = Home::finish(call, b"");
        // Ten seconds, and what a loaded machine adds.
        assert!(begun.elapsed() < BOUND + Duration::from_secs(4), "{args:?} took {:?}", begun.elapsed());
        assert!(output.code == 6 || output.err.contains("timeout"), "{args:?}: {output:#?}");
        assert_ne!(output.code, 0);
        assert!(
            output.err.contains("subagent status") || output.err.contains("kill"),
            "no hint: {output:#?}"
        );
        assert!(output.out.is_empty(), "{output:#?}");
    }
    drop(suspended);
    assert!(is_alive(child.pid));
    home.run(&["status"]).ended(0);
}

#[test]
fn daemon_18_one_summary_tells_what_a_start_found() {
    let home = Home::with_config("[limits]\nrunning = 8\n");
    let (running, ending, losing) =
        (Gated::start(&home, "running"), Gated::start(&home, "ending"), Gated::start(&home, "losing"));
    let shim = losing.shim();
    home.kill_daemon();
    ending.open();
    // The shim first: it would write down how the child ended.
    kill(shim, Signal::KILL);
    kill(losing.pid, Signal::KILL);
    for pid in [ending.pid, losing.pid, shim] {
        until("a process to be gone", || (!is_alive(pid)).then_some(()));
    }
    home.run(&["ls"]).ended(0);
    let found = home.run(&["status", "--json"]).ended(0).json()["recovery"].clone();
    let counts = json!({"adopted": 1, "settled": 1, "lost": 1, "requeued": 0, "stopping": 0, "damaged": 0});
    assert_eq!(found, counts, "{found:#}");
    let status = home.run(&["status"]).ended(0).out;
    for told in ["1 adopted", "1 ended meanwhile", "1 lost"] {
        assert!(status.contains(told), "{told}: {status}");
    }
    let doctor = home.run(&["doctor", "--json"]).ended(0).json();
    let checks = doctor["checks"].as_array().unwrap();
    let recovery = checks.iter().find(|check| check["name"] == "recovery").expect("a line on the recovery");
    assert_eq!(recovery["state"], "warn", "{recovery:#}");
    assert!(recovery["what"].as_str().unwrap().contains("1 lost") && recovery["hint"].is_string());
    assert_eq!(home.until_status(&ending.id, "completed")["result"]["preview"], "through ending");
    let lost = home.until_status(&losing.id, "lost");
    assert_eq!(lost["attempt"], 1, "it may have worked: it is not run again");
    running.completes(&home, "through running");
    // It is told of this start only.
    home.run(&["shutdown"]).ended(0);
    home.run(&["ls"]).ended(0);
    let found = home.run(&["status", "--json"]).ended(0).json()["recovery"].clone();
    assert_eq!((&found["adopted"], &found["lost"]), (&json!(0), &json!(0)), "{found:#}");
}

#[test]
fn daemon_20_the_socket_is_its_users_alone() {
    let home = Home::new();
    home.run(&["ls"]).ended(0);
    let socket = home.socket();
    let dir = socket.parent().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(dir), 0o700);
    let shims = dir.join("s");
    assert_eq!(mode(&shims), 0o700);
    let own = rustix::process::getuid().as_raw();
    assert_eq!(std::fs::metadata(&socket).unwrap().uid(), own);
    if own != 0 {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let asks = |as_other: bool| {
        let mut command = Command::new(if as_other { "setpriv" } else { "curl" });
        if as_other {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl"]);
        }
        command.args(["--silent", "--show-error", "--max-time", "10", "--unix-socket"]);
        command.arg(&socket).arg("http://subagent/v1/health").current_dir("/");
        output(&mut command)
    };
    let open = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    asks(false).ended(0);
    // The way there is open to all; the directory is not, and within an open directory the socket is not.
    open(home.path(), 0o755);
    let refused = asks(true).ended(7);
    open(dir, 0o755);
    let refused_too = asks(true).ended(7);
    let by_program = home.run(&["status"]);
    open(dir, 0o700);
    assert!(refused.out.is_empty() && refused_too.out.is_empty());
    // A directory that others could write is not trusted by anybody.
    assert_eq!(by_program.code, 6, "{by_program:#?}");
    assert!(by_program.err.contains("open to others"), "{by_program:#?}");
    // The control: it is the permission that refuses, not the way of asking.
    open(dir, 0o755);
    open(&socket, 0o666);
    let control = asks(true);
    open(&socket, 0o600);
    open(dir, 0o700);
    control.ended(0);
}

#[test]
fn daemon_05_any_spelling_of_the_home_from_anywhere_finds_the_same_daemon() {
    let home = Home::new();
    let child = Gated::start(&home, "child");
    let pid = home.daemon_pid();
    let links = tempfile::tempdir().unwrap();
    let link = links.path().join("link");
    std::os::unix::fs::symlink(home.path(), &link).unwrap();
    let (parent, name) = (home.path().parent().unwrap(), home.path().file_name().unwrap());
    let inside = home.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let shown = home.path().display().to_string();
    let spellings: [(&Path, PathBuf); 7] = [
        (Path::new("/"), home.path().to_owned()),
        (Path::new("/"), PathBuf::from(format!("{shown}/"))),
        (Path::new("/"), PathBuf::from(format!("{shown}//./inside/.."))),
        (Path::new("/"), link.clone()),
        (links.path(), PathBuf::from("link/")),
        (parent, PathBuf::from(name)),
        (&inside, PathBuf::from("..")),
    ];
    for (cwd, spelling) in spellings {
        let run = |args: &[&str]| {
            output(home.command(args).current_dir(cwd).env("SUBAGENT_HOME", &spelling)).ended(0)
        };
        let status = run(&["status", "--json"]).json();
        assert_eq!(status["pid"].as_i64(), pid.map(i64::from), "{spelling:?} from {cwd:?}");
        assert!(run(&["ls"]).out.contains("running"), "{spelling:?} from {cwd:?}");
    }
    // A harmless edit of the settings and a restart from elsewhere: the same store.
    std::fs::write(home.path().join("config.toml"), "# a remark\n[limits]\nrunning = 5\n").unwrap();
    home.run(&["shutdown"]).ended(0);
    let elsewhere = output(home.command(&["ls", "--json"]).current_dir("/").env("SUBAGENT_HOME", &link));
    assert_eq!(elsewhere.ended(0).json()["items"][0]["id"], *child.id);
    let status = home.run(&["status", "--json"]).ended(0).json();
    assert_eq!((&status["running_limit"], &status["recovery"]["adopted"]), (&json!(5), &json!(1)));
    child.completes(&home, "through child");
}

/// Somebody cleaned up by hand while a daemon was suspended: lock and socket are gone from their places, and another
/// daemon serves. Gives the suspended one and its successor.
fn displaced(home: &Home, socket: &Path) -> (Suspended, i32) {
    let old = Suspended::new(home.daemon_pid().unwrap());
    std::fs::remove_file(home.path().join("daemon.lock")).unwrap();
    std::fs::remove_file(socket).unwrap();
    home.run(&["ls"]).ended(0);
    let new = home.daemon_pid().unwrap();
    assert_ne!(new, old.0);
    (old, new)
}

#[test]
fn daemon_03_a_daemon_that_was_displaced_takes_nothing_of_its_successor_along() {
    let home = Home::new();
    let child = Gated::start(&home, "child");
    let socket = home.socket();
    let (suspended, new) = displaced(&home, &socket);
    let old = suspended.0;
    let _gone = Displaced(old);
    // Sent before it goes on, so that it is the first thing it sees.
    kill(old, Signal::TERM);
    drop(suspended);
    until("the old daemon to be gone", || (!is_alive(old)).then_some(()));
    assert!(socket.exists(), "it took the socket of its successor along");
    assert_eq!(home.daemon_pid(), Some(new));
    assert!(is_alive(child.pid));
    child.completes(&home, "through child");
    assert_eq!(home.run(&["run", "--", "echo", "new"]).ended(0).out, "new\n");
    assert_eq!(home.daemon_pid(), Some(new));
}

#[test]
fn daemon_03_a_daemon_that_was_displaced_does_not_take_its_place_again() {
    let home = Home::new();
    let child = Gated::start(&home, "child");
    let socket = home.socket();
    let (suspended, new) = displaced(&home, &socket);
    let old = suspended.0;
    let _gone = Displaced(old);
    let place = || std::fs::metadata(&socket).map(|meta| meta.ino()).ok();
    let published = place();
    drop(suspended);
    // It looks every two seconds; it may as well see that it was displaced, and leave.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) && is_alive(old) {
        assert_eq!(place(), published, "the successor's socket was replaced");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(home.daemon_pid(), Some(new));
    kill(old, Signal::TERM);
    until("the old daemon to be gone", || (!is_alive(old)).then_some(()));
    child.completes(&home, "through child");
}

#[test]
fn stop_24_a_terminated_daemon_keeps_its_children_and_the_next_adopts_them() {
    let home = Home::with_config("[limits]\nrunning = 2\n");
    let children = [Gated::start(&home, "one"), Gated::start(&home, "two")];
    let queued = home.background(&["echo", "third"]);
    let queued = queued["id"].as_str().unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let pid = home.daemon_pid().unwrap();
        let socket = home.socket();
        kill(pid, signal);
        until("the daemon to leave", || (!is_alive(pid)).then_some(()));
        assert!(!socket.exists(), "it takes its own socket along");
        home.run(&["status"]).ended(6);
        assert!(children.iter().all(|child| is_alive(child.pid)), "{signal:?}");
        home.run(&["ls"]).ended(0);
        let health = home.run(&["status", "--json"]).ended(0).json();
        assert_eq!(health["recovery"]["adopted"], 2, "{health:#}");
        assert_eq!((&health["running"], &health["queued"]), (&json!(2), &json!(1)), "{health:#}");
    }
    children[0].completes(&home, "through one");
    assert_eq!(home.until_status(queued, "completed")["result"]["preview"], "third");
    children[1].completes(&home, "through two");
}

#[test]
fn stop_24_a_shutdown_that_stops_children_ends_all_of_them_within_its_bound() {
    let home = Home::with_config("[limits]\nrunning = 3\n[daemon]\nterm_grace_ms = 300\n");
    let stubborn = "trap '' TERM; echo up; while :; do sleep 0.1; done";
    let start = |script: &str| home.background(&["sh", "-c", script])["id"].as_str().unwrap().to_owned();
    let ids = [start(stubborn), start("setsid sleep 300 & echo up; sleep 300"), start("echo up; sleep 300")];
    for id in &ids {
        until("the child", || home.run(&["logs", id]).out.contains("up").then_some(()));
    }
    let queued = start("touch started; exec sleep 300");
    let pid = home.daemon_pid().unwrap();
    let begun = Instant::now();
    home.run(&["shutdown", "--stop-children", "--timeout", "20s"]).ended(0);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!is_alive(pid));
    assert!(home.survivors(&ids).is_empty());
    for id in ids.iter().chain([&queued]) {
        let record = home.show(id);
        assert_eq!(record["status"], "stopped", "{record:#}");
        assert_eq!(record["stop"]["cause"], "shutdown", "{record:#}");
    }
    assert!(!home.path().join("started").exists());
}

#[test]
fn stop_24_nothing_is_admitted_meanwhile_and_a_second_signal_ends_it_at_once() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 60000\n");
    let record = home.background(&["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]);
    let id = record["id"].as_str().unwrap();
    let child = home.until_pid(id);
    until("the child", || home.run(&["logs", id]).out.contains("up").then_some(()));
    let pid = home.daemon_pid().unwrap();
    let http = Http::new(home.socket());
    http.post("/v1/shutdown", &json!({"stop_children_within_ms": 60_000})).with_status(202);
    home.until_status(id, "stopping");
    assert_eq!(http.get("/v1/health").with(200)["draining"], true);
    let request = json!({"provider": "exec", "cwd": "/", "exec": {"program": "/bin/true"}});
    http.post("/v1/subagents", &request).refused(ErrorCode::Draining);
    let begun = Instant::now();
    kill(pid, Signal::TERM);
    until("the daemon to leave", || (!is_alive(pid)).then_some(()));
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert!(is_alive(child), "it is left to the next daemon");
    std::fs::write(home.path().join("config.toml"), "[daemon]\nterm_grace_ms = 200\n").unwrap();
    home.until_status(id, "stopped");
    assert!(!is_alive(child));
}

#[test]
fn daemon_21_a_run_in_a_pipe_ends_with_its_work_and_leaves_no_descriptor_open() {
    let home = Home::new();
    let program = subagent_program().display();
    // Cold, so that it starts the daemon, and warm; with a further descriptor of the pipe that it is given; with a child
    // that runs on. `cat` ends when the last writer is gone.
    for (script, expected) in [
        (format!("{program} run -- echo hi 2>&1 | cat"), "hi\n"),
        (format!("{program} run -- echo hi 9>&1 | cat"), "hi\n"),
        (format!("{program} shutdown 2>/dev/null; {program} run -- echo hi 2>&1 9>&1 | cat"), "hi\n"),
        (format!("{program} run --background -- sleep 300 9>&1 >/dev/null 2>&1 | cat"), ""),
        (format!("x=$({program} run -- sh -c 'sleep 300 & echo bye'); echo $x"), "bye\n"),
    ] {
        let like = home.command(&[]);
        let mut command = Command::new("timeout");
        command.args(["20", "bash", "-c", &script]).current_dir(home.path()).stdin(Stdio::null());
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env_remove("SUBAGENT_ID").env_remove("SUBAGENT_SOCKET");
        let output = output(&mut command).ended(0);
        assert_eq!(output.out, expected, "{script}: {output:#?}");
    }
}

fn spawned(home: &Home, http: &Http, script: &str) -> Value {
    let request = json!({
        "provider": "exec",
        "mode": "sync",
        "wait_ms": 60_000,
        "cwd": home.path(),
        "env": {"PATH": "/usr/bin:/bin"},
        "exec": {"program": "/bin/sh", "args": ["-c", script]},
    });
    let reply = http.post("/v1/subagents", &request).with(201);
    assert_eq!(reply["ended"], true, "{reply:#}");
    reply["record"].clone()
}

/// Calls from eight threads, which share the numbers.
fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

#[test]
fn proc_10_no_result_is_cut_in_a_storm_of_exits_and_signals() {
    let home = Home::with_config("[limits]\nrunning = 16\n");
    home.run(&["ls"]).ended(0);
    let http = Http::new(home.socket());
    let daemon = home.daemon_pid().unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                for pid in children(daemon).into_iter().chain([daemon]) {
                    // What it means is looked up, so one that means nothing is harmless.
                    kill(pid, Signal::CHILD);
                }
                std::thread::yield_now();
            }
        });
        in_parallel(200, |number| {
            if number % 2 == 1 {
                let record = spawned(&home, &http, "exit 3");
                assert_eq!(record["attempts"][0]["exit"]["code"], 3, "{record:#}");
                return;
            }
            let script = format!("head -c 65536 /dev/zero | tr '\\0' x; printf %06d {number}");
            let record = spawned(&home, &http, &script);
            assert_eq!(record["status"], "completed", "{record:#}");
            assert_eq!(record["result"]["bytes"], 65_542, "{record:#}");
            let id = record["id"].as_str().unwrap();
            let end = http.get(&format!("/v1/subagents/{id}/result?ack=false&offset=65530")).with(200);
            assert_eq!(end["text"], format!("xxxxxx{number:06}"));
        });
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(home.daemon_pid(), Some(daemon));
    let health = home.run(&["status", "--json"]).ended(0).json();
    assert_eq!((&health["running"], &health["queued"]), (&json!(0), &json!(0)));
}

/// The control group of a process below the mount of the unified hierarchy; `None` without one.
fn group(pid: i32) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)?;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(own))
}

#[test]
fn proc_18_hundreds_of_runs_with_leftovers_leave_nothing_behind() {
    let home = Home::with_config("[limits]\nrunning = 8\n[daemon]\nterm_grace_ms = 100\n");
    home.run(&["ls"]).ended(0);
    let http = Http::new(home.socket());
    let daemon = home.daemon_pid().unwrap();
    let groups = (home.run(&["status", "--json"]).ended(0).json()["containment"] == "cgroup").then(|| {
        let child = Gated::start(&home, "probe");
        let group = group(child.pid).expect("the group of a child");
        child.completes(&home, "through probe");
        group.parent().unwrap().to_owned()
    });
    let descriptors = || std::fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().count();
    // Once as wide as it will be.
    let script = "setsid sleep 300 >/dev/null 2>&1 & (sleep 300 >/dev/null 2>&1 &); sleep 300 & echo ok";
    in_parallel(16, |_| drop(spawned(&home, &http, script)));
    let before = descriptors();
    let ids = std::sync::Mutex::new(Vec::new());
    in_parallel(200, |_| {
        let record = spawned(&home, &http, script);
        assert_eq!((&record["status"], &record["result"]["preview"]), (&json!("completed"), &json!("ok")));
        assert!(record["marks"].to_string().contains("leftovers_ended"), "{record:#}");
        ids.lock().unwrap().push(record["id"].as_str().unwrap().to_owned());
    });
    let ids = ids.into_inner().unwrap();
    assert_eq!(ids.len(), 200);
    assert!(home.survivors(&ids).is_empty());
    // At most twice the shims that are kept warm, and nothing below them.
    until("shims and zombies to be gone", || {
        let shims = children(daemon);
        let zombie = |pid: &i32| stat_field(*pid, 0).is_some_and(|state| state == "Z");
        let quiet = shims.iter().all(|shim| !zombie(shim) && children(*shim).is_empty());
        (shims.len() <= 8 && quiet).then_some(())
    });
    until("descriptors as before", || (descriptors() <= before + 16).then_some(()));
    if let Some(root) = groups {
        until("no groups beyond those of live shims", || {
            let entries = std::fs::read_dir(&root).unwrap();
            let left = entries.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
            (left <= children(daemon).len()).then_some(())
        });
    }
    let health = home.run(&["status", "--json"]).ended(0).json();
    assert_eq!((&health["running"], &health["queued"]), (&json!(0), &json!(0)));
}
