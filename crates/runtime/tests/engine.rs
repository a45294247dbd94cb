//! The engine as a whole, with the memory store, the scripted fake and real processes in real shims.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use subagent_model::request::{ListFilter, SpawnRequest, StopRequest, WaitOptions};
use subagent_model::{
    Cursor, ErrorCode, Mark, Mode, Outcome, Quality, Requester, RunNumber, Status, SubagentId,
};
use subagent_runtime::{Caller, Limits, Runtime, Shutdown};
use subagent_store::Store;
use subagent_store::conformance::Samples;
use subagent_testkit::until_async;

use support::{World, me, scripted, shell, start, waiting, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_and_its_output_is_the_result() {
    let world = world(Limits::default()).await;
    let reply = world
        .engine
        .spawn(&me(), waiting(SpawnRequest { prompt: "hi\n".into(), ..shell("cat; echo done") }))
        .await;
    let record = reply.unwrap().record;
    assert_eq!((record.status, record.quality), (Status::Completed, Some(Quality::Ok)));
    assert_eq!(record.result.unwrap().preview, "hi\ndone");
    assert_eq!(record.attempts.len(), 1, "{:?}", record.attempts);
    assert_eq!(record.attempts[0].exit.unwrap().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_10_events_come_in_order_with_numbers_without_gaps() {
    let world = world(Limits::default()).await;
    let id = world.engine.spawn(&me(), waiting(shell("true"))).await.unwrap().record.id;
    world.engine.ack(&me(), vec![id], false).await.unwrap();
    assert_eq!(world.kinds(id).await, ["accepted", "queued", "claimed", "started", "ended", "acknowledged"]);
    let events = world.engine.events(&me(), Cursor(0), 1_000, None).await.unwrap().items;
    let numbers: Vec<_> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_01_a_queued_run_ends_at_once_and_never_starts() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let first = world.spawn(scripted("gate a")).await;
    let second = world.spawn(scripted("say never")).await;
    let third = world.spawn(scripted("say third")).await;
    assert_eq!(world.status(second).await, Status::Queued);
    assert_eq!(world.engine.queue_place(&me(), third).await.unwrap().ahead, Some(1));
    let stop = world.engine.stop(&me(), second, StopRequest::default()).await.unwrap();
    assert!(stop.accepted && stop.record.status == Status::Stopped);
    assert_eq!(stop.record.marks, [Mark::NeverStarted]);
    assert_eq!(world.kinds(second).await, ["accepted", "queued", "stop_accepted", "ended"]);
    world.fake.gate("a").open();
    assert_eq!(world.ended(third).await.result.unwrap().preview, "third");
    assert_eq!(world.status(first).await, Status::Completed);
    let inbox = world.engine.inbox(&me(), 10, None).await.unwrap();
    assert_eq!(inbox.len(), 3, "a run that never started gives a notice too");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_is_bounded_and_says_its_numbers() {
    let world = world(Limits { running: 1, queue: 2, ..Limits::default() }).await;
    for _ in 0..3 {
        world.spawn(scripted("gate a")).await;
    }
    let refusal = world.engine.spawn(&me(), scripted("say no")).await.unwrap_err();
    assert_eq!((refusal.code, refusal.limit, refusal.used), (ErrorCode::QueueFull, Some(2), Some(2)));
    world.fake.gate("a").open();
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_06_the_reply_never_waits_for_the_child() {
    let world = world(Limits::default()).await;
    let id = world.spawn(shell("trap '' TERM; while :; do sleep 1; done")).await;
    until_async("the child", || async { world.engine.get(&me(), id).await.unwrap().started_at }).await;
    let begun = Instant::now();
    let stop = world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(stop.record.status, Status::Stopping);
    let again = world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert!(!again.accepted, "a second stop changes nothing");
    let record = world.ended(id).await;
    assert_eq!(record.status, Status::Stopped);
    assert_eq!(record.stop.unwrap().actor, "user:me");
    assert!(record.completed_at.unwrap() <= record.exited_at.unwrap(), "over when stopped, gone later");
    assert_eq!(record.attempts[0].exit.unwrap().signal, Some(9));
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_02_what_a_stopped_child_still_says_is_kept_as_partial() {
    let world = world(Limits::default()).await;
    let id =
        world.spawn(shell("trap 'echo late; exit 0' TERM; echo early; while :; do sleep 0.05; done")).await;
    until_async("output", || async {
        let page = world.engine.output(&me(), id, 0, None).await.unwrap();
        page.parts.iter().any(|part| part.text.contains("early")).then_some(())
    })
    .await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    let record = world.ended(id).await;
    assert_eq!(record.status, Status::Stopped);
    assert_eq!(record.result.unwrap().preview, "early\nlate\n");
    assert!(record.marks.contains(&Mark::Partial));
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_13_a_panic_ends_one_run_and_no_other() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let bad = world.spawn(scripted("panic on purpose")).await;
    let good = world.spawn(scripted("say fine")).await;
    let record = world.ended(bad).await;
    assert_eq!(record.error.unwrap().code, ErrorCode::Panicked);
    assert_eq!(world.ended(good).await.result.unwrap().preview, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_ignores_its_cancellation_is_dropped() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("hang")).await;
    until_async("the start", || async { world.engine.get(&me(), id).await.unwrap().started_at }).await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert_eq!(world.ended(id).await.status, Status::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_14_a_child_killed_from_outside_is_settled_by_an_event() {
    let world = world(Limits::default()).await;
    let id = world.spawn(shell("exec sleep 60")).await;
    let pid = until_async("the child", || async {
        Some(world.engine.get(&me(), id).await.unwrap().attempts.first()?.process.clone()?.pid)
    })
    .await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let record = world.ended(id).await;
    let error = record.error.unwrap();
    assert_eq!((error.code, error.exit.unwrap().signal), (ErrorCode::Crashed, Some(9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn proc_04_a_missing_program_is_named_and_nothing_else_is_taken() {
    let world = world(Limits::default()).await;
    let mut request = waiting(shell(""));
    request.exec.as_mut().unwrap().program = String::from("no-such-program-here");
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    let error = record.error.unwrap();
    assert_eq!(error.code, ErrorCode::ProgramNotFound);
    assert!(error.message.contains("no-such-program-here"), "{}", error.message);
    assert_eq!(world.kinds(record.id).await, ["accepted", "queued", "claimed", "ended"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn proc_01_a_bad_working_directory_is_one_clear_refusal() {
    let world = world(Limits::default()).await;
    let file = world.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for cwd in [None, Some(""), Some("relative"), Some("/no/such/dir"), file.to_str()] {
        let request = SpawnRequest { cwd: cwd.map(Into::into), ..shell("true") };
        let refusal = world.engine.spawn(&me(), request).await.unwrap_err();
        assert_eq!(refusal.code, ErrorCode::InvalidCwd, "{cwd:?}");
    }
    assert_eq!(world.engine.list(&me(), ListFilter::default()).await.unwrap().items.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_directory_that_goes_away_in_the_queue_is_an_error_of_the_run() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    world.spawn(scripted("gate a")).await;
    let dir = world.dir.path().join("work");
    std::fs::create_dir(&dir).unwrap();
    let request = SpawnRequest { cwd: Some(dir.to_str().unwrap().into()), ..shell("true") };
    let id = world.spawn(request).await;
    std::fs::remove_dir(&dir).unwrap();
    world.fake.gate("a").open();
    assert_eq!(world.ended(id).await.error.unwrap().code, ErrorCode::InvalidCwd);
}

#[tokio::test(flavor = "multi_thread")]
async fn result_02_a_wait_that_is_given_up_leaves_the_child_and_the_notice() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("gate a\nsay kept")).await;
    let waiter = world.engine.clone();
    let wait = tokio::spawn(async move { waiter.wait(&me(), id, WaitOptions::default()).await });
    wait.abort();
    let _ = wait.await;
    let short = WaitOptions { run: None, timeout_ms: Some(20) };
    assert!(!world.engine.wait(&me(), id, short).await.unwrap().ended);
    world.fake.gate("a").open();
    world.ended(id).await;
    assert_eq!(world.engine.inbox(&me(), 10, None).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn result_11_only_the_requester_can_consume() {
    let world = world(Limits::default()).await;
    let id = world.engine.spawn(&me(), waiting(scripted("say mine"))).await.unwrap().record.id;
    let other = Caller { requester: Requester::from("user:other") };
    assert!(world.engine.inbox(&other, 10, None).await.unwrap().is_empty());
    let reply = world.engine.ack(&other, vec![id], false).await.unwrap();
    assert_eq!(reply.refused[0].code, ErrorCode::NotYours);
    let reply = world.engine.ack(&me(), vec![id], false).await.unwrap();
    assert_eq!((reply.acknowledged, reply.unconsumed), (vec![id], 0));
    let again = world.engine.ack(&me(), vec![id], false).await.unwrap();
    assert_eq!(again.acknowledged, [id], "acknowledging twice does no harm");
}

/// Two ended runs of one subagent, both unread. Written by hand: nothing of the engine resumes yet.
#[tokio::test(flavor = "multi_thread")]
async fn result_13_every_run_is_told_and_consumed_by_itself() {
    let World { engine, store, .. } = &world(Limits::default()).await;
    let mut samples = Samples::default();
    let first = Samples::commit(&**store, samples.birth());
    let (id, one, two) = (first.id, RunNumber(1), RunNumber(2));
    let caller = Caller { requester: first.requester.clone() };
    let ended = samples.end(&**store, &first, Outcome::Completed);
    let resumed = samples.run(&**store, &ended, &Samples::resume(&first.requester));
    let told = || async {
        let inbox = engine.inbox(&caller, 10, None).await.unwrap();
        inbox.iter().map(|item| (item.delivery_id.clone(), item.record.status)).collect::<Vec<_>>()
    };
    let (first, second) = (format!("{id}.1"), format!("{id}.2"));
    assert_eq!(told().await, [(first.clone(), Status::Completed)], "a resume drops nothing");
    let ended = samples.end(&**store, &resumed, Samples::failure());
    assert_eq!(told().await, [(first.clone(), Status::Completed), (second, Status::Error)]);
    // Each run by itself: a wait, a result.
    let options = WaitOptions { run: Some(one), timeout_ms: Some(0) };
    let waited = engine.wait(&me(), id, options).await.unwrap();
    assert!(waited.ended && waited.run == one);
    assert_eq!((waited.record.status, waited.record.run), (Status::Completed, one));
    assert_eq!(engine.result(&me(), id, None, 0, 100).await.unwrap().run, two);
    assert_eq!(engine.result(&me(), id, Some(one), 0, 100).await.unwrap().run, one);
    assert_eq!(
        engine.result(&me(), id, Some(RunNumber(3)), 0, 100).await.unwrap_err().code,
        ErrorCode::NotFound
    );
    // The receipt for one is none for the other.
    let reply = engine.ack_run(&caller, id, two, false).await.unwrap();
    assert_eq!((reply.acknowledged, reply.unconsumed), (vec![id], 1));
    assert_eq!(told().await, [(first, Status::Completed)]);
    let wrong = engine.ack_run(&caller, id, RunNumber(3), false).await.unwrap();
    assert_eq!((wrong.refused[0].code, wrong.unconsumed), (ErrorCode::NotFound, 1));
    // The whole subagent: whatever is left, and again without harm.
    for _ in 0..2 {
        let reply = engine.ack(&caller, vec![id], false).await.unwrap();
        assert_eq!((reply.acknowledged, reply.unconsumed), (vec![id], 0));
    }
    assert!(told().await.is_empty() && store.get(id).unwrap().unwrap().revision > ended.revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn result_06_many_ends_at_once_are_all_in_the_inbox() {
    let world = world(Limits { running: 50, ..Limits::default() }).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(world.spawn(SpawnRequest { mode: Mode::Async, ..scripted("gate a\nsay x") }).await);
    }
    world.fake.gate("a").open();
    for id in &ids {
        world.ended(*id).await;
    }
    let mut owed: Vec<_> =
        world.engine.inbox(&me(), 100, None).await.unwrap().iter().map(|item| item.record.id).collect();
    owed.sort_unstable();
    assert_eq!(owed, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_the_same_key_gives_the_same_subagent() {
    let world = world(Limits::default()).await;
    let request = SpawnRequest { idempotency_key: Some(String::from("k")), ..scripted("say once") };
    let first = world.engine.spawn(&me(), request.clone()).await.unwrap();
    let second = world.engine.spawn(&me(), waiting(request.clone())).await.unwrap();
    assert!(!first.existing && second.existing && second.ended);
    assert_eq!(first.record.id, second.record.id);
    let other = Caller { requester: Requester::from("user:other") };
    assert!(!world.engine.spawn(&other, request).await.unwrap().existing, "keys are the requester's own");
}

/// In one round of the writer, too, where the store cannot know the first yet. Whoever is in that round with them must
/// not suffer for it.
#[tokio::test(flavor = "multi_thread")]
async fn idempotency_a_key_is_not_taken_for_another_request() {
    let world = world(Limits::default()).await;
    let keyed = |request: SpawnRequest| SpawnRequest { idempotency_key: Some(String::from("k")), ..request };
    let first = world.engine.spawn(&me(), keyed(scripted("say once"))).await.unwrap();
    let warm = SpawnRequest { mode: Mode::Warm, ..scripted("say once") };
    for other in [scripted("say twice"), warm, shell("echo once")] {
        let problem = world.engine.spawn(&me(), keyed(other)).await.unwrap_err();
        assert_eq!(problem.code, ErrorCode::IdempotencyMismatch, "{problem:?}");
        assert_eq!(problem.ids, [first.record.id.to_string()]);
    }
    // In the same round as well.
    let caller = me();
    let (a, b) = tokio::join!(
        world.engine.spawn(&caller, SpawnRequest { idempotency_key: Some("r".into()), ..scripted("say a") }),
        world.engine.spawn(&caller, SpawnRequest { idempotency_key: Some("r".into()), ..scripted("say b") }),
    );
    assert!(a.is_ok() != b.is_ok(), "one of them is refused");
    // And of messages.
    let live = world.spawn(scripted("gate g\nsay live")).await;
    world.fake.gate("g").reached().await;
    let steer = |text: &str| subagent_model::request::SteerRequest {
        message: text.to_owned(),
        idempotency_key: Some(String::from("m")),
        ..Default::default()
    };
    world.engine.steer(&me(), live, steer("go on")).await.unwrap();
    let again = world.engine.steer(&me(), live, steer("go on")).await.unwrap();
    assert!(!again.accepted && again.message.is_some(), "the same again is the same");
    let problem = world.engine.steer(&me(), live, steer("stop")).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::IdempotencyMismatch);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_the_same_key_many_times_at_once_gives_one_subagent() {
    let world = world(Limits { rate: 10_000, queue: 10_000, ..Limits::default() }).await;
    for round in 0..20 {
        let keyed = SpawnRequest { idempotency_key: Some(format!("k{round}")), ..scripted("say once") };
        let asked: Vec<_> = (0..16)
            .map(|number| {
                let request = if number % 4 == 3 { scripted("say other") } else { keyed.clone() };
                let engine = world.engine.clone();
                tokio::spawn(async move { engine.spawn(&me(), request).await })
            })
            .collect();
        let mut keyed = Vec::new();
        for (number, reply) in asked.into_iter().enumerate() {
            let reply = reply.await.unwrap().unwrap();
            if number % 4 != 3 {
                keyed.push((reply.record.id, reply.existing));
            }
        }
        assert!(keyed.iter().all(|(id, _)| *id == keyed[0].0), "one key, one subagent: {keyed:?}");
        assert_eq!(keyed.iter().filter(|(_, existing)| !existing).count(), 1, "{keyed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_14_a_stop_cascades_but_not_to_the_detached() {
    let world = world(Limits { running: 9, ..Limits::default() }).await;
    let parent = world.spawn(scripted("gate a")).await;
    let child_of =
        |id: SubagentId, mode| SpawnRequest { parent: Some(id.to_string()), mode, ..scripted("gate a") };
    let child = world.spawn(child_of(parent, Mode::Async)).await;
    let grandchild = world.spawn(child_of(child, Mode::Async)).await;
    let detached = world.spawn(child_of(parent, Mode::Detached)).await;
    let reply = world.engine.stop(&me(), parent, StopRequest::default()).await.unwrap();
    assert_eq!(reply.cascaded.len(), 2);
    for id in [parent, child, grandchild] {
        assert_eq!(world.ended(id).await.status, Status::Stopped);
    }
    assert_eq!(world.status(detached).await, Status::Running);
    let refusal = world.engine.spawn(&me(), child_of(parent, Mode::Async)).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::ParentEnded);
    world.fake.gate("a").open();
    assert_eq!(world.ended(detached).await.status, Status::Completed);
    assert_eq!(
        world.engine.inbox(&me(), 10, None).await.unwrap().len(),
        3,
        "nobody is told of a detached end"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sm_16_and_queue_07_a_parent_ends_only_after_its_children_and_lends_them_its_slot() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let parent = world.spawn(scripted("gate parent\nsay parent")).await;
    let request = SpawnRequest {
        parent: Some(parent.to_string()),
        mode: Mode::Async,
        ..scripted("gate child\nsay child")
    };
    let child = world.spawn(request).await;
    world.fake.gate("parent").reached().await;
    assert_eq!(world.status(child).await, Status::Queued);
    world.fake.gate("parent").open();
    world.until_status(parent, Status::Waiting).await;
    world.fake.gate("child").reached().await;
    assert_eq!(world.engine.health().await.unwrap().running, 1, "it runs on its parent's slot");
    world.fake.gate("child").open();
    let record = world.ended(parent).await;
    assert_eq!(record.status, Status::Completed);
    assert_eq!(world.status(child).await, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_cuts_a_run_and_keeps_what_there_is() {
    let world = world(Limits::default()).await;
    let request = SpawnRequest { deadline_ms: Some(200), ..waiting(shell("echo so far; exec sleep 60")) };
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    assert_eq!(record.status, Status::Aborted);
    assert_eq!(record.result.unwrap().preview, "so far\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volatile_run_leaves_nothing_in_the_durable_store() {
    let world = world(Limits::default()).await;
    let request = SpawnRequest { durable: false, ..waiting(shell("echo gone")) };
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    assert_eq!((record.status, record.durable), (Status::Completed, false));
    assert!(world.store.get(record.id).unwrap().is_none());
    assert_eq!(world.engine.list(&me(), ListFilter::default()).await.unwrap().items.len(), 1);
    assert_eq!(world.engine.inbox(&me(), 9, None).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn proc_03_secret_values_reach_the_child_and_nothing_else() {
    let world = world(Limits::default()).await;
    let secret = String::from("s3cr3t-value");
    let request = SpawnRequest {
        secret_env: BTreeMap::from([(String::from("TOKEN"), secret.clone())]),
        ..waiting(shell("test \"$TOKEN\" = s3cr3t-value && echo match"))
    };
    assert!(!format!("{request:?}").contains(&secret));
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    assert_eq!(record.result.as_ref().unwrap().preview, "match");
    let state = world.store.get(record.id).unwrap().unwrap();
    let stored = serde_json::to_string(&*state).unwrap();
    let args = "test \\\"$TOKEN\\\" = s3cr3t-value";
    assert!(!stored.replace(args, "").contains(&secret), "only the script itself has the words");
    let events =
        serde_json::to_string(&world.engine.events(&me(), Cursor(0), 100, None).await.unwrap().items)
            .unwrap();
    assert!(!events.replace(args, "").contains(&secret));
}

#[tokio::test(flavor = "multi_thread")]
async fn proc_17_what_a_child_leaves_behind_is_ended_and_said() {
    let world = world(Limits::default()).await;
    let script = "setsid sleep 300 >/dev/null 2>&1 & echo left";
    let record = world.engine.spawn(&me(), waiting(shell(script))).await.unwrap().record;
    assert_eq!(record.status, Status::Completed);
    assert!(record.marks.contains(&Mark::LeftoversEnded), "{:?}", record.marks);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_keeps_children_and_the_next_engine_adopts_them() {
    let world = world(Limits::default()).await;
    let fifo = world.dir.path().join("gate");
    let script = format!("mkfifo {0}; echo before; read line <{0}; echo after $line", fifo.display());
    let id = world.spawn(shell(&script)).await;
    until_async("the gate", || async { fifo.exists().then_some(()) }).await;
    let World { engine, fake, store, dir } = world;
    engine.shutdown(Shutdown::Keep).await;
    drop(engine);
    let engine = start(&dir, &fake, &store, Limits::default()).await;
    assert_eq!(engine.health().await.unwrap().recovery.adopted, 1);
    let writer = fifo.clone();
    tokio::task::spawn_blocking(move || std::fs::write(writer, "news\n")).await.unwrap().unwrap();
    let options = WaitOptions { run: None, timeout_ms: Some(20_000) };
    let record = engine.wait(&me(), id, options).await.unwrap().record;
    assert_eq!((record.status, record.attempt.0), (Status::Completed, 1));
    assert_eq!(record.result.unwrap().preview, "before\nafter news");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_can_stop_the_children_within_a_bound() {
    let world = world(Limits::default()).await;
    let id = world.spawn(shell("exec sleep 60")).await;
    until_async("the start", || async { world.engine.get(&me(), id).await.unwrap().started_at }).await;
    world.engine.shutdown(Shutdown::Stop { within: Duration::from_secs(10) }).await;
    let record = world.engine.get(&me(), id).await.unwrap();
    assert_eq!(record.status, Status::Stopped);
    assert_eq!(record.stop.unwrap().cause, subagent_model::Cause::Shutdown);
    let refusal = world.engine.spawn(&me(), shell("true")).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::Draining);
}
