//! Rows of use and of refusals: what is rolled up, and what is counted. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use subagent_model::request::{ResumeRequest, SpawnRequest, SteerMode, SteerRequest, UsageReport};
use subagent_model::{Budget, ErrorCode, Receipt, Requester, Status, SubagentId, Usage};
use subagent_runtime::{Caller, Limits, Runtime};
use subagent_testkit::until_async;
use support::{World, me, plain, scripted, under, world};

fn used(input: u64, output: u64, cost_usd: Option<f64>) -> Usage {
    Usage { input, output, total: input + output, cost_usd, ..Usage::default() }
}

async fn report(world: &World, id: SubagentId) -> UsageReport {
    world.engine.usage(&me(), id).await.unwrap()
}

fn counted(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
}

async fn refused(world: &World) -> BTreeMap<String, u64> {
    world.engine.health().await.unwrap().refused
}

/// A root, its child that is not durable and works, and that one's child, which has ended.
#[tokio::test(flavor = "multi_thread")]
async fn rec_14_use_is_rolled_up_to_owner_and_root_once() {
    let world = world(Limits::default()).await;
    let root = world.spawn(scripted("use 1 2\nturn\ngate root\nsay root")).await;
    world.fake.gate("root").reached().await;
    let child = SpawnRequest {
        durable: false,
        ..under(root, scripted("use 10 20 0.25\nturn\ngate child\nsay child"))
    };
    let child = world.spawn(child).await;
    world.fake.gate("child").reached().await;
    let grandchild = world.spawn(under(child, scripted("use 100 200\nsay first"))).await;
    assert_eq!(world.ended(grandchild).await.status, Status::Completed);
    let again = ResumeRequest { prompt: "use 1000 2000 0.5\nsay second".into(), ..ResumeRequest::default() };
    world.engine.resume(&me(), grandchild, again).await.unwrap();
    world.ended(grandchild).await;
    for id in [root, child] {
        until_async("its turn", || async {
            (world.engine.get(&me(), id).await.unwrap().turn_count == 1).then_some(())
        })
        .await;
    }
    let below = report(&world, grandchild).await;
    assert_eq!((below.own, below.below, below.members), (Some(used(1_100, 2_200, Some(0.5))), None, 0));
    assert_eq!(below.total, below.own);
    let middle = report(&world, child).await;
    assert_eq!((middle.own, middle.below), (Some(used(10, 20, Some(0.25))), below.own));
    assert_eq!((middle.total, middle.members), (Some(used(1_110, 2_220, Some(0.75))), 1));
    let top = report(&world, root).await;
    assert_eq!((top.id, top.own, top.below), (root, Some(used(1, 2, None)), middle.total));
    assert_eq!((top.total, top.members), (Some(used(1_111, 2_222, Some(0.75))), 2));
    // It sees what it used itself and what is below it, and nothing above.
    let itself = Caller { requester: Requester::subagent(child) };
    assert_eq!(world.engine.usage(&itself, child).await.unwrap(), middle);
    assert_eq!(world.engine.usage(&itself, grandchild).await.unwrap(), below);
    assert_eq!(world.engine.usage(&itself, root).await.unwrap_err().code, ErrorCode::NotYours);
    for gate in ["child", "root"] {
        world.fake.gate(gate).open();
    }
    world.ended(root).await;
    assert_eq!(report(&world, root).await, top, "the end of a run changes nothing of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_15_a_tree_that_reports_no_use_has_none() {
    let world = world(Limits::default()).await;
    let root = world.spawn(scripted("gate root\nsay root")).await;
    world.fake.gate("root").reached().await;
    let silent = world.spawn(under(root, scripted("say silent"))).await;
    world.ended(silent).await;
    let told = report(&world, root).await;
    assert_eq!((told.own, told.below, told.total, told.members), (None, None, None, 1));
    let child = world.spawn(under(root, scripted("use 3 4\nsay child"))).await;
    world.ended(child).await;
    let told = report(&world, root).await;
    assert_eq!(
        (told.own, told.below, told.total, told.members),
        (None, Some(used(3, 4, None)), Some(used(3, 4, None)), 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_11_refusals_are_counted_by_code() {
    let world = world(Limits { running: 1, queue: 1, depth: 0, ..Limits::default() }).await;
    assert_eq!(refused(&world).await, counted(&[]));
    let refuse = async |request: SpawnRequest| world.engine.spawn(&me(), request).await.unwrap_err().code;
    // Nothing could be made of the request; the provider cannot; the gate of admission, twice.
    assert_eq!(refuse(SpawnRequest { cwd: None, ..scripted("say x") }).await, ErrorCode::InvalidCwd);
    let turns = Budget { max_turns: Some(1), ..Budget::default() };
    assert_eq!(refuse(SpawnRequest { budget: turns, ..plain("say x") }).await, ErrorCode::NotCapable);
    let live = world.spawn(scripted("gate live\nsay live")).await;
    world.fake.gate("live").reached().await;
    assert_eq!(refuse(under(live, scripted("say x"))).await, ErrorCode::DepthLimit);
    assert_eq!(refuse(under(live, scripted("say x"))).await, ErrorCode::DepthLimit);
    let mut expected = vec![("depth_limit", 2), ("invalid_cwd", 1), ("not_capable", 1)];
    assert_eq!(refused(&world).await, counted(&expected));
    // A resume by what it is refused for.
    let resume = || ResumeRequest { prompt: "say x".into(), ..ResumeRequest::default() };
    let refusal = world.engine.resume(&me(), live, resume()).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::StillRunning);
    let empty = ResumeRequest::default();
    assert_eq!(world.engine.resume(&me(), live, empty).await.unwrap_err().code, ErrorCode::InvalidRequest);
    expected.extend([("still_running", 1), ("invalid_request", 1)]);
    assert_eq!(refused(&world).await, counted(&expected));
    // What is accepted is not counted, nor is what is no start of a run.
    let key = SpawnRequest { idempotency_key: Some("k".into()), ..scripted("say x") };
    for _ in 0..2 {
        world.engine.spawn(&me(), key.clone()).await.unwrap();
    }
    let silent = SteerRequest { message: String::new(), mode: SteerMode::Steer, ..SteerRequest::default() };
    world.engine.steer(&me(), live, silent).await.unwrap_err();
    assert_eq!(refused(&world).await, counted(&expected));
    // The queue is full by now.
    assert_eq!(refuse(scripted("say x")).await, ErrorCode::QueueFull);
    expected.push(("queue_full", 1));
    assert_eq!(refused(&world).await, counted(&expected));
    let world = world.restarted(Limits::default(), async || ()).await;
    assert_eq!(refused(&world).await, counted(&[]), "they are counted since the start");
}

/// A message that was to open the next run goes through the same gate.
#[tokio::test(flavor = "multi_thread")]
async fn queue_11_a_follow_up_that_the_gate_refuses_is_counted_as_well() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("gate live\nsay live")).await;
    world.fake.gate("live").reached().await;
    let follow_up =
        SteerRequest { message: "say x".into(), mode: SteerMode::FollowUp, ..SteerRequest::default() };
    world.engine.steer(&me(), id, follow_up).await.unwrap();
    let limits = Limits { memory_floor_mb: u64::MAX, ..Limits::default() };
    world.engine.set_limits(limits);
    world.fake.gate("live").open();
    until_async("its return", || async {
        let messages = world.engine.messages(&me(), id).await.unwrap().items;
        matches!(messages[0].receipt, Receipt::Returned { .. }).then_some(())
    })
    .await;
    assert_eq!(refused(&world).await, counted(&[("memory_pressure", 1)]));
}
