//! The client says to a daemon what its caller said to it, and its caller what the daemon said: every call through the
//! socket is compared with the same call without.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::{World, one, person};
use subagent_model::request::{
    AnswerRequest, BudgetRequest, ClaimRequest, GcRequest, ListFilter, ResumeRequest, ReturnRequest,
    SpawnRequest, SteerMode, SteerRequest, StopAllRequest, StopRequest, WaitOptions,
};
use subagent_model::{
    Choice, Cursor, ErrorCode, Problem, RequestNumber, RunNumber, Status, StopInnerRequest,
};
use subagent_runtime::{AckTarget, Caller, Limits, Runtime};

/// One call of each kind, with an argument in each place.
async fn tour(runtime: &dyn Runtime, caller: &Caller) -> Vec<String> {
    let id = one();
    let second = Some(Duration::from_secs(1));
    let spawn = SpawnRequest {
        prompt: "p".into(),
        parent: Some(id.to_string()),
        idempotency_key: Some("k".into()),
        wait_ms: Some(5),
        ..SpawnRequest::default()
    };
    let resume = ResumeRequest {
        prompt: "p".into(),
        queue: true,
        model: Some("m".into()),
        idempotency_key: Some("k".into()),
        wait_ms: Some(5),
        ..ResumeRequest::default()
    };
    let steer = SteerRequest {
        message: "m".into(),
        attachments: vec![subagent_model::request::AttachRequest {
            data: Some("aGk=".into()),
            name: Some("a.txt".into()),
            media_type: Some("text/plain".into()),
            path: None,
        }],
        mode: SteerMode::Interrupt,
        idempotency_key: Some("k".into()),
        wait_ms: Some(5),
    };
    let filter = ListFilter {
        status: vec![Status::Queued, Status::Running],
        live: true,
        root: Some(id),
        parent: Some(id),
        requester: Some("a b/c&d=é".into()),
        before: Some(id),
        limit: Some(3),
    };
    let wait = WaitOptions { run: Some(RunNumber(1)), timeout_ms: Some(5) };
    let stop = StopRequest { cascade: false, drop_follow_ups: true, ..StopRequest::default() };
    let budget = BudgetRequest { max_turns: Some(0), max_cost_usd: Some(0.5), ..BudgetRequest::default() };
    let answer = AnswerRequest { choice: Some(Choice::DenyAlways), text: None, reason: Some("r".into()) };
    let claim = ClaimRequest { carrier: "c".into(), hold_ms: Some(1), limit: Some(2), wait_ms: Some(3) };
    let back = ReturnRequest { carrier: "c".into(), deliveries: vec![format!("{id}.1")], reason: "r".into() };
    let targets = vec![AckTarget { id, run: None }, AckTarget { id, run: Some(RunNumber(1)) }];
    let gc = GcRequest { dry_run: true, older_than_ms: Some(1), records: true };
    let mut limits = Limits { running: 7, ..Limits::default() };
    limits.per_provider.insert("claude".into(), 2);
    vec![
        format!("{:?}", runtime.spawn(caller, spawn).await),
        format!("{:?}", runtime.resume(caller, id, resume).await),
        format!("{:?}", runtime.steer(caller, id, steer).await),
        format!("{:?}", runtime.messages(caller, id).await),
        format!("{:?}", runtime.resolve("k7q").await),
        format!("{:?}", runtime.get(caller, id).await),
        format!("{:?}", runtime.runs(caller, id).await),
        format!("{:?}", runtime.usage(caller, id).await),
        format!("{:?}", runtime.list(caller, filter).await),
        format!("{:?}", runtime.wait(caller, id, wait).await),
        format!("{:?}", runtime.stop(caller, id, stop).await),
        format!("{:?}", runtime.stop_all(caller, StopAllRequest { detached: true }).await),
        format!("{:?}", runtime.inner(caller, id).await),
        format!("{:?}", runtime.stop_inner(caller, id, StopInnerRequest { key: "c /é".into() }).await),
        format!("{:?}", runtime.gone(caller, id, Duration::from_secs(1)).await),
        format!("{:?}", runtime.change_budget(caller, id, budget).await),
        format!("{:?}", runtime.requests(caller, true).await),
        format!("{:?}", runtime.answer(caller, id, RequestNumber(3), answer).await),
        format!("{:?}", runtime.revoke(caller, id, RequestNumber(3)).await),
        format!("{:?}", runtime.result(caller, id, Some(RunNumber(1)), 2, 100).await),
        format!("{:?}", runtime.output(caller, id, 2, second).await),
        format!("{:?}", runtime.transcript(caller, id, Some("1:2"), 3, second).await),
        format!("{:?}", runtime.types(caller, "/a b".into(), Some("/x:/y".into()), Some("t&u")).await),
        format!("{:?}", runtime.inbox(caller, 3, second).await),
        format!("{:?}", runtime.inbox_of_all(caller, 3).await),
        format!("{:?}", runtime.claim(caller, claim).await),
        format!("{:?}", runtime.give_back(caller, back).await),
        format!("{:?}", runtime.acknowledge(caller, targets, true).await),
        format!("{:?}", runtime.events(caller, Cursor(1), 3, second).await),
        format!("{:?}", runtime.activity(caller).await),
        format!("{:?}", runtime.gc(caller, gc).await),
        format!("{:?}", runtime.set_limits(caller, limits).await),
        format!("{:?}", runtime.limits().await),
        format!("{:?}", runtime.health().await),
    ]
}

