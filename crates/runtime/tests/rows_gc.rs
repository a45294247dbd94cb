//! Rows of retention: what is released, what never is, and what readers of the journal are told. Each test is named by its
//! row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::PathBuf;

use subagent_model::request::{GcRequest, ListFilter, SpawnRequest};
use subagent_model::{Cursor, ErrorCode, Mode, Status, SubagentId};
use subagent_runtime::{Limits, Retention, Runtime};
use subagent_testkit::until_async;
use support::{World, child, me, scripted, shell, waiting, world, world_with};

const ALL: GcRequest = GcRequest { dry_run: false, older_than_ms: Some(0), records: false };

/// Longer than a preview: its whole is kept beside the record.
const LONG: &str = "head -c 100000 /dev/zero | tr '\\0' x";

fn attempts_of(world: &World, id: SubagentId) -> Vec<PathBuf> {
    let dir = world.dir.path().join("data/attempts");
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().contains(&id.to_string())).collect()
}

async fn read(world: &World, request: SpawnRequest) -> SubagentId {
    let id = world.engine.spawn(&me(), waiting(request)).await.unwrap().record.id;
    world.engine.ack(&me(), vec![id], false).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_06_a_dry_run_says_what_the_real_one_does() {
    let world = world(Limits::default()).await;
    let seen = read(&world, shell(LONG)).await;
    let unread = world.engine.spawn(&me(), waiting(shell(LONG))).await.unwrap().record.id;
    let stray = world.dir.path().join("data/attempts").join(format!("{}.1.1", subagent_id()));
    std::fs::create_dir(&stray).unwrap();
    let young = world.engine.gc(&me(), GcRequest::default()).await.unwrap();
    assert!(young.heavy.is_empty() && young.records.is_empty(), "{young:?}");
    let dry = world.engine.gc(&me(), GcRequest { dry_run: true, ..ALL }).await.unwrap();
    assert_eq!((dry.heavy.as_slice(), dry.records.len(), dry.unread), ([seen].as_slice(), 0, 1));
    assert!(dry.bytes >= 100_000 && dry.unknown.len() == 1, "{dry:?}");
    let whole = world.engine.result(&me(), seen, None, 0, 200_000).await.unwrap();
    assert_eq!((whole.text.len(), attempts_of(&world, seen).len()), (100_000, 1), "nothing was done");
    let real = world.engine.gc(&me(), ALL).await.unwrap();
    assert_eq!((real.heavy, real.bytes, real.unread, real.unknown), (dry.heavy, dry.bytes, 1, dry.unknown));
    // Heavy parts are gone, the record and its preview stay.
    assert!(attempts_of(&world, seen).is_empty());
    let record = world.engine.get(&me(), seen).await.unwrap();
    assert_eq!((record.status, record.result.unwrap().bytes), (Status::Completed, 100_000));
    let gone = world.engine.result(&me(), seen, None, 0, 10).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::NotFound);
    // What nobody has read is whole, and what no record knows is left alone.
    let whole = world.engine.result(&me(), unread, None, 0, 200_000).await.unwrap();
    assert_eq!((whole.text.len(), attempts_of(&world, unread).len(), stray.exists()), (100_000, 1, true));
    assert_eq!(world.engine.gc(&me(), ALL).await.unwrap().heavy, [], "a second time there is nothing to do");
}

