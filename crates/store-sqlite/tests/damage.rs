//! Damage: rows that cannot be read, and files that are no store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use common::Temp;
use subagent_model::{Cursor, Outcome};
use subagent_store::conformance::Samples;
use subagent_store::{ListFilter, OwedRun, Resolved, Store, StoreError, audit};
use subagent_store_sqlite::{FILE_NAME, OpenOptions, SqliteStore};

#[test]
fn daemon_08_a_damaged_record_is_set_aside_and_the_rest_is_served() {
    let mut store = Temp::new();
    let mut samples = Samples::default();
    let states: Vec<_> = (0..6).map(|_| Samples::commit(&*store, samples.birth())).collect();
    let ended: Vec<_> =
        states[3..].iter().map(|state| samples.end(&*store, state, Outcome::Completed)).collect();
    store.reopen_after(|connection| {
        let damage = [
            ("UPDATE subagent SET state = '{\"half' WHERE id = ?1", &states[0]),
            (
                "UPDATE subagent SET state = (SELECT state FROM subagent WHERE id <> ?1) WHERE id = ?1",
                &states[1],
            ),
            ("UPDATE subagent SET revision = revision + 1 WHERE id = ?1", &states[3]),
        ];
        for (sql, state) in damage {
            assert_eq!(connection.execute(sql, [state.id.as_uuid().into_bytes()]).unwrap(), 1);
        }
        assert_eq!(
            connection.execute("UPDATE event SET kind = '{}' WHERE seq BETWEEN 3 AND 8", []).unwrap(),
            6
        );
    });
    assert_eq!(store.damaged().unwrap(), vec![], "nothing was read yet");
    // Counted by the index, until it is known that nobody can deliver it.
    assert_eq!(store.owed_count(None).unwrap(), 3);
    for _ in 0..3 {
        let live = store.live().unwrap();
        assert_eq!(live.items, vec![states[2].clone()]);
        assert_eq!(live.damaged.len(), 2);
        let page = store.list(&ListFilter::default()).unwrap();
        assert_eq!(page.items, vec![ended[2].clone(), ended[1].clone(), states[2].clone()]);
        assert_eq!(page.damaged.len(), 3);
        assert_eq!(store.owed(None, None, 1).unwrap(), OwedRun::of(&ended[1]));
        assert_eq!(
            store.owed(None, None, 10).unwrap(),
            ended[1..].iter().flat_map(OwedRun::of).collect::<Vec<_>>()
        );
        assert_eq!(store.owed_count(None).unwrap(), 2);
        assert_eq!(store.owed_count(Some(&states[0].requester)).unwrap(), 2);
    }
    // Pages of one: each row is told once, damaged or not, and the walk ends.
    let (mut filter, mut items, mut damaged) = (ListFilter { limit: Some(1), ..ListFilter::default() }, 0, 0);
    loop {
        let page = store.list(&filter).unwrap();
        items += page.items.len();
        damaged += page.damaged.len();
        assert_eq!(page.items.len() + page.damaged.len(), 1);
        let Some(next) = page.next else { break };
        filter.before = Some(next);
    }
    assert_eq!((items, damaged), (3, 3));
    // It still has a name, and is told for what it is.
    let error = store.get(states[0].id).unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { id, .. } if *id == states[0].id.to_string()), "{error}");
    assert_eq!(error.code(), subagent_model::ErrorCode::DamagedRecord);
    assert_eq!(store.resolve(states[0].handle.as_str()).unwrap(), Resolved::One(states[0].id));
    // Events go on behind a whole page of damaged ones.
    let events = store.events(Cursor(2), 3).unwrap();
    assert_eq!(events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), vec![9, 10, 11]);
    let known = store.damaged().unwrap();
    assert_eq!(known.len(), 3 + 6, "{known:?}");
    assert!(known.iter().any(|row| row.id == "event 3") && known.iter().all(|row| !row.reason.is_empty()));
    let problems = audit(&*store).unwrap().problems;
    assert!(problems.len() > 9 && known.iter().all(|row| problems.contains(row)), "{problems:?}");
    // Writing goes on.
    samples.run(&*store, &states[2], &Samples::claim());
}

