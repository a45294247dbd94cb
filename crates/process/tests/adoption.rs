//! Daemons and shims that go away: adoption, durable records, lost shims, pools.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use subagent_process::{
    Containment, ExitCause, ExitWait, PoolConfig, ShimPool, ShimState, exit_record, leftovers, survey,
};
use support::{World, alive, eventually, exit, graces, members, output_holds, piped, stdout_text};

#[tokio::test]
async fn proc_21_a_running_child_is_adopted_and_its_exit_seen() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let started =
        shim.start(piped(world.script("1", "echo one; read line; echo \"$line\"; exit 6"))).await.unwrap();
    output_holds(&world.attempt_dir("1"), "one").await;
    drop(shim);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(alive(started.process.pid));

    let found = survey(world.launcher.sockets()).await.unwrap();
    assert_eq!(found.len(), 1);
    let live = &found[0];
    assert_eq!(live.status.state, ShimState::Running);
    assert_eq!(live.status.attempt, Some(world.key("1")));
    assert_eq!(live.status.process.as_ref(), Some(&started.process));
    assert_eq!(live.shim.started(), Some(started));
    live.shim.write_stdin(b"two\n").await.unwrap();
    let record = exit(&live.shim).await;
    assert_eq!(record.exit_code, Some(6));
    assert_eq!(stdout_text(&world.attempt_dir("1")), "one\ntwo\n");
    // The adopted shim serves on.
    live.shim.release().unwrap();
    live.shim.start(world.script("2", "exit 2")).await.unwrap();
    assert_eq!(exit(&live.shim).await.exit_code, Some(2));
}

#[tokio::test]
async fn an_exit_while_nobody_is_connected_is_on_disk_and_the_shim_is_gone() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let (pid, group) = (shim.identity().pid, shim.cgroup().map(ToOwned::to_owned));
    shim.start(world.script("1", "sleep 0.3; echo result; exit 5")).await.unwrap();
    drop(shim);
    eventually(10, "the shim ends", || !alive(pid)).await;
    assert!(world.attempt_dir("1").join("exit.json").exists());
    let record = exit_record::read(&world.attempt_dir("1")).unwrap().unwrap();
    assert_eq!((record.exit_code, record.cause, record.stdout_bytes), (Some(5), ExitCause::Natural, 7));
    assert_eq!(record.attempt, world.key("1"));
    assert!(survey(world.launcher.sockets()).await.unwrap().is_empty());
    assert_eq!(std::fs::read_dir(world.launcher.sockets()).unwrap().count(), 0);
    if let Some(group) = group {
        eventually(5, "the group is removed", || !group.exists()).await;
    }
}

#[tokio::test]
async fn a_connection_lost_before_the_release_leaves_the_record() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let pid = shim.identity().pid;
    shim.start(world.script("1", "exit 5")).await.unwrap();
    exit(&shim).await;
    let file = world.attempt_dir("1").join("exit.json");
    assert!(!file.exists(), "with a listener the log's copy is enough");
    drop(shim);
    eventually(10, "the shim ends", || !alive(pid)).await;
    assert!(file.exists());
    assert_eq!(exit_record::read(&world.attempt_dir("1")).unwrap().unwrap().exit_code, Some(5));
}

#[tokio::test]
async fn a_shim_whose_directory_is_gone_does_not_stay() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let pid = shim.identity().pid;
    shim.start(world.script("1", "exit 5")).await.unwrap();
    exit(&shim).await;
    std::fs::remove_dir_all(world.attempt_dir("1")).unwrap();
    drop(shim);
    eventually(2, "the shim ends", || !alive(pid)).await;
}

#[tokio::test]
async fn a_newer_conversation_takes_over() {
    let world = World::new(Containment::Auto);
    let old = world.launcher.launch().await.unwrap();
    old.start(world.script("1", "sleep 0.5; exit 8")).await.unwrap();
    // What this process controls is left alone.
    assert!(survey(world.launcher.sockets()).await.unwrap().is_empty());
    assert!(!old.is_lost());
    let other = std::os::unix::net::UnixStream::connect(old.socket()).unwrap();
    std::io::Write::write_all(&mut &other, b"{\"type\":\"hello\",\"protocol\":1}\n").unwrap();
    assert_eq!(old.exit().await, ExitWait::ShimLost);
    assert!(old.is_lost());
    let found = survey(world.launcher.sockets()).await.unwrap();
    assert_eq!(exit(&found[0].shim).await.exit_code, Some(8));
}

