//! Children that are spoken with while they run: what they say, what they are told, and the codec between these words and
//! the bytes of a vendor's protocol. A codec does no IO. The runtime moves the bytes, and can build a codec's state anew
//! from the log of what went both ways: so a daemon adopts a conversation in its middle.

use subagent_model::{Answer, Ask, ErrorInfo, Limit, MessageNumber, Requester, Timestamp, Usage};

use crate::{Attached, Job};

/// What a child says.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// It takes prompts from now on.
    Opened {
        /// Its name of the session, by which another process can go on with it.
        session: Option<String>,
    },
    /// A part of a message that it is writing.
    Delta(String),
    /// A whole message of it.
    Message(String),
    /// A turn of its model is finished.
    Turn {
        /// It goes on by itself: the turn ended with calls of tools.
        more: bool,
    },
    /// A thought of it, or a part of one: no part of its answer.
    Thought(String),
    /// A tool is at work. Said again with the same id it is the same call, known better.
    ToolStarted {
        /// Its own name for the call.
        id: String,
        /// The tool.
        name: String,
        /// What the tool was given, where that is known: text, or JSON as text.
        input: Option<String>,
    },
    /// A tool is done.
    ToolEnded {
        /// Its own name for the call.
        id: String,
        /// Whether it failed, where that is known.
        failed: Option<bool>,
        /// What came of it, where that is known: text, or JSON as text.
        output: Option<String>,
    },
    /// What it means to do, all of it.
    Plan(Vec<PlanStep>),
    /// A notice for people: a warning, a retry, a refusal of its own. No part of its answer.
    Notice(String),
    /// Something that it wanted was denied by rules of its own, before anybody here was asked: what and why, for people.
    Denied(String),
    /// The model that works for it, as it says.
    Model(String),
    /// The models that can be chosen here: all of them.
    Models(Vec<ModelOffer>),
    /// News of a subagent of its own, which runs inside of it.
    Inner(Inner),
    /// A finished message used this much, since the last time it said so.
    Used(Usage),
    /// It has shortened its context.
    Compacted,
    /// It has a message that it was told.
    Took(MessageNumber),
    /// It did not take a message that it was told.
    Declined(MessageNumber),
    /// It asks for a permission or an answer, and waits.
    Asked(Ask),
    /// It no longer waits for an answer.
    TookBack {
        /// Its own name for the request.
        key: String,
    },
    /// Background work of its own that outlives its turn: how much of it is live.
    Background {
        /// How many pieces.
        live: u32,
    },
    /// A limit of its provider holds it up, and it tries again by itself.
    HeldUp {
        /// Until then, where that is known.
        until: Option<Timestamp>,
    },
    /// What it was prompted with is worked off: it waits for the next prompt.
    Done(TurnEnd),
    /// It has closed what it was told to close: its input can be ended.
    Closed,
    /// It broke its protocol: it cannot be spoken with any more.
    Broken(String),
}

/// A model that an agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelOffer {
    /// The name by which it is chosen.
    pub id: String,
    /// Its name for people.
    pub name: String,
}

/// One thing that a child means to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// What.
    pub text: String,
    /// How far it is.
    pub state: PlanState,
}

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanState {
    /// Not begun.
    Pending,
    /// Under way.
    Active,
    /// Done.
    Done,
}

/// A subagent of a child's own. It is known by the name that the child has for it, on this conversation only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner {
    /// The child's name for it.
    pub id: String,
    /// The name of the one that it belongs to, where that is another inner one.
    pub parent: Option<String>,
    /// What it is about. None where nothing new is said of it.
    pub title: Option<String>,
    /// How it stands. None where nothing new is said of it.
    pub state: Option<InnerState>,
    /// It can be cancelled by itself.
    pub can_cancel: Option<bool>,
}

/// How an inner subagent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InnerState {
    /// At work.
    Running,
    /// Waiting for a permission or an answer.
    Asking,
    /// It came to a good end.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Stopped,
    /// Nobody knows.
    Unknown,
}

/// How the work on a prompt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// By itself.
    Finished {
        /// Its final answer, where the protocol names one; else the last message counts.
        answer: Option<String>,
        /// The answer was cut off by the limit of a message's length.
        truncated: bool,
    },
    /// It was cancelled.
    Cancelled,
    /// A limit of its own cut it off.
    CutOff(Limit),
    /// It failed. The code is one of the classes of provider errors.
    Failed(ErrorInfo),
}

