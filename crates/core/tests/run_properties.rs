//! Random commands with random attempts at random times, against the real `decide` and `apply`. What fails is shrunk and
//! written to `target/replay/NAME.json`; `cargo xtask replay` walks it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::at;
use common::commands::*;
use common::random::sequences;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult};
use subagent_core::delivery;
use subagent_core::need::{Need, needs};
use subagent_core::replay::{self, Sequence, Step};
use subagent_core::run::{Command, Left, Phase, Subagent, fold};
use subagent_core::snapshot;
use subagent_model::{
    ActivityOn, AttemptNumber, Cause, Cursor, Event, EventKind, Limit, MessageNumber, NodeId, Outcome,
    RequestState, ReturnReason, Status, StopInfo, Timestamp, Usage, Written,
};

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
    // `PROPTEST_CASES` asks for more.
    let cases = Config::default().cases.max(384);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
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
                prop_assert_eq!(before.run.attempts.len(), after.run.attempts.len());
                prop_assert_eq!(before.run.usage, after.run.usage);
            }
            let asked =
                before.is_ended() && matches!(step.command, Command::Resume { .. } | Command::NextRun { .. });
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
                        prop_assert!(stage < 2, "queued with a slot, or after the end");
                        1
                    }
                    EventKind::Parked { .. } => {
                        prop_assert_eq!(stage, 1, "parked with a slot");
                        1
                    }
                    EventKind::AttemptEnded { .. } => {
                        prop_assert_eq!(stage, 2, "no attempt has begun");
                        1
                    }
                    EventKind::Claimed { .. } | EventKind::Woken { .. } => {
                        prop_assert_eq!(stage, 1, "claimed while not queued");
                        2
                    }
                    EventKind::Started { .. }
                    | EventKind::SessionOpened { .. }
                    | EventKind::Prompted { .. }
                    | EventKind::TurnEnded { .. }
                    | EventKind::RequestOpened { .. } => {
                        prop_assert_eq!(stage, 2, "without a claim");
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
        walk(sequence, |step, _, facts, after| {
            for fact in facts {
                match fact {
                    EventKind::Resumed { .. } => first = None,
                    EventKind::StopAccepted { stop } => {
                        prop_assert!(first.is_none(), "a second stop was accepted");
                        first = Some(stop.clone());
                    }
                    // The turn of a warm subagent ends at once.
                    EventKind::Interrupted { .. } if after.is_ended() => {
                        prop_assert!(first.is_none());
                        let stop = after.ended().map(|ended| ended.outcome.clone());
                        if let Some(Outcome::Stopped { stop }) = stop {
                            prop_assert_eq!((stop.cause, stop.at), (Cause::Interrupted, step.at));
                            first = Some(stop);
                        }
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

/// The attempt that a command speaks for.
fn spoken_for(command: &Command) -> Option<AttemptNumber> {
    match command {
        Command::Renew { attempt, .. }
        | Command::Started { attempt, .. }
        | Command::Opened { attempt, .. }
        | Command::Prompted { attempt, .. }
        | Command::Progress { attempt, .. }
        | Command::TurnDone { attempt, .. }
        | Command::TurnCancelled { attempt, .. }
        | Command::Nudge { attempt, .. }
        | Command::BackgroundEnded { attempt }
        | Command::SessionGone { attempt, .. }
        | Command::Conclude { attempt, .. }
        | Command::Requeue { attempt, .. }
        | Command::Settle { attempt, .. }
        | Command::Ask { attempt, .. }
        | Command::Told { attempt, .. }
        | Command::TakeBack { attempt, .. }
        | Command::Stall { attempt, .. }
        | Command::Revive { attempt }
        | Command::Gone { attempt, .. } => Some(*attempt),
        _ => None,
    }
}

#[test]
fn sm_08_only_the_live_attempt_changes_a_run() {
    check("fence", |sequence| {
        walk(sequence, |step, before, _, after| {
            let spoke_for = spoken_for(&step.command);
            if spoke_for.is_some() && spoke_for != before.hold().map(|hold| hold.attempt) {
                let idle = before.warm.as_ref().map(|warm| warm.hold.attempt);
                // The run that was to go on in it ends with it, where there is no other way to.
                if idle != spoke_for || !after.is_ended() {
                    prop_assert_eq!(&before.run.phase, &after.run.phase);
                    prop_assert_eq!(&before.mail, &after.mail);
                }
                prop_assert_eq!(&before.usage, &after.usage);
                prop_assert_eq!(&before.run.requests, &after.run.requests);
                prop_assert!(before.warm == after.warm || idle == spoke_for, "an idle process is its own");
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
        let mut of_run: Option<Usage> = None;
        walk(sequence, |_, _, facts, after| {
            for fact in facts {
                match fact {
                    EventKind::Progress { usage: Some(usage), .. } => {
                        sum = Some(sum.unwrap_or_default().plus(*usage));
                        of_run = Some(of_run.unwrap_or_default().plus(*usage));
                    }
                    EventKind::Resumed { .. } => of_run = None,
                    _ => {}
                }
            }
            prop_assert_eq!((after.usage, after.run.usage), (sum, of_run));
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
            let ended = record.status.is_final() || record.status == Status::Idle;
            prop_assert_eq!(ended, record.quality.is_some());
            prop_assert_eq!(ended, record.completed_at.is_some());
            prop_assert_eq!(record.status, after.status());
            // Nothing is needed only once the ends of all runs are told, or while carriers are at them.
            let told = !after.is_live() && !delivery::owed(after).any(|owed| owed.is_free(step.at));
            let closing = after.warm.as_ref().is_some_and(|warm| warm.closing.is_some());
            prop_assert!(closing || told == needs(after, step.at).is_empty());
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
                let (was, now) = (before.duty(owed.run).unwrap(), after.duty(owed.run).unwrap());
                prop_assert_eq!((now.requester, now.ended_at), (was.requester, Some(owed.since)));
                let receipt = matches!(&step.command, Command::Acknowledge { run, by }
                    if *run == owed.run && (by == was.requester || by == owed.requester));
                prop_assert_eq!(now.is_owed(), !receipt);
                let escalated = matches!(&step.command, Command::Escalate { run, .. } if *run == owed.run);
                prop_assert!(escalated || now.told() == was.told() || !now.is_owed());
            }
            Ok(())
        })
    });
}

/// STEER-03, STEER-04: each message that was accepted waits, or was delivered, or came back, and never two of these.
#[test]
fn steer_04_every_message_has_one_last_word_at_most_and_none_vanishes() {
    check("messages", |sequence| {
        let mut last_words: BTreeMap<MessageNumber, Option<&str>> = BTreeMap::new();
        walk(sequence, |_, _, facts, after| {
            for fact in facts {
                let (number, word) = match fact {
                    EventKind::MessagePosted { message } => {
                        prop_assert_eq!(message.number.0, last_words.len() as u64 + 1);
                        last_words.insert(message.number, None);
                        continue;
                    }
                    EventKind::MessageReturned { number, .. } => (number, "returned"),
                    EventKind::MessageDelivered { number }
                    | EventKind::Resumed { message: Some(number), .. } => (number, "delivered"),
                    _ => continue,
                };
                prop_assert_eq!(last_words.insert(*number, Some(word)), Some(None), "a second last word");
            }
            let open: Vec<_> =
                last_words.iter().filter(|(_, word)| word.is_none()).map(|(n, _)| *n).collect();
            let mut pending: Vec<_> = after.mail.pending().map(|message| message.number).collect();
            pending.sort();
            prop_assert_eq!(pending, open);
            if after.is_ended() {
                let for_it = after.mail.waiting().count() + after.mail.handing().iter().count();
                prop_assert_eq!(for_it, 0, "an ended run has no message of its own");
            }
            Ok(())
        })
    });
}

/// PERM-01, PERM-03, SM-17.
#[test]
fn perm_03_a_run_waits_for_an_answer_exactly_while_a_request_is_open() {
    check("requests", |sequence| {
        walk(sequence, |_, _, _, after| {
            let run = &after.run;
            let open = run.open_requests().count();
            match &run.phase {
                Phase::Waiting { on: ActivityOn::Approval | ActivityOn::Question, .. } => {
                    prop_assert!(open > 0, "it waits for an answer that nobody asked for");
                }
                // It waits for something else first, and is asked meanwhile.
                Phase::Waiting { hold: Some(_), .. } => {}
                _ => prop_assert_eq!(open, 0, "a request is open, and it does not wait"),
            }
            let answered = run.requests.iter().filter(|request| request.state == RequestState::Answered);
            prop_assert!(after.hold().is_some() || answered.count() == 0, "nobody is there to be told");
            Ok(())
        })
    });
}

/// QUEUE-13, SM-20.
#[test]
fn sm_20_a_cut_is_the_only_one_and_no_cut_run_ends_well() {
    check("limits", |sequence| {
        let mut cut: Option<Limit> = None;
        walk(sequence, |_, _, facts, after| {
            for fact in facts {
                match fact {
                    EventKind::Resumed { .. } => cut = None,
                    EventKind::CutOff { limit } => {
                        prop_assert!(cut.is_none(), "a second cut");
                        cut = Some(*limit);
                    }
                    EventKind::Claimed { .. } | EventKind::Woken { .. } => {
                        prop_assert!(cut.is_none(), "a cut run gets no other attempt");
                    }
                    EventKind::Ended { outcome, .. } => match outcome {
                        Outcome::Stopped { .. } => {}
                        // A limit that is kept outside this process.
                        Outcome::Aborted { limit: Limit::Deadline } if cut.is_none() => {}
                        Outcome::Aborted { limit } => prop_assert_eq!(cut, Some(*limit)),
                        _ => prop_assert!(cut.is_none(), "a cut run ended as {}", outcome.status()),
                    },
                    _ => {}
                }
            }
            prop_assert_eq!(after.run.cut, cut);
            if let Some(Outcome::Steered) = after.ended().map(|ended| &ended.outcome) {
                prop_assert_eq!(after.run.wrap_up.map(|asked| asked.limit), Some(Limit::Turns));
            }
            Ok(())
        })
    });
}

/// Rule 4 of the contract: what has ended its turn for good is closed, whatever becomes of its process.
#[test]
fn res_15_finished_work_gets_no_other_attempt() {
    check("finished", |sequence| {
        let mut finished = false;
        walk(sequence, |_, _, facts, _| {
            for fact in facts {
                match fact {
                    EventKind::Resumed { .. } => finished = false,
                    EventKind::TurnEnded { .. } => finished = true,
                    EventKind::Claimed { .. } | EventKind::AttemptEnded { .. } => {
                        prop_assert!(!finished, "it had finished");
                    }
                    _ => {}
                }
            }
            Ok(())
        })
    });
}

/// RES-02, RES-08: a later run goes on where the last one ended, as long as the provider has its session.
#[test]
fn res_08_the_session_of_an_earlier_run_is_never_forgotten() {
    check("session", |sequence| {
        walk(sequence, |_, before, _, after| {
            prop_assert!(before.earlier.is_empty() || before.session.is_none() || after.session.is_some());
            Ok(())
        })
    });
}

/// A subagent has one process at most, and a slot only while a run of it is open.
#[test]
fn sm_18_an_idle_process_is_the_only_one_and_holds_no_slot() {
    check("processes", |sequence| {
        walk(sequence, |_, _, _, after| {
            prop_assert!(after.hold().is_none() || after.warm.is_none(), "two processes");
            prop_assert!(!after.is_ended() || !after.holds_slot());
            if let Some(hold) = after.process_hold() {
                prop_assert_eq!(hold.attempt, after.last_attempt);
                let key = after.attempt_key().unwrap();
                prop_assert!(key.run <= after.run.number);
            }
            Ok(())
        })
    });
}

/// What a fair environment does about one need, and when.
fn carried_out(state: &Subagent, need: &Need, now: Timestamp) -> (Vec<Command>, Timestamp) {
    let run = &state.run;
    let attempt = state.last_attempt;
    let conclude = || conclude_with(attempt, common::completed("done"), false);
    let told = |command| (vec![command], now);
    match need {
        Need::Slot { not_before } => {
            let claim = Command::Claim { owner: NodeId::from("A"), lease_until: Timestamp::never() };
            (vec![claim], not_before.unwrap_or(now).max(now))
        }
        Need::Launch { attempt } => told(started_as(*attempt)),
        Need::Watch { attempt } => told(match &run.phase {
            Phase::Waiting { on: ActivityOn::Background, .. } => {
                Command::BackgroundEnded { attempt: *attempt }
            }
            _ if !state.spec.can.converses() => conclude(),
            _ if !run.session_open => opened_as(*attempt),
            _ if run.last_prompted != *attempt => prompted_as(*attempt),
            _ => turn_done_as(*attempt, common::completed("done"), Left::default()),
        }),
        Need::Kill { .. } | Need::Finish { .. } | Need::CutOff { .. } => told(conclude()),
        Need::Keep { .. } => (vec![], now),
        Need::Retire { at } => (vec![stop_by("runtime", false)], now.max(*at)),
        Need::Close { attempt } => {
            told(Command::SessionGone { attempt: *attempt, reason: "it ended".into(), exit: None })
        }
        Need::Interrupt { attempt } => {
            let conclusion = Box::new(common::completed("half"));
            told(Command::TurnCancelled {
                attempt: *attempt,
                conclusion,
                given: subagent_core::run::Given::Unsaid,
            })
        }
        Need::HandOver { attempt, number } => {
            told(Command::Settle { attempt: *attempt, number: *number, written: Written::Yes })
        }
        Need::Tell { attempt, number } => told(Command::Told { attempt: *attempt, number: *number }),
        Need::Expire { number, at } => (vec![Command::Expire { number: *number }], now.max(*at)),
        Need::Unpark { at } => (vec![Command::Unpark], now.max(*at)),
        Need::NextRun => {
            let reason = ReturnReason::NotResumed;
            (
                vec![Command::NextRun { prompt: common::text("next") }, Command::ReturnFollowUps { reason }],
                now,
            )
        }
        Need::Children => told(Command::ChildrenEnded { unread: 1 }),
        Need::Deliver { run } => {
            let by = state.duty(*run).unwrap().told().clone();
            told(Command::Acknowledge { run: *run, by })
        }
        Need::Reclaim { .. } => told(Command::Reclaim {
            owner: NodeId::from("B"),
            lease_until: Timestamp::never(),
            max_attempts: MOST,
        }),
    }
}

/// What is at hand comes before what only time brings, and the child goes on last.
fn urgency(need: &Need) -> u8 {
    match need {
        Need::Expire { .. } | Need::Unpark { .. } => 1,
        Need::Watch { .. } => 2,
        Need::Retire { .. } => 3,
        Need::Keep { .. } => 4,
        _ => 0,
    }
}

/// RES-18: every open run moves on, and nothing that is owed stays for ever.
#[test]
fn res_18_whatever_a_state_needs_is_gone_once_it_is_carried_out() {
    check("needs", |sequence| {
        let (mut state, _) = replay::birth(sequence).unwrap();
        walk(sequence, |_, _, _, after| {
            state = after.clone();
            Ok(())
        })?;
        let mut now = at(1_000);
        for _ in 0..200 {
            let mut all = needs(&state, now);
            all.sort_by_key(urgency);
            let Some(need) = all.into_iter().find(|need| !matches!(need, Need::Keep { .. })) else { break };
            let (commands, then) = carried_out(&state, &need, now);
            now = then;
            let mut moved = false;
            for command in commands {
                let decision = replay::step(&mut state, &command, now)
                    .map_err(|illegal| TestCaseError::fail(format!("{need:?}: {illegal}")))?;
                moved |= decision.as_ref().is_ok_and(|facts| !facts.is_empty());
                if moved {
                    break;
                }
            }
            prop_assert!(moved, "{need:?} was carried out, and nothing followed");
        }
        prop_assert_eq!(needs(&state, now), vec![]);
        prop_assert!(!state.is_live() && !state.is_owed());
        Ok(())
    });
}

/// The clock may be set back; a claim that ended "in the future" does not hold for ever.
#[test]
fn times_saturate() {
    assert_eq!(at(0).since(at(5)), Duration::ZERO);
}
