//! Rows of records, events and usage. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use subagent_model::request::{
    AnswerRequest, BudgetRequest, ClaimRequest, ListFilter, ResumeRequest, ReturnRequest, SpawnRequest,
    SteerMode, SteerRequest, StopRequest,
};
use subagent_model::{
    Budget, Capabilities, Choice, Cursor, EventKind, Mode, RequestNumber, RunNumber, StallPolicy, Status,
    Steering, SubagentId,
};
use subagent_provider::{Registry, Scripted};
use subagent_provider_cli::Exec;
use subagent_runtime::{Engine, Limits, Runtime};
use subagent_store::MemoryStore;
use subagent_testkit::until_async;
use support::{World, child, config, me, plain, pool, scripted, shell, under, waiting, world};

fn resume(prompt: &str) -> ResumeRequest {
    ResumeRequest { prompt: prompt.to_owned(), wait_ms: Some(20_000), ..ResumeRequest::default() }
}

fn steer(message: &str, mode: SteerMode) -> SteerRequest {
    SteerRequest { message: message.to_owned(), mode, ..SteerRequest::default() }
}

async fn until_kind(world: &World, id: SubagentId, kind: &str) {
    until_async(kind, || async { world.all_kinds(id).contains(&kind).then_some(()) }).await;
}

/// A world with a provider whose children take messages at boundaries only, and with short times.
async fn tour_world() -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let (fake, store) = (Scripted::default(), Arc::new(MemoryStore::default()));
    let mut config = config(dir.path(), Limits { running: 20, ..Limits::default() });
    config.escalate_after = Duration::from_millis(50);
    config.look_every = Duration::from_millis(20);
    let boundary = Capabilities { steering: Steering::AtBoundary, ..Scripted::all() };
    let registry = Registry::default()
        .with(Exec)
        .with(fake.clone())
        .with(fake.also("plain", Capabilities::default()))
        .with(fake.also("boundary", boundary));
    let engine =
        Engine::start(config, Arc::clone(&store) as _, registry, Some(pool(dir.path()))).await.unwrap();
    World { engine, fake, store, dir }
}

/// Parents, processes, resumes, warm ones.
async fn tour_of_lives(tour: &World) {
    let parent = tour.spawn(scripted("gate go\nsay parent")).await;
    let below = tour.spawn(under(parent, scripted("gate child"))).await;
    tour.fake.gate("go").open();
    tour.until_status(parent, Status::Waiting).await;
    tour.fake.gate("child").open();
    tour.ended(parent).await;
    let process = tour.spawn(shell("echo said; exec sleep 60")).await;
    tour.until_started(process).await;
    tour.engine.stop(&me(), process, StopRequest::default()).await.unwrap();
    tour.ended(process).await;
    tour.engine.ack(&me(), vec![parent, below, process], false).await.unwrap();
    let first = tour.engine.spawn(&me(), waiting(scripted("tool read\nturn\nsay one"))).await.unwrap().record;
    tour.engine.resume(&me(), first.id, resume("say two")).await.unwrap();
    let warm = SpawnRequest { mode: Mode::Warm, ..waiting(scripted("say one")) };
    let warm = tour.engine.spawn(&me(), warm).await.unwrap().record.id;
    tour.engine.resume(&me(), warm, resume("say two")).await.unwrap();
    tour.engine.stop(&me(), warm, StopRequest::default()).await.unwrap();
    assert!(tour.engine.gone(&me(), warm, Duration::from_secs(20)).await.unwrap());
    // A blank answer is asked for again; a quota is waited for.
    tour.engine.spawn(&me(), waiting(scripted("blank"))).await.unwrap();
    let parked = tour.spawn(scripted("fail quota_exhausted reset 600000 used up")).await;
    tour.until_status(parked, Status::Waiting).await;
}

