//! Rows of the case lists: turns, their interrupts and stops. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/talking.rs"]
mod talking;

use std::sync::Arc;
use std::time::{Duration, Instant};

use subagent_model::request::{AnswerRequest, ResumeRequest, SpawnRequest, SteerMode, StopAllRequest};
use subagent_model::{
    ActivityOn, Budget, Cause, Choice, ErrorCode, Mark, Receipt, RequestNumber, RequestState, Requester,
    ReturnReason, Status, SubagentId,
};
use subagent_provider::Scripted;
use subagent_runtime::{Caller, Limits, Runtime};
use subagent_testkit::{home, until_async};
use support::{SlowStore, World, me, scripted, shell, world};
use talking::*;

fn awaited(prompt: &str) -> ResumeRequest {
    ResumeRequest { wait_ms: Some(20_000), ..resume(prompt) }
}

/// What holds of every run that was stopped before its first prompt.
async fn stopped_before_its_prompt(world: &World, id: SubagentId, what: &str) {
    let record = world.ended(id).await;
    assert_eq!((record.status, record.turn_count), (Status::Stopped, 0), "{what}");
    world.until_quiet(id).await;
    assert_eq!((world.count(id, "prompted"), world.count(id, "ended")), (0, 1), "{what}");
    assert!(world.told(id).is_empty(), "{what}: {:?}", world.told(id));
    assert_eq!(world.notices(id).await, 1, "{what}");
}

#[tokio::test]
async fn stop_02_a_stop_while_the_session_opens_tells_no_prompt() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("before-open gate open\nsay never")).await;
    world.fake.gate("open").reached().await;
    world.stop(id).await;
    stopped_before_its_prompt(&world, id, "a task").await;

    let file = world.dir.path().join("open").to_string_lossy().into_owned();
    let request = talker_with(world.dir.path(), &["--before-open", &format!("file {file}")], "say never");
    let id = world.spawn(request).await;
    let pid = i32::try_from(world.process(id).await.pid).unwrap();
    world.stop(id).await;
    stopped_before_its_prompt(&world, id, "a process").await;
    assert!(!home::is_alive(pid), "what was made meanwhile is closed");
}

/// A world whose commits can be held.
async fn slow_world() -> (World, Arc<SlowStore>) {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let (fake, slow) = (Scripted::default(), Arc::new(SlowStore::default()));
    let engine = talking(&dir, &fake, Arc::clone(&slow) as _, Limits::default()).await;
    // The store of the world is not the one that is asked: tests look through the engine.
    let world = World { engine, fake, store: Arc::default(), dir };
    (world, slow)
}

#[tokio::test]
async fn stop_02_a_stop_between_the_open_session_and_the_prompt_goes_first() {
    let (mut before, mut after) = (0, 0);
    for patience in 0..30 {
        let (world, slow) = slow_world().await;
        let id = world.spawn(scripted("before-open gate open\nsay never")).await;
        world.fake.gate("open").reached().await;
        until_async("its start", || async { world.record(id).await.started_at.map(drop) }).await;
        // While another commit is on its way, all that is told meanwhile comes into one round after it.
        slow.close();
        let engine = world.engine.clone();
        let other = tokio::spawn(async move { engine.spawn(&me(), scripted("say other")).await });
        slow.until_waiting().await;
        world.fake.gate("open").open();
        for _ in 0..patience {
            tokio::task::yield_now().await;
        }
        {
            let request = subagent_model::request::StopRequest::default();
            let (engine, caller) = (world.engine.clone(), me());
            let stop = engine.stop(&caller, id, request);
            tokio::pin!(stop);
            // Asked once, it has told the writer and waits for its answer.
            tokio::select! {
                biased;
                reply = &mut stop => panic!("{reply:?}"),
                () = std::future::ready(()) => {}
            }
            slow.open();
            stop.await.unwrap();
        }
        other.await.unwrap().unwrap();
        let record = world.ended(id).await;
        assert_eq!((record.status, record.turn_count), (Status::Stopped, 0));
        assert!(world.told(id).is_empty(), "{:?}", world.told(id));
        let kinds = world.kinds(id).await;
        assert_eq!(kinds.iter().filter(|kind| **kind == "ended").count(), 1, "{kinds:?}");
        let place = |kind: &str| kinds.iter().position(|known| *known == kind);
        let opened = place("session_opened").is_some_and(|opened| opened < place("stop_accepted").unwrap());
        *(if opened { &mut before } else { &mut after }) += 1;
    }
    assert!(before > 0 && after > 0, "before the session was open in the record {after}, after it {before}");
}

