//! Stepping through a recorded sequence of commands. A property test that fails writes such a sequence, and
//! `cargo xtask replay FILE` walks it; the walk uses the same `decide`, `apply` and `needs` as the daemon. Reading the
//! file is the caller's.
//!
//! ```
//! use subagent_core::replay::{Player, Sequence};
//!
//! # let text = include_str!("../../../fixtures/replay/v1-stop-race.json");
//! let sequence = Sequence::parse(text)?;
//! for taken in Player::new(&sequence)? {
//!     let taken = taken?;
//!     let answer = match &taken.decision {
//!         Ok(events) => events.iter().map(|event| event.name()).collect::<Vec<_>>().join(", "),
//!         Err(refusal) => format!("refused: {refusal}"),
//!     };
//!     println!("{} {}: {answer}; now {}, needs {:?}", taken.at, taken.command.name(), taken.state.status(), taken.needs);
//! }
//! # Ok::<(), subagent_core::replay::ReplayError>(())
//! ```

use serde::{Deserialize, Serialize};
use serde_json::Value;
use subagent_model::{EventKind, Timestamp};

use crate::need::{Need, needs};
use crate::run::{Birth, Command, IllegalEvent, Refusal, Subagent, accept, born, decide};

/// The version that this code writes, and the newest that it reads. Version 1 knew no conversations.
pub const VERSION: u32 = 2;

/// A sequence of commands to one subagent: the content of a replay file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    /// Version of the format.
    pub version: u32,
    /// What it shows, in a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// When the subagent was accepted.
    pub at: Timestamp,
    /// With what it was born.
    pub birth: Birth,
    /// What it was told then, in order. Times need not ascend: a clock can be set back.
    pub steps: Vec<Step>,
}

/// One command at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// What.
    pub command: Command,
}

/// Why a sequence cannot be walked.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is not a sequence.
    #[error("not a replay file")]
    Json(#[from] serde_json::Error),
    /// It was written by a newer version.
    #[error("version {found} of the replay format is newer than {VERSION}")]
    TooNew {
        /// Its version.
        found: u32,
    },
    /// `decide` gave a fact that `apply` refuses: a fault of the core, and what such a file is kept for.
    #[error("step {index}: a decided fact does not apply")]
    Illegal {
        /// The step, counted from 1; 0 is the birth.
        index: usize,
        /// What went wrong.
        #[source]
        source: IllegalEvent,
    },
}

/// One step, taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// Its number, counted from 1; 0 is the birth.
    pub index: usize,
    /// When.
    pub at: Timestamp,
    /// The command.
    pub command: Command,
    /// The facts it led to, or why it was refused.
    pub decision: Result<Vec<EventKind>, Refusal>,
    /// The state after it.
    pub state: Subagent,
    /// What the state needs then.
    pub needs: Vec<Need>,
}

impl Sequence {
    /// An empty sequence of the present version.
    pub fn new(about: impl Into<String>, at: Timestamp, birth: Birth) -> Self {
        Self { version: VERSION, about: about.into(), at, birth, steps: vec![] }
    }

    /// Reads a replay file.
    pub fn parse(json: &str) -> Result<Self, ReplayError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        // The version first: a newer file may not even have the same fields.
        let Head { version } = serde_json::from_str(json)?;
        match version {
            VERSION => Ok(serde_json::from_str(json)?),
            newer if newer > VERSION => Err(ReplayError::TooNew { found: newer }),
            _ => {
                let mut written = serde_json::from_str(json)?;
                complete(&mut written);
                Ok(Self { version: VERSION, ..serde_json::from_value(written)? })
            }
        }
    }

    /// The content of a replay file.
    pub fn to_json(&self) -> Result<String, ReplayError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}

/// Commands of version 1 get the fields that they lacked, with the values by which they act as they did then.
fn complete(written: &mut Value) {
    let steps = written.get_mut("steps").and_then(Value::as_array_mut);
    for command in steps.into_iter().flatten().filter_map(|step| step.get_mut("command")?.as_object_mut()) {
        let (field, value) = match command.get("command").and_then(Value::as_str) {
            Some("stop") => ("drop_follow_ups", Value::from(false)),
            Some("progress") => ("more", Value::from(false)),
            Some("children_ended") => ("unread", Value::from(0)),
            // Nothing was tried again.
            Some("conclude" | "gone") => ("max_attempts", Value::from(1)),
            _ => continue,
        };
        command.entry(field).or_insert(value);
    }
}

/// The state after the birth of `sequence`, and the facts of the birth.
pub fn birth(sequence: &Sequence) -> Result<(Subagent, Vec<EventKind>), IllegalEvent> {
    let facts = accept(sequence.birth.clone());
    let (first, rest) = facts.split_first().ok_or(IllegalEvent { event: "none", status: "unborn" })?;
    let mut state = born(sequence.birth.id, sequence.at, first)?;
    for fact in rest {
        state.apply(sequence.at, fact)?;
    }
    Ok((state, facts))
}

/// Takes one step: decides `command` at `at` and folds its facts into `state`.
///
/// A refusal is an ordinary result and leaves the state as it was. The error says that a decided fact does not apply.
pub fn step(
    state: &mut Subagent,
    command: &Command,
    at: Timestamp,
) -> Result<Result<Vec<EventKind>, Refusal>, IllegalEvent> {
    let decision = decide(state, command, at);
    for fact in decision.iter().flatten() {
        state.apply(at, fact)?;
    }
    Ok(decision)
}

/// Walks a sequence: an iterator over its steps, each with the decision and the state after it. It ends after the last
/// step, or after the first error.
#[derive(Debug)]
pub struct Player<'a> {
    sequence: &'a Sequence,
    state: Subagent,
    next: usize,
    failed: bool,
}

impl<'a> Player<'a> {
    /// Stands before the first step, with the subagent born.
    pub fn new(sequence: &'a Sequence) -> Result<Self, ReplayError> {
        let (state, _) = birth(sequence).map_err(|source| ReplayError::Illegal { index: 0, source })?;
        Ok(Self { sequence, state, next: 0, failed: false })
    }

    /// The state at this point.
    pub fn state(&self) -> &Subagent {
        &self.state
    }
}

impl Iterator for Player<'_> {
    type Item = Result<Taken, ReplayError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Step { at, command } = self.sequence.steps.get(self.next).filter(|_| !self.failed)?;
        self.next += 1;
        let index = self.next;
        Some(match step(&mut self.state, command, *at) {
            Ok(decision) => Ok(Taken {
                index,
                at: *at,
                command: command.clone(),
                decision,
                state: self.state.clone(),
                needs: needs(&self.state, *at),
            }),
            Err(source) => {
                self.failed = true;
                Err(ReplayError::Illegal { index, source })
            }
        })
    }
}
