//! What it costs to find out to which attempt a process belongs: prints medians, with a hundred attempts known.
//!
//! `cargo run --release -p subagent-process --example caller_latency`
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use subagent_process::{Callers, ProcessIdentity, identify};

const ROUNDS: usize = 5_000;

fn median(mut ask: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            ask();
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// A process with this many shells above it, below this program; its pid and the outermost shell.
fn nested(depth: usize) -> (Child, u32) {
    let mut script = "sleep 600 & echo $! > $OUT; wait".to_owned();
    for _ in 1..depth {
        script = format!("sh -c '{}' & wait", script.replace('\'', "'\\''"));
    }
    let out = tempfile::NamedTempFile::new().unwrap();
    let child = Command::new("sh").args(["-c", &script]).env("OUT", out.path()).spawn().unwrap();
    let pid = loop {
        if let Ok(pid) = std::fs::read_to_string(out.path()).unwrap().trim().parse() {
            break pid;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    (child, pid)
}

fn main() {
    let callers = Callers::new();
    let (mut tree, deep) = nested(4);
    println!("no attempt known:                          {:?}", median(|| drop(callers.find(deep))));
    let own = identify(std::process::id()).unwrap();
    let enter = |start_time: u64| {
        for at in 0..100_u32 {
            let shim = ProcessIdentity { pid: 4_000_000 + at, start_time, ..own.clone() };
            let group = PathBuf::from(format!("/sys/fs/cgroup/x/{at}"));
            callers.enter(Some(&group), shim, None, at.to_string());
        }
    };
    enter(u64::MAX);
    println!("of none, older than every attempt:         {:?}", median(|| drop(callers.find(deep))));
    enter(0);
    assert_eq!(callers.find(deep), None);
    println!("of none, five below the end of the walk:   {:?}", median(|| drop(callers.find(deep))));
    callers.enter(None, identify(tree.id()).unwrap(), None, "member".to_owned());
    assert!(callers.find(deep).is_some());
    println!("a member, by its ancestors:                {:?}", median(|| drop(callers.find(deep))));
    println!(
        "entering and leaving:                      {:?}",
        median(|| {
            callers.enter(None, own.clone(), None, "own".to_owned());
            callers.leave("own");
        })
    );
    let _ = Command::new("kill").arg(deep.to_string()).status();
    let _ = tree.wait();
}
