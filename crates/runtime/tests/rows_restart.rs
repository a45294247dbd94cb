//! Rows of the case lists: conversations over the end of an engine and the start of the next. Each test is named by its
//! row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/talking.rs"]
mod talking;

use std::path::PathBuf;

use subagent_model::request::{AnswerRequest, ResumeRequest, SpawnRequest};
use subagent_model::{
    ActivityOn, AttemptNumber, Choice, ErrorCode, Mode, OnLoss, Receipt, RequestNumber, RequestState, Status,
    SubagentId,
};
use subagent_runtime::{Limits, Runtime};
use subagent_testkit::{home, until, until_async};
use support::{World, kill, me, plain, scripted, shim_of, world};
use talking::*;

/// What a session is told that goes on.
const GO_ON: &str = "prompt Go on with your task";

fn awaited(prompt: &str) -> ResumeRequest {
    ResumeRequest { wait_ms: Some(20_000), ..resume(prompt) }
}

fn allow() -> AnswerRequest {
    AnswerRequest { choice: Some(Choice::AllowOnce), text: None, reason: None }
}

async fn restarted(world: World) -> World {
    world.restarted(Limits::default(), async || {}).await
}

/// A path that is a signal between a test and a process.
fn signal(world: &World, name: &str) -> (PathBuf, String) {
    let path = world.dir.path().join(name);
    let text = path.to_string_lossy().into_owned();
    (path, text)
}

/// What the session of a talker was told, by its own words.
async fn recited(world: &World, id: SubagentId, run: u32) -> Vec<String> {
    let record = world.run_ended(id, run).await;
    preview(&record).lines().map(ToOwned::to_owned).collect()
}

fn times(told: &[String], word: &str) -> usize {
    told.iter().filter(|told| told.contains(word)).count()
}

#[tokio::test]
async fn res_09_and_14_a_session_goes_on_as_a_new_attempt_and_is_not_told_its_prompt_twice() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("say half\ngate never\non-continue say went on with $session")).await;
    world.until_prompted(id, 1).await;
    let session = world.record(id).await.session.unwrap();
    let world = restarted(world).await;
    let record = world.ended(id).await;
    ended_as(&record, Status::Completed, &format!("went on with {session}"));
    assert_eq!((record.run.0, record.attempts.len()), (1, 2), "the same run");
    let told = world.told(id);
    assert!(told.len() == 2 && told[1].starts_with(GO_ON), "{told:?}");
    assert_eq!((world.count(id, "accepted"), world.count(id, "ended"), world.notices(id).await), (1, 1, 1));
}

#[tokio::test]
async fn res_09_a_session_that_holds_nothing_is_told_the_prompt() {
    let world = world(Limits::default()).await;
    let id = world.spawn(scripted("attempt 1 before-open gate open\nsay whole")).await;
    world.fake.gate("open").reached().await;
    let world = restarted(world).await;
    let record = world.ended(id).await;
    ended_as(&record, Status::Completed, "whole");
    assert_eq!((record.attempts.len(), world.told(id).len()), (2, 1));
}

#[tokio::test]
async fn res_14_what_becomes_of_a_run_whose_process_is_gone_follows_from_what_it_can_do() {
    let world = world(Limits { running: 5, ..Limits::default() }).await;
    let goes_on = "gate never\non-continue say went on";
    let finished = world.spawn(scripted("say done")).await;
    world.ended(finished).await;
    let session = world.spawn(scripted(goes_on)).await;
    let mute = world.spawn(plain("gate never")).await;
    let detached = world.spawn(SpawnRequest { mode: Mode::Detached, ..scripted(goes_on) }).await;
    let once = world.spawn(SpawnRequest { on_loss: OnLoss::Fail, ..scripted(goes_on) }).await;
    let anew = world
        .spawn(SpawnRequest { on_loss: OnLoss::Rerun, ..scripted("attempt 1 gate never\nsay anew") })
        .await;
    for id in [session, detached, once, anew] {
        world.until_prompted(id, 1).await;
    }
    world.until_started(mute).await;
    let queued = world.spawn(scripted("say began")).await;
    assert_eq!(world.status(queued).await, Status::Queued);
    let world = restarted(world).await;
    for (id, status, text, launches) in [
        (finished, Status::Completed, "done", 1),
        (session, Status::Completed, "went on", 2),
        (mute, Status::Lost, "", 1),
        (detached, Status::Lost, "", 1),
        (once, Status::Lost, "", 1),
        (anew, Status::Completed, "anew", 2),
        (queued, Status::Completed, "began", 1),
    ] {
        ended_as(&world.ended(id).await, status, text);
        assert_eq!(world.launched(id), launches, "{text}");
    }
    let told = world.told(anew);
    assert_eq!((told.len(), &told[0]), (2, &told[1]), "asked for: its work may be done twice");
}

