//! Rows of the case lists: the next run of a subagent. Each test is named by its row; restarts are in `rows_restart`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/talking.rs"]
mod talking;

use std::collections::BTreeMap;

use subagent_model::request::{ResumeRequest, SpawnRequest, SteerMode, WaitOptions};
use subagent_model::{Budget, Cause, ErrorCode, OnLoss, QueueReason, RunNumber, Status, SubagentId};
use subagent_runtime::{Limits, Runtime};
use subagent_testkit::until_async;
use support::{World, me, plain, scripted};
use talking::*;

fn awaited(prompt: &str) -> ResumeRequest {
    ResumeRequest { wait_ms: Some(20_000), ..resume(prompt) }
}

#[tokio::test(flavor = "multi_thread")]
async fn res_01_two_resumes_at_once_open_one_run() {
    let world = talking_world(Limits::default()).await;
    for round in 0..20 {
        let id = world.spawn(scripted("say one")).await;
        world.ended(id).await;
        let gate = format!("two-{round}");
        let ask = || {
            let (engine, gate) = (world.engine.clone(), gate.clone());
            tokio::spawn(
                async move { engine.resume(&me(), id, resume(&format!("gate {gate}\nsay two"))).await },
            )
        };
        let (left, right) = (ask(), ask());
        let replies = [left.await.unwrap(), right.await.unwrap()];
        let opened: Vec<_> = replies.iter().filter_map(|reply| reply.as_ref().ok()).collect();
        assert_eq!(opened.len(), 1, "{replies:?}");
        assert_eq!(opened[0].run, Some(RunNumber(2)));
        let other = replies.iter().find_map(|reply| reply.as_ref().err()).unwrap();
        assert_eq!(other.code, ErrorCode::StillRunning);
        world.fake.gate(&gate).open();
        ended_as(&world.run_ended(id, 2).await, Status::Completed, "two");
        assert_eq!((world.launched(id), world.record(id).await.run.0), (2, 2), "one turn loop each");
    }
}

#[tokio::test]
async fn res_01_a_running_run_is_not_touched_by_a_resume_and_takes_it_as_a_follow_up_when_asked() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("gate a\nsay one")).await;
    world.until_prompted(id, 1).await;
    let problem = refused(world.engine.resume(&me(), id, resume("say no")).await, ErrorCode::StillRunning);
    assert!(problem.message.contains("run 1 is running"), "{problem:?}");
    let later = ResumeRequest { queue: true, ..resume("say two") };
    let reply = world.engine.resume(&me(), id, later).await.unwrap();
    assert_eq!((reply.run, reply.record.pending_messages.len()), (None, 1));
    world.fake.gate("a").open();
    ended_as(&world.run_ended(id, 1).await, Status::Completed, "one");
    ended_as(&world.run_ended(id, 2).await, Status::Completed, "two");
    assert_eq!(world.told(id), ["prompt gate a\nsay one", "prompt say two"]);
}

#[tokio::test]
async fn res_02_each_run_has_a_budget_events_a_notice_and_a_place_in_the_queue_of_its_own() {
    let world = talking_world(Limits { running: 1, ..Limits::default() }).await;
    let budget = Budget { max_turns: Some(3), grace_turns: Some(1), ..Budget::default() };
    let id = world.spawn(SpawnRequest { budget, ..scripted("turn\nturn\nsay one") }).await;
    world.ended(id).await;
    let busy = world.spawn(scripted("gate busy")).await;
    world.until_prompted(busy, 1).await;
    let reply = world.engine.resume(&me(), id, resume("turn\nturn\nsay two")).await.unwrap();
    assert_eq!((reply.record.status, reply.record.turn_count), (Status::Queued, 0));
    assert_eq!(reply.record.queued_for, Some(QueueReason::Capacity));
    world.fake.gate("busy").open();
    let record = world.run_ended(id, 2).await;
    ended_as(&record, Status::Completed, "two");
    assert_eq!((record.turn_count, record.wrap_up), (2, None), "the turns of the first run do not count");
    for kind in ["queued", "claimed", "started", "ended"] {
        assert_eq!(world.count(id, kind), 2, "{kind}");
    }
    assert_eq!(world.notices(id).await, 2);
    // A stop of the third leaves the others as they are.
    world.engine.resume(&me(), id, resume("gate never")).await.unwrap();
    world.until_prompted(id, 3).await;
    world.stop(id).await;
    assert_eq!(world.run_ended(id, 3).await.status, Status::Stopped);
    let runs = world.engine.runs(&me(), id).await.unwrap().items;
    let statuses: Vec<_> = runs.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Completed, Status::Stopped]);
}

