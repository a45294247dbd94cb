//! Many clients, one daemon; results and their consumption; daemons that come and go.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::Stdio;

use subagent_testkit::home::is_alive;
use subagent_testkit::{Home, until};

#[test]
fn daemon_02_twenty_clients_on_a_cold_home_get_one_daemon() {
    let home = Home::with_config("[limits]\nrunning = 32\n");
    let started: Vec<_> = (0..20)
        .map(|number| {
            let text = number.to_string();
            let mut command = home.command(&["run", "--", "echo", &text]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for (number, child) in started.into_iter().enumerate() {
        let output = Home::finish(Ok(child), b"").ended(0);
        assert_eq!(output.out, format!("{number}\n"));
    }
    let daemons = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let dir = entry.ok()?.path();
            let line = std::fs::read(dir.join("cmdline")).ok()?;
            let environment = std::fs::read(dir.join("environ")).ok()?;
            let mine = format!("SUBAGENT_HOME={}\0", home.path().display());
            let serves = line.split(|byte| *byte == 0).nth(1) == Some(b"serve");
            (serves && String::from_utf8_lossy(&environment).contains(&mine)).then_some(dir)
        })
        .count();
    assert!(daemons <= 1, "{daemons} daemons serve one home");
}

#[test]
fn daemon_01_a_stale_lock_and_socket_do_not_hold_up_the_next_daemon() {
    let home = Home::new();
    home.run(&["run", "--", "true"]).ended(0);
    let first = home.daemon_pid().unwrap();
    home.kill_daemon();
    home.run(&["run", "--", "true"]).ended(0);
    assert_ne!(home.daemon_pid().unwrap(), first);
}

#[test]
fn a_second_daemon_leaves_and_names_the_first() {
    let home = Home::new();
    home.run(&["run", "--", "true"]).ended(0);
    let pid = home.daemon_pid().unwrap();
    let second = home.run(&["serve"]);
    assert_ne!(second.code, 0);
    assert!(second.err.contains(&pid.to_string()), "{second:#?}");
    assert_eq!(home.daemon_pid(), Some(pid), "the first serves on");
}

#[test]
fn daemon_07_a_home_so_deep_that_no_socket_fits_gets_a_short_path() {
    let home = Home::new();
    let deep = home.path().join("d".repeat(60)).join("e".repeat(60)).join("f".repeat(60));
    std::fs::create_dir_all(&deep).unwrap();
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("SUBAGENT_HOME", &deep).stdout(Stdio::piped()).stderr(Stdio::piped());
        Home::finish(command.spawn(), b"")
    };
    assert_eq!(run(&["run", "--", "echo", "deep"]).ended(0).out, "deep\n");
    run(&["shutdown"]).ended(0);
}

#[test]
fn result_07_a_consumed_result_leaves_the_inbox_and_stays_readable() {
    let home = Home::new();
    let record = home.background(&["echo", "news"]);
    let id = record["id"].as_str().unwrap();
    home.until_status(id, "completed");
    let inbox = home.run(&["inbox", "--json"]).ended(0);
    assert!(inbox.out.contains(id), "{inbox:#?}");
    assert_eq!(home.run(&["result", id]).ended(0).out, "news\n");
    until("the acknowledgement", || (!home.run(&["inbox", "--json"]).out.contains(id)).then_some(()));
    home.kill_daemon();
    assert!(!home.run(&["inbox", "--json"]).ended(0).out.contains(id), "not after a restart either");
    assert_eq!(home.run(&["result", id]).ended(0).out, "news\n");
}

#[test]
fn result_03_a_wait_that_runs_out_says_so_and_stops_nothing() {
    let home = Home::new();
    let record = home.background(&["sleep", "300"]);
    let (id, handle) = (record["id"].as_str().unwrap(), record["handle"].as_str().unwrap());
    let pid = home.until_pid(id);
    let wait = home.run(&["wait", "--timeout", "200ms", id]).ended(5);
    assert!(wait.err.contains(handle) || wait.out.contains(handle), "{wait:#?}");
    assert!(is_alive(pid));
}

#[test]
fn result_35_exit_codes_tell_how_it_ended() {
    let home = Home::new();
    home.run(&["run", "--", "true"]).ended(0);
    home.run(&["run", "--", "sh", "-c", "exit 3"]).ended(1);
    home.run(&["show", "nobody"]).ended(3);
    home.run(&["run", "--no-such-option"]).ended(2);
    home.run(&["shutdown"]).ended(0);
    until("the daemon to leave", || (home.run(&["status"]).code == 6).then_some(()));
}

#[test]
fn rec_08_a_unique_beginning_is_enough_and_an_ambiguous_one_does_nothing() {
    let home = Home::new();
    let first = home.background(&["sleep", "300"]);
    let second = home.background(&["sleep", "300"]);
    let handle = first["handle"].as_str().unwrap();
    assert_eq!(home.show(&handle[..5])["id"], first["id"]);
    // Ids of the same hour begin alike.
    let id = first["id"].as_str().unwrap();
    let output = home.run(&["stop", &id[..6]]).ended(3);
    assert!(output.err.contains("ambiguous"), "{output:#?}");
    assert!(output.err.contains(second["handle"].as_str().unwrap()), "{output:#?}");
}

#[test]
fn proc_02_a_child_gets_its_own_callers_environment_and_nothing_of_the_daemon() {
    let home = Home::new();
    // The daemon is started by a caller with one environment, the child asked for by another.
    let mut first = home.command(&["run", "--", "true"]);
    first.env("LANG", "xx_FIRST").env("PRIVATE_OF_FIRST", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    Home::finish(first.spawn(), b"").ended(0);
    let mut second = home.command(&["run", "--env", "GIVEN", "--env", "SET=here", "--", "env"]);
    second.env("LANG", "xx_SECOND").env("GIVEN", "by name").env("PRIVATE_OF_SECOND", "1");
    let output = Home::finish(second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn(), b"").ended(0);
    let has = |line: &str| output.out.lines().any(|other| other == line);
    assert!(has("LANG=xx_SECOND") && has("GIVEN=by name") && has("SET=here"), "{output:#?}");
    assert!(!output.out.contains("PRIVATE_OF"), "{output:#?}");
}

#[test]
fn upgrade_keeps_running_children() {
    let home = Home::new();
    let record = home.background(&["sleep", "300"]);
    let id = record["id"].as_str().unwrap();
    let pid = home.until_pid(id);
    let before = home.daemon_pid().unwrap();
    home.run(&["upgrade"]).ended(0);
    assert_ne!(home.daemon_pid().unwrap(), before);
    assert!(is_alive(pid));
    let record = home.show(id);
    assert_eq!((record["status"].as_str(), record["attempt"].as_u64()), (Some("running"), Some(1)));
}

#[test]
fn a_nested_call_is_a_child_of_its_caller() {
    let home = Home::new();
    let program = subagent_testkit::subagent_program().to_str().unwrap();
    let script = format!("{program} run --background --json -- echo inner");
    let output = home.run(&["run", "--json", "--", "sh", "-c", &script]).ended(0);
    let outer = output.json();
    let inner: serde_json::Value =
        serde_json::from_str(outer["result"]["preview"].as_str().unwrap()).unwrap();
    assert_eq!(inner["parent"], outer["id"]);
    assert_eq!(inner["depth"], 1);
    assert_eq!(inner["requested_by"], format!("subagent:{}", outer["id"].as_str().unwrap()));
}
