//! One turn: from our prompt to the word that nothing more will happen by itself, with the messages that were steered
//! into it. Pi keeps messages in a queue; a message counts as taken once it has left the queue by itself.

use subagent_provider::{Said, TurnEnd};

use super::failures;
use super::words::Message;
use crate::steers::Steers;

/// A turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Turn {
    /// The request that begins it.
    pub(super) request: String,
    /// The prompt was taken.
    pub(super) accepted: bool,
    /// Messages for it. One counts as accepted once it is in the queue.
    pub(super) steers: Steers,
    /// It is to be cancelled once the prompt is taken.
    pub(super) cancel: bool,
    /// How many messages are in the queue.
    queue: usize,
    /// Requests to clear the queue that are not answered.
    pub(super) clears: u32,
    /// Requests to abort that are not answered.
    pub(super) aborts: u32,
    /// Nothing more will happen. True: because it was aborted.
    pub(super) settled: Option<bool>,
    /// The sums of the session were looked at after that.
    pub(super) looked: bool,
    /// Why the last message of the model ended, and its failure.
    stop: String,
    error: Option<String>,
    answer: Option<String>,
}

impl Turn {
    pub(super) fn begun(request: String) -> Self {
        Self { request, ..Self::default() }
    }

    /// A turn whose beginning is lost.
    pub(super) fn found() -> Self {
        Self { accepted: true, ..Self::default() }
    }

    /// A message of the model is whole. True when its text may be the answer: a broken one will be tried again.
    pub(super) fn message(&mut self, message: &Message, text: &str) -> bool {
        self.stop.clone_from(&message.stop_reason);
        self.error.clone_from(&message.error);
        let whole = !matches!(message.stop_reason.as_str(), "error" | "aborted");
        if whole && !text.trim().is_empty() {
            self.answer = Some(text.to_owned());
        }
        whole
    }

    /// The queue has this many messages. What left it by itself was taken.
    pub(super) fn queue_is(&mut self, now: usize) -> Vec<Said> {
        let left = std::mem::replace(&mut self.queue, now).saturating_sub(now);
        // While it is being cleared, its answer says what was taken.
        if self.clears > 0 { vec![] } else { self.take(left) }
    }

    /// The queue was cleared of so many messages: the last ones.
    pub(super) fn cleared(&mut self, removed: usize) -> Vec<Said> {
        self.clears = self.clears.saturating_sub(1);
        let mut said = self.take(self.steers.accepted_so_far().saturating_sub(removed));
        said.extend(self.steers.take_accepted().into_iter().map(Said::Declined));
        said
    }

    fn take(&mut self, count: usize) -> Vec<Said> {
        self.steers.take_first(count).into_iter().map(Said::Took).collect()
    }

    /// It is over, and only messages are in its queue that nobody will read.
    pub(super) fn is_to_be_cleared(&self) -> bool {
        let queued = self.steers.accepted().is_some_and(|queued| queued > 0);
        self.settled.is_some() && queued && self.clears == 0
    }

    /// How it ended, once everything that was asked is answered.
    pub(super) fn end(&mut self) -> Option<TurnEnd> {
        let aborted = self.settled?;
        if !self.looked || self.clears > 0 || self.aborts > 0 || !self.steers.is_settled() {
            return None;
        }
        let answer = std::mem::take(&mut self.answer).unwrap_or_default();
        Some(match self.stop.as_str() {
            _ if aborted => TurnEnd::Cancelled,
            "aborted" => TurnEnd::Cancelled,
            "error" => {
                let why = self.error.as_deref().unwrap_or("its model failed, and it was not said why");
                TurnEnd::Failed(failures::failed(why))
            }
            stop => TurnEnd::Finished { answer: Some(answer), truncated: stop == "length" },
        })
    }
}