#[tokio::test]
async fn res_19_what_is_started_again_keeps_to_the_limits() {
    let world = world(Limits::default()).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = world.spawn(scripted("gate never\non-continue gate go\non-continue say went on")).await;
        world.until_prompted(id, 1).await;
        ids.push(id);
    }
    let world = world.restarted(Limits { running: 1, ..Limits::default() }, async || {}).await;
    world.fake.gate("go").reached().await;
    // All three are known by then: what is left waits for the slot.
    until_async("a queue", || async { (world.engine.health().await.unwrap().queued == 2).then_some(()) })
        .await;
    assert_eq!(world.engine.health().await.unwrap().running, 1);
    world.fake.gate("go").open();
    for id in &ids {
        ended_as(&world.ended(*id).await, Status::Completed, "went on");
    }
    let mut again: Vec<_> = world.fake.launches()[3..].iter().map(|launched| launched.key.subagent).collect();
    again.sort_unstable();
    assert_eq!(again, ids, "each once more");
}

#[tokio::test]
async fn steer_13_a_message_that_was_held_over_a_restart_is_told_once() {
    let world = world(Limits::default()).await;
    let id =
        world.spawn(scripted("ask execute make\non-continue await steer\non-continue say got $steer")).await;
    world.until_status(id, Status::Waiting).await;
    world.steer(id, "hello").await.unwrap();
    let world = restarted(world).await;
    ended_as(&world.ended(id).await, Status::Completed, "got hello");
    assert!(is_delivered_in(world.last_word(id, 1).await, 1));
    assert_eq!(times(&world.told(id), "hello"), 1);
    let record = world.record(id).await;
    assert_eq!(record.requests[0].state, RequestState::Withdrawn, "who had asked is gone");
}

#[tokio::test]
async fn res_12_and_perm_03_a_process_is_adopted_with_its_question_and_its_messages() {
    let world = world(Limits::default()).await;
    let script = "say half\nask execute make install\nawait steer\nsay $answer $steer\nrecite";
    let id = world.spawn(talker(world.dir.path(), script)).await;
    world.until_status(id, Status::Waiting).await;
    assert_eq!(world.steer(id, "hello").await.unwrap().message.unwrap().receipt, Receipt::Accepted);
    let process = world.process(id).await;
    let world = restarted(world).await;
    let record = world.record(id).await;
    assert_eq!((record.status, record.waiting_on), (Status::Waiting, Some(ActivityOn::Approval)));
    assert_eq!((record.attempt, record.attempts.len()), (AttemptNumber(1), 1));
    assert_eq!(world.process(id).await, process);
    let open = world.engine.requests(&me(), false).await.unwrap().items;
    assert_eq!((open.len(), open[0].request.number), (1, RequestNumber(1)), "the same request, once");
    assert_eq!(record.pending_messages.len(), 1);
    world.engine.answer(&me(), id, RequestNumber(1), allow()).await.unwrap();
    let told = recited(&world, id, 1).await;
    assert_eq!((times(&told, "prompt "), times(&told, "steer hello")), (1, 1), "{told:?}");
    let log = world.engine.output(&me(), id, 0, None).await.unwrap();
    let said: String =
        log.parts.iter().filter(|part| part.stream == "stdout").map(|part| part.text.as_str()).collect();
    assert!(said.contains("half") && said.contains("allow_once hello"), "{said}");
    assert!(is_delivered_in(world.last_word(id, 1).await, 1));
    assert_eq!((world.count(id, "request_opened"), world.count(id, "prompted")), (1, 1));
}

