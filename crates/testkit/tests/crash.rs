//! The daemon is killed at random points of many runs. Nothing is lost, nothing runs twice, nothing stays behind.
//!
//! `SUBAGENT_TEST_LONG=1` kills it at 200 runs; the usual length is a few rounds of the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use subagent_client::Client;
use subagent_model::request::{ListFilter, SpawnRequest};
use subagent_model::{ExecSpec, Mode, PromptVia, ResultFrom, Status, SubagentId};
use subagent_runtime::Runtime;
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, until, until_async};

const CONFIG: &str = "[limits]\nrunning = 8\nqueue = 1000\n[daemon]\nterm_grace_ms = 300\n";

/// A generator of a fixed sequence, so that a failure can be repeated (xorshift, Marsaglia 2003).
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn request(home: &Home, number: u64, millis: u64) -> SpawnRequest {
    let marks = home.path().join(format!("ran.{number}"));
    let script = format!("echo ran >> {}; sleep 0.{millis:03}; echo result {number}", marks.display());
    let exec = ExecSpec {
        program: String::from("/bin/sh"),
        args: vec![String::from("-c"), script],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: subagent_model::Talk::None,
    };
    SpawnRequest {
        provider: String::from("exec"),
        exec: Some(exec),
        mode: Mode::Async,
        cwd: Some(home.path().to_str().unwrap().into()),
        env: BTreeMap::from([(String::from("PATH"), String::from("/usr/bin:/bin"))]),
        idempotency_key: Some(format!("run-{number}")),
        durable: true,
        ..SpawnRequest::default()
    }
}

