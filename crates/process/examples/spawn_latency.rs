//! What a warm shim costs over a bare spawn: prints the medians of both for `/bin/true`.
//!
//! `cargo run --release -p subagent-process --example spawn_latency -- PATH-OF-SHIM [ROUNDS] [walk]`
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use subagent_process::{Containment, ExitWait, LauncherConfig, ShimLauncher, StartJob};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    // On a worker, as a daemon's tasks are; the main thread would be woken by a detour.
    tokio::spawn(measure()).await.unwrap();
}

async fn measure() {
    let mut args = std::env::args().skip(1).collect::<Vec<_>>().into_iter();
    let program = PathBuf::from(args.next().expect("usage: spawn_latency PATH-OF-SHIM [ROUNDS] [walk]"));
    let rounds: usize = args.next().map_or(500, |text| text.parse().expect("a number of rounds"));
    let containment = match args.next().as_deref() {
        Some("walk") => Containment::Walk,
        _ => Containment::Auto,
    };

    let pause = args.next().is_some();
    let bare: Vec<_> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            Command::new("/bin/true").env_clear().status().unwrap();
            begin.elapsed()
        })
        .collect();

    let dir = tempfile::tempdir().unwrap();
    let sockets = dir.path().join("s");
    std::fs::create_dir(&sockets).unwrap();
    let tag = "bench".to_owned();
    let launcher = ShimLauncher::new(LauncherConfig { program, sockets, containment, tag }).unwrap();
    println!("containment: {:?}", launcher.containment());
    let begin = Instant::now();
    let shim = launcher.launch().await.unwrap();
    println!("cold launch of a shim: {:?}", begin.elapsed());

    let mut starts = Vec::new();
    let mut totals = Vec::new();
    for round in 0..rounds {
        let attempt_dir = dir.path().join(round.to_string());
        std::fs::create_dir(&attempt_dir).unwrap();
        if pause {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let job = StartJob::new(round.to_string(), attempt_dir.to_str().unwrap(), "/bin/true", "/");
        let begin = Instant::now();
        shim.start(job).await.unwrap();
        starts.push(begin.elapsed());
        let ExitWait::Exited(_) = shim.exit().await else { panic!("the shim was lost") };
        shim.release().unwrap();
        totals.push(begin.elapsed());
    }
    println!("bare spawn and wait:              {:?}", median(bare));
    println!("warm shim, start until exec'd:    {:?}", median(starts));
    println!("warm shim, start, exit, release:  {:?}", median(totals));
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", shim.identity().pid)).unwrap();
    for name in ["Rss", "Pss", "Private_Clean", "Private_Dirty", "Anonymous"] {
        let line = rollup.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap_or("-");
        println!("shim {line}");
    }
    drop(shim);
    tokio::time::sleep(Duration::from_millis(200)).await;
    if let Some(root) = launcher.cgroup_root() {
        // Another bench may still be using it.
        let _ = root.remove();
    }
}
