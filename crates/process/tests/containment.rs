//! Nothing stays behind: stopping trees of every shape, with a control group and by walking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use subagent_process::{Containment, ContainmentReport, ExitCause, ExitRecord, Graces};
use support::{World, exit, exit_within, graces, members, output_holds};

/// Runs `test` with both ways of containment; the one with a control group only where there is one.
macro_rules! both {
    ($($name:ident)*) => {
        mod cgroup {
            $(#[tokio::test]
            async fn $name() {
                let world = super::World::new(super::Containment::Auto);
                if matches!(world.launcher.containment(), super::ContainmentReport::Cgroup(_)) {
                    super::$name(world).await;
                }
            })*
        }
        mod walk {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::World::new(super::Containment::Walk)).await;
            })*
        }
    };
}

both! {
    the_child_is_where_it_should_be
    proc_17_new_sessions_and_double_forks_are_stopped
    stop_07_a_tree_that_ignores_sigterm_is_killed_in_time
    a_stopped_process_gets_its_sigterm
    a_fork_loop_is_ended
    a_loop_of_new_sessions_is_ended
    proc_17_leftovers_of_a_natural_exit_are_ended
    proc_17_a_leftover_that_ignores_sigterm_is_killed
    stop_08_a_second_stop_does_not_restart_the_graces
    a_second_stop_may_shorten_the_graces
    stop_09_a_stop_after_the_end_changes_nothing
    stop_25_a_shutdown_hook_is_asked_once
    deadline
    lease_and_renewal
    proc_18_a_hundred_attempts_over_one_shim_leave_nothing
    a_process_that_holds_the_streams_open_does_not_hold_the_exit
}

async fn the_child_is_where_it_should_be(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.job("1", "cat");
    job.args.push("/proc/self/cgroup".to_owned());
    shim.start(job).await.unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(0));
    let text = support::stdout_text(&world.attempt_dir("1"));
    match shim.cgroup() {
        Some(group) => {
            assert!(text.trim_end().ends_with(group.file_name().unwrap().to_str().unwrap()), "{text}");
        }
        None => assert_eq!(text, std::fs::read_to_string("/proc/self/cgroup").unwrap()),
    }
}

async fn stop_when(world: &World, script: &str, ready: &str, how: Graces) -> (ExitRecord, Duration) {
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", script)).await.unwrap();
    output_holds(&world.attempt_dir("1"), ready).await;
    let begin = Instant::now();
    shim.stop(how).unwrap();
    let record = exit_within(&shim, Duration::from_secs(20)).await;
    let took = begin.elapsed();
    assert_eq!(record.cause, ExitCause::Stopped);
    assert!(record.tree_gone, "{record:?}");
    assert_eq!(members(&world.key("1")), Vec::<u32>::new());
    (record, took)
}

async fn proc_17_new_sessions_and_double_forks_are_stopped(world: World) {
    let script = "setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &) ; (sleep 600 &) ; \
                  env -u SUBAGENT_ATTEMPT setsid sleep 601 & sleep 0.2; echo ready; sleep 600";
    let (_, took) = stop_when(&world, script, "ready", graces(2_000, 5_000)).await;
    assert!(took < Duration::from_millis(1_500), "{took:?}");
}

async fn stop_07_a_tree_that_ignores_sigterm_is_killed_in_time(world: World) {
    let script = "trap '' TERM; (trap '' TERM; setsid sh -c 'while :; do sleep 1; done' &); echo ready; \
                  while :; do sleep 1; done";
    let (record, took) = stop_when(&world, script, "ready", graces(300, 5_000)).await;
    assert_eq!(record.signal, Some(libc::SIGKILL));
    assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(2_300), "{took:?}");
}

async fn a_stopped_process_gets_its_sigterm(world: World) {
    let script = "trap 'echo bye; exit 9' TERM; echo ready; kill -STOP $$; while :; do sleep 0.05; done";
    let (record, took) = stop_when(&world, script, "ready", graces(5_000, 5_000)).await;
    assert_eq!(record.exit_code, Some(9));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

async fn a_fork_loop_is_ended(world: World) {
    // Each generation starts the next one in the background and ends; bounded in number, not in time.
    let script = "trap '' TERM; export N=4; cat > loop.sh <<'X'\n\
                  trap '' TERM\nsh loop.sh &\nX\n\
                  for i in 1 2 3; do sh loop.sh & done; echo ready; sleep 600";
    let (record, took) = stop_when(&world, script, "ready", graces(100, 10_000)).await;
    assert!(record.tree_gone);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

async fn a_loop_of_new_sessions_is_ended(world: World) {
    let script = "trap '' TERM; cat > loop.sh <<'X'\n\
                  trap '' TERM\nsetsid sh loop.sh &\nX\n\
                  sh loop.sh & echo ready; sleep 600";
    let (record, took) = stop_when(&world, script, "ready", graces(100, 10_000)).await;
    assert!(record.tree_gone);
    assert!(took < Duration::from_secs(8), "{took:?}");
}

async fn proc_17_leftovers_of_a_natural_exit_are_ended(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "(setsid sleep 600 &); sleep 601 & sleep 0.1; echo done; exit 3"))
        .await
        .unwrap();
    let record = exit(&shim).await;
    assert_eq!((record.exit_code, record.cause), (Some(3), ExitCause::Natural));
    assert_eq!(record.leftover_killed, 2);
    assert!(record.tree_gone);
    assert_eq!(members(&world.key("1")), Vec::<u32>::new());
    assert_eq!(support::stdout_text(&world.attempt_dir("1")), "done\n");
}

