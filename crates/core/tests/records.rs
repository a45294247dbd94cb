//! The public record: exactly which fields it has in each status, which it must never have, and that records written
//! long ago are read for ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;

use common::phases::*;
use common::{agent, at, completed, owner, text};
use subagent_core::replay;
use subagent_core::run::{Command, Subagent};
use subagent_core::snapshot;
use subagent_model::{
    Budget, Choice, Conclusion, ExitFacts, Mark, Mode, ProcessIdentity, Quality, SpawnSpec, Status,
    SubagentRecord, Usage, Written,
};

/// In every record.
const ALWAYS: &str = "id handle type description provider mode is_background status run attempt root depth \
    requested_by created_at accepted_at updated_at turn_count tool_uses compaction_count cwd tier consumed durable \
    resumable";

/// What must not be in a record, by class: whoever adds one of these must first change the rules of admission.
const DECLINED: [(&str, &str); 5] = [
    ("live objects", "pid_handle abort signal socket process_handle waiters listeners sender channel"),
    (
        "momentary activity",
        "activity active_tools current_tool response_text streaming partial_message last_line",
    ),
    (
        "internal bookkeeping",
        "revision last_attempt last_request lease lease_until hold phase delivery claim tries claimed_by escalated seq \
        warm mail paused prompted prompted_at counted session_open nudges rate_hits stalled_since cut done interrupting \
        born_in key",
    ),
    (
        "secrets and the spawn's own inputs",
        "env secret_env args exec program prompt spec idempotency_key permissions on_loss can account output_schema",
    ),
    ("display", "icon color spinner elapsed label_text row title_line"),
];

fn state(name: &str) -> Subagent {
    phase(&format!("program:{name}"))
}

fn json(state: &Subagent) -> serde_json::Map<String, serde_json::Value> {
    let serde_json::Value::Object(map) = serde_json::to_value(snapshot::record(state)).unwrap() else {
        panic!("a record is an object")
    };
    map
}

fn assert_fields(name: &str, state: &Subagent, more: &str) {
    let keys: BTreeSet<_> = json(state).keys().cloned().collect();
    let expected: BTreeSet<_> =
        ALWAYS.split_whitespace().chain(more.split_whitespace()).map(String::from).collect();
    assert_eq!(keys, expected, "{name}");
}

/// Stopped, with a result that came late, from a process whose end is known.
fn stopped_late() -> Subagent {
    let exit = Some(ExitFacts { code: Some(0), signal: None, at: Some(at(9)) });
    let conclusion = Conclusion { exit, ..completed("42 lines") };
    let process = ProcessIdentity { pid: 4711, start_time: 99, boot_id: "boot".into() };
    after(
        Mode::Async,
        &[
            claim(),
            Command::Started { attempt: ONE, process: Some(process) },
            stop(),
            conclude_with(ONE, conclusion, false),
        ],
    )
}

/// The second run, which used something, of a subagent with everything that can be absent.
fn resumed() -> Subagent {
    let mut state = phase("agent:completed");
    let usage =
        Usage { input: 10, output: 5, cache_write: 1, cache_read: 100, total: 0, cost_usd: Some(0.25) };
    let attempt = ONE.next();
    for (second, command) in [
        (
            10,
            Command::Resume {
                prompt: text("and the words"),
                attachments: vec![],
                requester: owner(),
                key: None,
            },
        ),
        (20, claim()),
        (30, Command::Started { attempt, process: None }),
        (
            40,
            Command::Progress {
                attempt,
                turns: 2,
                more: false,
                tool_uses: 3,
                compactions: 1,
                usage: Some(usage),
                position: None,
            },
        ),
    ] {
        replay::step(&mut state, &command, at(second)).unwrap().unwrap();
    }
    state
}

/// Everything that a record of an agent can hold at once: asked, warned, steered, priced and come back.
fn busy() -> Subagent {
    let budget = Budget { max_turns: Some(1), ..Budget::default() };
    let usage = Usage { input: 1, ..Usage::default() };
    let mut commands = in_turn();
    commands.extend([
        spent(ONE, usage),
        progress(ONE, 1, true),
        settle(1, Written::Refused),
        follow_up(),
        ask(approval("a", "make")),
        answer(1, Choice::AllowAlways),
        ask(question("b")),
    ]);
    led(SpawnSpec { budget, model: Some("fast".into()), ..agent(Mode::Async) }, &commands)
}

