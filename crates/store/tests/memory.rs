//! The memory store passes the suite, and stays within its bounds.

use std::sync::Arc;

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
fn two_memory_stores_are_two_nodes() {
    assert_ne!(MemoryStore::default().node(), MemoryStore::default().node());
}
