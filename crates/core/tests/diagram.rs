//! The published state diagram (SM-24), made by trying everything in every state.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use common::bless::blessed_or_equal;
use common::phases::*;
use common::{agent, at, born, completed, failed, failed_for_now, failed_until, spec};
use subagent_core::run::{Command, Delivery, Left, Phase, Subagent, decide};
use subagent_model::{
    ActivityOn, AttemptNumber, Budget, Choice, Conclusion, ErrorCode, Limit, Mode, NodeId, Outcome,
    QueueReason, RequestState, SpawnSpec, Status, Timestamp, Written,
};

/// Runs that the exploration opens.
const RUNS: u32 = 2;

/// The commands of `attempt`, whatever attempt they were written for.
fn of(attempt: AttemptNumber, mut command: Command) -> Command {
    match &mut command {
        Command::Requeue { attempt: of, .. }
        | Command::Settle { attempt: of, .. }
        | Command::Ask { attempt: of, .. }
        | Command::Told { attempt: of, .. }
        | Command::TurnCancelled { attempt: of, .. }
        | Command::Nudge { attempt: of, .. }
        | Command::SessionGone { attempt: of, .. } => *of = attempt,
        _ => {}
    }
    command
}

/// What is asked of the machine while it is explored, and when.
fn explored(state: &Subagent) -> Vec<(Command, i64)> {
    let attempt = state.last_attempt;
    let outcomes = [
        completed("done"),
        Conclusion { outcome: Outcome::Steered, ..completed("done") },
        Conclusion { outcome: Outcome::Aborted { limit: Limit::Turns }, ..completed("half") },
        failed(ErrorCode::Refused),
        failed_for_now(ErrorCode::Crashed),
        failed_until(ErrorCode::QuotaExhausted, Some(at(500))),
    ];
    let left = |children, background| {
        turn_done_as(attempt, completed("done"), Left { children, background, ..Left::default() })
    };
    let mut all = vec![
        stop(),
        interrupt(None),
        steer(),
        follow_up(),
        resume(),
        receipt(1),
        receipt(2),
        claim_delivery("wait", at(90)),
        return_delivery("wait"),
        escalate("user:2000"),
        change_budget(9),
        claim(),
        Command::Renew { attempt, lease_until: at(900) },
        started_as(attempt),
        opened_as(attempt),
        prompted_as(attempt),
        progress(attempt, 1, true),
        left(false, false),
        left(true, false),
        left(false, true),
        turn_cancelled(),
        nudge(),
        Command::BackgroundEnded { attempt },
        Command::ChildrenEnded { unread: 0 },
        Command::ChildrenEnded { unread: 1 },
        Command::Stall { attempt, since: at(1) },
        Command::Revive { attempt },
        settle(1, Written::Yes),
        settle(1, Written::No),
        Command::NextRun { prompt: common::text("also the words") },
        ask(approval("a", "make")),
        ask(question("b")),
        answer(1, Choice::AllowAlways),
        answer_text(1),
        told(1),
        Command::TakeBack { attempt, key: "a".into() },
        Command::Revoke { number: subagent_model::RequestNumber(1), by: common::owner() },
        wrap_up(),
        cut(),
        requeue(MOST - 1, Some(at(60))),
        gone(attempt),
        session_gone(),
    ];
    for children_live in [false, true] {
        all.extend(outcomes.clone().map(|conclusion| conclude_with(attempt, conclusion, children_live)));
    }
    let mut timed: Vec<_> = all.into_iter().map(|command| (of(attempt, command), 50)).collect();
    let owner = NodeId::from("node-b");
    timed.push((Command::Reclaim { owner, lease_until: Timestamp::never(), max_attempts: MOST }, 1_000));
    timed.push((Command::Unpark, 1_000));
    timed.push((Command::Expire { number: subagent_model::RequestNumber(1) }, 1_000));
    timed
}

