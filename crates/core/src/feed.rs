//! What a subscriber sees of the event log: a filter, and a bounded window that never makes the writer wait. A
//! subscriber that falls behind is told so once, with the position from which to read the log again; nothing is left
//! out in silence and nothing comes twice. Reading and sending are the shell's.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use subagent_model::{Cursor, Event, Requester, SubagentId};

/// Which events a subscriber wants. An empty set means all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Of these subagents.
    pub subagents: BTreeSet<SubagentId>,
    /// Of the trees with these roots.
    pub trees: BTreeSet<SubagentId>,
    /// Asked for by these requesters.
    pub requesters: BTreeSet<Requester>,
    /// Of these kinds, by their words on the wire.
    pub kinds: BTreeSet<String>,
}

impl Filter {
    /// True when `event` passes. `root` and `requester` are those of its subagent at that time.
    pub fn passes(&self, event: &Event, root: SubagentId, requester: &Requester) -> bool {
        let is_in = |set: &BTreeSet<SubagentId>, id| set.is_empty() || set.contains(&id);
        is_in(&self.subagents, event.subagent)
            && is_in(&self.trees, root)
            && (self.requesters.is_empty() || self.requesters.contains(requester))
            && (self.kinds.is_empty() || self.kinds.contains(event.kind.name()))
    }
}

/// What a subscriber is told next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told<T> {
    /// The next event that passed its filter.
    Event(T),
    /// It fell behind: what comes next must be read from the log, everything after this position. Until it has caught
    /// up it is told nothing else.
    Behind {
        /// The position.
        after: Cursor,
    },
}

/// The window of one subscriber over the log: bounded, and complete or honest about it.
///
/// Every committed event is offered, also one that its filter holds back, so that a gap can be seen. Feeding goes on
/// while the subscriber reads the log; `caught_up` joins both without gaps or doubles.
#[derive(Debug, Clone)]
pub struct Window<T> {
    capacity: usize,
    held: VecDeque<T>,
    /// The last position that is told or held.
    through: Cursor,
    /// The last position that was offered.
    head: Cursor,
    behind: bool,
}

impl<T> Window<T> {
    /// The window of a subscriber that has seen everything up to `after`, while the log has reached `head`. If that is
    /// further on, the subscriber begins behind.
    pub fn new(capacity: usize, after: Cursor, head: Cursor) -> Self {
        Self {
            capacity: capacity.max(1),
            held: VecDeque::new(),
            through: after,
            head: head.max(after),
            behind: head > after,
        }
    }

    /// Offers the event at `seq`, or nothing when the filter held it back. Never blocks and never grows over the bound.
    pub fn offer(&mut self, seq: Cursor, event: Option<T>) {
        if seq <= self.head {
            return;
        }
        let follows = seq.0 == self.head.0 + 1;
        self.head = seq;
        if self.behind {
            return;
        }
        match event {
            _ if !follows => self.behind = true,
            Some(_) if self.held.len() >= self.capacity => self.behind = true,
            Some(event) => {
                self.held.push_back(event);
                self.through = seq;
            }
            None => self.through = seq,
        }
    }

    /// What the subscriber is told next: what is held comes first, then that it fell behind.
    pub fn take(&mut self) -> Option<Told<T>> {
        if let Some(event) = self.held.pop_front() {
            return Some(Told::Event(event));
        }
        self.behind.then_some(Told::Behind { after: self.through })
    }

    /// The subscriber has read the log through `through`. It is up to date unless more was offered meanwhile.
    pub fn caught_up(&mut self, through: Cursor) {
        if through < self.through || !self.held.is_empty() {
            return;
        }
        self.through = through;
        self.head = self.head.max(through);
        self.behind = self.head > through;
    }

    /// True when a subscriber must read the log.
    pub fn is_behind(&self) -> bool {
        self.behind
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, Told, Window};
    use subagent_model::{
        AttemptNumber, Cursor, Event, EventKind, Requester, RunNumber, SubagentId, Timestamp,
    };

    fn drain(window: &mut Window<u64>) -> Vec<Told<u64>> {
        let mut told = vec![];
        while let Some(next) = window.take() {
            let behind = matches!(next, Told::Behind { .. });
            told.push(next);
            if behind {
                break;
            }
        }
        told
    }

    #[test]
    fn daemon_19_a_slow_subscriber_is_told_where_to_read_again() {
        let mut window = Window::new(2, Cursor(0), Cursor(0));
        for seq in 1..=5 {
            window.offer(Cursor(seq), Some(seq));
        }
        let behind = Told::Behind { after: Cursor(2) };
        assert_eq!(drain(&mut window), [Told::Event(1), Told::Event(2), behind]);
        // More comes while it reads the log.
        window.offer(Cursor(6), Some(6));
        window.caught_up(Cursor(5));
        assert_eq!(drain(&mut window), [Told::Behind { after: Cursor(5) }]);
        window.caught_up(Cursor(6));
        window.offer(Cursor(7), Some(7));
        assert_eq!(drain(&mut window), [Told::Event(7)]);
    }

    #[test]
    fn daemon_19_a_subscriber_with_an_old_position_begins_behind() {
        let mut window = Window::<u64>::new(2, Cursor(3), Cursor(9));
        assert_eq!(window.take(), Some(Told::Behind { after: Cursor(3) }));
        window.caught_up(Cursor(9));
        window.offer(Cursor(9), Some(9));
        assert_eq!(window.take(), None);
    }

    #[test]
    fn a_gap_is_seen_even_where_the_filter_held_events_back() {
        let mut window = Window::new(9, Cursor(0), Cursor(0));
        window.offer(Cursor(1), None);
        window.offer(Cursor(2), Some(2));
        window.offer(Cursor(4), None);
        assert_eq!(drain(&mut window), [Told::Event(2), Told::Behind { after: Cursor(2) }]);
    }

    #[test]
    fn every_part_of_a_filter_must_pass() {
        let id = |n| SubagentId::from_uuid(uuid::Uuid::from_u128(n));
        let kind = EventKind::Continued { attempt: AttemptNumber(1) };
        let event =
            Event { seq: Cursor(1), at: Timestamp::default(), subagent: id(2), run: RunNumber(1), kind };
        let (root, asked_by) = (id(1), Requester::from("user:1"));
        let passes = |filter: &Filter| filter.passes(&event, root, &asked_by);
        assert!(passes(&Filter::default()));
        let mut filter = Filter::default();
        filter.subagents.insert(id(2));
        filter.trees.insert(id(1));
        filter.requesters.insert(asked_by.clone());
        filter.kinds.insert("continued".into());
        assert!(passes(&filter));
        assert!(!passes(&Filter { subagents: [id(3)].into(), ..filter.clone() }));
        assert!(!passes(&Filter { trees: [id(2)].into(), ..filter.clone() }));
        assert!(!passes(&Filter { requesters: [Requester::from("x")].into(), ..filter.clone() }));
        assert!(!passes(&Filter { kinds: ["ended".into()].into(), ..filter }));
    }
}
