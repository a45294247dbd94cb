//! Events and records say the same.

use std::ops::Deref;
use std::sync::Arc;

use subagent_core::delivery;
use subagent_core::run::{Command, Phase, Subagent, decide, fold};
use subagent_model::{AttemptNumber, Cause, Cursor, Outcome, Requester, RunNumber, Timestamp, Usage};

use super::Samples;
use crate::{OwedRun, Store, Transition, audit};

/// Random lives in random batches: afterwards the events of each fold to its stored state, value for value.
pub fn events_fold_to_the_stored_state<H: Deref<Target: Store + Sized>>(make: impl Fn() -> H) {
    let store = make();
    let mut samples = Samples::default();
    let mut chance = Chance(0x5eed);
    let mut states: Vec<Arc<Subagent>> = Vec::new();
    for _ in 0..250 {
        let mut batch: Vec<Transition> = Vec::new();
        for _ in 0..=chance.below(6) {
            if states.is_empty() || chance.below(12) == 0 {
                let birth = if states.is_empty() || chance.below(2) == 0 {
                    samples.birth()
                } else {
                    let parent = chance.below(states.len());
                    samples.child(&states[parent])
                };
                states.push(Arc::clone(&birth.state));
                batch.push(birth);
                continue;
            }
            let which = chance.below(states.len());
            let state = &states[which];
            let now = samples.now();
            let Ok(facts) = decide(state, &command(&mut chance, state), now) else { continue };
            if facts.is_empty() {
                continue;
            }
            let step = Transition::step(state, facts, now).unwrap();
            states[which] = Arc::clone(&step.state);
            batch.push(step);
        }
        store.commit(&batch).unwrap();
    }
    let events = store.events(Cursor(0), u32::MAX).unwrap();
    assert!(events.len() > 300, "the lives are too short: {}", events.len());
    for state in &states {
        let own = events.iter().filter(|event| event.subagent == state.id);
        let folded = fold(own).unwrap();
        assert_eq!(folded.as_ref(), Some(&**state));
        assert_eq!(store.get(state.id).unwrap().as_ref(), Some(state));
    }
    // What is owed is what the states owe.
    let mut owed: Vec<_> = states.iter().flat_map(OwedRun::of).collect();
    owed.sort_by_key(OwedRun::place);
    assert!(owed.iter().any(|owed| owed.run < owed.state.run.number), "no earlier run is owed");
    assert_eq!(store.owed(None, None, u32::MAX).unwrap(), owed);
    assert_eq!(store.owed_count(None).unwrap(), owed.len() as u64);
    let boss = Requester::from("boss");
    let theirs = states.iter().flat_map(|state| delivery::owed(state)).filter(|owed| *owed.requester == boss);
    let theirs = theirs.count() as u64;
    assert!(theirs > 0, "nothing was escalated");
    assert_eq!(store.owed_count(Some(&boss)).unwrap(), theirs);
    let seen = audit(&*store).unwrap();
    assert_eq!(
        (seen.records, seen.events, seen.problems),
        (states.len() as u64, events.len() as u64, vec![])
    );
}

fn command(chance: &mut Chance, state: &Subagent) -> Command {
    let attempt = AttemptNumber(state.last_attempt.0.saturating_sub(u32::from(chance.below(8) == 0)));
    // Now and then a receipt for an earlier run.
    let run = RunNumber(state.run.number.0.saturating_sub(u32::from(chance.below(3) == 0)));
    let carrier = String::from("sse");
    match chance.below(18) {
        0 | 1 => Samples::claim(),
        2 | 3 => Command::Started { attempt, process: None },
        4 => Command::Renew { attempt, lease_until: Timestamp::never() },
        5 | 6 => {
            let cost_usd = Some(0.1 + 0.000_37 * f64::from(attempt.0));
            let used = Usage { input: 3, output: 5, cache_write: 7, cache_read: 11, total: 15, cost_usd };
            Command::Progress {
                attempt,
                turns: 1,
                more: false,
                tool_uses: 2,
                compactions: 0,
                usage: Some(used),
                position: None,
            }
        }
        7 => Command::Requeue {
            attempt,
            reason: String::from("no room"),
            exit: None,
            not_before: None,
            max_attempts: 3,
        },
        8 => {
            let conclusion = Samples::conclude(attempt, Outcome::Completed, "é漢🦀 \"done\"\n");
            match conclusion {
                Command::Conclude { attempt, conclusion, .. } => Command::Conclude {
                    attempt,
                    conclusion,
                    children_live: chance.below(2) == 0,
                    max_attempts: 3,
                },
                other => other,
            }
        }
        9 => Command::Stop { actor: String::from("me"), cause: Cause::Requested, drop_follow_ups: false },
        10 if matches!(state.run.phase, Phase::Waiting { .. }) => Command::ChildrenEnded { unread: 0 },
        10 => Command::Gone {
            attempt,
            evidence: String::from("nothing is left"),
            children_live: false,
            max_attempts: 3,
        },
        11 => Command::ClaimDelivery { run, carrier, until: Timestamp::never() },
        12 => Command::Acknowledge { run, by: state.requester.clone() },
        13..=15 => Samples::opened(attempt),
        16 => Command::Escalate { run, to: Requester::from("boss") },
        _ => Samples::resume(&state.requester),
    }
}

/// The same numbers each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}
