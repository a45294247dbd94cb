//! Steering: messages to a subagent, from acceptance to a receipt. A mailbox is ordered and bounded, holds messages
//! until the session is open, hands over one at a time, and gives each exactly one last word: delivered or returned.
//! Whether a provider can take a message in a turn, and who may speak, is asked before; the writing itself is the
//! shell's.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use subagent_model::{ErrorCode, Requester, Timestamp};

/// How much a mailbox holds. What does not fit is refused at once; what was accepted is never dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Messages that are not settled.
    pub messages: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Bytes of one.
    pub message_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { messages: 64, bytes: 1 << 20, message_bytes: 256 << 10 }
    }
}

/// Names a message within its subagent: counted from 1, over all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageNumber(pub u64);

/// A message that is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number.
    pub number: MessageNumber,
    /// Who sent it. It travels beside the text, so the text cannot claim another origin.
    pub from: Requester,
    /// The text.
    pub text: String,
    /// When it was accepted.
    pub at: Timestamp,
}

/// What the sender holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "receipt", rename_all = "snake_case")]
pub enum Receipt {
    /// It waits, or is being handed over.
    Accepted,
    /// The child has it.
    Delivered {
        /// Since when.
        at: Timestamp,
    },
    /// The child does not have it, and will not get it.
    Returned {
        /// Why.
        reason: ReturnReason,
    },
}

/// Why a message came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnReason {
    /// The run ended first.
    RunEnded,
    /// A stop was accepted first.
    Stopped,
    /// The run could not be started.
    StartFailed,
    /// It was being written when the connection was lost, and nobody can say whether the child has it.
    Unknown,
    /// The stored message cannot be read. It was set aside; those behind it go on.
    Malformed,
}

/// What is known about a message whose handing over was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// The child has it.
    Yes,
    /// Certainly not: it may be tried again.
    No,
    /// Cannot be known: trying again could hand it over twice.
    Unknown,
}

/// Whether messages flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "door", rename_all = "snake_case")]
pub enum Door {
    /// The session is not open: messages are held.
    Held,
    /// The session is open.
    Open,
    /// The run has ended or is being stopped: nothing is accepted.
    Closed {
        /// Why.
        reason: ReturnReason,
    },
}

/// What can be asked of a mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mail_command", rename_all = "snake_case")]
pub enum MailCommand {
    /// Accept a message.
    Post {
        /// From whom.
        from: Requester,
        /// Its text.
        text: String,
    },
    /// The session is open, or open again after the connection was lost.
    Open,
    /// The connection to the session is lost; the run goes on.
    Hold,
    /// Begin to hand over the first message.
    Begin,
    /// What became of it.
    Settle {
        /// Which.
        number: MessageNumber,
        /// What is known.
        written: Written,
    },
    /// The first message cannot be read.
    SetAside {
        /// Which.
        number: MessageNumber,
    },
    /// The run has ended or is being stopped.
    Close {
        /// Why.
        reason: ReturnReason,
    },
    /// The next run was accepted.
    NextRun,
}

/// A fact of a mailbox. The fold of all of them is the mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mail", rename_all = "snake_case")]
pub enum MailFact {
    /// A message was accepted.
    Posted {
        /// The message.
        message: Message,
    },
    /// The session is open.
    Opened,
    /// Messages are held.
    Held,
    /// The handing over of a message was begun. Stored before the first byte is written.
    Begun {
        /// Which.
        number: MessageNumber,
    },
    /// It was not written, and waits again in its old place.
    PutBack {
        /// Which.
        number: MessageNumber,
    },
    /// The child has it.
    Delivered {
        /// Which.
        number: MessageNumber,
    },
    /// It came back.
    Returned {
        /// Which.
        number: MessageNumber,
        /// Why.
        reason: ReturnReason,
    },
    /// Nothing is accepted any more.
    Closed {
        /// Why.
        reason: ReturnReason,
    },
    /// The next run begins; receipts of the one before are in the log.
    Reset,
}

/// Why a mailbox refuses. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailRefusal {
    /// Nothing but white space.
    #[error("the message is empty")]
    Blank,
    /// One message is too long.
    #[error("the message has {bytes} bytes, the limit is {limit}")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The mailbox is full.
    #[error("the mailbox is full: {used} of {limit} {unit}")]
    Full {
        /// `messages` or `bytes`.
        unit: &'static str,
        /// In use, this message included.
        used: usize,
        /// The limit.
        limit: usize,
    },
    /// The run has ended or is being stopped.
    #[error("the run takes no messages: {reason:?}; a follow-up starts the next run")]
    Closed {
        /// Why.
        reason: ReturnReason,
    },
    /// The session is not open, or another message is being handed over.
    #[error("no message can be handed over now")]
    NotNow,
    /// The message is not the one that is being handed over.
    #[error("message {} is not being handed over", .number.0)]
    NotBegun {
        /// The message.
        number: MessageNumber,
    },
}