#[tokio::test]
async fn daemon_every_call_through_the_socket_is_the_call() {
    let world = World::new();
    world.runtime.head.send_replace(9);
    let direct = tour(&*world.runtime, &person()).await;
    let asked = world.runtime.taken();
    let through = tour(&world.client, &person()).await;
    assert_eq!(through, direct);
    assert_eq!(world.runtime.taken(), asked);
    assert!(direct.iter().all(|reply| reply.starts_with("Ok")), "{direct:#?}");
}

#[tokio::test]
async fn queue_a_place_in_the_queue_goes_through_the_socket() {
    let world = World::new();
    *world.runtime.status.lock().unwrap() = "queued";
    let place = world.client.queue_place(&person(), one()).await.unwrap();
    assert_eq!((place.ahead, place.held_by.as_deref()), (Some(2), Some("limits.running (4)")));
    *world.runtime.status.lock().unwrap() = "running";
    let place = world.client.queue_place(&person(), one()).await.unwrap();
    assert_eq!(place, subagent_model::request::QueuePlace::default());
}

#[tokio::test]
async fn daemon_a_refusal_goes_through_the_socket_with_all_it_says() {
    let world = World::new();
    let refusal =
        Problem::new(ErrorCode::MailboxFull, "too many").with_numbers(3, 4).with_ids(vec!["x".into()]);
    *world.runtime.refusal.lock().unwrap() = Some(refusal.clone());
    let steer = SteerRequest { message: "m".into(), ..SteerRequest::default() };
    assert_eq!(world.client.steer(&person(), one(), steer).await.unwrap_err(), refusal);
    assert_eq!(world.client.gc(&person(), GcRequest::default()).await.unwrap_err(), refusal);
    world.runtime.released.store(5, std::sync::atomic::Ordering::SeqCst);
    let gone = world.client.events(&person(), Cursor(1), 3, None).await.unwrap_err();
    assert_eq!((gone.code, gone.used), (ErrorCode::CursorGone, Some(5)));
}

/// One that sees few events is not asked to read the others again.
#[tokio::test]
async fn perm_11_a_caller_that_sees_none_of_the_events_gets_on_all_the_same() {
    let world = World::new();
    world.runtime.head.send_replace(1);
    let caller = Caller { requester: "someone".into() };
    let page = world.client.events(&caller, Cursor(0), 10, Some(Duration::from_millis(20))).await.unwrap();
    assert_eq!((page.items.len(), page.next), (0, Cursor(1)));
}