/// An id that nobody has.
fn subagent_id() -> SubagentId {
    "01890000-0000-7000-8000-000000000000".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_06_records_go_when_that_is_asked_for_and_never_unread_ones() {
    let world = world(Limits::default()).await;
    let seen = read(&world, shell("echo seen")).await;
    let unread = world.engine.spawn(&me(), waiting(shell("echo unread"))).await.unwrap().record.id;
    // A parent stays while a record below it does.
    let parent = world.spawn(scripted("gate parent\nsay parent")).await;
    let request = SpawnRequest { mode: Mode::Async, ..scripted("say below") };
    let below = world.engine.spawn(&child(parent), request).await.unwrap().record.id;
    world.ended(below).await;
    world.fake.gate("parent").open();
    world.ended(parent).await;
    world.engine.ack(&me(), vec![parent], false).await.unwrap();
    // The parent was told of it, and that is the last change.
    until_async("the receipt", || async {
        world.engine.get(&me(), below).await.unwrap().consumed.then_some(())
    })
    .await;
    let reply = world.engine.gc(&me(), GcRequest { records: true, ..ALL }).await.unwrap();
    let mut records = reply.records.clone();
    records.sort_unstable();
    assert_eq!(records, [seen, parent, below], "{reply:?}");
    let place = |id| reply.records.iter().position(|other| *other == id);
    assert!(place(below) < place(parent), "children before their parents");
    for id in [seen, parent, below] {
        assert_eq!(world.engine.get(&me(), id).await.unwrap_err().code, ErrorCode::NotFound);
    }
    let page = world.engine.list(&me(), ListFilter::default()).await.unwrap();
    assert_eq!(page.items.iter().map(|record| record.id).collect::<Vec<_>>(), [unread]);
    assert_eq!(world.engine.result(&me(), unread, None, 0, 100).await.unwrap().text, "unread");
    let refusal = world.engine.gc(&child(unread), ALL).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NotYours);
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_06_a_sweep_touches_nothing_that_lives() {
    let world = world(Limits { running: 2, ..Limits::default() }).await;
    let fifo = world.dir.path().join("gate");
    let script = format!("echo before; mkfifo {0}; read line <{0}; echo $line", fifo.display());
    let process = world.spawn(shell(&script)).await;
    world.process(process).await;
    let idle = SpawnRequest { mode: Mode::Warm, ..scripted("say idle") };
    let idle = read(&world, idle).await;
    let works = world.spawn(scripted("gate works\nsay works")).await;
    world.fake.gate("works").reached().await;
    let queued = world.spawn(shell("echo queued")).await;
    assert_eq!(world.status(queued).await, Status::Queued);
    let before = world.all_events();
    for _ in 0..3 {
        let reply = world.engine.gc(&me(), GcRequest { records: true, ..ALL }).await.unwrap();
        assert!(reply.heavy.is_empty() && reply.records.is_empty(), "{reply:?}");
    }
    assert_eq!(world.all_events(), before);
    until_async("the gate", || async { fifo.exists().then_some(()) }).await;
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "after\n")).await.unwrap().unwrap();
    world.fake.gate("works").open();
    for (id, text) in [(process, "before\nafter"), (works, "works"), (queued, "queued")] {
        assert_eq!(world.ended(id).await.result.unwrap().preview, text);
    }
    assert_eq!(world.status(idle).await, Status::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn rec_06_whoever_reads_behind_a_pruned_journal_is_told_where_to_go_on() {
    let retention = Retention { events_ms: 0, ..Retention::default() };
    let world = world_with(Limits::default(), |config| config.retention = retention).await;
    let old = read(&world, scripted("say old")).await;
    let gone = world.engine.health().await.unwrap().cursor;
    let live = world.spawn(scripted("gate live\nsay live")).await;
    world.fake.gate("live").reached().await;
    let later = read(&world, scripted("say later")).await;
    world.engine.gc(&me(), GcRequest::default()).await.unwrap();
    let kept = world.all_events();
    assert_eq!(
        (kept[0].seq, kept[0].subagent),
        (Cursor(gone.0 + 1), live),
        "from the first that is still needed on"
    );
    assert!(kept.iter().any(|event| event.subagent == later), "the journal has no holes");
    assert_eq!(world.engine.get(&me(), old).await.unwrap().status, Status::Completed, "the record stays");
    let world = world.restarted(Limits::default(), async || ()).await;
    for after in [Cursor(0), Cursor(gone.0 - 1)] {
        let problem = world.engine.events(&me(), after, 10, None).await.unwrap_err();
        assert_eq!(
            (problem.code, problem.limit, problem.used),
            (ErrorCode::CursorGone, Some(after.0), Some(gone.0))
        );
        assert!(problem.message.contains(&format!("go on after {gone}")), "{}", problem.message);
    }
    let page = world.engine.events(&me(), gone, 1_000, None).await.unwrap();
    assert_eq!(page.items[0].seq.0, gone.0 + 1);
}
