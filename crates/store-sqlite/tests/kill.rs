//! A writer that is killed in the middle of its work: no step that it was told to be committed is missing, and none is
//! there in part.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use subagent_model::{Outcome, SubagentId};
use subagent_store::conformance::Samples;
use subagent_store::{ListFilter, Store, audit};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

const DIRECTORY: &str = "SUBAGENT_STORE_TEST_DIR";
const ROUND: &str = "SUBAGENT_STORE_TEST_ROUND";

/// Small, so that checkpoints are hit too.
fn options() -> OpenOptions {
    OpenOptions { checkpoint_pages: 100, ..OpenOptions::default() }
}

/// Not a test by itself: the process that is killed by the one below, which gives it a directory. Pairs live their lives in step; each commit is told once it is durable.
#[test]
fn the_writer_that_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let store = SqliteStore::open(directory, &options()).unwrap();
    let mut samples = Samples::starting_at(round * 1_000_000);
    let mut out = std::io::stdout();
    loop {
        let mut pair = [samples.birth(), samples.birth()];
        for step in 0..5 {
            let committed = store.commit(&pair).unwrap();
            for one in &pair {
                writeln!(out, "ack {} {} {}", one.state.id, one.state.revision, committed.last).unwrap();
            }
            out.flush().unwrap();
            pair = pair.map(|done| {
                let state = &done.state;
                let attempt = state.last_attempt;
                match step {
                    0 => samples.step(state, &Samples::claim()),
                    1 => {
                        let started = subagent_core::run::Command::Started { attempt, process: None };
                        samples.step(state, &started)
                    }
                    2 => samples.step(state, &Samples::conclude(attempt, Outcome::Completed, "done")),
                    3 => samples.step(state, &Samples::receipt(state)),
                    _ => done,
                }
            });
        }
    }
}

#[test]
fn daemon_16_a_killed_writer_loses_no_acknowledged_step() {
    let rounds = if std::env::var("SUBAGENT_TEST_LONG").is_ok_and(|long| long == "1") { 25 } else { 5 };
    let dir = tempfile::tempdir().unwrap();
    let mut acks: BTreeMap<SubagentId, u64> = BTreeMap::new();
    let mut last = 0;
    for round in 1..=rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_writer_that_is_killed", "--nocapture"])
            .env(DIRECTORY, dir.path())
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (first, begun) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok).inspect(|line| {
                if line.starts_with("ack ") {
                    // Nobody listens any more after the first.
                    let _ = first.send(());
                }
            });
            lines.collect::<Vec<_>>()
        });
        begun.recv_timeout(Duration::from_mins(1)).expect("the writer commits something");
        let chance = RandomState::new().build_hasher().finish();
        std::thread::sleep(Duration::from_micros(chance % 200_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let lines = reader.join().unwrap();
        for line in lines.iter().filter(|line| line.starts_with("ack ")) {
            let words: Vec<&str> = line.split(' ').collect();
            // The last line may have been cut.
            let [_, id, revision, seq] = words.as_slice() else { continue };
            let (Ok(id), Ok(revision), Ok(seq)) = (id.parse(), revision.parse(), seq.parse::<u64>()) else {
                continue;
            };
            acks.insert(id, revision);
            // Two numbers may have been cut to one that is lower: never to one that is higher.
            last = last.max(seq);
        }
        let store = SqliteStore::open(dir.path(), &options()).unwrap();
        assert!(store.head().unwrap().0 >= last, "round {round}: acknowledged events are missing");
        for (id, revision) in &acks {
            let state = store.get(*id).unwrap().unwrap_or_else(|| panic!("round {round}: {id} is missing"));
            assert!(state.revision >= *revision, "round {round}: {id} fell behind");
        }
        let seen = audit(&store).unwrap();
        assert_eq!(seen.problems, vec![], "round {round}");
        assert_eq!(seen.events, store.head().unwrap().0, "round {round}: the numbers have gaps");
        assert_eq!(store.check_file().unwrap(), Vec::<String>::new(), "round {round}");
        // Those who are born in one batch are always at the same revision.
        let mut filter = ListFilter { limit: Some(1_000), ..ListFilter::default() };
        loop {
            let page = store.list(&filter).unwrap();
            for pair in page.items.chunks(2) {
                assert_eq!(pair.len(), 2);
                assert_eq!(pair[0].revision, pair[1].revision, "round {round}: a torn batch");
            }
            let Some(next) = page.next else { break };
            filter.before = Some(next);
        }
        println!("round {round}: {} acknowledged subagents, {} events", acks.len(), seen.events);
    }
    assert!(acks.len() as u64 >= 2 * rounds);
}
