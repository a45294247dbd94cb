//! STOP-24: the daemon is told to end while children live. They are kept, may finish, or are stopped, as was asked; nothing
//! new is taken, whoever spawns gets an answer, it is bounded, and a second signal ends it at once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, until};

const CONFIG: &str = "[daemon]\nterm_grace_ms = 300\nkill_grace_ms = 3000\n";

fn started(command: &mut Command) -> std::io::Result<Child> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Waits until the daemon of this home says that it goes down.
#[track_caller]
fn until_draining(home: &Home) {
    let http = home.http();
    until("the daemon to go down", || (http.get("/v1/health").with(200)["draining"] == true).then_some(()));
}

#[track_caller]
fn until_gone(pid: i32) {
    until("the daemon to be gone", || (!is_alive(pid)).then_some(()));
}

#[test]
fn stop_24_kept_children_go_on_with_what_they_were_told_by_the_next_daemon() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(&[], "touch working\nfile go\nsay $steer after all");
    home.reached("working");
    let detached = home.run(&["run", "--detach", "--json", "--", "sleep", "300"]).ended(0).json();
    let detached = detached["id"].as_str().unwrap();
    let (pid, detached_pid) = (home.until_pid(&id), home.until_pid(detached));
    let volatile =
        home.run(&["run", "--background", "--no-durable", "--json", "--", "sleep", "300"]).ended(0).json();
    let volatile_pid = home.until_pid(volatile["id"].as_str().unwrap());
    let daemon = home.daemon_pid().unwrap();
    let told = home.run(&["shutdown", "--json"]).ended(0).json();
    assert_eq!(told["was_running"], true, "{told:#}");
    assert!(!is_alive(daemon), "it returns once the daemon is gone");
    assert!(is_alive(pid) && is_alive(detached_pid));
    assert!(!is_alive(volatile_pid), "what is not durable ends with its daemon");
    home.run(&["steer", "--wait", "20s", &id, "a word"]).ended(0);
    assert_eq!(home.until_pid(&id), pid);
    home.open("go");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.show(&id)["attempt"], 1);
    assert_eq!(home.show(detached)["status"], "running");
}

#[test]
fn stop_24_stopped_children_are_gone_and_one_that_resists_is_bounded() {
    let home = Home::with_config(CONFIG);
    let resists = home.talks(&[], "ignore-term\ndeaf\nspawn-sleeper\ntouch working\nfile never");
    home.reached("working");
    let warm = home.talks(&["--warm"], "say warm");
    home.until_status(&warm, "idle");
    let pids = [home.until_pid(&resists), home.until_pid(&warm)];
    let daemon = home.daemon_pid().unwrap();
    let begun = Instant::now();
    home.run(&["shutdown", "--stop-children", "10s"]).ended(0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(!is_alive(daemon) && pids.iter().all(|pid| !is_alive(*pid)));
    assert!(home.survivors(&[resists.clone(), warm.clone()]).is_empty());
    let record = home.show(&resists);
    assert_eq!(
        (&record["status"], &record["stop"]["cause"]),
        (&"stopped".into(), &"shutdown".into()),
        "{record:#}"
    );
    let runs = home.run(&["runs", "--json", &warm]).ended(0).json();
    assert_eq!(runs["items"][0]["status"], "completed", "its answer stays: {runs:#}");
    assert_eq!(home.run(&["result", &warm]).ended(0).out, "warm\n");
}

#[test]
fn stop_24_a_bound_that_is_too_short_leaves_the_rest_to_the_next_daemon_and_says_so() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 60000\nkill_grace_ms = 3000\n");
    let id = home.talks(&[], "ignore-term\ndeaf\ntouch working\nfile never");
    home.reached("working");
    let pid = home.until_pid(&id);
    let told = home.run(&["shutdown", "--stop-children", "300ms"]).ended(5);
    assert!(told.err.contains("in time"), "{told:#?}");
    assert!(is_alive(pid));
    std::fs::write(home.path().join("config.toml"), CONFIG).unwrap();
    home.until_status(&id, "stopped");
    assert!(!is_alive(pid));
}

