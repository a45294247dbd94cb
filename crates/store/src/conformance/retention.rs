//! What may be released, and the oldest part of the journal.

use std::ops::Deref;
use std::sync::Arc;

use subagent_core::retention::{JournalCut, Policy, sweep};
use subagent_core::run::{Command, Left, Subagent};
use subagent_model::{Cause, Cursor, Mode, Outcome, Requester, RunNumber, Status, Timestamp};

use super::Samples;
use crate::{Content, ContentKind, ListFilter, Store, StoredSummary, audit, filter, journal};

fn text(run: u32, kind: ContentKind, text: &str) -> Content {
    Content { run: RunNumber(run), kind, text: text.into() }
}

/// What the states say, page by page, through all of a life.
pub fn what_is_kept_is_summed_up<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let expected = |state: &Subagent, bytes: u64| StoredSummary {
        id: state.id,
        parent: state.parent,
        root: state.root,
        ended_at: filter::ended_at(state),
        unread: state.is_owed(),
        bytes,
        updated_at: state.updated_at,
    };
    let all = |limit| {
        let mut found = Vec::new();
        loop {
            let page = store.summaries(found.last().map(|last: &StoredSummary| last.id), limit).unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                return found;
            }
            found.extend(page);
        }
    };
    assert_eq!(all(10), vec![]);
    let whole = "é".repeat(300_000);
    let root = samples.birth().with_content(text(1, ContentKind::Prompt, &whole));
    let root = Samples::commit(&*store, root);
    let child = Samples::commit(&*store, samples.child(&root));
    let other = Samples::commit(&*store, samples.birth());
    let mut states = [root, child, other];
    let mut bytes = [600_000, 0, 0];
    let sums = |states: &[Arc<Subagent>; 3], bytes: &[u64; 3]| {
        states.iter().zip(bytes).map(|(state, bytes)| expected(state, *bytes)).collect::<Vec<_>>()
    };
    assert_eq!(all(10), sums(&states, &bytes));
    states[1] = samples.run(&*store, &states[1], &Samples::claim());
    states[2] = samples.end(&*store, &states[2], Outcome::Completed);
    assert_eq!(all(2), sums(&states, &bytes));
    assert!(all(1)[2].unread && all(1)[2].ended_at.is_some());
    states[2] = samples.acknowledge(&*store, &states[2]);
    assert_eq!(all(1), sums(&states, &bytes));
    // Live again, with a text for its second run; an end that is unread in the first.
    states[0] = samples.end(&*store, &states[0], Samples::failure());
    let next = samples.step(&states[0], &Samples::resume(&Requester::from("someone")));
    states[0] = Samples::commit(&*store, next.with_content(text(2, ContentKind::Prompt, "go on")));
    bytes[0] += 5;
    let found = all(10);
    assert_eq!(found, sums(&states, &bytes));
    assert_eq!((found[0].ended_at, found[0].unread), (None, true));
    assert_eq!(store.summaries(None, 0).unwrap(), vec![]);
    assert_eq!(store.summaries(Some(Samples::id(999)), 10).unwrap(), vec![]);
    assert_eq!(found[0].for_sweep(7).heavy_bytes, bytes[0] + 7);
}

