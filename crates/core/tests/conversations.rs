//! Single cases of conversations over turns, attempts and runs, where two rules meet. What one rule says alone is in the
//! table of operations and in the model check.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::phases::*;
use common::{agent, at, completed, failed, failed_for_now};
use subagent_core::need::{Need, needs};
use subagent_core::replay;
use subagent_core::run::{Command, Subagent};
use subagent_model::{
    AttemptNumber, ErrorCode, EventKind, Limit, Mode, NodeId, OnLoss, Outcome, SpawnSpec, Status, Steering,
    Timestamp, Written,
};

const NOW: i64 = 50;

/// The words of the facts.
fn told(state: &mut Subagent, command: &Command, second: i64) -> String {
    let facts = replay::step(state, command, at(second)).unwrap().unwrap();
    facts.iter().map(EventKind::name).collect::<Vec<_>>().join(" ")
}

fn reclaim() -> Command {
    Command::Reclaim { owner: NodeId::from("node-b"), lease_until: Timestamp::never(), max_attempts: MOST }
}

#[test]
fn steer_12_a_child_that_waits_for_its_children_is_told_at_once() {
    for steering in [Steering::Live, Steering::AtBoundary] {
        let mut spec = agent(Mode::Async);
        spec.can.steering = steering;
        let mut commands = in_turn();
        commands.push(turn_done_with_children());
        let mut state = led(spec, &commands);
        assert_eq!(told(&mut state, &steer(), NOW), "message_posted message_begun", "{steering:?}");
        assert_eq!(state.status(), Status::Running);
        assert!(needs(&state, at(NOW)).iter().any(|need| matches!(need, Need::HandOver { .. })));
    }
}

#[test]
fn steer_12_what_waits_is_said_before_a_run_without_children_ends() {
    let mut state = phase("agent:children-alive");
    told(&mut state, &steer(), NOW);
    told(&mut state, &settle(1, Written::No), NOW);
    told(&mut state, &turn_done_with_children(), NOW);
    assert_eq!(state.status(), Status::Running, "it was begun again");
}

#[test]
fn stop_18_what_the_runtime_says_neither_starts_the_queue_nor_carries_an_interrupted_run_on() {
    let mut state = phase("agent:in-turn");
    told(&mut state, &follow_up(), NOW);
    told(&mut state, &interrupt(None), NOW);
    assert_eq!(told(&mut state, &wrap_up(), NOW), "wrap_up_asked message_posted");
    assert_eq!(told(&mut state, &turn_cancelled(), NOW), "interrupted stop_accepted");
    told(&mut state, &conclude(false), NOW);
    assert_eq!(state.status(), Status::Stopped);
    assert!(!state.wants_next_run() && state.mail.follow_ups().count() == 1, "it is held");
    told(&mut state, &follow_up(), NOW);
    assert!(state.wants_next_run(), "the next message lets the queue go on");
}

#[test]
fn stop_19_a_message_after_an_interrupt_runs_in_the_same_run() {
    let mut state = phase("agent:interrupting");
    told(&mut state, &steer(), NOW);
    assert_eq!(told(&mut state, &turn_cancelled(), NOW), "interrupted message_begun");
    assert_eq!((state.status(), state.run.number.0), (Status::Running, 1));
}

#[test]
fn queue_19_limits_of_the_provider_do_not_use_up_the_attempts_of_a_start() {
    let mut state = phase("agent:queued");
    for attempt in 1..=3 {
        let attempt = AttemptNumber(attempt);
        told(&mut state, &claim_for_good(), NOW);
        told(&mut state, &conclude_with(attempt, failed(ErrorCode::RateLimited), false), NOW);
    }
    told(&mut state, &claim_for_good(), NOW);
    let attempt = AttemptNumber(4);
    let requeue = Command::Requeue {
        attempt,
        reason: "no start".into(),
        exit: None,
        not_before: None,
        max_attempts: MOST,
    };
    assert_eq!(told(&mut state, &requeue, NOW), "attempt_ended queued", "its first failure of three");
    assert_eq!(state.run.rate_hits, 3);
}

#[test]
fn res_08_a_second_run_that_fails_before_its_prompt_keeps_the_session_of_the_first() {
    for ended in [conclude_with(second(), failed(ErrorCode::Overloaded), false), gone(second())] {
        let spec = SpawnSpec { on_loss: OnLoss::Rerun, ..agent(Mode::Async) };
        let mut commands = in_turn();
        commands.extend([turn_done(), conclude(false), resume(), claim_for_good(), ended.clone()]);
        let state = led(spec, &commands);
        assert_eq!(
            (state.status(), state.session.as_deref()),
            (Status::Queued, Some("session-1")),
            "{ended:?}"
        );
        assert!(!state.run.prompted, "its prompt is still to be given");
    }
}

#[test]
fn res_04_the_end_of_an_earlier_turn_does_not_end_the_next_run() {
    let mut state = phase("warm:woken");
    assert_eq!(told(&mut state, &turn_done(), NOW), "late");
    assert_eq!((state.status(), state.run.number.0), (Status::Running, 2));
    told(&mut state, &prompted(), NOW);
    assert_eq!(told(&mut state, &turn_done(), NOW), "ended");
}

#[test]
fn res_15_finished_work_whose_node_is_gone_ends_as_it_would_have() {
    let mut state = phase("agent:done");
    assert_eq!(told(&mut state, &reclaim(), 1_000), "ended");
    assert_eq!(state.status(), Status::Completed);
    assert_eq!(state.ended().unwrap().result.as_ref().unwrap().preview, "42 lines");
    let mut state = phase("agent:cut");
    assert_eq!(told(&mut state, &reclaim(), 1_000), "ended");
    assert_eq!(state.ended().unwrap().outcome, Outcome::Aborted { limit: Limit::Deadline });
    let mut state = phase("agent:in-turn");
    assert_eq!(told(&mut state, &reclaim(), 1_000), "attempt_ended queued claimed");
}

#[test]
fn perm_03_an_open_approval_is_no_stall() {
    let mut state = phase("agent:stalled");
    assert!(state.run.stalled_since.is_some());
    told(&mut state, &ask(approval("a", "make")), NOW);
    assert_eq!(state.run.stalled_since, None);
    assert_eq!(told(&mut state, &Command::Stall { attempt: ONE, since: at(1) }, NOW), "");
}

#[test]
fn res_17_a_failure_that_may_pass_goes_on_in_the_same_session_and_keeps_what_waits() {
    let mut state = phase("agent:interrupting");
    told(&mut state, &steer(), NOW);
    let facts = told(&mut state, &conclude_with(ONE, failed_for_now(ErrorCode::Crashed), false), NOW);
    assert_eq!(facts, "attempt_ended queued");
    assert_eq!(state.run.interrupting, None, "its turn is gone");
    assert_eq!((state.session.as_deref(), state.mail.waiting().count()), (Some("session-1"), 1));
    told(&mut state, &claim_for_good(), NOW);
    for command in [started_as(second()), opened_as(second())] {
        told(&mut state, &command, NOW);
    }
    assert_eq!(told(&mut state, &prompted_as(second()), NOW), "prompted message_begun");
    let done = turn_done_as(second(), completed("42 lines"), subagent_core::run::Left::default());
    told(
        &mut state,
        &Command::Settle {
            attempt: second(),
            number: subagent_model::MessageNumber(1),
            written: Written::Yes,
        },
        NOW,
    );
    assert_eq!(told(&mut state, &done, NOW), "turn_ended");
}
