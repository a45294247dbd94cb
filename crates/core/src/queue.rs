//! The queue of runs that wait for a slot: fair across requesters, first come first served within one. Holds tickets
//! only; which slots there are, and whom they fit, is `slots`'. A ticket that does not fit holds up no other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use subagent_model::{Requester, SubagentId, Timestamp};

/// A run that waits, with all that its turn depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The run's subagent.
    pub run: SubagentId,
    /// Who asked for it: its lane.
    pub requester: Requester,
    /// How its child is driven.
    pub provider: String,
    /// Its model, if it names one.
    pub model: Option<String>,
    /// The account it will use, if that is known.
    pub account: Option<String>,
    /// It does not start before.
    pub not_before: Option<Timestamp>,
    /// Its ancestors, nearest first: one that waits may lend it a slot.
    pub ancestors: Vec<SubagentId>,
}

/// Waiting runs. All operations cost at most the logarithm of its length, times the number of lanes and kinds.
#[derive(Debug, Default, Clone)]
pub struct Queue {
    /// All tickets by the number of their arrival.
    tickets: BTreeMap<u64, Ticket>,
    places: HashMap<SubagentId, u64>,
    lanes: BTreeMap<Requester, Lane>,
    /// Lanes by the turn in which each was served last: the one that waited longest comes first. Of those that were
    /// not served yet, or came back in the same turn, the one that arrived first.
    turns: BTreeSet<(Turn, Requester)>,
    /// Tickets that are not ready, by their time.
    delayed: BTreeSet<(Timestamp, u64)>,
    /// Tickets below each ancestor.
    below: BTreeMap<SubagentId, BTreeSet<u64>>,
    arrivals: u64,
    turn: u64,
}

/// The turn in which a lane was served last, and the arrival that opened the lane.
type Turn = (u64, u64);

/// The tickets of one requester.
#[derive(Debug, Clone)]
struct Lane {
    turn: Turn,
    /// What may start by its time, in order of arrival. Apart by kind, so that many tickets of a kind for which there
    /// is no room are passed over in one step.
    ready: BTreeMap<Kind, BTreeSet<u64>>,
    /// All of its tickets, the delayed ones too.
    waiting: usize,
}

/// What decides about room beside the run itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    provider: String,
    model: Option<String>,
    account: Option<String>,
}

impl Kind {
    fn of(ticket: &Ticket) -> Self {
        Self {
            provider: ticket.provider.clone(),
            model: ticket.model.clone(),
            account: ticket.account.clone(),
        }
    }
}

/// A ticket that was found. Of two, the smaller one is first by the rules of the queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    turn: Turn,
    requester: Requester,
    place: u64,
}

impl Queue {
    /// The queue as it was before a restart, as far as records tell. Tickets come with the time since which they wait;
    /// of the same time, the one with the smaller id is first. `served` is when a run of a requester was last given a
    /// slot.
    pub fn rebuilt(
        tickets: impl IntoIterator<Item = (Timestamp, Ticket)>,
        served: &BTreeMap<Requester, Timestamp>,
    ) -> Self {
        let mut tickets: Vec<_> = tickets.into_iter().collect();
        tickets.sort_by_key(|(since, ticket)| (*since, ticket.run));
        let mut queue = Self::default();
        let mut opened: BTreeMap<Requester, Timestamp> = BTreeMap::new();
        for (since, ticket) in tickets {
            opened.entry(ticket.requester.clone()).or_insert(since);
            queue.push(ticket);
        }
        // A lane stands where it was served last, or where it was opened if that was later.
        let mut order: Vec<_> = queue
            .turns
            .iter()
            .map(|(turn, requester)| {
                (
                    opened.get(requester).copied().max(served.get(requester).copied()),
                    turn.1,
                    requester.clone(),
                )
            })
            .collect();
        order.sort();
        queue.turns.clear();
        for (_, opening, requester) in order {
            queue.turn += 1;
            if let Some(lane) = queue.lanes.get_mut(&requester) {
                lane.turn = (queue.turn, opening);
                queue.turns.insert((lane.turn, requester));
            }
        }
        queue
    }

    /// Appends a run. If it waits already, only its not-before time is moved.
    pub fn push(&mut self, ticket: Ticket) {
        if let Some(place) = self.places.get(&ticket.run).copied() {
            self.set_not_before(place, ticket.not_before);
            return;
        }
        self.arrivals += 1;
        let place = self.arrivals;
        let opened = (self.turn, place);
        let lane = self.lanes.entry(ticket.requester.clone()).or_insert_with(|| {
            self.turns.insert((opened, ticket.requester.clone()));
            Lane { turn: opened, ready: BTreeMap::new(), waiting: 0 }
        });
        lane.waiting += 1;
        self.places.insert(ticket.run, place);
        for ancestor in &ticket.ancestors {
            self.below.entry(*ancestor).or_default().insert(place);
        }
        self.tickets.insert(place, ticket);
        self.line_up(place);
    }