#[tokio::test]
async fn stop_23_a_stop_goes_on_without_the_daemon() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let pid = shim.identity().pid;
    shim.start(world.script("1", "trap '' TERM; echo ready; while :; do sleep 0.1; done")).await.unwrap();
    output_holds(&world.attempt_dir("1"), "ready").await;
    shim.stop(graces(300, 5_000)).unwrap();
    shim.status().await.unwrap();
    drop(shim);
    eventually(5, "the shim ends", || !alive(pid)).await;
    let record = exit_record::read(&world.attempt_dir("1")).unwrap().unwrap();
    assert_eq!((record.cause, record.tree_gone), (ExitCause::Stopped, true));
}

#[tokio::test]
async fn proc_21_the_lease_ends_a_child_nobody_adopts() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let pid = shim.identity().pid;
    let mut job = world.script("1", "exec sleep 600");
    job.lease = Some(Duration::from_millis(300));
    shim.start(job).await.unwrap();
    drop(shim);
    eventually(5, "the shim ends", || !alive(pid)).await;
    assert_eq!(exit_record::read(&world.attempt_dir("1")).unwrap().unwrap().cause, ExitCause::Lease);
}

async fn lost_shim(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let script = "(trap '' TERM; setsid sleep 600 &) ; sleep 600 & echo ready; sleep 601";
    let started = shim.start(world.script("1", script)).await.unwrap();
    output_holds(&world.attempt_dir("1"), "ready").await;
    let begin = Instant::now();
    assert!(subagent_process::signal_checked(shim.identity(), libc::SIGKILL).unwrap());
    assert_eq!(shim.exit().await, ExitWait::ShimLost);
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    eventually(2, "the direct child dies with the shim", || !alive(started.process.pid)).await;
    assert!(!members(&world.key("1")).is_empty());
    let (key, group) = (world.key("1"), shim.cgroup().map(ToOwned::to_owned));
    let listed = leftovers::orphans(&HashSet::new());
    assert!(listed.iter().any(|tree| tree.attempt == key));
    let ended = leftovers::kill_leftovers(&key, group.as_deref(), Duration::from_secs(5));
    assert!(ended);
    assert!(members(&key).is_empty());
    assert_eq!(exit_record::read(&world.attempt_dir("1")).unwrap(), None);
    // Its socket is stale and goes away.
    assert!(survey(world.launcher.sockets()).await.unwrap().is_empty());
    assert_eq!(std::fs::read_dir(world.launcher.sockets()).unwrap().count(), 0);
}

#[tokio::test]
async fn proc_21_a_killed_shim_is_noticed_and_its_tree_ended_by_group() {
    lost_shim(World::new(Containment::Auto)).await;
}

#[tokio::test]
async fn proc_21_a_killed_shim_is_noticed_and_its_tree_ended_by_marker() {
    lost_shim(World::new(Containment::Walk)).await;
}

#[tokio::test]
async fn proc_20_killing_leftovers_touches_nothing_else() {
    let world = World::new(Containment::Walk);
    let (one, two) = (world.launcher.launch().await.unwrap(), world.launcher.launch().await.unwrap());
    let first = one.start(world.script("1", "exec sleep 600")).await.unwrap();
    let second = two.start(world.script("2", "exec sleep 600")).await.unwrap();
    assert!(leftovers::kill_leftovers(&world.key("1"), None, Duration::from_secs(5)));
    assert!(!alive(first.process.pid));
    assert!(alive(second.process.pid));
    exit(&one).await;
    two.stop(graces(500, 5_000)).unwrap();
    exit(&two).await;
}

#[tokio::test]
async fn fifty_shims_are_found_quickly() {
    let world = World::new(Containment::Auto);
    for at in 0..50 {
        let shim = world.launcher.launch().await.unwrap();
        shim.start(world.script(&at.to_string(), "exec sleep 600")).await.unwrap();
    }
    std::os::unix::net::UnixListener::bind(world.launcher.sockets().join("stale.sock")).unwrap();
    let begin = Instant::now();
    let found = survey(world.launcher.sockets()).await.unwrap();
    let took = begin.elapsed();
    assert_eq!(found.len(), 50);
    assert!(!world.launcher.sockets().join("stale.sock").exists());
    assert!(took < Duration::from_millis(300), "{took:?}");
    for live in &found {
        live.shim.stop(graces(2_000, 5_000)).unwrap();
    }
    for live in &found {
        assert_eq!(exit(&live.shim).await.cause, ExitCause::Stopped);
    }
    let pids: Vec<_> = found.iter().map(|live| live.shim.identity().pid).collect();
    drop(found);
    eventually(10, "idle shims end", || pids.iter().all(|pid| !alive(*pid))).await;
}

