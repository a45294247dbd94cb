//! What scripted children share: their gates, their sessions, and the memory of what they were told, which tests ask.

use std::collections::HashMap;
use std::fmt;

use subagent_model::{AttemptKey, MessageNumber, Requester};

use super::gate::Gate;
use crate::{Attached, Job, TaskContext};

/// One thing that a child was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which attempt heard it. An attempt goes on over the runs of a warm subagent; its run is the one that began it.
    pub key: AttemptKey,
    /// What it was.
    pub kind: ToldKind,
    /// The message that it was, where it was one.
    pub number: Option<MessageNumber>,
    /// Who said it, where somebody did.
    pub from: Option<Requester>,
    /// The text, or the word of an answer.
    pub text: String,
    /// Files that came with it.
    pub attached: Vec<Attached>,
}

/// What kind of thing a child was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldKind {
    /// A prompt, told when it was begun.
    Prompt,
    /// A message into a turn.
    Steer,
    /// An interrupt.
    Interrupt,
    /// An answer.
    Answer,
    /// The end.
    Close,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, .. } = self;
        match (self.kind, self.number) {
            (ToldKind::Prompt, _) => write!(f, "prompt {text}"),
            (ToldKind::Steer, Some(number)) => write!(f, "steer {number} {text}"),
            (ToldKind::Steer, None) => write!(f, "steer {text}"),
            (ToldKind::Interrupt, _) => f.write_str("interrupt"),
            (ToldKind::Answer, _) => write!(f, "answer {text}"),
            (ToldKind::Close, _) => f.write_str("close"),
        }
    }
}

/// One child that began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// Which attempt.
    pub key: AttemptKey,
    /// The session that it was to continue.
    pub session: Option<String>,
    /// The whole prompt was there.
    pub with_prompt: bool,
}

/// What is kept of a session when its process ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Session {
    /// It has worked on a prompt.
    pub(super) begun: bool,
    /// Lines for the next prompt that is no script.
    pub(super) on_continue: String,
}

/// How a child begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Begin {
    /// In the session of this name.
    In(String),
    /// Not at all: there is no such session.
    Gone(String),
}

#[derive(Default)]
pub(super) struct World {
    gates: HashMap<String, Gate>,
    pub(super) told: Vec<Told>,
    pub(super) launches: Vec<Launched>,
    sessions: HashMap<String, Session>,
    forgotten: Vec<String>,
    begun: usize,
}

impl World {
    pub(super) fn gate(&mut self, name: &str) -> Gate {
        self.gates.entry(name.to_owned()).or_default().clone()
    }

    /// A child begins.
    pub(super) fn begin(&mut self, job: &Job, context: &TaskContext) -> Begin {
        let session = context.session.clone().or_else(|| job.session.clone());
        let with_prompt = job.prompt_text.is_some();
        self.launches.push(Launched { key: context.key, session: session.clone(), with_prompt });
        match &session {
            Some(session) if self.forgotten.contains(session) => Begin::Gone(session.clone()),
            Some(session) => {
                // One of an earlier world, as after a restart: it holds something, and nobody knows what.
                let unknown = || Session { begun: true, ..Session::default() };
                self.sessions.entry(session.clone()).or_insert_with(unknown);
                Begin::In(session.clone())
            }
            None => {
                self.begun += 1;
                let session = format!("scripted-{}", self.begun);
                self.sessions.insert(session.clone(), Session::default());
                Begin::In(session)
            }
        }
    }

    pub(super) fn session(&mut self, name: &str) -> &mut Session {
        self.sessions.entry(name.to_owned()).or_default()
    }

    pub(super) fn forget(&mut self, session: &str) {
        self.sessions.remove(session);
        self.forgotten.push(session.to_owned());
    }
}