async fn proc_17_a_leftover_that_ignores_sigterm_is_killed(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let script = "(trap '' TERM; exec setsid sleep 600) & sleep 0.2; exit 0";
    let begin = Instant::now();
    shim.start(world.script("1", script)).await.unwrap();
    let record = exit(&shim).await;
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!((record.exit_code, record.leftover_killed, record.tree_gone), (Some(0), 1, true));
    assert_eq!(members(&world.key("1")), Vec::<u32>::new());
}

async fn stop_08_a_second_stop_does_not_restart_the_graces(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "trap '' TERM; echo ready; while :; do sleep 0.1; done")).await.unwrap();
    output_holds(&world.attempt_dir("1"), "ready").await;
    let begin = Instant::now();
    shim.stop(graces(800, 5_000)).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    shim.stop(graces(800, 5_000)).unwrap();
    exit(&shim).await;
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(800) && took < Duration::from_millis(1_250), "{took:?}");
}

async fn a_second_stop_may_shorten_the_graces(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "trap '' TERM; echo ready; while :; do sleep 0.1; done")).await.unwrap();
    output_holds(&world.attempt_dir("1"), "ready").await;
    let begin = Instant::now();
    shim.stop(graces(60_000, 5_000)).unwrap();
    shim.stop(graces(0, 5_000)).unwrap();
    exit(&shim).await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

async fn stop_09_a_stop_after_the_end_changes_nothing(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "exit 3")).await.unwrap();
    let record = exit(&shim).await;
    shim.stop(graces(0, 5_000)).unwrap();
    assert_eq!(shim.status().await.unwrap().record.as_deref(), Some(&record));
    assert_eq!(exit(&shim).await, record);
    // The next attempt is not touched by it either.
    shim.release().unwrap();
    shim.stop(graces(0, 5_000)).unwrap();
    shim.start(world.script("2", "sleep 0.1; exit 4")).await.unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(4));
}

async fn stop_25_a_shutdown_hook_is_asked_once(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let script = "trap 'echo hook; sleep 0.3; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    shim.start(world.script("1", script)).await.unwrap();
    output_holds(&world.attempt_dir("1"), "ready").await;
    for _ in 0..5 {
        shim.stop(graces(3_000, 5_000)).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let record = exit(&shim).await;
    assert_eq!((record.exit_code, record.cause), (Some(0), ExitCause::Stopped));
    assert_eq!(support::stdout_text(&world.attempt_dir("1")), "ready\nhook\n");
}

async fn deadline(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.script("1", "trap '' TERM; while :; do sleep 0.1; done");
    job.deadline = Some(Duration::from_millis(300));
    job.graces = graces(200, 5_000);
    let begin = Instant::now();
    shim.start(job).await.unwrap();
    let record = exit(&shim).await;
    let took = begin.elapsed();
    assert_eq!((record.cause, record.signal), (ExitCause::Deadline, Some(libc::SIGKILL)));
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(3), "{took:?}");
}

async fn lease_and_renewal(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.script("1", "exec sleep 600");
    job.lease = Some(Duration::from_millis(400));
    let begin = Instant::now();
    shim.start(job).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        shim.renew(Duration::from_millis(400)).unwrap();
    }
    let record = exit(&shim).await;
    let took = begin.elapsed();
    assert_eq!((record.cause, record.signal), (ExitCause::Lease, Some(libc::SIGTERM)));
    assert!(took >= Duration::from_millis(1_150) && took < Duration::from_secs(4), "{took:?}");
}

async fn proc_18_a_hundred_attempts_over_one_shim_leave_nothing(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let pid = shim.identity().pid;
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = descriptors();
    for round in 0..100 {
        let key = round.to_string();
        // Every attempt starts a server of its own and leaves it behind.
        let script = if round % 10 == 0 { "sleep 600 & exit 1" } else { "exit 1" };
        shim.start(world.script(&key, script)).await.unwrap();
        let record = exit(&shim).await;
        assert_eq!(record.exit_code, Some(1));
        assert!(record.tree_gone);
        shim.release().unwrap();
    }
    shim.status().await.unwrap();
    assert_eq!(shim.identity().pid, pid);
    assert_eq!(shim.served(), 100);
    assert_eq!(descriptors(), before);
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    assert_eq!(children.trim(), "");
    if let Some(group) = shim.cgroup() {
        let group = subagent_process::cgroup::Cgroup::from_path(group.to_owned());
        assert!(!group.populated().unwrap());
        assert!(group.pids().unwrap().is_empty());
    }
}

async fn a_process_that_holds_the_streams_open_does_not_hold_the_exit(world: World) {
    // A reader outside the tree (this test) holds the write end of the child's output.
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(world.script("1", "echo before; sleep 0.5; echo after")).await.unwrap();
    let held =
        std::fs::OpenOptions::new().write(true).open(format!("/proc/{}/fd/1", started.process.pid)).unwrap();
    let begin = Instant::now();
    let record = exit(&shim).await;
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(record.tree_gone);
    assert_eq!(support::stdout_text(&world.attempt_dir("1")), "before\nafter\n");
    drop(held);
}
