//! Lists.

use std::ops::Deref;
use std::sync::Arc;

use subagent_core::run::{Command, Subagent};
use subagent_model::{Cause, Outcome, Requester, Status, SubagentId};

use super::Samples;
use crate::{ListFilter, Store};

fn ids(states: &[Arc<Subagent>]) -> Vec<SubagentId> {
    states.iter().map(|state| state.id).collect()
}

/// All pages of a list, each of `limit` at most.
fn walk(store: &impl Store, filter: &ListFilter, limit: u32) -> Vec<SubagentId> {
    let mut filter = ListFilter { limit: Some(limit), ..filter.clone() };
    let mut all = Vec::new();
    loop {
        let page = store.list(&filter).unwrap();
        assert!(page.items.len() <= limit as usize && page.damaged.is_empty());
        assert!(page.next.is_none() || page.items.len() == limit as usize, "only the last page is short");
        all.extend(ids(&page.items));
        let Some(next) = page.next else { return all };
        assert_eq!(all.last(), Some(&next));
        filter.before = Some(next);
    }
}

/// Newest first by id, whatever the order of the commits, without doubles or gaps between pages.
pub fn pages_follow_each_other<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    assert_eq!(store.list(&ListFilter::default()).unwrap(), crate::ListPage::default());
    let mut births: Vec<_> = (0..120).map(|_| samples.birth()).collect();
    let mut newest: Vec<_> = births.iter().map(|birth| birth.state.id).collect();
    newest.reverse();
    births.sort_by_key(|birth| birth.state.id.as_uuid().as_u128().wrapping_mul(0x9e37_79b9_7f4a_7c15));
    store.commit(&births).unwrap();
    for limit in [1, 7, 40, 119, 120, 121] {
        assert_eq!(walk(&*store, &ListFilter::default(), limit), newest);
    }
    // The length that nobody asked for, and the one that is no length.
    assert_eq!(ids(&store.list(&ListFilter::default()).unwrap().items), newest[..50]);
    let none = ListFilter { limit: Some(0), ..ListFilter::default() };
    assert_eq!(store.list(&none).unwrap().items.len(), 1);
    // What is born between two pages is not on the second.
    let first = store.list(&ListFilter { limit: Some(10), ..ListFilter::default() }).unwrap();
    Samples::commit(&*store, samples.birth());
    let second = ListFilter { limit: Some(10), before: first.next, ..ListFilter::default() };
    assert_eq!(ids(&store.list(&second).unwrap().items), newest[10..20]);
}

/// Every filter, and every pair of them, gives what the states say.
pub fn filters_are_joined_by_and<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let root = Samples::commit(&*store, samples.birth());
    let mut all = vec![root.id];
    for number in 0..40 {
        let birth = match number % 3 {
            0 => samples.child(&root),
            1 => samples.birth_with(|birth| birth.requester = Requester::from("someone")),
            _ => samples.birth(),
        };
        let state = Samples::commit(&*store, birth);
        all.push(state.id);
        match number % 5 {
            0 => drop(samples.end(&*store, &state, Outcome::Completed)),
            1 => drop(samples.end(&*store, &state, Samples::failure())),
            2 => {
                let stop = Command::Stop {
                    actor: String::from("me"),
                    cause: Cause::Requested,
                    drop_follow_ups: false,
                };
                samples.run(&*store, &state, &stop);
            }
            3 => drop(samples.run(&*store, &state, &Samples::claim())),
            _ => {}
        }
    }
    all.reverse();
    let states: Vec<_> = all.iter().map(|id| store.get(*id).unwrap().unwrap()).collect();
    let statuses = [
        vec![],
        vec![Status::Completed],
        vec![Status::Error, Status::Stopped],
        vec![Status::Queued],
        vec![Status::Running, Status::Error],
        vec![Status::Idle],
        Status::ALL.to_vec(),
    ];
    for status in statuses {
        for live in [false, true] {
            for parent in [None, Some(root.id), Some(Samples::id(999))] {
                for root in [None, Some(root.id), Some(all[0]), Some(Samples::id(999))] {
                    for requester in [None, Some("someone"), Some("user:1000"), Some("nobody")] {
                        let filter = ListFilter {
                            status: status.clone(),
                            live,
                            root,
                            parent,
                            requester: requester.map(str::to_owned),
                            ..ListFilter::default()
                        };
                        let matching = states.iter().filter(|state| crate::filter::matches(&filter, state));
                        let matching: Vec<_> = matching.map(|state| state.id).collect();
                        for limit in [3, 100] {
                            assert_eq!(walk(&*store, &filter, limit), matching, "{filter:?}");
                        }
                    }
                }
            }
        }
    }
}

/// Everything that has not ended, oldest first, through all of a life.
pub fn live_ones_are_told<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let live = || {
        let page = store.live().unwrap();
        assert!(page.damaged.is_empty());
        page.items
    };
    assert_eq!(live(), vec![]);
    let one = Samples::commit(&*store, samples.birth());
    let two = Samples::commit(&*store, samples.birth());
    assert_eq!(live(), vec![one.clone(), two.clone()]);
    let one = samples.end(&*store, &one, Outcome::Completed);
    assert_eq!(live(), vec![two.clone()]);
    let one = samples.acknowledge(&*store, &one);
    let one = samples.run(&*store, &one, &Samples::resume(&one.requester));
    assert_eq!(live(), vec![one, two]);
}
