//! Random commands with random attempts at random times, against the real `decide` and `apply`. What fails is shrunk and
//! written to `target/replay/NAME.json`; `cargo xtask replay` walks it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::{at, birth, completed, failed, owner, text};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult};
use subagent_core::delivery;
use subagent_core::need::needs;
use subagent_core::replay::{self, Sequence, Step};
use subagent_core::run::{Command, Phase, Subagent, fold};
use subagent_core::snapshot;
use subagent_model::{
    AttemptNumber, Cause, Conclusion, Cursor, ErrorCode, Event, EventKind, Limit, Mode, NodeId, Outcome,
    Requester, RunNumber, StopInfo, Timestamp, Usage,
};

fn attempts() -> impl Strategy<Value = AttemptNumber> {
    (0_u32..6).prop_map(AttemptNumber)
}

fn runs() -> impl Strategy<Value = RunNumber> {
    prop_oneof![4 => Just(1), 3 => Just(2), 1 => Just(3)].prop_map(RunNumber)
}

fn times() -> impl Strategy<Value = Timestamp> {
    (0_i64..60).prop_map(at)
}

fn conclusions() -> impl Strategy<Value = Conclusion> {
    let aborted = Conclusion { outcome: Outcome::Aborted { limit: Limit::Deadline }, ..completed("half") };
    let stop = StopInfo { actor: "the child".into(), cause: Cause::Requested, at: at(0) };
    prop_oneof![
        Just(completed("done")),
        Just(completed("  ")),
        Just(failed(ErrorCode::Crashed)),
        Just(aborted),
        Just(Conclusion { outcome: Outcome::Stopped { stop }, ..completed("cancelled") }),
    ]
}

fn requesters() -> impl Strategy<Value = Requester> {
    prop_oneof![3 => Just(owner()), 1 => Just(Requester::from("user:2000"))]
}

fn usages() -> impl Strategy<Value = Option<Usage>> {
    prop::option::of((0_u64..100, 0_u64..100, 0_u64..100, 0_u64..100, prop::option::of(0_u32..9)).prop_map(
        |(input, output, cache_write, cache_read, cents)| Usage {
            input,
            output,
            cache_write,
            cache_read,
            total: 0,
            cost_usd: cents.map(|cents| f64::from(cents) / 4.0),
        },
    ))
}

fn commands() -> impl Strategy<Value = Command> {
    let node = || NodeId::from("A");
    let carrier = || prop_oneof![Just(String::from("wait")), Just(String::from("notice"))];
    prop_oneof![
        4 => times().prop_map(move |lease_until| Command::Claim { owner: node(), lease_until }),
        1 => (attempts(), times()).prop_map(|(attempt, lease_until)| Command::Renew { attempt, lease_until }),
        1 => (times(), 1_u32..4).prop_map(|(lease_until, max_attempts)| Command::Reclaim {
            owner: NodeId::from("B"),
            lease_until,
            max_attempts,
        }),
        3 => attempts().prop_map(|attempt| Command::Started { attempt, process: None }),
        2 => (attempts(), usages(), 0_u32..3).prop_map(|(attempt, usage, turns)| Command::Progress {
            attempt,
            turns,
            tool_uses: 1,
            compactions: turns / 2,
            usage,
        }),
        3 => (attempts(), conclusions(), any::<bool>()).prop_map(|(attempt, conclusion, children_live)| {
            Command::Conclude { attempt, conclusion: Box::new(conclusion), children_live }
        }),
        2 => (attempts(), prop::option::of(times()), 1_u32..4).prop_map(
            |(attempt, not_before, max_attempts)| Command::Requeue {
                attempt,
                reason: "no start".into(),
                exit: None,
                not_before,
                max_attempts,
            }
        ),
        1 => attempts().prop_map(|attempt| Command::Gone { attempt, evidence: "nothing is left".into() }),
        1 => Just(Command::ChildrenEnded),
        1 => requesters().prop_map(|who| Command::Stop { actor: who.0, cause: Cause::Requested }),
        2 => requesters().prop_map(|requester| Command::Resume { prompt: text("go on"), requester }),
        1 => (runs(), carrier(), times())
            .prop_map(|(run, carrier, until)| Command::ClaimDelivery { run, carrier, until }),
        1 => (runs(), carrier())
            .prop_map(|(run, carrier)| Command::ReturnDelivery { run, carrier, reason: "it failed".into() }),
        1 => (runs(), requesters()).prop_map(|(run, by)| Command::Acknowledge { run, by }),
    ]
}

