//! The protocol "lines": JSON lines both ways, for programs of people who write their own agents. It is described in
//! `docs/lines.md`; here is its codec, a state machine without IO. The messages are in `words`.
//!
//! Unknown types and fields are ignored, so that newer children speak with older daemons. What is known must fit: a line
//! that cannot be read could have been the one that mattered, so it breaks the protocol.

mod words;

use subagent_model::text::cut_at_boundary;
use subagent_model::{Answer, AskOption, Choice, Subject};
use subagent_provider::{Codec, Heard, Job, Order, Said, WasTold};

use words::{FromChild, ToChild};

/// The version of the protocol that is spoken here.
pub const VERSION: u32 = 1;

/// Most bytes of a line that are shown when it does not fit.
const EXCERPT_BYTES: usize = 200;

/// The codec of one child that speaks lines.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Lines {
    stage: Stage,
    can: Can,
}

/// How far the conversation is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Stage {
    /// Taken over in its middle, and its beginning is not known: whatever comes next is believed.
    #[default]
    Unknown,
    /// We have said hello, the child has not.
    Greeting,
    /// The child has said hello and is not ready.
    Opening { session: Option<String> },
    /// It takes prompts.
    Open,
    /// It cannot be spoken with.
    Broken,
}

/// What the child said it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Can {
    steer: bool,
    interrupt: bool,
    took: bool,
}

impl Default for Can {
    /// Of a child whose hello is not known.
    fn default() -> Self {
        Self { steer: true, interrupt: true, took: true }
    }
}

impl Lines {
    fn understood(&mut self, said: FromChild) -> Result<Option<Said>, String> {
        if let FromChild::Hello { version, session, can } = said {
            return self.greeted(version, session, &can);
        }
        if self.stage == Stage::Greeting {
            return Err(String::from("its first line is no hello"));
        }
        Ok(Some(match said {
            FromChild::Hello { .. } | FromChild::Unknown => return Ok(None),
            FromChild::Ready { session } => match std::mem::replace(&mut self.stage, Stage::Open) {
                Stage::Opening { session: greeted } => {
                    Said::Opened { session: words::name("session", session)?.or(greeted) }
                }
                Stage::Unknown => Said::Opened { session: words::name("session", session)? },
                // Said twice: it is what it was.
                _ => return Ok(None),
            },
            other => other.said()?,
        }))
    }

    fn greeted(
        &mut self,
        version: u32,
        session: Option<String>,
        can: &[String],
    ) -> Result<Option<Said>, String> {
        if version != VERSION {
            return Err(format!(
                "it speaks version {version} of lines, and only version {VERSION} is spoken here"
            ));
        }
        if matches!(self.stage, Stage::Unknown | Stage::Greeting) {
            let able = |word: &str| can.iter().any(|can| can == word);
            self.can = Can { steer: able("steer"), interrupt: able("interrupt"), took: able("took") };
            self.stage = Stage::Opening { session: words::name("session", session)? };
        }
        Ok(None)
    }
}

impl Codec for Lines {
    fn open(&mut self, job: &Job) -> Vec<u8> {
        self.stage = Stage::Greeting;
        let hello = ToChild::Hello {
            version: VERSION,
            subagent: job.key.subagent.to_string(),
            run: job.key.run.0,
            attempt: job.key.attempt.0,
            session: job.session.clone(),
        };
        hello.line()
    }

    fn hear(&mut self, line: &[u8]) -> Heard {
        if self.stage == Stage::Broken || line.trim_ascii().is_empty() {
            return Heard::default();
        }
        let understood = serde_json::from_slice::<FromChild>(line)
            .map_err(|error| error.to_string())
            .and_then(|said| self.understood(said));
        let said = match understood {
            Ok(said) => said,
            Err(why) => {
                self.stage = Stage::Broken;
                let line = String::from_utf8_lossy(line);
                Some(Said::Broken(format!("{why}: {:?}", cut_at_boundary(&line, EXCERPT_BYTES))))
            }
        };
        Heard { said: said.into_iter().collect(), reply: vec![] }
    }