/// Messages and interrupts, requests and their answers.
async fn tour_of_talks(tour: &World) {
    let turn = tour.spawn(scripted("await steer\nsteers decline\ngate never")).await;
    tour.engine.steer(&me(), turn, steer("one", SteerMode::Steer)).await.unwrap();
    until_kind(tour, turn, "message_delivered").await;
    tour.fake.gate("never").reached().await;
    tour.engine.steer(&me(), turn, steer("two", SteerMode::Steer)).await.unwrap();
    until_kind(tour, turn, "message_returned").await;
    tour.engine.steer(&me(), turn, steer("", SteerMode::Interrupt)).await.unwrap();
    tour.ended(turn).await;
    // What is handed over to a child that is gone was certainly not written.
    let goes = SpawnRequest { provider: String::from("boundary"), ..scripted("gate b\nsay x\ndone\nexit") };
    let goes = tour.spawn(goes).await;
    tour.fake.gate("b").reached().await;
    tour.engine.steer(&me(), goes, steer("say never", SteerMode::Steer)).await.unwrap();
    tour.fake.gate("b").open();
    tour.ended(goes).await;
    let asks = tour
        .spawn(scripted("start-ask execute ls\ntake-back\nask execute rm\ngate asked\nsay $answer"))
        .await;
    until_async("the request", || async {
        let open = tour.engine.requests(&me(), false).await.unwrap().items;
        open.iter().any(|open| open.request.number == RequestNumber(2)).then_some(())
    })
    .await;
    let always = AnswerRequest { choice: Some(Choice::AllowAlways), text: None, reason: None };
    tour.engine.answer(&me(), asks, RequestNumber(2), always).await.unwrap();
    tour.fake.gate("asked").reached().await;
    tour.engine.revoke(&me(), asks, RequestNumber(2)).await.unwrap();
    tour.fake.gate("asked").open();
    tour.ended(asks).await;
}

/// Limits, stalls and deliveries.
async fn tour_of_duties(tour: &World) {
    let budget = Budget { max_tokens: Some(100), ..Budget::default() };
    let spends = "use 90 0\nawait steer\ngate spends\nuse 900 0\ngate never";
    let spends = tour.spawn(SpawnRequest { budget, ..scripted(spends) }).await;
    tour.fake.gate("spends").reached().await;
    let more = BudgetRequest { max_tokens: Some(200), ..BudgetRequest::default() };
    tour.engine.change_budget(&me(), spends, more).await.unwrap();
    tour.fake.gate("spends").open();
    assert_eq!(tour.ended(spends).await.status, Status::Aborted);
    let stall = StallPolicy { after_ms: Some(100), kill_after_ms: None };
    let silent = tour.spawn(SpawnRequest { stall, ..scripted("gate silent\ndelta here\ngate again") }).await;
    until_kind(tour, silent, "stalled").await;
    tour.fake.gate("silent").open();
    until_kind(tour, silent, "revived").await;
    tour.fake.gate("again").open();
    let carrier = String::from("tour");
    let claim =
        ClaimRequest { carrier: carrier.clone(), hold_ms: None, limit: Some(1), wait_ms: Some(20_000) };
    let claimed = tour.engine.claim(&me(), claim).await.unwrap();
    let deliveries = vec![claimed[0].delivery_id.clone()];
    let back = ReturnRequest { carrier, deliveries, reason: String::from("it failed") };
    tour.engine.give_back(&me(), back).await.unwrap();
    // Its owner ends without a look at the result.
    let owner = tour.spawn(plain("gate owner")).await;
    let unread = tour.engine.spawn(&child(owner), waiting(plain("say unread"))).await.unwrap().record.id;
    tour.fake.gate("owner").open();
    until_kind(tour, unread, "delivery_escalated").await;
}

