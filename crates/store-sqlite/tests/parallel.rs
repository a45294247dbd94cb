//! Readers and the writer side by side.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::Temp;
use subagent_core::run::Command;
use subagent_model::Cursor;
use subagent_store::conformance::Samples;
use subagent_store::{Content, ContentKind, ListFilter, Store, StoreError};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

/// Descriptors of this process on the files of a store.
#[cfg(target_os = "linux")]
fn descriptors(store: &Path) -> usize {
    let store = store.canonicalize().unwrap();
    let prefix = store.to_str().unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_str().is_some_and(|target| target.starts_with(prefix))).count()
}

#[cfg(target_os = "linux")]
#[test]
fn daemon_17_many_readers_share_few_descriptors() {
    let store = Temp::new();
    let mut samples = Samples::default();
    let born: Vec<_> = (0..50).map(|_| Samples::commit(&*store, samples.birth()).id).collect();
    let most = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| {
                    for id in &born {
                        assert!(store.get(*id).unwrap().is_some());
                        assert_eq!(store.list(&ListFilter::default()).unwrap().items.len(), 50);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(descriptors(&store.file()), Ordering::Relaxed);
            }
        });
        for reader in readers {
            reader.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    // Two files for each of eight readers, the writer and the checkpointer, the shared index of the log, and what SQLite
    // keeps of closed ones for the next connection: far from two for each of the 32 threads.
    let most = most.into_inner();
    assert!((5..=32).contains(&most), "{most} descriptors");
    let idle = descriptors(&store.file());
    assert!(idle <= 32, "{idle} descriptors without any reader");
}

#[test]
fn daemon_11_readers_do_not_wait_for_a_writer() {
    let store = Temp::with(&OpenOptions { patience: Duration::from_millis(50), ..OpenOptions::default() });
    let mut samples = Samples::default();
    let born = Samples::commit(&*store, samples.birth());
    // Another process is in the middle of a write.
    let other = rusqlite::Connection::open(store.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE subagent SET revision = 99").unwrap();
    assert_eq!(store.get(born.id).unwrap(), Some(born.clone()));
    assert_eq!(store.live().unwrap().items, vec![born.clone()]);
    let error = store.commit(&[samples.birth()]).unwrap_err();
    assert!(matches!(error, StoreError::Backend { .. }) && error.may_pass(), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    Samples::commit(&*store, samples.birth());
    assert_eq!(store.head().unwrap(), Cursor(4));
}

#[test]
fn the_log_starts_anew_and_stays_short() {
    let store = Temp::with(&OpenOptions { checkpoint_pages: 50, ..OpenOptions::default() });
    let log = store.file().with_extension("sqlite-wal");
    let size = || std::fs::metadata(&log).unwrap().len();
    let mut samples = Samples::default();
    let mut state = Samples::commit(&*store, samples.birth());
    state = samples.run(&*store, &state, &Samples::claim());
    let text: Arc<str> = "x".repeat(60_000).into();
    let mut turns = |count: usize| {
        for _ in 0..count {
            let turn = Command::Progress {
                attempt: state.last_attempt,
                turns: 1,
                more: false,
                tool_uses: 0,
                compactions: 0,
                usage: None,
                position: None,
            };
            let text = Content { run: state.run.number, kind: ContentKind::Result, text: Arc::clone(&text) };
            state = Samples::commit(&*store, samples.step(&state, &turn).with_content(text));
        }
    };
    // All of it would be 10 MiB.
    turns(150);
    let short = size();
    assert!(short < 6 << 20, "{short} bytes");
    // A reader that keeps old pages lets the log grow; commits go on meanwhile, and it stops growing afterwards.
    let other = rusqlite::Connection::open(store.file()).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM event").unwrap();
    turns(150);
    assert!(size() > 9 << 20, "{} bytes while a reader holds on", size());
    other.execute_batch("COMMIT").unwrap();
    turns(100);
    let after = size();
    turns(150);
    assert!(size() < after + (2 << 20), "{} bytes after {after}", size());
}

#[test]
fn a_second_process_may_read_while_the_first_writes() {
    let store = Temp::new();
    let mut samples = Samples::default();
    let born = Samples::commit(&*store, samples.birth());
    let other = SqliteStore::open(store.file(), &OpenOptions::default()).unwrap();
    assert_eq!(other.node(), store.node());
    assert_eq!(other.get(born.id).unwrap(), Some(born.clone()));
    let claimed = samples.run(&*store, &born, &Samples::claim());
    assert_eq!(other.get(born.id).unwrap(), Some(claimed));
    // And if it writes after all, its numbers go on from ours.
    let stale = samples.step(&born, &Samples::claim());
    assert!(matches!(other.commit(&[stale]).unwrap_err(), StoreError::Conflict { .. }));
    assert_eq!(other.commit(&[samples.birth()]).unwrap().first, Cursor(4));
    assert_eq!(store.commit(&[samples.birth()]).unwrap().first, Cursor(6));
}
