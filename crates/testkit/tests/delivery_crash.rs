//! RESULT-06, RESULT-09: a thousand children of one busy parent end within a moment, and the daemon is killed in the middle
//! of their deliveries. Each result is owed until it was acknowledged, and is acknowledged once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use subagent_client::Client;
use subagent_model::request::{ClaimRequest, SpawnRequest};
use subagent_model::{ErrorCode, ExecSpec, Mode, PromptVia, Requester, ResultFrom, SubagentId, Talk};
use subagent_runtime::{Caller, Runtime};
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, until};

const CONFIG: &str = "[limits]\nrunning = 1024\nbreadth = 2000\ntree_total = 2000\nrate = 100000\nqueue = 2000\n\
    memory_floor_mb = 0\ndisk_floor_mb = 0\n";
const MANY: usize = 1_000;
const SIDE_BY_SIDE: usize = 8;
/// Longest time for all deliveries.
const LIMIT: Duration = Duration::from_mins(1);

fn owner(parent: &str) -> Caller {
    Caller { requester: Requester(format!("subagent:{parent}")) }
}

/// A child that ends when the gate is opened.
fn child(home: &Home, parent: &str) -> SpawnRequest {
    let exec = ExecSpec {
        program: String::from("/bin/sh"),
        args: vec![String::from("-c"), String::from("read line < gate; echo done")],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: Talk::None,
    };
    SpawnRequest {
        provider: String::from("exec"),
        exec: Some(exec),
        mode: Mode::Async,
        parent: Some(parent.to_owned()),
        cwd: Some(home.path().to_str().unwrap().into()),
        durable: true,
        ..SpawnRequest::default()
    }
}

async fn children(home: &Home, client: &Client, parent: &str) -> BTreeSet<SubagentId> {
    let spawners = (0..SIDE_BY_SIDE).map(|_| {
        let (client, owner, request) = (client.clone(), owner(parent), child(home, parent));
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..MANY / SIDE_BY_SIDE {
                ids.push(client.spawn(&owner, request.clone()).await.unwrap().record.id);
            }
            ids
        })
    });
    let spawners: Vec<_> = spawners.collect();
    let mut ids = BTreeSet::new();
    for spawner in spawners {
        ids.extend(spawner.await.unwrap());
    }
    ids
}

