//! Bad input and bad surroundings: a clear error with a code each, and everything else goes on working.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;

use subagent_testkit::{Home, until};

fn works(home: &Home) {
    let output = home.run(&["run", "--", "echo", "still works"]).ended(0);
    assert_eq!(output.out, "still works\n");
}

#[test]
fn an_unknown_program_is_named() {
    let home = Home::new();
    let output = home.run(&["run", "--", "no-such-program-at-all"]).ended(1);
    assert!(output.err.contains("no-such-program-at-all"), "{output:#?}");
    assert!(output.err.contains("program_not_found"), "{output:#?}");
    assert!(output.out.is_empty(), "an error text never stands where the result should");
    works(&home);
}

#[test]
fn a_missing_working_directory_is_refused_before_anything_starts() {
    let home = Home::new();
    let output = home.run(&["run", "--cwd", "/no/such/dir", "--", "true"]).ended(2);
    assert!(output.err.contains("invalid_cwd"), "{output:#?}");
    works(&home);
}

#[test]
fn proc_05_a_prompt_of_50_megabytes_reaches_the_child_unchanged() {
    let home = Home::new();
    let prompt = "0123456789abcde\n".repeat(50 * 1024 * 1024 / 16);
    let output =
        home.run_with_input(&["run", "--prompt-file", "-", "--", "md5sum"], prompt.as_bytes()).ended(0);
    let mut md5 = std::process::Command::new("md5sum");
    md5.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let expected = Home::finish(md5.spawn(), prompt.as_bytes());
    assert_eq!(output.out, expected.out);
    works(&home);
}

#[test]
fn a_prompt_that_fits_nowhere_is_refused_with_its_size() {
    let home = Home::new();
    let prompt = "x".repeat(200_000);
    let args = ["run", "--prompt-via", "argument", "--prompt-file", "-", "--", "echo"];
    let output = home.run_with_input(&args, prompt.as_bytes()).ended(2);
    assert!(output.err.contains("prompt_too_large"), "{output:#?}");
    works(&home);
}

#[test]
fn proc_11_output_of_a_gigabyte_is_bounded_and_its_end_is_there() {
    let home = Home::with_config("[daemon]\nlog_limit_mb = 8\n");
    // A gigabyte only where it does not hold up everyone: the mechanism is the same from a multiple of the limit on.
    let mebibytes = if std::env::var_os("SUBAGENT_TEST_LONG").is_some() { 1024 } else { 128 };
    let script = format!("head -c {mebibytes}M /dev/zero | tr '\\0' x; echo; echo the end");
    let output = home.run(&["run", "--json", "--", "sh", "-c", &script]).ended(0);
    let record = output.json();
    assert_eq!(record["status"], "completed", "{record:#}");
    let marks: Vec<_> =
        record["marks"].as_array().unwrap().iter().map(|mark| mark.as_str().unwrap()).collect();
    assert!(marks.contains(&"truncated"), "{record:#}");
    let id = record["id"].as_str().unwrap();
    let whole = home.run(&["result", "--full", id]).ended(0).out;
    assert!(
        whole.ends_with("\nthe end\n"),
        "the end was lost: ...{:?}",
        &whole[whole.len().saturating_sub(80)..]
    );
    let logs = home.path().join(record["transcript"].as_str().unwrap());
    let kept: u64 =
        std::fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(kept < 12 * 1024 * 1024, "{kept} bytes are kept of a log that is bounded to 8 MiB");
    works(&home);
}

#[test]
fn invalid_utf_8_and_nul_bytes_are_told_as_well_as_text_can() {
    let home = Home::new();
    let output = home.run(&["run", "--", "printf", "a\\000b\\377c"]).ended(0);
    assert_eq!(output.out, "a\0b\u{fffd}c\n");
    works(&home);
}

#[test]
fn daemon_08_a_corrupt_row_is_listed_and_everything_else_is_served() {
    let home = Home::new();
    works(&home);
    let record = home.run(&["ls", "--all", "--json"]).ended(0);
    assert!(record.out.contains("completed"), "{record:#?}");
    home.run(&["shutdown"]).ended(0);
    let database = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "sqlite" || extension == "db"))
        .expect("a database in the home");
    let done = std::process::Command::new("python3").args(["-c", CORRUPT]).arg(&database).status().unwrap();
    assert!(done.success());
    works(&home);
    let listed = home.run(&["ls", "--all"]).ended(0);
    assert!(listed.err.contains("cannot be read") || listed.err.contains("damaged"), "{listed:#?}");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.out.contains("damaged") || doctor.err.contains("damaged"), "{doctor:#?}");
}