#[tokio::test]
async fn res_12_an_adopted_process_takes_messages_interrupts_and_stops_as_before() {
    let world = world(Limits::default()).await;
    let steered = world.spawn(talker(world.dir.path(), "await steer\nsay got $steer by $pid")).await;
    let interrupted = world.spawn(talker(world.dir.path(), "say half\nsleep 600000")).await;
    let stopped = world.spawn(talker(world.dir.path(), "say half\nsleep 600000")).await;
    for id in [steered, interrupted, stopped] {
        until_async("a turn", || async { (world.count(id, "prompted") == 1).then_some(()) }).await;
    }
    for id in [interrupted, stopped] {
        world.until_said(id, "half").await;
    }
    let pid = world.process(steered).await.pid;
    let gone = world.process(stopped).await.pid;
    let world = restarted(world).await;
    world.steer(steered, "hello").await.unwrap();
    ended_as(&world.ended(steered).await, Status::Completed, &format!("got hello by {pid}"));
    assert!(world.interrupt(interrupted, "").await.unwrap().accepted);
    let record = world.ended(interrupted).await;
    ended_as(&record, Status::Stopped, "half");
    assert_eq!(record.stop.unwrap().cause, subagent_model::Cause::Interrupted);
    assert!(world.stop(stopped).await.accepted);
    ended_as(&world.ended(stopped).await, Status::Stopped, "half");
    assert!(!home::is_alive(i32::try_from(gone).unwrap()));
}

#[tokio::test]
async fn res_13_what_ended_its_turn_while_no_engine_ran_is_completed_with_its_answer() {
    let world = world(Limits::default()).await;
    let (go, path) = signal(&world, "go");
    let (said, said_path) = signal(&world, "said");
    let script = format!("use 10 5\nfile {path}\nturn\nuse 20 5\nsay done by $pid\ntouch {said_path}");
    let id = world.spawn(talker(world.dir.path(), &script)).await;
    let pid = world.process(id).await.pid;
    until_async("a turn", || async { (world.count(id, "prompted") == 1).then_some(()) }).await;
    let world = world
        .restarted(Limits::default(), async || {
            std::fs::write(&go, "").unwrap();
            until_async("its answer", || async { said.exists().then_some(()) }).await;
        })
        .await;
    let record = world.ended(id).await;
    ended_as(&record, Status::Completed, &format!("done by {pid}"));
    assert_eq!((record.turn_count, record.usage.unwrap().total), (1, 40), "counted once, before and after");
    assert_eq!((record.attempts.len(), world.notices(id).await), (1, 1));
}

#[tokio::test]
async fn res_12_a_warm_process_is_idle_over_a_restart_and_goes_on() {
    let world = world(Limits::default()).await;
    let id = world.spawn(warm(talker(world.dir.path(), "say one"))).await;
    world.until_status(id, Status::Idle).await;
    let pid = world.process(id).await.pid;
    let world = restarted(world).await;
    let record = world.record(id).await;
    ended_as(&record, Status::Idle, "one");
    assert!(world.steer(id, "say two by $pid").await.unwrap().accepted);
    let record = world.run_ended(id, 2).await;
    assert_eq!((preview(&record), record.attempt), (format!("two by {pid}").as_str(), AttemptNumber(1)));
    // And once more, with nothing in between that the next engine could mix up.
    let world = restarted(world).await;
    ended_as(&world.record(id).await, Status::Idle, &format!("two by {pid}"));
    world.engine.resume(&me(), id, resume("recite")).await.unwrap();
    let told = recited(&world, id, 3).await;
    assert_eq!((told.len(), times(&told, "say two")), (3, 1), "{told:?}");
    assert_eq!((world.count(id, "claimed"), world.notices(id).await), (1, 3));
    world.stop(id).await;
    assert!(world.engine.gone(&me(), id, std::time::Duration::from_secs(20)).await.unwrap());
}

