//! Stores of other versions: older ones open for ever, newer ones are read and never written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::Temp;
use subagent_model::{Cursor, NodeId, Requester, RunNumber, Status};
use subagent_store::conformance::Samples;
use subagent_store::{
    ContentKind, IdempotencyKey, ListFilter, Resolved, Store, StoreError, StoreMode, audit, filter,
};
use subagent_store_sqlite::{FORMAT, OpenOptions, SqliteStore};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/store").join(name)
}

/// A copy of a fixture in a directory of its own.
fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.sqlite");
    std::fs::copy(fixture(name), &path).unwrap();
    (dir, path)
}

#[test]
fn daemon_04_format_1_loads_for_ever() {
    loads("v1.sqlite", 98, 16);
}

#[test]
fn daemon_04_format_2_loads_for_ever() {
    loads("v2.sqlite", 105, 18);
}

/// Every fixture holds the same lives, and is led to the present format.
fn loads(name: &str, events: u64, kinds: usize) {
    let (_dir, path) = copy(name);
    let store = SqliteStore::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(store.mode(), StoreMode::ReadWrite);
    assert_eq!(store.node(), NodeId::from("node-fixture"));
    assert_eq!(store.check_file().unwrap(), Vec::<String>::new());
    // The events fold to the states, value for value.
    let seen = audit(&store).unwrap();
    assert_eq!(seen.problems, vec![]);
    assert_eq!((seen.records, seen.events, seen.pruned), (18, events, 0));
    let all = store.list(&ListFilter { limit: Some(1_000), ..ListFilter::default() }).unwrap().items;
    let statuses: BTreeSet<Status> = all.iter().map(|state| state.status()).collect();
    let every: BTreeSet<Status> = Status::ALL.into_iter().filter(|status| *status != Status::Idle).collect();
    assert_eq!(statuses, every);
    let named: BTreeSet<&str> =
        store.events(Cursor(0), 1_000).unwrap().iter().map(|event| event.kind.name()).collect();
    assert_eq!(named.len(), kinds, "{named:?}");
    let live = store.live().unwrap();
    assert_eq!((live.items.len(), live.damaged.len()), (10, 0));
    assert_eq!(store.owed_count(None).unwrap(), 8);
    // An unread result of an earlier run, addressed to whoever asked for that run.
    let theirs = store.owed(Some(&Requester::from("someone else")), None, 10).unwrap();
    assert_eq!(
        theirs.iter().map(|owed| (owed.run, owed.state.run.number)).collect::<Vec<_>>(),
        [(RunNumber(2), RunNumber(3))]
    );
    let key = IdempotencyKey { requester: Requester::from("user:1000"), key: String::from("only once") };
    let resumed = store.get(store.by_idempotency_key(&key).unwrap().unwrap()).unwrap().unwrap();
    assert_eq!((resumed.run.number, resumed.earlier.len()), (RunNumber(2), 1));
    let long = &all[0];
    assert!(long.spec.prompt.truncated);
    let whole = store.content(long.id, RunNumber(1), ContentKind::Prompt, 0, 10_000).unwrap().unwrap();
    assert_eq!((whole.total, whole.bytes.len() as u64), (long.spec.prompt.bytes, long.spec.prompt.bytes));
    assert_eq!(store.resolve(all[3].handle.as_str()).unwrap(), Resolved::One(all[3].id));
    let root = all.last().unwrap().id;
    assert_eq!(store.tree_total(root).unwrap(), 3);
    assert_eq!(store.tree(root).unwrap().len(), 3);
    // The columns of newer formats say what the states say.
    assert_eq!(format_of(&path), FORMAT);
    assert_eq!(store.first_event().unwrap(), Cursor(1));
    let summaries = store.summaries(None, 100).unwrap();
    assert_eq!(summaries.len(), all.len());
    for (summary, state) in summaries.iter().zip(all.iter().rev()) {
        assert_eq!((summary.id, summary.updated_at), (state.id, state.updated_at));
        assert_eq!(
            (summary.parent, summary.root, summary.unread),
            (state.parent, state.root, state.is_owed())
        );
        assert_eq!(summary.ended_at, filter::ended_at(state));
    }
    // And it goes on from there.
    let mut samples = Samples::starting_at(500);
    let born = Samples::commit(&store, samples.birth());
    samples.run(&store, &born, &Samples::claim());
    assert_eq!(store.head().unwrap(), Cursor(events + 3));
}

