//! Shims that do not answer, files that vanish, sockets that are removed: what a run did is decided by what is known,
//! never by what cannot be seen at the moment.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, until};

const CONFIG: &str = "[daemon]\nterm_grace_ms = 300\nkill_grace_ms = 700\n";

/// The shims of this home's daemon.
fn shims(home: &Home) -> Vec<i32> {
    let daemon = home.daemon_pid().expect("a daemon serves");
    let children =
        std::fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap_or_default();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = String::from_utf8(std::fs::read(format!("/proc/{pid}/cmdline")).ok()?).ok()?;
        let ours = line.contains("subagent-shim") && line.contains(home.path().to_str()?);
        ours.then_some(pid)
    });
    let named = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    all.chain(named)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .filter(|pid| is_alive(*pid))
        .collect()
}

fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_start_that_a_suspended_shim_holds_never_happens_twice() {
    let home = Home::with_config(CONFIG);
    home.run(&["run", "--", "true"]).ended(0);
    let suspended = shims(&home);
    for pid in &suspended {
        kill(*pid, Signal::STOP);
    }
    let record = home.background(&["sh", "-c", "echo ran >> ran; sleep 0.1; echo done"]);
    let id = record["id"].as_str().unwrap();
    until("the run to end", || Some(home.show(id)).filter(|record| record["status"] == "completed"));
    for pid in &suspended {
        kill(*pid, Signal::CONT);
    }
    // Whatever the shims still held would run now.
    home.run(&["run", "--", "sleep", "0.3"]).ended(0);
    assert_eq!(std::fs::read_to_string(home.path().join("ran")).unwrap(), "ran\n");
}

#[test]
fn finished_work_is_not_run_again_when_its_files_are_gone() {
    let home = Home::with_config(CONFIG);
    let record = home.background(&["sh", "-c", "echo ran >> ran; sleep 0.4; echo ran >> ended"]);
    let id = record["id"].as_str().unwrap();
    home.until_pid(id);
    home.kill_daemon();
    std::fs::remove_dir_all(home.path().join("attempts")).unwrap();
    until("the child to end", || home.path().join("ended").exists().then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(200));
    let record = until("the run to end", || {
        Some(home.show(id)).filter(|record| record["status"] != "running" && record["status"] != "queued")
    });
    assert_eq!(record["attempt"], 1, "{record:#}");
    assert_eq!(std::fs::read_to_string(home.path().join("ran")).unwrap(), "ran\n");
}

#[test]
fn a_child_that_kills_its_shim_at_once_leaves_nothing_and_is_no_clean_end() {
    let home = Home::with_config(CONFIG);
    for _ in 0..8 {
        let output = home.run(&["run", "--json", "--", "sh", "-c", "kill -9 $PPID; sleep 307"]).ended(1);
        let record = output.json();
        assert_eq!(record["status"], "error", "{record:#}");
        assert_eq!(record["error"]["code"], "shim_lost", "{record:#}");
        assert!(home.survivors(&[record["id"].as_str().unwrap().to_owned()]).is_empty());
    }
}

#[test]
fn stop_07_a_suspended_shim_does_not_hold_up_a_stop() {
    let home = Home::with_config(CONFIG);
    let record = home.background(&["sh", "-c", "kill -STOP $PPID; exec sleep 308"]);
    let id = record["id"].as_str().unwrap();
    let pid = home.until_pid(id);
    home.run(&["stop", "--wait", id]).ended(0);
    assert_eq!(home.show(id)["status"], "stopped");
    assert!(!is_alive(pid));
}

#[test]
fn a_suspended_shim_is_adopted_and_not_taken_for_gone() {
    let home = Home::with_config(CONFIG);
    let record = home.background(&["sleep", "309"]);
    let id = record["id"].as_str().unwrap();
    let pid = home.until_pid(id);
    kill(parent_of(pid), Signal::STOP);
    home.kill_daemon();
    let record = home.show(id);
    assert_eq!(
        (record["status"].as_str(), record["attempt"].as_u64()),
        (Some("running"), Some(1)),
        "{record:#}"
    );
    assert!(is_alive(pid));
    home.run(&["stop", "--wait", id]).ended(0);
}

