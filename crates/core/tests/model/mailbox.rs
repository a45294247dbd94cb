//! Messages to an agent: a sender that steers, interrupts, and sends follow-ups at any time; a session that opens late; a
//! daemon that crashes between any two steps; a shim that knows what was written unless the machine is lost; turns, runs
//! and processes that end at any time.
//!
//! Two duties of the driver, without which this does not hold: what is in its hand is settled before it tells the end of a
//! turn, and where a write fails between two turns it tells the end of the last one again.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 8 | `IN_ORDER`, `AT_MOST_ONCE`, `DELIVERED_OR_RETURNED`, `SAID_BEFORE_THE_END`, `SETTLED_IN_THE_END` (liveness) |
//! | 8 | `NOTHING_STARTS_BY_ITSELF`, `ONE_RUN_EACH`: follow-ups |
//! | 12 | all of them |

use subagent_core::need::Need;
use subagent_core::run::{Command, Left};
use subagent_model::{
    AttemptNumber, ErrorCode, EventKind, MessageMode, MessageNumber, Mode, Receipt, ReturnReason, SpawnSpec,
    Steering, Written,
};

use super::explore::{Move, World, must_break, must_hold};
use super::machine::{FACTS_APPLY, Machine};
use crate::common::commands::*;
use crate::common::{agent, at, completed, failed_for_now, text};

const IN_ORDER: &str = "8: messages of a kind arrive in order";
const AT_MOST_ONCE: &str = "8: a message arrives at most once";
const DELIVERED_OR_RETURNED: &str = "8: a receipt tells the truth: delivered, or returned and not delivered";
const SAID_BEFORE_THE_END: &str = "8: what waits is said before a run that could say it ends";
const SETTLED_IN_THE_END: &str = "8: every accepted message is settled";
const NOTHING_STARTS_BY_ITSELF: &str = "8: after an interrupt nothing starts until the next message";
const ONE_RUN_EACH: &str = "8: each follow-up opens one run, in order";

const MAX_ATTEMPTS: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// A message is written before it is noted that it will be.
    WriteBeforeNote,
    /// What may have been written is tried again.
    UnknownIsTriedAgain,
    /// A message that was not written goes to the end of the line.
    PutBackAtTheEnd,
    /// The end of the run says of the message that is being written that it was not delivered.
    CloseReturnsTheOneInFlight,
    /// The end of the run forgets what waits.
    CloseForgets,
    /// Messages are marked as delivered when they are handed to the shim.
    HandedIsDelivered,
    /// The end of a turn does not look at what waits.
    TurnEndIgnoresMail,
    /// An interrupt does not hold the follow-ups.
    InterruptHoldsNothing,
    /// A follow-up that opened a run stays in the queue.
    FollowUpStays,
}

#[derive(Clone, Copy)]
struct Rules {
    mutant: Option<Mutant>,
    steering: Steering,
    /// What may be sent: steers, follow-ups, interrupts with and without a text.
    senders: [u8; 4],
    stops: bool,
}

/// A live process, as the shim knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Child {
    attempt: AttemptNumber,
    in_turn: bool,
    /// Written, and not settled.
    in_hand: Option<MessageNumber>,
}

#[derive(Clone)]
struct MailWorld {
    rules: Rules,
    machine: Machine,
    up: bool,
    /// The machine was lost once: the shim's knowledge with it.
    lost: bool,
    child: Option<Child>,
    received: Vec<MessageNumber>,
    left: [u8; 4],
    /// An interrupt without a message was the last that was sent.
    held: bool,
    broken: Option<&'static str>,
}

type Push<'a> = &'a mut dyn FnMut(&str, bool, Option<MailWorld>);