/// Mostly forward in time, sometimes back: clocks are set.
fn sequences() -> impl Strategy<Value = Sequence> {
    let modes = prop_oneof![Just(Mode::Sync), Just(Mode::Async), Just(Mode::Detached)];
    let steps = prop::collection::vec((-2_i64..8, commands()), 1..50);
    (modes, steps).prop_map(|(mode, steps)| {
        let mut sequence = Sequence::new("a failing property", at(0), birth(1, &owner(), mode));
        let mut now = 0;
        for (passed, command) in steps {
            now += passed;
            sequence.steps.push(Step { at: at(now), command });
        }
        sequence
    })
}

/// Keeps the latest failing sequence, which after the shrinking is the shortest one.
fn keep_on_failure(name: &str, sequence: &Sequence, result: TestCaseResult) -> TestCaseResult {
    if result.is_err() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/replay");
        #[expect(clippy::disallowed_methods, reason = "a failure is kept as a file for the debugger")]
        {
            std::fs::create_dir_all(directory).unwrap();
            std::fs::write(format!("{directory}/{name}.json"), sequence.to_json().unwrap()).unwrap();
        }
    }
    result
}

fn check(name: &str, property: fn(&Sequence) -> TestCaseResult) {
    let config = Config { cases: 384, failure_persistence: None, ..Config::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&sequences(), |sequence| {
        let result = std::panic::catch_unwind(|| property(&sequence))
            .unwrap_or_else(|_| Err(TestCaseError::fail("it panicked")));
        keep_on_failure(name, &sequence, result)
    });
    if let Err(failure) = outcome {
        panic!("{failure}\nwalk it with `cargo xtask replay target/replay/{name}.json`");
    }
}

/// Runs a sequence; gives every event with the state after it, and the refusals no say.
fn walk(
    sequence: &Sequence,
    mut each: impl FnMut(&Step, &Subagent, &[EventKind], &Subagent) -> TestCaseResult,
) -> TestCaseResult {
    let (mut state, _) = replay::birth(sequence).unwrap();
    for step in &sequence.steps {
        let before = state.clone();
        let decision = replay::step(&mut state, &step.command, step.at)
            .map_err(|illegal| TestCaseError::fail(format!("a decided event does not apply: {illegal}")))?;
        if decision.as_ref().is_ok_and(Vec::is_empty) || decision.is_err() {
            prop_assert_eq!(&before, &state, "nothing was decided, so nothing may change");
        }
        each(step, &before, &decision.unwrap_or_default(), &state)?;
    }
    Ok(())
}

#[test]
fn sm_24_the_fold_of_all_events_is_the_state_at_every_step() {
    check("fold", |sequence| {
        let (state, facts) = replay::birth(sequence).unwrap();
        let mut log = vec![];
        let append = |log: &mut Vec<Event>, at, run, facts: &[EventKind]| {
            for kind in facts {
                let seq = Cursor(log.len() as u64 + 1);
                log.push(Event { seq, at, subagent: state.id, run, kind: kind.clone() });
            }
        };
        append(&mut log, sequence.at, state.run.number, &facts);
        walk(sequence, |step, _, facts, after| {
            append(&mut log, step.at, after.run.number, facts);
            prop_assert_eq!(&fold(&log).unwrap().unwrap(), after);
            prop_assert_eq!(after.revision, log.len() as u64);
            Ok(())
        })
    });
}

