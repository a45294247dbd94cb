//! Replay files: the committed ones play for ever and end as they always did; newer ones are refused. The same for the
//! states and events that older versions have stored.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::commands::*;
use common::{agent, at, birth, birth_of, completed, owner};
use serde::Deserialize;
use subagent_core::need::Need;
use subagent_core::replay::{Player, ReplayError, Sequence, Step, Taken, VERSION};
use subagent_core::run::{Command, Phase, Refusal, Subagent, fold};
use subagent_core::snapshot;
use subagent_model::{
    AttemptNumber, Choice, Event, EventKind, Mark, Mode, NodeId, Outcome, Receipt, RunNumber, Status,
    SubagentId, Written,
};

const STOP_RACE: &str = include_str!("../../../fixtures/replay/v1-stop-race.json");
const CONVERSATION: &str = include_str!("../../../fixtures/replay/v2-conversation.json");
const STATES: &str = include_str!("../../../fixtures/states/v1.json");

/// A stop, then the child's success, then everything else that can come too late.
fn stop_race() -> Sequence {
    let attempt = AttemptNumber(1);
    let mut race = Sequence::new("a stop is accepted just before the child succeeds", at(0), {
        birth(7, &owner(), Mode::Async)
    });
    // In version 1 nothing was tried again.
    let conclude = Command::Conclude {
        attempt,
        conclusion: Box::new(completed("42 lines")),
        children_live: false,
        max_attempts: 1,
    };
    race.steps = [
        (1, Command::Claim { owner: NodeId::from("node-a"), lease_until: at(31) }),
        (2, Command::Started { attempt, process: None }),
        (3, stop_by("user:1000", false)),
        (4, stop_by("user:2000", false)),
        (5, conclude.clone()),
        (6, conclude),
        (7, Command::Started { attempt: AttemptNumber(2), process: None }),
        (8, Command::Acknowledge { run: RunNumber(1), by: "user:2000".into() }),
        (9, Command::Acknowledge { run: RunNumber(1), by: owner() }),
    ]
    .map(|(second, command)| Step { at: at(second), command })
    .into();
    race
}

/// A warm agent that is steered, asks, is interrupted, and goes on with a follow-up.
fn conversation() -> Sequence {
    let about = "a warm agent is spoken with over two runs";
    let mut sequence = Sequence::new(about, at(0), birth_of(8, &owner(), agent(Mode::Warm)));
    let commands = [
        claim_for_good(),
        started(),
        steer(),
        opened(),
        prompted(),
        settle(1, Written::Yes),
        ask(approval("a", "make")),
        answer(1, Choice::AllowAlways),
        told(1),
        follow_up(),
        turn_done(),
        Command::NextRun { prompt: common::text("also the words") },
        claim_for_good(),
        prompted(),
        interrupt(Some("rather the letters")),
        turn_cancelled(),
        settle(3, Written::Yes),
        turn_done(),
        stop(),
        session_gone(),
    ];
    sequence.steps =
        commands.into_iter().zip(1..).map(|(command, second)| Step { at: at(second), command }).collect();
    sequence
}

fn play(sequence: &Sequence) -> Vec<Taken> {
    Player::new(sequence).unwrap().map(Result::unwrap).collect()
}

fn told_by(steps: &[Taken]) -> Vec<String> {
    let words = |taken: &Taken| match &taken.decision {
        Ok(events) => events.iter().map(EventKind::name).collect::<Vec<_>>().join(" "),
        Err(refusal) => format!("refused: {refusal}"),
    };
    steps.iter().map(words).collect()
}

#[test]
fn sm_02_the_committed_stop_race_plays_and_ends_as_stopped() {
    let race = Sequence::parse(STOP_RACE).unwrap();
    assert_eq!(race, stop_race());
    let steps = play(&race);
    assert_eq!(
        told_by(&steps),
        [
            "claimed",
            "started",
            "stop_accepted",
            "",
            "ended",
            "late",
            "refused: attempt 2 is stale: the latest is 1",
            "refused: the result is addressed to user:1000",
            "acknowledged",
        ]
    );
    assert_eq!(steps[2].needs, [Need::Kill { attempt: AttemptNumber(1) }]);
    assert_eq!(steps[4].needs, [Need::Deliver { run: RunNumber(1) }]);
    assert!(matches!(steps[6].decision, Err(Refusal::Stale { .. })));
    let end = &steps[8].state;
    let Phase::Ended(ended) = &end.run.phase else { panic!("it has not ended") };
    assert_eq!((end.status(), ended.completed_at), (Status::Stopped, at(3)));
    assert!(matches!(&ended.outcome, Outcome::Stopped { stop } if stop.actor == "user:1000"));
    assert_eq!(
        (ended.result.as_ref().unwrap().preview.as_str(), &*ended.marks),
        ("42 lines", &[Mark::Partial][..])
    );
}

