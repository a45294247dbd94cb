//! Exactly one start and one end for each run that ends, the start first.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{
    LONG, Manner, Recorder, at, attempt_ended, claimed, committed, completed, ended, kind, progress, record,
    started, view,
};
use proptest::prelude::*;
use subagent_hooks::{Hooks, Ledger, Notice, RunView};
use subagent_model::{AttemptNumber, Cause, Cursor, EventKind, Mark, Outcome, Quality, Status, StopInfo};
use tokio::runtime::Handle;

fn ledger() -> Ledger {
    Ledger::new(PathBuf::from("/data"))
}

fn take(ledger: &mut Ledger, run: u32, kind: EventKind, started: bool) -> Notice {
    ledger.take(committed(1, 1, run, kind), || view(1, run, 1, started))
}

fn pair(notice: &Notice) -> (bool, bool) {
    (notice.start.is_some(), notice.end.is_some())
}

#[test]
fn sm_09_only_the_first_attempt_is_the_start_and_only_the_first_end_the_end() {
    let mut ledger = ledger();
    let told: Vec<_> =
        [claimed(1), started(1), attempt_ended(1), started(2), completed(), completed(), started(3)]
            .into_iter()
            .map(|kind| pair(&take(&mut ledger, 1, kind, true)))
            .collect();
    let (nothing, start, end) = ((false, false), (true, false), (false, true));
    assert_eq!(told, [nothing, start, nothing, nothing, end, nothing, nothing]);
}

#[test]
fn sm_09_a_resumed_run_has_a_pair_of_its_own() {
    let mut ledger = ledger();
    for run in [1, 2] {
        assert_eq!(pair(&take(&mut ledger, run, started(run), true)), (true, false));
        let end = take(&mut ledger, run, completed(), true).end.unwrap();
        assert_eq!((end.facts.run.0, end.start.facts.run.0), (run, run));
    }
}

#[test]
fn sm_09_a_run_in_a_live_process_starts_when_it_is_woken() {
    let mut ledger = ledger();
    let woken = EventKind::Woken { attempt: AttemptNumber(1) };
    assert_eq!(pair(&take(&mut ledger, 2, woken, true)), (true, false));
    assert_eq!(pair(&take(&mut ledger, 2, completed(), true)), (false, true));
}

#[test]
fn sm_09_a_run_that_never_started_has_both_and_says_so() {
    let stop = StopInfo { actor: "user:1".into(), cause: Cause::Requested, at: at(9) };
    let notice = take(&mut ledger(), 1, ended(&Outcome::Stopped { stop }), false);
    let (start, end) = (notice.start.unwrap(), notice.end.unwrap());
    assert_eq!((start.started, end.started, end.status), (false, false, Status::Stopped));
    assert_eq!(end.start, start);
}

#[test]
fn sm_09_an_end_whose_start_an_earlier_process_told_brings_its_start() {
    let notice = take(&mut ledger(), 1, completed(), true);
    let start = notice.start.unwrap();
    assert_eq!((start.started, start.at, notice.end.unwrap().started), (true, at(2), true));
}

#[test]
fn hook_04_all_facts_are_there_of_a_child_that_is_gone() {
    let mut ledger = ledger();
    let start = ledger.take(committed(1, 1, 3, started(4)), || view(1, 3, 4, true)).start.unwrap();
    let error = serde_json::json!({"code": "crashed", "message": "it fell", "retryable": false});
    let kind = kind(serde_json::json!({
        "event": "ended", "outcome": {"status": "error", "error": error}, "completed_at": at(9), "marks": ["partial"],
        "quality": "partial",
    }));
    let last = || RunView { last_message: Some(Arc::from(" bye ")), continuations: 2, ..view(1, 3, 5, true) };
    let end = ledger.take(committed(2, 1, 3, kind), last).end.unwrap();
    assert_eq!((start.facts.attempt, end.facts.attempt), (AttemptNumber(4), AttemptNumber(5)));
    let facts = &end.facts;
    assert_eq!(facts.agent_type, "Plugin:Code-Reviewer ");
    assert_eq!((facts.cwd.as_str(), facts.provider.as_str(), facts.run.0), ("/gone", "exec", 3));
    assert_eq!(facts.transcript.as_deref(), Some(Path::new("/data/attempts/1.3.5")));
    let expected = record(1, 3, 5, true);
    assert_eq!((facts.parent, facts.root, facts.depth), (expected.parent, expected.root, 2));
    assert_eq!((facts.mode, &facts.requester), (expected.mode, &expected.requested_by));
    assert_eq!((end.status, end.quality, end.at), (Status::Error, Quality::Partial, at(9)));
    assert_eq!(
        (serde_json::to_value(&end.error).unwrap(), end.marks.as_slice()),
        (error, [Mark::Partial].as_slice())
    );
    assert_eq!((end.last_assistant_message.as_deref(), end.continuations), (Some(" bye "), 2));
}

