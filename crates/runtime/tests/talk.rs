//! Children that are spoken with, driven by the engine: runs, messages, interrupts, requests, budgets, warm ones.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use subagent_model::request::{
    AnswerRequest, ResumeRequest, SpawnRequest, SteerMode, SteerRequest, StopRequest,
};
use subagent_model::{Budget, Choice, ErrorCode, Mode, Quality, Receipt, RequestNumber, RunNumber, Status};
use subagent_provider::ToldKind;
use subagent_runtime::{Limits, Runtime};
use subagent_testkit::until_async;
use support::{World, me, scripted, waiting, world};

fn resume(prompt: &str) -> ResumeRequest {
    ResumeRequest { prompt: prompt.to_owned(), wait_ms: Some(20_000), ..ResumeRequest::default() }
}

fn steer(message: &str, mode: SteerMode) -> SteerRequest {
    SteerRequest { message: message.to_owned(), mode, ..SteerRequest::default() }
}

fn warm(script: &str) -> SpawnRequest {
    SpawnRequest { mode: Mode::Warm, ..scripted(script) }
}

async fn status(world: &World, id: subagent_model::SubagentId) -> Status {
    world.engine.get(&me(), id).await.unwrap().status
}

#[tokio::test]
async fn a_conversation_ends_with_its_last_message() {
    let world = world(Limits::default()).await;
    let reply = world
        .engine
        .spawn(&me(), waiting(scripted("use 10 5 0.1\ntool read\nturn\nsay hello")))
        .await
        .unwrap();
    assert!(reply.ended);
    assert_eq!(reply.record.status, Status::Completed);
    assert_eq!(reply.record.result.unwrap().preview, "hello");
    assert_eq!((reply.record.turn_count, reply.record.tool_uses), (1, 1));
    assert_eq!(reply.record.usage.unwrap().total, 15);
    assert_eq!(reply.record.quality, Some(Quality::Ok));
    assert!(reply.record.session.is_some() && reply.record.resumable);
}

#[tokio::test]
async fn res_02_a_resume_is_a_new_run_of_the_same_session() {
    let world = world(Limits::default()).await;
    let first = world.engine.spawn(&me(), waiting(scripted("say one"))).await.unwrap().record;
    let second = world.engine.resume(&me(), first.id, resume("say two of $session")).await.unwrap();
    assert!(second.ended);
    assert_eq!(second.run, Some(RunNumber(2)));
    let record = second.record;
    let session = first.session.unwrap();
    assert_eq!(record.result.unwrap().preview, format!("two of {session}"));
    assert_eq!(record.earlier_runs[0].result.as_ref().unwrap().preview, "one");
    assert_eq!(record.attempt.0, 2);
}

#[tokio::test]
async fn sm_18_a_warm_subagent_is_idle_between_runs_of_one_process() {
    let world = world(Limits::default()).await;
    let first = world.engine.spawn(&me(), waiting(warm("say one"))).await.unwrap();
    assert!(first.ended);
    let id = first.record.id;
    assert_eq!(status(&world, id).await, Status::Idle);
    let reply = world.engine.steer(&me(), id, steer("say two", SteerMode::Steer)).await.unwrap();
    assert!(reply.accepted);
    let two = subagent_model::request::WaitOptions { run: Some(RunNumber(2)), timeout_ms: Some(20_000) };
    let waited = world.engine.wait(&me(), id, two).await.unwrap();
    assert!(waited.ended);
    assert_eq!(waited.record.result.unwrap().preview, "two");
    assert_eq!(waited.record.attempt.0, 1, "the same process");
    let stop = world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert!(stop.accepted);
    assert!(world.engine.gone(&me(), id, Duration::from_secs(10)).await.unwrap());
    let record = world.engine.get(&me(), id).await.unwrap();
    assert_eq!(record.status, Status::Completed, "its last answer stays");
}

