//! Whether a tree works: processor time by group and by walk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use subagent_process::{Containment, ProcessIdentity, cpu_time};
use support::{World, exit, graces, output_holds};

/// The work is done two generations below the child.
const BUSY: &str = "sh -c 'sh -c \"echo ready; while :; do :; done\" & wait' & wait";
const IDLE: &str = "sh -c 'sh -c \"echo ready; exec sleep 600\" & wait' & wait";

async fn of_both_kinds(containment: Containment) {
    let world = World::new(containment);
    let mut running = Vec::new();
    for (key, script) in [("busy", BUSY), ("idle", IDLE)] {
        let shim = world.launcher.launch().await.unwrap();
        let started = shim.start(world.script(key, script)).await.unwrap();
        output_holds(&world.attempt_dir(key), "ready").await;
        running.push((shim, started.process));
    }
    let group = |at: usize| -> Option<PathBuf> { running[at].0.cgroup().map(ToOwned::to_owned) };
    if containment == Containment::Auto && group(0).is_none() {
        eprintln!("skipped: no control group can be made here ({:?})", world.launcher.containment());
    }
    let read = |at: usize| cpu_time(group(at).as_deref(), &running[at].1).expect("it can be seen");
    // The idle one has settled once two looks agree.
    let mut idle = read(1);
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = read(1);
        if now == idle {
            break;
        }
        idle = now;
    }
    let (busy, begin) = (read(0), Instant::now());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut worked = read(0).saturating_sub(busy);
    while worked < Duration::from_millis(100) && begin.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        worked = read(0).saturating_sub(busy);
    }
    assert!(worked >= Duration::from_millis(100), "{worked:?}");
    assert!(worked <= begin.elapsed() + Duration::from_millis(50), "more than one processor has: {worked:?}");
    assert_eq!(read(1), idle, "a tree that sleeps uses nothing");

    for (shim, _) in &running {
        shim.stop(graces(200, 5_000)).unwrap();
        exit(shim).await;
    }
    let child: &ProcessIdentity = &running[0].1;
    assert_eq!(cpu_time(None, child), None, "what is gone cannot be seen");
}

#[tokio::test]
async fn a_busy_tree_and_a_sleeping_one_by_group() {
    of_both_kinds(Containment::Auto).await;
}

#[tokio::test]
async fn a_busy_tree_and_a_sleeping_one_by_walk() {
    of_both_kinds(Containment::Walk).await;
}

#[tokio::test]
async fn a_group_that_is_gone_falls_back_to_the_walk() {
    let world = World::new(Containment::Walk);
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(world.script("1", BUSY)).await.unwrap();
    output_holds(&world.attempt_dir("1"), "ready").await;
    assert!(cpu_time(Some(&world.path("no-group")), &started.process).is_some());
    let another = ProcessIdentity { start_time: started.process.start_time + 1, ..started.process };
    assert_eq!(cpu_time(None, &another), None, "a pid that was used again is not measured");
    shim.stop(graces(200, 5_000)).unwrap();
    exit(&shim).await;
}