#[tokio::test]
async fn res_14_a_warm_process_that_died_meanwhile_leaves_its_answer_and_its_session() {
    for with_shim in [false, true] {
        let world = world(Limits::default()).await;
        let id = world.spawn(warm(talker(world.dir.path(), "say one"))).await;
        world.until_status(id, Status::Idle).await;
        let process = world.process(id).await;
        let shim = shim_of(&process);
        let world = world
            .restarted(Limits::default(), async || {
                if with_shim {
                    kill(shim);
                }
                kill(process.pid);
            })
            .await;
        world.until_status(id, Status::Completed).await;
        let record = world.record(id).await;
        ended_as(&record, Status::Completed, "one");
        assert!(record.resumable, "{record:?}");
        let reply = world.engine.resume(&me(), id, awaited("recite")).await.unwrap();
        assert_eq!(reply.record.attempt, AttemptNumber(2));
        let told = recited(&world, id, 2).await;
        assert_eq!((times(&told, "prompt say one"), told.len()), (1, 2), "{told:?}");
        world.stop(id).await;
    }
}

#[tokio::test]
async fn res_14_a_process_that_was_lost_with_its_shim_goes_on_in_its_session() {
    let world = world(Limits::default()).await;
    let id = world.spawn(talker(world.dir.path(), "say half\nsleep 600000\non-continue recite")).await;
    until_async("a turn", || async { (world.count(id, "prompted") == 1).then_some(()) }).await;
    world.steer(id, "hello").await.unwrap();
    world.last_word(id, 1).await;
    let process = world.process(id).await;
    let shim = shim_of(&process);
    let world = world
        .restarted(Limits::default(), async || {
            kill(shim);
            kill(process.pid);
        })
        .await;
    let told = recited(&world, id, 1).await;
    assert_eq!(
        (times(&told, "prompt say half"), times(&told, "steer hello"), told.len()),
        (1, 1, 2 + told.len() - 2)
    );
    assert!(told.last().unwrap().starts_with(GO_ON), "{told:?}");
    let record = world.record(id).await;
    assert_eq!((record.status, record.attempts.len()), (Status::Completed, 2));
}

#[tokio::test]
async fn sm_15_a_recorded_exit_of_a_killed_process_is_no_loss_and_the_run_moves_on() {
    let world = world(Limits::default()).await;
    let id = world.spawn(talker(world.dir.path(), "say half\nsleep 600000\non-continue say went on")).await;
    until_async("a turn", || async { (world.count(id, "prompted") == 1).then_some(()) }).await;
    world.until_said(id, "half").await;
    let process = world.process(id).await;
    let world = world.restarted(Limits::default(), async || kill(process.pid)).await;
    until_async("the end of the attempt", || async {
        let record = world.record(id).await;
        (record.status.is_final() || record.attempts[0].ended.is_some()).then_some(())
    })
    .await;
    let record = world.ended(id).await;
    assert_eq!(record.attempts[0].exit.unwrap().signal, Some(9), "{record:?}");
    assert_ne!(record.status, Status::Lost);
    assert_eq!(preview(&record), if record.status == Status::Completed { "went on" } else { "half" });
}

