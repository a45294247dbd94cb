//! Measures the SQLite store on the disk of a directory: how long a commit takes beside a bare flush, and with
//! `--records N` how long reads take in a store of that many ended subagents.
//!
//! `cargo run --release -p subagent-store-sqlite --example commit_latency -- [--dir DIR] [--records N]`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measuring program: what it prints is its result, and a panic its error"
)]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use subagent_core::run::{Command, Subagent};
use subagent_model::{Cursor, EventKind, Outcome, Requester, Status, SubagentId, Timestamp};
use subagent_store::conformance::Samples;
use subagent_store::{ListFilter, Store, Transition};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut dir, mut records) = (std::env::temp_dir(), None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--dir" => dir = PathBuf::from(arguments.next().unwrap()),
            "--records" => records = Some(arguments.next().unwrap().parse().unwrap()),
            other => panic!("{other}?"),
        }
    }
    let dir = tempfile::Builder::new().prefix("commit-latency").tempdir_in(dir).unwrap();
    match records {
        Some(records) => reads(dir.path(), records),
        None => commits(dir.path()),
    }
}

fn commits(dir: &Path) {
    println!("resident before {} KiB", resident());
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "microseconds", "median", "mean", "p99", "max");
    floor(dir);
    for batch in [1, 16, 64] {
        steps(dir, batch);
    }
    lives(dir);
}

/// Bare flushes: what a commit cannot be faster than.
fn floor(dir: &Path) {
    let block = vec![7_u8; 3 * 4_120];
    let path = dir.join("floor");
    let mut grown = File::create(&path).unwrap();
    let growing = measure(1_000, |_| {
        grown.write_all(&block).unwrap();
        grown.sync_data().unwrap();
    });
    tell("fdatasync of 12 KiB, file grows", growing);
    let overwritten = measure(1_000, |round| {
        grown.write_all_at(&block, round * block.len() as u64).unwrap();
        grown.sync_data().unwrap();
    });
    tell("fdatasync of 12 KiB, overwritten", overwritten);
    let whole = measure(1_000, |round| {
        grown.write_all_at(&block, round * block.len() as u64).unwrap();
        grown.sync_all().unwrap();
    });
    tell("fsync of 12 KiB, overwritten", whole);
    std::fs::remove_file(path).unwrap();
}

/// Steps between live states: one state of 1 KiB and two events each.
fn steps(dir: &Path, batch: usize) {
    let file = dir.join(format!("steps-{batch}.sqlite"));
    let store = SqliteStore::open(&file, &options()).unwrap();
    let mut samples = Samples::default();
    let mut states: Vec<Arc<Subagent>> = Vec::new();
    let first = Instant::now();
    Samples::commit(&store, samples.birth());
    println!("    first commit after open {:?}, resident {} KiB", first.elapsed(), resident());
    for _ in 0..256 {
        let born = Samples::commit(&store, samples.birth());
        let claimed = samples.run(&store, &born, &Samples::claim());
        let attempt = claimed.last_attempt;
        states.push(samples.run(&store, &claimed, &Command::Started { attempt, process: None }));
    }
    let size = serde_json::to_vec(&*states[0]).unwrap().len();
    let mut next = 0;
    let mut lease = 1;
    let rounds = (8_000 / batch as u64).min(4_000);
    let times = measure_split(rounds, |clock| {
        let steps: Vec<Transition> = (0..batch)
            .map(|_| {
                let which = next % states.len();
                next += 1;
                lease += 1;
                let attempt = states[which].last_attempt;
                let facts = vec![
                    EventKind::Progress {
                        attempt,
                        turns: 1,
                        tool_uses: 1,
                        compactions: 0,
                        usage: None,
                        position: None,
                    },
                    EventKind::Renewed { attempt, lease_until: Timestamp::from_micros(lease) },
                ];
                let step = Transition::step(&states[which], facts, samples.now()).unwrap();
                states[which] = Arc::clone(&step.state);
                step
            })
            .collect();
        clock(&mut || {
            store.commit(&steps).unwrap();
        });
    });
    tell(&format!("commit of {batch} (state {size} B, 2 events each)"), times);
    let wal = std::fs::metadata(dir.join(format!("steps-{batch}.sqlite-wal"))).unwrap().len();
    println!("    log {} KiB, resident {} KiB", wal / 1024, resident());
    let closing = Instant::now();
    drop(store);
    println!("    close {:?}", closing.elapsed());
}

/// Whole lives, one step per commit: births, ends and acknowledgements touch indices.
fn lives(dir: &Path) {
    let store = SqliteStore::open(dir.join("lives.sqlite"), &options()).unwrap();
    let mut samples = Samples::default();
    let mut kinds: [(&str, Vec<Duration>); 5] =
        ["birth (2 events)", "claim", "start", "end", "acknowledgement"].map(|name| (name, Vec::new()));
    for _ in 0..1_000 {
        let mut step = samples.birth();
        for (place, (_, times)) in kinds.iter_mut().enumerate() {
            let start = Instant::now();
            store.commit(std::slice::from_ref(&step)).unwrap();
            times.push(start.elapsed());
            let state = &step.state;
            let attempt = state.last_attempt;
            step = match place {
                0 => samples.step(state, &Samples::claim()),
                1 => samples.step(state, &Command::Started { attempt, process: None }),
                2 => samples.step(state, &Samples::conclude(attempt, Outcome::Completed, &"x".repeat(300))),
                3 => samples.step(state, &Samples::receipt(state)),
                _ => step,
            };
        }
    }
    for (name, times) in kinds {
        tell(&format!("commit of 1: {name}"), times);
    }
}

