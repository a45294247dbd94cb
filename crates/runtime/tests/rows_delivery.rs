//! Rows RESULT-06 to RESULT-13 for carriers: claims, receipts, the inbox that waits, and a thousand ends at once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use subagent_model::request::{ClaimRequest, InboxItem, ResumeRequest, ReturnRequest, SpawnRequest};
use subagent_model::{ErrorCode, EventKind, Mode, Requester, RunNumber, Status, SubagentId};
use subagent_runtime::{AckTarget, Caller, Engine, EngineConfig, Limits, Runtime, Shutdown};
use subagent_store::Store;
use subagent_testkit::until_async;

use support::{World, config, me, plain, pool, scripted, start_with, waiting, world};

fn claim_by(carrier: &str) -> ClaimRequest {
    ClaimRequest { carrier: carrier.to_owned(), hold_ms: Some(60_000), limit: Some(1_000), wait_ms: None }
}

fn give_back(carrier: &str, items: &[InboxItem]) -> ReturnRequest {
    let deliveries = items.iter().map(|item| item.delivery_id.clone()).collect();
    ReturnRequest { carrier: carrier.to_owned(), deliveries, reason: String::from("the line is dead") }
}

fn agent(id: SubagentId) -> Caller {
    Caller { requester: Requester::subagent(id) }
}

fn ids(items: &[InboxItem]) -> Vec<String> {
    items.iter().map(|item| item.delivery_id.clone()).collect()
}

async fn inbox(world: &World) -> Vec<InboxItem> {
    world.engine.inbox(&me(), 1_000, None).await.unwrap()
}

#[tokio::test]
async fn result_08_a_claimed_result_is_for_its_carrier_alone() {
    let world = world(Limits::default()).await;
    let id = world.engine.spawn(&me(), waiting(scripted("say x"))).await.unwrap().record.id;
    let claimed = world.engine.claim(&me(), claim_by("hook")).await.unwrap();
    assert_eq!(ids(&claimed), [format!("{id}.1")]);
    assert_eq!((claimed[0].tries, claimed[0].claimed.as_deref()), (1, Some("hook")));
    assert_eq!(world.engine.claim(&me(), claim_by("feed")).await.unwrap(), [], "another one gets nothing");
    assert_eq!(inbox(&world).await[0].claimed.as_deref(), Some("hook"), "it is listed, with who has it");

    // A stranger to the claim gives nothing back.
    world.engine.give_back(&me(), give_back("feed", &claimed)).await.unwrap();
    assert_eq!(world.engine.claim(&me(), claim_by("feed")).await.unwrap(), []);
    world.engine.give_back(&me(), give_back("hook", &claimed)).await.unwrap();
    let again = world.engine.claim(&me(), claim_by("feed")).await.unwrap();
    assert_eq!((ids(&again), again[0].tries), (ids(&claimed), 2), "the same name, and one more try");

    // The receipt is its requester's, whoever carries it.
    let reply = world.engine.ack_run(&me(), id, RunNumber(1), false).await.unwrap();
    assert_eq!((reply.acknowledged.len(), reply.unconsumed), (1, 0));
    assert_eq!(world.engine.claim(&me(), claim_by("feed")).await.unwrap(), [], "no channel carries it again");
    assert_eq!(inbox(&world).await, []);
}

#[tokio::test]
async fn result_08_a_claim_whose_carrier_is_gone_runs_out() {
    let world = world(Limits::default()).await;
    world.engine.spawn(&me(), waiting(scripted("say x"))).await.unwrap();
    let short = ClaimRequest { hold_ms: Some(300), ..claim_by("hook") };
    assert_eq!(world.engine.claim(&me(), short).await.unwrap().len(), 1);
    // The next carrier waits: it gets it once the claim is over, without an end that would wake it.
    let patient = ClaimRequest { wait_ms: Some(20_000), ..claim_by("feed") };
    let claimed = world.engine.claim(&me(), patient).await.unwrap();
    assert_eq!((claimed.len(), claimed[0].tries), (1, 2));
    let events = world.all_events();
    let times: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::DeliveryClaimed { .. }))
        .map(|event| event.at)
        .collect();
    assert!(times[1].since(times[0]) >= Duration::from_millis(300), "not before: {times:?}");
}

#[tokio::test]
async fn result_08_names_that_mean_nothing_are_refused() {
    let world = world(Limits::default()).await;
    for carrier in [String::new(), "x".repeat(513)] {
        let refused = world.engine.claim(&me(), ClaimRequest { carrier, ..claim_by("") }).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidRequest);
    }
    let unnamed = ReturnRequest {
        carrier: String::from("hook"),
        deliveries: vec![String::from("nothing")],
        reason: String::new(),
    };
    assert_eq!(world.engine.give_back(&me(), unnamed).await.unwrap_err().code, ErrorCode::InvalidRequest);
}