impl MailRefusal {
    /// The stable code that doors tell it with.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Blank => ErrorCode::InvalidRequest,
            Self::TooLong { .. } => ErrorCode::PromptTooLarge,
            Self::Full { .. } => ErrorCode::QueueFull,
            Self::Closed { .. } | Self::NotNow | Self::NotBegun { .. } => ErrorCode::IllegalTransition,
        }
    }
}

/// A fact that cannot follow on the mailbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the fact {fact:?} cannot follow")]
pub struct IllegalMail {
    /// The fact.
    pub fact: MailFact,
}

/// The messages of one subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    bounds: Bounds,
    door: Door,
    last: MessageNumber,
    waiting: VecDeque<Message>,
    handing: Option<Message>,
    receipts: BTreeMap<MessageNumber, Receipt>,
}

impl Mailbox {
    /// The mailbox of a subagent that was just accepted: messages are held.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            door: Door::Held,
            last: MessageNumber(0),
            waiting: VecDeque::new(),
            handing: None,
            receipts: BTreeMap::new(),
        }
    }

    /// The facts that `command` leads to at `now`. No facts means: accepted, nothing to change.
    pub fn decide(&self, command: &MailCommand, now: Timestamp) -> Result<Vec<MailFact>, MailRefusal> {
        match command {
            MailCommand::Post { from, text } => {
                self.admit(text)?;
                let number = MessageNumber(self.last.0 + 1);
                let message = Message { number, from: from.clone(), text: text.clone(), at: now };
                Ok(vec![MailFact::Posted { message }])
            }
            MailCommand::Open => match self.door {
                Door::Held => Ok(vec![MailFact::Opened]),
                Door::Open => Ok(vec![]),
                Door::Closed { reason } => Err(MailRefusal::Closed { reason }),
            },
            MailCommand::Hold => match self.door {
                Door::Open => Ok(vec![MailFact::Held]),
                Door::Held | Door::Closed { .. } => Ok(vec![]),
            },
            MailCommand::Begin => match (self.door, &self.handing, self.waiting.front()) {
                // One at a time: only so can order survive a failure in the middle.
                (Door::Open, None, Some(first)) => Ok(vec![MailFact::Begun { number: first.number }]),
                _ => Err(MailRefusal::NotNow),
            },
            MailCommand::Settle { number, written } => {
                if self.handing.as_ref().is_none_or(|message| message.number != *number) {
                    return Err(MailRefusal::NotBegun { number: *number });
                }
                Ok(vec![match (written, self.door) {
                    (Written::Yes, _) => MailFact::Delivered { number: *number },
                    (Written::Unknown, _) => {
                        MailFact::Returned { number: *number, reason: ReturnReason::Unknown }
                    }
                    (Written::No, Door::Closed { reason }) => MailFact::Returned { number: *number, reason },
                    (Written::No, Door::Held | Door::Open) => MailFact::PutBack { number: *number },
                }])
            }
            MailCommand::SetAside { number } => match self.waiting.front() {
                Some(first) if first.number == *number => {
                    Ok(vec![MailFact::Returned { number: *number, reason: ReturnReason::Malformed }])
                }
                _ => Err(MailRefusal::NotBegun { number: *number }),
            },
            MailCommand::Close { reason } => match self.door {
                Door::Closed { .. } => Ok(vec![]),
                Door::Held | Door::Open => {
                    // What is being handed over right now is settled by what is found out about it, not here: it
                    // would else be both delivered and returned.
                    let mut facts = vec![MailFact::Closed { reason: *reason }];
                    facts.extend(
                        self.waiting
                            .iter()
                            .map(|message| MailFact::Returned { number: message.number, reason: *reason }),
                    );
                    Ok(facts)
                }
            },
            MailCommand::NextRun => match (self.door, &self.handing) {
                (Door::Closed { .. }, None) => Ok(vec![MailFact::Reset]),
                _ => Err(MailRefusal::NotNow),
            },
        }
    }

    /// Folds one fact in. On an error the mailbox is unchanged.
    pub fn apply(&mut self, at: Timestamp, fact: &MailFact) -> Result<(), IllegalMail> {
        let illegal = || IllegalMail { fact: fact.clone() };
        match fact {
            MailFact::Posted { message } => {
                if message.number.0 != self.last.0 + 1 || matches!(self.door, Door::Closed { .. }) {
                    return Err(illegal());
                }
                self.last = message.number;
                self.receipts.insert(message.number, Receipt::Accepted);
                self.waiting.push_back(message.clone());
            }
            MailFact::Opened if self.door == Door::Held => self.door = Door::Open,
            MailFact::Held if self.door == Door::Open => self.door = Door::Held,
            MailFact::Begun { number } => {
                let first = self.waiting.front().is_some_and(|message| message.number == *number);
                if !first || self.handing.is_some() || self.door != Door::Open {
                    return Err(illegal());
                }
                self.handing = self.waiting.pop_front();
            }
            MailFact::PutBack { number } => {
                let message = self.take_handing(*number).ok_or_else(illegal)?;
                self.waiting.push_front(message);
            }
            MailFact::Delivered { number } => {
                self.take_handing(*number).ok_or_else(illegal)?;
                self.receipts.insert(*number, Receipt::Delivered { at });
            }
            MailFact::Returned { number, reason } => {
                if self.take_handing(*number).is_none() {
                    let place = self.waiting.iter().position(|message| message.number == *number);
                    self.waiting.remove(place.ok_or_else(illegal)?);
                }
                self.receipts.insert(*number, Receipt::Returned { reason: *reason });
            }
            MailFact::Closed { reason } if !matches!(self.door, Door::Closed { .. }) => {
                self.door = Door::Closed { reason: *reason };
            }
            MailFact::Reset if self.handing.is_none() && matches!(self.door, Door::Closed { .. }) => {
                self.door = Door::Held;
                self.receipts.clear();
            }
            MailFact::Opened | MailFact::Held | MailFact::Closed { .. } | MailFact::Reset => {
                return Err(illegal());
            }
        }
        Ok(())
    }

    /// The receipt of a message of this run.
    pub fn receipt(&self, number: MessageNumber) -> Option<Receipt> {
        self.receipts.get(&number).copied()
    }

    /// Whether messages flow.
    pub fn door(&self) -> Door {
        self.door
    }

    /// The message whose handing over was begun. After a crash somebody must find out what became of it.
    pub fn handing(&self) -> Option<&Message> {
        self.handing.as_ref()
    }

    /// Those that wait, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.waiting.iter()
    }

    /// How many are not settled: what a list shows as pending.
    pub fn pending(&self) -> usize {
        self.waiting.len() + usize::from(self.handing.is_some())
    }

    fn take_handing(&mut self, number: MessageNumber) -> Option<Message> {
        self.handing.take_if(|message| message.number == number)
    }

    fn admit(&self, text: &str) -> Result<(), MailRefusal> {
        if let Door::Closed { reason } = self.door {
            return Err(MailRefusal::Closed { reason });
        }
        if text.trim().is_empty() {
            return Err(MailRefusal::Blank);
        }
        if text.len() > self.bounds.message_bytes {
            return Err(MailRefusal::TooLong { bytes: text.len(), limit: self.bounds.message_bytes });
        }
        let messages = self.pending() + 1;
        if messages > self.bounds.messages {
            return Err(MailRefusal::Full { unit: "messages", used: messages, limit: self.bounds.messages });
        }
        let held = self.waiting.iter().chain(&self.handing).map(|message| message.text.len()).sum::<usize>();
        let bytes = held + text.len();
        if bytes > self.bounds.bytes {
            return Err(MailRefusal::Full { unit: "bytes", used: bytes, limit: self.bounds.bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{Bounds, MailCommand, MailRefusal, Mailbox, MessageNumber, Receipt, ReturnReason, Written};
    use subagent_model::{Requester, Timestamp};

    const NOW: Timestamp = Timestamp::never();

    fn small() -> Mailbox {
        Mailbox::new(Bounds { messages: 3, bytes: 10, message_bytes: 8 })
    }

    fn run(mailbox: &mut Mailbox, command: &MailCommand) -> Result<(), MailRefusal> {
        for fact in mailbox.decide(command, NOW)? {
            mailbox.apply(NOW, &fact).unwrap();
        }
        Ok(())
    }

    fn post(mailbox: &mut Mailbox, text: &str) -> Result<(), MailRefusal> {
        run(mailbox, &MailCommand::Post { from: Requester::from("user:1"), text: text.to_owned() })
    }

    fn hand_over(mailbox: &mut Mailbox, written: Written) -> String {
        run(mailbox, &MailCommand::Begin).unwrap();
        let message = mailbox.handing().unwrap().clone();
        run(mailbox, &MailCommand::Settle { number: message.number, written }).unwrap();
        message.text
    }

    #[test]
    fn steer_01_messages_are_held_until_the_session_is_open_and_come_in_order() {
        let mut mailbox = small();
        for text in ["a", "b", "c"] {
            post(&mut mailbox, text).unwrap();
        }
        assert_eq!(run(&mut mailbox, &MailCommand::Begin), Err(MailRefusal::NotNow));
        run(&mut mailbox, &MailCommand::Open).unwrap();
        let got: Vec<_> = (0..3).map(|_| hand_over(&mut mailbox, Written::Yes)).collect();
        assert_eq!(got, ["a", "b", "c"]);
        assert_eq!(mailbox.pending(), 0);
    }

    #[test]
    fn steer_03_what_waits_when_the_run_ends_comes_back_with_the_reason() {
        let mut mailbox = small();
        post(&mut mailbox, "a").unwrap();
        run(&mut mailbox, &MailCommand::Close { reason: ReturnReason::StartFailed }).unwrap();
        let returned = Receipt::Returned { reason: ReturnReason::StartFailed };
        assert_eq!(mailbox.receipt(MessageNumber(1)), Some(returned));
    }

    #[test]
    fn steer_04_a_message_in_flight_at_the_end_is_either_delivered_or_returned() {
        for (written, delivered) in [(Written::Yes, true), (Written::No, false), (Written::Unknown, false)] {
            let mut mailbox = small();
            post(&mut mailbox, "a").unwrap();
            run(&mut mailbox, &MailCommand::Open).unwrap();
            run(&mut mailbox, &MailCommand::Begin).unwrap();
            run(&mut mailbox, &MailCommand::Close { reason: ReturnReason::RunEnded }).unwrap();
            assert_eq!(mailbox.receipt(MessageNumber(1)), Some(Receipt::Accepted));
            assert_eq!(run(&mut mailbox, &MailCommand::NextRun), Err(MailRefusal::NotNow));
            run(&mut mailbox, &MailCommand::Settle { number: MessageNumber(1), written }).unwrap();
            let receipt = mailbox.receipt(MessageNumber(1)).unwrap();
            assert_eq!(matches!(receipt, Receipt::Delivered { .. }), delivered);
        }
    }

    #[test]
    fn steer_05_nothing_is_accepted_once_the_run_ends_or_stops() {
        let mut mailbox = small();
        run(&mut mailbox, &MailCommand::Close { reason: ReturnReason::Stopped }).unwrap();
        assert_eq!(post(&mut mailbox, "a"), Err(MailRefusal::Closed { reason: ReturnReason::Stopped }));
        run(&mut mailbox, &MailCommand::NextRun).unwrap();
        post(&mut mailbox, "a").unwrap();
    }

    #[test]
    fn steer_08_and_09_what_does_not_fit_is_refused_with_the_bound() {
        let mut mailbox = small();
        assert_eq!(post(&mut mailbox, " \n"), Err(MailRefusal::Blank));
        assert_eq!(post(&mut mailbox, "123456789"), Err(MailRefusal::TooLong { bytes: 9, limit: 8 }));
        post(&mut mailbox, "12345678").unwrap();
        assert_eq!(post(&mut mailbox, "123"), Err(MailRefusal::Full { unit: "bytes", used: 11, limit: 10 }));
        post(&mut mailbox, "1").unwrap();
        post(&mut mailbox, "2").unwrap();
        assert_eq!(post(&mut mailbox, "3"), Err(MailRefusal::Full { unit: "messages", used: 4, limit: 3 }));
        assert_eq!(mailbox.pending(), 3);
    }

    #[test]
    fn steer_13_a_message_that_was_certainly_not_written_keeps_its_place() {
        let mut mailbox = small();
        post(&mut mailbox, "a").unwrap();
        post(&mut mailbox, "b").unwrap();
        run(&mut mailbox, &MailCommand::Open).unwrap();
        assert_eq!(hand_over(&mut mailbox, Written::No), "a");
        assert_eq!(hand_over(&mut mailbox, Written::Yes), "a");
        assert_eq!(hand_over(&mut mailbox, Written::Unknown), "b");
        let unknown = Receipt::Returned { reason: ReturnReason::Unknown };
        assert_eq!(mailbox.receipt(MessageNumber(2)), Some(unknown));
    }

    #[test]
    fn steer_15_a_malformed_message_is_set_aside_once() {
        let mut mailbox = small();
        post(&mut mailbox, "a").unwrap();
        post(&mut mailbox, "b").unwrap();
        run(&mut mailbox, &MailCommand::Open).unwrap();
        run(&mut mailbox, &MailCommand::SetAside { number: MessageNumber(1) }).unwrap();
        assert!(run(&mut mailbox, &MailCommand::SetAside { number: MessageNumber(1) }).is_err());
        assert_eq!(hand_over(&mut mailbox, Written::Yes), "b");
    }
}