#[tokio::test]
async fn res_14_a_turn_that_ended_while_nobody_listened_counts_though_its_shim_is_gone() {
    for with_shim in [false, true] {
        let world = world(Limits::default()).await;
        let go = world.dir.path().join("go");
        let script = format!("say half\nfile {}\nsay all of it\ndone\nexit 0", go.display());
        let id = world.spawn(talker(world.dir.path(), &script)).await;
        world.until_said(id, "half").await;
        let process = world.process(id).await;
        let shim = shim_of(&process);
        let world = world
            .restarted(Limits::default(), async || {
                std::fs::write(&go, "").unwrap();
                until("the child to be gone", || (!home::is_alive(process.pid.cast_signed())).then_some(()));
                if with_shim {
                    kill(shim);
                }
            })
            .await;
        let record = world.ended(id).await;
        ended_as(&record, Status::Completed, "all of it");
        assert_eq!((world.count(id, "claimed"), world.notices(id).await), (1, 1), "{record:?}");
    }
}

#[tokio::test]
async fn steer_13_a_message_at_the_moment_its_child_dies_is_told_once_or_comes_back() {
    let world = world(Limits::default()).await;
    for _ in 0..10 {
        let id = world.spawn(talker(world.dir.path(), "await steer\nsleep 600000\non-continue recite")).await;
        until_async("a turn", || async { (world.count(id, "prompted") == 1).then_some(()) }).await;
        let process = world.process(id).await;
        let pid = i32::try_from(process.pid).unwrap();
        home::kill(pid, rustix::process::Signal::KILL);
        let sent = world.steer(id, "hello").await;
        if let Ok(reply) = &sent {
            let number = reply.message.as_ref().unwrap().message.number.0;
            until_async("the end", || async {
                let record = world.record(id).await;
                (record.status.is_final() || record.attempts[0].ended.is_some()).then_some(())
            })
            .await;
            let receipt = world
                .posted(id)
                .await
                .iter()
                .find(|posted| posted.message.number.0 == number)
                .unwrap()
                .receipt;
            // What was certainly not written waits for the next attempt.
            let waits = receipt == Receipt::Accepted && !world.status(id).await.is_final();
            assert!(waits || receipt != Receipt::Accepted, "{receipt:?}");
        } else {
            refused(sent, ErrorCode::NoOpenTurn);
        }
        world.stop(id).await;
        assert!(world.posted(id).await.iter().all(|posted| posted.receipt != Receipt::Accepted));
    }
}

#[tokio::test]
async fn res_11_and_16_an_id_is_found_after_a_restart_and_its_lost_session_is_named() {
    let world = world(Limits::default()).await;
    let id = world.spawn(talker(world.dir.path(), "say one")).await;
    let before = world.ended(id).await;
    let world = restarted(world).await;
    assert_eq!(world.engine.resolve(&before.handle.to_string()).await.unwrap(), id);
    let other = world.spawn(scripted("say other")).await;
    let other = world.ended(other).await;
    assert!(other.id != id && other.handle != before.handle);
    let reply = world.engine.resume(&me(), id, awaited("recite")).await.unwrap();
    assert_eq!(preview(&reply.record), "prompt say one\nprompt recite");
    std::fs::remove_dir_all(world.dir.path().join("sessions")).unwrap();
    std::fs::create_dir(world.dir.path().join("sessions")).unwrap();
    let reply = world.engine.resume(&me(), id, awaited("recite")).await.unwrap();
    let error = reply.record.error.unwrap();
    assert_eq!(error.code, ErrorCode::SessionGone, "{error:?}");
    assert!(error.message.contains(before.session.as_ref().unwrap()));
}

#[tokio::test]
async fn res_16_names_made_before_a_restart_are_never_made_again() {
    let limits = Limits { rate: 10_000, queue: 10_000, running: 0, ..Limits::default() };
    let mut world = world(limits.clone()).await;
    let (mut ids, mut handles) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for _ in 0..4 {
        for _ in 0..100 {
            let record = world.engine.spawn(&me(), scripted("say x")).await.unwrap().record;
            assert!(ids.insert(record.id) && handles.insert(record.handle.clone()), "{record:?}");
        }
        world = world.restarted(limits.clone(), async || {}).await;
    }
    assert_eq!((ids.len(), handles.len()), (400, 400));
}
