//! Messages to a subagent, from acceptance to a receipt. A mailbox is ordered and bounded, hands over one message at a
//! time, and gives each exactly one last word: delivered or returned. Whether the child can take a message now follows
//! from its run ([`crate::run`]), which is the only one that changes a mailbox; the writing itself is the shell's.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use subagent_model::text::cut_at_boundary;
use subagent_model::{
    ErrorCode, Message, MessageMode, MessageNumber, Posted, Receipt, Requester, ReturnReason, RunNumber,
    Timestamp,
};

/// Most messages that are not settled.
pub const MOST_MESSAGES: usize = 64;
/// Most bytes of all of them.
pub const MOST_BYTES: usize = 256 << 10;
/// Most bytes of one.
pub const MOST_MESSAGE_BYTES: usize = 64 << 10;
/// How many receipts are kept after the last word, with the beginning of their texts.
const KEPT_RECEIPTS: usize = 32;
/// Bytes of a text that are kept with a receipt.
const KEPT_TEXT: usize = 256;

/// Why a message is not accepted. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailRefusal {
    /// Nothing but white space.
    #[error("the message is empty; it must have text, {limit} bytes at most")]
    Blank {
        /// The limit.
        limit: usize,
    },
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
        /// In use, without this message.
        used: usize,
        /// The limit.
        limit: usize,
    },
}

impl MailRefusal {
    /// The stable code that doors tell it with.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Blank { .. } => ErrorCode::InvalidRequest,
            Self::TooLong { .. } => ErrorCode::PromptTooLarge,
            Self::Full { .. } => ErrorCode::MailboxFull,
        }
    }

    /// The numbers of the limit, where it is one.
    pub fn numbers(&self) -> Option<(usize, usize)> {
        match self {
            Self::Blank { .. } => None,
            Self::TooLong { bytes: used, limit } | Self::Full { used, limit, .. } => Some((*limit, *used)),
        }
    }
}

/// The messages of one subagent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mailbox {
    last: MessageNumber,
    /// For the current run: interrupts first, then steers, each in order.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    waiting: VecDeque<Message>,
    /// Being handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    handing: Option<Message>,
    /// For the runs after the current one.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    follow_ups: VecDeque<Message>,
    /// Follow-ups are held until somebody sends another message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    /// The newest of those that have their last word.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    settled: VecDeque<Posted>,
}

impl Mailbox {
    /// True when it never held a message, and holds none up.
    pub fn is_new(&self) -> bool {
        self.last == MessageNumber(0) && !self.paused
    }

    /// Whether a text of this size is accepted.
    pub fn admit(&self, text: &str) -> Result<(), MailRefusal> {
        if text.trim().is_empty() {
            return Err(MailRefusal::Blank { limit: MOST_MESSAGE_BYTES });
        }
        if text.len() > MOST_MESSAGE_BYTES {
            return Err(MailRefusal::TooLong { bytes: text.len(), limit: MOST_MESSAGE_BYTES });
        }
        let used = self.pending().count();
        if used >= MOST_MESSAGES {
            return Err(MailRefusal::Full { unit: "messages", used, limit: MOST_MESSAGES });
        }
        let used = self.pending().map(|message| message.text.len()).sum::<usize>();
        if used + text.len() > MOST_BYTES {
            return Err(MailRefusal::Full { unit: "bytes", used, limit: MOST_BYTES });
        }
        Ok(())
    }

    /// The next message as it would be accepted.
    pub fn compose(&self, from: Requester, mode: MessageMode, text: String, at: Timestamp) -> Message {
        Message {
            number: MessageNumber(self.last.0 + 1),
            from,
            mode,
            text,
            attachments: vec![],
            at,
            key: None,
        }
    }

    /// Those without a last word, in the order in which they will reach the child.
    pub fn pending(&self) -> impl Iterator<Item = &Message> {
        self.handing.iter().chain(&self.waiting).chain(&self.follow_ups)
    }

    /// The message that is being handed over.
    pub fn handing(&self) -> Option<&Message> {
        self.handing.as_ref()
    }

    /// The message that is to be handed over next in the current run.
    pub fn next(&self) -> Option<&Message> {
        self.waiting.front()
    }