impl MailWorld {
    fn new(rules: Rules) -> Self {
        let mut spec: SpawnSpec = agent(Mode::Async);
        spec.can.steering = rules.steering;
        Self {
            rules,
            machine: Machine::new(spec, &[]),
            up: true,
            lost: false,
            child: None,
            received: vec![],
            left: rules.senders,
            held: false,
            broken: None,
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.rules.mutant == Some(mutant)
    }

    /// `None` where it is refused.
    fn told(&self, command: &Command) -> Option<Self> {
        let mut to = self.clone();
        let mutant = self.rules.mutant;
        let facts = to.machine.tell_with(
            command,
            at(0),
            &|state, command| {
                if mutant == Some(Mutant::TurnEndIgnoresMail) && matches!(command, Command::TurnDone { .. }) {
                    state.mail = subagent_core::mailbox::Mailbox::default();
                }
            },
            &|facts| forget(mutant, command, facts),
        )?;
        if to.machine.misfit {
            to.broken = Some(FACTS_APPLY);
            return Some(to);
        }
        to.look_at(command, &facts, self);
        if self.is(Mutant::PutBackAtTheEnd) && matches!(facts.first(), Some(EventKind::MessagePutBack { .. }))
        {
            to.machine.change(|state| {
                let mut stored = serde_json::to_value(&state.mail).unwrap();
                stored["waiting"].as_array_mut().unwrap().rotate_left(1);
                state.mail = serde_json::from_value(stored).unwrap();
            });
        }
        if self.is(Mutant::InterruptHoldsNothing) {
            to.machine.change(|state| {
                let mut stored = serde_json::to_value(&state.mail).unwrap();
                stored.as_object_mut().unwrap().remove("paused");
                state.mail = serde_json::from_value(stored).unwrap();
            });
        }
        Some(to)
    }

    /// The predicates about a single step.
    fn look_at(&mut self, command: &Command, facts: &[EventKind], before: &Self) {
        let over = self.machine.state.run.done.is_some() || self.machine.state.is_ended();
        let waited = before.machine.state.mail.next().is_some();
        if matches!(command, Command::TurnDone { .. }) && !facts.is_empty() && over && waited {
            self.broken = Some(SAID_BEFORE_THE_END);
        }
        for fact in facts {
            match fact {
                EventKind::InterruptAsked { .. } => self.held = true,
                EventKind::MessagePosted { .. } => self.held = false,
                EventKind::Resumed { .. } if before.held => self.broken = Some(NOTHING_STARTS_BY_ITSELF),
                _ => {}
            }
        }
    }

    fn then(self, command: &Command) -> Option<Self> {
        self.told(command)
    }

    fn user_moves(&self, push: Push<'_>) {
        let commands = [
            ("steer", steer()),
            ("follow-up", follow_up()),
            ("interrupt with a text", interrupt(Some("rather this"))),
            ("interrupt", interrupt(None)),
        ];
        for (place, (label, command)) in commands.into_iter().enumerate() {
            if self.left[place] > 0
                && let Some(mut to) = self.told(&command)
            {
                to.left[place] -= 1;
                push(label, false, Some(to));
            }
        }
        if self.rules.stops {
            push("stop", false, self.told(&stop()));
        }
    }

    /// The attempt, from its slot to its prompt.
    fn life_moves(&self, push: Push<'_>) {
        let state = &self.machine.state;
        let attempt = state.last_attempt;
        for need in self.machine.needs(at(0)) {
            match need {
                Need::Slot { .. } => push("claim", true, self.told(&claim_for_good())),
                Need::Launch { attempt } => {
                    let mut to = self.clone();
                    to.child = Some(Child { attempt, in_turn: false, in_hand: None });
                    push("start", true, to.then(&started_as(attempt)));
                }
                Need::NextRun => {
                    let opened = self.told(&Command::NextRun { prompt: text("also the words") });
                    let reason = ReturnReason::NotResumed;
                    push(
                        "next run",
                        true,
                        opened.or_else(|| self.told(&Command::ReturnFollowUps { reason })),
                    );
                }
                Need::Kill { .. } | Need::Finish { .. } | Need::CutOff { .. } => {
                    push(
                        "the process is ended",
                        true,
                        self.concluded(&conclude_with(attempt, completed("done"), false)),
                    );
                }
                _ => {}
            }
        }
        let Some(child) =
            self.child.filter(|child| Some(child.attempt) == state.hold().map(|hold| hold.attempt))
        else {
            return;
        };
        if !state.run.session_open && matches!(state.status(), subagent_model::Status::Running) {
            push("the session opens", true, self.told(&opened_as(attempt)));
        }
        // A session that has the prompt is only told to go on.
        if state.run.is_conversing() && state.run.last_prompted != attempt {
            let mut to = self.clone();
            to.child = Some(Child { in_turn: true, ..child });
            push("prompt", true, to.then(&prompted_as(attempt)));
        }
        if self.rules.stops {
            let crashed = conclude_with(attempt, failed_for_now(ErrorCode::Crashed), false);
            push("the process fails", false, self.concluded(&bounded(crashed)));
        }
    }

    fn concluded(&self, command: &Command) -> Option<Self> {
        Self { child: None, ..self.clone() }.then(command)
    }

    fn hand_moves(&self, push: Push<'_>) {
        let state = &self.machine.state;
        let (attempt, Some(child)) = (state.last_attempt, self.child) else { return };
        if self.is(Mutant::WriteBeforeNote) {
            self.hand_without_note(child, push);
        }
        for need in self.machine.needs(at(0)) {
            let Need::HandOver { number, .. } = need else { continue };
            let settle = |written| Command::Settle { attempt, number, written };
            if child.in_hand.is_some() {
                push("settle", true, self.settled(child, Written::Yes));
                continue;
            }
            push("write", true, Some(self.wrote(child, number)));
            // Between two turns nothing else would bring it up again, so the driver tells the end of the turn again.
            let again = turn_done_as(attempt, completed("done"), Left::default());
            let back = self.told(&settle(Written::No));
            let back = if child.in_turn { back } else { back.and_then(|to| to.then(&again)) };
            push("the write fails", false, back);
            if self.is(Mutant::HandedIsDelivered) {
                push("settle", true, self.told(&settle(Written::Yes)));
            }
        }
    }

    fn wrote(&self, child: Child, number: MessageNumber) -> Self {
        let mut to = self.clone();
        to.received.push(number);
        to.child = Some(Child { in_turn: true, in_hand: Some(number), ..child });
        to
    }

    /// Of what is in the hand of the driver it says what it knows.
    fn settled(&self, child: Child, otherwise: Written) -> Option<Self> {
        let Some(handing) = self.machine.state.mail.handing() else { return Some(self.clone()) };
        let number = handing.number;
        let written = if child.in_hand == Some(number) { Written::Yes } else { otherwise };
        let mut to = self.clone();
        to.child = Some(Child { in_hand: None, ..child });
        to.then(&Command::Settle { attempt: child.attempt, number, written })
    }

    fn hand_without_note(&self, child: Child, push: Push<'_>) {
        let state = &self.machine.state;
        match (state.mail.next(), child.in_hand) {
            (Some(next), None) if state.run.prompted && state.run.is_conversing() => {
                push("write", true, Some(self.wrote(child, next.number)));
            }
            (_, Some(number)) => {
                let mut to = self.clone();
                to.child = Some(Child { in_hand: None, ..child });
                to.machine.change(|state| {
                    for fact in [EventKind::MessageBegun { number }, EventKind::MessageDelivered { number }] {
                        state.apply(at(0), &fact).unwrap();
                    }
                });
                push("note", true, Some(to));
            }
            _ => {}
        }
    }

    fn turn_moves(&self, push: Push<'_>) {
        let Some(child) = self.child.filter(|child| child.in_turn) else { return };
        let attempt = child.attempt;
        let cancelled = self.machine.needs(at(0)).iter().any(|need| matches!(need, Need::Interrupt { .. }));
        let conclusion = Box::new(completed("half"));
        let ways = [
            ("the turn ends", true, turn_done_as(attempt, completed("done"), Left::default())),
            (
                "the turn is cancelled",
                cancelled,
                Command::TurnCancelled { attempt, conclusion, given: subagent_core::run::Given::Unsaid },
            ),
        ];
        for (label, _, command) in ways.into_iter().filter(|(_, can, _)| *can) {
            // What is in hand is settled first. Not written, it waits in its old place.
            let over = Child { in_turn: false, ..child };
            push(
                label,
                true,
                self.settled(over, Written::No).and_then(|mut to| {
                    to.child = to.child.map(|child| Child { in_turn: false, ..child });
                    to.then(&command)
                }),
            );
        }
    }

    /// A new daemon finds a message whose handing over was begun: the shim says whether it was written.
    fn start(&self) -> Option<Self> {
        let mut to = Self { up: true, ..self.clone() };
        let state = &self.machine.state;
        let Some(attempt) = state.hold().map(|hold| hold.attempt) else { return Some(to) };
        match self.child {
            // What was not written is still to be handed over.
            Some(child) if child.in_hand.is_some() => to = to.settled(child, Written::No)?,
            Some(_) => {}
            None => {
                if let (Some(handing), true) = (state.mail.handing(), self.is(Mutant::UnknownIsTriedAgain)) {
                    to =
                        to.then(&Command::Settle { attempt, number: handing.number, written: Written::No })?;
                }
                to = to.then(&bounded(gone(attempt)))?;
            }
        }
        Some(to)
    }
}

/// With the attempts of this world.
fn bounded(mut command: Command) -> Command {
    if let Command::Conclude { max_attempts, .. } | Command::Gone { max_attempts, .. } = &mut command {
        *max_attempts = MAX_ATTEMPTS;
    }
    command
}

/// What a machine that drops a rule does not write down, or writes down wrongly.
fn forget(mutant: Option<Mutant>, command: &Command, mut facts: Vec<EventKind>) -> Vec<EventKind> {
    let ends = matches!(command, Command::Conclude { .. } | Command::Gone { .. });
    match mutant {
        Some(Mutant::CloseForgets) if ends => {
            facts.retain(|fact| !matches!(fact, EventKind::MessageReturned { .. }));
        }
        Some(Mutant::CloseReturnsTheOneInFlight) if ends => {
            for fact in &mut facts {
                if let EventKind::MessageReturned { reason, .. } = fact {
                    *reason = ReturnReason::RunEnded;
                }
            }
        }
        Some(Mutant::WriteBeforeNote) => facts.retain(|fact| !matches!(fact, EventKind::MessageBegun { .. })),
        Some(Mutant::FollowUpStays) => {
            for fact in &mut facts {
                if let EventKind::Resumed { message, .. } = fact {
                    *message = None;
                }
            }
        }
        _ => {}
    }
    facts
}

impl World for MailWorld {
    type Key = (String, [u8; 4], bool, bool, Option<Child>, Vec<MessageNumber>, bool);

