//! Parents, trees, and what may be deleted.

use std::ops::Deref;

use subagent_core::run::Command;
use subagent_model::{Cursor, Outcome, RunNumber};

use super::Samples;
use crate::{Content, ContentKind, ListFilter, Store};

/// Children are told oldest first; a tree counts all its births, whoever is left of them.
pub fn trees_are_counted<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let root = Samples::commit(&*store, samples.birth());
    let other = Samples::commit(&*store, samples.birth());
    assert_eq!(store.children(root.id).unwrap(), vec![]);
    assert_eq!(store.tree_total(root.id).unwrap(), 1);
    let one = samples.child(&root);
    let two = samples.child(&root);
    let (first, second) = (one.state.clone(), two.state.clone());
    store.commit(&[two, one]).unwrap();
    let grandchild = Samples::commit(&*store, samples.child(&first));
    assert_eq!(store.children(root.id).unwrap(), vec![first.id, second.id]);
    assert_eq!(store.children(first.id).unwrap(), vec![grandchild.id]);
    assert_eq!(store.tree_total(root.id).unwrap(), 4);
    assert_eq!(store.tree_total(other.id).unwrap(), 1);
    assert_eq!(store.tree_total(Samples::id(999)).unwrap(), 0);
    let ended = samples.end(&*store, &second, Outcome::Completed);
    samples.acknowledge(&*store, &ended);
    assert_eq!(store.delete(&[second.id]).unwrap(), 1);
    assert_eq!(store.children(root.id).unwrap(), vec![first.id]);
    assert_eq!(store.tree_total(root.id).unwrap(), 4, "the limit holds for the whole life of a tree");
    let ended = samples.end(&*store, &root, Outcome::Completed);
    samples.acknowledge(&*store, &ended);
    assert_eq!(store.delete(&[root.id]).unwrap(), 1);
    assert_eq!(store.tree_total(root.id).unwrap(), 0);
}

/// What lives or is owed stays; what goes takes texts and names with it and leaves its events.
pub fn only_what_is_over_is_deleted<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let text = Content { run: RunNumber(1), kind: ContentKind::Prompt, text: "whole".into() };
    let over = Samples::commit(&*store, samples.birth().with_content(text));
    let owed = Samples::commit(&*store, samples.birth());
    let queued = Samples::commit(&*store, samples.birth());
    let running = Samples::commit(&*store, samples.birth());
    let running = samples.run(&*store, &running, &Samples::claim());
    let ended = samples.end(&*store, &over, Outcome::Completed);
    samples.acknowledge(&*store, &ended);
    let owed = samples.end(&*store, &owed, Outcome::Completed);
    let head = store.head().unwrap();
    let events = store.events(Cursor(0), 1_000).unwrap();
    let ids = [over.id, owed.id, queued.id, running.id, Samples::id(999), over.id];
    assert_eq!(store.delete(&ids).unwrap(), 1);
    assert_eq!(store.delete(&ids).unwrap(), 0);
    assert_eq!(store.get(over.id).unwrap(), None);
    assert!(!store.handle_taken(&over.handle).unwrap());
    assert_eq!(store.content(over.id, RunNumber(1), ContentKind::Prompt, 0, 10).unwrap(), None);
    for kept in [&owed, &queued, &running] {
        assert_eq!(store.get(kept.id).unwrap().as_ref(), Some(kept));
    }
    assert_eq!(store.list(&ListFilter::default()).unwrap().items, vec![running, queued.clone(), owed]);
    assert_eq!(store.events(Cursor(0), 1_000).unwrap(), events);
    // Numbers go on after it, and the handle may be used again: by someone whose texts are their own.
    let heir = samples.birth_with(|birth| birth.handle = over.handle.clone());
    let heir = Samples::commit(&*store, heir);
    assert_eq!(store.head().unwrap(), Cursor(head.0 + heir.revision));
    assert_eq!(store.content(heir.id, RunNumber(1), ContentKind::Prompt, 0, 10).unwrap(), None);
    let claim = samples.step(&queued, &Command::Claim { owner: store.node(), lease_until: heir.created_at });
    Samples::commit(&*store, claim);
}
