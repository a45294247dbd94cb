//! Every command in every phase (SM-25), and the published state diagram (SM-24), both taken from the real `decide`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use common::phases::{ONE, claim, conclude, phases, receipt, resume, started, stop};
use common::{at, completed, failed, owner, queued};
use subagent_core::delivery;
use subagent_core::run::{Command, Delivery, Phase, Refusal, Subagent, decide};
use subagent_core::snapshot;
use subagent_model::{
    AttemptNumber, Conclusion, ErrorCode, EventKind, Limit, Mode, NodeId, Outcome, QueueReason, Requester,
    RunNumber, Status,
};

fn operations() -> Vec<(&'static str, Command)> {
    let (one, two) = (RunNumber(1), AttemptNumber(2));
    let requeue = |max_attempts| Command::Requeue {
        attempt: ONE,
        reason: "no start".into(),
        exit: None,
        not_before: None,
        max_attempts,
    };
    vec![
        ("stop", stop()),
        ("resume", resume()),
        ("acknowledge", receipt(1)),
        ("acknowledge, not the owner", Command::Acknowledge { run: one, by: Requester::from("user:2000") }),
        ("acknowledge, the second run", receipt(2)),
        ("claim delivery", Command::ClaimDelivery { run: one, carrier: "wait".into(), until: at(90) }),
        (
            "return delivery",
            Command::ReturnDelivery { run: one, carrier: "wait".into(), reason: "it failed".into() },
        ),
        ("claim", claim()),
        ("renew", Command::Renew { attempt: ONE, lease_until: at(200) }),
        (
            "reclaim",
            Command::Reclaim { owner: NodeId::from("node-b"), lease_until: at(200), max_attempts: 3 },
        ),
        ("started", started()),
        ("started, no such attempt", Command::Started { attempt: two, process: None }),
        ("progress", Command::Progress { attempt: ONE, turns: 1, tool_uses: 0, compactions: 0, usage: None }),
        ("conclude", conclude(false)),
        ("conclude, children live", conclude(true)),
        ("requeue", requeue(3)),
        ("requeue, the last try", requeue(1)),
        ("gone", Command::Gone { attempt: ONE, evidence: "nothing is left".into() }),
        ("children ended", Command::ChildrenEnded),
    ]
}

fn answer(state: &Subagent, command: &Command, second: i64) -> String {
    match decide(state, command, at(second)) {
        Ok(facts) if facts.is_empty() => "-".into(),
        Ok(facts) => facts.iter().map(EventKind::name).collect::<Vec<_>>().join("+"),
        Err(refusal) => match refusal {
            Refusal::Illegal { .. } => "illegal",
            Refusal::Stale { .. } => "stale",
            Refusal::Lease { .. } => "lease",
            Refusal::StillRunning => "still_running",
            Refusal::NoSuchRun { .. } => "no_such_run",
            Refusal::NotYours { .. } => "not_yours",
            Refusal::Claimed { .. } => "claimed",
        }
        .into(),
    }
}

/// Each line an operation: the phases in which its answer is the same stand together. `-` is "accepted, nothing new".
const TABLE: &str = include_str!("operations.txt");

#[test]
fn sm_25_every_command_has_its_answer_in_every_phase() {
    let phases = phases();
    let mut table = String::new();
    for (name, command) in operations() {
        writeln!(table, "{name}").unwrap();
        let mut answers: Vec<(String, Vec<&str>)> = vec![];
        for (phase, state) in &phases {
            let answer = answer(state, &command, 50);
            match answers.iter_mut().find(|(known, _)| *known == answer) {
                Some((_, phases)) => phases.push(phase),
                None => answers.push((answer, vec![phase])),
            }
        }
        for (answer, phases) in answers {
            writeln!(table, "    {:28} {}", answer, phases.join(" ")).unwrap();
        }
    }
    blessed_or_equal("crates/core/tests/operations.txt", TABLE, &table);
}

#[test]
fn sm_25_read_and_wait_know_every_status() {
    for (phase, state) in phases() {
        let record = snapshot::record(&state);
        assert_eq!(record.status.is_final(), record.end_reason.is_some(), "{phase}");
        let notice = delivery::notice(&record);
        let pending = notice.contains("there is no result yet");
        assert_eq!(pending, !record.status.is_final(), "{phase}: a wait goes on, and a read says none yet");
        assert_eq!(record.queued_for.is_some(), record.status == Status::Queued, "{phase}");
        assert_eq!(record.waiting_on.is_some(), record.status == Status::Waiting, "{phase}");
    }
}

#[test]
fn stop_01_a_queued_run_ends_at_once_and_never_started() {
    let (_, mut state) = phases().swap_remove(0);
    subagent_core::replay::step(&mut state, &stop(), at(9)).unwrap().unwrap();
    let record = snapshot::record(&state);
    assert_eq!((record.status, record.completed_at), (Status::Stopped, Some(at(9))));
    assert!(record.marks.contains(&subagent_model::Mark::NeverStarted) && state.is_owed());
}

#[test]
fn stop_02_a_start_that_failed_while_it_was_stopped_never_started_and_keeps_its_exit() {
    let (_, mut state) = phases().swap_remove(1);
    let exit = Some(subagent_model::ExitFacts { code: Some(127), signal: None, at: Some(at(11)) });
    let requeue =
        Command::Requeue { attempt: ONE, reason: "no start".into(), exit, not_before: None, max_attempts: 3 };
    subagent_core::replay::step(&mut state, &stop(), at(9)).unwrap().unwrap();
    subagent_core::replay::step(&mut state, &requeue, at(12)).unwrap().unwrap();
    let record = snapshot::record(&state);
    assert_eq!((record.completed_at, record.exited_at), (Some(at(9)), Some(at(11))));
    assert!(record.marks.contains(&subagent_model::Mark::NeverStarted));
}