#[tokio::test]
async fn steer_01_messages_wait_for_the_session_and_reach_the_child_once_and_in_order() {
    let world = world(Limits::default()).await;
    let id = world
        .spawn(scripted("before-open gate open\nawait steer\nsay $steer\nawait steer\nsay $steer"))
        .await;
    for text in ["a", "b"] {
        let reply = world.engine.steer(&me(), id, steer(text, SteerMode::Steer)).await.unwrap();
        assert_eq!(reply.message.unwrap().receipt, Receipt::Accepted);
    }
    world.fake.gate("open").open();
    let record = world.ended(id).await;
    assert_eq!(record.result.unwrap().preview, "b");
    let told: Vec<_> = world
        .fake
        .heard()
        .into_iter()
        .filter(|told| matches!(told.kind, ToldKind::Steer))
        .map(|told| told.text)
        .collect();
    assert_eq!(told, ["a", "b"]);
    let messages = world.engine.messages(&me(), id).await.unwrap().items;
    assert!(
        messages.iter().all(|posted| matches!(posted.receipt, Receipt::Delivered { .. })),
        "{messages:?}"
    );
}

#[tokio::test]
async fn perm_01_an_approval_waits_for_its_answer_and_the_child_goes_on() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("ask execute rm -rf build\nsay it said $answer")).await;
    until_async("the request", || async {
        (!world.engine.requests(&me(), false).await.unwrap().items.is_empty()).then_some(())
    })
    .await;
    let record = world.engine.get(&me(), id).await.unwrap();
    assert_eq!(record.status, Status::Waiting);
    assert!(record.waiting_since.is_some());
    let answer = AnswerRequest { choice: Some(Choice::AllowOnce), text: None, reason: None };
    world.engine.answer(&me(), id, RequestNumber(1), answer.clone()).await.unwrap();
    let again = world.engine.answer(&me(), id, RequestNumber(1), answer).await.unwrap_err();
    assert!(matches!(again.code, ErrorCode::AlreadyAnswered | ErrorCode::IllegalTransition));
    let record = world.ended(id).await;
    assert_eq!(record.status, Status::Completed);
    assert!(record.result.unwrap().preview.starts_with("it said allow"));
}

#[tokio::test]
async fn sm_20_a_turn_limit_asks_once_then_cuts() {
    let world = world(Limits::default()).await;
    let limited = |script: &str| SpawnRequest {
        budget: Budget { max_turns: Some(2), grace_turns: Some(2), ..Budget::default() },
        ..scripted(script)
    };
    let wraps =
        world.engine.spawn(&me(), waiting(limited("turn\nturn\nawait steer\nturn\nsay done"))).await.unwrap();
    assert_eq!(wraps.record.status, Status::Steered);
    assert!(wraps.record.wrap_up.is_some());
    let goes_on = world
        .engine
        .spawn(&me(), waiting(limited("say partly\nturn\nturn\nturn\nturn\ngate never\nsay all")))
        .await
        .unwrap();
    assert_eq!(goes_on.record.status, Status::Aborted);
    assert_eq!(goes_on.record.result.unwrap().preview, "partly");
}

#[tokio::test]
async fn stop_18_an_interrupt_keeps_the_queue_and_nothing_starts_by_itself() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("say working\ngate never")).await;
    until_async("the turn", || async {
        world.fake.heard().iter().any(|told| matches!(told.kind, ToldKind::Prompt)).then_some(())
    })
    .await;
    world.engine.steer(&me(), id, steer("say later", SteerMode::FollowUp)).await.unwrap();
    let reply = world.engine.steer(&me(), id, steer("", SteerMode::Interrupt)).await.unwrap();
    assert!(reply.accepted && reply.message.is_none());
    let record = world.ended(id).await;
    assert_eq!(record.status, Status::Stopped);
    assert_eq!(record.pending_messages.len(), 1, "it stays in the queue");
    let next = world.engine.resume(&me(), id, resume("say now")).await.unwrap();
    assert_eq!(next.record.result.unwrap().preview, "now");
    let three = subagent_model::request::WaitOptions { run: Some(RunNumber(3)), timeout_ms: Some(20_000) };
    let waited = world.engine.wait(&me(), id, three).await.unwrap();
    assert_eq!(waited.record.result.unwrap().preview, "later");
}

#[tokio::test]
async fn stop_07_a_deaf_child_is_ended_within_the_graces() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("deaf\ngate never")).await;
    until_async("the turn", || async {
        world.fake.heard().iter().any(|told| matches!(told.kind, ToldKind::Prompt)).then_some(())
    })
    .await;
    let reply = world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert_eq!(reply.record.status, Status::Stopping);
    assert_eq!(world.ended(id).await.status, Status::Stopped);
}
