//! SM-25: every operation in every state that a child can be held in, through the engine. Each cell of the table is a
//! world of its own: the child is brought into the state, the operation is asked for once, and its reply is compared.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/talking.rs"]
mod talking;

use std::fmt::Write as _;

use subagent_model::request::{GcRequest, ResumeRequest, SpawnRequest, SteerReply, WaitOptions};
use subagent_model::{Problem, Receipt, RequestState, Status, SubagentId};
use subagent_runtime::{Limits, Runtime};
use subagent_testkit::until_async;
use support::{World, me, scripted};
use talking::*;

/// A state in which a child can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Queued,
    NotOpen,
    InTurn,
    InTool,
    Approval,
    Question,
    Background,
    Children,
    Quota,
    Done,
    Stopping,
    Idle,
    Retiring,
    Completed,
    Stopped,
    Failed,
    NoSession,
}

/// What is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Stop,
    Interrupt,
    Steer,
    FollowUp,
    Resume,
    Read,
    Wait,
    CleanUp,
}

use Operation as Op;
use State as In;

/// One row for each state, one cell for each operation: stop, interrupt, steer, follow-up, resume, read, wait, clean-up.
///
/// `stopping`, `stopped`, `closed`: accepted, with the status reached. `-`: accepted, and nothing changes. `turn`: the
/// turn ends. `held`, `told`: the message waits, or the child has it. `next`: the text is the next run's. `waits`,
/// `ended`: whether a wait returns. `kept`, `gone`: whether the record outlives the clean-up. Else the code of a refusal.
const TABLE: &[(State, [&str; 8])] = &[
    (In::Queued, ["stopped", "-", "held", "next", "still_running", "still_running", "waits", "kept"]),
    (In::NotOpen, ["stopping", "-", "held", "next", "still_running", "still_running", "waits", "kept"]),
    (In::InTurn, ["stopping", "turn", "told", "next", "still_running", "still_running", "waits", "kept"]),
    (In::InTool, ["stopping", "turn", "held", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Approval, ["stopping", "turn", "held", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Question, ["stopping", "turn", "held", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Background, ["stopping", "-", "told", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Children, ["stopping", "-", "told", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Quota, ["stopped", "-", "held", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Done, ["stopping", "-", "next", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Stopping, ["-", "-", "no_open_turn", "next", "still_running", "still_running", "waits", "kept"]),
    (In::Idle, ["closed", "-", "next", "next", "next", "answer", "ended", "kept"]),
    (In::Retiring, ["-", "-", "next", "next", "next", "answer", "ended", "kept"]),
    (In::Completed, ["-", "-", "no_open_turn", "next", "next", "answer", "ended", "gone"]),
    (In::Stopped, ["-", "-", "no_open_turn", "next", "next", "answer", "ended", "gone"]),
    (In::Failed, ["-", "-", "no_open_turn", "next", "next", "answer", "ended", "gone"]),
    (In::NoSession, ["-", "-", "no_open_turn", "not_resumable", "not_resumable", "answer", "ended", "gone"]),
];

const OPERATIONS: [Operation; 8] =
    [Op::Stop, Op::Interrupt, Op::Steer, Op::FollowUp, Op::Resume, Op::Read, Op::Wait, Op::CleanUp];

/// Brings a subagent into a state and holds it there.
async fn brought(world: &World, state: State) -> SubagentId {
    let spawn = |script: &str| world.spawn(scripted(script));
    match state {
        In::Queued => {
            world.engine.set_limits(Limits { running: 1, ..Limits::default() });
            let busy = spawn("gate never").await;
            world.until_prompted(busy, 1).await;
            spawn("say one").await
        }
        In::NotOpen => {
            let id = spawn("before-open gate open\nsay one").await;
            world.fake.gate("open").reached().await;
            world.until_started(id).await;
            id
        }
        In::InTurn | In::Completed | In::Stopped => {
            let id = spawn(if state == In::Completed { "say one" } else { "say one\ngate never" }).await;
            match state {
                In::InTurn => world.fake.gate("never").reached().await,
                In::Completed => drop(world.ended(id).await),
                _ => {
                    world.fake.gate("never").reached().await;
                    world.stop(id).await;
                    assert_eq!(world.ended(id).await.status, Status::Stopped);
                }
            }
            id
        }
        // One that takes messages between two steps of its work only.
        In::InTool => {
            let id = world.spawn(of(LATE, scripted("tool start t build\ngate never"))).await;
            world.fake.gate("never").reached().await;
            id
        }
        In::Approval => held(world, spawn("ask execute make\nsay one").await, Status::Waiting).await,
        In::Question => held(world, spawn("question Which?\nsay one").await, Status::Waiting).await,
        In::Background => {
            held(world, spawn("background 1\nsay one\ndone\ngate never").await, Status::Waiting).await
        }
        In::Children => {
            let id = spawn("gate child\nsay one").await;
            world.until_prompted(id, 1).await;
            let child = SpawnRequest { parent: Some(id.to_string()), ..scripted("gate never") };
            let child = world.spawn(child).await;
            world.until_prompted(child, 1).await;
            world.fake.gate("child").open();
            held(world, id, Status::Waiting).await
        }
        In::Quota => {
            held(world, spawn("fail quota_exhausted reset 600000 used up").await, Status::Waiting).await
        }
        In::Done => {
            let id = spawn("say one\ndone\nhang").await;
            until_async("the end of its turn", || async {
                (world.count(id, "turn_ended") == 1).then_some(())
            })
            .await;
            id
        }
        In::Stopping => {
            let id = spawn("say one\nhang").await;
            world.until_prompted(id, 1).await;
            assert_eq!(world.stop(id).await.record.status, Status::Stopping);
            id
        }
        In::Idle => held(world, world.spawn(warm(scripted("say one"))).await, Status::Idle).await,
        In::Retiring => {
            let request = SpawnRequest { idle_ms: Some(10), ..warm(scripted("say one\ndone\nhang")) };
            let id = world.spawn(request).await;
            until_async("its closing", || async { (world.count(id, "session_closing") == 1).then_some(()) })
                .await;
            id
        }
        In::Failed => {
            let id = spawn("say one\nfail auth no key").await;
            assert_eq!(world.ended(id).await.status, Status::Error);
            id
        }
        In::NoSession => {
            let id = spawn("before-open fail auth no key").await;
            assert_eq!(world.ended(id).await.status, Status::Error);
            id
        }
    }
}

async fn held(world: &World, id: SubagentId, status: Status) -> SubagentId {
    world.until_status(id, status).await;
    id
}

fn code(problem: &Problem) -> String {
    assert!(!problem.message.is_empty() && problem.hint.is_some(), "{problem:?}");
    problem.code.as_str().to_owned()
}

/// What became of a message, as its sender is told.
async fn message(world: &World, id: SubagentId, reply: Result<SteerReply, Problem>, run: u32) -> String {
    let posted = match reply {
        Ok(reply) => reply.message.unwrap(),
        Err(problem) => {
            assert!(world.posted(id).await.is_empty(), "nothing is queued");
            return code(&problem);
        }
    };
    let opens = |receipt| is_delivered_in(receipt, run + 1);
    if posted.message.mode == subagent_model::MessageMode::FollowUp || opens(posted.receipt) {
        assert!(posted.receipt == Receipt::Accepted || opens(posted.receipt), "{posted:?}");
        return String::from("next");
    }
    // It is given to the child at once or not yet: that is decided in the step that accepts it.
    if world.count(id, "message_begun") == 0 {
        assert_eq!(posted.receipt, Receipt::Accepted);
        return String::from("held");
    }
    let receipt = world.last_word(id, posted.message.number.0).await;
    assert!(is_delivered_in(receipt, run), "{receipt:?}");
    assert!(world.told(id).iter().filter(|told| told.ends_with("say two")).count() <= 1, "never twice");
    String::from("told")
}

/// The reply to an operation, in a word.
async fn asked(world: &World, id: SubagentId, operation: Operation) -> String {
    let before = world.record(id).await;
    let run = before.run.0;
    match operation {
        Op::Stop => {
            let reply = world.stop(id).await;
            match (reply.accepted, before.status, reply.record.status) {
                (false, ..) => String::from("-"),
                (true, Status::Idle, Status::Completed) => String::from("closed"),
                (true, _, status) => status.to_string(),
            }
        }
        Op::Interrupt => {
            let reply = world.interrupt(id, "").await.unwrap();
            if !reply.accepted {
                return String::from("-");
            }
            let record = world.run_ended(id, run).await;
            assert_eq!(record.stop.unwrap().cause, subagent_model::Cause::Interrupted);
            assert!(record.requests.iter().all(|request| request.state == RequestState::Withdrawn));
            String::from("turn")
        }
        Op::Steer => {
            let reply = world.steer(id, "say two").await;
            message(world, id, reply, run).await
        }
        Op::FollowUp => {
            let reply = world.follow_up(id, "say two").await;
            message(world, id, reply, run).await
        }
        Op::Resume => {
            match world.engine.resume(&me(), id, ResumeRequest { wait_ms: None, ..resume("say two") }).await {
                Ok(reply) => {
                    assert_eq!(reply.run.unwrap().0, run + 1);
                    String::from("next")
                }
                Err(problem) => {
                    assert_eq!(world.record(id).await.run.0, run);
                    code(&problem)
                }
            }
        }
        Op::Read => match world.engine.result(&me(), id, None, 0, 100).await {
            Ok(part) => {
                assert_eq!(
                    part.text,
                    if before.started_at.is_some() && before.session.is_some() { "one" } else { "" }
                );
                String::from("answer")
            }
            Err(problem) => code(&problem),
        },
        Op::Wait => {
            let options = WaitOptions { run: None, timeout_ms: Some(20) };
            let reply = world.engine.wait(&me(), id, options).await.unwrap();
            String::from(if reply.ended { "ended" } else { "waits" })
        }
        Op::CleanUp => {
            world.engine.ack(&me(), vec![id], false).await.unwrap();
            let sweep = GcRequest { dry_run: false, older_than_ms: Some(0), records: true };
            let swept = world.engine.gc(&me(), sweep).await.unwrap();
            let gone = world.engine.get(&me(), id).await.is_err();
            assert_eq!(swept.records.contains(&id), gone);
            String::from(if gone { "gone" } else { "kept" })
        }
    }
}

/// After each operation the child comes to a good end: nobody is left without an answer.
async fn comes_to_an_end(world: &World, id: SubagentId) {
    if world.engine.get(&me(), id).await.is_err() {
        return;
    }
    let stop = subagent_model::request::StopRequest { drop_follow_ups: true, ..Default::default() };
    until_async("its end", || async {
        // A follow-up may just have opened another run.
        world.engine.stop(&me(), id, stop.clone()).await.unwrap();
        world.status(id).await.is_final().then_some(())
    })
    .await;
    let posted = world.posted(id).await;
    assert!(posted.iter().all(|posted| posted.receipt != Receipt::Accepted), "{posted:?}");
}

#[tokio::test]
async fn sm_25_every_operation_in_every_state_has_its_reply() {
    let mut wrong = String::new();
    for (state, expected) in TABLE {
        for (operation, expected) in OPERATIONS.into_iter().zip(expected) {
            let world = talking_world(Limits::default()).await;
            let id = brought(&world, *state).await;
            let reply = asked(&world, id, operation).await;
            if reply != *expected {
                writeln!(wrong, "{operation:?} in {state:?}: {reply}, and not {expected}").unwrap();
            }
            comes_to_an_end(&world, id).await;
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
