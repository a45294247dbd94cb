//! The ids of requests that tell prompts and messages. They say what they are, so that the log of a conversation is enough
//! to go on with it.

use subagent_model::MessageNumber;
use subagent_provider::WasTold;

/// Prompts that were given: each has an id of its own, `prompt:N`. One that is a message is known by that, as `mN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Prompts(u64);

impl Prompts {
    /// The id of the next prompt.
    pub(crate) fn next(&mut self, number: Option<MessageNumber>) -> String {
        if let Some(number) = number {
            return of_message(number);
        }
        self.0 = self.0.saturating_add(1);
        format!("prompt:{}", self.0)
    }

    /// A prompt with this id was given before.
    pub(crate) fn recall(&mut self, id: &str) -> WasTold {
        if let Some(number) = message(id) {
            return WasTold::Message(number);
        }
        let count = id.strip_prefix("prompt:").and_then(|count| count.parse().ok());
        self.0 = self.0.max(count.unwrap_or(0));
        WasTold::Prompt
    }
}

/// The id of a message.
pub(crate) fn of_message(number: MessageNumber) -> String {
    format!("m{number}")
}

/// The message with this id.
pub(crate) fn message(id: &str) -> Option<MessageNumber> {
    id.strip_prefix('m')?.parse().ok().map(MessageNumber)
}