#[test]
fn sm_22_a_child_that_says_it_was_stopped_though_nobody_asked_has_failed() {
    let (_, mut state) = phases().swap_remove(2);
    let stop = subagent_model::StopInfo {
        actor: "somebody".into(),
        cause: subagent_model::Cause::Requested,
        at: at(1),
    };
    let conclusion = Box::new(Conclusion { outcome: Outcome::Stopped { stop }, ..completed("half") });
    let command = Command::Conclude { attempt: ONE, conclusion, children_live: false };
    subagent_core::replay::step(&mut state, &command, at(9)).unwrap().unwrap();
    let record = snapshot::record(&state);
    assert_eq!((record.status, record.stop), (Status::Error, None));
    assert_eq!(record.result.unwrap().preview, "half");
}

/// What is asked of the machine while it is explored.
fn explored(state: &Subagent) -> Vec<(Command, i64)> {
    let attempt = state.last_attempt;
    let outcomes = [
        completed("done"),
        Conclusion { outcome: Outcome::Steered, ..completed("done") },
        Conclusion { outcome: Outcome::Aborted { limit: Limit::Turns }, ..completed("half") },
        failed(ErrorCode::Crashed),
    ];
    let conclude = |children_live: bool| {
        outcomes.clone().map(|conclusion| {
            (Command::Conclude { attempt, conclusion: Box::new(conclusion), children_live }, 50)
        })
    };
    let requeue = Command::Requeue {
        attempt,
        reason: "no start".into(),
        exit: None,
        not_before: Some(at(60)),
        max_attempts: 2,
    };
    let mut all: Vec<(Command, i64)> = operations().into_iter().map(|(_, command)| (command, 50)).collect();
    all.extend(conclude(false));
    all.extend(conclude(true));
    all.extend([
        (requeue, 50),
        (Command::Gone { attempt, evidence: "nothing is left".into() }, 50),
        (Command::Started { attempt, process: None }, 50),
        (Command::Renew { attempt, lease_until: at(900) }, 50),
        (Command::Progress { attempt, turns: 1, tool_uses: 0, compactions: 0, usage: None }, 50),
        (Command::Reclaim { owner: NodeId::from("node-b"), lease_until: at(900), max_attempts: 3 }, 1_000),
    ]);
    all
}

/// What tells two states of the exploration apart.
fn key(state: &Subagent) -> (Status, Option<Status>, bool, u32, usize, bool, Vec<u8>, bool) {
    let held = match &state.run.phase {
        Phase::Waiting { held: Some(held), .. } => Some(held.outcome.status()),
        _ => None,
    };
    let delivery = state.duties().map(|duty| match duty.delivery {
        Delivery::NotYet => 0,
        Delivery::NotOwed => 1,
        Delivery::Owed { claim: None, .. } => 2,
        Delivery::Owed { .. } => 3,
        Delivery::Consumed { .. } => 4,
    });
    (
        state.status(),
        held,
        matches!(state.run.phase, Phase::Starting { .. }),
        state.run.number.0,
        state.run.attempts.len(),
        state.run.attempts.last().is_some_and(|facts| facts.started_at.is_some()),
        delivery.collect(),
        matches!(state.run.phase, Phase::Queued { reason: QueueReason::Retry { .. }, .. }),
    )
}

/// Every step from status to status, with the facts that make it.
fn transitions() -> BTreeMap<(Status, Status), BTreeSet<&'static str>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let first = queued(1, &owner(), Mode::Async, at(0));
    let mut seen = BTreeSet::from([key(&first)]);
    let mut open = VecDeque::from([first]);
    while let Some(state) = open.pop_front() {
        for (command, second) in explored(&state) {
            let mut next = state.clone();
            for fact in decide(&state, &command, at(second)).unwrap_or_default() {
                let before = next.status();
                next.apply(at(second), &fact).unwrap();
                found.entry((before, next.status())).or_default().insert(fact.name());
            }
            if next.run.number.0 <= 2 && seen.insert(key(&next)) {
                open.push_back(next);
            }
        }
    }
    found
}

fn diagram() -> String {
    let transitions = transitions();
    let mut text = String::from(
        "# States of a run\n\n\
         Made by `crates/core/tests/operations.rs` from the machine itself, by trying everything in every state. Do not \
         edit:\n`SUBAGENT_BLESS=1 cargo test -p subagent-core --test operations` writes it anew.\n\n\
         The words on the arrows are the events. `idle` comes with warm subagents and has no way in yet.\n\n\
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

/// Compares with the committed text, or under `SUBAGENT_BLESS=1` writes it anew.
fn blessed_or_equal(path: &str, committed: &str, made: &str) {
    #[expect(clippy::disallowed_methods, reason = "a test is told by its environment to write the file anew")]
    let bless = std::env::var_os("SUBAGENT_BLESS").is_some();
    if bless {
        let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        #[expect(clippy::disallowed_methods, reason = "it writes the committed file anew")]
        std::fs::write(path, made).unwrap();
    } else {
        assert!(committed == made, "{path} is out of date; `SUBAGENT_BLESS=1` writes it anew. Now:\n{made}");
    }
}
