//! Rows of the case lists: stops, shutdown, trouble with starts, limits. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use subagent_model::request::{ListFilter, SpawnRequest, StopRequest, WaitOptions};
use subagent_model::{
    Cause, ErrorCode, EventKind, Limit, Mark, Mode, Outcome, ProcessIdentity, QueueReason, Requester, Status,
    SubagentId, Timestamp,
};
use subagent_provider::Scripted;
use subagent_runtime::{Caller, Engine, Graces, Limits, Runtime, Shutdown};
use subagent_store::Store;
use subagent_testkit::until_async;

use support::{
    SlowStore, World, config, me, pool, scripted, shell, start, start_with, waiting, world,
    world_without_shims,
};

/// Limits that no tree of a test meets.
fn wide() -> Limits {
    Limits {
        running: 200,
        depth: 9,
        breadth: 10_000,
        tree_total: 100_000,
        rate: 100_000,
        queue: 100_000,
        ..Limits::default()
    }
}

fn under(parent: SubagentId, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { parent: Some(parent.to_string()), mode: Mode::Async, ..request }
}

fn because(cause: Cause) -> StopRequest {
    StopRequest { cause, ..StopRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_03_a_run_cancelled_in_the_queue_ends_without_a_process() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    world.spawn(scripted("gate a")).await;
    let request = SpawnRequest { prompt: String::from("x"), ..shell("cat") };
    let id = world.spawn(request).await;
    let reply = world.engine.stop(&me(), id, because(Cause::CallerCancelled)).await.unwrap();
    assert!(reply.accepted && reply.record.status == Status::Stopped);
    assert_eq!(reply.record.stop.as_ref().unwrap().cause, Cause::CallerCancelled);
    world.fake.gate("a").open();
    let last = world.spawn(scripted("say last")).await;
    assert_eq!(world.ended(last).await.status, Status::Completed);
    let record = world.engine.get(&me(), id).await.unwrap();
    assert_eq!((record.attempts.len(), record.started_at, record.result), (0, None, None));
    assert_eq!(record.marks, [Mark::NeverStarted]);
    assert_eq!(world.all_kinds(id), ["accepted", "queued", "stop_accepted", "ended"]);
    let dirs = std::fs::read_dir(world.dir.path().join("data/attempts")).into_iter().flatten().flatten();
    let made = dirs.filter(|dir| dir.file_name().to_string_lossy().starts_with(&id.to_string())).count();
    assert_eq!((made, world.notices(id).await), (0, 1), "no directory was made, and one notice is owed");
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_12_the_record_names_who_stopped_it_and_why() {
    let world = world(wide()).await;
    let parent = world.spawn(scripted("gate never")).await;
    let child = world.spawn(under(parent, scripted("gate never"))).await;
    let grandchild = world.spawn(under(child, scripted("gate never"))).await;
    let agent = Caller { requester: Requester::subagent(parent) };
    let asked = world.spawn(scripted("gate never")).await;
    let owned = world.spawn(under(parent, scripted("gate never"))).await;
    let cancelled = world.spawn(scripted("gate never")).await;
    let cut = world.spawn(SpawnRequest { deadline_ms: Some(20), ..scripted("gate never") }).await;
    let cut_process = world.spawn(SpawnRequest { deadline_ms: Some(20), ..shell("exec sleep 60") }).await;
    let shut = world.spawn(scripted("gate never")).await;
    let shut_process = world.spawn(shell("exec sleep 60")).await;
    world.until_started(shut_process).await;
    for id in [cut, cut_process] {
        let record = world.ended(id).await;
        assert_eq!((record.status, &record.stop), (Status::Aborted, &None), "a limit is nobody's stop");
        assert!(record.end_reason.unwrap().contains("deadline"));
        let events = world.all_events();
        let end = events.iter().find(|event| {
            let aborted = Outcome::Aborted { limit: Limit::Deadline };
            event.subagent == id
                && matches!(&event.kind, EventKind::Ended { outcome, .. } if *outcome == aborted)
        });
        assert!(end.is_some());
    }
    world.engine.stop(&me(), asked, StopRequest::default()).await.unwrap();
    world.engine.stop(&agent, owned, StopRequest::default()).await.unwrap();
    world.engine.stop(&me(), cancelled, because(Cause::CallerCancelled)).await.unwrap();
    world.engine.stop(&me(), parent, StopRequest::default()).await.unwrap();
    // A second one changes neither.
    world
        .engine
        .stop(&Caller { requester: Requester::from("user:else") }, parent, because(Cause::CallerCancelled))
        .await
        .unwrap();
    // Nobody is above itself.
    let refusal = world.engine.stop(&agent, parent, StopRequest::default()).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NotYours);
    for id in [asked, owned, cancelled, parent, child, grandchild] {
        world.ended(id).await;
    }
    world.engine.shutdown(Shutdown::Stop { within: Duration::from_secs(10) }).await;
    let by = |id: SubagentId| Requester::subagent(id).to_string();
    for (id, actor, cause) in [
        (asked, String::from("user:me"), Cause::Requested),
        (owned, by(parent), Cause::Requested),
        (cancelled, String::from("user:me"), Cause::CallerCancelled),
        (parent, String::from("user:me"), Cause::Requested),
        (child, by(parent), Cause::ParentStopped),
        (grandchild, by(child), Cause::ParentStopped),
        (shut, String::from("daemon"), Cause::Shutdown),
        (shut_process, String::from("daemon"), Cause::Shutdown),
    ] {
        let record = world.engine.get(&me(), id).await.unwrap();
        let stop = record.stop.unwrap();
        assert_eq!((record.status, stop.actor, stop.cause), (Status::Stopped, actor.clone(), cause));
        assert_eq!(record.end_reason.unwrap(), format!("stopped by {actor}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_15_nothing_that_is_spawned_during_a_cascade_escapes() {
    let world = world(wide()).await;
    let root = world.spawn(scripted("gate never")).await;
    let child = world.spawn(under(root, scripted("gate never"))).await;
    let spawners: Vec<_> = (0..4)
        .map(|_| {
            let engine = world.engine.clone();
            tokio::spawn(async move {
                let mut parent = child;
                let mut spawned = Vec::new();
                loop {
                    match engine.spawn(&me(), under(parent, scripted("gate never"))).await {
                        Ok(reply) => spawned.push(reply.record.id),
                        Err(refusal) => return (spawned, refusal.code),
                    }
                    // Now and then one level down.
                    parent = if spawned.len() % 3 == 0 { *spawned.last().unwrap() } else { child };
                }
            })
        })
        .collect();
    until_async("grandchildren", || async { (world.engine.live_count() > 40).then_some(()) }).await;
    let reply = world.engine.stop(&me(), root, StopRequest::default()).await.unwrap();
    assert!(reply.accepted && reply.cascaded.len() > 30, "{}", reply.cascaded.len());
    let mut below = BTreeSet::from([child]);
    for spawner in spawners {
        let (spawned, refusal) = spawner.await.unwrap();
        assert_eq!(refusal, ErrorCode::ParentEnded);
        below.extend(spawned);
    }
    let cascaded: BTreeSet<_> = reply.cascaded.into_iter().collect();
    assert_eq!(cascaded, below, "the one step took all there were");
    for id in &below {
        let record = world.ended(*id).await;
        assert_eq!((record.status, record.stop.unwrap().cause), (Status::Stopped, Cause::ParentStopped));
    }
    world.ended(root).await;
    let live = ListFilter { live: true, ..ListFilter::default() };
    assert!(world.engine.list(&me(), live).await.unwrap().items.is_empty());
    assert_eq!(world.engine.live_count(), 0);
}

/// The rest of STOP-15: the one in the middle was ended by itself before.
#[tokio::test(flavor = "multi_thread")]
async fn stop_15_a_cascade_reaches_below_an_ancestor_that_has_ended() {
    let world = world(wide()).await;
    let root = world.spawn(scripted("gate never")).await;
    let middle = world.spawn(under(root, scripted("gate never"))).await;
    let leaf = world.spawn(under(middle, scripted("gate leaf"))).await;
    let alone = StopRequest { cascade: false, ..StopRequest::default() };
    world.engine.stop(&me(), middle, alone).await.unwrap();
    assert_eq!(world.ended(middle).await.status, Status::Stopped);
    assert_eq!(world.status(leaf).await, Status::Running);
    let reply = world.engine.stop(&me(), root, StopRequest::default()).await.unwrap();
    assert_eq!(reply.cascaded, [leaf]);
    assert_eq!(world.ended(leaf).await.status, Status::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_22_what_was_stopped_is_not_started_again_by_the_next_engine() {
    let limits = Limits { running: 2, ..Limits::default() };
    let world = world(limits.clone()).await;
    let process = world.spawn(shell("exec sleep 60")).await;
    let inside = world.spawn(scripted("gate never")).await;
    world.until_started(process).await;
    world.until_started(inside).await;
    let queued = world.spawn(shell("echo never")).await;
    for id in [queued, process, inside] {
        world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
        world.ended(id).await;
    }
    let before: Vec<_> = [queued, process, inside].map(|id| world.all_kinds(id)).into();
    let world = world.restarted(limits, async || ()).await;
    // Whoever waits in the queue is served in its order: what comes after has its turn after them.
    for _ in 0..3 {
        assert_eq!(world.engine.spawn(&me(), waiting(shell("true"))).await.unwrap().record.attempts.len(), 1);
    }
    let after: Vec<_> = [queued, process, inside].map(|id| world.all_kinds(id)).into();
    assert_eq!(after, before);
    assert_eq!(world.status(queued).await, Status::Stopped);
}

/// The engine goes away between the accepted stop and the end: the next one carries the stop out and starts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn stop_22_a_stop_under_way_is_carried_out_by_the_next_engine() {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let (fake, store) = (Scripted::default(), Arc::new(subagent_store::MemoryStore::default()));
    let mut patient = config(dir.path(), Limits::default());
    patient.graces = Graces { term: Duration::from_mins(1), kill: Duration::from_secs(1) };
    let engine = start_with(patient, &fake, Arc::clone(&store) as _, pool(dir.path())).await;
    let world = World { engine, fake, store, dir };
    let id = world.spawn(shell("trap '' TERM; echo up; while :; do sleep 0.02; done")).await;
    until_async("output", || async {
        let page = world.engine.output(&me(), id, 0, None).await.unwrap();
        page.parts.iter().any(|part| part.text.contains("up")).then_some(())
    })
    .await;
    let child = world.process(id).await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert_eq!(world.status(id).await, Status::Stopping);
    let world = world.restarted(Limits::default(), async || ()).await;
    let record = world.ended(id).await;
    assert_eq!((record.status, record.attempts.len()), (Status::Stopped, 1));
    assert_eq!(record.stop.unwrap().actor, "user:me");
    assert!(!subagent_process::is_alive(&child));
    let kinds = world.all_kinds(id);
    assert_eq!(kinds, ["accepted", "queued", "claimed", "started", "stop_accepted", "ended"]);
    assert_eq!(world.notices(id).await, 1);
}

/// Spawns in a loop until refused; gives the accepted ones and the refusal.
fn spawn_until_refused(engine: &Engine) -> tokio::task::JoinHandle<(Vec<SubagentId>, ErrorCode)> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let mut spawned = Vec::new();
        loop {
            match engine.spawn(&me(), scripted("gate never")).await {
                Ok(reply) => spawned.push(reply.record.id),
                Err(refusal) => return (spawned, refusal.code),
            }
        }
    })
}

async fn shutdown_under_spawns(policy: Shutdown) -> (World, Vec<SubagentId>) {
    let world = world(wide()).await;
    let spawners: Vec<_> = (0..4).map(|_| spawn_until_refused(&world.engine)).collect();
    until_async("spawns", || async { (world.engine.live_count() > 20).then_some(()) }).await;
    let begun = Instant::now();
    world.engine.shutdown(policy).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "bounded");
    let known = world.store.list(&ListFilter { limit: Some(1_000_000), ..ListFilter::default() }).unwrap();
    let known: BTreeSet<_> = known.items.iter().map(|state| state.id).collect();
    let mut accepted = Vec::new();
    for spawner in spawners {
        let (spawned, refusal) =
            tokio::time::timeout(Duration::from_secs(20), spawner).await.unwrap().unwrap();
        assert_eq!(refusal, ErrorCode::Draining);
        accepted.extend(spawned);
    }
    let answered: BTreeSet<_> = accepted.iter().copied().collect();
    assert_eq!(answered, known, "what was answered is what there is");
    (world, accepted)
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_24_a_shutdown_that_keeps_children_admits_nothing_more() {
    let (world, accepted) = shutdown_under_spawns(Shutdown::Keep).await;
    assert!(world.engine.health().await.unwrap().draining);
    for id in accepted {
        assert!(!world.status(id).await.is_final(), "it was not told to stop anything");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_24_a_shutdown_that_stops_children_stops_all_that_were_accepted() {
    let (world, accepted) = shutdown_under_spawns(Shutdown::Stop { within: Duration::from_secs(10) }).await;
    for id in accepted {
        assert_eq!(world.status(id).await, Status::Stopped);
    }
}

/// The spawn is on its way to the disk when the shutdown begins.
async fn shutdown_during_a_commit(
    policy: Shutdown,
) -> (Engine, Arc<SlowStore>, tempfile::TempDir, SubagentId) {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let store = Arc::new(SlowStore::default());
    let fake = Scripted::default();
    let config = config(dir.path(), Limits::default());
    let engine = start_with(config, &fake, Arc::clone(&store) as _, pool(dir.path())).await;
    store.close();
    let spawner = engine.clone();
    let spawn = tokio::spawn(async move { spawner.spawn(&me(), scripted("gate never")).await });
    store.until_waiting().await;
    let stopper = engine.clone();
    let shutdown = tokio::spawn(async move { stopper.shutdown(policy).await });
    until_async("the drain", || async { engine.health().await.unwrap().draining.then_some(()) }).await;
    let late = engine.clone();
    let late = tokio::spawn(async move { late.spawn(&me(), scripted("say never")).await });
    store.open();
    let id = spawn.await.unwrap().unwrap().record.id;
    assert_eq!(late.await.unwrap().unwrap_err().code, ErrorCode::Draining);
    tokio::time::timeout(Duration::from_secs(20), shutdown).await.unwrap().unwrap();
    assert_eq!(store.memory.list(&ListFilter::default()).unwrap().items.len(), 1);
    (engine, store, dir, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_24_a_spawn_in_progress_is_answered_and_kept() {
    let (engine, _store, _dir, id) = shutdown_during_a_commit(Shutdown::Keep).await;
    assert!(!engine.get(&me(), id).await.unwrap().status.is_final());
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_24_a_spawn_in_progress_is_answered_and_stopped() {
    let policy = Shutdown::Stop { within: Duration::from_secs(10) };
    let (engine, _store, _dir, id) = shutdown_during_a_commit(policy).await;
    let record = engine.get(&me(), id).await.unwrap();
    assert_eq!(record.status, Status::Stopped);
    assert_eq!(record.stop.unwrap().cause, Cause::Shutdown);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_24_a_detached_child_outlives_a_shutdown_that_keeps() {
    let world = world(Limits::default()).await;
    let fifo = world.dir.path().join("gate");
    let script = format!("mkfifo {0}; read line <{0}; echo after $line", fifo.display());
    let id = world.spawn(SpawnRequest { mode: Mode::Detached, ..shell(&script) }).await;
    until_async("the gate", || async { fifo.exists().then_some(()) }).await;
    let child = world.process(id).await;
    let alive = child.clone();
    let world =
        world.restarted(Limits::default(), async || assert!(subagent_process::is_alive(&alive))).await;
    assert!(subagent_process::is_alive(&child));
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "news\n")).await.unwrap().unwrap();
    let record = world.ended(id).await;
    assert_eq!((record.status, record.attempt.0), (Status::Completed, 1));
    assert_eq!(record.result.unwrap().preview, "after news");
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_13_a_start_that_fails_again_and_again_is_given_up_after_growing_pauses() {
    let world = world_without_shims(Limits { running: 1, ..Limits::default() }).await;
    let id = world.spawn(shell("true")).await;
    let other = world.spawn(scripted("say other")).await;
    assert_eq!(world.ended(other).await.status, Status::Completed, "a run in its pause holds no slot");
    let record = world.ended(id).await;
    let error = record.error.as_ref().unwrap();
    assert_eq!((record.status, error.code), (Status::Error, ErrorCode::StartFailed));
    assert!(error.message.contains("shim"), "{}", error.message);
    assert_eq!(record.attempts.len(), 3, "as many as the limits say");
    assert!(record.started_at.is_none() && world.notices(id).await == 1);
    let tries = ["claimed", "attempt_ended", "queued"];
    let kinds = [&["accepted", "queued"], &tries[..], &tries[..], &["claimed", "ended"]].concat();
    assert_eq!(world.all_kinds(id), kinds);
    let events: Vec<_> = world.all_events().into_iter().filter(|event| event.subagent == id).collect();
    let mut pauses: Vec<Duration> = Vec::new();
    let mut not_before = None::<Timestamp>;
    for event in &events {
        match &event.kind {
            EventKind::Queued { reason: QueueReason::Retry { at } } => {
                pauses.push(at.since(event.at));
                not_before = Some(*at);
            }
            EventKind::Claimed { .. } => assert!(not_before.is_none_or(|at| event.at >= at), "too early"),
            _ => {}
        }
    }
    assert_eq!(pauses.len(), 2);
    assert!(pauses[0] >= Duration::from_millis(300) && pauses[1] > pauses[0] * 3 / 2, "{pauses:?}");
}

/// A stop in the pause between two tries: no further try.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_13_a_run_that_is_stopped_in_its_pause_is_not_tried_again() {
    let world = world_without_shims(Limits::default()).await;
    let id = world.spawn(shell("true")).await;
    until_async("the pause", || async {
        let record = world.engine.get(&me(), id).await.unwrap();
        matches!(record.queued_for, Some(QueueReason::Retry { .. })).then_some(())
    })
    .await;
    let reply = world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert_eq!((reply.record.status, reply.record.marks), (Status::Stopped, vec![Mark::NeverStarted]));
    let tried = reply.record.attempts.len();
    // One that fails for good has had all its tries by then.
    let other = world.spawn(shell("true")).await;
    world.ended(other).await;
    assert_eq!(world.engine.get(&me(), id).await.unwrap().attempts.len(), tried);
}

fn signal(child: &ProcessIdentity, signal: rustix::process::Signal) {
    assert!(subagent_process::signal_checked(child, signal.as_raw()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_09_children_that_hang_hold_up_nobody_else() {
    let world = world(Limits { running: 4, ..Limits::default() }).await;
    let hangs = world.spawn(scripted("hang")).await;
    world.until_started(hangs).await;
    let suspended = world.spawn(shell("exec sleep 60")).await;
    signal(&world.process(suspended).await, rustix::process::Signal::STOP);
    // It does not read its input, which is more than a pipe holds.
    let deaf = SpawnRequest { prompt: "x".repeat(1 << 20), ..shell("exec sleep 60") };
    let deaf = world.spawn(deaf).await;
    world.until_started(deaf).await;
    let calls = async {
        for number in 0..20 {
            let request = if number % 2 == 0 { shell("echo well") } else { scripted("say well") };
            let record = world.engine.spawn(&me(), waiting(request)).await.unwrap().record;
            assert_eq!(record.result.unwrap().preview, "well");
            world.engine.ack(&me(), vec![record.id], false).await.unwrap();
        }
        for id in [hangs, suspended, deaf] {
            assert_eq!(world.status(id).await, Status::Running);
            assert!(
                !world
                    .engine
                    .wait(&me(), id, WaitOptions { run: None, timeout_ms: Some(1) })
                    .await
                    .unwrap()
                    .ended
            );
            world.engine.output(&me(), id, 0, None).await.unwrap();
        }
        assert_eq!(world.engine.health().await.unwrap().running, 3);
        let live = ListFilter { live: true, ..ListFilter::default() };
        assert_eq!(world.engine.list(&me(), live).await.unwrap().items.len(), 3);
        for id in [hangs, suspended, deaf] {
            assert!(world.engine.stop(&me(), id, StopRequest::default()).await.unwrap().accepted);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), calls).await.unwrap();
    for id in [hangs, suspended, deaf] {
        assert_eq!(world.ended(id).await.status, Status::Stopped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_are_raised_let_waiting_runs_start() {
    let world = world(Limits { running: 1, queue: 3, ..Limits::default() }).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(world.spawn(scripted("gate a")).await);
    }
    world.until_started(ids[0]).await;
    assert_eq!(world.engine.spawn(&me(), scripted("say no")).await.unwrap_err().code, ErrorCode::QueueFull);
    let caller = me();
    let queued =
        world.engine.list(&caller, ListFilter { status: vec![Status::Queued], ..ListFilter::default() });
    assert_eq!(queued.await.unwrap().items.len(), 3);
    world.engine.set_limits(Limits { running: 3, queue: 3, ..Limits::default() });
    for id in &ids[..3] {
        world.until_started(*id).await;
    }
    assert_eq!(world.status(ids[3]).await, Status::Queued);
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running, health.running_limit, health.queued), (3, 3, 1));
    // Lowered below what runs: nothing is turned away, and nothing starts before there is room again.
    world.engine.set_limits(Limits { running: 1, queue: 3, ..Limits::default() });
    let last = world.spawn(scripted("say last")).await;
    assert_eq!(world.status(last).await, Status::Queued);
    assert_eq!(world.status(ids[1]).await, Status::Running);
    world.fake.gate("a").open();
    for id in ids.into_iter().chain([last]) {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
}

/// "For what is decided from now on": the number of attempts, too.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_attempts_can_be_changed_while_running() {
    let world = world_without_shims(Limits { max_attempts: 3, ..Limits::default() }).await;
    world.engine.set_limits(Limits { max_attempts: 1, ..Limits::default() });
    let record = world.engine.spawn(&me(), waiting(shell("true"))).await.unwrap().record;
    assert_eq!((record.status, record.attempts.len()), (Status::Error, 1));
}

/// Two engines one after the other, and the limits of the second are its own.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_next_engine_hold_for_what_was_queued() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let first = world.spawn(scripted("gate never")).await;
    world.until_started(first).await;
    let queued = [world.spawn(scripted("gate b")).await, world.spawn(scripted("gate b")).await];
    let World { engine, fake, store, dir } = world;
    engine.shutdown(Shutdown::Keep).await;
    let engine = start(&dir, &fake, &store, Limits { running: 2, ..Limits::default() }).await;
    let world = World { engine, fake, store, dir };
    for id in queued {
        world.until_started(id).await;
    }
    world.fake.gate("b").open();
    for id in queued {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
}