/// What tells two states of the exploration apart.
fn key(state: &Subagent) -> String {
    let run = &state.run;
    let phase = match &run.phase {
        Phase::Queued { reason: QueueReason::Capacity, .. } => "queued",
        Phase::Queued { .. } => "later",
        Phase::Starting { .. } => "starting",
        Phase::Running { .. } => "running",
        Phase::Waiting { on: ActivityOn::Children, hold, .. } if hold.is_some() => "children",
        Phase::Waiting { on: ActivityOn::Children, .. } => "children, no process",
        Phase::Waiting { on: ActivityOn::Background, .. } => "background",
        Phase::Waiting { on: ActivityOn::Quota { .. }, .. } => "quota",
        Phase::Waiting { .. } => "asked",
        Phase::Stopping { .. } => "stopping",
        Phase::Ended(_) => "ended",
    };
    let held = match &run.phase {
        Phase::Waiting { held: Some(held), .. } => Some(held.outcome.status()),
        _ => None,
    };
    let owed = |delivery: &Delivery| match delivery {
        Delivery::NotYet => 0,
        Delivery::NotOwed => 1,
        Delivery::Owed { claim: None, .. } => 2,
        Delivery::Owed { .. } => 3,
        Delivery::Consumed { .. } => 4,
    };
    let open = run.requests.iter().filter(|request| request.state == RequestState::Open).count();
    format!(
        "{phase} {held:?} {:?} {} {} {} {:?} {open} {} {} {}",
        state.status(),
        run.number,
        run.attempts.len().min(2),
        owed(&run.delivery),
        (run.session_open, run.prompted, run.cut.is_some(), run.done.is_some(), run.interrupting.is_some()),
        state.warm.is_some(),
        state.mail.pending().count().min(1),
        run.stalled_since.is_some(),
    )
}

type Steps = BTreeMap<(Status, Status), BTreeSet<&'static str>>;

fn explore(first: Subagent, found: &mut Steps) {
    let mut seen = BTreeSet::from([key(&first)]);
    let mut open = VecDeque::from([first]);
    while let Some(state) = open.pop_front() {
        for (command, second) in explored(&state) {
            let mut next = state.clone();
            for fact in decide(&state, &command, at(second)).unwrap_or_default() {
                let before = next.status();
                next.apply(at(second), &fact).unwrap_or_else(|illegal| panic!("{command:?}: {illegal}"));
                found.entry((before, next.status())).or_default().insert(fact.name());
            }
            let bounded = next.run.number.0 <= RUNS && next.mail.pending().count() <= 1;
            if bounded && next.last_request.0 <= 1 && seen.insert(key(&next)) {
                open.push_back(next);
            }
        }
    }
}

/// Every step from status to status, with the facts that make it.
fn transitions() -> Steps {
    let mut found = Steps::new();
    let budget = Budget { max_turns: Some(1), grace_turns: Some(1), ..Budget::default() };
    for spec in [spec(Mode::Async), SpawnSpec { budget, ..agent(Mode::Async) }, agent(Mode::Warm)] {
        explore(born(spec), &mut found);
    }
    found
}

fn diagram() -> String {
    let transitions = transitions();
    let mut text = String::from(
        "# States of a run\n\n\
         Made by `crates/core/tests/diagram.rs` from the machine itself, by trying everything in every state. Do not \
         edit:\n`SUBAGENT_BLESS=1 cargo test -p subagent-core --test diagram` writes it anew.\n\n\
         The words on the arrows are the events. `idle` is the status of a warm subagent between two runs: its last run has\n\
         ended, and its process lives.\n\n\
         ```mermaid\nstateDiagram-v2\n    [*] --> queued: accepted\n",
    );
    for ((from, to), events) in transitions.iter().filter(|((from, to), _)| from != to) {
        let events: Vec<_> = events.iter().copied().collect();
        writeln!(text, "    {from} --> {to}: {}", events.join(", ")).unwrap();
    }
    text.push_str("```\n\nEvents that leave the status as it is:\n\n| Status | Events |\n|---|---|\n");
    for ((from, _), events) in transitions.iter().filter(|((from, to), _)| from == to) {
        let events: Vec<_> = events.iter().map(|event| format!("`{event}`")).collect();
        writeln!(text, "| {from} | {} |", events.join(", ")).unwrap();
    }
    text
}

#[test]
fn sm_24_the_published_diagram_is_the_machine() {
    blessed_or_equal("docs/state-diagram.md", include_str!("../../../docs/state-diagram.md"), &diagram());
}