/// Breaks the first stored record through a door of its own.
const CORRUPT: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
table, column = next(
    (name, col[1])
    for (name,) in db.execute(\"select name from sqlite_master where type='table' and name like 'subagent%'\")
    for col in db.execute(f'pragma table_info({name})')
    if col[1] in ('state', 'body', 'record'))
db.execute(f\"update {table} set {column} = '{{broken' where rowid = (select min(rowid) from {table})\")
db.commit()
";

#[test]
fn a_corrupt_frame_log_is_told_and_what_can_be_read_is_used() {
    let home = Home::new();
    let fifo = std::process::Command::new("mkfifo").arg(home.path().join("gate")).status().unwrap();
    assert!(fifo.success());
    let record = home.background(&["sh", "-c", "echo first; read line < gate; echo second"]);
    let id = record["id"].as_str().unwrap();
    until("the first line", || home.run(&["logs", id]).out.contains("first").then_some(()));
    let key = home.run(&["show", "--json", id]).json();
    let dir = home.path().join("attempts").join(format!("{id}.{}.{}", key["run"], key["attempt"]));
    let log = dir.join("frames.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let place = bytes.windows(5).position(|window| window == b"first").expect("the line is in the log");
    bytes[place] ^= 0x55;
    std::fs::write(&log, &bytes).unwrap();
    std::fs::write(home.path().join("gate"), "go\n").unwrap();
    let record = until("the end", || {
        Some(home.show(id)).filter(|record| record["status"] != "running" && record["status"] != "queued")
    });
    assert!(record["marks"].to_string().contains("output_incomplete"), "{record:#}");
    let logs = home.run(&["logs", "--raw", id]).ended(0);
    assert!(logs.out.contains("damage"), "{logs:#?}");
    works(&home);
}

#[test]
fn a_home_that_cannot_be_written_says_so() {
    if rustix::process::getuid().is_root() {
        // Permissions do not bind root; a file in the place of the home does.
        let home = Home::new();
        let place = home.path().join("taken");
        std::fs::write(&place, "").unwrap();
        let mut command = home.command(&["run", "--", "true"]);
        command.env("SUBAGENT_HOME", &place);
        let output = Home::finish(command.stdout(piped()).stderr(piped()).spawn(), b"");
        assert!(output.code != 0 && output.err.contains("taken"), "{output:#?}");
        return;
    }
    let home = Home::new();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let output = home.run(&["run", "--", "true"]);
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(output.code, 6, "{output:#?}");
    assert!(output.err.contains("store_read_only") || output.err.contains("permission"), "{output:#?}");
}

fn piped() -> std::process::Stdio {
    std::process::Stdio::piped()
}

#[test]
fn daemon_16_a_full_disk_is_an_error_and_passes() {
    if !rustix::process::getuid().is_root() {
        // A disk of our own needs a mount.
        return;
    }
    let home = Home::with_config("[limits]\ndisk_floor_mb = 0\n");
    let disk = Disk::mount(home.path().join("disk"), "6m");
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("SUBAGENT_HOME", &disk.0);
        Home::finish(command.stdout(piped()).stderr(piped()).spawn(), b"")
    };
    std::fs::write(disk.0.join("config.toml"), "[limits]\ndisk_floor_mb = 0\n").unwrap();
    run(&["run", "--", "echo", "before"]).ended(0);
    let running =
        run(&["run", "--background", "--json", "--", "sh", "-c", "sleep 1; echo done"]).ended(0).json();
    let id = running["id"].as_str().unwrap();
    // One that is not started yet could not be.
    until("the child to run", || {
        let record = run(&["show", "--json", id]).json();
        record["attempts"][0]["process"]["pid"].is_i64().then_some(())
    });
    let filler = disk.0.join("filler");
    // As much as fits; the last write is short.
    let _ = std::fs::write(&filler, vec![0; 16 * 1024 * 1024]);
    let full = run(&["run", "--", "echo", "during"]);
    assert!(full.code == 1 || full.code == 4, "{full:#?}");
    assert!(full.err.contains("store_full") || full.err.contains("disk"), "{full:#?}");
    std::fs::remove_file(&filler).unwrap();
    until("the child to be settled once there is room", || {
        let record = run(&["show", "--json", id]).json();
        (record["status"] == "completed").then_some(())
    });
    run(&["run", "--", "echo", "after"]).ended(0);
    run(&["shutdown", "--stop-children"]).ended(0);
}

/// A small disk of its own, gone with the test.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(place: std::path::PathBuf, size: &str) -> Self {
        std::fs::create_dir(&place).unwrap();
        let options = format!("size={size},mode=700");
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(&place)
            .status();
        assert!(done.unwrap().success());
        Self(place)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let done = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}