#[tokio::test]
async fn res_03_the_first_run_stays_readable_and_its_waiter_gets_it() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("gate a\nsay one")).await;
    let waiter = {
        let engine = world.engine.clone();
        let options = WaitOptions { run: None, timeout_ms: Some(20_000) };
        tokio::spawn(async move { engine.wait(&me(), id, options).await })
    };
    world.until_prompted(id, 1).await;
    world.follow_up(id, "gate b\nsay two").await.unwrap();
    world.fake.gate("a").open();
    world.fake.gate("b").reached().await;
    let reply = waiter.await.unwrap().unwrap();
    assert_eq!((reply.ended, reply.run), (true, RunNumber(1)));
    ended_as(&reply.record, Status::Completed, "one");
    ended_as(&world.run_ended(id, 1).await, Status::Completed, "one");
    let text = world.engine.result(&me(), id, Some(RunNumber(1)), 0, 100).await.unwrap();
    assert_eq!((text.run, text.text.as_str()), (RunNumber(1), "one"));
    refused(world.engine.result(&me(), id, None, 0, 100).await, ErrorCode::StillRunning);
    world.fake.gate("b").open();
    ended_as(&world.run_ended(id, 2).await, Status::Completed, "two");
    ended_as(&world.run_ended(id, 1).await, Status::Completed, "one");
}

#[tokio::test]
async fn res_04_a_run_that_was_stopped_before_its_first_turn_has_no_text() {
    for hold in ["queued", "starting"] {
        let world = talking_world(Limits { running: 1, ..Limits::default() }).await;
        let id = world.spawn(scripted("say one")).await;
        world.ended(id).await;
        if hold == "queued" {
            let busy = world.spawn(scripted("gate busy")).await;
            world.until_prompted(busy, 1).await;
            world.engine.resume(&me(), id, resume("say two")).await.unwrap();
        } else {
            world.engine.resume(&me(), id, resume("before-open gate open\nsay two")).await.unwrap();
            world.fake.gate("open").reached().await;
        }
        world.stop(id).await;
        let record = world.run_ended(id, 2).await;
        assert_eq!((record.status, record.result), (Status::Stopped, None), "{hold}");
        ended_as(&world.run_ended(id, 1).await, Status::Completed, "one");
        assert_eq!(world.told(id), ["prompt say one"], "{hold}");
    }
}

#[tokio::test]
async fn res_05_and_10_a_resume_whose_directory_is_gone_starts_nothing_and_leaves_no_mark() {
    let world = talking_world(Limits::default()).await;
    let place = world.dir.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let cwd = camino::Utf8PathBuf::from_path_buf(place.clone()).unwrap();
    let id = world.spawn(SpawnRequest { cwd: Some(cwd.clone()), ..scripted("say one") }).await;
    world.ended(id).await;
    std::fs::remove_dir(&place).unwrap();
    for _ in 0..2 {
        let problem = refused(world.engine.resume(&me(), id, resume("say two")).await, ErrorCode::InvalidCwd);
        assert!(problem.message.contains(cwd.as_str()), "{problem:?}");
    }
    assert_eq!((world.launched(id), world.record(id).await.run.0), (1, 1));
    std::fs::create_dir(&place).unwrap();
    let reply = world.engine.resume(&me(), id, awaited("say two")).await.unwrap();
    ended_as(&reply.record, Status::Completed, "two");
}