#[test]
fn what_daemon_and_shim_leave_behind_is_ended_though_it_hides_its_mark() {
    let home = Home::with_config(CONFIG);
    let cgroup = home.run(&["doctor", "--json"]).out.contains("control groups");
    let script = "env -i setsid sleep 330 & echo $! > hidden; setsid sleep 331 & echo up; sleep 332";
    let record = home.background(&["sh", "-c", script]);
    let id = record["id"].as_str().unwrap();
    let pid = home.until_pid(id);
    until("the tree", || home.run(&["logs", id]).out.contains("up").then_some(()));
    let hidden: i32 = std::fs::read_to_string(home.path().join("hidden")).unwrap().trim().parse().unwrap();
    let shim = parent_of(pid);
    home.kill_daemon();
    kill(shim, Signal::KILL);
    until("the shim to be gone", || (!is_alive(shim)).then_some(()));
    let record = until("the run to end", || Some(home.show(id)).filter(|record| record["status"] == "lost"));
    assert_eq!(record["result"]["preview"], "up\n", "what it wrote is kept: {record:#}");
    until("the marked ones to be gone", || home.survivors(&[id.to_owned()]).is_empty().then_some(()));
    if cgroup {
        until("the hidden one to be gone", || (!is_alive(hidden)).then_some(()));
    } else {
        kill(hidden, Signal::KILL);
    }
}

#[test]
fn proc_18_the_next_daemon_removes_the_groups_of_the_one_before() {
    let home = Home::new();
    let Some(root) = groups_of(&home) else { return };
    let count =
        || std::fs::read_dir(&root).map_or(0, |dir| dir.flatten().filter(|e| e.path().is_dir()).count());
    for _ in 0..3 {
        home.run(&["run", "--", "true"]).ended(0);
        home.kill_daemon();
    }
    home.run(&["run", "--", "true"]).ended(0);
    until("old groups to be gone", || (count() <= shims(&home).len() + 2).then_some(()));
}

/// The directory of this home's control groups, where there are any.
fn groups_of(home: &Home) -> Option<PathBuf> {
    home.run(&["run", "--", "true"]).ended(0);
    let line = shims(home)
        .into_iter()
        .find_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok())?;
    let mut words = line.split('\0');
    words.find(|word| *word == "--cgroup")?;
    Some(PathBuf::from(words.next()?).parent()?.to_owned())
}

#[test]
fn daemon_11_a_removed_socket_is_published_again() {
    let home = Home::new();
    home.run(&["run", "--", "true"]).ended(0);
    let pid = home.daemon_pid().unwrap();
    std::fs::remove_file(home.socket()).unwrap();
    assert_eq!(home.run(&["run", "--", "echo", "back"]).ended(0).out, "back\n");
    assert_eq!(home.daemon_pid(), Some(pid));
}

#[test]
fn a_missing_log_is_no_clean_success() {
    let home = Home::new();
    let script = format!("echo IMPORTANT; sleep 0.1; rm -rf {}/attempts; sleep 0.1", home.path().display());
    let record = home.run(&["run", "--json", "--", "sh", "-c", &script]).json();
    assert!(record["marks"].to_string().contains("output_incomplete"), "{record:#}");
    assert_ne!(record["quality"], "ok");
}

#[test]
fn a_shutdown_that_leaves_children_says_so() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 20000\n");
    let record = home.background(&["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.2; done"]);
    let id = record["id"].as_str().unwrap();
    until("the trap", || home.run(&["logs", id]).out.contains("up").then_some(()));
    let output = home.run(&["shutdown", "--stop-children", "--timeout", "300ms"]).ended(5);
    assert!(output.err.contains("did not stop in time"), "{output:#?}");
    std::fs::write(home.path().join("config.toml"), CONFIG).unwrap();
    home.until_status(id, "stopped");
}

#[test]
fn result_35_data_that_cannot_be_written_is_no_success() {
    let home = Home::new();
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let mut command = home.command(&["run", "--", "echo", "precious"]);
    let output = Home::finish(command.stdout(full()).stderr(Stdio::piped()).spawn(), b"").ended(1);
    assert!(output.err.contains("standard output"), "{output:#?}");
    assert!(home.run(&["inbox"]).ended(0).out.contains("precious"), "what was not delivered stays owed");
}
