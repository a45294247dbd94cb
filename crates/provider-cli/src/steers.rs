//! Messages for an open turn, each until it has its last word. What cannot be given yet is held.

use subagent_model::MessageNumber;
use subagent_provider::Attached;

/// The messages of one turn, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Steers {
    given: Vec<Given>,
    held: Vec<Held>,
}

/// A message that waits, with the files that go with it.
type Held = (MessageNumber, String, Vec<Attached>);

/// A message that was written to the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Given {
    number: MessageNumber,
    /// The child has answered that it has it. Whether its model will read it is not known.
    accepted: bool,
}

impl Steers {
    /// A message has no last word.
    pub(crate) fn has(&self, number: MessageNumber) -> bool {
        let held = self.held.iter().map(|(number, ..)| *number);
        self.given.iter().map(|given| given.number).chain(held).any(|known| known == number)
    }

    /// A message is written to the child.
    pub(crate) fn give(&mut self, number: MessageNumber) {
        if !self.has(number) {
            self.given.push(Given { number, accepted: false });
        }
    }

    /// A message waits until the turn can take it.
    pub(crate) fn hold(&mut self, number: MessageNumber, text: String, attached: Vec<Attached>) {
        self.held.push((number, text, attached));
    }

    /// What was held is written now.
    pub(crate) fn release(&mut self) -> Vec<Held> {
        let held = std::mem::take(&mut self.held);
        self.given.extend(held.iter().map(|(number, ..)| Given { number: *number, accepted: false }));
        held
    }

    /// The child has answered that it has a message.
    pub(crate) fn accept(&mut self, number: MessageNumber) {
        if let Some(given) = self.given.iter_mut().find(|given| given.number == number) {
            given.accepted = true;
        }
    }

    /// A message that was given has its last word. False when it had it before.
    pub(crate) fn settle(&mut self, number: MessageNumber) -> bool {
        let before = self.given.len();
        self.given.retain(|given| given.number != number);
        self.given.len() < before
    }

    /// The message that was given first.
    pub(crate) fn first(&self) -> Option<MessageNumber> {
        self.given.first().map(|given| given.number)
    }

    /// No message that was given waits for its last word.
    pub(crate) fn is_settled(&self) -> bool {
        self.given.is_empty()
    }

    /// How many the child has answered that it has; none where one is not answered.
    pub(crate) fn accepted(&self) -> Option<usize> {
        self.given.iter().all(|given| given.accepted).then_some(self.given.len())
    }

    /// How many the child has answered that it has so far.
    pub(crate) fn accepted_so_far(&self) -> usize {
        self.given.iter().filter(|given| given.accepted).count()
    }

    /// Takes out the first ones.
    pub(crate) fn take_first(&mut self, count: usize) -> Vec<MessageNumber> {
        let count = count.min(self.given.len());
        self.given.drain(..count).map(|given| given.number).collect()
    }

    /// Takes out all that the child has answered that it has.
    pub(crate) fn take_accepted(&mut self) -> Vec<MessageNumber> {
        let (accepted, left) = std::mem::take(&mut self.given).into_iter().partition(|given| given.accepted);
        self.given = left;
        let accepted: Vec<Given> = accepted;
        accepted.into_iter().map(|given| given.number).collect()
    }

    /// Takes out everything, what is held included.
    pub(crate) fn take_all(&mut self) -> Vec<MessageNumber> {
        let held = std::mem::take(&mut self.held).into_iter().map(|(number, ..)| number);
        std::mem::take(&mut self.given).into_iter().map(|given| given.number).chain(held).collect()
    }
}
