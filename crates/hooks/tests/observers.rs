//! Observers are contained: whatever one does, the others, the writer and the run go on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{LONG, Manner, Recorder, claimed, committed, completed, feed, owner, progress, started, view};
use subagent_hooks::{Committed, Dispatch, Hooks, INBOX};
use subagent_model::Cursor;
use tokio::runtime::Handle;
use tokio::time::Instant;

fn dispatch(observers: &[&Arc<Recorder>]) -> Dispatch {
    let hooks = observers
        .iter()
        .fold(Hooks::default(), |hooks, observer| hooks.with_observer(Arc::<Recorder>::clone(observer)));
    hooks.dispatch(PathBuf::from("/data"), Cursor(0), &Handle::current())
}

fn observer(name: &'static str, manner: Manner) -> Arc<Recorder> {
    Arc::new(Recorder::new(name, manner))
}

#[tokio::test(start_paused = true)]
async fn hook_01_an_observer_that_panics_hurts_neither_others_nor_its_own_next_notice() {
    let (bad, worse) = (observer("bad", Manner::Panics), observer("worse", Manner::PanicsUnprintably));
    let good = observer("good", Manner::Good);
    let dispatch = dispatch(&[&bad, &worse, &good]);
    feed(&dispatch, 1, [(1, 1, started(1)), (1, 1, completed()), (2, 1, started(1)), (2, 1, completed())]);
    dispatch.drain(LONG).await;
    for observer in [bad, worse, good] {
        assert_eq!(
            observer.told(),
            ["start s1.1", "end s1.1", "start s2.1", "end s2.1"],
            "{}",
            observer.name
        );
    }
}

#[tokio::test(start_paused = true)]
async fn hook_01_a_call_that_hangs_is_dropped_at_its_deadline_and_the_next_notice_follows() {
    let (hangs, good) = (observer("hangs", Manner::HangsOnStart), observer("good", Manner::Good));
    let dispatch = dispatch(&[&hangs, &good]);
    let begun = Instant::now();
    feed(&dispatch, 1, [(1, 1, started(1)), (1, 1, completed())]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(good.told(), ["start s1.1", "end s1.1"]);
    assert!(hangs.told().is_empty());
    dispatch.drain(LONG).await;
    assert_eq!(hangs.told(), ["end s1.1"]);
    assert_eq!(begun.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn hook_03_the_end_begins_after_the_start_has_finished() {
    let slow = observer("slow", Manner::Takes(Duration::from_millis(900)));
    let dispatch = dispatch(&[&slow]);
    feed(&dispatch, 1, [(1, 1, completed())]);
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(slow.ends.lock().unwrap().is_empty(), "the start has not finished");
    dispatch.drain(LONG).await;
    assert_eq!(slow.told(), ["start s1.1", "end s1.1"]);
}

#[tokio::test(start_paused = true)]
async fn hook_08_each_owner_sees_its_own_runs() {
    let of = |name, number| {
        Arc::new(Recorder { owner: Some(owner(number)), ..Recorder::new(name, Manner::Good).with_events() })
    };
    let (odd, even) = (of("odd", 1), of("even", 2));
    let dispatch = dispatch(&[&odd, &even]);
    feed(&dispatch, 1, [(1, 1, started(1)), (2, 1, started(1)), (1, 1, completed())]);
    dispatch.drain(LONG).await;
    assert_eq!(odd.told(), ["start s1.1", "event 1", "event 3", "end s1.1"]);
    assert_eq!(even.told(), ["start s2.1", "event 2"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_is_too_slow_is_told_what_it_missed_and_from_where_to_read() {
    let slow = Arc::new(Recorder::new("slow", Manner::Takes(Duration::from_millis(10))).with_events());
    let quick = observer("quick", Manner::Good);
    let dispatch = dispatch(&[&slow, &quick]);
    let full = INBOX as u64;
    // Nobody takes anything out meanwhile: publishing does not yield.
    feed(&dispatch, 1, (0..full).map(|_| (1, 1, progress(1))));
    feed(&dispatch, full + 1, [(2, 1, started(1)), (3, 1, started(1)), (3, 1, completed())]);
    // Quick sees starts and ends alone, so it has room for them.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(quick.told(), ["start s2.1", "start s3.1", "end s3.1"]);
    // It has room again, but not been told yet: still left out.
    tokio::time::sleep(Duration::from_millis(100)).await;
    feed(&dispatch, full + 4, [(4, 1, started(1))]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    // Told: all follows again, the end of 2 with the start that was left out.
    feed(&dispatch, full + 5, [(2, 1, completed()), (4, 2, completed())]);
    dispatch.drain(LONG).await;
    let told = slow.told();
    let (before, after) = told.split_at(INBOX);
    assert_eq!(before.last().unwrap(), &format!("event {full}"));
    assert_eq!(
        after,
        [
            format!("lag 4 after {full}").as_str(),
            "start s2.1",
            &format!("event {}", full + 5),
            "end s2.1",
            "start s4.2",
            &format!("event {}", full + 6),
            "end s4.2",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_position_to_read_from_is_one_of_the_durable_log() {
    let slow = Arc::new(Recorder::new("slow", Manner::Good).with_events());
    let dispatch = dispatch(&[&slow]);
    feed(&dispatch, 1, [(1, 1, claimed(1))]);
    for seq in 0..=INBOX as u64 {
        let volatile = Committed { logged: false, ..committed(1000 + seq, 2, 1, progress(1)) };
        dispatch.committed(volatile, || view(2, 1, 1, true));
    }
    dispatch.drain(LONG).await;
    assert_eq!(slow.told().last().unwrap(), "lag 2 after 1");
}

#[tokio::test(start_paused = true)]
async fn hook_06_draining_tells_what_waits_and_gives_up_at_its_bound() {
    let slow = observer("slow", Manner::Takes(Duration::from_millis(900)));
    let good = observer("good", Manner::Good);
    let dispatch = dispatch(&[&slow, &good]);
    feed(&dispatch, 1, (1..=9).map(|number| (number, 1, started(1))));
    let begun = Instant::now();
    dispatch.drain(Duration::from_secs(2)).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    assert_eq!((slow.told().len(), good.told().len()), (2, 9));
    feed(&dispatch, 10, [(10, 1, started(1))]);
    tokio::time::sleep(LONG).await;
    assert_eq!((slow.told().len(), good.told().len()), (2, 9), "nothing is told after the end");
}

#[tokio::test]
async fn nothing_is_made_without_an_observer() {
    let dispatch = dispatch(&[]);
    assert!(dispatch.is_empty() && Hooks::default().is_empty());
    dispatch.committed(committed(1, 1, 1, completed()), || unreachable!("nobody asked"));
}
