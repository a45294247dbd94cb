//! One attempt from start to exit: codes, signals, refusals, environment, descriptors, input.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use subagent_process::{Containment, ExitCause};
use support::{World, exit};

#[tokio::test]
async fn exit_code_and_output_come_back() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(world.script("1", "echo out; echo err >&2; exit 7")).await.unwrap();
    let record = exit(&shim).await;
    assert_eq!((record.exit_code, record.signal, record.cause), (Some(7), None, ExitCause::Natural));
    assert_eq!(record.process, Some(started.process));
    assert!(record.tree_gone);
    assert_eq!((record.stdout_bytes, record.stderr_bytes, record.leftover_killed), (4, 4, 0));
    assert_eq!(support::stdout_text(&world.attempt_dir("1")), "out\n");
    shim.status().await.unwrap();
    let on_disk = subagent_process::exit_record::read(&world.attempt_dir("1")).unwrap().unwrap();
    assert_eq!(on_disk, record);
}
