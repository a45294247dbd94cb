//! The program from outside, as far as no daemon is needed: usage, streams, exit codes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A command in a home of its own, without anything of the surroundings that matters.
fn subagent(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_subagent"));
    command.args(args).env("SUBAGENT_HOME", home).stdin(Stdio::null());
    for name in ["SUBAGENT_ID", "SUBAGENT_SOCKET", "SUBAGENT_SHIM", "SUBAGENT_LOG", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

fn run(home: &Path, args: &[&str]) -> (i32, String, String) {
    told(&subagent(home, args).output().unwrap())
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn help_and_version_are_data_and_wrong_usage_is_not() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = run(home.path(), &["--help"]);
    assert!(code == 0 && out.contains("Exit codes") && err.is_empty());
    for command in subagent_cli::command().get_subcommands() {
        let (code, out, _) = run(home.path(), &[command.get_name(), "--help"]);
        assert!(code == 0 && out.contains("Usage: subagent"), "{}: {out}", command.get_name());
    }
    for args in [
        &[][..],
        &["frobnicate"],
        &["run", "--deadline", "10", "--", "true"],
        &["stop"],
        &["ls", "--limit", "0"],
        &["stop", "--detached", "k7"],
        &["stop", "--all", "k7"],
        &["steer", "k7"],
        &["steer", "k7", "m", "--interrupt", "--follow-up"],
        &["resume", "k7"],
        &["run", "--warm", "--detach", "--", "true"],
        &["run", "--idle", "5m", "--", "true"],
        &["run", "--allow", "", "--", "true"],
        &["shutdown", "--drain", "5m", "--stop-children"],
        &["inbox", "--all", "--claim", "c"],
        &["config"],
    ] {
        let (code, out, err) = run(home.path(), args);
        assert!(code == 2 && out.is_empty() && !err.is_empty(), "{args:?}: {code} {out} {err}");
    }
    assert!(!home.path().join("daemon.lock").exists(), "nothing of this needs a daemon");
}

#[test]
fn queue_18_a_negative_or_fractional_limit_is_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    for (option, value, reason) in [
        ("--max-turns", "-1", "-1 is negative"),
        ("--max-turns", "2.5", "2.5 is not whole"),
        ("--max-tool-calls", "-3", "-3 is negative"),
        ("--grace-turns", "1.5", "1.5 is not whole"),
        ("--max-tokens", "-200", "-200 is negative"),
        ("--max-cost", "-0.5", "-0.5 is negative"),
        ("--tree-max-cost", "nan", "no amount of money"),
    ] {
        let (code, out, err) = run(home.path(), &["run", option, value, "--", "true"]);
        assert!(code == 2 && out.is_empty() && err.contains(reason), "{option} {value}: {err}");
    }
    assert!(!home.path().join("daemon.lock").exists());
}

#[test]
fn a_wrong_request_is_refused_before_a_daemon_is_started_for_it() {
    let home = tempfile::tempdir().unwrap();
    let cases: [&[&str]; 12] = [
        &["run"],
        &["run", "--env", "NO_SUCH_VARIABLE_HERE", "--", "true"],
        &["run", "--prompt-file", "/no/such/file", "--", "true"],
        &["ls", "--watch"],
        &["run", "--talk", "--provider", "other"],
        &["run", "--schema", "/no/such/file", "--", "true"],
        &["steer", "k7", " "],
        &["resume", "k7", ""],
        &["answer", "k7", ""],
        &["config", "limits", "running=-1"],
        &["config", "limits", "nonsense=1"],
        &["config", "limits", "per_provider.x=1.5"],
    ];
    for args in cases {
        let (code, out, err) = run(home.path(), args);
        assert!(
            code == 2 && out.is_empty() && err.contains("docs/errors/invalid_request.md"),
            "{args:?}: {err}"
        );
    }
    let (code, out, err) = run(home.path(), &["run", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&err).unwrap();
    assert!(code == 2 && out.is_empty() && error["error"]["code"] == "invalid_request");
    assert!(!home.path().join("daemon.lock").exists());
}

#[test]
fn status_and_shutdown_start_no_daemon() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = run(home.path(), &["status"]);
    assert!(code == 6 && out.is_empty() && err.contains("no daemon is running"), "{err}");
    let (code, _, err) = run(home.path(), &["shutdown"]);
    assert!(code == 0 && err.contains("no daemon is running"), "{err}");
    assert!(!home.path().join("daemon.lock").exists());
}

#[test]
fn a_missing_shim_is_told_at_once() {
    let home = tempfile::tempdir().unwrap();
    let output = subagent(home.path(), &["ls"]).env("SUBAGENT_SHIM", "/no/such/shim").output().unwrap();
    let (code, out, err) = told(&output);
    assert!(
        code == 6 && out.is_empty() && err.contains("/no/such/shim") && err.contains("shim_missing"),
        "{err}"
    );
    let output =
        subagent(home.path(), &["doctor", "--json"]).env("SUBAGENT_SHIM", "/no/such/shim").output().unwrap();
    let (code, out, _) = told(&output);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["state"]), (1, &serde_json::json!("bad")));
}

#[test]
fn daemon_07_why_a_daemon_did_not_start_reaches_the_client() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "[limits]\nrunning = \"four\"\n").unwrap();
    // Any program will do: it is not reached.
    let output = subagent(home.path(), &["ls"]).env("SUBAGENT_SHIM", "/bin/sh").output().unwrap();
    let (code, _, err) = told(&output);
    assert!(code == 2 && err.contains("config.toml, line 2") && err.contains("from 1 to 1024"), "{err}");
    std::fs::remove_file(home.path().join("config.toml")).unwrap();
    std::fs::write(home.path().join("subagent.sqlite"), [7; 9_000]).unwrap();
    let output = subagent(home.path(), &["ls"]).env("SUBAGENT_SHIM", "/bin/sh").output().unwrap();
    let (code, _, err) = told(&output);
    assert!(code == 1 && err.contains("store_failed") && err.contains("not a database"), "{err}");
}

#[test]
fn ui_05_a_closed_pipe_ends_quietly() {
    let home = tempfile::tempdir().unwrap();
    let mut child = subagent(home.path(), &["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn manual_and_completions_cover_every_command() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("man");
    let (code, ..) = run(home.path(), &["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(code, 0);
    for command in subagent_cli::command().get_subcommands() {
        let page = dir.join(format!("subagent-{}.1", command.get_name()));
        assert!(page.exists(), "{}", page.display());
    }
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, err) = run(home.path(), &["completions", shell]);
        assert!(code == 0 && out.contains("subagent") && err.is_empty());
    }
    let (code, out, _) = run(home.path(), &["man"]);
    assert!(code == 0 && out.contains(".TH"));
}
