//! Limits of a run beside its progress: a budget that is changed, a cut of a run that waits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::phases::{ONE, agent_after, in_turn};
use common::{at, completed, owner};
use subagent_core::run::{Command, Left, decide};
use subagent_model::{Budget, Limit, Mode, Usage};

fn kinds(state: &subagent_core::run::Subagent, command: &Command) -> Vec<&'static str> {
    decide(state, command, at(60)).unwrap().iter().map(subagent_model::EventKind::name).collect()
}

#[test]
fn queue_13_a_changed_budget_is_judged_by_what_was_used_before() {
    let used = Command::Progress {
        attempt: ONE,
        turns: 1,
        more: true,
        tool_uses: 0,
        compactions: 0,
        usage: Some(Usage::default().plus(Usage { input: 90, ..Usage::default() })),
        position: None,
    };
    let state = agent_after(Mode::Async, &in_turn().into_iter().chain([used]).collect::<Vec<_>>());
    for (most, wanted) in [
        (1_000, &["budget_changed"] as &[&str]),
        (100, &["budget_changed", "wrap_up_asked", "message_posted", "message_begun"]),
        (90, &["budget_changed", "cut_off"]),
        (50, &["budget_changed", "cut_off"]),
    ] {
        let budget = Budget { max_tokens: Some(most), ..Budget::default() };
        assert_eq!(kinds(&state, &Command::ChangeBudget { budget, by: owner() }), wanted, "{most}");
    }
}

#[test]
fn queue_13_what_a_cut_run_waited_for_does_not_end_it_well() {
    for mode in [Mode::Async, Mode::Warm] {
        let waits = |left| {
            let done = Command::TurnDone { attempt: ONE, conclusion: Box::new(completed("x")), left };
            let cut = Command::Cut { limit: Limit::Deadline };
            agent_after(mode, &in_turn().into_iter().chain([done, cut]).collect::<Vec<_>>())
        };
        let background = waits(Left { background: true, ..Left::default() });
        assert!(kinds(&background, &Command::BackgroundEnded { attempt: ONE }).is_empty());
        let children = waits(Left { children: true, ..Left::default() });
        for unread in [0, 1] {
            assert!(kinds(&children, &Command::ChildrenEnded { unread }).is_empty());
        }
    }
}
