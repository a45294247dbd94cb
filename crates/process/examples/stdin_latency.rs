//! From `write_stdin` to the child that has read the line: prints the median and the 99th percentile.
//!
//! `cargo run --release -p subagent-process --example stdin_latency -- PATH-OF-SHIM [ROUNDS] [BYTES]`
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::io::BufRead;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use subagent_core::frame::Kind;
use subagent_process::log::read_stream;
use subagent_process::{Containment, ExitWait, LauncherConfig, ShimLauncher, StartJob, StdinSource};

fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// Says how old each line was when it was read.
fn child() {
    let mut ages = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let now = nanos();
        let line = line.unwrap();
        let sent: u128 = line.split(' ').next().unwrap().parse().unwrap();
        ages.push(now.saturating_sub(sent));
    }
    ages.sort_unstable();
    println!("median {} us, 99% {} us", ages[ages.len() / 2] / 1000, ages[ages.len() * 99 / 100] / 1000);
}

#[tokio::main]
async fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "child") {
        return child();
    }
    // On a worker, as a daemon's tasks are.
    tokio::spawn(measure(args)).await.unwrap();
}

async fn measure(args: Vec<String>) {
    let program = PathBuf::from(args.first().expect("usage: stdin_latency PATH-OF-SHIM [ROUNDS] [BYTES]"));
    let rounds: usize = args.get(1).map_or(2_000, |text| text.parse().expect("a number of rounds"));
    let bytes: usize = args.get(2).map_or(200, |text| text.parse().expect("a number of bytes"));
    let dir = tempfile::tempdir().unwrap();
    let sockets = dir.path().join("s");
    std::fs::create_dir(&sockets).unwrap();
    let (containment, tag) = (Containment::Walk, "bench".to_owned());
    let launcher = ShimLauncher::new(LauncherConfig { program, sockets, containment, tag }).unwrap();
    let shim = launcher.launch().await.unwrap();
    let attempt_dir = dir.path().join("attempt");
    let own = std::env::current_exe().unwrap();
    let mut job = StartJob::new("1", attempt_dir.to_str().unwrap(), own.to_str().unwrap(), "/");
    job.args = vec!["child".to_owned()];
    job.stdin = StdinSource::Pipe;
    shim.start(job).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..rounds {
        let mut line = format!("{} ", nanos());
        line.extend(std::iter::repeat_n('x', bytes.saturating_sub(line.len() + 1)));
        line.push('\n');
        shim.write_stdin(line.as_bytes()).await.unwrap();
        // One at a time: a conversation, not a stream.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    shim.close_stdin().unwrap();
    let ExitWait::Exited(_) = shim.exit().await else { panic!("the shim was lost") };
    let said = read_stream(&attempt_dir, Kind::Stdout, 1000, 0).unwrap();
    println!("{rounds} lines of {bytes} bytes: {}", String::from_utf8_lossy(&said.head).trim_end());
}
