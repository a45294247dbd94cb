//! Rows of the case lists: state machine, records, results. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use subagent_model::request::{ListFilter, SpawnRequest, StopReply, StopRequest, WaitOptions};
use subagent_model::{
    Cursor, ErrorCode, EventKind, Mark, Mode, Outcome, ProcessIdentity, Requester, RunNumber, Status,
    SubagentId, SubagentRecord,
};
use subagent_runtime::{Caller, Limits, Runtime};
use subagent_store::Store;
use subagent_store::conformance::Samples;
use subagent_testkit::{home, until, until_async};

use support::{World, config, kill, me, plain, scripted, shell, shim_of, start_with, waiting, world};

fn count(kinds: &[&str], kind: &str) -> usize {
    kinds.iter().filter(|other| **other == kind).count()
}

/// One acceptance first, at most one start, one end; in this order.
fn assert_one_life(kinds: &[&str], what: &str) {
    assert_eq!((count(kinds, "accepted"), count(kinds, "ended")), (1, 1), "{what}: {kinds:?}");
    assert_eq!(kinds[0], "accepted", "{what}: {kinds:?}");
    assert!(count(kinds, "started") <= 1, "{what}: {kinds:?}");
    let place = |kind| kinds.iter().position(|other| *other == kind);
    assert!(place("started").is_none_or(|at| Some(at) < place("ended")), "{what}: {kinds:?}");
}

/// Numbers that are the same in every run of the tests.
struct Seed(u64);

