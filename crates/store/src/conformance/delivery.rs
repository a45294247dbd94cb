//! What is owed to requesters.

use std::ops::Deref;

use subagent_core::run::{Command, Subagent};
use subagent_model::{Cause, Cursor, EventKind, Mode, Outcome, Requester, RunNumber, Timestamp};

use super::Samples;
use crate::{OwedRun, Store, Transition};

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
    let claim = Command::ClaimDelivery {
        run: state.run.number,
        carrier: String::from("sse"),
        until: Timestamp::never(),
    };
    let claimed = samples.run(&*store, &ended, &claim);
    assert_eq!(store.owed(Some(&me), None, 10).unwrap(), OwedRun::of(&claimed));
    assert_eq!(store.owed_count(Some(&Requester::from("someone"))).unwrap(), 0);
    let consumed = samples.acknowledge(&*store, &claimed);
    assert_eq!(count(), (0, 0));
    assert_eq!(store.owed(None, None, 10).unwrap(), vec![]);
    // The next run is asked for by someone else, and owed to them.
    let you = Requester::from("someone");
    let resumed = samples.run(&*store, &consumed, &Samples::resume(&you));
    samples.end(&*store, &resumed, Samples::failure());
    assert_eq!(count(), (1, 0));
    assert_eq!(store.owed_count(Some(&you)).unwrap(), 1);
    assert_eq!(store.owed_requesters("some").unwrap(), std::slice::from_ref(&you));
    assert_eq!(store.owed_requesters("someone else").unwrap(), vec![]);
    assert_eq!(store.owed_requesters("").unwrap(), [you]);
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
    let owed: Vec<_> = ended.iter().flat_map(OwedRun::of).collect();
    let pages = |requester: Option<&Requester>| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = store.owed(requester, after, 2).unwrap();
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { return all };
            after = Some(last.place());
            all.extend(page);
        }
    };
    assert_eq!(pages(None), owed);
    let yours: Vec<_> = owed.iter().filter(|owed| owed.state.requester == you).cloned().collect();
    assert_eq!(pages(Some(&you)), yours);
    assert_eq!(store.owed_count(Some(&you)).unwrap(), yours.len() as u64);
    // The place of a run that was acknowledged meanwhile is still one to continue from.
    samples.acknowledge(&*store, &ended[0]);
    assert_eq!(store.owed(None, Some(owed[0].place()), 100).unwrap(), owed[1..]);
    assert_eq!(store.owed(None, None, 100).unwrap(), owed[1..]);
    assert_eq!(store.owed(None, None, 0).unwrap(), vec![]);
}

/// A resume drops nothing: every run is owed to whoever asked for it, while the next one is live, and until its own
/// receipt.
pub fn every_run_is_owed_to_its_own_requester<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let first = Samples::commit(&*store, samples.birth());
    let (me, you) = (first.requester.clone(), Requester::from("someone"));
    let counts = || [None, Some(&me), Some(&you)].map(|who| store.owed_count(who).unwrap());
    let runs = |who: &Requester| {
        let owed = store.owed(Some(who), None, 10).unwrap();
        owed.iter().map(|owed| (owed.state.revision, owed.run.0)).collect::<Vec<_>>()
    };
    let ended = samples.end(&*store, &first, Outcome::Completed);
    let resumed = samples.run(&*store, &ended, &Samples::resume(&you));
    assert_eq!(store.live().unwrap().items, vec![resumed.clone()]);
    assert_eq!((counts(), runs(&me)), ([1, 1, 0], vec![(resumed.revision, 1)]));
    let ended = samples.end(&*store, &resumed, Samples::failure());
    assert_eq!(
        (counts(), runs(&me), runs(&you)),
        ([2, 1, 1], vec![(ended.revision, 1)], vec![(ended.revision, 2)])
    );
    // Run by run, page by page.
    let all = OwedRun::of(&ended);
    assert_eq!(store.owed(None, None, 1).unwrap(), all[..1]);
    assert_eq!(store.owed(None, Some(all[0].place()), 10).unwrap(), all[1..]);
    let third = samples.run(&*store, &ended, &Samples::resume(&me));
    let stopped = samples.run(
        &*store,
        &third,
        &Command::Stop { actor: String::from("user:1000"), cause: Cause::Requested, drop_follow_ups: false },
    );
    assert_eq!(counts(), [3, 2, 1]);
    // Receipts in any order; what is left is owed as before, and keeps the record.
    let state = samples.acknowledge(&*store, &stopped);
    assert_eq!(counts(), [2, 1, 1]);
    let receipt = |run, by: &Requester| Command::Acknowledge { run: RunNumber(run), by: by.clone() };
    let state = samples.run(&*store, &state, &receipt(1, &me));
    assert_eq!((counts(), runs(&you)), ([1, 0, 1], vec![(state.revision, 2)]));
    assert_eq!(store.delete(&[state.id]).unwrap(), 0);
    let events = store.events(Cursor(0), 1_000).unwrap();
    assert_eq!((events.last().unwrap().run, state.run.number), (RunNumber(1), RunNumber(3)));
    samples.run(&*store, &state, &receipt(2, &you));
    assert_eq!((counts(), store.owed(None, None, 10).unwrap()), ([0, 0, 0], vec![]));
    assert_eq!(store.delete(&[state.id]).unwrap(), 1);
}

/// A run that is owed to someone else from now on, live or ended, current or earlier, is theirs and no longer the first
/// one's; when it was over stays.
pub fn an_escalated_result_is_owed_to_the_next<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let born = Samples::commit(&*store, samples.birth());
    let (me, boss) = (born.requester.clone(), Requester::from("boss"));
    let counts = || [None, Some(&me), Some(&boss)].map(|who| store.owed_count(who).unwrap());
    let mut escalate = |state: &Subagent, run| {
        let fact = EventKind::DeliveryEscalated { of_run: RunNumber(run), to: boss.clone() };
        let step = Transition::step(state, vec![fact], samples.now()).unwrap();
        Samples::commit(&*store, step)
    };
    let mut others = Samples::starting_at(100);
    let ended = others.end(&*store, &born, Outcome::Completed);
    assert_eq!(counts(), [1, 1, 0]);
    let before = OwedRun::of(&ended)[0].place();
    let escalated = escalate(&ended, 1);
    assert_eq!(counts(), [1, 0, 1]);
    let owed = store.owed(Some(&boss), None, 10).unwrap();
    assert_eq!(owed, OwedRun::of(&escalated));
    assert_eq!(owed[0].place(), before);
    assert_eq!(store.owed(Some(&me), None, 10).unwrap(), vec![]);
    // Of an earlier run, while a later one is live; the later one is not touched.
    let resumed = others.run(&*store, &escalated, &Samples::resume(&me));
    let ended = others.end(&*store, &resumed, Outcome::Completed);
    let third = others.run(&*store, &ended, &Samples::resume(&me));
    assert_eq!(counts(), [2, 1, 1]);
    let state = escalate(&third, 2);
    assert_eq!(counts(), [2, 0, 2]);
    let runs: Vec<_> = store.owed(Some(&boss), None, 10).unwrap().iter().map(|owed| owed.run.0).collect();
    assert_eq!(runs, [1, 2]);
    // What is acknowledged leaves, under whichever name it stood.
    let receipt = Command::Acknowledge { run: RunNumber(2), by: boss.clone() };
    let state = others.run(&*store, &state, &receipt);
    assert_eq!(counts(), [1, 0, 1]);
    assert_eq!(store.owed(None, None, 10).unwrap(), OwedRun::of(&state));
}