#[tokio::test]
async fn stop_02_a_stop_right_after_the_slot_was_taken_leaves_nothing() {
    for request in [scripted("say never"), shell("echo never")] {
        let wanted_is_program = request.exec.is_some();
        let (world, slow) = slow_world().await;
        slow.close();
        let (engine, wanted) = (world.engine.clone(), request.clone());
        let spawn = tokio::spawn(async move { engine.spawn(&me(), wanted).await });
        slow.until_waiting().await;
        let engine = world.engine.clone();
        let stop = tokio::spawn(async move { engine.stop_all(&me(), StopAllRequest::default()).await });
        tokio::task::yield_now().await;
        slow.open();
        let id = spawn.await.unwrap().unwrap().record.id;
        assert_eq!(stop.await.unwrap().unwrap().stopped.len(), 1);
        let record = world.ended(id).await;
        // What a program had written by then is kept with it, and is no good end.
        assert_eq!(record.status, Status::Stopped);
        assert!(record.result.is_none() || wanted_is_program, "{record:?}");
        world.until_quiet(id).await;
        let kinds = world.kinds(id).await;
        assert_eq!(kinds.iter().filter(|kind| **kind == "ended").count(), 1, "{kinds:?}");
        assert!(world.told(id).is_empty());
    }
}

#[tokio::test]
async fn stop_05_a_later_run_that_is_stopped_really_ends() {
    let world = talking_world(Limits::default()).await;
    for all in [false, true] {
        for stay in [false, true] {
            let request = talker(world.dir.path(), "say one");
            let id = world.spawn(if stay { warm(request) } else { request }).await;
            world.run_ended(id, 1).await;
            world.engine.resume(&me(), id, resume("say two\nsleep 600000")).await.unwrap();
            until_async("the turn", || async { (world.count(id, "prompted") == 2).then_some(()) }).await;
            let pid = i32::try_from(world.process(id).await.pid).unwrap();
            if all {
                let reply = world.engine.stop_all(&me(), StopAllRequest::default()).await.unwrap();
                assert_eq!(reply.stopped.iter().filter(|record| record.id == id).count(), 1);
            } else {
                assert!(world.stop(id).await.accepted);
            }
            let record = world.run_ended(id, 2).await;
            assert_eq!(record.status, Status::Stopped, "all: {all}, warm: {stay}");
            assert!(!home::is_alive(pid), "all: {all}, warm: {stay}");
            ended_as(&world.run_ended(id, 1).await, Status::Completed, "one");
        }
    }
}

#[tokio::test]
async fn stop_10_a_waiting_run_ends_at_once_and_takes_its_request_back() {
    let world = talking_world(Limits::default()).await;
    let asking = world.spawn(scripted("ask execute make")).await;
    let question = world.spawn(scripted("question Which port?")).await;
    for (id, on) in [(asking, ActivityOn::Approval), (question, ActivityOn::Question)] {
        world.until_status(id, Status::Waiting).await;
        let record = world.record(id).await;
        assert_eq!(record.waiting_on, Some(on));
        world.stop(id).await;
        assert!(
            world.engine.requests(&me(), false).await.unwrap().items.iter().all(|open| open.subagent != id)
        );
        let record = world.ended(id).await;
        assert_eq!((record.status, record.requests[0].state), (Status::Stopped, RequestState::Withdrawn));
        let late = AnswerRequest { choice: Some(Choice::AllowOnce), text: None, reason: None };
        let reply = world.engine.answer(&me(), id, RequestNumber(1), late).await;
        refused(reply, ErrorCode::AlreadyAnswered);
    }
    let quota = world.spawn(scripted("fail quota_exhausted reset 600000 used up")).await;
    world.until_status(quota, Status::Waiting).await;
    assert!(matches!(world.record(quota).await.waiting_on, Some(ActivityOn::Quota { .. })));
    let reply = world.stop(quota).await;
    assert_eq!(reply.record.status, Status::Stopped, "there is no process to wait for");
    assert_eq!(world.count(quota, "ended"), 1);
}