#[tokio::test]
async fn result_13_a_receipt_is_for_one_run_and_from_its_requester() {
    let world = world(Limits::default()).await;
    let id = world.engine.spawn(&me(), waiting(scripted("say one"))).await.unwrap().record.id;
    let resume =
        ResumeRequest { prompt: String::from("say two"), wait_ms: Some(20_000), ..ResumeRequest::default() };
    world.engine.resume(&me(), id, resume).await.unwrap();
    assert_eq!(ids(&inbox(&world).await), [format!("{id}.1"), format!("{id}.2")]);
    let stranger = Caller { requester: Requester::from("api:other") };
    let reply = world.engine.ack_run(&stranger, id, RunNumber(1), false).await.unwrap();
    assert_eq!((reply.acknowledged, reply.refused[0].code), (vec![], ErrorCode::NotYours));
    let target = AckTarget { id, run: Some(RunNumber(2)) };
    world.engine.acknowledge(&me(), vec![target], false).await.unwrap();
    let left = inbox(&world).await;
    assert_eq!(ids(&left), [format!("{id}.1")], "and of no other");
    assert_eq!(left[0].record.result.as_ref().unwrap().preview, "one");
    let no_such = world.engine.ack_run(&me(), id, RunNumber(3), false).await.unwrap();
    assert_eq!(no_such.refused.len(), 1);
}

#[tokio::test]
async fn result_09_what_is_unread_and_what_was_claimed_is_there_after_a_restart_by_the_same_name() {
    let world = world(Limits::default()).await;
    for _ in 0..3 {
        world.engine.spawn(&me(), waiting(scripted("say x"))).await.unwrap();
    }
    let one = ClaimRequest { limit: Some(1), ..claim_by("hook") };
    let claimed = world.engine.claim(&me(), one).await.unwrap();
    let before = inbox(&world).await;
    world.engine.ack_run(&me(), before[2].record.id, RunNumber(1), false).await.unwrap();
    let world = world.restarted(Limits::default(), async || {}).await;
    let after = inbox(&world).await;
    assert_eq!(ids(&after), ids(&before[..2]));
    assert_eq!(after[0].notice, before[0].notice);
    assert_eq!(after[0].claimed.as_deref(), Some("hook"), "a claim outlives the daemon, its bound with it");
    assert_eq!(ids(&claimed), ids(&after[..1]));
    let other = world.engine.claim(&me(), claim_by("feed")).await.unwrap();
    assert_eq!(ids(&other), ids(&after[1..]));
}

