#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use subagent_model::{Requester, SubagentId, Timestamp};

use super::{Queue, Ticket};

fn id(n: u128) -> SubagentId {
    SubagentId::from_uuid(uuid::Uuid::from_u128(n))
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn ticket(n: u128, requester: &str) -> Ticket {
    Ticket {
        run: id(n),
        requester: Requester::from(requester),
        provider: String::from("p"),
        model: None,
        account: None,
        not_before: None,
        ancestors: vec![],
    }
}

fn delayed(n: u128, requester: &str, seconds: i64) -> Ticket {
    Ticket { not_before: Some(at(seconds)), ..ticket(n, requester) }
}

fn of_provider(n: u128, requester: &str, provider: &str) -> Ticket {
    Ticket { provider: provider.to_owned(), ..ticket(n, requester) }
}

fn drained(mut queue: Queue, now: Timestamp) -> Vec<SubagentId> {
    std::iter::from_fn(|| queue.pop(now)).map(|ticket| ticket.run).collect()
}

fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<SubagentId> {
    numbers.into_iter().map(id).collect()
}

#[test]
fn a_flood_of_one_requester_does_not_hold_up_another() {
    let mut queue = Queue::default();
    for n in 0..100 {
        queue.push(ticket(n, "flood"));
    }
    queue.push(ticket(1000, "one"));
    assert_eq!(queue.position(id(1000), at(0)), Some(1));
    assert_eq!(drained(queue, at(0))[..3], ids([0, 1000, 1]));
}

#[test]
fn a_lane_that_comes_back_does_not_jump_ahead_by_having_been_away() {
    let mut queue = Queue::default();
    queue.push(ticket(1, "a"));
    assert_eq!(queue.pop(at(0)).unwrap().run, id(1));
    queue.push(ticket(2, "b"));
    queue.push(ticket(3, "a"));
    queue.push(ticket(4, "b"));
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(0))).map(|ticket| ticket.run).collect();
    assert_eq!(order, ids([2, 3, 4]));
    assert!(queue.is_empty() && queue.turns.is_empty() && queue.lanes.is_empty());
}

#[test]
fn a_delayed_ticket_does_not_block_its_lane() {
    let mut queue = Queue::default();
    queue.push(delayed(1, "a", 10));
    queue.push(ticket(2, "a"));
    assert_eq!((queue.next_ready(at(0)), queue.next_ready(at(10))), (Some(at(10)), None));
    assert_eq!(queue.position(id(1), at(0)), Some(1));
    assert_eq!(queue.position(id(1), at(10)), Some(0), "it came first");
    assert_eq!(queue.pop(at(0)).unwrap().run, id(2));
    assert_eq!(queue.pop(at(9)), None);
    assert_eq!(queue.pop(at(10)).unwrap().run, id(1));
}

#[test]
fn a_second_push_moves_the_time_and_nothing_else() {
    let mut queue = Queue::default();
    queue.push(ticket(1, "a"));
    queue.push(ticket(2, "a"));
    queue.push(delayed(1, "b", 10));
    assert_eq!((queue.len(), queue.position(id(1), at(0))), (2, Some(1)));
    queue.push(ticket(1, "b"));
    assert_eq!(queue.get(id(1)), Some(&ticket(1, "a")));
    assert_eq!(drained(queue, at(0)), ids([1, 2]));
}

#[test]
fn removed_runs_are_never_popped() {
    let mut queue = Queue::default();
    queue.push(ticket(1, "a"));
    queue.push(delayed(2, "a", 5));
    assert!(queue.remove(id(1)).is_some() && queue.remove(id(1)).is_none());
    assert!(queue.remove(id(2)).is_some());
    assert_eq!((queue.pop(at(9)), queue.next_ready(at(0)), queue.len()), (None, None, 0));
}

#[test]
fn queue_04_requesters_that_were_not_served_yet_come_in_the_order_of_arrival() {
    let mut queue = Queue::default();
    for (run, requester) in [(1, "z"), (2, "a"), (3, "z"), (4, "m")] {
        queue.push(ticket(run, requester));
    }
    assert_eq!(drained(queue, at(0)), ids([1, 2, 4, 3]));
}

#[test]
fn queue_08_a_ticket_that_does_not_fit_blocks_neither_its_lane_nor_others() {
    let mut queue = Queue::default();
    for (run, requester, provider) in
        [(1, "a", "full"), (2, "a", "p"), (3, "b", "full"), (4, "b", "p"), (5, "a", "q"), (6, "c", "full")]
    {
        queue.push(of_provider(run, requester, provider));
    }
    let mut next = |fits: fn(&Ticket) -> bool| queue.pop_fitting(at(0), fits).map(|ticket| ticket.run);
    let room = |ticket: &Ticket| ticket.provider != "full";
    assert_eq!([next(room), next(room), next(room)], [Some(id(2)), Some(id(4)), Some(id(5))]);
    assert_eq!(next(room), None);
    // Among themselves they kept their order: c was never served, then b, then a.
    assert_eq!([next(|_| true), next(|_| true), next(|_| true)], [Some(id(6)), Some(id(3)), Some(id(1))]);
}

#[test]
fn a_full_kind_is_asked_about_once() {
    let mut queue = Queue::default();
    for n in 0..10_000 {
        queue.push(of_provider(n, if n % 2 == 0 { "a" } else { "b" }, "full"));
    }
    queue.push(of_provider(10_000, "b", "p"));
    let mut asked = 0;
    let choice = queue.first_by_kind(|ticket| {
        asked += 1;
        ticket.provider != "full"
    });
    assert_eq!(queue.take(choice.unwrap()).unwrap().run, id(10_000));
    assert_eq!(asked, 2);
}