#[tokio::test]
async fn stop_11_a_stopped_run_keeps_what_it_has_and_can_be_resumed() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(talker(world.dir.path(), "say half\nsleep 600000")).await;
    until_async("the turn", || async { (world.count(id, "prompted") == 1).then_some(()) }).await;
    until_async("its text", || async {
        let log = world.engine.output(&me(), id, 0, None).await.unwrap();
        log.parts.iter().any(|part| part.text.contains("half")).then_some(())
    })
    .await;
    world.stop(id).await;
    let record = world.ended(id).await;
    ended_as(&record, Status::Stopped, "half");
    assert!(record.marks.contains(&Mark::Partial) && record.resumable && record.session.is_some());
    let transcript = world.dir.path().join("data").join(record.transcript.as_ref().unwrap());
    assert!(transcript.exists());
    let next = world.engine.resume(&me(), id, awaited("recite")).await.unwrap();
    ended_as(&next.record, Status::Completed, "prompt say half\nsleep 600000\nprompt recite");
}

#[tokio::test]
async fn stop_13_a_failure_while_it_was_stopped_is_told_beside_the_stop() {
    let world = talking_world(Limits::default()).await;
    let file = world.dir.path().join("fail");
    let script = format!("deaf\nsay half\nfile {}\nfail auth the room is locked", file.display());
    let id = world.spawn(talker(world.dir.path(), &script)).await;
    world.until_said(id, "half").await;
    assert_eq!(world.stop(id).await.record.status, Status::Stopping);
    std::fs::write(&file, "").unwrap();
    let record = world.ended(id).await;
    ended_as(&record, Status::Stopped, "half");
    let error = record.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Auth, "the room is locked"));
}

#[tokio::test]
async fn stop_17_one_that_does_not_close_holds_up_no_other() {
    let world = world(Limits::default()).await;
    let first = world.spawn(scripted("gate never")).await;
    let hangs = world.spawn(scripted("hang")).await;
    let last = world.spawn(scripted("gate never")).await;
    for id in [first, hangs, last] {
        world.until_prompted(id, 1).await;
    }
    let reply = world.engine.stop_all(&me(), StopAllRequest::default()).await.unwrap();
    assert_eq!((reply.stopped.len(), reply.failed.len()), (3, 0));
    for id in [first, last] {
        assert_eq!(world.ended(id).await.status, Status::Stopped);
    }
    let record = world.ended(hangs).await;
    assert_eq!(record.status, Status::Stopped);
}

#[tokio::test]
async fn stop_18_a_message_with_the_interrupt_goes_before_the_queue() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("say zero\ngate never")).await;
    world.until_prompted(id, 1).await;
    for text in ["say later", "say last"] {
        world.follow_up(id, text).await.unwrap();
    }
    assert!(world.interrupt(id, "say now").await.unwrap().accepted);
    ended_as(&world.run_ended(id, 1).await, Status::Completed, "now");
    ended_as(&world.run_ended(id, 2).await, Status::Completed, "later");
    ended_as(&world.run_ended(id, 3).await, Status::Completed, "last");
    let told = world.fake.heard_by(id);
    let wanted =
        ["interrupt", "prompt say now", "close", "prompt say later", "close", "prompt say last", "close"];
    assert_eq!(told[1..], wanted);
}

#[tokio::test]
async fn stop_18_after_an_interrupt_the_next_message_resumes_the_queue_of_a_warm_one_too() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(warm(scripted("say zero\ngate never"))).await;
    world.until_prompted(id, 1).await;
    world.follow_up(id, "say one").await.unwrap();
    world.interrupt(id, "").await.unwrap();
    world.until_status(id, Status::Idle).await;
    let record = world.record(id).await;
    assert_eq!((record.run.0, record.pending_messages.len()), (1, 1), "nothing starts by itself");
    assert_eq!(record.stop.unwrap().cause, Cause::Interrupted);
    world.steer(id, "say two").await.unwrap();
    ended_as(&world.run_ended(id, 2).await, Status::Completed, "one");
    ended_as(&world.run_ended(id, 3).await, Status::Completed, "two");
    assert_eq!(world.launched(id), 1);
}