#[tokio::test]
async fn result_06_an_inbox_that_waits_asks_whether_there_is_anything() {
    let world = world(Limits::default()).await;
    // Asked before the end, it wakes.
    let id = world.spawn(scripted("gate end\nsay x")).await;
    let patient = Some(Duration::from_secs(20));
    let asked = {
        let engine = world.engine.clone();
        tokio::spawn(async move { engine.inbox(&me(), 10, patient).await.unwrap() })
    };
    world.fake.gate("end").reached().await;
    assert!(!asked.is_finished());
    world.fake.gate("end").open();
    assert_eq!(ids(&asked.await.unwrap()), [format!("{id}.1")]);
    // Asked after it, again and again, it answers at once.
    for _ in 0..2 {
        let begun = tokio::time::Instant::now();
        assert_eq!(world.engine.inbox(&me(), 10, patient).await.unwrap().len(), 1);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    // With nothing in it the time runs out.
    world.engine.ack(&me(), vec![id], false).await.unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(world.engine.inbox(&me(), 10, Some(Duration::from_millis(100))).await.unwrap(), []);
    assert!(begun.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn result_06_an_end_for_somebody_else_does_not_end_the_wait() {
    let world = world(Limits::default()).await;
    let other = Caller { requester: Requester::from("api:other") };
    let asked = {
        let (engine, other) = (world.engine.clone(), other.clone());
        tokio::spawn(async move { engine.inbox(&other, 10, Some(Duration::from_secs(20))).await.unwrap() })
    };
    let detached = SpawnRequest { mode: Mode::Detached, ..scripted("say x") };
    world.engine.spawn(&other, waiting(detached)).await.unwrap();
    world.engine.spawn(&me(), waiting(scripted("say x"))).await.unwrap();
    assert!(!asked.is_finished(), "neither one that nobody is told of nor one of another");
    let id = world.engine.spawn(&other, waiting(scripted("say x"))).await.unwrap().record.id;
    assert_eq!(ids(&asked.await.unwrap()), [format!("{id}.1")]);
}

const MANY: usize = 1_000;

/// The runtime itself does not tell: only carriers do.
fn crowded(world: &World) -> EngineConfig {
    let limits = Limits {
        running: 3_000,
        breadth: 3_000,
        tree_total: 3_000,
        rate: 100_000,
        queue: 3_000,
        ..Limits::default()
    };
    EngineConfig { tell_after: Duration::from_mins(10), ..config(world.dir.path(), limits) }
}

async fn crowded_engine(world: &World) -> Engine {
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    start_with(crowded(world), &world.fake, store, pool(world.dir.path())).await
}

/// A world with a parent in the middle of a turn, which it is in after a restart as well.
async fn with_busy_parent() -> (World, SubagentId) {
    let mut world = world(Limits::default()).await;
    world.engine.shutdown(Shutdown::Keep).await;
    world.engine = crowded_engine(&world).await;
    let parent = world.spawn(scripted("on-continue gate busy\ngate busy\nsay done")).await;
    world.fake.gate("busy").reached().await;
    (world, parent)
}

async fn children(world: &World, parent: SubagentId, many: usize, script: &str) -> BTreeSet<SubagentId> {
    let mut spawned = BTreeSet::new();
    for _ in 0..many {
        let reply = world.engine.spawn(&agent(parent), plain(script)).await.unwrap();
        spawned.insert(reply.record.id);
    }
    spawned
}

/// Carriers side by side that claim, hand over and acknowledge until nothing is left; what each delivery was handed over.
async fn carry(world: &World, owner: &Caller, until: usize) -> BTreeMap<String, usize> {
    let handed = Arc::new(std::sync::Mutex::new(BTreeMap::<String, usize>::new()));
    let carriers = (0..4).map(|number| {
        let (engine, owner, handed) = (world.engine.clone(), owner.clone(), Arc::clone(&handed));
        tokio::spawn(async move {
            while handed.lock().unwrap().len() < until {
                let request = ClaimRequest {
                    limit: Some(37),
                    wait_ms: Some(200),
                    ..claim_by(&format!("carrier-{number}"))
                };
                for item in engine.claim(&owner, request).await.unwrap() {
                    *handed.lock().unwrap().entry(item.delivery_id).or_default() += 1;
                    let reply = engine.ack_run(&owner, item.record.id, item.run, false).await.unwrap();
                    assert_eq!(reply.acknowledged, [item.record.id]);
                }
            }
        })
    });
    let carriers: Vec<_> = carriers.collect();
    for carrier in carriers {
        carrier.await.unwrap();
    }
    Arc::into_inner(handed).unwrap().into_inner().unwrap()
}

/// Each child was acknowledged once, and nothing is left.
async fn assert_each_once(world: &World, parent: SubagentId, children: &BTreeSet<SubagentId>) {
    assert_eq!(world.engine.inbox(&agent(parent), 1_000, None).await.unwrap(), []);
    let mut receipts = BTreeMap::<SubagentId, usize>::new();
    for event in world.all_events() {
        if matches!(event.kind, EventKind::Acknowledged { .. }) {
            *receipts.entry(event.subagent).or_default() += 1;
        }
    }
    assert_eq!(receipts.keys().copied().collect::<BTreeSet<_>>(), *children);
    assert!(receipts.values().all(|count| *count == 1), "{receipts:?}");
    assert_eq!(world.status(parent).await, Status::Running, "it was busy all the time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_06_a_thousand_ends_at_once_are_a_thousand_deliveries() {
    let (world, parent) = with_busy_parent().await;
    let spawned = children(&world, parent, MANY, "gate end\nsay x").await;
    world.fake.gate("end").reached_by(MANY).await;
    let first = {
        let engine = world.engine.clone();
        let wait = Some(Duration::from_secs(20));
        tokio::spawn(async move { engine.inbox(&agent(parent), 1_000, wait).await.unwrap() })
    };
    world.fake.gate("end").open();
    let handed = carry(&world, &agent(parent), MANY).await;
    assert!(!first.await.unwrap().is_empty(), "whoever waited was woken");
    assert!(handed.values().all(|count| *count == 1), "none twice: {handed:?}");
    assert_each_once(&world, parent, &spawned).await;
    world.fake.gate("busy").open();
    assert_eq!(world.ended(parent).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_09_a_thousand_ends_with_the_engine_gone_in_the_middle() {
    let (mut world, parent) = with_busy_parent().await;
    let mut spawned = children(&world, parent, MANY / 2, "gate early\nsay x").await;
    spawned.extend(children(&world, parent, MANY / 2, "gate never\nsay x").await);
    world.fake.gate("early").reached_by(MANY / 2).await;
    world.fake.gate("never").reached_by(MANY / 2).await;
    world.fake.gate("early").open();
    let owner = agent(parent);
    let early = carry(&world, &owner, MANY / 5).await;
    // These are on their way when the engine goes, and nobody ever hears whether they arrived.
    let lost = ClaimRequest { hold_ms: Some(1), limit: Some(100), wait_ms: Some(20_000), ..claim_by("lost") };
    let lost = ids(&world.engine.claim(&owner, lost).await.unwrap());
    assert!(!lost.is_empty());
    world.engine.shutdown(Shutdown::Keep).await;
    world.engine = crowded_engine(&world).await;
    // What ran in it is lost with it, and is told as well.
    let late = carry(&world, &owner, MANY - early.len()).await;
    assert!(early.values().chain(late.values()).all(|count| *count == 1));
    assert!(early.keys().all(|id| !late.contains_key(id)), "none twice");
    assert!(lost.iter().all(|id| late.contains_key(id)), "again by the same name");
    until_async("the parent to go on", || async {
        (world.status(parent).await == Status::Running).then_some(())
    })
    .await;
    assert_each_once(&world, parent, &spawned).await;
}
