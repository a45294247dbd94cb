//! What a driver of a conversation relies on: the log tells what was given to the child, in order with what it said;
//! what was accepted reaches the child once, whatever becomes of the daemon.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use subagent_core::frame::Kind;
use subagent_process::conversation::{Conversation, Part};
use subagent_process::{Containment, LiveShim, ProcessIdentity, Shim, ShimError, exit_record, survey};
use support::{World, eventually, exit, graces, output_holds, piped, stdout, stdout_text};

const INLINE: usize = 16 * 1024;

fn parts(dir: &Path, from: u64) -> Vec<Part> {
    let mut conversation = Conversation::open_at(dir, from);
    let mut out = Vec::new();
    while let Some(said) = conversation.next_part().unwrap() {
        assert!(said.to > said.from);
        // Of a child that exits the pipe may tell first.
        if said.part != Part::StdoutClosed {
            out.push(said.part);
        }
    }
    out
}

/// Input bytes in the log up to an offset.
fn given(dir: &Path, until: u64) -> Vec<u8> {
    let mut conversation = Conversation::open(dir);
    let mut out = Vec::new();
    while let Some(said) = conversation.next_part().unwrap() {
        match said.part {
            Part::Bytes(Kind::Stdin, bytes) if said.to <= until => out.extend(bytes),
            Part::Hole { stdin: true } => panic!("a hole"),
            _ => {}
        }
    }
    out
}

/// A message of one line that no other message equals.
fn message(number: usize, len: usize) -> Vec<u8> {
    let mut line = format!("{number}:").into_bytes();
    line.resize(len - 1, b'a' + u8::try_from(number % 26).unwrap());
    line.push(b'\n');
    line
}

async fn adopt(world: &World) -> LiveShim {
    let mut found = survey(world.launcher.sockets()).await.unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// A controller that is not ours: says hello, sends these bytes, and dies.
async fn half_a_daemon(shim: Shim, bytes: &[u8]) {
    // An answer: what was sent before was taken. Taking over drops what was not.
    shim.status().await.unwrap();
    let mut other = UnixStream::connect(shim.socket()).unwrap();
    other.write_all(b"{\"type\":\"hello\",\"protocol\":1}\n").unwrap();
    assert!(shim.lost(Duration::from_secs(5)).await);
    other.write_all(bytes).unwrap();
    // Until it was read, so that it is not the new connection that hides it.
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// Suspends a child; what it does not read from now on, it has not read.
async fn suspend(child: &ProcessIdentity) {
    assert!(subagent_process::signal_checked(child, libc::SIGSTOP).unwrap());
    eventually(5, "the child is suspended", || {
        std::fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap().contains(") T ")
    })
    .await;
}

fn resume(child: &ProcessIdentity) {
    assert!(subagent_process::signal_checked(child, libc::SIGCONT).unwrap());
}

#[tokio::test]
async fn every_message_is_in_the_log_before_the_answer_to_it() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let script = "while read -r line; do echo \"got ${line%%:*} ${#line}\"; done";
    shim.start(piped(world.script("1", script))).await.unwrap();
    let dir = world.attempt_dir("1");
    let sizes = [10, INLINE - 1, INLINE, INLINE + 1, 70_000, 300_000, 20];
    let mut expected = Vec::new();
    for (number, size) in sizes.into_iter().enumerate() {
        let answer = format!("got {number} {}\n", size - 1);
        shim.write_stdin(&message(number, size)).await.unwrap();
        output_holds(&dir, &answer).await;
        expected.push(Part::Bytes(Kind::Stdin, message(number, size)));
        expected.push(Part::Bytes(Kind::Stdout, answer.into_bytes()));
    }
    assert!(parts(&dir, 0) == expected);
    // What was copied into the log is not in the spool as well while the child reads.
    let spool: usize = sizes.iter().filter(|size| **size > INLINE).sum();
    assert_eq!(std::fs::metadata(dir.join("stdin.spool")).unwrap().len(), spool as u64);
    shim.close_stdin().unwrap();
    exit(&shim).await;
    expected.push(Part::StdinClosed);
    assert!(parts(&dir, 0) == expected);
}

#[tokio::test]
async fn a_position_goes_on_with_the_next_part() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(piped(world.job("1", "cat"))).await.unwrap();
    let dir = world.attempt_dir("1");
    for number in 0..6 {
        let line = message(number, if number % 2 == 0 { 30 } else { 40_000 });
        shim.write_stdin(&line).await.unwrap();
        let text = String::from_utf8(line[..5].to_vec()).unwrap();
        output_holds(&dir, &text).await;
    }
    shim.close_stdin().unwrap();
    exit(&shim).await;
    let all = parts(&dir, 0);
    let mut conversation = Conversation::open(&dir);
    for at in 0..all.len() {
        let said = conversation.next_part().unwrap().unwrap();
        assert!(parts(&dir, said.from) == all[at..], "from part {at}");
        assert!(parts(&dir, said.to) == all[at + 1..], "after part {at}");
    }
}