impl Seed {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

async fn yields(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

fn named(name: &str) -> Caller {
    Caller { requester: Requester(format!("user:{name}")) }
}

/// What replies of raced stops say must be what the record says in the end.
fn assert_consistent(record: &SubagentRecord, natural: &[Status], stops: &[(&str, StopReply)]) {
    let accepted: Vec<_> = stops.iter().filter(|(_, reply)| reply.accepted).collect();
    let what = format!("{record:?} {stops:?}");
    match accepted.as_slice() {
        [] => assert!(natural.contains(&record.status), "{what}"),
        [(actor, reply)] => {
            assert_eq!(record.status, Status::Stopped, "{what}");
            assert_eq!(record.stop.as_ref().unwrap().actor, format!("user:{actor}"), "{what}");
            assert_eq!(record.completed_at, Some(reply.record.stop.as_ref().unwrap().at), "{what}");
        }
        _ => panic!("two stops were accepted: {what}"),
    }
    for (_, reply) in stops.iter().filter(|(_, reply)| !reply.accepted) {
        if reply.record.status.is_final() {
            assert_eq!(reply.record.status, record.status, "{what}");
            assert_eq!(reply.record.completed_at, record.completed_at, "{what}");
        } else {
            assert_eq!(reply.record.status, Status::Stopping, "{what}");
        }
    }
}

async fn stop_as(
    world: &World,
    actor: &'static str,
    id: SubagentId,
    after: u64,
) -> (&'static str, StopReply) {
    yields(after).await;
    (actor, world.engine.stop(&named(actor), id, StopRequest::default()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_05_ends_and_stops_raced_give_one_end_one_outcome_one_notice() {
    let world = world(Limits { running: 16, ..Limits::default() }).await;
    let mut seed = Seed(5);
    let (mut stopped, mut by_itself) = (0, 0);
    for round in 0..300 {
        let gate = format!("g{round}");
        let (script, natural) = match round % 4 {
            0 | 1 => (format!("gate {gate}\nsay done"), Status::Completed),
            2 => (format!("gate {gate}\nfail on purpose"), Status::Error),
            _ => (format!("gate {gate}\npanic on purpose"), Status::Error),
        };
        // A limit in the race, too.
        let deadline_ms = (round % 10 == 9).then_some(1);
        let id = world.spawn(SpawnRequest { deadline_ms, ..scripted(&script) }).await;
        let (open, first, second) = (seed.below(60), seed.below(60), seed.below(60));
        let open = async {
            yields(open).await;
            world.fake.gate(&gate).open();
        };
        let stops = match round % 8 {
            // Two that are certain: the end before the stop, the stop before the end.
            0 => {
                open.await;
                world.ended(id).await;
                vec![stop_as(&world, "a", id, 0).await]
            }
            4 => {
                let stop = stop_as(&world, "a", id, 0).await;
                open.await;
                vec![stop]
            }
            _ => {
                let stops =
                    async { tokio::join!(stop_as(&world, "a", id, first), stop_as(&world, "b", id, second)) };
                let ((), (first, second)) = tokio::join!(open, stops);
                vec![first, second]
            }
        };
        let record = world.ended(id).await;
        assert_consistent(&record, &[natural, Status::Aborted], &stops);
        let kinds = world.all_kinds(id);
        assert_one_life(&kinds, &script);
        assert_eq!(world.notices(id).await, 1, "{kinds:?}");
        assert!(world.engine.ack(&me(), vec![id], false).await.unwrap().refused.is_empty());
        if record.status == Status::Stopped { stopped += 1 } else { by_itself += 1 }
    }
    assert!(stopped >= 30 && by_itself >= 30, "no race: {stopped} stopped, {by_itself} by themselves");
}

fn kill_checked(child: &ProcessIdentity) {
    // It may be gone by itself by now.
    let _ = subagent_process::signal_checked(child, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_05_ends_stops_and_kills_of_real_processes_raced() {
    let world = &world(Limits { running: 6, ..Limits::default() }).await;
    let mut seed = Seed(50);
    for batch in 0..8 {
        let plans: Vec<_> =
            (0..6).map(|number| (batch * 6 + number, seed.below(4), seed.below(400))).collect();
        let races = plans.into_iter().map(|(number, script, after)| async move {
            let (script, deadline_ms) = match script {
                0 => ("exit 0", None),
                1 => ("echo text; exit 3", None),
                2 => ("exec sleep 60", None),
                _ => ("exec sleep 60", Some(after / 10 + 1)),
            };
            let id = world.spawn(SpawnRequest { deadline_ms, ..shell(script) }).await;
            let killed = async {
                if number % 3 == 0 {
                    let child = until_async("the child or its end", || async {
                        let record = world.engine.get(&me(), id).await.unwrap();
                        let child = record.attempts.last().and_then(|facts| facts.process.clone());
                        (child.is_some() || record.status.is_final()).then_some(child)
                    });
                    if let Some(child) = child.await {
                        kill_checked(&child);
                    }
                }
            };
            let ((), stop) = tokio::join!(killed, stop_as(world, "a", id, after));
            let record = world.ended(id).await;
            let natural = [Status::Completed, Status::Error, Status::Aborted];
            assert_consistent(&record, &natural, &[stop]);
            let kinds = world.all_kinds(id);
            assert_one_life(&kinds, script);
            assert_eq!(world.notices(id).await, 1, "{kinds:?}");
            if let Some(child) = record.attempts.last().and_then(|facts| facts.process.clone()) {
                assert!(!subagent_process::is_alive(&child), "{record:?}");
            }
        });
        futures_util::future::join_all(races).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_09_every_way_of_ending_is_accepted_once_and_ended_once() {
    let world = world(Limits { running: 2, ..Limits::default() }).await;
    let mut missing = shell("");
    missing.exec.as_mut().unwrap().program = String::from("no-such-program-here");
    let mut ends = Vec::new();
    let by_themselves = [
        ("completed", scripted("say fine"), 1),
        ("completed process", shell("echo fine"), 1),
        ("failed", scripted("fail on purpose"), 1),
        ("failed process", shell("exit 3"), 1),
        ("panicked", scripted("panic on purpose"), 1),
        ("start failed", missing, 0),
        ("deadline", SpawnRequest { deadline_ms: Some(20), ..scripted("gate never") }, 1),
        ("deadline of a process", SpawnRequest { deadline_ms: Some(50), ..shell("exec sleep 60") }, 1),
        ("foreground", SpawnRequest { mode: Mode::Sync, ..waiting(scripted("say fine")) }, 1),
        ("detached", SpawnRequest { mode: Mode::Detached, ..scripted("say fine") }, 1),
    ];
    for (what, request, starts) in by_themselves {
        let id = world.spawn(request).await;
        world.ended(id).await;
        ends.push((what, id, starts));
    }
    let running = world.spawn(scripted("gate never")).await;
    let process = world.spawn(shell("exec sleep 60")).await;
    let queued = world.spawn(scripted("say never")).await;
    world.engine.stop(&me(), queued, StopRequest::default()).await.unwrap();
    world.until_started(running).await;
    world.until_started(process).await;
    for id in [running, process] {
        world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    }
    ends.extend([("stopped queued", queued, 0), ("stopped", running, 1), ("stopped process", process, 1)]);
    for id in [queued, running, process] {
        assert_eq!(world.ended(id).await.status, Status::Stopped);
    }
    let killed = world.spawn(shell("exec sleep 60")).await;
    kill_checked(&world.process(killed).await);
    world.ended(killed).await;
    ends.push(("killed from outside", killed, 1));
    for (what, id, starts) in ends {
        let kinds = world.all_kinds(id);
        assert_one_life(&kinds, what);
        assert_eq!(count(&kinds, "started"), starts, "{what}: {kinds:?}");
        assert_eq!(kinds.last(), Some(&"ended"), "{what}: {kinds:?}");
    }
    assert_eq!((world.engine.health().await.unwrap().running, world.engine.live_count()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_12_what_a_spawn_has_named_is_known_to_every_call() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let engine = &world.engine;
    world.spawn(scripted("gate never")).await;
    for durable in [true, false] {
        for _ in 0..20 {
            let record =
                engine.spawn(&me(), SpawnRequest { durable, ..scripted("say x") }).await.unwrap().record;
            let id = record.id;
            assert_eq!(engine.get(&me(), id).await.unwrap().status, Status::Queued);
            assert_eq!(engine.resolve(record.handle.as_str()).await.unwrap(), id);
            assert_eq!(engine.resolve(&id.to_string()).await.unwrap(), id);
            let page = engine.list(&me(), ListFilter { live: true, ..ListFilter::default() }).await.unwrap();
            assert_eq!(page.items[0].id, id, "the newest comes first");
            assert!(engine.queue_place(&me(), id).await.unwrap().ahead.is_some());
            let none = WaitOptions { run: None, timeout_ms: Some(0) };
            let wait = engine.wait(&me(), id, none).await.unwrap();
            assert!(!wait.ended && wait.record.status == Status::Queued);
            let early = engine.result(&me(), id, None, 0, 10).await.unwrap_err();
            assert_eq!(early.code, ErrorCode::StillRunning);
            assert!(early.message.contains("queued"), "{}", early.message);
            engine.output(&me(), id, 0, None).await.unwrap();
            assert!(engine.stop(&me(), id, StopRequest::default()).await.unwrap().accepted);
            assert_eq!(engine.get(&me(), id).await.unwrap().status, Status::Stopped);
        }
    }
}

async fn until_output(world: &World, id: SubagentId, wanted: &str) {
    until_async("output", || async {
        let page = world.engine.output(&me(), id, 0, None).await.unwrap();
        page.parts.iter().any(|part| part.text.contains(wanted)).then_some(())
    })
    .await;
}

/// SM-15 and DAEMON-14: shim and child are gone, and nothing says how.
#[tokio::test(flavor = "multi_thread")]
async fn sm_15_a_run_that_left_nothing_behind_is_lost_with_evidence() {
    let limits = Limits { running: 1, ..Limits::default() };
    let world = world(limits.clone()).await;
    let id = world.spawn(shell("echo so far; exec sleep 60")).await;
    let child = world.process(id).await;
    until_output(&world, id, "so far").await;
    let next = world.spawn(scripted("say next")).await;
    let shim = shim_of(&child);
    let world = world
        .restarted(limits, async || {
            kill(shim);
            kill_checked(&child);
            until("the child to be gone", || (!subagent_process::is_alive(&child)).then_some(()));
        })
        .await;
    assert_eq!(world.engine.health().await.unwrap().recovery.lost, 1);
    let record = world.ended(id).await;
    assert_eq!(record.status, Status::Lost);
    assert!(record.end_reason.unwrap().contains("exit record"));
    assert_eq!(world.ended(next).await.result.unwrap().preview, "next", "the slot is free");
    assert_eq!((world.notices(id).await, count(&world.all_kinds(id), "ended")), (1, 1));
    until_output(&world, id, "so far").await;
}

/// The shim alone was killed: an agent without its holder is ended, and its run says that nothing is known.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_14_a_child_without_its_shim_is_ended_by_the_next_engine() {
    let world = world(Limits::default()).await;
    let id = world.spawn(shell("trap '' HUP TERM; sleep 60; sleep 60")).await;
    let child = world.process(id).await;
    let shim = shim_of(&child);
    let world = world.restarted(Limits::default(), async || kill(shim)).await;
    let record = world.ended(id).await;
    assert_eq!(record.status, Status::Lost, "{record:?}");
    assert!(!home::is_alive(i32::try_from(child.pid).unwrap()));
    assert_eq!(world.notices(id).await, 1);
}

/// The child alone was killed while no engine was there: its shim knows how it ended.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_14_an_end_while_no_engine_was_there_is_told_as_it_was() {
    let world = world(Limits::default()).await;
    let id = world.spawn(shell("exec sleep 60")).await;
    let child = world.process(id).await;
    let world = world.restarted(Limits::default(), async || kill(child.pid)).await;
    let error = world.ended(id).await.error.unwrap();
    assert_eq!((error.code, error.exit.unwrap().signal), (ErrorCode::Crashed, Some(9)));
    assert_eq!(world.notices(id).await, 1);
}

/// A run inside the daemon that had begun its work ends with the daemon. Its work is not done a second time.
#[tokio::test(flavor = "multi_thread")]
async fn sm_15_a_run_inside_the_daemon_that_had_begun_is_lost_with_it() {
    let world = world(Limits::default()).await;
    let id = world.spawn(plain("gate a\nsay twice")).await;
    world.until_started(id).await;
    let world = world.restarted(Limits::default(), async || ()).await;
    assert_eq!(world.engine.health().await.unwrap().recovery.lost, 1);
    world.fake.gate("a").open();
    let record = world.ended(id).await;
    assert_eq!((record.status, record.attempts.len()), (Status::Lost, 1), "{record:?}");
    assert_eq!((world.notices(id).await, count(&world.all_kinds(id), "started")), (1, 1));
}

/// A parent that waits for a lost child ends with what it had said.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_14_a_parent_that_waits_for_a_lost_child_is_moved_on() {
    let world = world(Limits::default()).await;
    let parent = world.spawn(scripted("gate go\nsay parent")).await;
    let under = SpawnRequest { parent: Some(parent.to_string()), ..shell("exec sleep 60") };
    let child = world.spawn(SpawnRequest { mode: Mode::Async, ..under }).await;
    let process = world.process(child).await;
    world.fake.gate("go").open();
    world.until_status(parent, Status::Waiting).await;
    let shim = shim_of(&process);
    let world = world
        .restarted(Limits::default(), async || {
            kill(shim);
            kill_checked(&process);
            until("the child to be gone", || (!subagent_process::is_alive(&process)).then_some(()));
        })
        .await;
    assert_eq!(world.ended(child).await.status, Status::Lost);
    let record = world.ended(parent).await;
    assert_eq!((record.status, record.result.unwrap().preview.as_str()), (Status::Completed, "parent"));
    for id in [child, parent] {
        assert_eq!((world.notices(id).await, count(&world.all_kinds(id), "ended")), (1, 1));
    }
    assert_eq!(world.engine.live_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_04_the_times_of_a_queued_run_are_apart_and_in_order() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let first = world.spawn(scripted("gate a")).await;
    let fifo = world.dir.path().join("gate");
    let id = world.spawn(shell(&format!("mkfifo {0}; read line <{0}", fifo.display()))).await;
    let stopped = world.spawn(scripted("gate b")).await;
    assert_eq!(world.engine.get(&me(), id).await.unwrap().started_at, None);
    world.fake.gate("a").open();
    world.until_started(id).await;
    until_async("the gate", || async { fifo.exists().then_some(()) }).await;
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "go\n")).await.unwrap().unwrap();
    let record = world.ended(id).await;
    let (accepted, started) = (record.accepted_at, record.started_at.unwrap());
    let (exited, completed) = (record.exited_at.unwrap(), record.completed_at.unwrap());
    assert!(accepted < started && started <= exited && exited <= completed, "{record:?}");
    assert!(record.created_at == accepted && record.updated_at >= completed);
    let before = world.engine.get(&me(), first).await.unwrap().completed_at.unwrap();
    assert!(before <= started, "it waited for the slot: {before:?} {started:?}");
    // A stopped run: over at the stop, gone after it.
    world.until_started(stopped).await;
    world.engine.stop(&me(), stopped, StopRequest::default()).await.unwrap();
    let record = world.ended(stopped).await;
    let asked = record.stop.as_ref().unwrap().at;
    assert!(record.started_at.unwrap() <= asked && record.completed_at == Some(asked), "{record:?}");
    assert!(record.exited_at.unwrap() >= asked, "{record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_04_a_reader_never_sees_an_end_without_all_that_belongs_to_it() {
    let world = world(Limits::default()).await;
    for round in 0..40 {
        let id = world.spawn(shell(&format!("echo result {round}"))).await;
        loop {
            let record = world.engine.get(&me(), id).await.unwrap();
            if !record.status.is_final() {
                tokio::task::yield_now().await;
                continue;
            }
            assert_eq!(record.result.as_ref().unwrap().preview, format!("result {round}"), "{record:?}");
            assert!(record.completed_at.is_some() && record.quality.is_some(), "{record:?}");
            assert_eq!(world.engine.health().await.unwrap().running, 0, "its slot is free in the same step");
            break;
        }
    }
}

/// A short run's start is told together with its end, and still has its own time.
#[tokio::test(flavor = "multi_thread")]
async fn rec_04_a_short_run_has_started_before_it_exited() {
    let world = world(Limits::default()).await;
    for _ in 0..10 {
        let record = world.engine.spawn(&me(), waiting(shell("true"))).await.unwrap().record;
        let (started, exited) = (record.started_at.unwrap(), record.exited_at.unwrap());
        assert!(record.accepted_at <= started && exited <= record.completed_at.unwrap(), "{record:?}");
        assert!(started <= exited, "started {started:?}, exited {exited:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn result_01_a_wait_on_a_queued_run_waits_through_queue_and_run() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    world.spawn(scripted("gate a")).await;
    let id = world.spawn(scripted("gate b\nsay out")).await;
    let engine = world.engine.clone();
    let wait = tokio::spawn(async move {
        let options = WaitOptions { run: None, timeout_ms: Some(20_000) };
        engine.wait(&me(), id, options).await
    });
    let engine = world.engine.clone();
    let spawn = tokio::spawn(async move { engine.spawn(&me(), waiting(scripted("say spawned"))).await });
    world.until_status(id, Status::Queued).await;
    world.fake.gate("a").open();
    world.until_started(id).await;
    assert!(!wait.is_finished() && !spawn.is_finished(), "neither the queue nor the start is an end");
    world.fake.gate("b").open();
    let reply = wait.await.unwrap().unwrap();
    assert!(reply.ended && reply.run == RunNumber(1));
    assert_eq!(reply.record.result.unwrap().preview, "out");
    let reply = spawn.await.unwrap().unwrap();
    assert!(reply.ended && reply.record.status == Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn result_04_a_wait_during_a_stop_returns_at_the_real_end_with_late_text() {
    let mut world = world(Limits::default()).await;
    let mut patient = config(world.dir.path(), Limits::default());
    patient.graces.term = Duration::from_secs(20);
    let store = std::sync::Arc::clone(&world.store);
    world.engine = start_with(patient, &world.fake, store, support::pool(world.dir.path())).await;
    let fifo = world.dir.path().join("gate");
    let script = format!(
        "trap 'read x <{0}; echo late $x; exit 0' TERM; mkfifo {0}; echo up; while :; do sleep 0.02; done",
        fifo.display()
    );
    let id = world.spawn(shell(&script)).await;
    until_output(&world, id, "up").await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    let waits: Vec<_> = (0..3)
        .map(|_| {
            let engine = world.engine.clone();
            let options = WaitOptions { run: None, timeout_ms: Some(20_000) };
            tokio::spawn(async move { engine.wait(&me(), id, options).await })
        })
        .collect();
    let short = WaitOptions { run: None, timeout_ms: Some(100) };
    let reply = world.engine.wait(&me(), id, short).await.unwrap();
    assert!(!reply.ended && reply.record.status == Status::Stopping, "stopped is said when it is true");
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "words\n")).await.unwrap().unwrap();
    for wait in waits {
        let reply = wait.await.unwrap().unwrap();
        assert!(reply.ended && reply.record.status == Status::Stopped);
        assert_eq!(reply.record.result.unwrap().preview, "up\nlate words\n");
        assert!(reply.record.marks.contains(&Mark::Partial) && reply.record.exited_at.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn result_05_every_waiter_gets_the_outcome_the_late_one_at_once() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("gate a\nsay all")).await;
    // Two limits that are reached together.
    let short = WaitOptions { run: None, timeout_ms: Some(20) };
    let caller = me();
    let (one, two) =
        tokio::join!(world.engine.wait(&caller, id, short), world.engine.wait(&caller, id, short));
    assert!(!one.unwrap().ended && !two.unwrap().ended);
    let waits: Vec<_> = (0..100)
        .map(|number| {
            let engine = world.engine.clone();
            let run = (number % 2 == 0).then_some(RunNumber(1));
            tokio::spawn(async move {
                engine.wait(&me(), id, WaitOptions { run, timeout_ms: Some(20_000) }).await
            })
        })
        .collect();
    world.fake.gate("a").open();
    for wait in waits {
        let reply = wait.await.unwrap().unwrap();
        assert!(reply.ended && reply.run == RunNumber(1));
        assert_eq!(reply.record.result.unwrap().preview, "all");
    }
    let late = WaitOptions { run: None, timeout_ms: Some(0) };
    assert_eq!(world.engine.wait(&me(), id, late).await.unwrap().record.result.unwrap().preview, "all");
    let next = WaitOptions { run: Some(RunNumber(2)), timeout_ms: Some(0) };
    assert_eq!(world.engine.wait(&me(), id, next).await.unwrap_err().code, ErrorCode::NotFound);
    // The next run is opened by hand. A wait for the first one is still answered with the first outcome.
    let mut samples = Samples::default();
    let state = world.store.get(id).unwrap().unwrap();
    samples.run(&*world.store, &state, &Samples::resume(&me().requester));
    let first = WaitOptions { run: Some(RunNumber(1)), timeout_ms: Some(0) };
    let reply = world.engine.wait(&me(), id, first).await.unwrap();
    assert!(reply.ended && reply.record.run == RunNumber(1) && reply.record.status == Status::Completed);
    let reply = world.engine.wait(&me(), id, late).await.unwrap();
    assert_eq!((reply.ended, reply.run), (false, RunNumber(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn result_19_a_child_that_dies_or_is_cut_off_gives_exactly_one_notice() {
    let world = world(Limits { running: 9, ..Limits::default() }).await;
    let mut missing = shell("");
    missing.exec.as_mut().unwrap().program = String::from("no-such-program-here");
    let mut wanted = Vec::new();
    for (request, status) in [
        (shell("exit 9"), Status::Error),
        (shell("kill -9 $$"), Status::Error),
        (shell("exit 0"), Status::Completed),
        (missing, Status::Error),
        (scripted("panic on purpose"), Status::Error),
        (scripted("no such step"), Status::Error),
        (SpawnRequest { deadline_ms: Some(30), ..scripted("hang") }, Status::Aborted),
        (SpawnRequest { deadline_ms: Some(30), ..shell("exec sleep 60") }, Status::Aborted),
        (SpawnRequest { durable: false, ..shell("exit 9") }, Status::Error),
    ] {
        wanted.push((world.spawn(request).await, status));
    }
    // Its shim is killed under it.
    let shimless = world.spawn(shell("exec sleep 60")).await;
    kill(shim_of(&world.process(shimless).await));
    wanted.push((shimless, Status::Error));
    for (id, status) in &wanted {
        let record = world.ended(*id).await;
        assert_eq!(record.status, *status, "{record:?}");
        assert_eq!(world.notices(*id).await, 1, "{record:?}");
    }
    assert_eq!(world.engine.get(&me(), shimless).await.unwrap().error.unwrap().code, ErrorCode::ShimLost);
    let ids: Vec<_> = wanted.iter().map(|(id, _)| *id).collect();
    let reply = world.engine.ack(&me(), ids.clone(), false).await.unwrap();
    assert_eq!((reply.acknowledged, reply.unconsumed), (ids, 0));
    assert!(world.engine.inbox(&me(), 100, None).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn result_34_a_listing_of_one_requester_is_whole_and_has_no_others() {
    let world = world(Limits { running: 2, ..Limits::default() }).await;
    let other = named("other");
    let mut mine = Vec::new();
    for number in 0..12 {
        let request = SpawnRequest { durable: number % 3 != 0, ..scripted("say x") };
        mine.push(world.spawn(request.clone()).await);
        world.engine.spawn(&other, request).await.unwrap();
    }
    mine.reverse();
    let requester = Some(String::from("user:me"));
    for limit in [1, 2, 5, 50] {
        let (mut listed, mut before) = (Vec::new(), None);
        loop {
            let filter = ListFilter {
                requester: requester.clone(),
                before,
                limit: Some(limit),
                ..ListFilter::default()
            };
            let page = world.engine.list(&me(), filter).await.unwrap();
            assert!(page.items.iter().all(|record| record.requested_by == me().requester));
            assert!(page.items.len() <= limit as usize);
            listed.extend(page.items.iter().map(|record| record.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(listed, mine, "in pages of {limit}");
    }
    assert_eq!(world.engine.list(&me(), ListFilter::default()).await.unwrap().items.len(), 24);
    let nobody = ListFilter { requester: Some(String::from("nobody")), ..ListFilter::default() };
    assert!(world.engine.list(&me(), nobody).await.unwrap().items.is_empty());
}

/// Reads page by page until all up to `head` is there.
async fn read_all(world: &World, mut after: Cursor, head: Cursor, page: u32) -> Vec<u64> {
    let mut numbers = Vec::new();
    while after < head {
        let events =
            world.engine.events(&me(), after, page, Some(Duration::from_secs(20))).await.unwrap().items;
        assert!(!events.is_empty() && events.len() <= page as usize, "after {after:?}");
        numbers.extend(events.iter().map(|event| event.seq.0));
        after = events.last().unwrap().seq;
    }
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_19_pages_of_events_have_no_gaps_and_no_doubles_however_far_behind() {
    const RUNS: u64 = 400;
    let world = world(Limits { running: 50, ..Limits::default() }).await;
    // Every run is accepted, queued, claimed, started and ended: well over the window of 1,024.
    let head = Cursor(RUNS * 5);
    let spawns = async {
        for number in 0..RUNS {
            world.spawn(plain("say x")).await;
            if number % 10 == 0 {
                // Of runs that are not durable nothing is told.
                world.spawn(SpawnRequest { durable: false, ..plain("say x") }).await;
            }
        }
    };
    // One reader goes along, by small pages; the number of events is known, so that it ends with the last.
    let (along, ()) = tokio::join!(read_all(&world, Cursor(0), head, 7), spawns);
    let wanted: Vec<_> = (1..=head.0).collect();
    assert_eq!(along, wanted);
    assert_eq!(world.engine.health().await.unwrap().cursor, head);
    for page in [1, 100, 333, 1_000] {
        let from = if page == 1 { Cursor(head.0 - 1_030) } else { Cursor(0) };
        assert_eq!(read_all(&world, from, head, page).await, wanted[usize::try_from(from.0).unwrap()..]);
    }
    let told = world.engine.events(&me(), Cursor(0), 1_000, None).await.unwrap().items;
    assert!(
        told.iter().map(|event| &**event).eq(&world.all_events()[..1_000]),
        "far behind, the store answers"
    );
    assert!(matches!(told[0].kind, EventKind::Accepted { .. }));
    assert!(world.engine.events(&me(), head, 10, None).await.unwrap().items.is_empty());
    let beyond = world.engine.events(&me(), Cursor(head.0 + 9), 10, None).await.unwrap_err();
    assert_eq!(beyond.code, ErrorCode::InvalidRequest);
    // A position outlives the engine.
    let world = world.restarted(Limits::default(), async || ()).await;
    let last = world.spawn(plain("say last")).await;
    world.ended(last).await;
    let numbers = read_all(&world, Cursor(head.0 - 3), Cursor(head.0 + 5), 2).await;
    assert_eq!(numbers, (head.0 - 2..=head.0 + 5).collect::<Vec<_>>());
    let outcome = world.all_events().pop().unwrap().kind;
    assert!(matches!(outcome, EventKind::Ended { outcome: Outcome::Completed, .. }));
}
