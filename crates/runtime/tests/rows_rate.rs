//! Rows of rate limits, quotas and retries: one is held up, all on its account stand back, nobody fails for it. Each test is
//! named by its row. The pauses are those of the retry plan: some seconds.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use subagent_model::request::{SpawnRequest, StopAllRequest, StopRequest, WaitOptions};
use subagent_model::{
    ActivityOn, Capabilities, ErrorCode, Problem, QueueReason, SpawnSpec, Status, SubagentId, Timestamp,
};
use subagent_provider::{Job, Launch, ProcessEnd, Provider, Registry, Scripted, Verdict};
use subagent_runtime::{Engine, Limits, Runtime, Shutdown};
use subagent_store::MemoryStore;
use subagent_testkit::until_async;
use support::{World, me, plain, scripted, under, waiting, world};

fn of_model(model: &str, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { model: Some(model.to_owned()), ..request }
}

fn prompts(world: &World, id: SubagentId) -> Vec<String> {
    let heard = world.fake.heard_by(id).into_iter();
    heard.filter_map(|told| told.strip_prefix("prompt ").map(ToOwned::to_owned)).collect()
}

/// Waits for the pause that a limit of the provider put the run into.
async fn rate_of(world: &World, id: SubagentId) -> (Timestamp, Timestamp) {
    until_async("the pause", || async {
        match world.engine.get(&me(), id).await.unwrap().queued_for {
            Some(QueueReason::Rate { until, not_before }) => Some((until, not_before)),
            _ => None,
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_19_one_429_slows_all_of_its_account_and_model_and_ends_nobody() {
    let world = world(Limits::default()).await;
    let sibling = world.spawn(of_model("big", scripted("gate sibling\nsay sibling"))).await;
    world.fake.gate("sibling").reached().await;
    let script = "on-continue say went on in $session\nuse 5 0\nfail rate_limited slow down";
    let hit = world.spawn(of_model("big", scripted(script))).await;
    let (until, not_before) = rate_of(&world, hit).await;
    assert!(not_before >= until, "it comes back with some jitter: {until:?} {not_before:?}");
    let next = world.spawn(of_model("big", scripted("say next"))).await;
    let held_by = world.engine.queue_place(&me(), next).await.unwrap().held_by.unwrap();
    assert!(held_by.contains(&until.to_string()), "{held_by}");
    assert_eq!(world.engine.health().await.unwrap().running, 1, "a run that waits holds no slot");
    // Another model and another provider go on, and whoever works already does.
    for request in [of_model("small", scripted("say small")), plain("say plain")] {
        let reply = world.engine.spawn(&me(), waiting(request)).await.unwrap();
        assert_eq!((reply.ended, reply.record.status), (true, Status::Completed));
    }
    assert_eq!(world.status(sibling).await, Status::Running);
    world.fake.gate("sibling").open();
    assert_eq!(world.ended(sibling).await.status, Status::Completed);
    assert_eq!(world.status(next).await, Status::Queued);
    let next = world.ended(next).await;
    assert_eq!(next.status, Status::Completed);
    assert!(next.attempts[0].claimed_at >= until);
    let record = world.ended(hit).await;
    let session = record.session.clone().unwrap();
    assert_eq!(record.result.unwrap().preview, format!("went on in {session}"));
    assert!(record.attempts[1].claimed_at >= not_before);
    assert_eq!(prompts(&world, hit).iter().filter(|prompt| *prompt == script).count(), 1);
}

/// A child that is held up and tries again by itself makes the others stand back as well.
#[tokio::test(flavor = "multi_thread")]
async fn queue_19_a_child_that_waits_by_itself_holds_up_the_others_of_its_account() {
    let world = world(Limits::default()).await;
    let held = world.spawn(scripted("held-up 1500\nturn\ngate held\nsay held")).await;
    until_async("its progress", || async {
        (world.engine.get(&me(), held).await.unwrap().turn_count == 1).then_some(())
    })
    .await;
    let next = world.spawn(scripted("say next")).await;
    let place = world.engine.queue_place(&me(), next).await.unwrap();
    assert_eq!((place.ahead, world.status(held).await), (Some(0), Status::Running));
    assert!(place.held_by.is_some_and(|held| held.starts_with("rate limit until ")));
    assert_eq!(world.ended(next).await.status, Status::Completed);
    world.fake.gate("held").open();
    assert_eq!(world.ended(held).await.status, Status::Completed);
}

/// Many are parked, so that the time of the first is near: each comes back with a spread of its own.
#[tokio::test(flavor = "multi_thread")]
async fn queue_20_a_parked_run_holds_nothing_survives_a_restart_and_goes_on_in_its_session() {
    let world = world(Limits { running: 2, ..Limits::default() }).await;
    let script = "on-continue say went on in $session\nsay begun\nfail quota_exhausted reset 1500 used up";
    let mut parked = Vec::new();
    for _ in 0..16 {
        parked.push(world.spawn(scripted(script)).await);
    }
    let until_parked = async |world: &World, id: SubagentId| {
        until_async("the quota", || async {
            match world.engine.get(&me(), id).await.unwrap().waiting_on {
                Some(ActivityOn::Quota { until }) => Some(until),
                _ => None,
            }
        })
        .await
    };
    let stopped = parked.pop().unwrap();
    until_parked(&world, stopped).await;
    let reply = world.engine.stop(&me(), stopped, StopRequest::default()).await.unwrap();
    assert_eq!(reply.record.status, Status::Stopped, "at once: there is no process");
    // The one that comes back first.
    let mut times = Vec::new();
    for id in &parked {
        let record = world.engine.get(&me(), *id).await.unwrap();
        match record.waiting_on {
            Some(ActivityOn::Quota { until }) => times.push((until, *id)),
            // It came back already.
            _ => times.push((record.updated_at, *id)),
        }
    }
    times.sort_unstable();
    let last = times[times.len() - 1];
    let world = world.restarted(Limits { running: 2, ..Limits::default() }, async || ()).await;
    assert_eq!(until_parked(&world, last.1).await, last.0, "its time is stored");
    let (_, first) = times[0];
    let record = world.ended(first).await;
    assert_eq!(record.status, Status::Completed, "{record:?}");
    let session = record.session.clone().unwrap();
    assert_eq!(record.result.unwrap().preview, format!("went on in {session}"));
    assert_eq!((record.attempts.len(), record.attempt.0), (2, 2));
    let told = prompts(&world, first);
    assert_eq!(told.iter().filter(|prompt| *prompt == script).count(), 1, "{told:?}");
    assert_eq!(told.len(), 2);
    assert_eq!(world.status(last.1).await, Status::Waiting);
    world.engine.stop_all(&me(), StopAllRequest::default()).await.unwrap();
    assert_eq!(world.ended(last.1).await.status, Status::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_20_parked_runs_hold_no_slot_and_one_without_a_reset_is_an_error() {
    let world = world(Limits { running: 1, ..Limits::default() }).await;
    let id = world.spawn(scripted("say begun\nfail quota_exhausted reset 600000 used up")).await;
    world.until_status(id, Status::Waiting).await;
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running, health.queued), (0, 0));
    let reply = world.engine.spawn(&me(), waiting(scripted("say other"))).await.unwrap();
    assert_eq!(reply.record.status, Status::Completed, "others on the account have their own answer");
    let unknown = world.engine.spawn(&me(), waiting(scripted("fail quota_exhausted used up"))).await.unwrap();
    let error = unknown.record.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::QuotaExhausted, "used up"));
    assert_eq!(world.status(id).await, Status::Waiting);
    let record = world.engine.stop(&me(), id, StopRequest::default()).await.unwrap().record;
    assert_eq!(record.status, Status::Stopped);
}

/// RES-17 and REC-13.
#[tokio::test(flavor = "multi_thread")]
async fn res_17_retries_are_numbered_and_spaced_and_share_the_run() {
    let world = world(Limits { max_attempts: 2, ..Limits::default() }).await;
    let failing =
        "on-continue use 5 0\non-continue fail timeout the last words\nuse 10 0\nfail timeout no answer";
    let fails = world.spawn(scripted(failing)).await;
    let recovers = world.spawn(scripted("on-continue say $session\nuse 10 0\nfail timeout no answer")).await;
    let at = until_async("the pause", || async {
        match world.engine.get(&me(), fails).await.unwrap().queued_for {
            Some(QueueReason::Retry { at }) => Some(at),
            _ => None,
        }
    })
    .await;
    let place = world.engine.queue_place(&me(), fails).await.unwrap();
    assert_eq!(place.held_by, Some(format!("retry not before {at}")));
    let record = world.ended(fails).await;
    assert_eq!(record.status, Status::Error);
    let error = record.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Timeout, "the last words"));
    let numbers: Vec<_> = record.attempts.iter().map(|facts| facts.attempt.0).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(record.attempts[0].ended.as_deref(), Some("no answer"));
    let pause = record.attempts[1].claimed_at.since(record.attempts[0].claimed_at);
    assert!(pause >= Duration::from_secs(5) && record.attempts[1].claimed_at >= at, "{pause:?}");
    assert_eq!(record.run_usage.unwrap().total, 15, "failed attempts count");
    let record = world.ended(recovers).await;
    assert_eq!((record.status, record.attempts.len()), (Status::Completed, 2));
    assert_eq!(Some(record.result.unwrap().preview), record.session);
    // What cannot be tried again ends at once, as does a parent's child of it.
    for script in ["fail auth not logged in", "fail context_overflow full", "refuse no"] {
        let reply = world.engine.spawn(&me(), waiting(scripted(script))).await.unwrap();
        assert_eq!((reply.record.status, reply.record.attempts.len()), (Status::Error, 1), "{script}");
    }
}