#[tokio::test]
async fn res_06_what_cannot_be_resumed_says_why_and_is_not_offered() {
    let world = talking_world(Limits::default()).await;
    let cannot = world.spawn(plain("say one")).await;
    world.ended(cannot).await;
    let no_session = world.spawn(scripted("before-open fail auth no key")).await;
    world.ended(no_session).await;
    let running = world.spawn(scripted("gate never")).await;
    world.until_prompted(running, 1).await;
    for (id, code, word) in [
        (cannot, ErrorCode::NotResumable, "provider cannot"),
        (no_session, ErrorCode::NotResumable, "no session"),
        (running, ErrorCode::StillRunning, "still running"),
    ] {
        assert!(!world.record(id).await.resumable, "{word}");
        let problem = refused(world.engine.resume(&me(), id, resume("say two")).await, code);
        assert!(problem.message.contains(word), "{problem:?}");
        assert_eq!(world.launched(id), 1, "{word}");
        let follow_up = world.follow_up(id, "say two").await;
        assert_eq!(follow_up.is_ok(), word == "still running", "{word}: {follow_up:?}");
    }
}

#[tokio::test]
async fn res_06_and_10_and_11_a_session_that_is_gone_is_named_and_the_next_resume_judged_afresh() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("say one")).await;
    let session = world.ended(id).await.session.unwrap();
    world.fake.forget(&session);
    for run in [2, 3] {
        let reply = world.engine.resume(&me(), id, awaited("say two")).await.unwrap();
        assert_eq!(reply.run, Some(RunNumber(run)));
        let error = reply.record.error.unwrap();
        assert_eq!((reply.record.status, error.code), (Status::Error, ErrorCode::SessionGone));
        assert!(error.message.contains(&session));
        assert_eq!(reply.record.attempts.len(), 1, "a gone session is not tried again");
    }
    assert_eq!(world.told(id), ["prompt say one"]);
    ended_as(&world.run_ended(id, 1).await, Status::Completed, "one");
}

#[tokio::test]
async fn res_07_what_a_resume_does_not_use_is_reported_as_ignored() {
    let world = talking_world(Limits::default()).await;
    let request = SpawnRequest { model: Some(String::from("small")), ..scripted("say one") };
    let id = world.spawn(request).await;
    world.ended(id).await;
    let other = ResumeRequest {
        agent_type: Some(String::from("no such type")),
        model: Some(String::from("no such model")),
        ..awaited("say two")
    };
    let reply = world.engine.resume(&me(), id, other).await.unwrap();
    ended_as(&reply.record, Status::Completed, "two");
    assert_eq!(reply.ignored.len(), 2, "{:?}", reply.ignored);
    assert!(reply.ignored.iter().any(|ignored| ignored.contains("agent_type")));
    assert!(reply.ignored.iter().any(|ignored| ignored.contains("\"small\"")));
    let same = ResumeRequest { model: Some(String::from("small")), ..awaited("say three") };
    assert!(world.engine.resume(&me(), id, same).await.unwrap().ignored.is_empty());
}

#[tokio::test]
async fn res_08_a_resume_goes_by_the_record_after_a_restart_too() {
    let world = talking_world(Limits::default()).await;
    let request = SpawnRequest {
        model: Some(String::from("small")),
        agent_type: Some(String::from("reviewer")),
        labels: BTreeMap::from([(String::from("team"), String::from("a"))]),
        budget: Budget { max_turns: Some(7), ..Budget::default() },
        on_loss: OnLoss::Fail,
        ..scripted("say one")
    };
    let id = world.spawn(request).await;
    let before = world.ended(id).await;
    let world = world.restarted(Limits::default(), async || {}).await;
    let after = world.engine.resume(&me(), id, awaited("say two of $session")).await.unwrap().record;
    ended_as(&after, Status::Completed, &format!("two of {}", before.session.as_ref().unwrap()));
    let same = |record: &subagent_model::SubagentRecord| {
        (
            (record.agent_type.clone(), record.cwd.clone(), record.labels.clone()),
            (record.budget, record.depth, record.requested_by.clone(), record.handle.clone()),
        )
    };
    assert_eq!(same(&after), same(&before));
    let launches = world.fake.launches();
    assert_eq!(launches.last().unwrap().session, before.session);
}