#[test]
fn rec_10_a_damaged_member_leaves_the_rest_of_its_tree() {
    let mut store = Temp::new();
    let mut samples = Samples::default();
    let root = Samples::commit(&*store, samples.birth());
    let (one, two) = (samples.child(&root), samples.child(&root));
    let (one, two) = (Samples::commit(&*store, one), Samples::commit(&*store, two));
    let ended = samples.end(&*store, &one, Outcome::Completed);
    samples.acknowledge(&*store, &ended);
    store.reopen_after(|connection| {
        let sql = "UPDATE subagent SET state = '{\"half' WHERE id = ?1";
        assert_eq!(connection.execute(sql, [one.id.as_uuid().into_bytes()]).unwrap(), 1);
        connection.execute("UPDATE event SET kind = '{}' WHERE seq = 2", []).unwrap();
    });
    assert_eq!(store.tree(root.id).unwrap(), vec![root.clone(), two.clone()]);
    let page = store.list(&ListFilter { root: Some(root.id), ..ListFilter::default() }).unwrap();
    assert_eq!((page.items, page.damaged.len()), (vec![two.clone(), root.clone()], 1));
    assert_eq!(store.children(root.id).unwrap(), vec![one.id, two.id]);
    assert_eq!(store.events(Cursor(0), 2).unwrap().len(), 2);
    assert_eq!(store.damaged().unwrap().len(), 2);
    // Retention goes by the columns: it can be released like any other that is over.
    let summaries = store.summaries(None, 10).unwrap();
    assert_eq!(
        summaries.iter().map(|of| (of.id, of.unread)).collect::<Vec<_>>(),
        [(root.id, false), (one.id, false), (two.id, false)]
    );
    assert_eq!(store.delete(&[one.id]).unwrap(), 1);
    assert_eq!(store.damaged().unwrap().iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["event 2"]);
    // What is gone from the journal is no damage any more.
    let root = samples.end(&*store, &root, Outcome::Completed);
    samples.acknowledge(&*store, &root);
    assert_eq!(store.prune_events(Cursor(3)).unwrap(), 2);
    assert_eq!(store.damaged().unwrap(), vec![]);
}

#[test]
fn daemon_08_a_record_that_differs_from_its_events_is_found_by_an_audit() {
    let mut store = Temp::new();
    let mut samples = Samples::default();
    let state = Samples::commit(&*store, samples.birth());
    Samples::commit(&*store, samples.birth());
    store.reopen_after(|connection| {
        connection
            .execute("UPDATE subagent SET state = json_set(state, '$.depth', 7) WHERE n = 1", [])
            .unwrap();
    });
    let problems = audit(&*store).unwrap().problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].id, state.id.to_string());
}

fn refused(path: &Path) -> String {
    let error = SqliteStore::open(path, &OpenOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    let told = error.to_string();
    assert!(told.contains(&path.display().to_string()), "the file is named: {told}");
    assert!(told.contains("move") || told.contains("choose"), "what to do is told: {told}");
    told
}

#[test]
fn daemon_08_a_file_that_is_no_store_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    let text = "a list of things to do\n".repeat(400);
    std::fs::write(&path, &text).unwrap();
    assert!(refused(&path).contains("not a database"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let path = dir.path().join("other.sqlite");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE photo (x)").unwrap();
    assert!(refused(&path).contains("another program"));
}

#[test]
fn daemon_08_a_corrupt_file_is_named() {
    let store = Temp::new();
    let mut samples = Samples::default();
    for _ in 0..50 {
        Samples::commit(&*store, samples.birth());
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let copy: String = path.display().to_string();
    rusqlite::Connection::open(store.file()).unwrap().execute("VACUUM INTO ?1", [copy]).unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(100)).unwrap();
    file.write_all(&[0xa5; 3_000]).unwrap();
    drop(file);
    refused(&path);
    // Half of it.
    let path = dir.path().join("half.sqlite");
    let copy: String = path.display().to_string();
    rusqlite::Connection::open(store.file()).unwrap().execute("VACUUM INTO ?1", [copy]).unwrap();
    let len = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len / 2).unwrap();
    let half = SqliteStore::open(&path, &OpenOptions::default());
    let error = half.map_or_else(|error| error, |store| store.list(&ListFilter::default()).unwrap_err());
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
}

#[test]
fn daemon_07_a_directory_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such/store.sqlite");
    let error = SqliteStore::open(&path, &OpenOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }) && error.to_string().contains("no/such"), "{error}");
    let options = OpenOptions { create: false, ..OpenOptions::default() };
    let error = SqliteStore::open(dir.path(), &options).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }) && error.to_string().contains(FILE_NAME), "{error}");
    assert!(!dir.path().join(FILE_NAME).exists());
}
