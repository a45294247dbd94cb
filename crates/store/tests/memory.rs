//! The memory store passes the suite, and stays within its bounds.

use std::sync::Arc;

use subagent_core::run::Subagent;
use subagent_model::{Cursor, NodeId, Outcome};
use subagent_store::conformance::Samples;
use subagent_store::{Capacity, MemoryStore, Store, conformance_tests};

conformance_tests!(|| Arc::new(MemoryStore::default()));

#[test]
fn daemon_17_what_is_over_is_bounded() {
    let store = MemoryStore::new(NodeId::from("node"), Capacity { ended: 3, events: 10 });
    let mut samples = Samples::default();
    let live = Samples::commit(&store, samples.birth());
    let owed = Samples::commit(&store, samples.birth());
    samples.end(&store, &owed, Outcome::Completed);
    let mut over = Vec::new();
    for _ in 0..20 {
        let state = Samples::commit(&store, samples.birth());
        let state = samples.end(&store, &state, Outcome::Completed);
        over.push(samples.acknowledge(&store, &state));
    }
    let kept: Vec<_> = over.iter().filter(|state| store.get(state.id).unwrap().is_some()).collect();
    assert_eq!(kept, over[17..].iter().collect::<Vec<_>>());
    assert!(store.get(live.id).unwrap().is_some() && store.get(owed.id).unwrap().is_some());
    assert!(!store.handle_taken(&over[0].handle).unwrap());
    let events = store.events(Cursor(0), 100).unwrap();
    assert_eq!(events.len(), 10);
    assert_eq!(events.last().unwrap().seq, store.head().unwrap());
}

#[test]
fn daemon_17_a_parent_is_kept_for_what_is_below_it() {
    let store = MemoryStore::new(NodeId::from("node"), Capacity { ended: 2, events: 10 });
    let mut samples = Samples::default();
    let parent = Samples::commit(&store, samples.birth());
    let child = Samples::commit(&store, samples.child(&parent));
    let mut over = |state| {
        let state = samples.end(&store, state, Outcome::Completed);
        samples.acknowledge(&store, &state);
    };
    over(&parent);
    let others: Vec<_> =
        (1..9).map(|n| Samples::commit(&store, Samples::starting_at(n * 100).birth())).collect();
    for other in &others {
        over(other);
    }
    let kept = |state: &Subagent| store.get(state.id).unwrap().is_some();
    assert!(kept(&parent) && kept(&child) && kept(&others[7]) && !kept(&others[6]));
    // Its child gone, it is the oldest of all.
    over(&child);
    let more = [1_000, 1_100].map(|n| Samples::commit(&store, Samples::starting_at(n).birth()));
    over(&more[0]);
    assert!(kept(&parent) && !kept(&child));
    over(&more[1]);
    assert!(!kept(&parent) && kept(&more[0]) && kept(&more[1]));
}

#[test]
fn two_memory_stores_are_two_nodes() {
    assert_ne!(MemoryStore::default().node(), MemoryStore::default().node());
}