#[tokio::test]
async fn res_15_a_resume_that_is_asked_for_twice_with_a_key_is_one_run() {
    let world = talking_world(Limits::default()).await;
    let id = world.spawn(scripted("say one")).await;
    world.ended(id).await;
    let keyed = || ResumeRequest { idempotency_key: Some(String::from("k")), ..awaited("say two") };
    let first = world.engine.resume(&me(), id, keyed()).await.unwrap();
    let again = world.engine.resume(&me(), id, keyed()).await.unwrap();
    assert_eq!((first.run, first.existing), (Some(RunNumber(2)), false));
    assert_eq!((again.run, again.existing, again.ended), (Some(RunNumber(2)), true, true));
    ended_as(&again.record, Status::Completed, "two");
    assert_eq!(world.launched(id), 2);
    // The same holds of a message.
    let world_id = world.spawn(scripted("await steer\nawait steer\nsay $steer")).await;
    world.until_prompted(world_id, 1).await;
    let message = || subagent_model::request::SteerRequest {
        idempotency_key: Some(String::from("m")),
        ..say("once", SteerMode::Steer)
    };
    let first = world.engine.steer(&me(), world_id, message()).await.unwrap().message.unwrap();
    let again = world.engine.steer(&me(), world_id, message()).await.unwrap().message.unwrap();
    assert_eq!(first.message.number, again.message.number);
    assert_eq!(world.posted(world_id).await.len(), 1);
}

#[tokio::test]
async fn res_17_a_failure_that_may_pass_shows_its_delay_and_goes_on_in_the_same_session() {
    let world = talking_world(Limits::default()).await;
    let script =
        "use 10 5\nturn\nfail overloaded too busy\non-continue turn\non-continue say went on with $session";
    let id = world.spawn(scripted(script)).await;
    until_async("the delay", || async {
        matches!(world.record(id).await.queued_for, Some(QueueReason::Rate { .. })).then_some(())
    })
    .await;
    let waits = world.record(id).await;
    assert_eq!((waits.status, waits.attempts.len()), (Status::Queued, 1));
    assert_eq!(world.engine.health().await.unwrap().running, 0, "it holds no slot meanwhile");
    let record = world.ended(id).await;
    let session = record.session.clone().unwrap();
    ended_as(&record, Status::Completed, &format!("went on with {session}"));
    assert_eq!((record.attempts.len(), record.turn_count), (2, 2), "attempts share the run's budget");
    let told = world.told(id);
    assert_eq!(told.iter().filter(|told| told.contains("overloaded")).count(), 1, "{told:?}");
    assert_eq!(world.count(id, "ended"), 1);
}

#[tokio::test]
async fn res_20_a_run_that_was_cut_off_inside_a_tool_call_can_be_followed() {
    for how in ["interrupt", "stop", "gone"] {
        let world = talking_world(Limits::default()).await;
        let last = if how == "gone" { "exit" } else { "gate never" };
        let id = world.spawn(scripted(&format!("say half\ntool start t1 build\ngate a\n{last}"))).await;
        world.fake.gate("a").reached().await;
        match how {
            "interrupt" => assert!(world.interrupt(id, "").await.unwrap().accepted),
            "stop" => assert!(world.stop(id).await.accepted),
            _ => world.fake.gate("a").open(),
        }
        let record = world.ended(id).await;
        assert_eq!(preview(&record), "half", "{how}");
        if how == "interrupt" {
            assert_eq!(record.stop.unwrap().cause, Cause::Interrupted);
        }
        let activity = world.engine.activity(&me()).await.unwrap();
        assert!(activity.iter().all(|activity| activity.active_tools.is_empty()), "{how}");
        let next = world.engine.resume(&me(), id, awaited("tool read\nsay whole")).await.unwrap();
        ended_as(&next.record, Status::Completed, "whole");
    }
}

