//! Several threads at once.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use subagent_core::run::{Command, Subagent};
use subagent_model::{Cursor, Outcome, SubagentId};

use super::Samples;
use crate::{ListFilter, Store, StoreError};

/// Threads that decide on the same subagents: each step counts once, and the loser of a race decides again.
pub fn committers_race_for_revisions<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    const THREADS: u32 = 4;
    const STEPS: u32 = 25;
    let handle = make();
    let store: &H::Target = &handle;
    let mut samples = Samples::default();
    let shared: Vec<_> = (0..3)
        .map(|_| {
            let born = Samples::commit(store, samples.birth());
            let claimed = samples.run(store, &born, &Samples::claim());
            let attempt = claimed.last_attempt;
            samples.run(store, &claimed, &Command::Started { attempt, process: None }).id
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || {
                let mut samples = Samples::starting_at(1_000 * u64::from(thread + 1));
                for step in 0..STEPS {
                    // A birth that nobody disputes shares the batch: it goes through together with the step or not.
                    let birth = samples.birth();
                    let id = shared[(step % 3) as usize];
                    loop {
                        let state = store.get(id).unwrap().unwrap();
                        let turn = samples.step(&state, &turn(&state));
                        match store.commit(&[birth.clone(), turn]) {
                            Ok(_) => break,
                            Err(StoreError::Conflict { id: of, .. }) => assert_eq!(of, id),
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    let turns: u32 = shared.iter().map(|id| store.get(*id).unwrap().unwrap().run.turns).sum();
    assert_eq!(turns, THREADS * STEPS);
    assert_eq!(store.live().unwrap().items.len(), shared.len() + (THREADS * STEPS) as usize);
    let head = store.head().unwrap();
    let events = store.events(Cursor(0), u32::MAX).unwrap();
    assert!(events.iter().map(|event| event.seq.0).eq(1..=head.0));
    assert_eq!(crate::audit(store).unwrap().problems, vec![]);
}

/// While one thread commits whole lives, others read: never half of a commit, never backwards.
pub fn readers_see_whole_commits<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let handle = make();
    let store: &H::Target = &handle;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = Cursor(0);
                let mut revisions: BTreeMap<SubagentId, u64> = BTreeMap::new();
                let mut rounds = 0;
                while !done.load(Ordering::Acquire) || rounds < 3 {
                    rounds += 1;
                    let page = store.events(seen, 64).unwrap();
                    for (event, seq) in page.iter().zip(seen.0 + 1..) {
                        assert_eq!(event.seq, Cursor(seq));
                        *revisions.entry(event.subagent).or_default() += 1;
                    }
                    seen = page.last().map_or(seen, |event| event.seq);
                    // A record is never behind an event that was seen.
                    for state in store.list(&ListFilter::default()).unwrap().items {
                        let known = revisions.get(&state.id).copied().unwrap_or(0);
                        assert!(state.revision >= known, "{} is behind its events", state.id);
                    }
                    // Both are born and ended in one batch each.
                    let live: Vec<Arc<Subagent>> = store.live().unwrap().items;
                    assert!(live.len() == 2 || live.is_empty(), "{} of a pair", live.len());
                    assert!(store.head().unwrap() >= seen);
                    store.owed_count(None).unwrap();
                }
            });
        }
        let mut samples = Samples::default();
        for _ in 0..40 {
            let (one, two) = (samples.birth(), samples.birth());
            let (mut first, mut second) = (one.state.clone(), two.state.clone());
            store.commit(&[one, two]).unwrap();
            let commands: [fn(&Subagent) -> Command; 3] = [
                |_| Samples::claim(),
                |state| Command::Started { attempt: state.last_attempt, process: None },
                |state| Samples::conclude(state.last_attempt, Outcome::Completed, "done"),
            ];
            for command in commands {
                let steps = [&first, &second].map(|state| samples.step(state, &command(state)));
                (first, second) = (steps[0].state.clone(), steps[1].state.clone());
                store.commit(&steps).unwrap();
            }
        }
        done.store(true, Ordering::Release);
    });
}

fn turn(state: &Subagent) -> Command {
    Command::Progress {
        attempt: state.last_attempt,
        turns: 1,
        more: false,
        tool_uses: 0,
        compactions: 0,
        usage: None,
        position: None,
    }
}
