//! Rows RESULT-10 to RESULT-18: owners that are subagents themselves. The runtime puts results before those that are alive,
//! and tells those above them when they are gone.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use subagent_model::request::{
    InboxItem, ResumeRequest, SpawnRequest, SteerMode, SteerRequest, StopRequest, WaitOptions,
};
use subagent_model::{
    Cause, EventKind, Mark, Mode, Receipt, Requester, ReturnReason, RunNumber, Status, SubagentId,
    SubagentRecord,
};
use subagent_provider::{Scripted, ToldKind};
use subagent_runtime::{Caller, Engine, EngineConfig, Limits, Runtime, Shutdown};
use subagent_store::{MemoryStore, Store};
use subagent_testkit::until_async;

use support::{World, config, me, plain, pool, scripted, start_with, under, waiting};

/// Nothing that a test waits for is later than this.
const NEVER: Duration = Duration::from_hours(1);
const SOON: Duration = Duration::from_millis(40);

fn agent(id: SubagentId) -> Caller {
    Caller { requester: Requester::subagent(id) }
}

fn roomy() -> Limits {
    Limits {
        running: 2_000,
        breadth: 2_000,
        tree_total: 5_000,
        rate: 100_000,
        queue: 5_000,
        depth: 5,
        ..Limits::default()
    }
}

async fn engine_with(
    dir: &tempfile::TempDir,
    fake: &Scripted,
    store: &Arc<MemoryStore>,
    tell_after: Duration,
    escalate_after: Duration,
) -> Engine {
    let config = EngineConfig { tell_after, escalate_after, ..config(dir.path(), roomy()) };
    start_with(config, fake, Arc::clone(store) as Arc<dyn Store>, pool(dir.path())).await
}

async fn world_of(fake: Scripted, tell_after: Duration, escalate_after: Duration) -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let store = Arc::new(MemoryStore::default());
    let engine = engine_with(&dir, &fake, &store, tell_after, escalate_after).await;
    World { engine, fake, store, dir }
}

async fn world(tell_after: Duration, escalate_after: Duration) -> World {
    world_of(Scripted::default(), tell_after, escalate_after).await
}

/// A parent that works, at the gate `busy`.
async fn busy_parent(world: &World, script: &str) -> SubagentId {
    let id = world.spawn(scripted(script)).await;
    world.fake.gate("busy").reached().await;
    id
}

/// Their owner gets its id and is told at the end.
fn delegated(request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { mode: Mode::Async, ..request }
}

/// A child that has ended and that nobody has read.
async fn ended_child(world: &World, parent: SubagentId, script: &str) -> SubagentId {
    let reply = world.engine.spawn(&agent(parent), waiting(delegated(plain(script)))).await.unwrap();
    assert!(reply.ended);
    reply.record.id
}

async fn inbox(world: &World, owner: &Caller) -> Vec<InboxItem> {
    world.engine.inbox(owner, 1_000, None).await.unwrap()
}

