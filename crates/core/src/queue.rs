//! The queue of runs that wait for a slot: fair across requesters, first come first served within one. Holds tickets
//! only; which slots there are is the caller's number.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use subagent_model::{Requester, SubagentId, Timestamp};

/// Waiting runs. All operations cost at most the logarithm of its length.
#[derive(Debug, Default, Clone)]
pub struct Queue {
    /// Tickets of each requester in the order of arrival.
    lanes: BTreeMap<Requester, BTreeMap<u64, Ticket>>,
    /// Lane and place of each run.
    places: HashMap<SubagentId, (Requester, u64)>,
    /// Lanes by the turn in which each was served last: the one that waited longest comes first. Of those that were
    /// not served yet, or came back in the same turn, the one that arrived first.
    turns: BTreeSet<(Turn, Requester)>,
    served: HashMap<Requester, Turn>,
    arrivals: u64,
    turn: u64,
}

/// The turn in which a lane was served last, and the arrival that opened the lane.
type Turn = (u64, u64);

#[derive(Debug, Clone)]
struct Ticket {
    run: SubagentId,
    not_before: Option<Timestamp>,
}

impl Queue {
    /// Appends a run, or moves its not-before time if it waits already.
    pub fn push(&mut self, run: SubagentId, requester: &Requester, not_before: Option<Timestamp>) {
        if let Some((lane, place)) = self.places.get(&run) {
            if let Some(ticket) = self.lanes.get_mut(lane).and_then(|lane| lane.get_mut(place)) {
                ticket.not_before = not_before;
            }
            return;
        }
        self.arrivals += 1;
        let place = self.arrivals;
        self.lanes.entry(requester.clone()).or_default().insert(place, Ticket { run, not_before });
        self.places.insert(run, (requester.clone(), place));
        let turn = *self.served.entry(requester.clone()).or_insert((self.turn, place));
        self.turns.insert((turn, requester.clone()));
    }

    /// Takes a run out; false when it does not wait.
    pub fn remove(&mut self, run: SubagentId) -> bool {
        let Some((requester, place)) = self.places.remove(&run) else { return false };
        if let Some(lane) = self.lanes.get_mut(&requester) {
            lane.remove(&place);
            if lane.is_empty() {
                self.lanes.remove(&requester);
                if let Some(turn) = self.served.remove(&requester) {
                    self.turns.remove(&(turn, requester));
                }
            }
        }
        true
    }

    /// Takes the next run that may start at `now`: the first of the requester that was served longest ago.
    pub fn pop(&mut self, now: Timestamp) -> Option<SubagentId> {
        let (turn, requester, run) = self.turns.iter().find_map(|(turn, requester)| {
            let ready =
                self.lanes.get(requester)?.values().find(|t| t.not_before.is_none_or(|at| at <= now))?;
            Some((*turn, requester.clone(), ready.run))
        })?;
        self.turn += 1;
        let next = (self.turn, turn.1);
        self.turns.remove(&(turn, requester.clone()));
        self.turns.insert((next, requester.clone()));
        self.served.insert(requester, next);
        self.remove(run);
        Some(run)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The earliest time at which a delayed ticket becomes ready.
    pub fn next_ready(&self) -> Option<Timestamp> {
        self.lanes.values().flat_map(BTreeMap::values).filter_map(|ticket| ticket.not_before).min()
    }

    /// How many runs start before this one if nothing else arrives; `None` when it does not wait. Walks the queue.
    pub fn position(&self, run: SubagentId, now: Timestamp) -> Option<usize> {
        if !self.places.contains_key(&run) {
            return None;
        }
        let mut rest = self.clone();
        let mut ahead = 0;
        while let Some(next) = rest.pop(now) {
            if next == run {
                return Some(ahead);
            }
            ahead += 1;
        }
        // It is held by a not-before time: behind all that are ready.
        Some(ahead)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::Queue;
    use subagent_model::{Requester, SubagentId, Timestamp};

    fn id(n: u128) -> SubagentId {
        SubagentId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_flood_of_one_requester_does_not_hold_up_another() {
        let mut queue = Queue::default();
        for n in 0..100 {
            queue.push(id(n), &Requester::from("flood"), None);
        }
        queue.push(id(1000), &Requester::from("one"), None);
        assert_eq!(queue.position(id(1000), at(0)), Some(1));
        let first: Vec<_> = (0..3).map(|_| queue.pop(at(0)).unwrap()).collect();
        assert_eq!(first, [id(0), id(1000), id(1)]);
    }

    #[test]
    fn a_lane_that_comes_back_does_not_jump_ahead_by_having_been_away() {
        let mut queue = Queue::default();
        let (a, b) = (Requester::from("a"), Requester::from("b"));
        queue.push(id(1), &a, None);
        assert_eq!(queue.pop(at(0)), Some(id(1)));
        queue.push(id(2), &b, None);
        queue.push(id(3), &a, None);
        queue.push(id(4), &b, None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(0))).collect();
        assert_eq!(order.len(), 3);
        assert!(queue.is_empty() && queue.turns.is_empty() && queue.served.is_empty());
    }

    #[test]
    fn a_delayed_ticket_does_not_block_its_lane() {
        let mut queue = Queue::default();
        let lane = Requester::from("a");
        queue.push(id(1), &lane, Some(at(10)));
        queue.push(id(2), &lane, None);
        assert_eq!(queue.next_ready(), Some(at(10)));
        assert_eq!(queue.position(id(1), at(0)), Some(1));
        assert_eq!((queue.pop(at(0)), queue.pop(at(0)), queue.pop(at(10))), (Some(id(2)), None, Some(id(1))));
    }

    #[test]
    fn removed_runs_are_never_popped() {
        let mut queue = Queue::default();
        queue.push(id(1), &Requester::from("a"), None);
        assert!(queue.remove(id(1)) && !queue.remove(id(1)));
        assert_eq!(queue.pop(at(0)), None);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn queue_04_requesters_that_were_not_served_yet_come_in_the_order_of_arrival() {
        let mut queue = Queue::default();
        for (run, requester) in [(1, "z"), (2, "a"), (3, "z"), (4, "m")] {
            queue.push(id(run), &Requester::from(requester), None);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(0))).collect();
        assert_eq!(order, [id(1), id(2), id(4), id(3)]);
    }
}
