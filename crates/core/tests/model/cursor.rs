//! The log and its readers: commands whose facts are committed together with the record, a commit that fails, a window
//! that fills up, a subscriber that is slow, and a daemon that crashes between the commit and the feed.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 11 | `NUMBERED_WITHOUT_GAPS`, `FOLD_IS_THE_RECORD`, `SEEN_IN_ORDER`, `SEEN_IS_COMMITTED`, `SEES_ALL` (liveness) |
//! | 12 | all of them |

use subagent_core::feed::{Told, Window};
use subagent_core::run::{Command, Subagent, accept, decide, fold};
use subagent_model::{Cursor, Event, EventKind, Mode, OnLoss, SpawnSpec, Status};

use super::explore::{Move, World, must_break, must_hold};
use crate::common::commands::*;
use crate::common::{at, birth_of, born, completed, owner, spec};

const NUMBERED_WITHOUT_GAPS: &str = "11: the log is numbered without gaps";
const FOLD_IS_THE_RECORD: &str = "11: folding the events gives the stored record";
const SEEN_IN_ORDER: &str = "11: a subscriber sees every event once, in order";
const SEEN_IS_COMMITTED: &str = "11: a subscriber sees only what is committed";
const SEES_ALL: &str = "11: a subscriber that reads on sees everything";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// Numbers are given out before the commit.
    NumberedBeforeCommit,
    /// The record is written after the events, in a step of its own.
    RecordApart,
    /// Subscribers are fed before the commit.
    FedBeforeCommit,
    /// A full window leaves events out and does not say so.
    BehindInSilence,
    /// A subscriber that has read a part of what it missed counts as up to date.
    CaughtUpTooSoon,
}

#[derive(Clone)]
struct CursorWorld {
    mutant: Option<Mutant>,
    log: Vec<Event>,
    stored: Option<Subagent>,
    /// How many steps were taken.
    done: usize,
    next: u64,
    window: Window<u64>,
    fed: u64,
    seen: u64,
    broken: Option<&'static str>,
}

/// What may be asked next. Every path of such commands is tried, as far as `STEPS`.
fn commands(state: &Subagent) -> Vec<Command> {
    let attempt = state.last_attempt;
    vec![
        claim_for_good(),
        started_as(attempt),
        opened_as(attempt),
        progress(attempt, 1, true),
        conclude_with(attempt, completed("done"), true),
        conclude_with(attempt, completed("done"), false),
        gone(attempt),
        Command::ChildrenEnded { unread: 0 },
        stop(),
        receipt(1),
        receipt(state.run.number.0),
        resume(),
    ]
}

const STEPS: usize = 6;

fn resumable() -> SpawnSpec {
    let mut spec = SpawnSpec { on_loss: OnLoss::Fail, ..spec(Mode::Async) };
    spec.can.resume = true;
    spec
}