#[tokio::test]
async fn what_was_accepted_outlives_the_daemon_and_arrives_once() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(piped(world.job("1", "cat"))).await.unwrap();
    let dir = world.attempt_dir("1");
    suspend(&started.process).await;
    let mut expected = Vec::new();
    // Into the pipe, over its edge, behind that, and too large for the log.
    for (number, size) in [5, 3_000, 60_000, 12_000, 12_000, 400_000, 3_000].into_iter().enumerate() {
        let line = message(number, size);
        shim.write_stdin(&line).await.unwrap();
        expected.extend(line);
    }
    let status = shim.status().await.unwrap();
    assert_eq!(status.stdin_pending, expected.len() as u64);
    drop(shim);

    let live = adopt(&world).await;
    assert_eq!(live.status.stdin_pending, expected.len() as u64);
    assert!(given(&dir, live.status.log_end) == expected, "the log tells what was accepted");
    let last = message(7, 50);
    live.shim.write_stdin(&last).await.unwrap();
    expected.extend(last);
    resume(&started.process);
    let mut pending = u64::MAX;
    for _ in 0..1_000 {
        pending = live.shim.status().await.unwrap().stdin_pending;
        if pending == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(pending, 0, "a child that read everything has nothing pending");
    live.shim.close_stdin().unwrap();
    exit(&live.shim).await;
    assert!(stdout(&dir) == expected);
    assert!(given(&dir, u64::MAX) == expected);
}

#[tokio::test]
async fn pending_counts_what_lies_in_the_pipe() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let script = "read -r word < go; read -r line; echo \"$line\"; exec sleep 60";
    assert!(std::process::Command::new("mkfifo").arg(world.path("go")).status().unwrap().success());
    shim.start(piped(world.script("1", script))).await.unwrap();
    shim.write_stdin(b"line\n").await.unwrap();
    assert_eq!(shim.status().await.unwrap().stdin_pending, 5);
    std::fs::write(world.path("go"), "go\n").unwrap();
    output_holds(&world.attempt_dir("1"), "line").await;
    assert_eq!(shim.status().await.unwrap().stdin_pending, 0);
    shim.stop(graces(200, 5_000)).unwrap();
    exit(&shim).await;
}