    fn key(&self) -> Self::Key {
        (self.machine.shape(), self.left, self.up, self.lost, self.child, self.received.clone(), self.held)
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        if self.machine.state.run.number.0 > 3 {
            return moves;
        }
        let mut push = |label: &str, sure: bool, to: Option<Self>| {
            moves.extend(to.map(|to| Move { label: label.into(), sure, to, breaks: None }));
        };
        if self.up {
            self.user_moves(&mut push);
            self.life_moves(&mut push);
            self.hand_moves(&mut push);
            self.turn_moves(&mut push);
            // Only the mutant keeps in memory what it has written.
            let mut down = Self { up: false, ..self.clone() };
            if self.is(Mutant::WriteBeforeNote) {
                down.child = down.child.map(|child| Child { in_hand: None, ..child });
            }
            push("crash", false, Some(down));
            if self.rules.stops && !self.lost {
                push(
                    "machine lost",
                    false,
                    Some(Self { up: false, lost: true, child: None, ..self.clone() }),
                );
            }
        } else {
            push("start", true, self.start());
        }
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if self.broken.is_some() {
            return self.broken;
        }
        let received = &self.received;
        if (1..received.len()).any(|n| received[..n].contains(&received[n])) {
            return Some(AT_MOST_ONCE);
        }
        let all = self.machine.state.mail.list();
        let mode = |number: &MessageNumber| {
            all.iter().find(|posted| posted.message.number == *number).map(|posted| posted.message.mode)
        };
        for kind in [MessageMode::Steer, MessageMode::Interrupt] {
            let of_kind: Vec<_> = received.iter().filter(|number| mode(number) == Some(kind)).collect();
            if !of_kind.is_sorted() {
                return Some(IN_ORDER);
            }
        }
        let mut opened = vec![];
        for posted in &all {
            let number = posted.message.number;
            let wrong = match posted.receipt {
                Receipt::Delivered { run, .. } if posted.message.mode == MessageMode::FollowUp => {
                    opened.push(run);
                    false
                }
                Receipt::Delivered { .. } => !received.contains(&number),
                Receipt::Returned { reason, .. } => {
                    reason != ReturnReason::Unknown && received.contains(&number)
                }
                Receipt::Accepted => false,
            };
            if wrong {
                return Some(DELIVERED_OR_RETURNED);
            }
        }
        let runs = self.machine.state.run.number.0 as usize - 1;
        if !opened.is_sorted() || opened.len() != runs {
            return Some(ONE_RUN_EACH);
        }
        None
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let mail = &self.machine.state.mail;
        let open = mail.handing().is_some() || mail.waiting().count() > 0 || mail.next_follow_up().is_some();
        vec![(SETTLED_IN_THE_END, open, !open)]
    }
}

const STEERS: Rules = Rules { mutant: None, steering: Steering::Live, senders: [3, 0, 0, 0], stops: true };
const INTERRUPTS: Rules = Rules { senders: [1, 1, 1, 1], stops: false, ..STEERS };
const FOLLOW_UPS: Rules = Rules { senders: [0, 2, 0, 1], stops: true, ..STEERS };

#[test]
fn steer_04_the_design_holds() {
    must_hold("messages into a turn", MailWorld::new(STEERS));
    let at_boundary = Rules { steering: Steering::AtBoundary, ..STEERS };
    must_hold("messages at the end of turns", MailWorld::new(at_boundary));
    must_hold("messages and interrupts", MailWorld::new(INTERRUPTS));
    must_hold("follow-ups", MailWorld::new(FOLLOW_UPS));
}

#[test]
fn invariant_8_messages_come_in_order_at_most_once_or_come_back() {
    for (mutant, predicate, rules) in [
        (Mutant::WriteBeforeNote, AT_MOST_ONCE, STEERS),
        (Mutant::UnknownIsTriedAgain, AT_MOST_ONCE, STEERS),
        (Mutant::PutBackAtTheEnd, IN_ORDER, STEERS),
        (Mutant::CloseReturnsTheOneInFlight, DELIVERED_OR_RETURNED, STEERS),
        (Mutant::HandedIsDelivered, DELIVERED_OR_RETURNED, STEERS),
        (Mutant::CloseForgets, SETTLED_IN_THE_END, STEERS),
        (Mutant::TurnEndIgnoresMail, SAID_BEFORE_THE_END, INTERRUPTS),
        (Mutant::InterruptHoldsNothing, NOTHING_STARTS_BY_ITSELF, FOLLOW_UPS),
        (Mutant::FollowUpStays, ONE_RUN_EACH, FOLLOW_UPS),
    ] {
        let rules = Rules { mutant: Some(mutant), ..rules };
        must_break(&format!("{mutant:?}"), predicate, MailWorld::new(rules));
    }
}
