//! Rows of the queue: order, fairness, limits that change while work goes on, loans. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use subagent_model::request::{QueuePlace, SpawnRequest, StopRequest, WaitOptions};
use subagent_model::{ErrorCode, EventKind, Mode, ProcessIdentity, Requester, Status, SubagentId};
use subagent_provider::Scripted;
use subagent_runtime::{Caller, Limits, Runtime};
use subagent_testkit::until;
use support::{SlowStore, World, child, me, plain, scripted, shell, under, waiting, world};

fn running(limit: u32) -> Limits {
    Limits { running: limit, ..Limits::default() }
}

fn other() -> Caller {
    Caller { requester: Requester::from("user:other") }
}

async fn spawn_as(world: &World, caller: &Caller, request: SpawnRequest) -> SubagentId {
    world.engine.spawn(caller, request).await.unwrap().record.id
}

async fn place(world: &World, id: SubagentId) -> QueuePlace {
    world.engine.queue_place(&me(), id).await.unwrap()
}

async fn limit(world: &World, limits: Limits) {
    assert_eq!(Runtime::set_limits(&world.engine, &me(), limits.clone()).await, Ok(limits));
}

fn held(ahead: u64, by: &str) -> QueuePlace {
    QueuePlace { ahead: Some(ahead), held_by: Some(by.to_owned()) }
}

/// Who was given a slot, in order.
fn claims(world: &World) -> Vec<SubagentId> {
    let events = world.all_events();
    let claims = events.iter().filter(|event| matches!(event.kind, EventKind::Claimed { .. }));
    claims.map(|event| event.subagent).collect()
}

