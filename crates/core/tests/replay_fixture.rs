//! Replay files: the committed one plays for ever and ends as it always did; newer ones are refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{at, birth, completed, owner};
use subagent_core::need::Need;
use subagent_core::replay::{Player, ReplayError, Sequence, Step, VERSION};
use subagent_core::run::{Command, Phase, Refusal};
use subagent_model::{AttemptNumber, Cause, EventKind, Mark, Mode, NodeId, Outcome, RunNumber, Status};

const STOP_RACE: &str = include_str!("../../../fixtures/replay/v1-stop-race.json");

/// A stop, then the child's success, then everything else that can come too late.
fn stop_race() -> Sequence {
    let attempt = AttemptNumber(1);
    let mut race = Sequence::new("a stop is accepted just before the child succeeds", at(0), {
        birth(7, &owner(), Mode::Async)
    });
    let stop = |actor: &str| Command::Stop { actor: actor.into(), cause: Cause::Requested };
    let conclude =
        Command::Conclude { attempt, conclusion: Box::new(completed("42 lines")), children_live: false };
    race.steps = [
        (1, Command::Claim { owner: NodeId::from("node-a"), lease_until: at(31) }),
        (2, Command::Started { attempt, process: None }),
        (3, stop("user:1000")),
        (4, stop("user:2000")),
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

#[test]
fn sm_02_the_committed_stop_race_plays_and_ends_as_stopped() {
    #[expect(clippy::disallowed_methods, reason = "a test is told by its environment to write the file anew")]
    let bless = std::env::var_os("SUBAGENT_BLESS").is_some();
    if bless {
        #[expect(clippy::disallowed_methods, reason = "it writes the committed file anew")]
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/replay/v1-stop-race.json"),
            stop_race().to_json().unwrap(),
        )
        .unwrap();
        return;
    }
    let race = Sequence::parse(STOP_RACE).unwrap();
    assert_eq!(race, stop_race());
    let steps: Vec<_> = Player::new(&race).unwrap().map(Result::unwrap).collect();
    let told: Vec<_> = steps
        .iter()
        .map(|taken| match &taken.decision {
            Ok(events) => events.iter().map(EventKind::name).collect::<Vec<_>>().join(" "),
            Err(refusal) => format!("refused: {refusal}"),
        })
        .collect();
    assert_eq!(
        told,
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
fn a_newer_file_is_refused_and_a_wrong_one_is_told() {
    let newer = STOP_RACE.replacen("\"version\": 1", "\"version\": 2", 1);
    assert!(matches!(Sequence::parse(&newer), Err(ReplayError::TooNew { found: 2 })));
    assert!(matches!(Sequence::parse("[]"), Err(ReplayError::Json(_))));
    assert_eq!(Sequence::parse(STOP_RACE).unwrap().version, VERSION);
}