#[tokio::test]
async fn stop_19_a_message_between_an_interrupt_and_the_end_of_the_turn_runs_next() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(talker(world.dir.path(), "say half\nsleep 600000")).await;
    until_async("the turn", || async { (world.count(id, "prompted") == 1).then_some(()) }).await;
    world.follow_up(id, "say older").await.unwrap();
    let pid = i32::try_from(world.process(id).await.pid).unwrap();
    // Its turn cannot unwind while it does not run at all.
    home::kill(pid, rustix::process::Signal::STOP);
    world.interrupt(id, "").await.unwrap();
    let reply = world.steer(id, "say newer").await.unwrap();
    assert_eq!(reply.message.unwrap().receipt, Receipt::Accepted);
    home::kill(pid, rustix::process::Signal::CONT);
    ended_as(&world.run_ended(id, 1).await, Status::Completed, "newer");
    assert!(is_delivered_in(world.last_word(id, 2).await, 1));
    ended_as(&world.run_ended(id, 2).await, Status::Completed, "older");
}

#[tokio::test]
async fn stop_20_an_interrupt_of_what_has_no_turn_does_nothing_and_of_a_strangers_turn_is_refused() {
    let world = talking_world(Limits::default()).await;
    let ended = world.spawn(scripted("say done")).await;
    world.ended(ended).await;
    let idle = world.spawn(warm(scripted("say done"))).await;
    world.until_status(idle, Status::Idle).await;
    for id in [ended, idle] {
        let before = world.all_kinds(id);
        assert!(!world.interrupt(id, "").await.unwrap().accepted);
        assert_eq!(world.all_kinds(id), before);
    }
    let unknown: SubagentId = "01932c07-0000-7000-8000-000000000001".parse().unwrap();
    refused(world.interrupt(unknown, "").await, ErrorCode::NotFound);
    let live = world.spawn(scripted("gate never")).await;
    world.until_prompted(live, 1).await;
    let stranger = Caller { requester: Requester::from("mcp:other") };
    let reply = world.engine.steer(&stranger, live, say("", SteerMode::Interrupt)).await;
    refused(reply, ErrorCode::NotYours);
    assert_eq!(world.fake.heard_by(live), ["prompt gate never"]);
}

#[tokio::test]
async fn stop_20_an_interrupt_that_the_child_ignores_ends_it_within_the_graces() {
    for process in [false, true] {
        let world = world(Limits::default()).await;
        let request = if process {
            talker(world.dir.path(), "ignore-term\ndeaf\nsay half\nsleep 600000")
        } else {
            scripted("say half\ndeaf\ngate deaf")
        };
        let id = world.spawn(request).await;
        if process {
            world.until_said(id, "half").await;
        } else {
            world.fake.gate("deaf").reached().await;
        }
        world.follow_up(id, "say later").await.unwrap();
        let asked = Instant::now();
        assert!(world.interrupt(id, "").await.unwrap().accepted);
        let record = world.ended(id).await;
        assert_eq!((record.status, record.stop.unwrap().cause), (Status::Stopped, Cause::Interrupted));
        // The grace of the interrupt, then the steps of a stop: input, SIGTERM, SIGKILL.
        assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
        let record = world.record(id).await;
        assert_eq!((record.run.0, record.pending_messages.len()), (1, 1), "nothing starts by itself");
    }
}