/// Texts go of what is over and of nothing else; the record stays as it is, and may be resumed.
pub fn texts_of_what_is_over_are_released<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let mut born = || {
        let birth = samples.birth().with_content(text(1, ContentKind::Prompt, &"x".repeat(600_000)));
        Samples::commit(&*store, birth)
    };
    let (live, owed, over) = (born(), born(), born());
    let without = Samples::commit(&*store, samples.birth_with(|birth| birth.spec.mode = Mode::Detached));
    let without = samples.end(&*store, &without, Outcome::Completed);
    let owed = samples.end(&*store, &owed, Outcome::Completed);
    // Its first run is unread, its second is not: unread as a whole.
    let resumed = samples.run(&*store, &owed, &Samples::resume(&Requester::from("someone")));
    let ended = samples.end(&*store, &resumed, Outcome::Completed);
    let owed = samples.acknowledge(&*store, &ended);
    let over = samples.end(&*store, &over, Outcome::Completed);
    let result = samples.step(&over, &Samples::receipt(&over));
    let result = result.with_content(text(1, ContentKind::Result, "all of it"));
    let over = Samples::commit(&*store, result);
    let has = |state: &Subagent, kind| store.content(state.id, RunNumber(1), kind, 0, 1).unwrap().is_some();
    let ids = [live.id, owed.id, over.id, without.id, Samples::id(999), over.id];
    assert_eq!(store.release_content(&ids).unwrap(), 1);
    assert_eq!(store.release_content(&ids).unwrap(), 0);
    assert!(has(&live, ContentKind::Prompt) && has(&owed, ContentKind::Prompt));
    assert!(!has(&over, ContentKind::Prompt) && !has(&over, ContentKind::Result));
    assert_eq!(store.get(over.id).unwrap().as_ref(), Some(&over));
    let held: Vec<_> = store.summaries(None, 10).unwrap().iter().map(|summary| summary.bytes).collect();
    assert_eq!(held, [600_000, 600_000, 0, 0]);
    let resume = samples.step(&over, &Samples::resume(&over.requester));
    let resumed = Samples::commit(&*store, resume.with_content(text(1, ContentKind::Prompt, "again")));
    assert_eq!(store.release_content(&[resumed.id]).unwrap(), 0, "it is live again");
    assert!(has(&resumed, ContentKind::Prompt));
}

/// A warm subagent whose run is over is live until its process is gone, whatever its status: nothing of it may go.
pub fn a_process_between_runs_is_live<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let birth = samples.birth_with(|birth| birth.spec.mode = Mode::Warm);
    let state = Samples::commit(&*store, birth.with_content(text(1, ContentKind::Prompt, "all of it")));
    let state = samples.run(&*store, &state, &Samples::claim());
    let attempt = state.last_attempt;
    let state = samples.run(&*store, &state, &Command::Started { attempt, process: None });
    let state = samples.run(&*store, &state, &Samples::opened(attempt));
    let state = samples.run(&*store, &state, &Command::Prompted { attempt, position: 0 });
    let Command::Conclude { conclusion, .. } = Samples::conclude(attempt, Outcome::Completed, "done") else {
        unreachable!("it is one")
    };
    let left = Left::default();
    let idle = samples.run(&*store, &state, &Command::TurnDone { attempt, conclusion, left });
    let idle = samples.acknowledge(&*store, &idle);
    assert_eq!((idle.is_ended(), idle.status()), (true, Status::Idle));
    let stop =
        Command::Stop { actor: String::from("user:1000"), cause: Cause::Requested, drop_follow_ups: false };
    let closing = samples.step(&idle, &stop);
    let check = |state: &Arc<Subagent>| {
        assert_eq!(store.live().unwrap().items, vec![Arc::clone(state)]);
        assert_eq!(store.summaries(None, 10).unwrap()[0].ended_at, None);
        assert_eq!(store.release_content(&[state.id]).unwrap(), 0);
        assert_eq!(store.delete(&[state.id]).unwrap(), 0);
        assert_eq!(store.prune_events(Cursor(u64::MAX)).unwrap(), 0);
        let is_listed = |filter| store.list(&filter).unwrap().items == vec![Arc::clone(state)];
        let status = vec![state.status()];
        assert!(is_listed(ListFilter { status, ..ListFilter::default() }), "{}", state.status());
        assert_eq!(is_listed(ListFilter { live: true, ..ListFilter::default() }), !state.status().is_final());
    };
    check(&idle);
    let closing = Samples::commit(&*store, closing);
    assert_eq!(closing.status(), Status::Completed);
    check(&closing);
    let gone = Command::SessionGone { attempt, reason: String::from("it was closed"), exit: None };
    let gone = samples.run(&*store, &closing, &gone);
    assert_eq!(store.live().unwrap().items, vec![]);
    let completed = ListFilter { status: vec![Status::Completed], ..ListFilter::default() };
    assert_eq!(store.list(&completed).unwrap().items, vec![gone.clone()]);
    assert_eq!(store.release_content(&[gone.id]).unwrap(), 1);
    assert_eq!(store.delete(&[gone.id]).unwrap(), 1);
}

