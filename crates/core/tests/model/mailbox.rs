//! Steering on the real `Mailbox`: a sender, a session that opens late, a daemon that crashes between any two steps, a
//! shim that knows what was written unless the machine is lost, and a run that may end at any time.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 8 | `IN_ORDER`, `AT_MOST_ONCE`, `DELIVERED_OR_RETURNED`, `SETTLED_IN_THE_END` (liveness) |
//! | 12 | all of them |

use subagent_core::mailbox::{
    Bounds, Door, MailCommand, MailFact, Mailbox, MessageNumber, Receipt, ReturnReason, Written,
};

use super::explore::{Move, World, must_break, must_hold};
use crate::common::{at, owner};

const IN_ORDER: &str = "8: messages arrive in order";
const AT_MOST_ONCE: &str = "8: a message arrives at most once";
const DELIVERED_OR_RETURNED: &str = "8: a receipt tells the truth: delivered, or returned and not delivered";
const SETTLED_IN_THE_END: &str = "8: every accepted message is settled";

const MESSAGES: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// A message is written before it is noted that it will be.
    WriteBeforeNote,
    /// What may have been written is tried again.
    UnknownIsTriedAgain,
    /// A message that was not written goes to the end of the line.
    PutBackAtTheEnd,
    /// The end of the run returns also the message that is being written.
    CloseReturnsTheOneInFlight,
    /// The end of the run forgets what waits.
    CloseForgets,
    /// Messages are marked as delivered when they are handed to the shim.
    HandedIsDelivered,
}

#[derive(Clone)]
struct MailWorld {
    mutant: Option<Mutant>,
    mailbox: Mailbox,
    posted: u64,
    up: bool,
    /// The machine was lost once: the shim's knowledge with it.
    lost: bool,
    /// The shim has written the message that is being handed over.
    written: bool,
    received: Vec<MessageNumber>,
}