#[tokio::test]
async fn sm_11_a_start_that_fails_says_where_and_leaves_nothing() {
    let world = talking_world(Limits::default()).await;
    let before = world.engine.health().await.unwrap().running;
    let opening = world.spawn(scripted("before-open fail auth no key")).await;
    let protocol = world.spawn(talker_with(world.dir.path(), &["--version", "2"], "say never")).await;
    let broken =
        world.spawn(talker_with(world.dir.path(), &["--before-open", "break no json"], "say never")).await;
    let mut missing = talker(world.dir.path(), "say never");
    missing.exec.as_mut().unwrap().program = String::from("/no/such/program");
    let missing = world.spawn(missing).await;
    for (id, code) in [
        (opening, ErrorCode::Auth),
        (protocol, ErrorCode::Protocol),
        (broken, ErrorCode::Protocol),
        (missing, ErrorCode::ProgramNotFound),
    ] {
        until_async("its failure", || async {
            let record = world.record(id).await;
            (record.status.is_final() || record.attempts.first().is_some_and(|facts| facts.ended.is_some()))
                .then_some(())
        })
        .await;
        let record = world.record(id).await;
        if record.status.is_final() {
            assert_eq!((record.status, record.error.unwrap().code), (Status::Error, code));
        } else {
            // One that may pass is tried again later, and holds nothing meanwhile.
            assert_eq!((record.status, code), (Status::Queued, ErrorCode::Protocol), "{:?}", record.attempts);
            world.stop(id).await;
        }
        assert_eq!((world.count(id, "prompted"), world.count(id, "ended")), (0, 1));
        assert!(world.told(id).is_empty());
    }
    until_async("free slots", || async {
        (world.engine.health().await.unwrap().running == before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn sm_16_and_17_a_run_with_work_in_the_background_waits_and_ends_once() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("background 1\nsay all\ndone\ngate built\nbackground 0")).await;
    world.until_status(id, Status::Waiting).await;
    let record = world.record(id).await;
    assert_eq!(record.waiting_on, Some(ActivityOn::Background));
    assert!(record.waiting_since.is_some_and(|since| since >= record.started_at.unwrap()));
    assert_eq!(world.notices(id).await, 0);
    world.fake.gate("built").open();
    ended_as(&world.ended(id).await, Status::Completed, "all");
    assert_eq!((world.count(id, "ended"), world.notices(id).await), (1, 1));
}

#[tokio::test]
async fn prov_11_a_turn_that_background_work_begins_by_itself_counts() {
    let world = talking_world(Limits::default()).await;
    let script = "background 1\nsay early\ndone\ngate built\nsay late\ndone\nbackground 0";
    let id = world.spawn(scripted(script)).await;
    world.until_status(id, Status::Waiting).await;
    world.fake.gate("built").open();
    ended_as(&world.ended(id).await, Status::Completed, "late");
    assert_eq!((world.count(id, "ended"), world.notices(id).await), (1, 1));
}

#[tokio::test]
async fn prov_05_a_limit_that_the_provider_holds_cuts_the_run_off() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("say half\nlimit cost")).await;
    let record = world.ended(id).await;
    ended_as(&record, Status::Aborted, "half");
    assert!(record.marks.contains(&Mark::Partial), "{record:?}");
    let warm =
        world.spawn(SpawnRequest { mode: subagent_model::Mode::Warm, ..scripted("limit turns") }).await;
    assert_eq!(world.ended(warm).await.status, Status::Aborted);
}

#[tokio::test]
async fn a_program_that_is_missing_is_named_with_what_to_do_about_it() {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let registry = subagent_provider::Registry::default().with(subagent_provider_cli::ClaudeCode);
    let (store, pool) = (Arc::new(subagent_store::MemoryStore::default()), support::pool(dir.path()));
    let config = support::config(dir.path(), Limits::default());
    let engine = subagent_runtime::Engine::start(config, Arc::clone(&store) as _, registry, Some(pool)).await;
    let world = World { engine: engine.unwrap(), fake: Scripted::default(), store, dir };
    let env = [(String::from("PATH"), String::from("/no/such/directory"))].into();
    let id = world.spawn(SpawnRequest { provider: String::from("claude"), env, ..scripted("do it") }).await;
    let error = world.ended(id).await.error.unwrap();
    assert_eq!(error.code, ErrorCode::ProgramNotFound);
    assert!(error.detail.unwrap().contains("npm install"), "{}", error.message);
}

#[tokio::test]
async fn sm_19_a_run_that_a_person_redirected_is_completed() {
    let world = talking_world(Limits::default()).await;
    let budget = Budget { max_turns: Some(9), ..Budget::default() };
    let id = world.spawn(SpawnRequest { budget, ..scripted("turn\nawait steer\nturn\nsay $steer") }).await;
    world.until_prompted(id, 1).await;
    world.steer(id, "the other way").await.unwrap();
    let record = world.ended(id).await;
    ended_as(&record, Status::Completed, "the other way");
    assert_eq!(record.wrap_up, None);
}