/// One end and one receipt for each of these, as the events tell.
fn each_once(home: &Home, ids: impl IntoIterator<Item = String>) {
    let mut told = [BTreeMap::<String, usize>::new(), BTreeMap::new()];
    let all: BTreeMap<_, _> = ids.into_iter().map(|id| (id, 1)).collect();
    for event in home.all_events() {
        let id = event["subagent"].as_str().unwrap();
        let kind = match event["event"].as_str().unwrap() {
            "ended" => 0,
            "acknowledged" => 1,
            _ => continue,
        };
        if all.contains_key(id) {
            assert!(kind == 1 || event["outcome"]["status"] == "completed", "{event:#}");
            *told[kind].entry(id.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(told[0], all, "each ended once");
    assert_eq!(told[1], all, "each was acknowledged once");
}

/// Claims, hands over and acknowledges. It goes on over the loss of the daemon, and ends when nothing is owed any more.
async fn carry(client: Client, owner: Caller, name: String, acknowledged: &AtomicUsize) {
    let begun = Instant::now();
    while acknowledged.load(Ordering::Relaxed) < MANY {
        assert!(begun.elapsed() < LIMIT, "{} of {MANY}", acknowledged.load(Ordering::Relaxed));
        let request =
            ClaimRequest { carrier: name.clone(), limit: Some(17), hold_ms: Some(2_000), wait_ms: Some(100) };
        let claimed = match client.claim(&owner, request).await {
            Ok(claimed) => claimed,
            Err(problem) => {
                assert_eq!(problem.code, ErrorCode::DaemonUnreachable, "{problem:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
        };
        for item in claimed {
            match client.ack_run(&owner, item.record.id, item.run, false).await {
                Ok(reply) => {
                    assert_eq!(reply.acknowledged, [item.record.id]);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                // Whether it counts is told by the events; if it does not, it comes again.
                Err(problem) => assert_eq!(problem.code, ErrorCode::DaemonUnreachable, "{problem:?}"),
            }
        }
        // One that was acknowledged by a daemon that could not say so any more.
        if let Ok(left) = client.inbox(&owner, 1, None).await
            && left.is_empty()
            && acknowledged.load(Ordering::Relaxed) + SIDE_BY_SIDE >= MANY
        {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_09_a_thousand_ends_at_once_and_a_kill_in_the_middle_are_a_thousand_receipts() {
    let home = Home::with_config(CONFIG);
    let gate = home.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let script = "while [ ! -e free ]; do sleep 0.1; done; echo parent";
    let parent = home.background(&["sh", "-c", script])["id"].as_str().unwrap().to_owned();
    let parent_pid = home.until_pid(&parent);
    let client = home.client();
    let ids = children(&home, &client, &parent).await;
    assert_eq!(ids.len(), MANY);
    until("all of them to run", || {
        let health = home.run(&["status", "--json"]).ended(0).json();
        (health["running"] == MANY + 1).then_some(())
    });
    let daemon = home.daemon_pid().unwrap();
    // All that wait for a writer are let through.
    drop(std::fs::OpenOptions::new().write(true).open(&gate).unwrap());
    let acknowledged = AtomicUsize::new(0);
    let kills = async {
        while acknowledged.load(Ordering::Relaxed) < MANY / 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        kill(daemon, rustix::process::Signal::KILL);
        until("the daemon to be gone", || (!is_alive(daemon)).then_some(()));
        assert!(acknowledged.load(Ordering::Relaxed) < MANY, "it must be in the middle");
        home.run(&["ls"]).ended(0);
    };
    let carrier =
        |number: usize| carry(client.clone(), owner(&parent), format!("carrier-{number}"), &acknowledged);
    tokio::join!(kills, carrier(0), carrier(1), carrier(2), carrier(3));
    let left = client.inbox(&owner(&parent), 10, None).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    each_once(&home, ids.iter().map(ToString::to_string));
    // The parent was busy all the time, and can end now.
    assert!(is_alive(parent_pid));
    home.open("free");
    home.run(&["wait", &parent]).ended(0);
    let names: Vec<_> = ids.iter().map(ToString::to_string).collect();
    until("all processes to be gone", || home.survivors(&names).is_empty().then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_09_the_runtime_tells_a_parent_of_each_result_and_a_kill_in_the_middle_loses_none() {
    const FEW: usize = 40;
    let home = Home::with_config(CONFIG);
    assert!(std::process::Command::new("mkfifo").arg(home.path().join("gate")).status().unwrap().success());
    let parent = home.talks(&[], "touch working\nfile free\nsay done");
    home.reached("working");
    let client = home.client();
    let mut ids = BTreeSet::new();
    for _ in 0..FEW {
        let reply = client.spawn(&owner(&parent), child(&home, &parent)).await.unwrap();
        ids.insert(reply.record.id.to_string());
    }
    for id in &ids {
        home.until_pid(id);
    }
    drop(std::fs::OpenOptions::new().write(true).open(home.path().join("gate")).unwrap());
    // A notice carries the name of its delivery.
    let told = |id: &str| {
        let all = home.told_to(&parent);
        all.iter().map(|told| told.matches(&format!("delivery=\"{id}.1\"")).count()).sum::<usize>()
    };
    until("the first notice", || ids.iter().any(|id| told(id) > 0).then_some(()));
    home.next_daemon();
    until("every notice", || ids.iter().all(|id| told(id) > 0).then_some(()));
    until("every receipt", || {
        home.run(&["inbox", "--all", "--json"]).ended(0).json()["unconsumed"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
    each_once(&home, ids.iter().cloned());
    assert!(ids.iter().all(|id| told(id) <= 2), "again at most for what was on its way");
    assert_eq!(home.show(&parent)["status"], "running", "it was busy all the time");
    home.open("free");
    home.run(&["wait", &parent]).ended(0);
    let names: Vec<_> = ids.into_iter().collect();
    until("all processes to be gone", || home.survivors(&names).is_empty().then_some(()));
}