#[test]
fn below_an_ancestor_the_order_is_the_queues() {
    let mut queue = Queue::default();
    let below = |n, requester: &str, above: &[u128]| Ticket {
        ancestors: above.iter().copied().map(id).collect(),
        ..ticket(n, requester)
    };
    queue.push(ticket(1, "a"));
    queue.push(below(2, "b", &[90]));
    queue.push(below(3, "a", &[91, 90]));
    queue.push(Ticket { not_before: Some(at(9)), ..below(4, "a", &[91]) });
    assert_eq!(queue.pop(at(0)).unwrap().run, id(1));
    let found = |queue: &mut Queue, above: &[u128]| {
        let choice = queue.first_below(above.iter().copied().map(id), |_| true);
        choice.and_then(|choice| queue.take(choice)).map(|ticket| ticket.run)
    };
    assert_eq!(found(&mut queue, &[91, 90]), Some(id(2)), "b was not served yet");
    assert_eq!(found(&mut queue, &[92]), None);
    assert_eq!(found(&mut queue, &[91]), Some(id(3)));
    assert_eq!(found(&mut queue, &[90, 91]), None, "what is left is delayed");
    queue.ripen(at(9));
    assert_eq!(found(&mut queue, &[91]), Some(id(4)));
    assert!(queue.below.is_empty());
}

/// What happens to a queue, each at a time of its own.
#[derive(Debug, Clone)]
enum Step {
    Arrive { requester: usize, delay: Option<i64>, kind: usize },
    Pop,
    PopKind(usize),
    Remove(usize),
}

const REQUESTERS: [&str; 4] = ["a", "b", "c", "d"];
const PROVIDERS: [&str; 3] = ["p", "q", "r"];

fn steps(with_removals: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..4_usize, prop::option::weighted(0.2, 0..40_i64), 0..3_usize)
            .prop_map(|(requester, delay, kind)| Step::Arrive { requester, delay, kind }),
        3 => Just(Step::Pop),
        2 => (0..3_usize).prop_map(Step::PopKind),
        u32::from(with_removals) => (0..60_usize).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..60)
}

/// The queue after the steps, beside what records would tell: since when each run waits, and when each requester was
/// served last. The first step is at second 1, and so on.
type Replayed = (Queue, BTreeMap<SubagentId, (Timestamp, Ticket)>, BTreeMap<Requester, Timestamp>);

fn replay(steps: &[Step]) -> Replayed {
    let (mut queue, mut waiting, mut served) = Replayed::default();
    for (n, step) in (1_u32..).zip(steps) {
        let now = at(n.into());
        let popped = match step {
            Step::Arrive { requester, delay, kind } => {
                let new = Ticket {
                    not_before: delay.map(|delay| at(i64::from(n) + delay)),
                    ..of_provider(n.into(), REQUESTERS[*requester], PROVIDERS[*kind])
                };
                queue.push(new.clone());
                waiting.insert(new.run, (now, new));
                None
            }
            Step::Pop => queue.pop(now),
            Step::PopKind(kind) => queue.pop_fitting(now, |ticket| ticket.provider == PROVIDERS[*kind]),
            Step::Remove(run) => {
                assert_eq!(
                    queue.remove(id(*run as u128)).is_some(),
                    waiting.remove(&id(*run as u128)).is_some()
                );
                None
            }
        };
        if let Some(ticket) = popped {
            assert!(waiting.remove(&ticket.run).is_some_and(|(_, was)| was.not_before <= Some(now)));
            served.insert(ticket.requester, now);
        }
    }
    (queue, waiting, served)
}

proptest! {
    #[test]
    fn queue_04_the_position_is_how_many_start_before(steps in steps(true)) {
        let (queue, waiting, _) = replay(&steps);
        prop_assert_eq!(queue.len(), waiting.len());
        for now in [at(30), at(60), at(100)] {
            let order = drained(queue.clone(), now);
            let all = queue.order(now);
            prop_assert_eq!((&all[..order.len()], all.len()), (&order[..], queue.len()));
            let late: Vec<_> = all[order.len()..].iter().map(|run| waiting[run].1.not_before).collect();
            prop_assert!(late.is_sorted() && late.iter().all(|at| *at > Some(now)));
            for run in waiting.keys() {
                let place = order.iter().position(|other| other == run).unwrap_or(order.len());
                prop_assert_eq!(queue.position(*run, now), Some(place));
            }
        }
    }

    #[test]
    fn queue_04_a_restart_keeps_the_order(steps in steps(false)) {
        let (queue, waiting, served) = replay(&steps);
        let rebuilt = Queue::rebuilt(waiting.into_values(), &served);
        for now in [at(60), at(100)] {
            prop_assert_eq!(drained(queue.clone(), now), drained(rebuilt.clone(), now));
        }
    }

    #[test]
    fn asking_by_kind_finds_what_asking_about_each_finds(steps in steps(true), open in 0..8_usize) {
        let (mut queue, ..) = replay(&steps);
        let fits = |ticket: &Ticket| (0..3).any(|n| open & (1 << n) != 0 && ticket.provider == PROVIDERS[n]);
        let mut other = queue.clone();
        other.ripen(at(80));
        let by_kind = other.first_by_kind(fits).and_then(|choice| other.take(choice));
        prop_assert_eq!(queue.pop_fitting(at(80), fits), by_kind);
    }
}
