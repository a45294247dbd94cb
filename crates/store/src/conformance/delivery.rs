//! What is owed to requesters.

use std::ops::Deref;

use subagent_core::run::Command;
use subagent_model::{BoundedText, Mode, Outcome, Requester, Timestamp};

use super::Samples;
use crate::Store;

/// An end is owed until it is acknowledged, claims of carriers notwithstanding; nobody is owed a detached one.
pub fn ends_are_owed_until_acknowledged<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let state = Samples::commit(&*store, samples.birth());
    let me = state.requester.clone();
    let count = || (store.owed_count(None).unwrap(), store.owed_count(Some(&me)).unwrap());
    assert_eq!(count(), (0, 0));
    let ended = samples.end(&*store, &state, Outcome::Completed);
    assert_eq!(count(), (1, 1));
    let claim = Command::ClaimDelivery { carrier: String::from("sse"), until: Timestamp::never() };
    let claimed = samples.run(&*store, &ended, &claim);
    assert_eq!(store.owed(Some(&me), None, 10).unwrap(), vec![claimed.clone()]);
    assert_eq!(store.owed_count(Some(&Requester::from("someone"))).unwrap(), 0);
    let consumed = samples.acknowledge(&*store, &claimed);
    assert_eq!(count(), (0, 0));
    assert_eq!(store.owed(None, None, 10).unwrap(), vec![]);
    // The next run is asked for by someone else, and owed to them.
    let you = Requester::from("someone");
    let prompt = BoundedText::whole("go on").unwrap();
    let resumed = samples.run(&*store, &consumed, &Command::Resume { prompt, requester: you.clone() });
    samples.end(&*store, &resumed, Samples::failure());
    assert_eq!(count(), (1, 0));
    assert_eq!(store.owed_count(Some(&you)).unwrap(), 1);
    let detached = Samples::commit(&*store, samples.birth_with(|birth| birth.spec.mode = Mode::Detached));
    samples.end(&*store, &detached, Outcome::Completed);
    assert_eq!(count(), (1, 0));
}

/// Oldest end first, whatever the order of birth, page by page.
pub fn the_oldest_end_comes_first<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let you = Requester::from("someone");
    let mut born = Vec::new();
    for number in 0..9 {
        let birth = samples.birth_with(|birth| {
            if number % 3 == 0 {
                birth.requester = you.clone();
            }
        });
        born.push(Samples::commit(&*store, birth));
    }
    let mut ended = Vec::new();
    for place in [4, 0, 8, 3, 7, 1, 6, 2, 5] {
        ended.push(samples.end(&*store, &born[place], Outcome::Completed));
    }
    let pages = |requester: Option<&Requester>| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = store.owed(requester, after, 2).unwrap();
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { return all };
            after = Some(last.id);
            all.extend(page);
        }
    };
    assert_eq!(pages(None), ended);
    let yours: Vec<_> = ended.iter().filter(|state| state.requester == you).cloned().collect();
    assert_eq!(pages(Some(&you)), yours);
    assert_eq!(store.owed_count(Some(&you)).unwrap(), yours.len() as u64);
    // An end that was acknowledged meanwhile keeps its place for those who continue after it.
    let first = samples.acknowledge(&*store, &ended[0]);
    assert_eq!(store.owed(None, Some(first.id), 100).unwrap(), ended[1..]);
    assert_eq!(store.owed(None, None, 100).unwrap(), ended[1..]);
    // An unknown place is the beginning.
    assert_eq!(store.owed(None, Some(Samples::id(999)), 1).unwrap(), ended[1..2]);
    assert_eq!(store.owed(None, None, 0).unwrap(), vec![]);
}
