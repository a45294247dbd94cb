//! Rows of the case lists: warm subagents between their runs, and messages while a process is being closed. Each test is
//! named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/talking.rs"]
mod talking;

use subagent_model::request::{ResumeRequest, SpawnRequest, SteerMode};
use subagent_model::{Budget, ErrorCode, MessageMode, Receipt, Status};
use subagent_runtime::{Limits, Runtime};
use subagent_testkit::until_async;
use support::{me, scripted};
use talking::*;

fn awaited(prompt: &str) -> ResumeRequest {
    ResumeRequest { wait_ms: Some(20_000), ..resume(prompt) }
}

#[tokio::test]
async fn res_02_each_message_to_a_warm_one_has_a_fresh_budget_of_turns() {
    let world = talking_world(Limits::default()).await;
    let budget = Budget { max_turns: Some(2), grace_turns: Some(1), ..Budget::default() };
    let id = world.spawn(SpawnRequest { budget, ..warm(scripted("turn\nsay one")) }).await;
    world.run_ended(id, 1).await;
    for (run, text) in [(2, "two"), (3, "three")] {
        world.steer(id, &format!("turn\nsay {text}")).await.unwrap();
        let record = world.run_ended(id, run).await;
        assert_eq!((preview(&record), record.turn_count, record.wrap_up), (text, 1, None));
    }
    assert_eq!((world.launched(id), world.notices(id).await), (1, 3));
    // One that uses its own up is cut; the answers before it stay.
    world.steer(id, "say half\nturn\ngate a\nturn\nawait steer\nturn\ngate never").await.unwrap();
    world.fake.gate("a").open();
    let record = world.run_ended(id, 4).await;
    assert_eq!((record.status, preview(&record)), (Status::Aborted, "half"));
    ended_as(&world.run_ended(id, 3).await, Status::Completed, "three");
}

#[tokio::test]
async fn sm_18_one_that_is_idle_for_too_long_is_closed_and_its_last_answer_stays() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(SpawnRequest { idle_ms: Some(30), ..warm(scripted("say one")) }).await;
    world.until_status(id, Status::Completed).await;
    world.until_quiet(id).await;
    let record = world.record(id).await;
    ended_as(&record, Status::Completed, "one");
    assert_eq!((record.stop.is_none(), record.resumable, record.retire_at), (true, true, None));
    assert_eq!(world.engine.result(&me(), id, None, 0, 100).await.unwrap().text, "one");
    assert!(matches!(record.end_reason.as_deref(), Some(reason) if !reason.is_empty()));
    assert_eq!((world.count(id, "ended"), world.count(id, "session_closed")), (1, 1));
    let next = world.engine.resume(&me(), id, awaited("say two")).await.unwrap();
    assert_eq!((preview(&next.record), next.record.attempt.0), ("two", 2));
    assert!(matches!(next.record.status, Status::Idle | Status::Completed));
}

#[tokio::test]
async fn steer_14_a_message_to_an_idle_child_that_is_being_closed_waits_and_starts_the_next_run() {
    let world = talking_world(Limits::default()).await;
    let mut ids = Vec::new();
    for mode in [SteerMode::Steer, SteerMode::Auto, SteerMode::FollowUp] {
        let id =
            world.spawn(SpawnRequest { idle_ms: Some(20), ..warm(scripted("say one\ndone\nhang")) }).await;
        until_async("its closing", || async { (world.count(id, "session_closing") == 1).then_some(()) })
            .await;
        let reply = world.engine.steer(&me(), id, say("say two", mode)).await.unwrap();
        assert_eq!(reply.message.unwrap().receipt, Receipt::Accepted, "{mode:?}");
        assert_eq!(world.count(id, "session_closed"), 0, "{mode:?}: it is still there");
        ids.push((mode, id));
    }
    for (mode, id) in ids {
        let record = world.run_ended(id, 2).await;
        assert_eq!((preview(&record), record.attempt.0), ("two", 2), "{mode:?}");
        assert!(is_delivered_in(world.last_word(id, 1).await, 2), "{mode:?}");
        assert_eq!(world.told(id).iter().filter(|told| **told == "prompt say two").count(), 1, "{mode:?}");
        let kinds = world.all_kinds(id);
        let closed = kinds.iter().position(|kind| *kind == "session_closed").unwrap();
        let claimed = kinds.iter().enumerate().filter(|(_, kind)| **kind == "claimed").nth(1).unwrap().0;
        assert!(claimed > closed, "{mode:?}: never two processes at once: {kinds:?}");
    }
}

#[tokio::test]
async fn steer_05_a_message_to_an_idle_child_that_somebody_stopped_is_refused() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(warm(scripted("say one\ndone\nhang"))).await;
    world.until_status(id, Status::Idle).await;
    assert!(world.stop(id).await.accepted);
    assert_eq!(world.count(id, "session_closed"), 0);
    refused(world.steer(id, "say two").await, ErrorCode::NoOpenTurn);
    world.until_quiet(id).await;
    ended_as(&world.record(id).await, Status::Completed, "one");
}

#[tokio::test]
async fn steer_14_a_message_after_the_last_turn_starts_the_next_run_once_the_process_is_closed() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("say one\ndone\nhang")).await;
    until_async("the end of its turn", || async { (world.count(id, "turn_ended") == 1).then_some(()) }).await;
    let reply = world.steer(id, "say two").await.unwrap();
    assert_eq!(reply.message.unwrap().message.mode, MessageMode::FollowUp);
    assert_eq!(reply.record.run.0, 1);
    ended_as(&world.run_ended(id, 1).await, Status::Completed, "one");
    ended_as(&world.run_ended(id, 2).await, Status::Completed, "two");
    assert_eq!(world.told(id), ["prompt say one\ndone\nhang", "prompt say two"]);
}
