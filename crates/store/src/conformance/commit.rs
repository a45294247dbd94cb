//! Births, steps, batches and their numbers.

use std::ops::Deref;
use std::sync::Arc;

use subagent_core::run::Command;
use subagent_model::{Cursor, Requester, SubagentId};

use super::Samples;
use crate::{IdempotencyKey, Store, StoreError};

/// What was born is read back as it was, with its facts.
pub fn a_birth_is_read_back<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    assert_eq!(store.head().unwrap(), Cursor(0));
    assert_eq!(store.events(Cursor(0), 10).unwrap(), vec![]);
    let birth = samples.birth();
    let state = Arc::clone(&birth.state);
    assert_eq!(store.get(state.id).unwrap(), None);
    assert!(!store.handle_taken(&state.handle).unwrap());
    let committed = store.commit(std::slice::from_ref(&birth)).unwrap();
    assert_eq!((committed.first, committed.last), (Cursor(1), Cursor(2)));
    assert_eq!(store.get(state.id).unwrap(), Some(Arc::clone(&state)));
    assert!(store.handle_taken(&state.handle).unwrap());
    assert_eq!(store.head().unwrap(), Cursor(2));
    let events = store.events(Cursor(0), 10).unwrap();
    for ((event, fact), seq) in events.iter().zip(&birth.events).zip(1..) {
        assert_eq!((event.seq, event.at, event.subagent), (Cursor(seq), fact.at, state.id));
        assert_eq!((event.run, &event.kind), (fact.run, &fact.kind));
    }
    assert_eq!(events.len(), birth.events.len());
    assert!(store.mode().is_writable());
    assert!(!store.node().as_str().is_empty());
    // Once more is no birth; another one may not take the handle.
    let again = store.commit(&[birth]).unwrap_err();
    assert_eq!(again, StoreError::Conflict { id: state.id, expected: 0, found: state.revision });
    let thief = samples.birth_with(|birth| birth.handle = state.handle.clone());
    let taken = store.commit(&[thief]).unwrap_err();
    assert_eq!(taken, StoreError::HandleTaken { handle: state.handle.clone() });
    assert_eq!(store.head().unwrap(), Cursor(2));
}

/// A step on any but the present revision changes nothing.
pub fn a_stale_step_is_refused<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let born = Samples::commit(&*store, samples.birth());
    let claimed = samples.run(&*store, &born, &Samples::claim());
    let head = store.head().unwrap();
    let stale = samples.step(&born, &Samples::claim());
    let refused = store.commit(&[stale]).unwrap_err();
    let expected = StoreError::Conflict { id: born.id, expected: born.revision, found: claimed.revision };
    assert_eq!(refused, expected);
    assert_eq!(store.get(born.id).unwrap(), Some(claimed));
    assert_eq!(store.head().unwrap(), head);
    // What was never born has revision 0.
    let unborn = samples.birth();
    let step = samples.step(&unborn.state, &Samples::claim());
    let refused = store.commit(&[step]).unwrap_err();
    assert_eq!(
        refused,
        StoreError::Conflict { id: unborn.state.id, expected: unborn.state.revision, found: 0 }
    );
    assert_eq!(store.head().unwrap(), head);
}

/// One bad step and nothing of the batch is there: no record, no event, no handle, no key, no text.
pub fn a_batch_is_written_whole_or_not_at_all<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let born = Samples::commit(&*store, samples.birth());
    let head = store.head().unwrap();
    let key = key("once");
    let good = samples.birth().with_key(key.clone());
    let fresh = Arc::clone(&good.state);
    let step = samples.step(&born, &Samples::claim());
    let bad =
        samples.step(&step.state, &Command::Started { attempt: step.state.last_attempt, process: None });
    let bad = crate::Transition { before: bad.before + 1, events: bad.events[1..].to_vec(), ..bad };
    store.commit(&[good.clone(), step.clone(), bad]).unwrap_err();
    assert_eq!(store.head().unwrap(), head);
    assert_eq!(store.get(fresh.id).unwrap(), None);
    assert_eq!(store.get(born.id).unwrap(), Some(born));
    assert!(!store.handle_taken(&fresh.handle).unwrap());
    assert_eq!(store.by_idempotency_key(&key).unwrap(), None);
    assert_eq!(store.live().unwrap().items.len(), 1);
    // The same without the bad one goes through.
    let committed = store.commit(&[good, step]).unwrap();
    assert_eq!((committed.first, committed.last), (Cursor(head.0 + 1), Cursor(head.0 + 3)));
}