/// The journal loses its beginning and nothing else: numbers stay, and a reader can tell that it missed something.
pub fn the_oldest_events_may_go<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    assert_eq!(store.first_event().unwrap(), Cursor(1));
    assert_eq!(store.prune_events(Cursor(u64::MAX)).unwrap(), 0);
    let mut over = || {
        let birth = samples.birth_with(|birth| birth.spec.mode = Mode::Detached);
        let state = Samples::commit(&*store, birth);
        samples.end(&*store, &state, Outcome::Completed)
    };
    let (first, second) = (over(), over());
    let live = Samples::commit(&*store, samples.birth());
    let head = store.head().unwrap();
    let all = store.events(Cursor(0), 1_000).unwrap();
    assert_eq!(all.len() as u64, head.0);
    assert_eq!(store.prune_events(Cursor(0)).unwrap(), 0);
    assert_eq!(store.prune_events(Cursor(1)).unwrap(), 0);
    assert_eq!(store.prune_events(Cursor(4)).unwrap(), 3);
    assert_eq!(store.prune_events(Cursor(4)).unwrap(), 0);
    assert_eq!((store.first_event().unwrap(), store.head().unwrap()), (Cursor(4), head));
    for after in [0, 2, 3] {
        assert_eq!(store.events(Cursor(after), 1_000).unwrap(), all[3..], "it begins at the first");
    }
    assert_eq!(store.events(Cursor(4), 2).unwrap(), all[4..6]);
    // Records are not touched.
    assert_eq!(store.get(first.id).unwrap().as_ref(), Some(&first));
    // Not a fact of what is live, nor what comes after it.
    let of_live = all.iter().find(|event| event.subagent == live.id).unwrap().seq;
    assert_eq!(store.prune_events(Cursor(u64::MAX)).unwrap(), of_live.0 - 4);
    assert_eq!(store.first_event().unwrap(), of_live);
    // Nor of what is owed.
    let owed = samples.end(&*store, &live, Outcome::Completed);
    assert_eq!(store.prune_events(Cursor(u64::MAX)).unwrap(), 0);
    samples.acknowledge(&*store, &owed);
    let head = store.head().unwrap();
    // The last one stays, and numbers go on from it.
    assert_eq!(store.prune_events(Cursor(u64::MAX)).unwrap(), head.0 - of_live.0);
    assert_eq!((store.first_event().unwrap(), store.head().unwrap()), (head, head));
    assert_eq!(store.delete(&[first.id, second.id, live.id]).unwrap(), 3);
    let born = store.commit(&[samples.birth()]).unwrap();
    assert_eq!(born.first, Cursor(head.0 + 1));
    // Whoever is gone holds nothing.
    assert_eq!(store.prune_events(born.first).unwrap(), 1);
    assert_eq!(store.first_event().unwrap(), born.first);
}