/// What a subagent was told of its children: the name of the delivery for each time it stood in something it heard.
fn told(world: &World, owner: SubagentId) -> Vec<String> {
    let heard = world.fake.heard().into_iter().filter(|told| told.key.subagent == owner);
    let names = |text: String| {
        let parts = text.split("<subagent-notice delivery=\"").skip(1);
        parts.map(|part| part.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    heard.flat_map(|told| names(told.text)).collect()
}

async fn until_told(world: &World, owner: SubagentId, many: usize) -> Vec<String> {
    until_async("the owner to be told", || async {
        Some(told(world, owner)).filter(|told| told.len() >= many)
    })
    .await
}

/// Who acknowledged the results of a subagent, in order.
fn receipts(world: &World, id: SubagentId) -> Vec<Requester> {
    let events = world.all_events().into_iter().filter(|event| event.subagent == id);
    events
        .filter_map(|event| match event.kind {
            EventKind::Acknowledged { by, .. } => Some(by),
            _ => None,
        })
        .collect()
}

async fn until_acknowledged(world: &World, id: SubagentId) {
    until_async("a receipt", || async { (!receipts(world, id).is_empty()).then_some(()) }).await;
}

async fn stop_alone(world: &World, id: SubagentId) -> SubagentRecord {
    let alone = StopRequest { cascade: false, ..StopRequest::default() };
    world.engine.stop(&me(), id, alone).await.unwrap();
    world.ended(id).await
}

fn once(child: SubagentId) -> Vec<String> {
    vec![format!("{child}.1")]
}

#[tokio::test]
async fn result_15_a_busy_owner_is_told_by_the_runtime_and_having_it_is_the_receipt() {
    let world = world(SOON, NEVER).await;
    let parent = busy_parent(&world, "gate busy\nawait steer\nsay from $from").await;
    let child = ended_child(&world, parent, "say found it").await;
    assert_eq!(until_told(&world, parent, 1).await, once(child));
    until_acknowledged(&world, child).await;
    assert_eq!(receipts(&world, child), [Requester::subagent(parent)]);
    assert_eq!(inbox(&world, &agent(parent)).await, []);
    let heard = world.fake.heard();
    let notice = heard.iter().find(|told| told.kind == ToldKind::Steer).unwrap();
    assert!(notice.text.contains("found it") && notice.text.contains("status=\"completed\""), "{notice:?}");
    world.fake.gate("busy").open();
    let record = world.ended(parent).await;
    let from = record.result.unwrap().preview;
    assert_eq!(from, "from runtime", "it comes from nobody else");
    assert_eq!(told(&world, parent), once(child), "and once");
}

#[tokio::test]
async fn result_07_what_an_owner_read_by_itself_is_not_put_before_it() {
    let world = world(Duration::from_millis(300), NEVER).await;
    let parent = busy_parent(&world, "gate busy\nsay done").await;
    // In a call that waits, with its receipt as the doors give it.
    let child =
        world.engine.spawn(&agent(parent), delegated(plain("gate end\nsay x"))).await.unwrap().record.id;
    let waits = {
        let engine = world.engine.clone();
        tokio::spawn(async move {
            let waited = engine.wait(&agent(parent), child, WaitOptions::default()).await.unwrap();
            engine.ack_run(&agent(parent), child, waited.run, false).await.unwrap();
            waited
        })
    };
    world.fake.gate("end").reached().await;
    world.fake.gate("end").open();
    assert!(waits.await.unwrap().ended);
    // What ended after it was told: the time of the first is long over.
    let later = ended_child(&world, parent, "say y").await;
    assert_eq!(until_told(&world, parent, 1).await, once(later));
    world.fake.gate("busy").open();
    world.ended(parent).await;
    assert_eq!(told(&world, parent), once(later));
    assert_eq!(receipts(&world, child), [Requester::subagent(parent)]);
}

#[tokio::test]
async fn result_15_a_notice_that_waits_is_dropped_when_its_result_is_read_meanwhile() {
    let world = world_of(Scripted::at_boundary(), SOON, NEVER).await;
    let parent = busy_parent(&world, "gate busy\nturn\ngate later\nsay done").await;
    let child = ended_child(&world, parent, "say x").await;
    // It takes nothing within a turn: the notice waits, and is listed with its carrier.
    until_async("the notice", || async {
        let messages = world.engine.messages(&me(), parent).await.unwrap().items;
        (!messages.is_empty()).then_some(())
    })
    .await;
    assert_eq!(inbox(&world, &agent(parent)).await[0].claimed.as_deref(), Some("runtime"));
    let handed = world.fake.heard_by(parent).len();
    world.engine.ack_run(&agent(parent), child, RunNumber(1), false).await.unwrap();
    let dropped = until_async("the last word", || async {
        let messages = world.engine.messages(&me(), parent).await.unwrap().items;
        messages.into_iter().find(|posted| posted.receipt != Receipt::Accepted)
    })
    .await;
    assert!(
        matches!(dropped.receipt, Receipt::Returned { reason: ReturnReason::AlreadyRead, .. }),
        "{dropped:?}"
    );
    world.fake.gate("busy").open();
    world.fake.gate("later").open();
    let record = world.ended(parent).await;
    assert_eq!(told(&world, parent), Vec::<String>::new());
    assert_eq!(world.fake.heard_by(parent).len(), handed + 1, "only its end");
    assert!(!record.marks.contains(&Mark::MessagesReturned), "nobody's message came back");
    assert_eq!(receipts(&world, child).len(), 1);
}

#[tokio::test]
async fn result_18_an_owner_does_not_end_with_results_that_it_has_not_read() {
    let world = world(NEVER, NEVER).await;
    let parent = busy_parent(&world, "on-continue say summed up\ngate busy\nsay too early").await;
    let children =
        [ended_child(&world, parent, "say x").await, ended_child(&world, parent, "fail it broke").await];
    world.fake.gate("busy").open();
    let record = world.ended(parent).await;
    assert_eq!(record.result.unwrap().preview, "summed up");
    assert_eq!(told(&world, parent), children.map(|child| format!("{child}.1")), "in one turn, in order");
    for child in children {
        until_acknowledged(&world, child).await;
        assert_eq!(receipts(&world, child).len(), 1);
    }
    assert_eq!(world.engine.inbox_of_all(&me(), 10).await.unwrap().len(), 1, "only its own result is left");
}

#[tokio::test]
async fn result_18_a_child_that_ends_while_its_owner_waits_for_it_is_told_before_the_owner_ends() {
    let world = world(NEVER, NEVER).await;
    let parent = busy_parent(&world, "on-continue say with it\ngate busy\nsay without it").await;
    let child =
        world.engine.spawn(&agent(parent), delegated(plain("gate end\nsay x"))).await.unwrap().record.id;
    world.fake.gate("busy").open();
    world.until_status(parent, Status::Waiting).await;
    world.fake.gate("end").open();
    let record = world.ended(parent).await;
    assert_eq!(record.result.unwrap().preview, "with it");
    assert_eq!(told(&world, parent), once(child));
    until_acknowledged(&world, child).await;
}

#[tokio::test]
async fn result_16_an_idle_owner_is_woken_three_times_and_then_results_are_held() {
    let world = world(SOON, NEVER).await;
    let warm = SpawnRequest { mode: Mode::Warm, ..scripted("gate busy\nsay ready") };
    let parent = world.spawn(warm).await;
    world.fake.gate("busy").reached().await;
    let child = ended_resumable(&world, parent).await;
    until_acknowledged(&world, child).await;
    world.fake.gate("busy").open();
    world.until_status(parent, Status::Idle).await;
    let run = |record: &SubagentRecord| record.run.0;
    let first = run(&world.engine.get(&me(), parent).await.unwrap());
    for wake in 1..=3 {
        next_run(&world, parent, child).await;
        until_async("it to be woken", || async {
            let record = world.engine.get(&me(), parent).await.unwrap();
            (record.status == Status::Idle && run(&record) == first + wake).then_some(())
        })
        .await;
    }
    let held = next_run(&world, parent, child).await;
    // Somebody else is told of what ended later: the time of the held one is over.
    let other = world.spawn(scripted("gate other\nsay done")).await;
    world.fake.gate("other").reached().await;
    ended_child(&world, other, "say x").await;
    until_told(&world, other, 1).await;
    let record = world.engine.get(&me(), parent).await.unwrap();
    assert_eq!((record.status, run(&record)), (Status::Idle, first + 3));
    let listed = inbox(&world, &agent(parent)).await;
    assert_eq!(
        listed.iter().map(|item| item.delivery_id.clone()).collect::<Vec<_>>(),
        std::slice::from_ref(&held)
    );

    // When somebody speaks to it, it hears of the rest.
    let steer = SteerRequest { message: String::from("say hello"), ..SteerRequest::default() };
    world.engine.steer(&me(), parent, steer).await.unwrap();
    until_async("the held one", || async { told(&world, parent).contains(&held).then_some(()) }).await;
    assert_eq!(told(&world, parent).iter().filter(|name| **name == held).count(), 1);
    world.fake.gate("other").open();
}

/// A child whose session can be continued.
async fn ended_resumable(world: &World, parent: SubagentId) -> SubagentId {
    world.engine.spawn(&agent(parent), waiting(delegated(scripted("say x")))).await.unwrap().record.id
}

/// The next run of a child, asked for by its parent; the name of its delivery.
async fn next_run(world: &World, parent: SubagentId, child: SubagentId) -> String {
    let request =
        ResumeRequest { prompt: String::from("say more"), wait_ms: Some(20_000), ..ResumeRequest::default() };
    let reply = world.engine.resume(&agent(parent), child, request).await.unwrap();
    assert!(reply.ended);
    format!("{child}.{}", reply.run.unwrap())
}

#[tokio::test]
async fn result_12_when_an_owner_is_gone_its_owner_is_told_after_the_bound() {
    let world = world(SOON, Duration::from_millis(400)).await;
    let parent = busy_parent(&world, "gate busy").await;
    let child =
        world.engine.spawn(&agent(parent), delegated(plain("gate end\nsay x"))).await.unwrap().record.id;
    let gone = stop_alone(&world, parent).await;
    world.engine.ack(&me(), vec![parent], false).await.unwrap();
    // Whoever waits for anything is woken by that.
    let asked = {
        let engine = world.engine.clone();
        tokio::spawn(async move { engine.inbox(&me(), 10, Some(Duration::from_secs(25))).await.unwrap() })
    };
    world.fake.gate("end").reached().await;
    world.fake.gate("end").open();
    let ended = world.ended(child).await;
    assert_eq!(inbox(&world, &agent(parent)).await.len(), 1, "held for it until then");
    let begun = tokio::time::Instant::now();
    let items = asked.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "told when it was due");
    assert_eq!(
        (items[0].delivery_id.clone(), items[0].requester.as_str()),
        (format!("{child}.1"), "user:me")
    );
    let escalated =
        world.all_events().into_iter().find(|event| event.kind.name() == "delivery_escalated").unwrap();
    let since = gone.completed_at.unwrap().max(ended.completed_at.unwrap());
    assert!(escalated.at.since(since) >= Duration::from_millis(400));

    // Both may, and it counts once.
    for owner in [me(), agent(parent)] {
        let reply = world.engine.ack_run(&owner, child, RunNumber(1), false).await.unwrap();
        assert_eq!(reply.acknowledged, [child], "{:?}", reply.refused);
    }
    assert_eq!(receipts(&world, child), [me().requester]);
    assert_eq!(world.engine.inbox_of_all(&me(), 10).await.unwrap(), []);
}

/// The result is of a run whose subagent is at work again: nothing ends when it is told.
#[tokio::test]
async fn result_12_a_result_of_an_earlier_run_wakes_whoever_it_is_told_to() {
    let world = world(SOON, Duration::from_millis(1_500)).await;
    let parent = busy_parent(&world, "gate busy").await;
    let child = delegated(scripted("gate end\nsay x"));
    let child = world.engine.spawn(&agent(parent), child).await.unwrap().record.id;
    world.fake.gate("end").reached().await;
    stop_alone(&world, parent).await;
    world.engine.ack(&me(), vec![parent], false).await.unwrap();
    world.fake.gate("end").open();
    world.ended(child).await;
    let resume = ResumeRequest { prompt: String::from("gate again\nsay y"), ..ResumeRequest::default() };
    world.engine.resume(&me(), child, resume).await.unwrap();
    world.fake.gate("again").reached().await;
    let begun = tokio::time::Instant::now();
    let items = world.engine.inbox(&me(), 10, Some(Duration::from_secs(25))).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "told when it was due");
    assert_eq!(items.iter().map(|item| item.delivery_id.clone()).collect::<Vec<_>>(), once(child));
    assert_eq!(world.status(child).await, Status::Running);
    world.fake.gate("again").open();
}