#[test]
fn states_and_events_survive_being_written_and_read() {
    check("serde", |sequence| {
        walk(sequence, |step, _, facts, after| {
            let read: Subagent = serde_json::from_str(&serde_json::to_string(after).unwrap()).unwrap();
            prop_assert_eq!(&read, after);
            let written = serde_json::to_string(facts).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Vec<EventKind>>(&written).unwrap()[..], facts);
            let again: Step = serde_json::from_str(&serde_json::to_string(step).unwrap()).unwrap();
            prop_assert_eq!(&again, step);
            Ok(())
        })
    });
}

#[test]
fn sm_01_an_end_is_the_only_one_of_its_run_and_never_changes() {
    check("end", |sequence| {
        walk(sequence, |step, before, facts, after| {
            let resumed = matches!(facts.first(), Some(EventKind::Resumed { .. }));
            let ends = facts.iter().filter(|fact| matches!(fact, EventKind::Ended { .. })).count();
            prop_assert!(ends <= usize::from(!before.is_ended() || resumed), "a second end");
            if before.is_ended() && !resumed {
                prop_assert_eq!(&before.run.phase, &after.run.phase);
                prop_assert_eq!(&before.run.attempts, &after.run.attempts);
            }
            let asked = before.is_ended() && matches!(step.command, Command::Resume { .. });
            prop_assert!(asked || !resumed);
            prop_assert_eq!(ends == 1, !before.is_ended() && after.is_ended());
            Ok(())
        })
    });
}

#[test]
fn sm_10_events_of_a_run_come_in_order() {
    check("order", |sequence| {
        let mut stage = 1;
        walk(sequence, |_, _, facts, _| {
            for fact in facts {
                stage = match fact {
                    EventKind::Resumed { .. } => 0,
                    EventKind::Queued { .. } => {
                        prop_assert!(stage < 3, "queued after the end");
                        1
                    }
                    EventKind::Claimed { .. } => {
                        prop_assert_eq!(stage, 1, "claimed while not queued");
                        2
                    }
                    EventKind::Started { .. } => {
                        prop_assert_eq!(stage, 2, "started without a claim");
                        2
                    }
                    EventKind::Ended { .. } => {
                        prop_assert!(stage == 1 || stage == 2, "a second end, or an end before queued");
                        3
                    }
                    _ => stage,
                };
            }
            Ok(())
        })
    });
}

#[test]
fn sm_07_a_stop_ends_as_stopped_at_the_time_of_the_first() {
    check("stop", |sequence| {
        let mut first: Option<StopInfo> = None;
        walk(sequence, |_, _, facts, after| {
            for fact in facts {
                match fact {
                    EventKind::Resumed { .. } => first = None,
                    EventKind::StopAccepted { stop } => {
                        prop_assert!(first.is_none(), "a second stop was accepted");
                        first = Some(stop.clone());
                    }
                    _ => {}
                }
            }
            if let Phase::Ended(ended) = &after.run.phase {
                let stopped = match &ended.outcome {
                    Outcome::Stopped { stop } => Some(stop.clone()),
                    _ => None,
                };
                prop_assert_eq!(&stopped, &first, "stopped exactly when a stop was accepted");
                if let Some(stop) = stopped {
                    prop_assert_eq!(ended.completed_at, stop.at);
                }
            }
            Ok(())
        })
    });
}