/// A run that is put back by its provider can be stopped in its pause, and its parent is told.
#[tokio::test(flavor = "multi_thread")]
async fn queue_19_a_run_in_its_pause_can_be_stopped() {
    let world = world(Limits::default()).await;
    let parent = world.spawn(scripted("gate parent\nsay parent")).await;
    let hit = world.spawn(under(parent, scripted("fail overloaded too many"))).await;
    rate_of(&world, hit).await;
    let reply = world.engine.stop(&me(), hit, StopRequest::default()).await.unwrap();
    assert_eq!(reply.record.status, Status::Stopped);
    world.fake.gate("parent").open();
    assert_eq!(world.ended(parent).await.status, Status::Completed);
}

/// The fake with an account for each label.
struct Accounts(Scripted);

impl Provider for Accounts {
    fn name(&self) -> &'static str {
        "accounts"
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn account(&self, spec: &SpawnSpec) -> Option<String> {
        spec.labels.get("account").cloned()
    }
    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        self.0.check(spec)
    }
    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        self.0.launch(job)
    }
    fn conclude(&self, job: &Job, end: &ProcessEnd) -> Verdict {
        self.0.conclude(job, end)
    }
}

/// The pause is one of the account: it is known after a restart, and no other account has it.
#[tokio::test(flavor = "multi_thread")]
async fn queue_19_accounts_of_one_provider_are_apart() {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let store = Arc::new(MemoryStore::default());
    let start = async || {
        let registry = Registry::default().with(Accounts(Scripted::default()));
        let config = support::config(dir.path(), Limits::default());
        Engine::start(config, Arc::clone(&store) as _, registry, None).await.unwrap()
    };
    let of = |account: &str, script: &str| SpawnRequest {
        provider: String::from("accounts"),
        labels: BTreeMap::from([(String::from("account"), account.to_owned())]),
        ..scripted(script)
    };
    let engine = start().await;
    let hit = engine.spawn(&me(), of("a", "on-continue say on\nfail rate_limited slow down")).await.unwrap();
    let until = until_async("the pause", || async {
        match engine.get(&me(), hit.record.id).await.unwrap().queued_for {
            Some(QueueReason::Rate { until, .. }) => Some(until),
            _ => None,
        }
    })
    .await;
    engine.shutdown(Shutdown::Keep).await;
    let engine = start().await;
    let same = engine.spawn(&me(), of("a", "say same")).await.unwrap().record.id;
    let held_by = engine.queue_place(&me(), same).await.unwrap().held_by.unwrap();
    assert!(held_by.contains(&until.to_string()), "{held_by}");
    let other = engine.spawn(&me(), waiting(of("b", "say other"))).await.unwrap();
    assert_eq!((other.ended, other.record.status), (true, Status::Completed));
    assert_eq!(engine.get(&me(), same).await.unwrap().status, Status::Queued);
    for id in [hit.record.id, same] {
        let options = WaitOptions { run: None, timeout_ms: Some(20_000) };
        assert_eq!(engine.wait(&me(), id, options).await.unwrap().record.status, Status::Completed);
    }
}