#[test]
fn stop_24_a_drain_lets_children_finish_and_the_spawner_gets_an_answer() {
    let home = Home::with_config("[limits]\nrunning = 1\n");
    let id = home.talks(&[], "touch working\nfile go\nsay finished");
    home.reached("working");
    let queued = home.talks(&[], "say from the queue");
    let daemon = home.daemon_pid().unwrap();
    let drain = started(&mut home.command(&["shutdown", "--drain", "20s", "--json"]));
    until_draining(&home);
    // Reads and waits are answered, new work is not taken.
    assert_eq!(home.show(&id)["status"], "running");
    let more = home.http().post(
        "/v1/subagents",
        &serde_json::json!({"provider": "exec", "cwd": home.path(), "exec": {"program": "true"}}),
    );
    more.refused(subagent_model::ErrorCode::Draining);
    assert!(is_alive(daemon), "it waits for its child");
    // One that spawns now is answered by the next daemon.
    let spawner = started(&mut home.command(&["run", "--", "echo", "answered"]));
    home.open("go");
    let told = Home::finish(drain, b"");
    until_gone(daemon);
    assert_eq!(Home::finish(spawner, b"").ended(0).out, "answered\n");
    // The queued one was not started into the slot that became free; it was left, and that is told.
    assert_eq!(told.code, 5, "{told:#?}");
    assert_eq!(told.json()["children"], 1, "{told:#?}");
    assert_eq!(home.until_status(&id, "completed")["result"]["preview"], "finished");
    assert_eq!(home.until_status(&queued, "completed")["result"]["preview"], "from the queue");
}

#[test]
fn stop_24_a_drain_is_bounded_and_what_did_not_finish_is_adopted() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(&[], "touch working\nfile go\nsay finished");
    home.reached("working");
    let pid = home.until_pid(&id);
    let begun = Instant::now();
    let told = home.run(&["shutdown", "--drain", "500ms"]).ended(5);
    assert!(begun.elapsed() >= Duration::from_millis(500) && begun.elapsed() < Duration::from_secs(10));
    assert!(told.err.contains("not finished in time"), "{told:#?}");
    assert!(is_alive(pid));
    home.open("go");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.show(&id)["attempt"], 1);
}

#[test]
fn stop_24_a_second_signal_ends_it_at_once_and_loses_nothing() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 60000\nkill_grace_ms = 3000\n");
    let id = home.talks(&[], "ignore-term\ndeaf\ntouch working\nfile go\nsay went on");
    home.reached("working");
    let pid = home.until_pid(&id);
    for order in [&["shutdown", "--drain", "5m"][..], &["shutdown", "--stop-children", "5m"]] {
        let daemon = home.daemon_pid().unwrap();
        let asks = started(&mut home.command(order));
        until_draining(&home);
        if order[1] == "--stop-children" {
            let path = format!("/v1/subagents/{id}");
            until("the stop to be accepted", || {
                (home.http().get(&path).json()["status"] == "stopping").then_some(())
            });
        }
        assert!(is_alive(daemon));
        let begun = Instant::now();
        kill(daemon, Signal::TERM);
        until_gone(daemon);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        Home::finish(asks, b"");
        assert!(is_alive(pid), "the child is the next daemon's");
        home.run(&["ls"]).ended(0);
    }
    // The stop was accepted by the second, and is carried out by the next.
    let status = home.show(&id)["status"].clone();
    assert!(status == "stopping" || status == "stopped", "{status}");
    home.kill_daemon();
    std::fs::write(home.path().join("config.toml"), CONFIG).unwrap();
    home.until_status(&id, "stopped");
    assert!(!is_alive(pid));
}

#[test]
fn stop_24_the_first_signal_keeps_children_as_a_shutdown_does() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(&[], "touch working\nask execute make\nsay $answer");
    home.until_status(&id, "waiting");
    let (pid, daemon) = (home.until_pid(&id), home.daemon_pid().unwrap());
    let waits = started(&mut home.command(&["wait", "--timeout", "20s", &id]));
    kill(daemon, Signal::TERM);
    until_gone(daemon);
    assert!(is_alive(pid));
    home.run(&["approve", &id]).ended(0);
    home.until_status(&id, "completed");
    // Who waited over the change either saw the end, or was told how to ask again.
    let waits = Home::finish(waits, b"");
    assert!(waits.code == 0 || (waits.code == 6 && waits.err.contains("help:")), "{waits:#?}");
    assert_eq!(home.run(&["result", &id]).ended(0).out, "allow_once\n");
}