    /// Those that wait for the current run.
    pub fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.waiting.iter()
    }

    /// Those that wait for later runs, held or not.
    pub fn follow_ups(&self) -> impl Iterator<Item = &Message> {
        self.follow_ups.iter()
    }

    /// The message that opens the next run; none while follow-ups are held.
    pub fn next_follow_up(&self) -> Option<&Message> {
        self.follow_ups.front().filter(|_| !self.paused)
    }

    /// True while follow-ups are held until the next message.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// A message and what became of it; `None` when there never was one, or its receipt is no longer kept.
    pub fn find(&self, number: MessageNumber) -> Option<Posted> {
        let waits = self.pending().find(|message| message.number == number);
        waits
            .map(|message| Posted { message: message.clone(), receipt: Receipt::Accepted })
            .or_else(|| self.settled.iter().find(|posted| posted.message.number == number).cloned())
    }

    /// The message that `from` sent with this key, as long as its receipt is kept.
    pub fn find_by_key(&self, from: &Requester, key: &str) -> Option<Posted> {
        self.list()
            .into_iter()
            .rev()
            .find(|posted| posted.message.from == *from && posted.message.key.as_deref() == Some(key))
    }

    /// All that are known, by number.
    pub fn list(&self) -> Vec<Posted> {
        let pending =
            self.pending().map(|message| Posted { message: message.clone(), receipt: Receipt::Accepted });
        let mut all: Vec<_> = self.settled.iter().cloned().chain(pending).collect();
        all.sort_by_key(|posted| posted.message.number);
        all
    }

    /// The number of the newest message.
    pub fn newest(&self) -> MessageNumber {
        self.last
    }

    /// True when the number was given out.
    pub fn is_known(&self, number: MessageNumber) -> bool {
        number.0 > 0 && number <= self.last
    }

    pub(crate) fn pause(&mut self) {
        self.paused = true;
    }

    pub(crate) fn unpause(&mut self) {
        self.paused = false;
    }

    /// True when it could be accepted: its number is the next one.
    pub(crate) fn post(&mut self, message: Message) -> bool {
        if message.number.0 != self.last.0 + 1 {
            return false;
        }
        self.last = message.number;
        // What the runtime says is no word of anybody who could mean the queue.
        self.paused &= message.from.as_str() == crate::run::RUNTIME;
        match message.mode {
            MessageMode::FollowUp => self.follow_ups.push_back(message),
            MessageMode::Steer => self.waiting.push_back(message),
            MessageMode::Interrupt => {
                let steers = self.waiting.iter().position(|other| other.mode != MessageMode::Interrupt);
                self.waiting.insert(steers.unwrap_or(self.waiting.len()), message);
            }
        }
        true
    }

    pub(crate) fn begin(&mut self, number: MessageNumber) -> bool {
        if self.handing.is_some() || self.waiting.front().is_none_or(|first| first.number != number) {
            return false;
        }
        self.handing = self.waiting.pop_front();
        true
    }

    pub(crate) fn put_back(&mut self, number: MessageNumber) -> bool {
        match self.handing.take_if(|message| message.number == number) {
            Some(message) => self.waiting.push_front(message),
            None => return false,
        }
        true
    }

    pub(crate) fn deliver(&mut self, number: MessageNumber, run: RunNumber, at: Timestamp) -> bool {
        self.take(number).is_some_and(|message| {
            self.settle(message, Receipt::Delivered { at, run });
            true
        })
    }

    /// Takes a message out for good; gives it back with its receipt.
    pub(crate) fn give_back(
        &mut self,
        number: MessageNumber,
        reason: ReturnReason,
        at: Timestamp,
    ) -> Option<Posted> {
        let message = self.take(number)?;
        let receipt = Receipt::Returned { reason, at };
        let posted = Posted { message: message.clone(), receipt };
        self.settle(message, receipt);
        Some(posted)
    }

    fn take(&mut self, number: MessageNumber) -> Option<Message> {
        if let Some(message) = self.handing.take_if(|message| message.number == number) {
            return Some(message);
        }
        for queue in [&mut self.waiting, &mut self.follow_ups] {
            if let Some(place) = queue.iter().position(|message| message.number == number) {
                return queue.remove(place);
            }
        }
        None
    }

    fn settle(&mut self, mut message: Message, receipt: Receipt) {
        let kept = cut_at_boundary(&message.text, KEPT_TEXT).len();
        message.text.truncate(kept);
        self.settled.push_back(Posted { message, receipt });
        while self.settled.len() > KEPT_RECEIPTS {
            self.settled.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use subagent_model::{
        MessageMode, MessageNumber, Receipt, Requester, ReturnReason, RunNumber, Timestamp,
    };

    use super::{MOST_MESSAGE_BYTES, MOST_MESSAGES, MailRefusal, Mailbox};

    fn at() -> Timestamp {
        Timestamp::from_micros(1)
    }

    fn post(mailbox: &mut Mailbox, mode: MessageMode, text: &str) -> MessageNumber {
        let message = mailbox.compose(Requester::from("somebody"), mode, text.to_owned(), at());
        let number = message.number;
        assert!(mailbox.post(message));
        number
    }

    #[test]
    fn steer_01_messages_come_in_order_and_an_interrupt_before_older_steers() {
        let mut mailbox = Mailbox::default();
        post(&mut mailbox, MessageMode::Steer, "a");
        post(&mut mailbox, MessageMode::FollowUp, "later");
        post(&mut mailbox, MessageMode::Interrupt, "now");
        post(&mut mailbox, MessageMode::Interrupt, "then");
        post(&mut mailbox, MessageMode::Steer, "b");
        let order: Vec<_> = mailbox.pending().map(|message| message.text.as_str()).collect();
        assert_eq!(order, ["now", "then", "a", "b", "later"]);
    }

    #[test]
    fn steer_08_and_09_what_does_not_fit_is_refused_with_the_bound() {
        let mut mailbox = Mailbox::default();
        assert_eq!(mailbox.admit(" \n"), Err(MailRefusal::Blank { limit: MOST_MESSAGE_BYTES }));
        let long = "x".repeat(MOST_MESSAGE_BYTES + 1);
        let refusal = MailRefusal::TooLong { bytes: long.len(), limit: MOST_MESSAGE_BYTES };
        assert_eq!(mailbox.admit(&long), Err(refusal));
        for _ in 0..MOST_MESSAGES {
            mailbox.admit("x").unwrap();
            post(&mut mailbox, MessageMode::Steer, "x");
        }
        let full = mailbox.admit("x").unwrap_err();
        assert_eq!(full.numbers(), Some((MOST_MESSAGES, MOST_MESSAGES)));
        let mut heavy = Mailbox::default();
        for _ in 0..4 {
            let text = "x".repeat(MOST_MESSAGE_BYTES);
            heavy.admit(&text).unwrap();
            post(&mut heavy, MessageMode::FollowUp, &text);
        }
        assert!(matches!(heavy.admit("x"), Err(MailRefusal::Full { unit: "bytes", .. })));
    }

    #[test]
    fn steer_13_a_message_that_was_certainly_not_written_keeps_its_place() {
        let mut mailbox = Mailbox::default();
        let first = post(&mut mailbox, MessageMode::Steer, "a");
        let second = post(&mut mailbox, MessageMode::Steer, "b");
        assert!(!mailbox.begin(second), "out of turn");
        assert!(mailbox.begin(first) && !mailbox.begin(second), "one at a time");
        assert!(mailbox.put_back(first) && mailbox.begin(first));
        assert!(mailbox.deliver(first, RunNumber(1), at()));
        assert!(!mailbox.deliver(first, RunNumber(1), at()), "once");
        let delivered = mailbox.find(first).unwrap();
        assert_eq!(delivered.receipt, Receipt::Delivered { at: at(), run: RunNumber(1) });
    }

    #[test]
    fn steer_03_a_returned_message_is_given_back_whole() {
        let mut mailbox = Mailbox::default();
        let text = "x".repeat(1000);
        let number = post(&mut mailbox, MessageMode::FollowUp, &text);
        let back = mailbox.give_back(number, ReturnReason::Stopped, at()).unwrap();
        assert_eq!(back.message.text, text);
        assert!(mailbox.give_back(number, ReturnReason::Stopped, at()).is_none());
        assert!(mailbox.find(number).unwrap().message.text.len() < text.len());
    }
}
