//! One turn of our thread: from the request that begins it to its end, with the messages that were steered into it.

use subagent_provider::TurnEnd;

use super::failures::TurnError;
use super::frames::Note;
use super::items::{Phase, Spoken};
use crate::bounds::NAME_BYTES;
use crate::steers::Steers;

/// Most frames that are kept while it is not known which turn ours is, and most bytes of them.
const MOST_EARLY: usize = 512;
const EARLY_BYTES: usize = 8 << 20;

/// A turn.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the turn, and none excludes another")]
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Turn {
    /// The request that begins it.
    pub(super) request: String,
    /// Its name, once the request is answered.
    pub(super) id: Option<String>,
    /// What was told of turns before that.
    pub(super) early: Vec<Note>,
    early_bytes: usize,
    /// Messages for it.
    pub(super) steers: Steers,
    /// It has begun: before, it can neither be steered nor cancelled.
    pub(super) live: bool,
    /// It is to be cancelled once it has begun.
    pub(super) cancel: bool,
    /// How it ended. It counts once every message for it has its last word.
    pub(super) over: Option<TurnEnd>,
    /// The message that is being written, where it may be the answer.
    pub(super) streams: Option<String>,
    answers: Answers,
    /// The failure that was tried again last, and the one that was not.
    pub(super) retried: Option<TurnError>,
    pub(super) failure: Option<TurnError>,
    /// Since the last request to the model a tool was called.
    pub(super) tools: bool,
    /// Requests to the model were told of.
    pub(super) counted: bool,
}

/// The messages that may be the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Answers {
    named: Option<String>,
    plain: Option<String>,
}

impl Turn {
    pub(super) fn begun(request: String) -> Self {
        Self { request, ..Self::default() }
    }

    /// A turn that is over, and is looked at again for a message that was on its way to it.
    pub(super) fn again(id: Option<String>, over: Option<TurnEnd>) -> Self {
        Self { id, over, live: true, ..Self::default() }
    }

    /// Keeps a frame until the name of the turn is known. False when it is too much.
    pub(super) fn keep(&mut self, note: Note) -> bool {
        self.early_bytes += note.method.len() + note.params.to_string().len();
        self.early.push(note);
        self.early.len() <= MOST_EARLY && self.early_bytes <= EARLY_BYTES
    }

    /// Gives the turn its name. False when the frames that came before are about another one.
    pub(super) fn name(&mut self, id: &str, before: Option<&str>) -> bool {
        if id.is_empty() || id.len() > NAME_BYTES {
            return false;
        }
        self.id = Some(id.to_owned());
        let begins = |note: &&Note| note.method == "turn/started" || note.method == "turn/completed";
        let others = self.early.iter().filter(begins).filter_map(Note::turn);
        others.into_iter().all(|other| other == id || Some(other) == before)
    }

    /// A whole message. True when it may be the answer.
    pub(super) fn answer(&mut self, message: &Spoken<'_>) -> bool {
        if self.streams.as_deref() == Some(message.id) {
            self.streams = None;
        }
        let place = match message.phase {
            Phase::Commentary => return false,
            Phase::Final => &mut self.answers.named,
            Phase::Plain => &mut self.answers.plain,
        };
        if !message.text.trim().is_empty() {
            *place = Some(message.text.to_owned());
        }
        true
    }

    /// The answer: the last message that is called so, else the last that is called nothing; blank where there is none.
    pub(super) fn final_answer(&mut self) -> String {
        let answers = std::mem::take(&mut self.answers);
        answers.named.or(answers.plain).unwrap_or_default()
    }
}