#[tokio::test]
async fn result_12_the_owner_that_is_gone_may_still_read_it_first() {
    let world = world(SOON, SOON).await;
    let parent = busy_parent(&world, "gate busy").await;
    let child =
        world.engine.spawn(&agent(parent), delegated(plain("gate end\nsay x"))).await.unwrap().record.id;
    stop_alone(&world, parent).await;
    world.fake.gate("end").open();
    until_async("the escalation", || async {
        inbox(&world, &me()).await.iter().any(|item| item.record.id == child).then_some(())
    })
    .await;
    let reply = world.engine.ack_run(&agent(parent), child, RunNumber(1), false).await.unwrap();
    assert_eq!(reply.acknowledged, [child]);
    assert!(
        inbox(&world, &me()).await.iter().all(|item| item.record.id != child),
        "no channel carries it again"
    );
    assert_eq!(receipts(&world, child), [Requester::subagent(parent)]);
}

#[tokio::test]
async fn result_12_of_a_line_of_owners_the_first_that_is_there_is_told() {
    let world = world(SOON, SOON).await;
    let root = busy_parent(&world, "gate busy\nsay done").await;
    let middle = world.engine.spawn(&agent(root), scripted("gate middle")).await.unwrap().record.id;
    let parent = world.engine.spawn(&agent(middle), scripted("gate parent")).await.unwrap().record.id;
    world.fake.gate("parent").reached().await;
    let child =
        world.engine.spawn(&agent(parent), delegated(plain("gate end\nsay x"))).await.unwrap().record.id;
    stop_alone(&world, middle).await;
    stop_alone(&world, parent).await;
    world.fake.gate("end").open();
    until_async("the root to hear of it", || async {
        told(&world, root).contains(&format!("{child}.1")).then_some(())
    })
    .await;
    until_acknowledged(&world, child).await;
    assert_eq!(receipts(&world, child), [Requester::subagent(root)]);
    world.fake.gate("busy").open();
}