fn reads(dir: &Path, records: u64) {
    let file = dir.join("reads.sqlite");
    let store = SqliteStore::open(&file, &options()).unwrap();
    let mut samples = Samples::default();
    let start = Instant::now();
    let mut handles = Vec::new();
    let you = Requester::from("subagent:rare");
    for round in 0..records.div_ceil(200) {
        let mut batch = Vec::new();
        for number in 0..200 {
            let rare = round == 0 && number < 50;
            let born = samples.birth_with(|birth| {
                if rare {
                    birth.requester = you.clone();
                }
            });
            let claim = samples.step(&born.state, &Samples::claim());
            let attempt = claim.state.last_attempt;
            let outcome = if rare { Samples::failure() } else { Outcome::Completed };
            let end = samples.step(&claim.state, &Samples::conclude(attempt, outcome, &"x".repeat(300)));
            let done = samples.step(&end.state, &Samples::receipt(&end.state));
            handles.push((born.state.id, born.state.handle.clone()));
            batch.extend([born, claim, end, done]);
        }
        store.commit(&batch).unwrap();
    }
    println!("{records} ended records made in {:?}", start.elapsed());
    drop(store);
    println!("file {} MiB", std::fs::metadata(&file).unwrap().len() >> 20);
    let start = Instant::now();
    let store = SqliteStore::open(&file, &options()).unwrap();
    let opened = start.elapsed();
    assert!(store.live().unwrap().items.is_empty());
    println!("open {opened:?}, open + live {:?}, resident {} KiB", start.elapsed(), resident());
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "microseconds", "median", "mean", "p99", "max");
    let len = handles.len() as u64;
    let some = |round: u64| usize::try_from(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % len).unwrap();
    let ask = |name: &str, query: &mut dyn FnMut(u64)| tell(name, measure(200, query));
    ask("get", &mut |round| drop(store.get(handles[some(round)].0).unwrap().unwrap()));
    ask("resolve a handle", &mut |round| drop(store.resolve(handles[some(round)].1.as_str()).unwrap()));
    ask("resolve a beginning", &mut |round| {
        drop(store.resolve(&handles[some(round)].1.as_str()[..4]).unwrap());
    });
    ask("resolve the beginning of an id", &mut |round| {
        drop(store.resolve(&handles[some(round)].0.to_string()[..12]).unwrap());
    });
    let page = |filter: ListFilter| store.list(&filter).unwrap().items.len();
    let before = |round: u64| -> Option<SubagentId> { Some(handles[some(round)].0) };
    ask("list 50, newest", &mut |_| assert_eq!(page(ListFilter::default()), 50));
    ask("list 50, anywhere", &mut |round| {
        page(ListFilter { before: before(round), ..ListFilter::default() });
    });
    ask("list 50, the only errors, oldest", &mut |_| {
        assert_eq!(page(ListFilter { status: vec![Status::Error], ..ListFilter::default() }), 50);
    });
    ask("list 50, rare requester", &mut |_| {
        assert_eq!(page(ListFilter { requester: Some(you.0.clone()), ..ListFilter::default() }), 50);
    });
    ask("list 50, rare requester and status", &mut |_| {
        let status = vec![Status::Error, Status::Stopped];
        page(ListFilter { requester: Some(you.0.clone()), status, ..ListFilter::default() });
    });
    ask("list 50, status and requester never meet", &mut |_| {
        let status = vec![Status::Completed];
        assert_eq!(page(ListFilter { requester: Some(you.0.clone()), status, ..ListFilter::default() }), 0);
    });
    ask("list live", &mut |_| assert_eq!(page(ListFilter { live: true, ..ListFilter::default() }), 0));
    ask("live", &mut |_| drop(store.live().unwrap()));
    ask("owed_count", &mut |_| assert_eq!(store.owed_count(None).unwrap(), 0));
    ask("events, 100 anywhere", &mut |round| {
        drop(store.events(Cursor(some(round) as u64), 100).unwrap());
    });
    println!("resident {} KiB", resident());
}

/// `PAGES` sets when the log is moved into the database.
fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    if let Some(pages) = std::env::var("PAGES").ok().and_then(|pages| pages.parse().ok()) {
        options.checkpoint_pages = pages;
    }
    options
}

fn measure(rounds: u64, mut step: impl FnMut(u64)) -> Vec<Duration> {
    (0..rounds)
        .map(|round| {
            let start = Instant::now();
            step(round);
            start.elapsed()
        })
        .collect()
}

/// Like [`measure`], of the part of a round that is given to the clock.
fn measure_split(rounds: u64, mut round: impl FnMut(&mut dyn FnMut(&mut dyn FnMut()))) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        round(&mut |part| {
            let start = Instant::now();
            part();
            times.push(start.elapsed());
        });
    }
    times
}

fn tell(name: &str, mut times: Vec<Duration>) {
    let micros = |time: Duration| time.as_nanos() as f64 / 1_000.0;
    let mean = micros(times.iter().sum::<Duration>()) / times.len() as f64;
    times.sort_unstable();
    let at = |share: usize| micros(times[(times.len() * share / 1_000).min(times.len() - 1)]);
    println!("{name:<44} {:>9.0} {mean:>9.0} {:>9.0} {:>9.0}", at(500), at(990), at(1_000));
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4
}
