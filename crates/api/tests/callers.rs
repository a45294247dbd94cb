//! Who calls: by its process, by its header, by its user.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{World, below, foreign, one, person};
use serde_json::{Value, json};
use subagent_model::ErrorCode;
use subagent_runtime::Runtime;

fn child() -> Value {
    json!({"prompt": "p", "provider": "exec"})
}

fn child_of(parent: &impl ToString) -> Value {
    json!({"prompt": "p", "provider": "exec", "parent": parent.to_string()})
}

/// A world whose test is a process of `one`.
fn nested() -> World {
    let world = World::new();
    world.runtime.members.lock().unwrap().insert(std::process::id(), one());
    world
}

#[tokio::test]
async fn perm_11_a_process_of_a_subagent_is_that_subagent_whatever_it_says() {
    let world = nested();
    for requester in ["user:0", "subagent:01940000-0000-7000-8000-000000000003", "api"] {
        let name = requester.to_owned();
        world.by_hand(move |http| http.requester(&name).get("/v1/requests").with_status(200)).await;
        let asked = world.runtime.taken();
        assert_eq!(asked, [format!("subagent:{}: (\"requests\", false)", one())], "as {requester}");
    }
    world.by_hand(|http| http.get("/v1/requests").with_status(200)).await;
    assert!(world.runtime.taken()[0].starts_with(&format!("subagent:{}", one())));
}

#[tokio::test]
async fn perm_11_what_a_subagent_spawns_is_below_it() {
    let world = nested();
    let parent = |world: &World| {
        let asked = world.runtime.taken();
        asked.into_iter().find(|asked| asked.contains("\"spawn\"")).unwrap()
    };
    world.by_hand(|http| http.post("/v1/subagents", &child()).with_status(201)).await;
    assert!(parent(&world).contains(&format!("Some(\"{}\")", one())));
    // By its handle or its id; what is below it may be a parent as well.
    for (name, id) in [("k7q".to_owned(), one()), (one().to_string(), one()), (below().to_string(), below())]
    {
        world.by_hand(move |http| http.post("/v1/subagents", &child_of(&name)).with_status(201)).await;
        assert!(parent(&world).contains(&format!("Some(\"{id}\")")), "{id}");
    }
    world
        .by_hand(|http| {
            http.requester("user:0").post("/v1/subagents", &child_of(&foreign())).refused(ErrorCode::NotYours)
        })
        .await;
    assert_eq!(world.runtime.taken(), [""; 0], "nothing was asked for");
}

#[tokio::test]
async fn perm_11_a_subagent_does_not_end_the_daemon_that_holds_it() {
    let mut world = nested();
    world
        .by_hand(|http| {
            http.requester("user:0").post("/v1/shutdown", &json!({})).refused(ErrorCode::NotYours)
        })
        .await;
    assert!(world.shutdown.try_recv().is_err());
    world.runtime.members.lock().unwrap().clear();
    world.by_hand(|http| http.post("/v1/shutdown", &json!({})).with_status(202)).await;
    assert!(world.shutdown.try_recv().is_ok());
}

#[tokio::test]
async fn perm_12_others_are_who_they_say_or_the_user_at_the_socket() {
    let world = World::new();
    world.by_hand(|http| http.requester("a session").get("/v1/requests").with_status(200)).await;
    assert!(world.runtime.taken()[0].starts_with("a session: "));
    world.by_hand(|http| http.get("/v1/requests").with_status(200)).await;
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    assert!(world.runtime.taken()[0].starts_with(&format!("user:{uid}: ")));
    // What they spawn stays where they put it.
    world.by_hand(|http| http.post("/v1/subagents", &child()).with_status(201)).await;
    assert!(world.runtime.taken()[0].contains("\"p\", None"));
    world.by_hand(|http| http.post("/v1/subagents", &child_of(&foreign())).with_status(201)).await;
    world.by_hand(|http| http.requester("").get("/v1/requests").refused(ErrorCode::InvalidRequest)).await;
}

#[tokio::test]
async fn perm_11_a_connection_is_not_looked_up_before_it_asks_and_only_a_yes_is_kept() {
    let world = World::new();
    let lookups = || world.runtime.lookups.load(Ordering::SeqCst);
    let silent = tokio::net::UnixStream::connect(world.http.socket()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(lookups(), 0);
    drop(silent);
    for _ in 0..3 {
        world.client.requests(&person(), false).await.unwrap();
    }
    assert_eq!(lookups(), 3, "a child may be known a moment after it called first");
}
