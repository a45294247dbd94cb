//! What the routes add to the runtime's answers: how far a run is, whether a tree is gone, keys, hints, claims that were
//! not handed over.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{World, below, one, record};
use serde_json::{Value, json};
use subagent_model::{ErrorCode, Problem};
use subagent_testkit::until_async;

#[tokio::test]
async fn result_03_a_wait_that_ran_out_of_time_says_how_far_the_run_is() {
    let world = World::new();
    let wait = || {
        let path = format!("/v1/subagents/{}/wait?timeout_ms=1", one());
        world.by_hand(move |http| http.post(&path, &Value::Null).with(200))
    };
    let reply = wait().await;
    assert_eq!((&reply["ended"], &reply["run"]), (&json!(false), &json!(1)));
    let still = &reply["still_running"];
    assert_eq!(
        (&still["status"], &still["turns_used"], &still["max_turns"]),
        (&json!("running"), &json!(3), &json!(9))
    );
    assert_eq!(still["last_activity"]["active_tools"], json!(["bash"]));
    // What is seen of another run says nothing of this one.
    let path = format!("/v1/subagents/{}/wait?timeout_ms=1", below());
    let reply = world.by_hand(move |http| http.post(&path, &Value::Null).with(200)).await;
    assert_eq!(reply["still_running"].get("last_activity"), None);
    assert!(!world.runtime.taken().iter().any(|asked| asked.contains("acknowledge")), "nothing was consumed");
    *world.runtime.status.lock().unwrap() = "completed";
    let reply = wait().await;
    assert_eq!((&reply["ended"], reply.get("still_running")), (&json!(true), None));
    let acknowledged =
        async || world.runtime.taken().iter().any(|asked| asked.contains("acknowledge")).then_some(());
    until_async("the end to be consumed", acknowledged).await;
}

#[tokio::test]
async fn stop_a_stop_waits_for_the_tree_where_it_is_told_to() {
    let world = World::new();
    *world.runtime.status.lock().unwrap() = "stopped";
    let stop = |query: &'static str, body: Value| {
        let path = format!("/v1/subagents/k7q2mx/stop{query}");
        world.by_hand(move |http| http.post(&path, &body).with(200))
    };
    let reply = stop("", json!({"cascade": false})).await;
    assert_eq!((&reply["record"]["status"], reply.get("gone")), (&json!("stopping"), None));
    let asked = world.runtime.taken();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("cascade: false"), "{asked:?}");
    for (query, body) in [("?wait_ms=50", json!({})), ("", json!({"wait_ms": 50}))] {
        let reply = stop(query, body).await;
        assert_eq!((&reply["record"]["status"], &reply["gone"]), (&json!("stopped"), &json!(true)));
        let asked = world.runtime.taken();
        assert!(
            asked[0].contains("stop") && asked[1].contains("\"gone\"") && asked[1].contains("50ms"),
            "{asked:?}"
        );
    }
    stop("?wait_ms=999999999", json!({})).await;
    assert!(world.runtime.taken()[1].contains("600s"), "it is bounded");
    world
        .by_hand(|http| {
            http.post("/v1/subagents/k7q2mx/stop", &json!({"casc": 1})).refused(ErrorCode::InvalidRequest)
        })
        .await;
}

#[tokio::test]
async fn daemon_a_key_in_the_header_is_the_key() {
    let world = World::new();
    for (path, body) in [
        ("/v1/subagents", json!({"prompt": "p", "provider": "exec"})),
        ("/v1/subagents/k7q2mx/resume", json!({"prompt": "p"})),
        ("/v1/subagents/k7q2mx/steer", json!({"message": "m"})),
    ] {
        world.by_hand(move |http| assert!(http.post_with_key(path, "the-key", &body).status < 300)).await;
        let asked = world.runtime.taken();
        assert!(asked[0].contains("Some(\"the-key\")"), "{path}: {asked:?}");
    }
}

#[tokio::test]
async fn steer_05_a_refusal_names_the_command_that_takes_the_message() {
    let world = World::new();
    let steer = || world.by_hand(|http| http.post("/v1/subagents/k7q2mx/steer", &json!({"message": "m"})));
    let receipt = steer().await.with(200);
    assert_eq!((&receipt["accepted"], &receipt["message"]["receipt"]), (&json!(true), &json!("accepted")));
    for code in [ErrorCode::NoOpenTurn, ErrorCode::NotCapable] {
        *world.runtime.refusal.lock().unwrap() = Some(Problem::new(code, "it takes no message"));
        let hint = steer().await.refused(code).hint.unwrap();
        assert!(hint.contains("k7q2mx MESSAGE"), "{hint}");
    }
}