    fn tell(&mut self, order: &Order) -> Result<Vec<u8>, String> {
        match (&self.stage, order) {
            (Stage::Broken, _) => return Err(String::from("it has broken its protocol")),
            (_, Order::Close) | (Stage::Unknown | Stage::Open, _) => {}
            (Stage::Greeting | Stage::Opening { .. }, _) => return Err(String::from("it is not ready yet")),
        }
        let said = match order {
            Order::Prompt { attached, .. } | Order::Steer { attached, .. } if !attached.is_empty() => {
                return Err(String::from("its protocol has no place for files"));
            }
            Order::Steer { .. } if !self.can.steer => {
                return Err(String::from("it said that it takes no messages during a turn"));
            }
            Order::Interrupt if !self.can.interrupt => {
                return Err(String::from("it said that its turns cannot be cancelled"));
            }
            Order::Prompt { number, from, text, .. } => {
                ToChild::Prompt { number: *number, from: from.clone(), text: text.clone() }
            }
            Order::Steer { number, from, text, .. } => {
                ToChild::Steer { number: *number, from: from.clone(), text: text.clone() }
            }
            Order::Interrupt => ToChild::Interrupt,
            Order::Answer { key, ask, answer, reason } => {
                let offered: &[AskOption] = match &ask.subject {
                    Subject::Approval { options, .. } => options,
                    Subject::Question { .. } => &[],
                };
                let (answer, option, text) = match answer {
                    Answer::Choice { choice } => {
                        let (choice, option) = chosen(offered, *choice);
                        (words::answer(choice), option.map(|option| option.id.clone()), None)
                    }
                    Answer::Text { text } => ("text", None, Some(text.clone())),
                    Answer::None => ("none", None, None),
                };
                let answer = answer.to_owned();
                ToChild::Answer { key: key.clone(), answer, option, text, reason: reason.clone() }
            }
            Order::StopInner { .. } => {
                return Err(String::from("its protocol has no word for subagents of its own"));
            }
            Order::Close => ToChild::Close,
        };
        Ok(said.line())
    }

    fn acknowledges(&self) -> bool {
        self.can.took
    }

    fn recall(&mut self, line: &[u8]) -> Vec<WasTold> {
        // It was written here, whole: what does not fit is of another version, and no word that counts.
        match serde_json::from_slice(line) {
            Ok(ToChild::Hello { .. }) => {
                if self.stage == Stage::Unknown {
                    self.stage = Stage::Greeting;
                }
                vec![]
            }
            Ok(ToChild::Prompt { number: None, .. }) => vec![WasTold::Prompt],
            Ok(ToChild::Prompt { number: Some(number), .. } | ToChild::Steer { number, .. }) => {
                vec![WasTold::Message(number)]
            }
            Ok(ToChild::Answer { key, .. }) => vec![WasTold::Answer(key)],
            Ok(ToChild::Interrupt) => vec![WasTold::Interrupt],
            Ok(ToChild::Close | ToChild::Unknown) | Err(_) => vec![],
        }
    }
}

/// The option that an answer comes to, by its kind. Where "always" is not offered, "once" is meant: what was answered
/// for always is remembered by the daemon. A yes is never made wider, and a no without an option stays a no.
fn chosen(offered: &[AskOption], choice: Choice) -> (Choice, Option<&AskOption>) {
    let kinds: &[Choice] = match choice {
        Choice::AllowOnce => &[Choice::AllowOnce],
        Choice::AllowAlways => &[Choice::AllowAlways, Choice::AllowOnce],
        Choice::DenyOnce => &[Choice::DenyOnce, Choice::DenyAlways],
        Choice::DenyAlways => &[Choice::DenyAlways, Choice::DenyOnce],
    };
    let found = kinds.iter().find_map(|kind| offered.iter().find(|option| option.kind == *kind));
    (found.map_or(choice, |option| option.kind), found)
}

#[cfg(test)]
mod tests;
