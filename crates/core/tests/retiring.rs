//! A message while the process of a warm subagent is being closed (STEER-14): it waits where nobody wanted the end, and is
//! refused where somebody did (STEER-05).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::at;
use common::phases::{phase, session_gone, steer};
use subagent_core::replay::step;
use subagent_core::run::{Command, Refusal, decide};
use subagent_model::{Cause, Status};

fn close(cause: Cause) -> Command {
    Command::Stop { actor: "daemon".into(), cause, drop_follow_ups: false }
}

#[test]
fn steer_14_a_message_to_one_that_was_idle_for_too_long_waits_for_the_close() {
    let mut state = phase("warm:idle");
    step(&mut state, &close(Cause::IdleTooLong), at(40)).unwrap().unwrap();
    assert_eq!(state.status(), Status::Completed);
    step(&mut state, &steer(), at(41)).unwrap().unwrap();
    assert_eq!(state.mail.follow_ups().count(), 1);
    assert!(!state.wants_next_run(), "its process is still there");
    step(&mut state, &session_gone(), at(42)).unwrap().unwrap();
    assert!(state.wants_next_run());
}

#[test]
fn steer_05_a_message_to_an_idle_one_that_somebody_stopped_is_refused() {
    let mut state = phase("warm:idle");
    step(&mut state, &close(Cause::Requested), at(40)).unwrap().unwrap();
    assert!(matches!(decide(&state, &steer(), at(41)), Err(Refusal::NoOpenTurn { .. })));
}