#[test]
fn sm_08_only_the_live_attempt_changes_a_run() {
    check("fence", |sequence| {
        walk(sequence, |step, before, _, after| {
            let spoke_for = match step.command {
                Command::Renew { attempt, .. }
                | Command::Started { attempt, .. }
                | Command::Progress { attempt, .. }
                | Command::Conclude { attempt, .. }
                | Command::Requeue { attempt, .. }
                | Command::Gone { attempt, .. } => Some(attempt),
                _ => None,
            };
            if spoke_for.is_some() && spoke_for != before.hold().map(|hold| hold.attempt) {
                prop_assert_eq!(&before.run, &after.run);
                prop_assert_eq!(&before.usage, &after.usage);
            }
            prop_assert!(after.last_attempt >= before.last_attempt);
            Ok(())
        })
    });
}

#[test]
fn rec_12_and_13_usage_is_the_sum_of_what_was_told() {
    check("usage", |sequence| {
        let mut sum: Option<Usage> = None;
        walk(sequence, |_, _, facts, after| {
            for fact in facts {
                if let EventKind::Progress { usage: Some(usage), .. } = fact {
                    sum = Some(sum.unwrap_or_default().plus(*usage));
                }
            }
            prop_assert_eq!(after.usage, sum);
            if let Some(usage) = after.usage {
                prop_assert_eq!(usage.total, usage.input + usage.output + usage.cache_write);
            }
            Ok(())
        })
    });
}

#[test]
fn a_record_can_be_made_of_every_state_and_quality_stands_on_final_ones() {
    check("record", |sequence| {
        walk(sequence, |step, _, _, after| {
            let record = snapshot::record(after);
            prop_assert_eq!(record.status.is_final(), record.quality.is_some());
            prop_assert_eq!(record.status.is_final(), record.completed_at.is_some());
            prop_assert_eq!(record.status, after.status());
            // Nothing is needed only once the ends of all runs are told, or while carriers are at them.
            let told = after.is_ended() && !delivery::owed(after).any(|owed| owed.is_free(step.at));
            prop_assert_eq!(told, needs(after, step.at).is_empty());
            prop_assert!(!delivery::notice(&record).is_empty());
            for duty in after.duties() {
                let of_run = snapshot::record_of_run(after, duty.run).unwrap();
                prop_assert_eq!((of_run.run, &of_run.requested_by), (duty.run, duty.requester));
                prop_assert_eq!(of_run.status.is_final(), duty.ended_at.is_some());
            }
            prop_assert_eq!(snapshot::record_of_run(after, after.run.number.next()), None);
            Ok(())
        })
    });
}

#[test]
fn sm_06_a_fact_that_cannot_follow_changes_nothing() {
    check("illegal", |sequence| {
        let (mut state, mut facts) = replay::birth(sequence).unwrap();
        walk(sequence, |_, _, more, after| {
            facts.extend_from_slice(more);
            state = after.clone();
            Ok(())
        })?;
        for fact in &facts {
            let mut changed = state.clone();
            if changed.apply(at(99), fact).is_err() {
                prop_assert_eq!(&changed, &state);
            } else {
                prop_assert!(changed.revision == state.revision + 1);
                let second_end = state.is_ended() && matches!(fact, EventKind::Ended { .. });
                prop_assert!(!second_end);
            }
        }
        Ok(())
    });
}

/// RESULT-11, RESULT-13: what one run owes is never touched by another run, by a receipt for another, or by anyone else.
#[test]
fn result_13_each_run_is_owed_until_its_own_requester_has_consumed_it() {
    check("duties", |sequence| {
        walk(sequence, |step, before, _, after| {
            for owed in delivery::owed(before) {
                let now = after.duty(owed.run).unwrap();
                prop_assert_eq!((now.requester, now.ended_at), (owed.requester, Some(owed.since)));
                let receipt = matches!(&step.command, Command::Acknowledge { run, by }
                    if *run == owed.run && by == owed.requester);
                prop_assert_eq!(now.is_owed(), !receipt);
            }
            Ok(())
        })
    });
}

/// The clock may be set back; a claim that ended "in the future" does not hold for ever.
#[test]
fn times_saturate() {
    assert_eq!(at(0).since(at(5)), Duration::ZERO);
}
