//! Rows of admission: one gate for every path, each limit with its code and numbers; disk, memory, idle subagents. Each
//! test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use subagent_model::request::{
    ListFilter, ResumeRequest, SpawnRequest, SteerMode, SteerRequest, StopRequest, WaitOptions,
};
use subagent_model::{
    Budget, Cause, Cursor, ErrorCode, Mode, Problem, Receipt, ReturnReason, RunNumber, Status, SubagentId,
    TreeBudget,
};
use subagent_runtime::{Limits, Runtime};
use subagent_testkit::until_async;
use support::{World, child, me, plain, scripted, shell, under, waiting, world, world_with};

fn resume(prompt: &str) -> ResumeRequest {
    ResumeRequest { prompt: prompt.to_owned(), ..ResumeRequest::default() }
}

fn follow_up(message: &str) -> SteerRequest {
    SteerRequest { message: message.to_owned(), mode: SteerMode::FollowUp, ..SteerRequest::default() }
}

fn warm(script: &str) -> SpawnRequest {
    SpawnRequest { mode: Mode::Warm, ..scripted(script) }
}

async fn limit(world: &World, limits: Limits) {
    assert_eq!(Runtime::set_limits(&world.engine, &me(), limits.clone()).await, Ok(limits));
}

async fn refused(world: &World, request: SpawnRequest) -> (ErrorCode, Option<u64>, Option<u64>) {
    numbers(&world.engine.spawn(&me(), request).await.unwrap_err())
}

fn numbers(problem: &Problem) -> (ErrorCode, Option<u64>, Option<u64>) {
    (problem.code, problem.limit, problem.used)
}

