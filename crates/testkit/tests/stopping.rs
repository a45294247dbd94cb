//! A stop leaves no descendant alive, whatever it did.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use subagent_testkit::home::is_alive;
use subagent_testkit::{Home, until};

const CONFIG: &str = "[daemon]\nterm_grace_ms = 300\nkill_grace_ms = 3000\n";

/// Starts a tree, stops it once it said `up`, and looks that nothing of it is left.
fn stopped_tree(script: &str) {
    let home = Home::with_config(CONFIG);
    let record = home.background(&["bash", "-c", script]);
    let id = record["id"].as_str().unwrap().to_owned();
    let pid = home.until_pid(&id);
    until("the tree", || home.run(&["logs", &id]).out.contains("up").then_some(()));
    assert!(!home.survivors(std::slice::from_ref(&id)).is_empty(), "the tree must be there to be stopped");
    let begun = Instant::now();
    home.run(&["stop", "--wait", &id]).ended(0);
    let record = home.show(&id);
    assert_eq!(record["status"], "stopped", "{record:#}");
    assert!(begun.elapsed() < Duration::from_secs(6), "it took {:?}", begun.elapsed());
    assert!(!is_alive(pid));
    // Shown as stopped only when the tree is gone: there is nothing to wait for.
    let left = home.survivors(std::slice::from_ref(&id));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_session_of_its_own() {
    stopped_tree("setsid sleep 300 & setsid setsid sleep 300 & echo up; wait");
}

#[test]
fn a_double_fork() {
    stopped_tree("( (sleep 300 &) & ); (setsid sh -c 'sleep 300 & exec sleep 300' &); echo up; sleep 300");
}

#[test]
fn stop_07_sigterm_is_ignored_by_all() {
    stopped_tree(
        "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo up; while :; do sleep 1; done",
    );
}

#[test]
fn a_stopped_process_is_no_refuge() {
    stopped_tree("sleep 300 & kill -STOP $!; echo up; kill -STOP $$");
}

#[test]
fn a_fork_loop() {
    stopped_tree(
        "f() { while :; do (sleep 0.01; exec sleep 300) & sleep 0.02; done; }; f & setsid bash -c 'while :; do sleep 0.02 & done' & echo up; wait",
    );
}

#[test]
fn stop_08_two_stops_at_once_give_one_end() {
    let home = Home::with_config(CONFIG);
    let record = home.background(&["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]);
    let id = record["id"].as_str().unwrap();
    until("the trap", || home.run(&["logs", id]).out.contains("up").then_some(()));
    let stops: Vec<_> = (0..2).map(|_| home.command(&["stop", id]).spawn().unwrap()).collect();
    for mut stop in stops {
        assert!(stop.wait().unwrap().success());
    }
    let record = home.until_status(id, "stopped");
    let first = record["stop"]["at"].clone();
    home.run(&["stop", id]).ended(0);
    assert_eq!(home.show(id)["stop"]["at"], first, "a later stop moves nothing");
}

#[test]
fn stop_09_an_unknown_id_is_not_found() {
    let home = Home::new();
    let output = home.run(&["stop", "zzzz"]).ended(3);
    assert!(output.err.contains("not_found"), "{output:#?}");
}

#[test]
fn stop_16_all_are_stopped_and_none_starts_into_a_freed_slot() {
    let home = Home::with_config("[limits]\nrunning = 1\n[daemon]\nterm_grace_ms = 300\n");
    let ids: Vec<_> = (0..4)
        .map(|number| {
            let mark = format!("touch started.{number}; exec sleep 300");
            home.background(&["sh", "-c", &mark])["id"].as_str().unwrap().to_owned()
        })
        .collect();
    home.until_pid(&ids[0]);
    home.run(&["stop", "--all", "--wait"]).ended(0);
    for id in &ids {
        assert_eq!(home.show(id)["status"], "stopped");
    }
    assert!(!home.path().join("started.1").exists(), "a queued run must not start into the freed slot");
}

#[test]
fn proc_17_what_a_child_leaves_is_ended_with_the_run() {
    let home = Home::with_config(CONFIG);
    let record = home
        .run(&["run", "--json", "--", "bash", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo ok"])
        .ended(0);
    let record = record.json();
    let id = record["id"].as_str().unwrap().to_owned();
    assert!(record["marks"].to_string().contains("leftovers_ended"), "{record:#}");
    assert!(home.survivors(&[id]).is_empty());
}

#[test]
fn a_stopped_child_that_reads_nothing_delays_nothing_else() {
    let home = Home::with_config(CONFIG);
    let prompt = "x".repeat(10 * 1024 * 1024);
    let args = [
        "run",
        "--json",
        "--background",
        "--prompt-file",
        "-",
        "--",
        "sh",
        "-c",
        "echo up; kill -STOP $$; cat",
    ];
    let record = home.run_with_input(&args, prompt.as_bytes()).ended(0).json();
    let id = record["id"].as_str().unwrap();
    until("the child", || home.run(&["logs", id]).out.contains("up").then_some(()));
    let begun = Instant::now();
    assert_eq!(home.run(&["run", "--", "echo", "other"]).ended(0).out, "other\n");
    home.run(&["status"]).ended(0);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let pid = home.daemon_pid().unwrap();
    home.run(&["shutdown"]).ended(0);
    until("the daemon to leave", || (!is_alive(pid)).then_some(()));
    home.run(&["stop", "--wait", id]).ended(0);
    assert_eq!(home.show(id)["status"], "stopped");
}