#[tokio::test]
async fn result_17_a_notice_to_an_owner_that_is_stopped_is_kept_for_its_next_run() {
    let world = world_of(Scripted::at_boundary(), SOON, NEVER).await;
    let parent = busy_parent(&world, "gate busy\nsay done").await;
    let child = ended_child(&world, parent, "say x").await;
    until_async("the notice", || async {
        let messages = world.engine.messages(&me(), parent).await.unwrap().items;
        (!messages.is_empty()).then_some(())
    })
    .await;
    stop_alone(&world, parent).await;
    until_async("the result to be free again", || async {
        let items = inbox(&world, &agent(parent)).await;
        assert_eq!(items.len(), 1, "kept");
        items[0].claimed.is_none().then_some(())
    })
    .await;
    assert_eq!(told(&world, parent), Vec::<String>::new());
    // Its next session hears of it, though the same notice came back once.
    let resume = ResumeRequest {
        prompt: String::from("on-continue say read it\ngate again\nsay too early"),
        ..ResumeRequest::default()
    };
    world.engine.resume(&me(), parent, resume).await.unwrap();
    world.fake.gate("again").reached().await;
    until_async("the next notice", || async {
        let messages = world.engine.messages(&me(), parent).await.unwrap().items;
        messages.iter().any(|posted| posted.receipt == Receipt::Accepted).then_some(())
    })
    .await;
    world.fake.gate("again").open();
    let record = world.ended(parent).await;
    assert_eq!(record.result.unwrap().preview, "read it");
    assert_eq!(told(&world, parent), once(child));
    until_acknowledged(&world, child).await;
}