/// Asks again until the answer came: the key makes that safe.
async fn spawn(home: &Home, client: &Client, request: &SpawnRequest) -> SubagentId {
    until_async("a spawn to be answered", || async {
        let reply = client.spawn(&Home::caller(), request.clone()).await;
        if reply.is_err() {
            // Any command starts a daemon again.
            home.run(&["ls"]);
        }
        reply.ok().map(|reply| reply.record.id)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn result_09_no_kill_of_the_daemon_loses_or_doubles_a_run() {
    let long = std::env::var_os("SUBAGENT_TEST_LONG").is_some();
    let runs: u64 = if long { 200 } else { 32 };
    let seed =
        std::env::var("SUBAGENT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed_u64);
    let mut sequence = Sequence(seed);
    let home = Home::with_config(CONFIG);
    home.run(&["ls"]).ended(0);
    let client = home.client();
    let mut ids = Vec::new();
    let mut kills = 0;
    for number in 0..runs {
        let request = request(&home, number, sequence.next(200));
        ids.push(spawn(&home, &client, &request).await);
        if sequence.next(3) == 0 || long {
            tokio::time::sleep(Duration::from_micros(sequence.next(60_000))).await;
            if let Some(pid) = home.daemon_pid() {
                kill(pid, rustix::process::Signal::KILL);
                until("the daemon to be gone", || (!is_alive(pid)).then_some(()));
                kills += 1;
            }
            home.run(&["ls"]).ended(0);
        }
    }
    assert!(kills > 3, "the sequence must kill now and then");
    for (number, id) in ids.iter().enumerate() {
        let record = until_async("a run to end", || async {
            client.get(&Home::caller(), *id).await.ok().filter(|record| record.status.is_final())
        })
        .await;
        assert_eq!(record.status, Status::Completed, "seed {seed}: {record:#?}");
        assert_eq!(record.result.unwrap().preview, format!("result {number}"), "seed {seed}");
        let marks = std::fs::read_to_string(home.path().join(format!("ran.{number}"))).unwrap();
        assert_eq!(marks, "ran\n", "seed {seed}: run {number} ran more than once");
    }
    let live =
        client.list(&Home::caller(), ListFilter { live: true, ..ListFilter::default() }).await.unwrap();
    assert!(live.items.is_empty(), "stuck in a live status: {:?}", live.items);
    let inbox = client.inbox(&Home::caller(), 1_000, None).await.unwrap();
    assert_eq!(inbox.len(), ids.len(), "each end gives one notice, and keeps it until it is consumed");
    let names: Vec<_> = ids.iter().map(ToString::to_string).collect();
    until("all processes to be gone", || home.survivors(&names).is_empty().then_some(()));
}

#[test]
fn a_child_that_ended_while_no_daemon_was_there_has_its_true_exit_code_and_result() {
    let home = Home::with_config(CONFIG);
    let record = home.background(&["sh", "-c", "echo before; sleep 0.5; echo after; exit 7"]);
    let id = record["id"].as_str().unwrap();
    home.until_pid(id);
    home.kill_daemon();
    std::thread::sleep(Duration::from_millis(900));
    let record = home.show(id);
    assert_eq!(record["status"], "error", "{record:#}");
    assert_eq!(record["error"]["code"], "crashed");
    assert_eq!(record["attempts"][0]["exit"]["code"], 7);
    assert_eq!(record["result"]["preview"], "before\nafter\n");
    let health = home.run(&["status", "--json"]).ended(0).json();
    assert_eq!(health["recovery"]["settled"], 1, "{health:#}");
}

#[test]
fn a_running_child_is_adopted_streams_on_and_can_be_stopped() {
    let home = Home::with_config(CONFIG);
    let record =
        home.background(&["sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"]);
    let id = record["id"].as_str().unwrap();
    let pid = home.until_pid(id);
    home.kill_daemon();
    assert!(is_alive(pid), "a child outlives its daemon");
    let lines = || home.run(&["logs", id]).ended(0).out.lines().count();
    let before = lines();
    until("more output after the adoption", || (lines() > before).then_some(()));
    let health = home.run(&["status", "--json"]).ended(0).json();
    assert_eq!(health["recovery"]["adopted"], 1, "{health:#}");
    assert_eq!(home.show(id)["attempt"], 1, "adopted, not run again");
    home.run(&["stop", "--wait", id]).ended(0);
    assert!(!is_alive(pid));
    assert_eq!(home.show(id)["status"], "stopped");
}

#[test]
fn stop_23_a_stop_that_was_accepted_is_carried_out_by_the_next_daemon() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 60000\n");
    let record =
        home.background(&["sh", "-c", "trap 'touch asked' TERM; echo ready; while :; do sleep 0.05; done"]);
    let id = record["id"].as_str().unwrap();
    let pid = home.until_pid(id);
    until("the trap to be set", || home.run(&["logs", id]).out.contains("ready").then_some(()));
    home.run(&["stop", id]).ended(0);
    home.kill_daemon();
    std::fs::write(home.path().join("config.toml"), "[daemon]\nterm_grace_ms = 200\n").unwrap();
    let record = home.until_status(id, "stopped");
    assert!(!is_alive(pid), "{record:#}");
    assert_eq!(record["attempt"], 1);
}

#[test]
fn a_shim_that_is_killed_takes_nothing_but_its_own_child_along() {
    let home = Home::with_config(CONFIG);
    let victim = home.background(&["sh", "-c", "setsid sleep 300 & echo up; sleep 300"]);
    let other = home.background(&["sleep", "300"]);
    let (victim, other) = (victim["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    let pid = home.until_pid(victim);
    let other_pid = home.until_pid(other);
    until("the tree", || home.run(&["logs", victim]).out.contains("up").then_some(()));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let shim = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    kill(shim, rustix::process::Signal::KILL);
    let record = home.until_status(victim, "error");
    assert_eq!(record["error"]["code"], "shim_lost", "{record:#}");
    until("the whole tree to be gone", || home.survivors(&[victim.to_owned()]).is_empty().then_some(()));
    assert!(is_alive(other_pid));
    assert_eq!(home.show(other)["status"], "running");
}