#[test]
fn the_committed_conversation_plays_and_loses_nothing() {
    let made = conversation();
    common::bless::blessed_or_equal(
        "fixtures/replay/v2-conversation.json",
        CONVERSATION,
        &made.to_json().unwrap(),
    );
    let conversation = Sequence::parse(CONVERSATION).unwrap();
    let steps = play(&conversation);
    assert_eq!(
        told_by(&steps),
        [
            "claimed",
            "started",
            "message_posted",
            "session_opened",
            "prompted message_begun",
            "message_delivered",
            "request_opened",
            "request_answered",
            "request_settled",
            "message_posted",
            "ended",
            "resumed queued",
            "woken",
            "prompted",
            "interrupt_asked message_posted",
            "interrupted message_begun",
            "message_delivered",
            "ended",
            "session_closing",
            "session_closed",
        ]
    );
    let end = &steps.last().unwrap().state;
    assert_eq!((end.status(), end.run.number, end.last_attempt), (Status::Completed, RunNumber(2), ONE));
    let all_delivered =
        end.mail.list().iter().all(|posted| matches!(posted.receipt, Receipt::Delivered { .. }));
    assert!(all_delivered && end.mail.list().len() == 3);
    assert_eq!(steps[10].state.status(), Status::Idle);
    assert_eq!((end.grants.len(), end.earlier.len()), (1, 1));
}

#[test]
fn a_newer_file_is_refused_and_a_wrong_one_is_told() {
    let newer = STOP_RACE.replacen("\"version\": 1", "\"version\": 3", 1);
    assert!(matches!(Sequence::parse(&newer), Err(ReplayError::TooNew { found: 3 })));
    assert!(matches!(Sequence::parse("[]"), Err(ReplayError::Json(_))));
    assert!(matches!(Sequence::parse("{\"version\": 1, \"steps\": 7}"), Err(ReplayError::Json(_))));
    let read = Sequence::parse(STOP_RACE).unwrap();
    assert_eq!(read.version, VERSION, "what was read is written as the present version");
    assert_eq!(Sequence::parse(&read.to_json().unwrap()).unwrap(), read);
}

/// What version 1 left in a store.
#[derive(Deserialize)]
struct Stored {
    states: Vec<Subagent>,
    events: Vec<Event>,
}

/// Its events tell more than its states held.
fn forget_what_version_1_did_not_keep(state: &mut Subagent) {
    state.run.usage = None;
    for earlier in &mut state.earlier {
        (earlier.usage, earlier.prompt) = (None, None);
    }
}

/// The file is never edited: what a later version adds has to have a default.
#[test]
fn sm_24_states_and_events_of_version_1_are_read_for_ever_and_fold_to_the_same() {
    let Stored { states, events } = serde_json::from_str(STATES).unwrap();
    assert_eq!((states.len(), events.len()), (18, 98));
    let mut logs: BTreeMap<SubagentId, Vec<Event>> = BTreeMap::new();
    for event in events {
        logs.entry(event.subagent).or_default().push(event);
    }
    for state in &states {
        let mut folded = fold(&logs[&state.id]).unwrap().unwrap();
        forget_what_version_1_did_not_keep(&mut folded);
        assert_eq!(&folded, state, "{}", state.handle);
        let again: Subagent = serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();
        assert_eq!(&again, state, "{}", state.handle);
        assert_eq!(snapshot::record(state).id, state.id);
        assert!(state.mail.is_new() && state.warm.is_none() && state.session.is_none());
    }
    let found: std::collections::BTreeSet<_> = states.iter().map(Subagent::status).collect();
    assert!(found.len() >= 7, "{found:?}");
}