#[tokio::test]
async fn retire_ends_an_idle_shim_and_waits_for_a_busy_one() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "sleep 0.2; exit 1")).await.unwrap();
    shim.retire().unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(1));
    assert!(!shim.is_lost());
    shim.release().unwrap();
    assert!(shim.lost(Duration::from_secs(5)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_pool_serves_many_at_once() {
    let world = std::sync::Arc::new(World::new(Containment::Auto));
    let config = PoolConfig { idle: 4, max_attempts: 20 };
    let pool = ShimPool::new(world.launcher.clone(), config);
    let filled = pool.clone();
    eventually(10, "the pool fills", move || filled.idle() == 4).await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..16 {
        let (pool, world) = (pool.clone(), world.clone());
        tasks.spawn(async move {
            for round in 0..10 {
                let shim = pool.take().await.unwrap();
                let key = format!("{worker}-{round}");
                shim.start(world.script(&key, &format!("exit {worker}"))).await.unwrap();
                assert_eq!(exit(&shim).await.exit_code, Some(worker));
                pool.release(shim);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(pool.idle() <= 8);
    let sockets = world.launcher.sockets().to_owned();
    drop(pool);
    eventually(10, "all shims end with the pool", || std::fs::read_dir(&sockets).unwrap().count() == 0).await;
}

#[tokio::test]
async fn groups_of_dead_shims_are_swept_and_others_are_not() {
    let world = World::new(Containment::Auto);
    let Some(root) = world.launcher.cgroup_root().cloned() else { return };
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(world.script("1", "exec sleep 600")).await.unwrap();
    let (dead, live) = (root.make("dead-1").unwrap(), root.make("live-1").unwrap());
    let mut left = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    std::fs::write(dead.path().join("cgroup.procs"), left.id().to_string()).unwrap();
    let keep = HashSet::from([live.path().to_owned()]);
    assert_eq!(world.launcher.sweep_groups(&keep, Duration::from_secs(5)), 1);
    assert!(!left.wait().unwrap().success());
    assert!(!dead.path().exists() && live.path().exists());
    assert!(alive(started.process.pid));
    shim.stop(graces(500, 5_000)).unwrap();
    exit(&shim).await;
    live.remove().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proc_10_no_final_message_is_lost_in_a_storm_of_exits() {
    let world = std::sync::Arc::new(World::new(Containment::Auto));
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let over = done.clone();
    // Children of this process that have nothing to do with any shim.
    let storm = std::thread::spawn(move || {
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            std::process::Command::new("true").status().unwrap();
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..50 {
        let world = world.clone();
        tasks.spawn(async move {
            let shim = world.launcher.launch().await.unwrap();
            let key = at.to_string();
            let script = "i=0; while [ $i -lt 20 ]; do head -c 5000 /dev/zero; i=$((i+1)); done; echo final";
            shim.start(world.script(&key, script)).await.unwrap();
            let record = support::exit_within(&shim, Duration::from_mins(1)).await;
            assert_eq!(record.stdout_bytes, 100_006);
            assert!(support::stdout(&world.attempt_dir(&key)).ends_with(b"final\n"));
            shim.release().unwrap();
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    storm.join().unwrap();
}

/// After a stop, and after leftovers were killed, the next attempt of the same pool must not be hit by what was meant
/// for the one before.
#[tokio::test]
async fn proc_19_a_kill_never_reaches_the_next_attempt() {
    for containment in [Containment::Auto, Containment::Walk] {
        let world = World::new(containment);
        let pool = ShimPool::new(world.launcher.clone(), PoolConfig { idle: 1, ..PoolConfig::default() });
        for round in 0..6 {
            let shim = pool.take().await.unwrap();
            let script = if round % 2 == 0 {
                "trap '' TERM; sleep 300 & sleep 300"
            } else {
                "setsid sleep 300 & exit 0"
            };
            shim.start(world.script(&format!("killed-{round}"), script)).await.unwrap();
            if round % 2 == 0 {
                shim.stop(graces(20, 5_000)).unwrap();
            }
            exit(&shim).await;
            pool.release(shim);
            let shim = pool.take().await.unwrap();
            shim.start(world.script(&format!("next-{round}"), "exit 7")).await.unwrap();
            let record = exit(&shim).await;
            assert_eq!((record.exit_code, record.signal), (Some(7), None), "round {round} {containment:?}");
            pool.release(shim);
        }
    }
}
