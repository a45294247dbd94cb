//! The log of events: pages, streams, filters, positions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{World, one};
use serde_json::Value;
use subagent_model::ErrorCode;

fn positions(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn daemon_19_a_page_has_what_is_wanted_and_goes_on_behind_what_is_not() {
    let world = World::new();
    world.runtime.head.send_replace(8);
    let page = |query: &'static str, name: &'static str| {
        world.by_hand(move |http| http.requester(name).event_page(query).with(200))
    };
    let all = page("?after=0", "user:1").await;
    assert_eq!((positions(&all), all["next"].as_u64()), ((1..=8).collect(), Some(8)));
    let of_one = page("?after=0&subagent=k7q2mx", "user:1").await;
    assert_eq!(positions(&of_one), [2, 4, 6, 8]);
    let interrupted = page("?after=0&kinds=interrupted", "user:1").await;
    assert_eq!((positions(&interrupted), interrupted["next"].as_u64()), (vec![3, 6], Some(8)));
    let both = page("?after=0&kinds=interrupted,woken&subagent=k7q2mx&limit=5", "user:1").await;
    assert_eq!((positions(&both), both["next"].as_u64()), (vec![2, 4], Some(5)));
    // What the caller may not see is passed over as well.
    let last = page("?after=6&limit=1", "someone").await;
    assert_eq!((positions(&last), last["next"].as_u64()), (vec![], Some(7)));
    let nothing = page("?after=8", "user:1").await;
    assert_eq!((positions(&nothing), nothing["next"].as_u64()), (vec![], Some(8)));
    let unknown =
        world.by_hand(|http| http.event_page("?kinds=ended,endet").refused(ErrorCode::InvalidRequest)).await;
    assert!(unknown.message.contains("endet") && unknown.message.contains("interrupted"), "{unknown}");
}

#[tokio::test]
async fn daemon_19_a_held_page_waits_for_what_is_wanted() {
    let world = World::new();
    world.runtime.head.send_replace(1);
    let begun = Instant::now();
    let head = world.runtime.head.clone();
    let more = tokio::spawn(async move {
        // Two that are not wanted, then one that is.
        for seq in [2, 3, 6] {
            tokio::time::sleep(Duration::from_millis(40)).await;
            head.send_replace(seq);
        }
    });
    let query = "?after=1&kinds=interrupted&subagent=k7q2mx&wait_ms=20000";
    let page = world.by_hand(move |http| http.event_page(query).with(200)).await;
    more.await.unwrap();
    assert_eq!((positions(&page), page["next"].as_u64()), (vec![6], Some(6)));
    assert!(begun.elapsed() >= Duration::from_millis(120) && begun.elapsed() < Duration::from_secs(10));
    // Without any it is over in time, and says how far it looked.
    let query = "?after=6&kinds=interrupted&wait_ms=100";
    world.runtime.head.send_replace(8);
    let begun = Instant::now();
    let page = world.by_hand(move |http| http.event_page(query).with(200)).await;
    assert_eq!((positions(&page), page["next"].as_u64()), (vec![], Some(8)));
    assert!(begun.elapsed() >= Duration::from_millis(100) && begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn daemon_19_released_events_are_told_with_the_position_to_go_on_from() {
    let world = World::new();
    world.runtime.head.send_replace(40);
    world.runtime.released.store(20, Ordering::SeqCst);
    let gone = world.by_hand(|http| http.event_page("?after=3").refused(ErrorCode::CursorGone)).await;
    assert_eq!(gone.used, Some(20));
    let told = world.by_hand(|http| http.requester("user:1").events("?after=3", None).through(40)).await;
    assert_eq!(
        (told[0].name.as_str(), told[0].id, &told[0].data["code"]),
        ("gone", 20, &"cursor_gone".into())
    );
    assert_eq!(told[0].data["used"], 20);
    let then: Vec<_> = told[1..].iter().map(|event| event.id).collect();
    assert_eq!(then, (21..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn daemon_19_a_stream_has_what_is_wanted() {
    let world = World::new();
    world.runtime.head.send_replace(60);
    let told = world
        .by_hand(|http| http.events("?kinds=interrupted&subagent=k7q2mx&after=50", Some(0)).through(60))
        .await;
    let seen: Vec<_> = told.iter().map(|event| event.id).collect();
    assert_eq!(seen, (1..=10).map(|n| n * 6).collect::<Vec<_>>());
    assert!(
        told.iter().all(|event| event.name == "interrupted" && event.data["subagent"] == one().to_string())
    );
}

#[tokio::test]
async fn daemon_19_many_subscribers_that_read_nothing_hold_nobody_up() {
    let world = World::new();
    let streams = world
        .by_hand(|http| {
            (0..100).map(|_| http.open("GET", "/v1/events?after=0", &[], b"")).collect::<Vec<_>>()
        })
        .await;
    world.runtime.head.send_replace(1_000_000);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    world.by_hand(|http| http.get("/v1/health").with_status(200)).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(streams);
}