/// A parent with an ended child that can go on, and a live one.
async fn family(world: &World) -> (SubagentId, SubagentId, SubagentId) {
    let parent = world.spawn(scripted("gate parent\nsay parent")).await;
    let ended = world.spawn(under(parent, scripted("say one"))).await;
    world.ended(ended).await;
    world.engine.ack(&me(), vec![ended], false).await.unwrap();
    let live = world.spawn(under(parent, scripted("gate live\nsay live"))).await;
    world.fake.gate("live").reached().await;
    (parent, ended, live)
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_09_a_spawn_a_resume_and_a_follow_up_pass_the_same_gate() {
    let world = world(Limits { rate: 1_000, ..Limits::default() }).await;
    let (parent, ended, _live) = family(&world).await;
    let wide = Limits { rate: 1_000, ..Limits::default() };
    let cases = [
        (Limits { breadth: 1, ..wide.clone() }, (ErrorCode::BreadthLimit, Some(1), Some(1))),
        (
            Limits { rate: 2, rate_window_ms: 60_000, ..wide.clone() },
            (ErrorCode::SpawnRate, Some(2), Some(2)),
        ),
        (Limits { queue: 0, running: 2, ..wide.clone() }, (ErrorCode::QueueFull, Some(0), Some(0))),
    ];
    for (limits, wanted) in cases {
        limit(&world, limits).await;
        let events = world.all_events().len();
        assert_eq!(refused(&world, under(parent, scripted("say no"))).await, wanted);
        // A call of the parent itself, as out of its own process.
        let nested = world.engine.spawn(&child(parent), scripted("say no")).await.unwrap_err();
        assert_eq!(numbers(&nested), wanted);
        let again = world.engine.resume(&me(), ended, resume("say no")).await.unwrap_err();
        assert_eq!(numbers(&again), wanted);
        assert_eq!(world.all_events().len(), events, "nothing was written");
        // A follow-up is a message first; the run that it would open is not admitted.
        let reply = world.engine.steer(&me(), ended, follow_up("say no")).await.unwrap();
        let number = reply.message.unwrap().message.number;
        let receipt = until_async("the receipt", || async {
            let messages = world.engine.messages(&me(), ended).await.unwrap().items;
            let posted = messages.into_iter().find(|posted| posted.message.number == number)?;
            (posted.receipt != Receipt::Accepted).then_some(posted.receipt)
        })
        .await;
        assert!(matches!(receipt, Receipt::Returned { reason: ReturnReason::NotResumed, .. }), "{receipt:?}");
        assert_eq!(world.engine.get(&me(), ended).await.unwrap().run, RunNumber(1));
    }
    limit(&world, wide).await;
    let reply = world.engine.resume(&me(), ended, resume("say two")).await.unwrap();
    assert_eq!(reply.run, Some(RunNumber(2)));
    assert_eq!(world.ended(ended).await.result.unwrap().preview, "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_01_without_a_queue_what_can_start_is_taken_and_what_would_wait_is_not() {
    let world = world(Limits { running: 2, queue: 0, ..Limits::default() }).await;
    for gate in ["one", "two"] {
        world.spawn(scripted(&format!("gate {gate}\nsay done"))).await;
        world.fake.gate(gate).reached().await;
    }
    assert_eq!(refused(&world, scripted("say no")).await, (ErrorCode::QueueFull, Some(0), Some(0)));
    world.fake.gate("one").open();
    until_async("a slot", || async { world.engine.spawn(&me(), scripted("say yes")).await.ok() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_09_disk_memory_and_tree_budget_bind_a_resume_too() {
    let world = world(Limits::default()).await;
    let root = SpawnRequest {
        tree_budget: TreeBudget { max_tokens: Some(100), max_cost_usd: None },
        budget: Budget { max_tokens: Some(60), ..Budget::default() },
        ..waiting(scripted("use 30 20\nsay one"))
    };
    let id = world.engine.spawn(&me(), root).await.unwrap().record.id;
    let again = world.engine.resume(&me(), id, resume("say no")).await.unwrap_err();
    assert_eq!(numbers(&again), (ErrorCode::TreeBudget, Some(100), Some(50)), "50 used, 60 asked for");
    let free = world.engine.spawn(&me(), waiting(scripted("say one"))).await.unwrap().record.id;
    let most = u64::from(u32::MAX);
    let disk = Limits { disk_floor_mb: most, ..Limits::default() };
    let memory = Limits { memory_floor_mb: most, ..Limits::default() };
    for (limits, code) in [(disk, ErrorCode::DiskFloor), (memory, ErrorCode::MemoryPressure)] {
        limit(&world, limits).await;
        for problem in [
            world.engine.spawn(&me(), scripted("say no")).await.unwrap_err(),
            world.engine.resume(&me(), free, resume("say no")).await.unwrap_err(),
        ] {
            assert_eq!((problem.code, problem.limit), (code, Some(most)));
            assert!(problem.used.is_some_and(|used| 0 < used && used < most), "{problem:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_10_each_limit_of_a_tree_refuses_with_its_own_numbers() {
    let limits = Limits { depth: 2, breadth: 2, tree_total: 5, rate: 1_000, ..Limits::default() };
    let world = world(limits).await;
    let gate = || plain("gate a");
    let root = world.spawn(gate()).await;
    // Depth comes from the stored record of the caller: none of these says whose child it is.
    let middle = world.engine.spawn(&child(root), gate()).await.unwrap().record;
    let leaf = world.engine.spawn(&child(middle.id), gate()).await.unwrap().record;
    assert_eq!((middle.depth, leaf.depth, leaf.parent), (1, 2, Some(middle.id)));
    for caller in [child(leaf.id), me()] {
        let request = SpawnRequest { parent: Some(leaf.id.to_string()), ..gate() };
        let problem = world.engine.spawn(&caller, request).await.unwrap_err();
        assert_eq!(numbers(&problem), (ErrorCode::DepthLimit, Some(2), Some(2)));
    }
    // Nor can it say that it is somebody else's.
    let above = SpawnRequest { parent: Some(root.to_string()), ..gate() };
    let problem = world.engine.spawn(&child(leaf.id), above).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::NotYours);
    let second = world.engine.spawn(&child(root), gate()).await.unwrap().record.id;
    assert_eq!(refused(&world, under(root, gate())).await, (ErrorCode::BreadthLimit, Some(2), Some(2)));
    world.engine.spawn(&child(second), gate()).await.unwrap();
    assert_eq!(refused(&world, under(second, gate())).await, (ErrorCode::TreeLimit, Some(5), Some(5)));
    let another = world.spawn(gate()).await;
    world.spawn(under(another, gate())).await;
    world.fake.gate("a").open();
    world.ended(root).await;
    assert_eq!(
        refused(&world, under(root, gate())).await.0,
        ErrorCode::ParentEnded,
        "nothing is born below what has ended"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_10_the_spawn_rate_is_that_of_one_parent() {
    let world = world(Limits { rate: 2, rate_window_ms: 60_000, ..Limits::default() }).await;
    let parent = world.spawn(plain("gate a")).await;
    for _ in 0..2 {
        let id = world.spawn(under(parent, plain("say x"))).await;
        world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
        world.ended(id).await;
    }
    assert_eq!(
        refused(&world, under(parent, plain("say x"))).await,
        (ErrorCode::SpawnRate, Some(2), Some(2))
    );
    let sibling = world.spawn(plain("gate a")).await;
    world.spawn(under(sibling, plain("say x"))).await;
    for _ in 0..5 {
        world.spawn(plain("say x")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_11_a_refused_spawn_leaves_nothing_and_a_fan_out_is_not_clamped() {
    let world = world(Limits { running: 1, breadth: 3, rate: 1_000, ..Limits::default() }).await;
    let parent = world.spawn(plain("gate a")).await;
    world.fake.gate("a").reached().await;
    let mut replies = Vec::new();
    for number in 0..8 {
        let request = SpawnRequest {
            idempotency_key: Some(format!("k{number}")),
            mode: Mode::Async,
            ..shell("echo ran")
        };
        replies.push(world.engine.spawn(&child(parent), request).await);
    }
    let (taken, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (3, 5), "each is told for itself");
    for reply in refused {
        assert_eq!(numbers(&reply.unwrap_err()), (ErrorCode::BreadthLimit, Some(3), Some(3)));
    }
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running, health.queued), (1, 3));
    assert_eq!(world.engine.list(&me(), ListFilter::default()).await.unwrap().items.len(), 4);
    let attempts = world.dir.path().join("data/attempts");
    assert_eq!(std::fs::read_dir(attempts).unwrap().count(), 0, "no directory of any of them");
    for reply in taken {
        world.engine.stop(&me(), reply.unwrap().record.id, StopRequest::default()).await.unwrap();
    }
    // The key of a refused request is free.
    let request = SpawnRequest { idempotency_key: Some(String::from("k7")), ..shell("echo ran") };
    assert!(!world.engine.spawn(&child(parent), request).await.unwrap().existing);
    world.fake.gate("a").open();
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_12_without_room_new_runs_wait_and_say_so_while_others_go_on() {
    let tight = Limits { running: 1, ..Limits::default() };
    let world = world(tight.clone()).await;
    let most = u64::from(u32::MAX);
    let shortages = [
        ("disk", Limits { disk_floor_mb: most, ..Limits::default() }),
        ("memory", Limits { memory_floor_mb: most, ..Limits::default() }),
    ];
    for (what, short) in shortages {
        limit(&world, tight.clone()).await;
        let works = world.spawn(scripted(&format!("gate {what}\nsay went on"))).await;
        world.fake.gate(what).reached().await;
        let waits = world.spawn(scripted("say waited")).await;
        limit(&world, short).await;
        let place = world.engine.queue_place(&me(), waits).await.unwrap();
        assert_eq!((place.ahead, place.held_by.as_deref()), (Some(0), Some(what)));
        world.fake.gate(what).open();
        assert_eq!(world.ended(works).await.result.unwrap().preview, "went on");
        assert_eq!(
            (world.status(waits).await, world.engine.health().await.unwrap().running),
            (Status::Queued, 0)
        );
        limit(&world, tight.clone()).await;
        assert_eq!(world.ended(waits).await.result.unwrap().preview, "waited");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_18_a_turn_limit_of_nothing_is_no_limit() {
    let world = world(Limits::default()).await;
    for max_turns in [None, Some(0)] {
        let budget = Budget { max_turns, ..Budget::default() };
        let request = SpawnRequest { budget, ..waiting(scripted("repeat 300 turn\nsay done")) };
        let record = world.engine.spawn(&me(), request).await.unwrap().record;
        assert_eq!((record.status, record.turn_count, record.max_turns), (Status::Completed, 300, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_21_nobody_speaks_to_those_that_rest() {
    let limits = Limits { running: 4, ..Limits::default() };
    let world = world_with(limits, |config| config.look_every = Duration::from_millis(10)).await;
    for _ in 0..20 {
        assert!(world.engine.spawn(&me(), waiting(warm("say idle"))).await.unwrap().ended);
    }
    for _ in 0..2 {
        let id = world.spawn(scripted("ask execute rm\nsay done")).await;
        world.until_status(id, Status::Waiting).await;
    }
    for _ in 0..2 {
        world.spawn(plain("gate a")).await;
    }
    world.fake.gate("a").reached().await;
    for _ in 0..20 {
        world.spawn(scripted("say queued")).await;
    }
    let (heard, events) = (world.fake.heard(), world.all_events().len());
    // A few hundred looks at everything.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((world.fake.heard(), world.all_events().len()), (heard, events));
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_06_an_idle_subagent_holds_no_slot_and_is_a_live_child() {
    let world = world(Limits { running: 1, breadth: 1, ..Limits::default() }).await;
    let idle = world.engine.spawn(&me(), waiting(warm("say idle"))).await.unwrap().record.id;
    assert_eq!((world.status(idle).await, world.engine.health().await.unwrap().running), (Status::Idle, 0));
    let parent = world.spawn(scripted("gate parent\nsay parent")).await;
    world.fake.gate("parent").reached().await;
    let request = SpawnRequest { wait_ms: Some(20_000), ..warm("say child") };
    let kept = world.engine.spawn(&child(parent), request).await.unwrap().record;
    assert_eq!(world.status(kept.id).await, Status::Idle);
    let problem = world.engine.spawn(&child(parent), scripted("say no")).await.unwrap_err();
    assert_eq!(numbers(&problem), (ErrorCode::BreadthLimit, Some(1), Some(1)));
    // Its own next run is no second child.
    let two = world.engine.steer(&child(parent), kept.id, follow_up("say two")).await.unwrap();
    assert!(two.accepted);
    let options = WaitOptions { run: Some(RunNumber(2)), timeout_ms: Some(20_000) };
    let waited = world.engine.wait(&child(parent), kept.id, options).await.unwrap();
    assert_eq!(waited.record.result.unwrap().preview, "two");
    world.engine.stop(&me(), kept.id, StopRequest::default()).await.unwrap();
    assert!(world.engine.gone(&me(), kept.id, Duration::from_secs(10)).await.unwrap());
    world.engine.spawn(&child(parent), scripted("say yes")).await.unwrap();
    world.fake.gate("parent").open();
    assert_eq!(world.ended(parent).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_06_over_the_limit_the_one_that_was_idle_for_longest_goes() {
    let world = world(Limits { idle: 2, ..Limits::default() }).await;
    let mut ids = Vec::new();
    for number in 0..2 {
        ids.push(world.engine.spawn(&me(), waiting(warm(&format!("say {number}")))).await.unwrap().record.id);
    }
    // The first one is spoken to again, so the second one is idle for longest.
    world
        .engine
        .resume(&me(), ids[0], ResumeRequest { wait_ms: Some(20_000), ..resume("say again") })
        .await
        .unwrap();
    ids.push(world.engine.spawn(&me(), waiting(warm("say third"))).await.unwrap().record.id);
    assert!(world.engine.gone(&me(), ids[1], Duration::from_secs(10)).await.unwrap());
    assert_eq!(world.status(ids[1]).await, Status::Completed, "its answer stays");
    for id in [ids[0], ids[2]] {
        assert_eq!(world.status(id).await, Status::Idle);
    }
    let closings: Vec<_> = world
        .engine
        .events(&me(), Cursor(0), 1_000, None)
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|event| match event.kind.clone() {
            subagent_model::EventKind::SessionClosing { stop } => {
                Some((event.subagent, stop.cause, stop.actor))
            }
            _ => None,
        })
        .collect();
    assert_eq!(closings, [(ids[1], Cause::IdleTooLong, String::from("daemon"))]);
    // The same by its own time.
    let short = SpawnRequest { idle_ms: Some(30), ..waiting(warm("say short")) };
    let id = world.engine.spawn(&me(), short).await.unwrap().record.id;
    assert!(world.engine.gone(&me(), id, Duration::from_secs(10)).await.unwrap());
}