#[test]
fn rec_02_a_record_of_a_program_has_exactly_the_documented_fields() {
    let ended = "attempts completed_at end_reason quality started_at transcript";
    assert_fields("queued", &state("queued"), "queued_for");
    assert_fields("queued, retry", &state("queued-retry"), "attempts queued_for");
    assert_fields("starting", &state("starting"), "attempts node");
    assert_fields("running", &state("running"), "attempts node started_at transcript");
    assert_fields("waiting", &state("waiting"), "attempts started_at transcript waiting_on waiting_since");
    assert_fields("stopping", &state("stopping"), "attempts node started_at stop transcript");
    assert_fields("completed", &state("completed"), &format!("{ended} result"));
    assert_fields("error", &state("error"), &format!("{ended} error"));
    assert_fields("lost", &state("lost"), ended);
    assert_fields("stopped", &stopped_late(), &format!("{ended} exited_at marks result stop"));
}

#[test]
fn rec_02_a_record_of_an_agent_has_exactly_the_documented_fields() {
    let running = "attempts node session started_at transcript";
    let waiting = "waiting_on waiting_since";
    let ended = "attempts completed_at end_reason quality session started_at transcript";
    let of = |name: &str, more: &str| assert_fields(name, &phase(name), more);
    of("agent:not-open", "attempts node started_at transcript");
    of("agent:in-turn", running);
    of("agent:handing-over", &format!("{running} pending_messages"));
    of("agent:stalled", running);
    of("agent:interrupting", running);
    of("agent:cut", running);
    of("agent:done", running);
    of("agent:approval", &format!("{running} {waiting} requests"));
    of("agent:answered", &format!("{running} requests"));
    of("agent:children-alive", &format!("{running} {waiting}"));
    of("agent:quota", &format!("attempts session started_at transcript {waiting}"));
    of("agent:completed", &format!("{ended} result"));
    of("agent:steered", &format!("{ended} budget max_turns result wrap_up"));
    of("agent:aborted", &format!("{ended} marks result"));
    of("agent:follow-up-waits", &format!("{ended} pending_messages result"));
    of("warm:idle", &format!("{ended} result retire_at"));
    of("warm:idle-closed", &format!("{ended} result"));
    of("warm:woken", &format!("{running} earlier_runs"));
    assert_fields("resumed", &resumed(), &format!("{running} earlier_runs run_usage usage"));
    let all = "budget grants max_turns pending_messages requests returned_messages run_usage usage wrap_up";
    assert_fields("busy", &busy(), &format!("{running} {waiting} {all}"));
}

/// REC-02: the parts of a record that are records themselves.
#[test]
fn rec_02_an_earlier_run_has_exactly_the_documented_fields() {
    let mut state = busy();
    for (second, command) in [
        (60, answer_text(2)),
        (61, stop()),
        (62, conclude_with(ONE, completed("half"), false)),
        (63, resume()),
    ] {
        replay::step(&mut state, &command, at(second)).unwrap().unwrap();
    }
    let record = json(&state);
    let earlier = record["earlier_runs"][0].as_object().unwrap();
    let keys: BTreeSet<_> = earlier.keys().map(String::as_str).collect();
    let expected = "run requested_by accepted_at prompt outcome started_at completed_at quality consumed result marks \
        turn_count tool_uses usage wrap_up requests returned_messages attempts";
    assert_eq!(keys, expected.split_whitespace().collect());
}

#[test]
fn rec_02_nothing_is_null_and_nothing_declined_is_there() {
    fn no_null(value: &serde_json::Value, path: &str) {
        match value {
            serde_json::Value::Null => panic!("{path} is null, not absent"),
            serde_json::Value::Array(items) => items.iter().for_each(|item| no_null(item, path)),
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, value)| no_null(value, &format!("{path}.{key}")));
            }
            _ => {}
        }
    }
    let mut all = phases();
    let more = [("stopped late", stopped_late()), ("resumed", resumed()), ("busy", busy())];
    all.extend(more.map(|(name, state)| (name.to_owned(), state)));
    for (name, state) in all {
        let record = json(&state);
        let written = serde_json::to_string(&record).unwrap();
        record.iter().for_each(|(key, value)| no_null(value, key));
        for (class, fields) in DECLINED {
            for field in fields.split_whitespace() {
                assert!(!record.contains_key(field), "{name}: {field} ({class})");
            }
        }
        // Neither do values get in by another name.
        for value in ["environment-value", "SECRET_NAME", "argument-value"] {
            assert!(!written.contains(value), "{name}: {value}");
        }
    }
}

