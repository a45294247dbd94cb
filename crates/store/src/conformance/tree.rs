//! Parents, trees, and what may be deleted.

use std::ops::Deref;

use subagent_core::retention::{Policy, sweep};
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
    let over: Vec<_> = [&grandchild, &first, &root]
        .map(|state| {
            let ended = samples.end(&*store, state, Outcome::Completed);
            samples.acknowledge(&*store, &ended).id
        })
        .into();
    assert_eq!(store.delete(&over).unwrap(), 3);
    assert_eq!(store.tree_total(root.id).unwrap(), 0);
}

/// Everything of a tree, whoever its parent is, oldest first; nothing of others.
pub fn members_of_a_tree_are_told<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let root = Samples::commit(&*store, samples.birth());
    let other = Samples::commit(&*store, samples.birth());
    let (one, two) = (samples.child(&root), samples.child(&root));
    let child = one.state.clone();
    store.commit(&[two.clone(), one]).unwrap();
    let grandchild = Samples::commit(&*store, samples.child(&child));
    let below_other = Samples::commit(&*store, samples.child(&other));
    let ended = samples.end(&*store, &child, Outcome::Completed);
    assert_eq!(
        store.tree(root.id).unwrap(),
        vec![root.clone(), ended, two.state.clone(), grandchild.clone()]
    );
    assert_eq!(store.tree(other.id).unwrap(), vec![other.clone(), below_other]);
    for no_root in [child.id, grandchild.id, Samples::id(999)] {
        assert_eq!(store.tree(no_root).unwrap(), vec![]);
    }
    // A list asks for the same, and for less.
    let list = |filter: ListFilter| {
        let page = store.list(&filter).unwrap();
        page.items.iter().map(|state| state.id).collect::<Vec<_>>()
    };
    let of_root = ListFilter { root: Some(root.id), ..ListFilter::default() };
    assert_eq!(list(of_root.clone()), [grandchild.id, two.state.id, child.id, root.id]);
    assert_eq!(list(ListFilter { live: true, ..of_root.clone() }), [grandchild.id, two.state.id, root.id]);
    assert_eq!(list(ListFilter { parent: Some(child.id), ..of_root.clone() }), [grandchild.id]);
    assert_eq!(list(ListFilter { root: Some(other.id), parent: Some(child.id), ..of_root.clone() }), []);
    assert_eq!(list(ListFilter { limit: Some(1), before: Some(child.id), ..of_root }), [root.id]);
}

/// REC-10: damaged links go in a circle; nothing follows them round.
pub fn a_loop_of_parents_ends_every_walk<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let (one, two, own) = (Samples::id(1), Samples::id(2), Samples::id(3));
    let mut born = |parent| {
        let birth = samples.birth_with(|birth| {
            birth.parent = Some(parent);
            birth.root = if parent == own { own } else { one };
        });
        Samples::commit(&*store, birth)
    };
    let states = [born(two), born(one), born(own)];
    assert_eq!([one, two, own].map(|id| store.children(id).unwrap()), [vec![two], vec![one], vec![own]]);
    assert_eq!(store.tree(one).unwrap(), states[..2]);
    assert_eq!(store.tree(own).unwrap(), states[2..]);
    let rooted = |root| store.list(&ListFilter { root: Some(root), ..ListFilter::default() }).unwrap();
    assert_eq!((rooted(one).items.len(), rooted(own).items.len()), (2, 1), "each is one row");
    assert_eq!(store.list(&ListFilter::default()).unwrap().items.len(), 3);
    for state in &states {
        let ended = samples.end(&*store, state, Outcome::Completed);
        samples.acknowledge(&*store, &ended);
    }
    // Each of the two has a child that is stored.
    assert_eq!(store.delete(&[one, two]).unwrap(), 0);
    assert_eq!(store.delete(&[own]).unwrap(), 1);
    let facts: Vec<_> =
        store.summaries(None, 10).unwrap().iter().map(|summary| summary.for_sweep(0)).collect();
    let all = Policy { heavy_ms: 0, record_ms: 0, heavy_bytes: 0, events_ms: 0 };
    assert_eq!(sweep(samples.now(), &all, &facts).records, []);
}

/// What is below something that goes would have nobody to be told, stopped or counted by.
pub fn a_parent_goes_after_its_children<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let root = Samples::commit(&*store, samples.birth());
    let child = Samples::commit(&*store, samples.child(&root));
    let live = Samples::commit(&*store, samples.child(&child));
    for state in [&root, &child] {
        let ended = samples.end(&*store, state, Outcome::Completed);
        samples.acknowledge(&*store, &ended);
    }
    let upwards = [live.id, child.id, root.id];
    assert_eq!(store.delete(&upwards).unwrap(), 0, "the lowest is live");
    let ended = samples.end(&*store, &live, Outcome::Completed);
    assert_eq!(store.delete(&upwards).unwrap(), 0, "the lowest is unread");
    samples.acknowledge(&*store, &ended);
    assert_eq!(store.delete(&[root.id, child.id]).unwrap(), 0);
    assert_eq!(store.delete(&upwards).unwrap(), 3);
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