/// More than goes in one portion goes, too.
pub fn a_long_journal_is_pruned_whole<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let mut batch = Vec::new();
    for _ in 0..1_300 {
        let mut step = samples.birth_with(|birth| birth.spec.mode = Mode::Detached);
        for command in 0..3 {
            let attempt = step.state.last_attempt;
            let next = match command {
                0 => samples.step(&step.state, &Samples::claim()),
                1 => {
                    let started = Command::Started { attempt, process: None };
                    samples.step(&step.state, &started)
                }
                _ => samples.step(&step.state, &Samples::conclude(attempt, Outcome::Completed, "done")),
            };
            batch.push(std::mem::replace(&mut step, next));
        }
        batch.push(step);
    }
    store.commit(&batch).unwrap();
    let head = store.head().unwrap();
    assert!(head.0 > 6_000, "{head}");
    assert_eq!(store.prune_events(Cursor(head.0 - 10)).unwrap(), head.0 - 11);
    assert_eq!(store.first_event().unwrap(), Cursor(head.0 - 10));
    assert_eq!(store.events(Cursor(0), 100).unwrap().len(), 11);
}

/// An audit folds what can still be folded, and says what cannot.
pub fn an_audit_knows_what_was_pruned<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let mut over = || {
        let state = Samples::commit(&*store, samples.birth());
        let state = samples.end(&*store, &state, Outcome::Completed);
        samples.acknowledge(&*store, &state)
    };
    let (whole, half) = (over(), over());
    let live = Samples::commit(&*store, samples.birth());
    let seen = || {
        let seen = audit(&*store).unwrap();
        (seen.records, seen.events, seen.pruned, seen.problems)
    };
    let head = store.head().unwrap().0;
    assert_eq!(seen(), (3, head, 0, vec![]));
    assert_eq!(store.prune_events(Cursor(whole.revision + 3)).unwrap(), whole.revision + 2);
    assert_eq!(seen(), (3, head - whole.revision - 2, 2, vec![]));
    // Their next events say nothing about those that are gone.
    let resumed = samples.run(&*store, &half, &Samples::resume(&half.requester));
    samples.end(&*store, &resumed, Outcome::Completed);
    samples.run(&*store, &live, &Samples::claim());
    let (records, _, pruned, problems) = seen();
    assert_eq!((records, pruned, problems), (3, 2, vec![]));
}

/// From the plan to the store: what a sweep allows can be carried out, and no more is.
pub fn a_sweep_is_carried_out<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let over = |birth: crate::Transition, samples: &mut Samples| {
        let birth = birth.with_content(text(1, ContentKind::Prompt, "all of it"));
        let state = Samples::commit(&*store, birth);
        let state = samples.end(&*store, &state, Outcome::Completed);
        samples.acknowledge(&*store, &state)
    };
    let birth = samples.birth();
    let parent = over(birth, &mut samples);
    let birth = samples.child(&parent);
    let child = over(birth, &mut samples);
    let unread = Samples::commit(&*store, samples.birth());
    let unread = samples.end(&*store, &unread, Outcome::Completed);
    let birth = samples.birth();
    let young = over(birth, &mut samples);
    let now = samples.now();
    let policy = Policy { heavy_ms: 0, record_ms: 10, heavy_bytes: 0, events_ms: 10 };
    let facts: Vec<_> =
        store.summaries(None, 100).unwrap().iter().map(|summary| summary.for_sweep(0)).collect();
    let plan = sweep(now, &policy, &facts);
    assert_eq!(plan.records, [child.id, parent.id]);
    assert_eq!(store.release_content(&plan.heavy).unwrap(), 3);
    assert_eq!(store.delete(&plan.records).unwrap(), 2);
    let end = journal::prunable(&*store, &plan.journal).unwrap();
    assert_eq!(store.prune_events(end).unwrap(), parent.revision + child.revision);
    let first = store.events(Cursor(0), 1).unwrap();
    assert_eq!(first.iter().map(|event| event.subagent).collect::<Vec<_>>(), [unread.id]);
    assert_eq!(store.get(young.id).unwrap(), Some(young));
    // A cut that everything passes ends behind the last event.
    let all = JournalCut { up_to: Timestamp::never(), held: [].into() };
    assert_eq!(journal::prunable(&*store, &all).unwrap(), Cursor(store.head().unwrap().0 + 1));
}