#[test]
fn rec_01_a_record_never_changes_later_and_cannot_write_back() {
    let mut state = state("running");
    let mut record = snapshot::record(&state);
    let kept = record.clone();
    replay::step(&mut state, &conclude(false), at(50)).unwrap().unwrap();
    assert_eq!(record, kept);
    record.status = Status::Lost;
    record.labels.insert("a".into(), "b".into());
    assert_eq!(snapshot::record(&state).status, Status::Completed);
    assert!(snapshot::record(&state).labels.is_empty());
}

#[test]
fn rec_04_accepted_started_stop_asked_and_ended_are_separate_times() {
    let record = snapshot::record(&stopped_late());
    assert_eq!(record.created_at, at(0));
    assert_eq!(record.attempts[0].claimed_at, at(1));
    assert_eq!(record.started_at, Some(at(2)));
    assert_eq!(record.stop.unwrap().at, at(3));
    assert_eq!(record.updated_at, at(4));
    let record = snapshot::record(&resumed());
    assert_eq!((record.created_at, record.accepted_at), (at(0), at(10)), "each run is accepted");
    assert_eq!(record.earlier_runs[0].accepted_at, at(0));
}

#[test]
fn rec_04_a_renewed_lease_is_no_change() {
    let mut state = state("running");
    let before = snapshot::record(&state);
    let renew = Command::Renew { attempt: ONE, lease_until: at(200) };
    assert_eq!(replay::step(&mut state, &renew, at(50)).unwrap().unwrap().len(), 1);
    assert_eq!(snapshot::record(&state), before);
}

/// PROC-03: a command line may hold secrets.
#[test]
fn proc_03_a_blank_prompt_is_described_by_the_name_of_the_program_only() {
    let mut state = state("running");
    state.run.prompt = text(" \n ");
    assert_eq!(snapshot::record(&state).description, "wc");
    std::sync::Arc::make_mut(&mut state.spec).exec = None;
    assert_eq!(snapshot::record(&state).description, "");
}

#[test]
fn sm_07_the_end_of_a_stopped_run_is_the_stop_and_the_childs_own_end_stands_apart() {
    let record = snapshot::record(&stopped_late());
    assert_eq!((record.completed_at, record.exited_at), (Some(at(3)), Some(at(9))));
    assert_eq!(record.end_reason.as_deref(), Some("stopped by user:1000"));
    assert_eq!((record.result.unwrap().preview.as_str(), record.marks), ("42 lines", vec![Mark::Partial]));
}

#[test]
fn rec_05_every_attempt_and_every_earlier_run_is_listed() {
    let again = Command::Requeue {
        attempt: ONE,
        reason: "no start".into(),
        exit: Some(ExitFacts { code: Some(127), signal: None, at: None }),
        not_before: None,
        max_attempts: MOST,
    };
    let state = after(Mode::Async, &[claim(), again, claim()]);
    let record = snapshot::record(&state);
    let listed: Vec<_> =
        record.attempts.iter().map(|facts| (facts.attempt.0, facts.ended.as_deref())).collect();
    assert_eq!(listed, [(1, Some("no start")), (2, None)]);
    assert_eq!(record.attempts[0].exit.unwrap().code, Some(127));

    let record = snapshot::record(&resumed());
    assert_eq!((record.run.0, record.attempt.0, record.result), (2, 2, None));
    let earlier = &record.earlier_runs[0];
    assert_eq!((earlier.run.0, earlier.outcome.status()), (1, Status::Completed));
    assert_eq!(earlier.result.as_ref().unwrap().preview, "42 lines");
    assert_eq!(earlier.attempts.len(), 1);
    assert_eq!((&earlier.requested_by, earlier.consumed, earlier.quality), (&owner(), false, Quality::Ok));
}

#[test]
fn rec_15_usage_that_was_never_told_is_unknown_and_not_zero() {
    assert_eq!(snapshot::record(&state("completed")).usage, None);
    assert_eq!(snapshot::record(&resumed()).usage.unwrap().total, 16);
}

/// Written by version 1. The file is never edited: what a later version adds has to have a default.
#[test]
fn records_of_version_1_are_read_for_ever() {
    let written = include_str!("../../../fixtures/records/v1.json");
    let records: Vec<SubagentRecord> = serde_json::from_str(written).unwrap();
    assert_eq!(records.len(), 13);
    let resumed = &records[12];
    assert_eq!((resumed.run.0, resumed.earlier_runs.len(), resumed.usage.unwrap().total), (2, 1, 16));
    assert_eq!(records[11].stop.as_ref().unwrap().actor, "user:1000");
    // What is read and written again says the same.
    let again: Vec<SubagentRecord> = serde_json::from_str(&serde_json::to_string(&records).unwrap()).unwrap();
    assert_eq!(again, records);
}
