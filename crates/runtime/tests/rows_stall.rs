//! Rows of stalls: a sign and not an end, unless the policy says so. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use subagent_model::request::SpawnRequest;
use subagent_model::{EventKind, Limit, Outcome, StallPolicy, Status, SubagentId};
use subagent_runtime::Limits;
use subagent_testkit::until_async;
use support::{World, scripted, shell, world_with};

async fn watchful() -> World {
    world_with(Limits { running: 9, ..Limits::default() }, |config| {
        config.look_every = Duration::from_millis(20);
    })
    .await
}

fn stalling(kill_after_ms: Option<u64>, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { stall: StallPolicy { after_ms: Some(300), kill_after_ms }, ..request }
}

fn signs(world: &World, id: SubagentId) -> Vec<&'static str> {
    world.all_kinds(id).into_iter().filter(|kind| matches!(*kind, "stalled" | "revived")).collect()
}

async fn until_signs(world: &World, id: SubagentId, wanted: &[&str]) {
    until_async("signs", || async { (signs(world, id) == wanted).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_16_a_stall_is_a_sign_with_the_time_of_the_last_progress() {
    let world = watchful().await;
    let id = world.spawn(stalling(None, scripted("gate a\ndelta still there\ngate b\nsay done"))).await;
    world.until_started(id).await;
    until_signs(&world, id, &["stalled"]).await;
    assert_eq!(world.status(id).await, Status::Running);
    let stall = world.all_events().into_iter().find_map(|event| match event.kind {
        EventKind::Stalled { since, .. } => Some(event.at.since(since)),
        _ => None,
    });
    assert!(stall.is_some_and(|silent| silent >= Duration::from_millis(300)), "{stall:?}");
    // It is told once, and what the sign itself changes in the record is no sign of life.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(signs(&world, id), ["stalled"]);
    world.fake.gate("a").open();
    until_signs(&world, id, &["stalled", "revived", "stalled"]).await;
    world.fake.gate("b").open();
    assert_eq!(world.ended(id).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_16_only_a_set_limit_ends_a_stalled_child() {
    let world = watchful().await;
    let patient = world.spawn(stalling(None, scripted("gate patient\nsay patient"))).await;
    for request in [scripted("say partly\ngate never"), shell("echo partly; exec sleep 60")] {
        let id = world.spawn(stalling(Some(300), request)).await;
        let record = world.ended(id).await;
        assert_eq!((record.status, record.result.unwrap().preview.trim()), (Status::Aborted, "partly"));
        let limit = world.all_events().into_iter().find_map(|event| match event.kind {
            EventKind::Ended { outcome: Outcome::Aborted { limit }, .. } if event.subagent == id => {
                Some(limit)
            }
            _ => None,
        });
        assert_eq!((limit, signs(&world, id).as_slice()), (Some(Limit::Stall), ["stalled"].as_slice()));
    }
    until_signs(&world, patient, &["stalled"]).await;
    world.fake.gate("patient").open();
    assert_eq!(world.ended(patient).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_16_a_tool_an_approval_and_no_patience_at_all_are_no_stall() {
    let world = watchful().await;
    let tool =
        world.spawn(stalling(Some(1), scripted("tool start 1 slow\ngate a\ntool end 1\nsay done"))).await;
    let asks = world.spawn(stalling(Some(1), scripted("ask execute rm\nsay done"))).await;
    let never = StallPolicy { after_ms: Some(0), kill_after_ms: Some(1) };
    let never = world.spawn(SpawnRequest { stall: never, ..scripted("gate a\nsay done") }).await;
    // Works without a word: its processor time tells.
    let works = world.spawn(stalling(Some(1), shell("while :; do :; done"))).await;
    world.until_started(works).await;
    world.until_status(asks, Status::Waiting).await;
    world.fake.gate("a").reached().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    for id in [tool, asks, never, works] {
        assert!(signs(&world, id).is_empty() && !world.status(id).await.is_final());
    }
    world.fake.gate("a").open();
    for id in [tool, never] {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
}