    /// Takes a run out; `None` when it does not wait.
    pub fn remove(&mut self, run: SubagentId) -> Option<Ticket> {
        let place = self.places.remove(&run)?;
        self.step_out(place);
        let ticket = self.tickets.remove(&place)?;
        for ancestor in &ticket.ancestors {
            if let Some(places) = self.below.get_mut(ancestor) {
                places.remove(&place);
                if places.is_empty() {
                    self.below.remove(ancestor);
                }
            }
        }
        if let Some(lane) = self.lanes.get_mut(&ticket.requester) {
            lane.waiting -= 1;
            if lane.waiting == 0 {
                self.turns.remove(&(lane.turn, ticket.requester.clone()));
                self.lanes.remove(&ticket.requester);
            }
        }
        Some(ticket)
    }

    /// Takes the next run that may start at `now`: the first of the requester that was served longest ago.
    pub fn pop(&mut self, now: Timestamp) -> Option<Ticket> {
        self.pop_fitting(now, |_| true)
    }

    /// Takes the next run that may start at `now` and fits: the first fitting one of the requester that was served
    /// longest ago and has a fitting one. Asks about each ticket on the way; [`crate::slots::Slots::next`] finds the
    /// same one with fewer questions.
    pub fn pop_fitting(&mut self, now: Timestamp, mut fits: impl FnMut(&Ticket) -> bool) -> Option<Ticket> {
        self.ripen(now);
        let mut fits = |place: u64| self.tickets.get(&place).is_some_and(&mut fits);
        let choice = self.turns.iter().find_map(|(turn, requester)| {
            let mut first: Option<u64> = None;
            for (_, places) in self.lanes.get(requester)?.by_arrival() {
                let mut ahead = places.iter().copied().take_while(|place| first.is_none_or(|it| *place < it));
                if let Some(place) = ahead.find(|place| fits(*place)) {
                    first = Some(place);
                }
            }
            Some(Choice { turn: *turn, requester: requester.clone(), place: first? })
        })?;
        self.take(choice)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The ticket of a run that waits.
    pub fn get(&self, run: SubagentId) -> Option<&Ticket> {
        self.tickets.get(self.places.get(&run)?)
    }

    /// The earliest time after `now` at which a delayed ticket becomes ready.
    pub fn next_ready(&self, now: Timestamp) -> Option<Timestamp> {
        self.delayed.range((now, u64::MAX)..).next().map(|(at, _)| *at)
    }

    /// How many runs start before this one if nothing else arrives and each fits when its turn comes; `None` when it
    /// does not wait. One that is delayed comes behind all that are ready. Costs the length of its lane.
    pub fn position(&self, run: SubagentId, now: Timestamp) -> Option<usize> {
        let place = *self.places.get(&run)?;
        let ticket = self.tickets.get(&place)?;
        // What became ready since the last start still stands among the delayed.
        let ripe: Vec<_> = self
            .delayed
            .range(..=(now, u64::MAX))
            .filter_map(|(_, place)| Some((*place, &self.tickets.get(place)?.requester)))
            .collect();
        let mut ready: BTreeMap<&Requester, usize> =
            self.lanes.iter().map(|(requester, lane)| (requester, lane.ready_count(u64::MAX))).collect();
        for (_, requester) in &ripe {
            *ready.entry(requester).or_default() += 1;
        }
        if ticket.not_before.is_some_and(|at| at > now) {
            return Some(ready.values().sum());
        }
        // Lanes are served in turns, so each other one is served as often as this one, or once more if it comes first.
        let lane = self.lanes.get(&ticket.requester)?;
        let own = lane.ready_count(place)
            + ripe.iter().filter(|(other, lane)| *other < place && **lane == ticket.requester).count();
        let mine = (lane.turn, &ticket.requester);
        let others = self.turns.iter().filter(|(_, requester)| *requester != ticket.requester);
        let ahead = others.map(|(turn, requester)| {
            let rounds = own + usize::from((*turn, requester) < mine);
            ready.get(requester).copied().unwrap_or(0).min(rounds)
        });
        Some(own + ahead.sum::<usize>())
    }

    /// All runs in the order in which they start if nothing else arrives; those that are delayed at the end, by their
    /// time. For lists: one walk, where a position for each would be many.
    pub fn order(&self, now: Timestamp) -> Vec<SubagentId> {
        let mut rest = self.clone();
        let mut order = Vec::with_capacity(rest.len());
        while let Some(ticket) = rest.pop(now) {
            order.push(ticket.run);
        }
        order.extend(rest.delayed.iter().filter_map(|(_, place)| Some(rest.tickets.get(place)?.run)));
        order
    }

    /// Makes ready what is ready by its time. A choice is asked for after that.
    pub(crate) fn ripen(&mut self, now: Timestamp) {
        while let Some((at, place)) = self.delayed.first().copied()
            && at <= now
        {
            self.set_not_before(place, None);
        }
    }

    /// The first ready ticket that `fits`, where the answer is the same for all of a provider, model and account.
    pub(crate) fn first_by_kind(&self, mut fits: impl FnMut(&Ticket) -> bool) -> Option<Choice> {
        let mut shut = BTreeSet::new();
        for (turn, requester) in &self.turns {
            let Some(lane) = self.lanes.get(requester) else { continue };
            for (kind, places) in lane.by_arrival() {
                let Some(place) = places.first().copied() else { continue };
                if shut.contains(kind) {
                    continue;
                }
                if self.tickets.get(&place).is_some_and(&mut fits) {
                    return Some(Choice { turn: *turn, requester: requester.clone(), place });
                }
                shut.insert(kind);
            }
        }
        None
    }

    /// The first ready ticket below one of `ancestors` that `fits`.
    pub(crate) fn first_below(
        &self,
        ancestors: impl IntoIterator<Item = SubagentId>,
        mut fits: impl FnMut(&Ticket) -> bool,
    ) -> Option<Choice> {
        let mut first: Option<Choice> = None;
        for place in ancestors.into_iter().filter_map(|id| self.below.get(&id)).flatten().copied() {
            let Some(ticket) = self.tickets.get(&place).filter(|ticket| ticket.not_before.is_none()) else {
                continue;
            };
            let Some(lane) = self.lanes.get(&ticket.requester) else { continue };
            let choice = Choice { turn: lane.turn, requester: ticket.requester.clone(), place };
            if first.as_ref().is_none_or(|first| choice < *first) && fits(ticket) {
                first = Some(choice);
            }
        }
        first
    }

    /// Takes what was chosen; its requester has had its turn.
    pub(crate) fn take(&mut self, choice: Choice) -> Option<Ticket> {
        self.turn += 1;
        if let Some(lane) = self.lanes.get_mut(&choice.requester) {
            self.turns.remove(&(lane.turn, choice.requester.clone()));
            lane.turn.0 = self.turn;
            self.turns.insert((lane.turn, choice.requester));
        }
        let run = self.tickets.get(&choice.place)?.run;
        self.remove(run)
    }

    fn set_not_before(&mut self, place: u64, not_before: Option<Timestamp>) {
        self.step_out(place);
        if let Some(ticket) = self.tickets.get_mut(&place) {
            ticket.not_before = not_before;
        }
        self.line_up(place);
    }

    /// Enters a ticket among the ready or the delayed ones.
    fn line_up(&mut self, place: u64) {
        let Some(ticket) = self.tickets.get(&place) else { return };
        if let Some(at) = ticket.not_before {
            self.delayed.insert((at, place));
        } else if let Some(lane) = self.lanes.get_mut(&ticket.requester) {
            lane.ready.entry(Kind::of(ticket)).or_default().insert(place);
        }
    }

    /// Takes it out from there.
    fn step_out(&mut self, place: u64) {
        let Some(ticket) = self.tickets.get(&place) else { return };
        if let Some(at) = ticket.not_before {
            self.delayed.remove(&(at, place));
        } else if let Some(lane) = self.lanes.get_mut(&ticket.requester) {
            let kind = Kind::of(ticket);
            if let Some(places) = lane.ready.get_mut(&kind) {
                places.remove(&place);
                if places.is_empty() {
                    lane.ready.remove(&kind);
                }
            }
        }
    }
}

impl Lane {
    /// Its kinds, the one whose first ticket came first at the head.
    fn by_arrival(&self) -> Vec<(&Kind, &BTreeSet<u64>)> {
        let mut kinds: Vec<_> = self.ready.iter().collect();
        kinds.sort_by_key(|(_, places)| places.first().copied());
        kinds
    }

    /// Ready tickets that came before `place`.
    fn ready_count(&self, place: u64) -> usize {
        let before = |places: &BTreeSet<u64>| match place {
            u64::MAX => places.len(),
            _ => places.range(..place).count(),
        };
        self.ready.values().map(before).sum()
    }
}

#[cfg(test)]
mod tests;
