//! Commands: their output, their time, and that nothing of them stays behind.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{World, alive, gone, pid_in};

#[tokio::test]
async fn output_and_exit_are_told() {
    let world = World::new();
    assert_eq!(world.done("bash", json!({ "command": "echo a; echo b >&2; echo c" })).await, "a\nb\nc\n");
    assert_eq!(world.done("bash", json!({ "command": "true" })).await, "[no output]");
    assert_eq!(world.refused("bash", json!({ "command": "printf x; exit 3" })).await, "x\n[exit code 3]");
    assert_eq!(world.refused("bash", json!({ "command": "kill -9 $$" })).await, "[ended by signal 9]");
    let place = world.done("bash", json!({ "command": "pwd" })).await;
    assert_eq!(place.trim(), world.root.to_str().unwrap());
    // Nothing is on its input.
    assert_eq!(world.done("bash", json!({ "command": "cat; echo end" })).await, "end\n");
    assert!(world.refused("bash", json!({ "command": " " })).await.contains("empty"));
    assert!(world.refused("bash", json!({})).await.contains("missing field `command`"));
    // Any bytes are told.
    assert_eq!(world.done("bash", json!({ "command": "printf 'a\\377b'" })).await, "a\u{fffd}b");
}

#[tokio::test]
async fn a_flood_is_bounded_and_kept_aside() {
    // Where it is kept lies among what is hidden.
    let world = World::with(|settings| {
        settings.hidden = vec![settings.spill.clone().unwrap().parent().unwrap().into()];
    });
    let said = world.done("bash", json!({ "command": "seq 1 200000" })).await;
    assert!(said.len() < 52 * 1024 && said.starts_with("1\n2\n") && said.ends_with("199999\n200000\n"));
    let at = said.find("the whole output is in ").unwrap() + "the whole output is in ".len();
    let path = said[at..].split(';').next().unwrap();
    // The model can read what was cut, with the same tools, and cannot change it.
    let rest = world.done("read", json!({ "path": path, "offset": 100_000, "limit": 1 })).await;
    assert!(rest.starts_with("100000\n"), "{rest}");
    assert_eq!(
        world.done("grep", json!({ "path": path, "pattern": "^77777$" })).await,
        format!("{path}:77777:77777")
    );
    world.refused("write", json!({ "path": path, "content": "" })).await;
    // One that has no end is ended.
    let before = Instant::now();
    let said = world.refused("bash", json!({ "command": "yes", "timeout": 1 })).await;
    assert!(said.len() < 52 * 1024 && said.contains("timed out after 1 s"), "{}", &said[said.len() - 200..]);
    assert!(before.elapsed() < Duration::from_secs(6), "{:?}", before.elapsed());
    let kept: u64 = std::fs::read_dir(world.home.path().join("long"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(kept < 70 << 20, "{kept}");
}

#[tokio::test]
async fn proc_17_a_timeout_ends_all_that_was_started() {
    let world = World::new();
    // One that ignores the request to end, and a grandchild.
    let command = "trap '' TERM; sh -c 'echo $$ > child; exec sleep 300' & echo $$ > leader; wait; sleep 300";
    let before = Instant::now();
    let said = world.refused("bash", json!({ "command": command, "timeout": 1 })).await;
    assert!(said.contains("timed out after 1 s"), "{said}");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    for name in ["leader", "child"] {
        let pid = pid_in(world.root.join(name)).await;
        assert!(gone(pid).await, "{name}");
    }
}

#[tokio::test]
async fn a_cancelled_or_dropped_call_ends_its_command() {
    let world = World::new();
    let cancel = CancellationToken::new();
    let call =
        world.tools.call("bash", json!({ "command": "echo $$ > one; echo begun; sleep 300" }), &cancel);
    let cancelling = async {
        let pid = pid_in(world.root.join("one")).await;
        cancel.cancel();
        pid
    };
    let (output, pid) = tokio::join!(call, cancelling);
    assert!(output.failed && output.text.starts_with("begun\n[cancelled"), "{}", output.text);
    assert!(gone(pid).await);
    // What was cancelled before is not begun.
    let output = world.tools.call("bash", json!({ "command": "touch late" }), &cancel).await;
    assert!(output.failed && !world.root.join("late").exists());
    let cancel = CancellationToken::new();
    let call = world.tools.call("bash", json!({ "command": "echo $$ > two; sleep 300" }), &cancel);
    let pid = tokio::select! {
        _ = call => panic!("it sleeps"),
        pid = pid_in(world.root.join("two")) => pid,
    };
    assert!(gone(pid).await, "the call was dropped");
}

#[tokio::test]
async fn background_work_goes_on_and_ends_with_the_session() {
    let world = World::new();
    let before = Instant::now();
    // One holds the pipe, one does not.
    let command = "(echo $$ > a; while :; do echo tick; sleep 0.05; done) & sleep 300 >/dev/null 2>&1 & echo $! > b; echo up";
    let said = world.done("bash", json!({ "command": command })).await;
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    assert!(said.contains("up\n") && said.contains("goes on in the background"), "{said}");
    let sleeper = pid_in(world.root.join("b")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // It was not ended by a closed pipe, nor by the next command.
    world.done("bash", json!({ "command": "true" })).await;
    assert!(alive(sleeper));
    let number: i32 = said.split("kill -- -").nth(1).unwrap().split('`').next().unwrap().parse().unwrap();
    world.done("bash", json!({ "command": format!("kill -0 -- -{number}") })).await;
    world.tools.close().await;
    assert!(gone(sleeper).await);
    assert!(gone(pid_in(world.root.join("a")).await).await);
    // And when nobody closes.
    let world = World::new();
    world.done("bash", json!({ "command": "sleep 300 >/dev/null 2>&1 & echo $! > c" })).await;
    let pid = pid_in(world.root.join("c")).await;
    drop(world);
    assert!(gone(pid).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_at_once_leave_no_process_behind() {
    let world = World::new();
    let calls = (0..40).map(|number| world.done("bash", json!({ "command": format!("echo {number}") })));
    let said = futures_util::future::join_all(calls).await;
    for (number, said) in said.iter().enumerate() {
        assert_eq!(*said, format!("{number}\n"));
    }
    let children = std::fs::read_to_string(format!("/proc/self/task/{0}/children", std::process::id()));
    if let Ok(children) = children {
        assert_eq!(children.split_whitespace().count(), 0, "none is left to be reaped: {children}");
    }
}