#[tokio::test]
async fn half_a_message_of_a_dead_daemon_reaches_nobody() {
    for size in [1_000, INLINE, INLINE + 1, 200_000] {
        let world = World::new(Containment::Auto);
        let shim = world.launcher.launch().await.unwrap();
        shim.start(piped(world.job("1", "cat"))).await.unwrap();
        shim.write_stdin(b"first\n").await.unwrap();
        let mut bytes = format!("{{\"type\":\"stdin\",\"len\":{size}}}\n").into_bytes();
        bytes.extend(vec![b'?'; size - 1]);
        half_a_daemon(shim, &bytes).await;

        let live = adopt(&world).await;
        let dir = world.attempt_dir("1");
        assert!(given(&dir, live.status.log_end) == b"first\n", "{size}");
        // Of both kinds, since each takes another way past the remains.
        let large = message(3, 100_000);
        live.shim.write_stdin(b"second\n").await.unwrap();
        live.shim.write_stdin(&large).await.unwrap();
        live.shim.close_stdin().unwrap();
        assert_eq!(exit(&live.shim).await.exit_code, Some(0));
        let expected = [b"first\nsecond\n".as_slice(), &large].concat();
        assert!(stdout(&dir) == expected, "{size}");
        assert!(given(&dir, u64::MAX) == expected, "{size}");
    }
}

#[tokio::test]
async fn a_message_is_not_begun_while_it_is_still_coming() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(piped(world.job("1", "cat"))).await.unwrap();
    suspend(&started.process).await;
    let first = message(1, 100_000);
    shim.write_stdin(&first).await.unwrap();
    let mut bytes = b"{\"type\":\"stdin\",\"len\":100000}\n".to_vec();
    bytes.extend(vec![b'?'; 90_000]);
    half_a_daemon(shim, &bytes).await;
    resume(&started.process);
    let dir = world.attempt_dir("1");
    eventually(5, "the first arrives", || stdout(&dir).len() >= first.len()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(stdout(&dir) == first);
    let live = adopt(&world).await;
    live.shim.close_stdin().unwrap();
    exit(&live.shim).await;
    assert!(stdout(&dir) == first);
}

#[tokio::test]
async fn a_later_daemon_learns_that_the_input_is_closed() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(piped(world.script("1", "exec <&-; echo closed; exec sleep 60"))).await.unwrap();
    let dir = world.attempt_dir("1");
    output_holds(&dir, "closed").await;
    drop(shim);
    eventually(5, "the log tells", || parts(&dir, 0).contains(&Part::StdinClosed)).await;

    let live = adopt(&world).await;
    eventually(5, "the shim tells", || live.shim.is_stdin_closed()).await;
    assert!(matches!(live.shim.write_stdin(b"more\n").await, Err(ShimError::StdinClosed)));
    assert!(given(&dir, u64::MAX).is_empty());
    live.shim.stop(graces(200, 5_000)).unwrap();
    exit(&live.shim).await;
}

#[tokio::test]
async fn input_after_the_end_of_input_is_refused_and_in_no_log() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(piped(world.script("1", "cat; exec sleep 60"))).await.unwrap();
    let dir = world.attempt_dir("1");
    shim.write_stdin(b"last\n").await.unwrap();
    shim.close_stdin().unwrap();
    shim.write_stdin(b"late\n").await.unwrap();
    eventually(5, "it is told", || shim.is_stdin_closed()).await;
    assert!(matches!(shim.write_stdin(b"later\n").await, Err(ShimError::StdinClosed)));
    assert_eq!(given(&dir, u64::MAX), b"last\n");
    shim.stop(graces(200, 5_000)).unwrap();
    exit(&shim).await;
    assert_eq!(stdout_text(&dir), "last\n");
}

