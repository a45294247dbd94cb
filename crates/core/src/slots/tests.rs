#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use subagent_model::{Requester, SubagentId, Timestamp};

use super::{CoolKey, Grant, Held, Holder, Slots};
use crate::admission::Limits;
use crate::queue::{Queue, Ticket};

fn id(n: usize) -> SubagentId {
    SubagentId::from_uuid(uuid::Uuid::from_u128(n as u128))
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// A run of provider `p`, below `ancestors`, nearest first.
fn ticket(n: usize, ancestors: &[usize]) -> Ticket {
    Ticket {
        run: id(n),
        requester: ancestors.first().map_or(Requester::from("me"), |parent| Requester::subagent(id(*parent))),
        provider: String::from("p"),
        model: None,
        account: None,
        not_before: None,
        ancestors: ancestors.iter().copied().map(id).collect(),
    }
}

fn of_provider(provider: &str, ticket: Ticket) -> Ticket {
    Ticket { provider: provider.to_owned(), ..ticket }
}

fn limits(running: u32) -> Limits {
    Limits { running, ..Limits::default() }
}

fn limited(running: u32, providers: &[(&str, u32)]) -> Limits {
    let per_provider = providers.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
    Limits { per_provider, ..limits(running) }
}

const OWN: Result<Grant, Held> = Ok(Grant { loan_from: None });

fn loan(from: usize) -> Grant {
    Grant { loan_from: Some(id(from)) }
}

fn full(limit: u32) -> Result<Grant, Held> {
    Err(Held::Running { limit })
}

fn provider_full(name: &str, limit: u32) -> Result<Grant, Held> {
    Err(Held::Provider { name: name.to_owned(), limit })
}

/// Starts a run that may.
fn start(slots: &mut Slots, ticket: &Ticket) -> Grant {
    let grant = slots.may_start(ticket, at(0)).unwrap();
    slots.take(Holder::from(ticket));
    grant
}

#[test]
fn the_running_limit_holds_and_an_end_makes_room() {
    let mut slots = Slots::new(&limits(2));
    for n in [1, 2] {
        assert_eq!(start(&mut slots, &ticket(n, &[])), Grant::default());
    }
    assert_eq!(slots.may_start(&ticket(3, &[]), at(0)), full(2));
    slots.take(Holder::from(&ticket(2, &[])));
    assert_eq!(slots.running(), 2, "taken twice is taken once");
    assert!(slots.free(id(1)) && !slots.free(id(1)));
    assert_eq!(slots.may_start(&ticket(3, &[]), at(0)), OWN);
}

#[test]
fn queue_02_a_lowered_limit_stops_nothing_and_a_limit_of_0_holds_all() {
    let mut slots = Slots::new(&limits(2));
    for n in [1, 2] {
        start(&mut slots, &ticket(n, &[]));
    }
    slots.set_limits(&limits(1));
    assert_eq!(slots.running(), 2);
    slots.free(id(1));
    assert_eq!(slots.may_start(&ticket(3, &[]), at(0)), full(1));
    slots.set_limits(&limits(3));
    assert_eq!(slots.may_start(&ticket(3, &[]), at(0)), OWN);
    let none = Slots::new(&limited(2, &[("p", 0)]));
    assert_eq!(none.may_start(&ticket(3, &[]), at(0)), provider_full("p", 0));
}

#[test]
fn queue_07_at_a_limit_of_1_a_chain_of_waiting_parents_does_not_deadlock() {
    let mut slots = Slots::new(&limits(1));
    start(&mut slots, &ticket(1, &[]));
    assert_eq!(slots.may_start(&ticket(2, &[1]), at(0)), full(1), "it works");
    assert!(slots.lend(id(1)));
    assert_eq!(slots.may_start(&ticket(9, &[]), at(0)), full(1), "a loan is for descendants");
    assert_eq!(start(&mut slots, &ticket(2, &[1])).loan_from, Some(id(1)));
    assert_eq!((slots.running(), slots.lender_of(id(2))), (1, Some(id(1))));
    assert_eq!(slots.may_start(&ticket(3, &[1]), at(0)), full(1), "one at a time");
    slots.lend(id(2));
    assert_eq!(start(&mut slots, &ticket(4, &[2, 1])).loan_from, Some(id(2)), "the loan is lent on");
    slots.lend(id(4));
    assert_eq!(slots.may_start(&ticket(5, &[4, 2, 1]), at(0)), Ok(loan(4)));
    assert_eq!(slots.may_start(&ticket(3, &[1]), at(0)), full(1));
    slots.free(id(4));
    slots.reclaim(id(2));
    slots.free(id(2));
    assert_eq!(slots.may_start(&ticket(3, &[1]), at(0)), Ok(loan(1)), "free for another descendant");
    slots.reclaim(id(1));
    assert_eq!((slots.running(), slots.may_start(&ticket(3, &[1]), at(0))), (1, full(1)));
}

#[test]
fn queue_07_a_loan_is_taken_only_where_there_is_no_other_room() {
    let mut slots = Slots::new(&limits(2));
    start(&mut slots, &ticket(1, &[]));
    slots.lend(id(1));
    assert_eq!(start(&mut slots, &ticket(2, &[1])).loan_from, None);
    assert_eq!((slots.running(), slots.may_start(&ticket(9, &[]), at(0))), (2, full(2)));
    assert_eq!(slots.may_start(&ticket(3, &[1]), at(0)), Ok(loan(1)));
}

#[test]
fn queue_07_a_lender_that_goes_on_leaves_its_borrower_running_and_nothing_new_starts() {
    let mut slots = Slots::new(&limits(1));
    start(&mut slots, &ticket(1, &[]));
    slots.lend(id(1));
    start(&mut slots, &ticket(2, &[1]));
    slots.reclaim(id(1));
    assert_eq!((slots.running(), slots.lender_of(id(2))), (2, None));
    slots.lend(id(2));
    assert_eq!(slots.may_start(&ticket(3, &[2, 1]), at(0)), full(1), "no more work than the limit");
    slots.reclaim(id(2));
    slots.lend(id(1));
    assert_eq!((slots.running(), slots.lender_of(id(2))), (1, Some(id(1))), "it waits again");
    slots.free(id(1));
    assert_eq!((slots.running(), slots.may_start(&ticket(9, &[]), at(0))), (1, full(1)));
}

#[test]
fn queue_07_the_end_of_one_in_the_middle_leaves_its_borrower_to_the_lender_above() {
    let mut slots = Slots::new(&limits(1));
    for (n, above) in [(1, &[][..]), (2, &[1]), (3, &[2, 1])] {
        start(&mut slots, &ticket(n, above));
        slots.lend(id(n));
    }
    slots.free(id(2));
    assert_eq!((slots.running(), slots.lender_of(id(3))), (1, Some(id(1))));
}

#[test]
fn queue_07_parents_over_a_lowered_limit_still_get_their_children_one_by_one() {
    let mut slots = Slots::new(&limits(2));
    for n in [1, 2] {
        start(&mut slots, &ticket(n, &[]));
        slots.lend(id(n));
    }
    slots.set_limits(&limits(1));
    assert_eq!(start(&mut slots, &ticket(3, &[1])).loan_from, Some(id(1)));
    assert_eq!(slots.may_start(&ticket(4, &[2]), at(0)), full(1));
    slots.free(id(3));
    assert_eq!(slots.may_start(&ticket(4, &[2]), at(0)), Ok(loan(2)));
}

#[test]
fn queue_08_limits_of_providers_and_models_stand_beside_the_running_limit() {
    let per_model = BTreeMap::from([(String::from("big"), 1)]);
    let mut slots = Slots::new(&Limits { per_model, ..limited(9, &[("p", 2)]) });
    let big = |n, provider| Ticket { model: Some("big".into()), ..of_provider(provider, ticket(n, &[])) };
    start(&mut slots, &ticket(1, &[]));
    start(&mut slots, &big(2, "p"));
    assert_eq!(slots.may_start(&ticket(3, &[]), at(0)), provider_full("p", 2));
    let big_full = Err(Held::Model { name: "big".into(), limit: 1 });
    assert_eq!(slots.may_start(&big(4, "q"), at(0)), big_full);
    let small = Ticket { model: Some("small".into()), ..of_provider("q", ticket(5, &[])) };
    assert_eq!(slots.may_start(&small, at(0)), OWN);
    slots.free(id(2));
    assert_eq!(slots.may_start(&big(4, "q"), at(0)), OWN);
    assert_eq!((slots.models.len(), slots.providers.len()), (0, 1), "nothing stays of what has ended");
}

#[test]
fn queue_07_a_place_at_a_provider_is_lent_as_well() {
    let mut slots = Slots::new(&limited(9, &[("p", 1)]));
    start(&mut slots, &ticket(1, &[]));
    slots.lend(id(1));
    start(&mut slots, &of_provider("q", ticket(2, &[1])));
    slots.lend(id(2));
    assert_eq!(start(&mut slots, &ticket(3, &[2, 1])).loan_from, Some(id(1)), "over one of another provider");
    assert_eq!(slots.may_start(&ticket(4, &[1]), at(0)), provider_full("p", 1));
    assert_eq!(slots.running(), 3, "running slots there are enough");
}

#[test]
fn queue_07_two_trees_do_not_wait_for_each_others_provider() {
    let mut slots = Slots::new(&limited(9, &[("p", 1), ("q", 1)]));
    start(&mut slots, &ticket(1, &[]));
    start(&mut slots, &of_provider("q", ticket(2, &[])));
    let (of_1, of_2) = (of_provider("q", ticket(3, &[1])), ticket(4, &[2]));
    slots.lend(id(1));
    assert_eq!(slots.may_start(&of_1, at(0)), provider_full("q", 1), "2 works");
    slots.lend(id(2));
    start(&mut slots, &of_1);
    start(&mut slots, &of_2);
    assert_eq!(slots.may_start(&ticket(5, &[]), at(0)), provider_full("p", 1), "one at a time");
}

#[test]
fn queue_19_a_cool_down_holds_what_it_covers_until_its_latest_end() {
    let mut slots = Slots::new(&limits(9));
    let key = |account: Option<&str>, model: Option<&str>| CoolKey {
        provider: "p".into(),
        account: account.map(Into::into),
        model: model.map(Into::into),
    };
    let of = |account: Option<&str>, model: Option<&str>| Ticket {
        account: account.map(Into::into),
        model: model.map(Into::into),
        ..ticket(1, &[])
    };
    let held = |until| Err(Held::CoolDown { until: at(until) });
    slots.cool_down(key(Some("a"), Some("big")), at(20), at(0));
    slots.cool_down(key(Some("a"), Some("big")), at(10), at(0));
    slots.cool_down(key(Some("b"), None), at(30), at(0));
    assert_eq!(slots.may_start(&of(Some("a"), Some("big")), at(19)), held(20));
    assert_eq!(slots.may_start(&of(Some("a"), Some("big")), at(20)), OWN);
    assert_eq!(slots.may_start(&of(Some("a"), Some("small")), at(0)), OWN);
    assert_eq!(slots.may_start(&of(Some("a"), None), at(0)), OWN);
    assert_eq!(slots.may_start(&of(Some("b"), Some("big")), at(0)), held(30));
    assert_eq!(slots.may_start(&of(Some("b"), None), at(0)), held(30));
    assert_eq!(slots.may_start(&of_provider("q", of(Some("b"), None)), at(0)), OWN);
    assert_eq!([0, 20, 30].map(|now| slots.next_ready(at(now))), [Some(at(20)), Some(at(30)), None]);
    slots.cool_down(key(None, None), at(50), at(40));
    assert_eq!(slots.may_start(&of(Some("c"), Some("any")), at(40)), held(50));
    assert_eq!(slots.cool_downs.len(), 1, "what is over is forgotten");
}

#[test]
fn queue_08_the_next_one_passes_over_what_is_held_in_order() {
    let mut slots = Slots::new(&limited(2, &[("p", 1)]));
    let mut queue = Queue::default();
    start(&mut slots, &ticket(1, &[]));
    for n in [2, 3] {
        queue.push(ticket(n, &[]));
    }
    queue.push(of_provider("q", ticket(4, &[])));
    queue.push(ticket(5, &[1]));
    let (next, grant) = slots.next(&mut queue, at(0)).unwrap();
    assert_eq!((next.run, grant), (id(4), Grant::default()));
    slots.take(Holder::from(&next));
    assert_eq!(slots.next(&mut queue, at(0)), None);
    slots.lend(id(1));
    let (next, grant) = slots.next(&mut queue, at(0)).unwrap();
    assert_eq!((next.run, grant.loan_from), (id(5), Some(id(1))));
    slots.take(Holder::from(&next));
    slots.free(id(5));
    slots.free(id(1));
    assert_eq!(slots.next(&mut queue, at(0)).map(|(next, _)| next.run), Some(id(2)));
}

#[derive(Debug, Clone)]
enum Step {
    /// A run is queued below the one with this number, if that is there.
    Spawn {
        parent: Option<usize>,
        provider: usize,
        model: bool,
    },
    StartNext,
    Lend(usize),
    Reclaim(usize),
    End(usize),
    Limit(u32),
    LimitOfP(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let run = 0..24_usize;
    let step = prop_oneof![
        6 => (prop::option::weighted(0.7, run.clone()), 0..2_usize, any::<bool>())
            .prop_map(|(parent, provider, model)| Step::Spawn { parent, provider, model }),
        8 => Just(Step::StartNext),
        5 => run.clone().prop_map(Step::Lend),
        2 => run.clone().prop_map(Step::Reclaim),
        2 => run.prop_map(Step::End),
        1 => (1..5_u32).prop_map(Step::Limit),
        1 => (1..4_u32).prop_map(Step::LimitOfP),
    ];
    prop::collection::vec(step, 0..80)
}

/// What is known without `Slots`: all runs by number, who holds, who waits.
#[derive(Default)]
struct Truth {
    runs: Vec<Ticket>,
    holders: BTreeSet<usize>,
    waiting: BTreeSet<usize>,
}

impl Truth {
    /// Work beyond each limit: in all, of each provider, of the model.
    fn excess(&self, limits: &Limits) -> Vec<u32> {
        let work = |counts: &dyn Fn(&Ticket) -> bool, limit: u32| {
            let working = self.holders.difference(&self.waiting).filter(|n| counts(&self.runs[**n])).count();
            u32::try_from(working).unwrap().saturating_sub(limit)
        };
        let mut found = vec![work(&|_| true, limits.running)];
        for (name, limit) in &limits.per_provider {
            found.push(work(&|run| run.provider == *name, *limit));
        }
        for (name, limit) in &limits.per_model {
            found.push(work(&|run| run.model.as_ref() == Some(name), *limit));
        }
        found
    }

    fn live(&self) -> Vec<(Holder, bool)> {
        self.holders.iter().map(|n| (Holder::from(&self.runs[*n]), self.waiting.contains(n))).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn invariant_9_work_exceeds_a_limit_only_by_lenders_that_go_on(steps in steps()) {
        let per_model = BTreeMap::from([(String::from("big"), 2)]);
        let mut limits = Limits { per_model, ..limited(2, &[("p", 2), ("q", 1)]) };
        let mut slots = Slots::new(&limits);
        let mut queue = Queue::default();
        let mut truth = Truth::default();
        for step in steps {
            let before = truth.excess(&limits);
            let may_exceed = matches!(step, Step::Reclaim(_) | Step::Limit(_) | Step::LimitOfP(_));
            match step {
                Step::Spawn { parent, provider, model } => {
                    let n = truth.runs.len();
                    let above = parent.filter(|parent| truth.holders.contains(parent));
                    let mut new = of_provider(["p", "q"][provider], ticket(n, &[]));
                    new.model = model.then(|| "big".into());
                    if let Some(parent) = above {
                        let parent = &truth.runs[parent];
                        new.ancestors = std::iter::once(parent.run).chain(parent.ancestors.clone()).collect();
                        new.requester = Requester::subagent(parent.run);
                    }
                    queue.push(new.clone());
                    truth.runs.push(new);
                }
                Step::StartNext => {
                    let mut other = queue.clone();
                    let slow = other.pop_fitting(at(0), |ticket| slots.may_start(ticket, at(0)).is_ok());
                    let next = slots.next(&mut queue, at(0));
                    prop_assert_eq!(next.as_ref().map(|(ticket, _)| ticket), slow.as_ref());
                    if let Some((ticket, _)) = next {
                        slots.take(Holder::from(&ticket));
                        truth.holders.insert(truth.runs.iter().position(|run| run.run == ticket.run).unwrap());
                    }
                }
                Step::Lend(n) => {
                    let holds = truth.holders.contains(&n);
                    prop_assert_eq!(slots.lend(id(n)), holds);
                    truth.waiting.extend(holds.then_some(n));
                }
                Step::Reclaim(n) => {
                    slots.reclaim(id(n));
                    truth.waiting.remove(&n);
                }
                Step::End(n) => {
                    prop_assert_eq!(slots.free(id(n)), truth.holders.remove(&n));
                    truth.waiting.remove(&n);
                }
                Step::Limit(limit) => {
                    limits.running = limit;
                    slots.set_limits(&limits);
                }
                Step::LimitOfP(limit) => {
                    limits.per_provider.insert("p".into(), limit);
                    slots.set_limits(&limits);
                }
            }
            let after = truth.excess(&limits);
            if !may_exceed {
                prop_assert!(after.iter().zip(&before).all(|(after, before)| after <= before), "{after:?}");
            }
            let working = truth.holders.len() - truth.waiting.len();
            prop_assert!((working..=truth.holders.len()).contains(&(slots.running() as usize)));
            // A restart deals the loans out anew, and never fewer than are needed.
            let rebuilt = Slots::rebuilt(&limits, truth.live());
            if slots.running() <= limits.running {
                prop_assert!(rebuilt.running() <= limits.running);
            }
            // No deadlock: when all wait, a child of one that waits for no other holder finds room, whatever it is of.
            if working == 0 && !truth.holders.is_empty() {
                let above_some = |n: &&usize| {
                    truth.holders.iter().any(|other| truth.runs[*other].ancestors.contains(&id(**n)))
                };
                for n in truth.holders.iter().filter(|n| !above_some(n)) {
                    for provider in ["p", "q"] {
                        let mut child = of_provider(provider, ticket(999, &[*n]));
                        child.ancestors.extend(truth.runs[*n].ancestors.clone());
                        child.model = Some("big".into());
                        for slots in [&slots, &rebuilt] {
                            prop_assert!(slots.may_start(&child, at(0)).is_ok());
                        }
                    }
                }
            }
        }
    }
}