/// Each step of a batch is decided on the one before it.
pub fn a_batch_may_hold_several_steps_of_one_subagent<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let birth = samples.birth();
    let claim = samples.step(&birth.state, &Samples::claim());
    let attempt = claim.state.last_attempt;
    let start = samples.step(&claim.state, &Command::Started { attempt, process: None });
    let last = Arc::clone(&start.state);
    store.commit(&[birth, claim, start]).unwrap();
    assert_eq!(store.get(last.id).unwrap().as_ref(), Some(&last));
    assert_eq!(store.head().unwrap(), Cursor(last.revision));
    // An empty batch is no error and no event.
    let empty = store.commit(&[]).unwrap();
    assert_eq!((empty.first, empty.last), (Cursor(last.revision + 1), Cursor(last.revision)));
    // Two births of a batch may not share a handle either.
    let one = samples.birth();
    let two = samples.birth_with(|birth| birth.handle = one.state.handle.clone());
    let taken = store.commit(&[one, two]).unwrap_err();
    assert!(matches!(taken, StoreError::HandleTaken { .. }), "{taken:?}");
}

/// Numbers go up by one, over refused batches too, and pages of events follow each other.
pub fn cursors_have_no_gaps<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    for round in 0..20 {
        let born = samples.birth();
        let mut batch = vec![samples.step(&born.state, &Samples::claim())];
        if round % 3 != 0 {
            batch.insert(0, born);
        }
        let before = store.head().unwrap();
        match store.commit(&batch) {
            Ok(committed) => assert_eq!(committed.first, Cursor(before.0 + 1)),
            Err(error) => assert!(round % 3 == 0 && matches!(error, StoreError::Conflict { .. }), "{error}"),
        }
    }
    let head = store.head().unwrap();
    let (mut seen, mut pages) = (Cursor(0), 0);
    loop {
        let page = store.events(seen, 4).unwrap();
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        for (event, seq) in page.iter().zip(seen.0 + 1..) {
            assert_eq!(event.seq, Cursor(seq));
        }
        seen = last.seq;
        pages += 1;
    }
    assert_eq!(seen, head);
    assert_eq!(pages, head.0.div_ceil(4));
    assert_eq!(store.events(Cursor(u64::MAX), 4).unwrap(), vec![]);
    assert_eq!(store.events(Cursor(0), 0).unwrap(), vec![]);
}

/// A state that its facts do not lead to is never written.
pub fn steps_that_do_not_fit_are_refused<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let born = Samples::commit(&*store, samples.birth());
    let step = samples.step(&born, &Samples::claim());
    let without = crate::Transition { events: vec![], ..step.clone() };
    let with_key = step.with_key(key("late"));
    for unsound in [without, with_key] {
        let refused = store.commit(&[unsound]).unwrap_err();
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused:?}");
    }
    assert_eq!(store.get(born.id).unwrap(), Some(born));
}

/// A key stands for one birth; the same word of another requester is another key.
pub fn a_key_gives_one_subagent<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    assert_eq!(store.by_idempotency_key(&key("a")).unwrap(), None);
    let first = Samples::commit(&*store, samples.birth().with_key(key("a")));
    let taken = |store: &H, step| match store.commit(&[step]).unwrap_err() {
        StoreError::KeyTaken { id } => id,
        other => panic!("{other:?}"),
    };
    assert_eq!(taken(&store, samples.birth().with_key(key("a"))), first.id);
    let other = IdempotencyKey { requester: Requester::from("someone"), key: String::from("a") };
    let second = Samples::commit(&*store, samples.birth().with_key(other.clone()));
    let known = |key: &IdempotencyKey| -> Option<SubagentId> { store.by_idempotency_key(key).unwrap() };
    assert_eq!((known(&key("a")), known(&other)), (Some(first.id), Some(second.id)));
    assert_eq!(known(&key("b")), None);
    // Within a batch too.
    let one = samples.birth().with_key(key("c"));
    let id = one.state.id;
    let two = samples.birth().with_key(key("c"));
    assert_eq!(store.commit(&[one, two]).unwrap_err(), StoreError::KeyTaken { id });
    assert_eq!(known(&key("c")), None);
    // It goes with the record.
    let ended = samples.end(&*store, &first, subagent_model::Outcome::Completed);
    samples.acknowledge(&*store, &ended);
    assert_eq!(store.delete(&[first.id]).unwrap(), 1);
    assert_eq!(known(&key("a")), None);
}

fn key(word: &str) -> IdempotencyKey {
    IdempotencyKey { requester: Requester::from("user:1000"), key: word.to_owned() }
}