#[test]
fn hook_02_a_last_message_is_absent_and_not_empty() {
    let blank = || RunView { last_message: Some(Arc::from(" ")), ..view(1, 1, 1, true) };
    let end = ledger().take(committed(1, 1, 1, completed()), blank).end.unwrap();
    assert_eq!(end.last_assistant_message, None);
}

#[test]
fn the_record_is_asked_for_only_at_a_start_or_an_end() {
    let mut ledger = ledger();
    ledger.take(committed(1, 1, 1, started(1)), || view(1, 1, 1, true));
    for kind in [claimed(1), progress(1), started(2)] {
        ledger.take(committed(2, 1, 1, kind), || unreachable!("no record is needed"));
    }
}

/// The events of one subagent: for each run its attempts, how many of them started, whether it ended, how often its end
/// is fed.
fn life() -> impl Strategy<Value = Vec<(u32, EventKind)>> {
    let run = (0_u32..4, 0_u32..4, 1_usize..3);
    (prop::collection::vec(run, 1..4), any::<bool>()).prop_map(|(runs, last_ends)| {
        let mut events = Vec::new();
        let count = runs.len();
        for (index, (attempts, begun, ends)) in runs.into_iter().enumerate() {
            let run = u32::try_from(index).unwrap() + 1;
            for attempt in 1..=attempts {
                events.push((run, claimed(attempt)));
                if attempt <= begun {
                    events.extend([(run, started(attempt)), (run, progress(attempt))]);
                }
                events.push((run, attempt_ended(attempt)));
            }
            if index + 1 < count || last_ends {
                events.extend(std::iter::repeat_n((run, completed()), ends));
            }
        }
        events
    })
}

/// Several lives, and an order in which their events come.
fn interleaving() -> impl Strategy<Value = Vec<(u128, u32, EventKind)>> {
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 200);
    (prop::collection::vec(life(), 1..5), picks).prop_map(|(lives, picks)| {
        let mut lives: Vec<_> = (1_u128..).zip(lives.into_iter().map(Vec::into_iter)).collect();
        let mut all = Vec::new();
        let mut picks = picks.into_iter().cycle();
        while !lives.is_empty() {
            let place = picks.next().unwrap().index(lives.len());
            let (number, life) = &mut lives[place];
            match life.next() {
                Some((run, kind)) => all.push((*number, run, kind)),
                None => drop(lives.swap_remove(place)),
            }
        }
        all
    })
}

/// What each observer must be told of each run, in order.
fn expected(events: &[(u128, u32, EventKind)]) -> HashMap<String, Vec<&'static str>> {
    let mut expected = HashMap::<String, Vec<_>>::new();
    for (number, run, kind) in events {
        let pair = expected.entry(format!("s{number}.{run}")).or_default();
        match kind {
            EventKind::Started { .. } if pair.is_empty() => pair.push("start"),
            EventKind::Ended { .. } if pair.is_empty() => pair.extend(["never", "end"]),
            EventKind::Ended { .. } if pair.len() == 1 => pair.push("end"),
            _ => {}
        }
    }
    expected.retain(|_, pair| !pair.is_empty());
    expected
}

fn told(observer: &Recorder) -> HashMap<String, Vec<String>> {
    let mut told = HashMap::<String, Vec<_>>::new();
    for line in observer.told() {
        let (what, run) = line.split_once(' ').unwrap();
        told.entry(run.to_owned()).or_default().push(what.to_owned());
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sm_09_any_interleaving_gives_each_observer_one_start_and_one_end(events in interleaving()) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let observers = [("good", Manner::Good), ("bad", Manner::Panics)]
            .map(|(name, manner)| Arc::new(Recorder::new(name, manner)));
        executor.block_on(async {
            let hooks = observers.iter().fold(Hooks::default(), |hooks, observer| {
                hooks.with_observer(Arc::<Recorder>::clone(observer))
            });
            let dispatch = hooks.dispatch(PathBuf::from("/data"), Cursor(0), &Handle::current());
            let mut begun = std::collections::HashSet::new();
            for (seq, (number, run, kind)) in (1..).zip(events.iter().cloned()) {
                if matches!(kind, EventKind::Started { .. }) {
                    begun.insert((number, run));
                }
                let has_begun = begun.contains(&(number, run));
                dispatch.committed(committed(seq, number, run, kind), || view(number, run, 1, has_begun));
            }
            dispatch.drain(LONG).await;
        });
        for observer in &observers {
            let told = told(observer);
            let told: HashMap<_, Vec<&str>> =
                told.iter().map(|(run, lines)| (run.clone(), lines.iter().map(String::as_str).collect())).collect();
            prop_assert_eq!(&told, &expected(&events), "{}", observer.name);
        }
    }
}