/// The most that ever held a slot together, by the journal. For children that lend nothing.
fn most_running(world: &World) -> usize {
    let mut live = std::collections::BTreeSet::new();
    let mut most = 0;
    for event in world.all_events() {
        match event.kind {
            EventKind::Claimed { .. } => live.insert(event.subagent),
            EventKind::Ended { .. } => live.remove(&event.subagent),
            _ => continue,
        };
        most = most.max(live.len());
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_01_owners_take_turns_and_every_kind_of_end_lets_the_next_one_start() {
    let world = world(running(1)).await;
    let first = world.spawn(plain("gate a")).await;
    let gone = world.dir.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let lost_cwd = SpawnRequest { cwd: Some(gone.to_str().unwrap().into()), ..shell("true") };
    let mut mine = Vec::new();
    for request in [plain("fail on purpose"), plain("panic on purpose"), lost_cwd, scripted("say fine")] {
        mine.push(spawn_as(&world, &me(), request).await);
    }
    let theirs = [
        spawn_as(&world, &other(), scripted("refuse on purpose")).await,
        spawn_as(&world, &other(), shell("echo theirs")).await,
    ];
    std::fs::remove_dir(&gone).unwrap();
    world.fake.gate("a").open();
    let order = [first, mine[0], theirs[0], mine[1], theirs[1], mine[2], mine[3]];
    for id in order {
        world.ended(id).await;
    }
    assert_eq!(claims(&world), order);
    let events = world.all_events();
    for (before, next) in order.iter().zip(&order[1..]) {
        let end = events
            .iter()
            .position(|event| event.subagent == *before && matches!(event.kind, EventKind::Ended { .. }));
        let claim = events
            .iter()
            .position(|event| event.subagent == *next && matches!(event.kind, EventKind::Claimed { .. }));
        assert_eq!(end.map(|end| end + 1), claim, "the slot is given on in the step of the end");
    }
    assert_eq!(world.engine.health().await.unwrap().running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_02_a_raised_limit_starts_what_fits_and_a_lowered_one_stops_nothing() {
    let world = world(running(1)).await;
    let mut ids = Vec::new();
    for number in 0..6 {
        ids.push(world.spawn(scripted(&format!("gate g{number}"))).await);
    }
    let running_now = async || world.engine.health().await.unwrap().running;
    assert_eq!((running_now().await, place(&world, ids[1]).await), (1, held(0, "limits.running (1)")));
    limit(&world, running(3)).await;
    assert_eq!(running_now().await, 3, "as many as now fit");
    assert_eq!(place(&world, ids[4]).await, held(1, "limits.running (3)"));
    limit(&world, running(1)).await;
    assert_eq!(running_now().await, 3, "what runs goes on");
    for (number, left) in [(0, 2), (1, 1)] {
        world.fake.gate(&format!("g{number}")).open();
        assert_eq!(world.ended(ids[number]).await.status, Status::Completed);
        assert_eq!((running_now().await, world.status(ids[3]).await), (left, Status::Queued));
    }
    world.fake.gate("g2").open();
    world.ended(ids[2]).await;
    world.fake.gate("g3").reached().await;
    assert_eq!((running_now().await, world.status(ids[4]).await), (1, Status::Queued));
    limit(&world, running(0)).await;
    world.fake.gate("g3").open();
    world.ended(ids[3]).await;
    assert_eq!(place(&world, ids[4]).await, held(0, "limits.running (0)"), "held, not refused");
    let refusal = Runtime::set_limits(&world.engine, &child(ids[4]), running(9)).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NotYours);
    limit(&world, running(2)).await;
    for number in [4, 5] {
        world.fake.gate(&format!("g{number}")).open();
        world.ended(ids[number]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_03_a_queued_run_starts_with_what_was_fixed_at_its_spawn() {
    let world = world(running(1)).await;
    let owner = world.spawn(scripted("gate owner")).await;
    let request = SpawnRequest {
        mode: Mode::Detached,
        model: Some(String::from("big")),
        description: Some(String::from("as it was asked")),
        labels: BTreeMap::from([(String::from("k"), String::from("v"))]),
        budget: subagent_model::Budget { max_turns: Some(7), ..subagent_model::Budget::default() },
        ..scripted("say as asked")
    };
    let id = spawn_as(&world, &child(owner), request).await;
    let before = world.engine.get(&me(), id).await.unwrap();
    assert_eq!((before.status, before.parent), (Status::Queued, Some(owner)));
    // Its owner ends, and its limits change.
    limit(&world, Limits { depth: 0, breadth: 0, ..running(1) }).await;
    world.engine.stop(&me(), owner, StopRequest::default()).await.unwrap();
    assert_eq!(world.ended(owner).await.status, Status::Stopped);
    let after = world.ended(id).await;
    assert_eq!((after.status, after.result.unwrap().preview.as_str()), (Status::Completed, "as asked"));
    assert_eq!(
        (after.description, after.labels, after.max_turns, after.cwd, after.requested_by),
        (before.description, before.labels, Some(7), before.cwd, Requester::subagent(owner))
    );
    let accepted = world.all_events().into_iter().find(|event| event.subagent == id).unwrap();
    let EventKind::Accepted { spec, .. } = accepted.kind else { panic!("{accepted:?}") };
    assert_eq!(spec.model.as_deref(), Some("big"));
}

/// QUEUE-04 and RES-19.
#[tokio::test(flavor = "multi_thread")]
async fn res_19_adopted_runs_count_and_the_queue_keeps_its_order_over_a_restart() {
    let world = world(running(2)).await;
    let adopted = [world.spawn(shell("exec sleep 60")).await, world.spawn(shell("exec sleep 60")).await];
    for id in adopted {
        world.process(id).await;
    }
    let mut queued = Vec::new();
    for caller in [me(), me(), me(), other(), other()] {
        queued.push(spawn_as(&world, &caller, plain("say mine")).await);
    }
    let order = [queued[0], queued[3], queued[1], queued[4], queued[2]];
    let places = async |world: &World, limit: &str| {
        for (number, id) in (0..).zip(order) {
            assert_eq!(place(world, id).await, held(number, limit));
        }
    };
    places(&world, "limits.running (2)").await;
    let world = world.restarted(running(1), async || ()).await;
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.recovery.adopted, health.running, health.queued), (2, 2, 5), "over the limit now");
    places(&world, "limits.running (1)").await;
    world.engine.stop(&me(), adopted[0], StopRequest::default()).await.unwrap();
    world.ended(adopted[0]).await;
    assert_eq!(world.engine.health().await.unwrap().running, 1, "the other one fills the limit");
    places(&world, "limits.running (1)").await;
    world.engine.stop(&me(), adopted[1], StopRequest::default()).await.unwrap();
    for id in order {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
    assert_eq!(claims(&world)[2..], order);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_05_many_spawns_wait_and_none_fails_for_it() {
    let world = world(running(3)).await;
    let mut ids = Vec::new();
    for number in 0..60 {
        ids.push(world.spawn(plain(&format!("gate all\nsay {number}"))).await);
    }
    world.fake.gate("all").open();
    for id in ids {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
    assert_eq!(most_running(&world), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_06_a_stopped_run_keeps_its_slot_until_its_process_is_gone() {
    let world = world(running(1)).await;
    let stubborn = world.spawn(shell("trap '' TERM; echo up; while :; do sleep 0.05; done")).await;
    let process = world.process(stubborn).await;
    let next = world.spawn(scripted("say next")).await;
    let stop = world.engine.stop(&me(), stubborn, StopRequest::default()).await.unwrap();
    assert_eq!((stop.record.status, world.status(next).await), (Status::Stopping, Status::Queued));
    let gone = world.ended(stubborn).await.exited_at.unwrap();
    assert!(!subagent_process::is_alive(&process));
    let claimed = world.ended(next).await.attempts[0].claimed_at;
    assert!(claimed >= gone, "claimed {claimed:?}, gone {gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_06_what_has_ended_counts_against_no_limit() {
    let limits = Limits { running: 2, breadth: 1, rate: 1_000, ..Limits::default() };
    let world = world(limits).await;
    let parent = world.spawn(scripted("gate parent")).await;
    let mut missing = shell("");
    missing.exec.as_mut().unwrap().program = String::from("no-such-program-here");
    for request in [missing, scripted("fail x"), scripted("panic x"), shell("exit 3"), scripted("say x")] {
        for _ in 0..3 {
            let id = world.spawn(under(parent, request.clone())).await;
            world.ended(id).await;
        }
    }
    let id = world.spawn(under(parent, scripted("gate never"))).await;
    world.until_started(id).await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    world.ended(id).await;
    let id = world.spawn(under(parent, scripted("say last"))).await;
    assert_eq!(world.ended(id).await.status, Status::Completed);
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running, health.queued), (1, 0));
}

/// Three levels on one slot: each waits for the next in a call.
#[tokio::test(flavor = "multi_thread")]
async fn queue_07_parents_that_wait_in_a_call_lend_their_slot_all_the_way_down() {
    let world = world(running(1)).await;
    let root = world.spawn(scripted("gate root\nsay root")).await;
    world.fake.gate("root").reached().await;
    let engine = world.engine.clone();
    let middle = tokio::spawn(async move {
        engine.spawn(&child(root), waiting(scripted("gate middle\nsay middle"))).await
    });
    world.fake.gate("middle").reached().await;
    let middle_id = world.fake.launches().last().unwrap().key.subagent;
    // The middle one asks first and waits afterwards, in another call.
    let leaf = spawn_as(&world, &child(middle_id), scripted("gate leaf\nsay leaf")).await;
    assert_eq!(place(&world, leaf).await, held(0, "limits.running (1)"), "it works itself as yet");
    let stranger = world.spawn(scripted("say stranger")).await;
    let engine = world.engine.clone();
    let wait = tokio::spawn(async move {
        engine.wait(&child(middle_id), leaf, WaitOptions { run: None, timeout_ms: Some(20_000) }).await
    });
    world.fake.gate("leaf").reached().await;
    assert_eq!(world.engine.health().await.unwrap().running, 1, "three hold one slot");
    assert_eq!(world.status(stranger).await, Status::Queued, "a loan is for what is below");
    for id in [root, middle_id, leaf] {
        assert_eq!(world.status(id).await, Status::Running);
    }
    world.fake.gate("leaf").open();
    assert_eq!(wait.await.unwrap().unwrap().record.result.unwrap().preview, "leaf");
    world.engine.ack(&child(middle_id), vec![leaf], false).await.unwrap();
    world.fake.gate("middle").open();
    assert_eq!(middle.await.unwrap().unwrap().record.result.unwrap().preview, "middle");
    assert_eq!(world.status(stranger).await, Status::Queued);
    world.fake.gate("root").open();
    assert_eq!(world.ended(root).await.status, Status::Completed);
    assert_eq!(world.ended(stranger).await.status, Status::Completed);
    assert_eq!(claims(&world), [root, middle_id, leaf, stranger]);
}

/// A call that gives up takes the place back: nothing else of the tree starts on it.
#[tokio::test(flavor = "multi_thread")]
async fn queue_07_a_call_that_has_ended_lends_no_longer() {
    let world = world(running(1)).await;
    let root = world.spawn(scripted("gate root\nsay root")).await;
    world.fake.gate("root").reached().await;
    let first = spawn_as(&world, &child(root), scripted("gate first\nsay first")).await;
    let short = WaitOptions { run: None, timeout_ms: Some(50) };
    assert!(!world.engine.wait(&child(root), first, short).await.unwrap().ended);
    world.fake.gate("first").reached().await;
    world.fake.gate("first").open();
    world.ended(first).await;
    let second = spawn_as(&world, &child(root), scripted("say second")).await;
    assert_eq!(place(&world, second).await, held(0, "limits.running (1)"));
    // Somebody else's wait for it lends nothing either.
    let short = WaitOptions { run: None, timeout_ms: Some(50) };
    assert!(!world.engine.wait(&me(), second, short).await.unwrap().ended);
    assert_eq!(world.status(second).await, Status::Queued);
    world.fake.gate("root").open();
    assert_eq!(world.ended(second).await.status, Status::Completed);
    assert_eq!(world.ended(root).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_08_a_full_provider_or_model_holds_up_nobody_else() {
    let limits = Limits {
        running: 20,
        per_provider: BTreeMap::from([(String::from("plain"), 1)]),
        per_model: BTreeMap::from([(String::from("big"), 1)]),
        ..Limits::default()
    };
    let world = world(limits.clone()).await;
    let big = |script: &str| SpawnRequest { model: Some(String::from("big")), ..scripted(script) };
    let first = world.spawn(plain("gate p1\nfail on purpose")).await;
    let second = world.spawn(plain("gate p2\nsay p2")).await;
    let third = world.spawn(plain("say p3")).await;
    let model = world.spawn(big("gate m1\nfail refused by its model")).await;
    let next = world.spawn(big("gate m2\nsay m2")).await;
    let small = SpawnRequest { model: Some(String::from("small")), ..waiting(scripted("say small")) };
    for request in [waiting(scripted("say any")), small, waiting(shell("echo real"))] {
        let reply = world.engine.spawn(&me(), request).await.unwrap();
        assert_eq!((reply.ended, reply.record.status), (true, Status::Completed));
    }
    assert_eq!(place(&world, second).await.held_by.unwrap(), "limits.per_provider.plain (1)");
    assert_eq!(place(&world, next).await.held_by.unwrap(), "limits.per_model.big (1)");
    // A sibling's failure delays nobody and decides nothing.
    world.fake.gate("p1").open();
    assert_eq!(world.ended(first).await.status, Status::Error);
    world.fake.gate("p2").reached().await;
    assert_eq!(place(&world, third).await.held_by.unwrap(), "limits.per_provider.plain (1)");
    let wider = Limits {
        per_provider: BTreeMap::from([(String::from("plain"), 2)]),
        per_model: BTreeMap::from([(String::from("big"), 0)]),
        ..limits.clone()
    };
    limit(&world, wider).await;
    assert_eq!(world.ended(third).await.status, Status::Completed);
    world.fake.gate("m1").open();
    world.ended(model).await;
    assert_eq!(place(&world, next).await.held_by.unwrap(), "limits.per_model.big (0)");
    limit(&world, Limits { per_model: BTreeMap::new(), ..limits }).await;
    world.fake.gate("m2").open();
    world.fake.gate("p2").open();
    for (id, text) in [(next, "m2"), (second, "p2")] {
        assert_eq!(world.ended(id).await.result.unwrap().preview, text);
    }
}

fn kill_checked(child: &ProcessIdentity) {
    subagent_process::signal_checked(child, 9).unwrap();
    until("the child to be gone", || (!subagent_process::is_alive(child)).then_some(()));
}

/// A child that was killed from outside frees its slot as any other end does.
#[tokio::test(flavor = "multi_thread")]
async fn queue_06_a_killed_child_frees_its_slot() {
    let world = world(running(1)).await;
    let id = world.spawn(shell("exec sleep 60")).await;
    let process = world.process(id).await;
    let next = world.spawn(scripted("say next")).await;
    assert_eq!(world.status(next).await, Status::Queued);
    kill_checked(&process);
    assert_eq!(world.ended(next).await.status, Status::Completed);
    assert_eq!(world.status(id).await, Status::Error);
}

/// A commit that fails takes nothing away: neither the loan of a call that waits, nor the turn of what is next.
#[tokio::test(flavor = "multi_thread")]
async fn queue_07_a_loan_outlives_a_commit_that_failed() {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let (fake, store) = (Scripted::default(), Arc::new(SlowStore::default()));
    let shims = support::pool(dir.path());
    let config = support::config(dir.path(), running(1));
    let engine = support::start_with(config, &fake, Arc::clone(&store) as _, shims).await;
    let root = engine.spawn(&me(), scripted("gate root\nsay root")).await.unwrap().record.id;
    fake.gate("root").reached().await;
    let below = engine.spawn(&child(root), scripted("say below")).await.unwrap().record.id;
    // The next thing that is written is the claim, which the call below makes possible.
    store.fails.store(true, Ordering::SeqCst);
    let options = WaitOptions { run: None, timeout_ms: Some(20_000) };
    let waited = engine.wait(&child(root), below, options).await.unwrap();
    assert!(waited.ended && !store.fails.load(Ordering::SeqCst));
    fake.gate("root").open();
}