#[tokio::test]
async fn result_08_a_claim_that_is_not_handed_over_is_given_back() {
    let world = World::new();
    let body = json!({"carrier": "c"});
    let claimed = world.by_hand(move |http| http.post("/v1/inbox/claim", &body).with(200)).await;
    assert_eq!(claimed["items"][0]["delivery_id"], format!("{}.1", one()));
    // More than any buffer takes, and nobody who reads it.
    world.runtime.notice.store(8 << 20, Ordering::SeqCst);
    let stream = world
        .by_hand(|http| {
            http.open(
                "POST",
                "/v1/inbox/claim",
                &[("content-type", "application/json")],
                b"{\"carrier\":\"d\"}",
            )
        })
        .await;
    let claims = async || (world.runtime.asked.lock().unwrap().len() == 2).then_some(());
    until_async("the second claim", claims).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stream);
    let given_back = async || {
        let asked = world.runtime.asked.lock().unwrap();
        asked.iter().find(|asked| asked.contains("give_back")).cloned()
    };
    let given_back = until_async("the claim to be given back", given_back).await;
    assert!(
        given_back.contains("carrier: \"d\"") && given_back.contains(&format!("{}.1", one())),
        "{given_back}"
    );
    let asked = world.runtime.taken();
    assert_eq!(asked.iter().filter(|asked| asked.contains("give_back")).count(), 1, "{asked:?}");
}

#[tokio::test]
async fn queue_a_record_that_is_shown_says_what_holds_it() {
    let world = World::new();
    let show = || world.by_hand(|http| http.get("/v1/subagents/k7q2mx").with(200));
    let running = show().await;
    assert_eq!(running, serde_json::to_value(record(one(), "running")).unwrap());
    *world.runtime.status.lock().unwrap() = "queued";
    let queued = show().await;
    assert_eq!(
        (&queued["queue_position"], &queued["queue_held_by"]),
        (&json!(2), &json!("limits.running (4)"))
    );
}

#[tokio::test]
async fn queue_a_change_of_limits_names_only_what_changes() {
    let world = World::new();
    let put = |body: Value| world.by_hand(move |http| http.put("/v1/limits", &body));
    put(json!({"running": 9})).await.with_status(200);
    let limits = put(json!({"queue": 3})).await.with(200);
    assert_eq!((&limits["running"], &limits["queue"]), (&json!(9), &json!(3)));
    put(json!({"runing": 1})).await.refused(ErrorCode::InvalidRequest);
    put(json!([1])).await.refused(ErrorCode::InvalidRequest);
    assert_eq!(world.by_hand(|http| http.get("/v1/limits").with(200)).await, limits);
}

#[tokio::test]
async fn perm_a_request_is_answered_by_its_name() {
    let world = World::new();
    let answer = |name: &'static str| {
        let path = format!("/v1/requests/{name}");
        world.by_hand(move |http| http.post(&path, &json!({"choice": "allow_once"})))
    };
    answer("k7q.q3").await.with_status(200);
    assert!(world.runtime.taken()[0].contains("RequestNumber(3)"));
    for name in ["k7q", "k7q.3", "zzz.q3"] {
        answer(name).await.refused(ErrorCode::NotFound);
    }
    world.by_hand(|http| http.delete("/v1/subagents/k7q/grants/3").with_status(200)).await;
    assert!(world.runtime.taken()[0].contains("revoke"));
    world.by_hand(|http| http.delete("/v1/subagents/k7q/grants/x").refused(ErrorCode::InvalidRequest)).await;
}

#[tokio::test]
async fn result_34_a_listing_may_be_of_the_callers_own() {
    let world = World::new();
    let list = |query: &'static str| world.by_hand(move |http| http.requester("me").get(query));
    list("/v1/subagents?mine=true&root=k7q&live=true").await.with_status(200);
    let asked = world.runtime.taken();
    assert!(asked[0].contains("requester: Some(\"me\")") && asked[0].contains("live: true"), "{asked:?}");
    assert!(
        asked[0].contains(&format!("root: Some(SubagentId({}", one())) || asked[0].contains("root: Some("),
        "{asked:?}"
    );
    list("/v1/subagents?mine=true&requester=you").await.refused(ErrorCode::InvalidRequest);
    list("/v1/subagents?min=true").await.refused(ErrorCode::InvalidRequest);
}

#[tokio::test]
async fn result_20_the_inbox_of_all_does_not_wait() {
    let world = World::new();
    let inbox = |query: &'static str| world.by_hand(move |http| http.get(query));
    let items = inbox("/v1/inbox?all=true&limit=5").await.with(200);
    assert_eq!(items["items"][0]["notice"], "n");
    assert!(world.runtime.taken()[0].contains("(\"inbox_of_all\", 5)"));
    inbox("/v1/inbox?wait_ms=99999999").await.with_status(200);
    assert!(world.runtime.taken()[0].contains("Some(60s)"), "a poll is bounded");
    inbox("/v1/inbox?all=true&wait_ms=5").await.refused(ErrorCode::InvalidRequest);
}