#[tokio::test]
async fn what_is_gone_is_a_hole_and_never_silence() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let script = "read -r a; head -c 2000000 /dev/zero; read -r b; echo end";
    let mut job = piped(world.script("1", script));
    job.log_limit = 256 * 1024;
    shim.start(job).await.unwrap();
    let dir = world.attempt_dir("1");
    shim.write_stdin(b"early\n").await.unwrap();
    let mut ends = shim.log_end();
    ends.wait_for(|end| *end > 2_000_000).await.unwrap();
    let middle = *ends.borrow();
    shim.write_stdin(&message(1, 50_000)).await.unwrap();
    exit(&shim).await;
    let all = parts(&dir, 0);
    assert_eq!(all[0], Part::Bytes(Kind::Stdin, b"early\n".to_vec()));
    assert!(all.contains(&Part::Hole { stdin: true }), "rotation may have taken input");
    let late: Vec<_> = parts(&dir, middle)
        .into_iter()
        .filter(|part| !matches!(part, Part::Bytes(Kind::Stdout, _)))
        .collect();
    assert!(late == [Part::Bytes(Kind::Stdin, message(1, 50_000)), Part::StdinClosed]);
    std::fs::remove_file(dir.join("stdin.spool")).unwrap();
    assert!(parts(&dir, middle).contains(&Part::Hole { stdin: true }));
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
#[tokio::test]
async fn what_cannot_be_noted_is_not_given() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(piped(world.job("1", "cat"))).await.unwrap();
    let dir = world.attempt_dir("1");
    shim.write_stdin(b"noted\n").await.unwrap();
    output_holds(&dir, "noted").await;
    // Files of the shim end here: the nearest thing to a full disk.
    let full = std::fs::metadata(dir.join("frames.log")).unwrap().len();
    let limit = libc::rlimit { rlim_cur: full, rlim_max: full };
    let pid = shim.identity().pid.cast_signed();
    // SAFETY: the limit is a live value and no old one is asked for.
    let set = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    shim.write_stdin(b"not noted\n").await.unwrap();
    let record = exit(&shim).await;
    assert_eq!((record.exit_code, record.stdout_bytes), (Some(0), 6), "the child saw the end of its input");
    assert_eq!(given(&dir, u64::MAX), b"noted\n");
}

#[tokio::test]
async fn a_child_waits_for_whoever_must_hear_all_of_it_and_nothing_is_a_hole() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let mut job = piped(world.script("1", "head -c 3000000 /dev/zero; echo end"));
    job.log_limit = 256 * 1024;
    job.heard = true;
    shim.start(job).await.unwrap();
    let dir = world.attempt_dir("1");
    let mut ends = shim.log_end();
    let mut log = Conversation::open(&dir);
    let (mut heard, mut most) = (0, 0);
    while heard < 3_000_004 {
        // A reader that is slower than the child.
        let _ = tokio::time::timeout(Duration::from_millis(2), ends.changed()).await;
        // The log may be ahead of what was told of it.
        most = most.max(ends.borrow().saturating_sub(log.position()));
        match log.next_part().unwrap() {
            Some(found) => match found.part {
                Part::Bytes(Kind::Stdout, bytes) => heard += bytes.len(),
                Part::Hole { .. } => panic!("a hole after {heard} bytes"),
                Part::Bytes(..) | Part::StdinClosed | Part::StdoutClosed => {}
            },
            None => assert!(!shim.is_lost()),
        }
        shim.heard(log.position()).unwrap();
    }
    assert!(most <= 128 * 1024, "{most}");
    shim.stop(graces(200, 5_000)).unwrap();
    exit(&shim).await;
}

#[tokio::test]
async fn a_child_does_not_wait_for_a_reader_that_is_gone() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let mut job = piped(world.script("1", "head -c 3000000 /dev/zero; echo end"));
    job.log_limit = 256 * 1024;
    job.heard = true;
    shim.start(job).await.unwrap();
    let dir = world.attempt_dir("1");
    let mut ends = shim.log_end();
    ends.wait_for(|end| *end > 64 * 1024).await.unwrap();
    let held = *ends.borrow();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(*ends.borrow() < held + 64 * 1024 && *ends.borrow() < 200_000, "it is held back");
    drop(shim);
    eventually(20, "it goes on alone", || exit_record::read(&dir).unwrap().is_some()).await;
    let record = exit_record::read(&dir).unwrap().unwrap();
    assert_eq!((record.stdout_bytes, record.exit_code), (3_000_004, Some(0)));
}