#[tokio::test]
async fn sm_21_and_22_and_23_what_a_child_says_of_its_end_is_never_taken_for_success() {
    let world = talking_world(Limits::default()).await;
    let unknown = r#"break {"type":"failed","code":"out_of_cheese","message":"redo from start"}"#;
    let odd = world.spawn(talker(world.dir.path(), &format!("say half\n{unknown}\nsleep 600000"))).await;
    let cancelled = world.spawn(scripted("say half\ncancelled")).await;
    let at_once = world.spawn(scripted("refuse I will not")).await;
    let error = |record: subagent_model::SubagentRecord| match record.status {
        Status::Error => record.error.unwrap(),
        other => panic!("{other:?}: {record:?}"),
    };
    let refused = error(world.ended(at_once).await);
    assert_eq!((refused.code, refused.message.as_str()), (ErrorCode::Refused, "I will not"));
    let cancelled = error(world.ended(cancelled).await);
    assert!(cancelled.message.contains("no stop was asked for"), "{cancelled:?}");
    until_async("the unknown word", || async {
        let record = world.record(odd).await;
        assert_ne!(record.status, Status::Completed);
        let told = record.attempts.first().and_then(|facts| facts.ended.clone());
        let told = told.or(record.error.map(|error| format!("{} {:?}", error.message, error.detail)));
        told.filter(|told| told.contains("out_of_cheese"))
    })
    .await;
    world.stop(odd).await;
    // With an interrupt of ours the same word is a stop, and what was accepted before any turn is no success either.
    let ours = world.spawn(scripted("say half\ngate never")).await;
    world.until_prompted(ours, 1).await;
    world.interrupt(ours, "").await.unwrap();
    ended_as(&world.ended(ours).await, Status::Stopped, "half");
    let dropped = world.spawn(scripted("before-open gate shut\nsay never")).await;
    world.fake.gate("shut").reached().await;
    world.steer(dropped, "hello").await.unwrap();
    world.stop(dropped).await;
    ended_as(&world.ended(dropped).await, Status::Stopped, "");
    assert!(matches!(
        world.last_word(dropped, 1).await,
        Receipt::Returned { reason: ReturnReason::Stopped, .. }
    ));
}

#[tokio::test]
async fn sm_23_a_run_whose_only_turn_was_refused_or_whose_message_was_dropped_is_not_completed() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("refuse not this")).await;
    let record = world.ended(id).await;
    assert_eq!((record.status, record.turn_count, record.tool_uses), (Status::Error, 0, 0), "{record:?}");
    assert_eq!(record.error.unwrap().code, ErrorCode::Refused);
    // A message that was accepted, and a stop before any turn: it comes back, and nothing was completed.
    let id = world.spawn(scripted("before-open gate shut\nsay never")).await;
    world.fake.gate("shut").reached().await;
    let posted = world.steer(id, "and this").await.unwrap().message.unwrap();
    assert_eq!(posted.receipt, Receipt::Accepted);
    world.stop(id).await;
    world.fake.gate("shut").open();
    let record = world.ended(id).await;
    assert_eq!((record.status, record.turn_count), (Status::Stopped, 0), "{record:?}");
    let messages = world.engine.messages(&me(), id).await.unwrap().items;
    assert!(matches!(messages[0].receipt, Receipt::Returned { .. }), "{messages:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_04_of_siblings_in_the_same_stage_of_their_start_only_the_stopped_one_rolls_back() {
    let world = talking_world(Limits { running: 8, breadth: 16, rate: 1000, ..Limits::default() }).await;
    let mut ids = Vec::new();
    for at in 0..6 {
        ids.push(world.spawn(scripted(&format!("before-open gate g{at}\nsay g{at}"))).await);
    }
    for at in 0..6 {
        world.fake.gate(&format!("g{at}")).reached().await;
    }
    world.stop(ids[2]).await;
    for at in 0..6 {
        world.fake.gate(&format!("g{at}")).open();
    }
    for (at, id) in ids.iter().enumerate() {
        let record = world.ended(*id).await;
        if at == 2 {
            assert_eq!((record.status, record.turn_count), (Status::Stopped, 0), "{record:?}");
            assert!(world.told(*id).is_empty(), "no trace of its work");
        } else {
            ended_as(&record, Status::Completed, &format!("g{at}"));
        }
    }
}