impl MailWorld {
    fn new(mutant: Option<Mutant>) -> Self {
        let bounds = Bounds { messages: 2, bytes: 100, message_bytes: 10 };
        Self {
            mutant,
            mailbox: Mailbox::new(bounds),
            posted: 0,
            up: true,
            lost: false,
            written: false,
            received: vec![],
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn told(&self, command: &MailCommand) -> Option<Self> {
        let mut facts = self.mailbox.decide(command, at(0)).ok()?;
        if facts.is_empty() {
            return None;
        }
        let mut to = self.clone();
        if matches!(command, MailCommand::Close { .. }) {
            if self.is(Mutant::CloseForgets) {
                facts.truncate(1);
            }
            if let (true, Some(message)) =
                (self.is(Mutant::CloseReturnsTheOneInFlight), self.mailbox.handing())
            {
                let number = message.number;
                facts.push(MailFact::Returned { number, reason: ReturnReason::RunEnded });
            }
        }
        for fact in &facts {
            to.mailbox.apply(at(0), fact).unwrap();
        }
        if matches!(command, MailCommand::Settle { .. }) {
            to.written = false;
        }
        if self.is(Mutant::PutBackAtTheEnd) && matches!(facts[0], MailFact::PutBack { .. }) {
            let mut stored = serde_json::to_value(&to.mailbox).unwrap();
            stored["waiting"].as_array_mut().unwrap().rotate_left(1);
            to.mailbox = serde_json::from_value(stored).unwrap();
        }
        Some(to)
    }

    fn write(&self, number: MessageNumber) -> Self {
        let mut to = Self { written: true, ..self.clone() };
        to.received.push(number);
        to
    }

    fn has_received(&self, number: MessageNumber) -> bool {
        self.received.contains(&number)
    }

    fn daemon_moves(&self, push: &mut impl FnMut(&str, bool, Option<Self>)) {
        let from = owner();
        if self.posted < MESSAGES
            && let Some(mut to) = self.told(&MailCommand::Post { from, text: "go on".into() })
        {
            to.posted += 1;
            push("post", false, Some(to));
        }
        push("open", true, self.told(&MailCommand::Open));
        if self.written || !self.is(Mutant::WriteBeforeNote) {
            push("begin", true, self.told(&MailCommand::Begin));
        }
        push("the run ends", false, self.told(&MailCommand::Close { reason: ReturnReason::RunEnded }));
        push("stop", false, self.told(&MailCommand::Close { reason: ReturnReason::Stopped }));
        if self.is(Mutant::WriteBeforeNote)
            && let (Door::Open, Some(first)) = (self.mailbox.door(), self.mailbox.waiting().next())
            && self.mailbox.handing().is_none()
            && !self.written
        {
            push("write", true, Some(self.write(first.number)));
        }
        let Some(message) = self.mailbox.handing() else { return };
        let number = message.number;
        if !self.written && !self.is(Mutant::WriteBeforeNote) {
            push("write", true, Some(self.write(number)));
            push("the write fails", false, self.told(&MailCommand::Settle { number, written: Written::No }));
            if self.is(Mutant::HandedIsDelivered) {
                push("settle", true, self.told(&MailCommand::Settle { number, written: Written::Yes }));
            }
        } else {
            push("settle", true, self.told(&MailCommand::Settle { number, written: Written::Yes }));
        }
    }

    /// A new daemon finds a message whose handing over was begun: the shim says whether it was written.
    fn start(&self) -> Self {
        let mut to = Self { up: true, ..self.clone() };
        if let Some(number) = self.mailbox.handing().map(|message| message.number) {
            let written = match (self.lost, self.written) {
                (true, _) if self.is(Mutant::UnknownIsTriedAgain) => Written::No,
                (true, _) => Written::Unknown,
                (false, true) => Written::Yes,
                (false, false) => Written::No,
            };
            to = to.told(&MailCommand::Settle { number, written }).unwrap();
        }
        to
    }
}

impl World for MailWorld {
    type Key = (String, u64, bool, bool, bool, Vec<MessageNumber>);

    fn key(&self) -> Self::Key {
        let mailbox = serde_json::to_string(&self.mailbox).unwrap();
        (mailbox, self.posted, self.up, self.lost, self.written, self.received.clone())
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push = |label: &str, sure: bool, to: Option<Self>| {
            moves.extend(to.map(|to| Move { label: label.into(), sure, to, breaks: None }));
        };
        if self.up {
            self.daemon_moves(&mut push);
            // Only the mutant keeps in memory what it has written.
            let written = self.written && !self.is(Mutant::WriteBeforeNote);
            push("crash", false, Some(Self { up: false, written, ..self.clone() }));
            if !self.lost {
                push("machine lost", false, Some(Self { up: false, lost: true, ..self.clone() }));
            }
        } else {
            push("start", true, Some(self.start()));
        }
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if (1..self.received.len()).any(|n| self.received[..n].contains(&self.received[n])) {
            return Some(AT_MOST_ONCE);
        }
        if !self.received.is_sorted() {
            return Some(IN_ORDER);
        }
        let wrong = (1..=self.posted).map(MessageNumber).any(|number| match self.mailbox.receipt(number) {
            Some(Receipt::Delivered { .. }) => !self.has_received(number),
            Some(Receipt::Returned { reason }) => {
                reason != ReturnReason::Unknown && self.has_received(number)
            }
            Some(Receipt::Accepted) => false,
            None => true,
        });
        wrong.then_some(DELIVERED_OR_RETURNED)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let open = (1..=self.posted)
            .any(|number| self.mailbox.receipt(MessageNumber(number)) == Some(Receipt::Accepted));
        vec![(SETTLED_IN_THE_END, open, !open)]
    }
}

#[test]
fn the_design_holds() {
    must_hold("mailbox", MailWorld::new(None));
}

#[test]
fn invariant_8_messages_come_in_order_at_most_once_or_come_back() {
    for (mutant, predicate) in [
        (Mutant::WriteBeforeNote, AT_MOST_ONCE),
        (Mutant::UnknownIsTriedAgain, AT_MOST_ONCE),
        (Mutant::PutBackAtTheEnd, IN_ORDER),
        (Mutant::CloseReturnsTheOneInFlight, DELIVERED_OR_RETURNED),
        (Mutant::HandedIsDelivered, DELIVERED_OR_RETURNED),
        (Mutant::CloseForgets, SETTLED_IN_THE_END),
    ] {
        must_break(&format!("{mutant:?}"), predicate, MailWorld::new(Some(mutant)));
    }
}