impl CursorWorld {
    fn new(mutant: Option<Mutant>) -> Self {
        Self {
            mutant,
            log: vec![],
            stored: None,
            done: 0,
            next: 1,
            window: Window::new(2, Cursor(0), Cursor(0)),
            fed: 0,
            seen: 0,
            broken: None,
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Every next step: its events and the record after it.
    fn decided(&self) -> Vec<(Vec<EventKind>, Subagent)> {
        if self.done >= STEPS {
            return vec![];
        }
        let Some(state) = &self.stored else {
            let facts = accept(birth_of(1, &owner(), resumable()));
            return vec![(facts, born(resumable()))];
        };
        let mut all = vec![];
        for command in commands(state) {
            let facts = decide(state, &command, at(0)).unwrap_or_default();
            let mut after = state.clone();
            for fact in &facts {
                after.apply(at(0), fact).unwrap();
            }
            // A late fact changes nothing: it would only make the log longer.
            if !facts.is_empty() && !matches!(facts[0], EventKind::Late { .. }) {
                all.push((facts, after));
            }
        }
        all
    }

    fn writer(&self, push: &mut impl FnMut(&str, bool, Self)) {
        for (facts, state) in self.decided() {
            self.commit(facts, state, push);
        }
    }

    fn commit(&self, facts: Vec<EventKind>, state: Subagent, push: &mut impl FnMut(&str, bool, Self)) {
        let mut to = self.clone();
        for kind in facts {
            let seq = if self.is(Mutant::NumberedBeforeCommit) { to.next } else { to.log.len() as u64 + 1 };
            to.next = seq + 1;
            to.log.push(Event {
                seq: Cursor(seq),
                at: at(0),
                subagent: state.id,
                run: state.run.number,
                kind,
            });
        }
        if self.is(Mutant::NumberedBeforeCommit) {
            push("the commit fails", false, Self { next: to.next, ..self.clone() });
        }
        if self.is(Mutant::FedBeforeCommit) {
            let mut fed = self.clone();
            fed.window.offer(Cursor(self.log.len() as u64 + 1), Some(self.log.len() as u64 + 1));
            fed.fed += 1;
            push("feed, and the commit fails", false, fed);
        }
        to.done += 1;
        if self.is(Mutant::RecordApart) {
            push(
                "crash between the events and the record",
                false,
                Self { stored: self.stored.clone(), ..to.clone() },
            );
        }
        to.stored = Some(state);
        push("commit", false, to);
    }

    fn reader(&self, push: &mut impl FnMut(&str, bool, Self)) {
        let mut to = self.clone();
        match to.window.take() {
            Some(Told::Event(seq)) => {
                if seq > self.log.len() as u64 {
                    to.broken = Some(SEEN_IS_COMMITTED);
                } else if seq != self.seen + 1 {
                    to.broken = Some(SEEN_IN_ORDER);
                }
                to.seen = seq;
                push("take", true, to);
            }
            Some(Told::Behind { after }) if self.is(Mutant::BehindInSilence) => {
                let _ = after;
                to.window = Window::new(2, Cursor(self.fed), Cursor(self.fed));
                push("go on behind a gap", true, to);
            }
            Some(Told::Behind { after }) => {
                // It reads a part of the log, or all of it. What is not fed yet may be there already.
                for through in after.0 + 1..=self.log.len() as u64 {
                    let mut to = to.clone();
                    if after.0 != self.seen {
                        to.broken = Some(SEEN_IN_ORDER);
                    }
                    to.seen = through;
                    let known =
                        if self.is(Mutant::CaughtUpTooSoon) { self.fed.max(through) } else { through };
                    to.window.caught_up(Cursor(known));
                    push("read the log", true, to);
                }
            }
            None => {}
        }
    }
}

impl World for CursorWorld {
    type Key = (Vec<&'static str>, Option<Status>, u64, u64, u64, String, bool);

    fn key(&self) -> Self::Key {
        let names = self.log.iter().map(|event| event.kind.name()).collect();
        let status = self.stored.as_ref().map(Subagent::status);
        let revision = self.stored.as_ref().map_or(0, |state| state.revision);
        let window = format!("{:?}", self.window);
        let skipped = self.is(Mutant::NumberedBeforeCommit) && self.next > self.log.len() as u64 + 1;
        (names, status, revision, self.fed, self.seen, window, skipped)
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: &str, sure: bool, to: Self| {
            moves.push(Move { label: label.into(), sure, to, breaks: None });
        };
        self.writer(&mut push);
        if self.fed < self.log.len() as u64 {
            let mut to = self.clone();
            to.fed += 1;
            to.window.offer(Cursor(to.fed), Some(to.fed));
            push("feed", true, to);
        }
        self.reader(&mut push);
        // The window and the place of the feed are gone; the subscriber comes back with its position.
        let mut to = self.clone();
        to.fed = self.log.len() as u64;
        to.window = Window::new(2, Cursor(self.seen), Cursor(to.fed));
        push("crash, and subscribe again", false, to);
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if self.broken.is_some() {
            return self.broken;
        }
        if self.log.iter().zip(1..).any(|(event, seq)| event.seq != Cursor(seq)) {
            return Some(NUMBERED_WITHOUT_GAPS);
        }
        (fold(&self.log).ok().as_ref() != Some(&self.stored)).then_some(FOLD_IS_THE_RECORD)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let all = self.seen >= self.log.len() as u64;
        vec![(SEES_ALL, !all, all)]
    }
}

#[test]
fn the_design_holds() {
    must_hold("cursors", CursorWorld::new(None));
}

#[test]
fn invariant_11_cursors_have_no_gaps_and_the_events_fold_to_the_record() {
    for (mutant, predicate) in [
        (Mutant::NumberedBeforeCommit, NUMBERED_WITHOUT_GAPS),
        (Mutant::RecordApart, FOLD_IS_THE_RECORD),
        (Mutant::FedBeforeCommit, SEEN_IS_COMMITTED),
        (Mutant::BehindInSilence, SEEN_IN_ORDER),
        (Mutant::CaughtUpTooSoon, SEEN_IN_ORDER),
    ] {
        must_break(&format!("{mutant:?}"), predicate, CursorWorld::new(Some(mutant)));
    }
}