#[tokio::test]
async fn result_10_a_notice_that_is_not_taken_is_tried_again_after_growing_pauses() {
    let world = world(SOON, NEVER).await;
    let parent = busy_parent(&world, "steers decline\ngate busy\nsteers take\nawait steer\nsay done").await;
    let child = ended_child(&world, parent, "say x").await;
    let listed = until_async("two tries", || async {
        inbox(&world, &agent(parent)).await.into_iter().find(|item| item.tries == 2 && item.claimed.is_none())
    })
    .await;
    assert_eq!(listed.delivery_id, format!("{child}.1"), "it is listed all the while");
    // Others are not held up by it.
    let other = world.spawn(scripted("gate other\nsay done")).await;
    world.fake.gate("other").reached().await;
    ended_child(&world, other, "say y").await;
    until_told(&world, other, 1).await;
    world.fake.gate("busy").open();
    world.fake.gate("other").open();
    until_acknowledged(&world, child).await;
    let events = world.all_events();
    let at = |kind: &str| -> Vec<_> {
        let of = events.iter().filter(|event| event.subagent == child && event.kind.name() == kind);
        of.map(|event| event.at).collect()
    };
    let (tries, failures) = (at("delivery_claimed"), at("delivery_returned"));
    assert_eq!((tries.len(), failures.len()), (3, 2));
    assert!(tries[1].since(failures[0]) >= Duration::from_secs(1), "{tries:?} {failures:?}");
    assert!(tries[2].since(failures[1]) >= Duration::from_secs(2), "{tries:?} {failures:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_06_a_thousand_children_of_one_busy_owner_are_told_each_once() {
    let world = world(SOON, NEVER).await;
    let parent = busy_parent(&world, "gate busy\nsay done").await;
    let mut children = Vec::new();
    for _ in 0..1_000 {
        children.push(
            world.engine.spawn(&agent(parent), delegated(plain("gate end\nsay x"))).await.unwrap().record.id,
        );
    }
    world.fake.gate("end").reached_by(1_000).await;
    world.fake.gate("end").open();
    until_async("all to be consumed", || async {
        inbox(&world, &agent(parent))
            .await
            .is_empty()
            .then_some(())
            .filter(|()| told(&world, parent).len() >= 1_000)
    })
    .await;
    world.fake.gate("busy").open();
    assert_eq!(world.ended(parent).await.status, Status::Completed);
    let mut heard = BTreeMap::<String, usize>::new();
    for name in told(&world, parent) {
        *heard.entry(name).or_default() += 1;
    }
    assert_eq!(heard.len(), 1_000);
    assert!(heard.values().all(|count| *count == 1), "{heard:?}");
    let events = world.all_events();
    let all = events.iter().filter(|event| matches!(event.kind, EventKind::Acknowledged { .. })).count();
    assert_eq!(all, 1_000, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_09_a_restart_finds_what_is_to_be_told_behind_a_thousand_others() {
    let mut world = world(NEVER, NEVER).await;
    for _ in 0..1_100 {
        world.spawn(plain("say x")).await;
    }
    until_async("all ends", || async { (world.engine.live_count() == 0).then_some(()) }).await;
    let parent = busy_parent(&world, "on-continue gate busy\ngate busy\nsay done").await;
    let child = ended_child(&world, parent, "say x").await;
    assert_eq!(told(&world, parent), Vec::<String>::new());
    world.engine.shutdown(Shutdown::Keep).await;
    world.engine = engine_with(&world.dir, &world.fake, &world.store, SOON, NEVER).await;
    assert_eq!(until_told(&world, parent, 1).await, once(child));
    until_acknowledged(&world, child).await;
    world.fake.gate("busy").open();
}

#[tokio::test]
async fn steer_a_message_to_an_owner_does_not_forge_a_receipt() {
    let world = world(NEVER, NEVER).await;
    let parent = busy_parent(&world, "gate busy\nawait steer\nsay done").await;
    let child = ended_child(&world, parent, "say x").await;
    let steer = SteerRequest {
        message: String::from("hello"),
        attachments: vec![],
        mode: SteerMode::Steer,
        idempotency_key: Some(format!("{child}.1.0")),
        wait_ms: Some(20_000),
    };
    let reply = world.engine.steer(&me(), parent, steer).await.unwrap();
    assert!(matches!(reply.message.unwrap().receipt, Receipt::Delivered { .. }));
    assert_eq!(inbox(&world, &agent(parent)).await.len(), 1, "only what the runtime sends is a notice");
    world.fake.gate("busy").open();
}

#[tokio::test]
async fn stop_21_an_interrupt_stops_what_the_turn_waits_for_and_its_notices_begin_no_turn() {
    for background in [false, true] {
        let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
        let (fake, store) = (Scripted::default(), Arc::new(MemoryStore::default()));
        let quick = EngineConfig {
            tell_after: Duration::from_millis(10),
            interrupt_stops_background: background,
            ..config(dir.path(), roomy())
        };
        let engine = start_with(quick, &fake, Arc::clone(&store) as _, pool(dir.path())).await;
        let world = World { engine, fake, store, dir };
        let parent = world
            .spawn(SpawnRequest { mode: Mode::Warm, ..scripted("tool work\ngate never\nsay never") })
            .await;
        world.fake.gate("never").reached().await;
        let own = |mode, script: &str| SpawnRequest { mode, ..under(parent, scripted(script)) };
        let spawn = async |mode| {
            world.engine.spawn(&agent(parent), own(mode, "gate theirs\nsay theirs")).await.unwrap().record.id
        };
        let front = spawn(Mode::Sync).await;
        let below =
            world.engine.spawn(&agent(front), under(front, scripted("gate theirs"))).await.unwrap().record.id;
        let back = spawn(Mode::Async).await;
        let apart = spawn(Mode::Detached).await;
        let interrupt = SteerRequest { mode: SteerMode::Interrupt, ..SteerRequest::default() };
        world.engine.steer(&me(), parent, interrupt).await.unwrap();
        for id in [front, below] {
            assert_eq!(world.ended(id).await.status, Status::Stopped);
        }
        let stop = world.engine.get(&me(), front).await.unwrap().stop.unwrap();
        assert_eq!((stop.actor.as_str(), stop.cause), ("user:me", Cause::ParentInterrupted));
        if background {
            assert_eq!(world.ended(back).await.stop.unwrap().cause, Cause::ParentInterrupted);
        } else {
            assert_eq!(world.status(back).await, Status::Running);
        }
        assert_eq!(world.status(apart).await, Status::Running);
        world.until_status(parent, Status::Idle).await;
        // Long after it would have been told.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let record = world.engine.get(&me(), parent).await.unwrap();
        assert_eq!((record.status, record.run), (Status::Idle, RunNumber(1)), "{record:?}");
        let unread = world.engine.inbox(&agent(parent), 10, None).await.unwrap();
        assert!(unread.iter().any(|item| item.record.id == front), "it can be read: {unread:?}");
        world.fake.gate("theirs").open();
    }
}
