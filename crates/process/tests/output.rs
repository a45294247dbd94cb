//! The log: bounded whatever a child writes, its end always there, readable while it grows and after
//! damage.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::Path;
use std::time::Duration;

use subagent_core::frame::{Kind, MAX_PAYLOAD};
use subagent_process::log::{FrameLog, LogItem, read_stream};
use subagent_process::{Containment, exit_record};
use support::{World, exit, exit_within, graces, output_holds, stdout_text};

fn size(dir: &Path) -> u64 {
    std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

#[tokio::test]
async fn proc_11_three_hundred_megabytes_are_bounded_and_the_end_is_there() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let limit = 4 * 1024 * 1024;
    let mut job =
        world.script("1", "echo the beginning; head -c 300000000 /dev/zero; echo the end; echo errors >&2");
    job.log_limit = limit;
    shim.start(job).await.unwrap();
    let dir = world.attempt_dir("1");
    let mut largest = 0;
    let record = loop {
        tokio::select! {
            record = exit_within(&shim, Duration::from_mins(2)) => break record,
            () = tokio::time::sleep(Duration::from_millis(5)) => largest = largest.max(size(&dir)),
        }
    };
    let total = 300_000_000 + 14 + 8;
    assert_eq!((record.stdout_bytes, record.stderr_bytes), (total, 7));
    assert!(largest.max(size(&dir)) <= limit, "{largest} {}", size(&dir));
    let text = read_stream(&dir, Kind::Stdout, 14, 8).unwrap();
    assert_eq!(text.head, b"the beginning\n");
    assert_eq!(text.tail, b"the end\n");
    assert_eq!(text.logged + record.dropped_bytes, total);
    assert_eq!(text.dropped, record.dropped_bytes);
    assert_eq!(text.damaged, 0);
    assert_eq!(exit_record::read(&dir).unwrap().unwrap(), record);
    // One hole, and it lies between the first segment and the ring.
    let mut log = FrameLog::open(&dir);
    let mut holes = 0;
    while let Some(item) = log.next_item().unwrap() {
        holes += usize::from(matches!(item, LogItem::Missing { .. }));
    }
    assert_eq!(holes, 1);
}

#[tokio::test]
async fn a_reader_follows_a_growing_log_across_rotation() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let script = "i=0; while [ $i -lt 60 ]; do head -c 20000 /dev/zero; i=$((i+1)); sleep 0.002; done";
    let mut job = world.script("1", script);
    job.log_limit = 8 * 1024 * 1024;
    shim.start(job).await.unwrap();
    let mut log = FrameLog::open(world.attempt_dir("1"));
    let mut ends = shim.log_end();
    let (mut bytes, mut done) = (0, false);
    while !done {
        while let Some(item) = log.next_item().unwrap() {
            let LogItem::Frame(frame) = item else { panic!("{item:?}") };
            assert!(frame.payload.len() <= MAX_PAYLOAD);
            match frame.kind {
                Kind::Stdout => bytes += frame.payload.len(),
                Kind::Control => done |= frame.payload.starts_with(br#"{"type":"exit""#),
                _ => {}
            }
        }
        if !done {
            let _ = tokio::time::timeout(Duration::from_millis(50), ends.changed()).await;
        }
    }
    assert_eq!(bytes, 1_200_000);
    // A second reader goes on from a position in the middle.
    let mut first = FrameLog::open(world.attempt_dir("1"));
    for _ in 0..10 {
        first.next_item().unwrap().unwrap();
    }
    let mut second = FrameLog::open_at(world.attempt_dir("1"), first.position());
    for _ in 0..10 {
        assert_eq!(second.next_item().unwrap(), first.next_item().unwrap());
    }
    exit(&shim).await;
}

#[tokio::test]
async fn positions_survive_rotation() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.script("1", "head -c 3000000 /dev/zero");
    job.log_limit = 512 * 1024;
    shim.start(job).await.unwrap();
    exit(&shim).await;
    let dir = world.attempt_dir("1");
    let mut all = Vec::new();
    let mut log = FrameLog::open(&dir);
    while let Some(item) = log.next_item().unwrap() {
        if let LogItem::Frame(frame) = item {
            all.push(frame);
        }
    }
    for (at, frame) in all.iter().enumerate() {
        let mut log = FrameLog::open_at(&dir, frame.offset);
        assert_eq!(log.next_item().unwrap(), Some(LogItem::Frame(frame.clone())), "frame {at}");
    }
}

#[tokio::test]
async fn damage_costs_only_what_was_damaged() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let script = "for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done";
    shim.start(world.script("1", script)).await.unwrap();
    exit(&shim).await;
    let dir = world.attempt_dir("1");
    let file = dir.join("frames.log");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(6).position(|window| window == b"line 3").unwrap();
    bytes[at] = b'L';
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(stdout_text(&dir), "line 1\nline 2\nline 4\nline 5\n");
    assert!(read_stream(&dir, Kind::Stdout, 0, 0).unwrap().damaged > 0);
    assert_eq!(exit_record::read(&dir).unwrap().unwrap().exit_code, Some(0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_disk_that_takes_no_more_stops_neither_child_nor_shim() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let fifo = world.path("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script = "echo begin; read go < go; head -c 3000000 /dev/zero; echo end; exit 4";
    shim.start(world.script("1", script)).await.unwrap();
    let dir = world.attempt_dir("1");
    output_holds(&dir, "begin").await;
    // Files of the shim end at 100,000 bytes from now on: the nearest thing to a full disk.
    limit_files(shim.identity().pid, 100_000);
    std::fs::write(&fifo, "go\n").unwrap();
    let record = exit(&shim).await;
    assert_eq!(record.exit_code, Some(4));
    assert_eq!(record.stdout_bytes, 3_000_010);
    assert!(record.dropped_bytes > 2_800_000, "{record:?}");
    assert_eq!(record.log_error, Some(libc::EFBIG));
    // The log may not hold the record, so the file does.
    shim.status().await.unwrap();
    assert_eq!(exit_record::read(&dir).unwrap().unwrap(), record);
    assert_eq!(read_stream(&dir, Kind::Stdout, 6, 0).unwrap().head, b"begin\n");
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn limit_files(pid: u32, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is a live value and no old one is asked for.
    let result = unsafe {
        libc::prlimit(pid.cast_signed(), libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(result, 0);
}

#[tokio::test]
async fn a_controller_that_never_reads_holds_nothing_up() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let socket = shim.socket().to_owned();
    shim.start(world.script("1", "while :; do echo x; done")).await.unwrap();
    // Takes over and never reads again.
    let mute = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    std::io::Write::write_all(&mut &mute, b"{\"type\":\"hello\",\"protocol\":1}\n").unwrap();
    assert!(shim.lost(Duration::from_secs(5)).await);
    let dir = world.attempt_dir("1");
    let before = read_stream(&dir, Kind::Stdout, 0, 0).unwrap().logged;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(read_stream(&dir, Kind::Stdout, 0, 0).unwrap().logged > before);
    let found = subagent_process::survey(world.launcher.sockets()).await.unwrap();
    found[0].shim.stop(graces(200, 5_000)).unwrap();
    assert!(exit(&found[0].shim).await.tree_gone);
}