/// SM-03: what is done to a run, and how it ends, whichever run it is.
const THIRD: &[(&str, &str, Status)] = &[
    ("completes", "say done", Status::Completed),
    ("fails", "say half\nfail auth no key", Status::Error),
    ("stops", "say half\ngate never", Status::Stopped),
    ("limit", "say half\nturn\ngate turned\nturn\ngate more\nturn\ngate never", Status::Aborted),
];

async fn nth(world: &World, id: SubagentId, run: u32, what: &str) -> Status {
    if what == "stops" {
        world.until_prompted(id, run as usize).await;
        world.stop(id).await;
    }
    let record = world.run_ended(id, run).await;
    assert!(!preview(&record).is_empty(), "{record:?}");
    record.status
}

#[tokio::test]
async fn sm_03_the_third_run_ends_like_the_first() {
    for (what, script, status) in THIRD {
        let world = talking_world(Limits::default()).await;
        for gate in ["turned", "more"] {
            world.fake.gate(gate).open();
        }
        let budget = Budget { max_turns: Some(2), grace_turns: Some(1), ..Budget::default() };
        let limited = |script: &str| SpawnRequest { budget, ..scripted(script) };
        let first = world.spawn(limited(script)).await;
        assert_eq!(nth(&world, first, 1, what).await, *status, "{what}");
        let id = world.spawn(limited("say one")).await;
        world.run_ended(id, 1).await;
        world.engine.resume(&me(), id, awaited("say two")).await.unwrap();
        world.engine.resume(&me(), id, resume(script)).await.unwrap();
        assert_eq!(nth(&world, id, 3, what).await, *status, "{what}");
        let [left, right] = [first, id].map(|id| {
            let kinds = world.all_kinds(id);
            let last = kinds.iter().rposition(|kind| *kind == "claimed").unwrap();
            kinds[last..].iter().map(|&kind| kind.to_owned()).collect::<Vec<_>>()
        });
        let marks = |kinds: &[String]| {
            let marks = ["stop_accepted", "cut_off", "turn_ended", "ended"];
            kinds.iter().filter(|kind| marks.contains(&kind.as_str())).cloned().collect::<Vec<_>>()
        };
        assert_eq!(marks(&left), marks(&right), "{what}: the same transitions");
        assert_eq!(world.notices(id).await, 3, "{what}");
        ended_as(&world.run_ended(id, 2).await, Status::Completed, "two");
    }
}

#[tokio::test]
async fn res_10_a_resume_that_failed_leaves_nothing_and_the_next_is_judged_afresh() {
    let world = talking_world(Limits { running: 1, queue: 1, ..Limits::default() }).await;
    let id = world.spawn(scripted("say one")).await;
    world.ended(id).await;
    // Refused at the gate: nothing was opened.
    let busy = world.spawn(scripted("gate busy")).await;
    world.until_prompted(busy, 1).await;
    let queued = world.spawn(scripted("say queued")).await;
    let before = world.record(id).await;
    for _ in 0..2 {
        refused(world.engine.resume(&me(), id, resume("say no")).await, ErrorCode::QueueFull);
        assert_eq!(world.record(id).await, before);
    }
    world.fake.gate("busy").open();
    world.ended(queued).await;
    // Begun, and it fails: that is a run of its own.
    let failed = world.engine.resume(&me(), id, awaited("fail auth no key")).await;
    let failed = failed.unwrap().record;
    assert_eq!((failed.status, failed.run), (Status::Error, RunNumber(2)), "{failed:?}");
    let again = world.engine.resume(&me(), id, awaited("say three")).await.unwrap().record;
    ended_as(&again, Status::Completed, "three");
    assert_eq!(again.run, RunNumber(3));
}