/// The names of the events in the schema that is published.
fn published() -> BTreeSet<String> {
    let schema = serde_json::to_value(schemars::schema_for!(EventKind)).unwrap();
    let kinds = schema["oneOf"].as_array().unwrap();
    kinds.iter().map(|kind| kind["properties"]["event"]["const"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn rec_03_every_event_is_really_sent_and_no_other_is() {
    let tour = tour_world().await;
    tour_of_lives(&tour).await;
    tour_of_talks(&tour).await;
    tour_of_duties(&tour).await;
    let mut sent: BTreeSet<_> = tour.all_events().iter().map(|event| event.kind.name().to_owned()).collect();
    // Late is what an attempt tells that is no longer the live one; here its driver is gone before.
    assert!(sent.insert(String::from("late")), "only a stale driver sends it");
    // A lease is renewed where several nodes share a store.
    assert!(sent.insert(String::from("renewed")), "one node has no need of it");
    let mut published = published();
    // Nothing gives it any more.
    published.remove("continued");
    assert_eq!(sent, published);
}

/// SM-10: a subscriber that was there before, and the spawn's reply.
#[tokio::test(flavor = "multi_thread")]
async fn sm_10_a_subscriber_sees_a_conversation_in_order_and_before_the_reply() {
    let world = world(Limits::default()).await;
    let engine = world.engine.clone();
    let subscriber = tokio::spawn(async move {
        let (mut seen, mut after) = (Vec::new(), Cursor(0));
        loop {
            let page = engine.events(&me(), after, 3, Some(Duration::from_secs(20))).await.unwrap();
            after = page.next;
            seen.extend(page.items);
            if seen.last().is_none_or(|event| matches!(event.kind, EventKind::Acknowledged { .. })) {
                return seen;
            }
        }
    });
    let id = world.spawn(scripted("gate a\nuse 1 1\ntool read\nturn\nsay done")).await;
    let told = world.engine.events(&me(), Cursor(0), 10, None).await.unwrap().items;
    assert!(matches!(told[0].kind, EventKind::Accepted { .. }), "it comes before the reply");
    world.fake.gate("a").open();
    world.ended(id).await;
    world.engine.ack(&me(), vec![id], false).await.unwrap();
    let seen = subscriber.await.unwrap();
    let numbers: Vec<_> = seen.iter().map(|event| event.seq.0).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
    let mut kinds: Vec<_> = seen.iter().map(|event| event.kind.name()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "accepted",
            "queued",
            "claimed",
            "started",
            "session_opened",
            "prompted",
            "progress",
            "turn_ended",
            "ended",
            "acknowledged"
        ]
    );
}

/// SM-09: every run, also the next ones and those of one process.
#[tokio::test(flavor = "multi_thread")]
async fn sm_09_each_run_of_a_subagent_begins_once_and_ends_once() {
    let world = world(Limits::default()).await;
    for mode in [Mode::Async, Mode::Warm] {
        let id = world.engine.spawn(&me(), waiting(SpawnRequest { mode, ..scripted("say one") })).await;
        let id = id.unwrap().record.id;
        let holds = format!("never {mode:?}");
        for prompt in ["say two", "refuse three", &format!("gate {holds}"), "say five"] {
            let wait_ms = (!prompt.starts_with("gate")).then_some(20_000);
            let reply = world.engine.resume(&me(), id, ResumeRequest { wait_ms, ..resume(prompt) }).await;
            if reply.unwrap().run == Some(RunNumber(4)) {
                world.fake.gate(&holds).reached().await;
                world.engine.steer(&me(), id, steer("", SteerMode::Interrupt)).await.unwrap();
                assert_eq!(world.ended(id).await.status, Status::Stopped);
            }
        }
        let mut runs: BTreeMap<RunNumber, Vec<&str>> = BTreeMap::new();
        let events = world.all_events();
        for event in events.iter().filter(|event| event.subagent == id) {
            runs.entry(event.run).or_default().push(event.kind.name());
        }
        assert_eq!(runs.len(), 5);
        for (run, kinds) in runs {
            let first = if run == RunNumber(1) { "accepted" } else { "resumed" };
            let starts = kinds.iter().filter(|kind| ["started", "woken"].contains(kind)).count();
            let ends = kinds.iter().filter(|kind| **kind == "ended").count();
            assert_eq!((kinds[0], starts, ends), (first, 1, 1), "{mode:?} {run}: {kinds:?}");
        }
        world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_07_session_and_transcript_are_named_and_stay() {
    let world = world(Limits::default()).await;
    let record = world.engine.spawn(&me(), waiting(scripted("say one"))).await.unwrap().record;
    let record = world.engine.resume(&me(), record.id, resume("say two")).await.unwrap().record;
    let opened: Vec<_> = world
        .all_events()
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::SessionOpened { session, .. } => Some((event.subagent, event.run, session)),
            _ => None,
        })
        .collect();
    let session = record.session.clone();
    assert!(session.is_some());
    assert_eq!(opened, [(record.id, RunNumber(1), session.clone()), (record.id, RunNumber(2), session)]);
    let record = world.engine.spawn(&me(), waiting(shell("echo words"))).await.unwrap().record;
    world.engine.ack(&me(), vec![record.id], false).await.unwrap();
    let transcript = world.dir.path().join("data").join(record.transcript.unwrap());
    let mut segments =
        std::fs::read_dir(&transcript).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let has_words = |bytes: Vec<u8>| bytes.windows(5).any(|window| window == b"words");
    assert!(segments.any(has_words), "the log is there after the end: {transcript:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_09_the_journal_of_a_long_conversation_holds_facts_only() {
    let world = world(Limits::default()).await;
    let line = "x".repeat(2_000);
    let script = format!("repeat 500 say {line}\nrepeat 2000 delta {line}\nrepeat 50 turn\nsay the end");
    let id = world.engine.spawn(&me(), waiting(scripted(&script))).await.unwrap().record.id;
    let sizes = world
        .all_events()
        .into_iter()
        .filter(|event| event.subagent == id)
        .map(|event| serde_json::to_string(&event).unwrap().len());
    let size: usize = sizes.sum();
    assert!(size < 60_000, "{size} bytes for a conversation of five megabytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_11_a_child_in_the_making_is_shown_as_what_it_is() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("before-open gate open\nsay done")).await;
    world.fake.gate("open").reached().await;
    let page = world.engine.list(&me(), ListFilter::default()).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].status), (1, Status::Running));
    assert!(page.damaged.is_empty() && page.items[0].session.is_none());
    world.fake.gate("open").open();
    assert_eq!(world.ended(id).await.status, Status::Completed);
}

/// REC-12 and REC-13.
#[tokio::test(flavor = "multi_thread")]
async fn rec_13_usage_is_counted_for_each_run_and_over_all_of_them() {
    let world = world(Limits::default()).await;
    let first = waiting(scripted("use 10 5 0.25\ncompact\nuse 1 1 0.25\nsay one"));
    let record = world.engine.spawn(&me(), first).await.unwrap().record;
    assert_eq!((record.usage.unwrap().total, record.compaction_count), (17, 1));
    // Work before a stop and before a failure counts.
    let id = record.id;
    world.engine.resume(&me(), id, resume("use 100 0\nrefuse no")).await.unwrap();
    let open = ResumeRequest { wait_ms: None, ..resume("use 1000 0\nturn\ngate never") };
    world.engine.resume(&me(), id, open).await.unwrap();
    until_async("the progress", || async {
        (world.engine.get(&me(), id).await.unwrap().turn_count == 1).then_some(())
    })
    .await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    let record = world.ended(id).await;
    assert_eq!(record.status, Status::Stopped);
    assert_eq!((record.run_usage.unwrap().total, record.usage.unwrap().total), (1_000, 1_117));
    let earlier: Vec<_> = record.earlier_runs.iter().map(|run| run.usage.unwrap().total).collect();
    assert_eq!((earlier, record.compaction_count), (vec![17, 100], 1));
    assert_eq!(record.usage.unwrap().cost_usd, Some(0.5));
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_15_what_nobody_reports_is_unknown_and_not_nothing() {
    let world = world(Limits::default()).await;
    for request in [plain("say x"), shell("echo x"), scripted("say x")] {
        let record = world.engine.spawn(&me(), waiting(request)).await.unwrap().record;
        assert_eq!((record.usage, record.run_usage), (None, None));
    }
    let record = world.engine.spawn(&me(), waiting(scripted("use 1 1\nsay x"))).await.unwrap().record;
    assert_eq!(record.usage.unwrap().cost_usd, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_16_tools_at_work_are_shown_by_call_and_are_gone_after_the_run() {
    let world = world(Limits::default()).await;
    let script =
        "tool start 1 read\ntool start 2 read\ntool end 9\ntool start 3 write\ntool end 3\nturn\ngate never";
    let id = world.spawn(scripted(script)).await;
    let tools = async || {
        let activity = world.engine.activity(&me()).await.unwrap();
        activity.into_iter().find(|activity| activity.id == id).map(|activity| activity.active_tools)
    };
    until_async("the tools", || async {
        (tools().await.is_some_and(|tools| tools == ["read", "read"])).then_some(())
    })
    .await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    let record = world.ended(id).await;
    assert_eq!(record.tool_uses, 3);
    assert_eq!(tools().await, None);
}