#[test]
fn daemon_08_a_damaged_row_of_an_older_format_does_not_keep_the_store_shut() {
    let (_dir, path) = copy("v1.sqlite");
    let damage = [
        "UPDATE subagent SET state = '{\"half' WHERE n = 1",
        "UPDATE subagent SET state = json_set(state, '$.updated_at', 'soon') WHERE n = 2",
        "UPDATE subagent SET state = json_set(state, '$.updated_at', json('[7]')) WHERE n = 3",
        "UPDATE subagent SET state = '7' WHERE live = 0",
    ];
    rusqlite::Connection::open(&path).unwrap().execute_batch(&damage.join("; ")).unwrap();
    let store = SqliteStore::open(&path, &OpenOptions::default()).unwrap();
    let summaries = store.summaries(None, 100).unwrap();
    assert_eq!(summaries.len(), 18);
    let ended: Vec<_> = summaries.iter().filter(|summary| summary.ended_at.is_some()).collect();
    assert_eq!(ended.len(), 8);
    assert!(ended.iter().all(|summary| Some(summary.updated_at) == summary.ended_at));
    assert_eq!(store.list(&ListFilter::default()).unwrap().damaged.len(), 3 + ended.len());
}

fn format_of(path: &Path) -> u32 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn daemon_04_a_newer_store_is_read_and_never_written() {
    let mut store = Temp::new();
    let mut samples = Samples::default();
    let born = Samples::commit(&*store, samples.birth());
    let unknown = Samples::commit(&*store, samples.birth());
    store.reopen_after(|connection| {
        connection
            .execute_batch(
                "ALTER TABLE subagent ADD COLUMN mood TEXT; CREATE TABLE later (x INTEGER);
                 UPDATE subagent SET state = json_set(state, '$.mood', 'new', '$.run.mood', 'new')
                 WHERE n = 1; PRAGMA user_version = 7",
            )
            .unwrap();
        let sql = "UPDATE subagent SET state = json_set(state, '$.run.phase.phase', 'dreaming') WHERE n = 2";
        connection.execute(sql, []).unwrap();
    });
    let before = std::fs::read(store.file()).unwrap();
    let StoreMode::ReadOnly { reason } = store.mode() else { panic!("it is newer") };
    assert!(reason.contains("format 7") && reason.contains(&format!("up to {FORMAT}")), "{reason}");
    // Reads serve; what this version does not know is passed over, or set aside where it matters.
    assert_eq!(store.get(born.id).unwrap(), Some(born.clone()));
    let page = store.list(&ListFilter::default()).unwrap();
    assert_eq!((page.items, page.damaged.len()), (vec![born.clone()], 1));
    assert_eq!(store.live().unwrap().items, vec![born.clone()]);
    assert_eq!(store.events(Cursor(0), 10).unwrap().len(), 4);
    assert!(matches!(store.get(unknown.id).unwrap_err(), StoreError::Damaged { .. }));
    // Nothing is written, not even by closing it.
    let too_new = StoreError::TooNew { found: 7, ours: FORMAT };
    assert_eq!(store.commit(&[samples.step(&born, &Samples::claim())]).unwrap_err(), too_new);
    assert_eq!(store.delete(&[born.id]).unwrap_err(), too_new);
    assert_eq!(store.release_content(&[born.id]).unwrap_err(), too_new);
    assert_eq!(store.prune_events(Cursor(9)).unwrap_err(), too_new);
    assert_eq!(too_new.code(), subagent_model::ErrorCode::StoreTooNew);
    let file = store.file();
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // One that took away what is read here says so, too.
    store.reopen_after(|connection| {
        connection.execute("ALTER TABLE event RENAME TO happening", []).unwrap();
    });
    assert_eq!(store.events(Cursor(0), 10).unwrap_err(), too_new);
    assert_eq!(store.live().unwrap().items, vec![born]);
}

#[test]
fn a_node_keeps_its_identity() {
    let mut store = Temp::new();
    let node = store.node();
    assert!(node.as_str().starts_with("node-"));
    store.reopen_after(|_| {});
    assert_eq!(store.node(), node);
    assert_ne!(Temp::new().node(), node);
}