/// What a child is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Work on this.
    Prompt {
        /// The message that it is, where it is one.
        number: Option<MessageNumber>,
        /// Who says it.
        from: Requester,
        /// The text.
        text: String,
        /// Files that go with it.
        attached: Vec<Attached>,
    },
    /// Take this into the current turn.
    Steer {
        /// The message.
        number: MessageNumber,
        /// Who says it.
        from: Requester,
        /// The text.
        text: String,
        /// Files that go with it.
        attached: Vec<Attached>,
    },
    /// Cancel the current turn.
    Interrupt,
    /// The answer to a request.
    Answer {
        /// The child's own name for the request.
        key: String,
        /// What was asked: the options that it takes stand in it.
        ask: Box<Ask>,
        /// The answer.
        answer: Answer,
        /// Why.
        reason: Option<String>,
    },
    /// Stop one of its own subagents, and nothing else.
    StopInner {
        /// The child's own name for it.
        key: String,
    },
    /// End: nothing more will be said.
    Close,
}

/// What a piece of the child's output means.
#[derive(Debug, Default, PartialEq)]
pub struct Heard {
    /// What it says, in order.
    pub said: Vec<Said>,
    /// What the protocol itself answers at once.
    pub reply: Vec<u8>,
}

/// What a piece of the child's input, as it was written before, was. Read when a conversation is taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WasTold {
    /// The prompt of the run.
    Prompt,
    /// A message.
    Message(MessageNumber),
    /// The answer to the request of this name.
    Answer(String),
    /// The request to cancel the turn.
    Interrupt,
    /// The request to stop the inner subagent of this name.
    StopInner(String),
}

/// The codec of one conversation: a state machine without IO, clock or randomness. Bytes that it gives are written in
/// the order in which it gave them; a line is written whole or not at all.
pub trait Codec: Send {
    /// What is written before anything was heard.
    fn open(&mut self, job: &Job) -> Vec<u8>;

    /// Reads one line of the child's standard output, without its end. Lines are bounded by the runtime.
    fn hear(&mut self, line: &[u8]) -> Heard;

    /// The bytes of an order; `Err` with the reason when the protocol has no word for it now.
    fn tell(&mut self, order: &Order) -> Result<Vec<u8>, String>;

    /// Whether it says that it took a message. Where it does not, a message counts as taken once it was written.
    fn acknowledges(&self) -> bool {
        true
    }

    /// Whether it was told to close and has not said [`Said::Closed`] yet. Its input is kept open for a bounded time then.
    fn is_closing(&self) -> bool {
        false
    }

    /// Takes note of a line that an earlier daemon wrote to the child, in its place between the lines that are heard
    /// again with [`Self::hear`]. Replies and orders are not to be given again.
    fn recall(&mut self, line: &[u8]) -> Vec<WasTold>;
}

/// The last message of a run that is not blank, else what was streamed of one, else nothing. The one rule by which an
/// answer is chosen where a protocol does not name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastMessage {
    message: Option<String>,
    streamed: String,
}

/// Most bytes of a streamed text that are kept while its message is not finished.
const MOST_STREAMED: usize = 4 << 20;

impl LastMessage {
    /// A whole message.
    pub fn message(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.message = Some(text.to_owned());
        }
        self.streamed.clear();
    }

    /// A part of a message.
    pub fn delta(&mut self, text: &str) {
        let room = MOST_STREAMED.saturating_sub(self.streamed.len());
        self.streamed.push_str(subagent_model::text::cut_at_boundary(text, room));
    }

    /// The answer so far.
    pub fn text(&self) -> Option<&str> {
        let streamed = || Some(self.streamed.as_str()).filter(|text| !text.trim().is_empty());
        self.message.as_deref().or_else(streamed)
    }
}

#[cfg(test)]
mod tests {
    use super::LastMessage;

    #[test]
    fn result_27_the_last_message_that_is_not_blank_else_what_was_streamed() {
        let mut last = LastMessage::default();
        assert_eq!(last.text(), None);
        last.delta("he");
        last.delta("llo");
        assert_eq!(last.text(), Some("hello"), "only deltas");
        last.message("hello, whole");
        last.message(" \n");
        assert_eq!(last.text(), Some("hello, whole"), "a trailing empty message");
        last.delta("cancelled in the mid");
        assert_eq!(last.text(), Some("hello, whole"), "a cancelled stream");
    }
}
