//! A session at work: the shell around the turn. It takes the step that the state asks for, writes down what came of it
//! before anything else follows, and asks again. What is to be decided is decided in `turn`.

mod work;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use subagent_model::Usage;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::clock::now_ms;
use crate::conversation::{Call, Reply};
use crate::endpoint::Model;
use crate::endpoint::config::ModelFacts;
use crate::fact::{End, Fact, Nudge};
use crate::failure::Failure;
use crate::journal::Journal;
use crate::tools::{Kind, Toolbox};
use crate::turn::{Rules, Step, Turn, compact};
use crate::wire::{Answer, Ask, Part};

/// What it may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// It looks and searches freely, and asks before all else.
    #[default]
    Ask,
    /// It asks for nothing.
    Free,
    /// It looks and searches, and can do nothing else.
    ReadOnly,
}

impl Mode {
    /// All of them, with their names on the wire and a word for people.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Ask, "ask", "Asks before it changes files or runs commands"),
        (Self::Free, "free", "Asks for nothing"),
        (Self::ReadOnly, "read-only", "Looks, and changes nothing"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, ..)| *mode == self).map_or("ask", |(_, name, _)| name)
    }

    /// The one of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(mode, ..)| *mode)
    }
}

/// What a session tells whoever drives it, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// A part of a message. Parts of one message have the same number.
    Text {
        /// The message.
        message: u64,
        /// The part.
        text: String,
    },
    /// A part of a thought.
    Thought {
        /// The message that it leads to.
        message: u64,
        /// The part.
        text: String,
    },
    /// A tool is at work.
    Called {
        /// The call.
        call: Call,
        /// What people are told of it.
        title: String,
        /// What kind of work it is.
        kind: Kind,
    },
    /// A tool is done.
    CallEnded {
        /// The call.
        id: String,
        /// What came of it.
        text: String,
        /// It failed.
        failed: bool,
    },
    /// A message of the model is finished and stored.
    Turn {
        /// It goes on by itself.
        more: bool,
        /// What the message used, where that was told.
        usage: Option<Usage>,
        /// Tokens of the context now.
        context: u64,
        /// Tokens that the model can read.
        window: u64,
    },
    /// The context is being summed up.
    Compacting {
        /// Which time.
        number: u32,
    },
    /// The context was summed up, or that failed.
    Compacted {
        /// Which time.
        number: u32,
        /// What it used.
        usage: Option<Usage>,
        /// Why it failed.
        failed: Option<String>,
    },
    /// Something for people.
    Notice(String),
    /// The endpoint holds it up.
    Held {
        /// Until then: milliseconds since 1970.
        until: u64,
        /// Why.
        why: Failure,
    },
}

/// Whether a call may be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Yes,
    /// It may not, for this reason.
    No(String),
}

/// Whoever drives a session.
pub trait Host: Send + Sync {
    /// Is told.
    fn news(&self, news: News);

    /// Is asked.
    fn permit<'a>(&'a self, call: &'a Call, title: &'a str, kind: Kind) -> BoxFuture<'a, Permit>;
}

/// A message into a turn.
#[derive(Debug)]
pub struct Steer {
    /// The text.
    pub text: String,
    /// Its number.
    pub number: Option<u64>,
    /// Told whether it was taken, once that is stored.
    pub taken: oneshot::Sender<bool>,
}

/// What a session works with.
pub struct Means {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Its name at the endpoint.
    pub model_name: String,
    /// What is known of it.
    pub facts: ModelFacts,
    /// How hard it thinks.
    pub effort: Option<String>,
    /// What the session is held to.
    pub rules: Rules,
    /// Its tools.
    pub tools: Arc<Toolbox>,
    /// What it may do without asking.
    pub mode: Mode,
}

/// A session.
pub struct Session {
    journal: Journal,
    turn: Turn,
    means: Means,
    host: Arc<dyn Host>,
    steers: mpsc::UnboundedReceiver<Steer>,
    /// Messages that were begun, for their numbers.
    begun: u64,
    salt: u64,
}

/// Why a wait was given up.
#[derive(Debug, Clone, Copy)]
enum Given {
    Cancelled,
    Deadline,
}

impl Session {
    /// One with this journal, whose facts so far these are. Steers come through the channel.
    pub fn new(
        journal: Journal,
        facts: &[Fact],
        means: Means,
        host: Arc<dyn Host>,
        steers: mpsc::UnboundedReceiver<Steer>,
    ) -> Self {
        let turn = Turn::of(facts);
        let salt =
            journal.header().id.bytes().fold(7_u64, |salt, byte| salt.wrapping_mul(31) ^ u64::from(byte));
        Self { journal, turn, means, host, steers, begun: now_ms(), salt }
    }

    /// The state.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// What it works with, to be changed between two prompts.
    pub fn means(&mut self) -> &mut Means {
        &mut self.means
    }

    /// Begins with what another session has said.
    pub fn inherit(&mut self, from: &str, text: String) -> std::io::Result<()> {
        self.record(&Fact::Inherited { from: from.to_owned(), text })
    }

    /// Works on a prompt to its end.
    pub async fn prompt(
        &mut self,
        text: String,
        run: Option<u32>,
        cancel: &CancellationToken,
    ) -> std::io::Result<End> {
        self.record(&Fact::Prompt { text, at: now_ms(), run })?;
        for note in self.means.tools.prepare(cancel).await {
            self.host.news(News::Notice(note));
        }
        let end = self.work(cancel).await;
        self.decline_steers();
        end
    }

    async fn work(&mut self, cancel: &CancellationToken) -> std::io::Result<End> {
        loop {
            if let Some(end) = self.turn.end() {
                return Ok(end.clone());
            }
            if cancel.is_cancelled() {
                self.record(&Fact::Ended { end: End::Cancelled })?;
                continue;
            }
            self.take_steers()?;
            match self.turn.next(&self.means.rules, now_ms()) {
                Step::Rest => {}
                Step::Record(fact) => {
                    if let Fact::Nudge { why, .. } = &fact {
                        self.host.news(News::Notice(notice_of(*why)));
                    }
                    self.record(&fact)?;
                }
                Step::Pause { until } => self.pause(until, cancel).await,
                Step::Ask { answer_only } => self.ask(answer_only, cancel).await?,
                Step::Run(calls) => self.run(calls, cancel).await?,
                Step::Compact => self.compact(cancel).await?,
            }
        }
    }

    /// Writes a fact down, then lives with it.
    fn record(&mut self, fact: &Fact) -> std::io::Result<()> {
        self.journal.append(fact)?;
        self.turn.apply(fact);
        Ok(())
    }

    /// Takes the messages that came, each once.
    fn take_steers(&mut self) -> std::io::Result<()> {
        while let Ok(Steer { text, number, taken }) = self.steers.try_recv() {
            if !number.is_some_and(|number| self.turn.has_taken(number)) {
                self.record(&Fact::Steer { text, number })?;
            }
            // Whoever sent it may be gone: it was taken all the same.
            let _ = taken.send(true);
        }
        Ok(())
    }

    /// Messages that came once the turn was over are not taken: whoever sent them sends them as a prompt.
    pub fn decline_steers(&mut self) {
        while let Ok(Steer { number, taken, .. }) = self.steers.try_recv() {
            let _ = taken.send(number.is_some_and(|number| self.turn.has_taken(number)));
        }
    }

    async fn pause(&mut self, until: u64, cancel: &CancellationToken) {
        let wait = Duration::from_millis(until.saturating_sub(now_ms()));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = given_up(cancel, self.turn.deadline(&self.means.rules)) => {}
        }
    }

    /// Asks the model, and stores its answer.
    async fn ask(&mut self, answer_only: bool, cancel: &CancellationToken) -> std::io::Result<()> {
        self.begun += 1;
        let message = self.begun;
        let specs = self.means.tools.specs();
        let schema = self.means.rules.schema.as_ref().filter(|_| self.means.facts.schema && answer_only);
        let ask = Ask {
            model: &self.means.model_name,
            system: &self.journal.header().system,
            messages: self.turn.messages(),
            tools: &specs,
            answer_only,
            schema: schema.map(crate::turn::Schema::text),
            effort: self.means.effort.as_deref(),
            max_output: self.means.facts.max_output,
            number: self.turn.replies(),
        };
        let host = Arc::clone(&self.host);
        let mut show = move |part| {
            host.news(match part {
                Part::Text(text) => News::Text { message, text },
                Part::Thought(text) => News::Thought { message, text },
            });
        };
        let answer = tokio::select! {
            answer = self.means.model.ask(ask, &mut show) => answer,
            given = given_up(cancel, self.turn.deadline(&self.means.rules)) => return self.gave_up(given),
        };
        match answer {
            Ok(Answer { reply, usage }) => self.answered(reply, usage),
            Err(failure) => self.failed(&failure),
        }
    }

    fn answered(&mut self, reply: Reply, told: Option<Usage>) -> std::io::Result<()> {
        let usage = told.map(|usage| self.means.facts.priced(usage));
        let counted = usage.is_some();
        self.record(&Fact::Reply { reply, usage: usage.unwrap_or_default(), counted })?;
        // A message that came meanwhile is one more reason to go on.
        self.take_steers()?;
        let next = self.turn.next(&self.means.rules, now_ms());
        let more = !matches!(next, Step::Record(Fact::Ended { .. }));
        let (context, window) = (self.turn.context(), self.means.rules.window);
        self.host.news(News::Turn { more, usage, context, window });
        Ok(())
    }

    fn failed(&mut self, failure: &Failure) -> std::io::Result<()> {
        let now = now_ms();
        if let Some(fact) = self.turn.failed(failure, &self.means.rules, now, self.salt) {
            return self.record(&fact);
        }
        if let Step::Pause { until } = self.turn.next(&self.means.rules, now) {
            self.host.news(News::Held { until, why: failure.clone() });
        }
        Ok(())
    }

    fn gave_up(&mut self, given: Given) -> std::io::Result<()> {
        let end = match given {
            Given::Cancelled => End::Cancelled,
            Given::Deadline => End::CutOff { limit: subagent_model::Limit::Deadline },
        };
        self.record(&Fact::Ended { end })
    }

    /// Has the context summed up.
    async fn compact(&mut self, cancel: &CancellationToken) -> std::io::Result<()> {
        let number = self.turn.compactions() + 1;
        self.host.news(News::Compacting { number });
        let window = usize::try_from(self.means.rules.window).unwrap_or(usize::MAX);
        // Half of the window, at three bytes a token: it fits also where words are short.
        let request = compact::request(self.turn.messages(), window.saturating_mul(3) / 2);
        let messages = [crate::conversation::Message::User(request)];
        let ask = Ask {
            model: &self.means.model_name,
            system: compact::SYSTEM,
            messages: &messages,
            tools: &[],
            answer_only: true,
            schema: None,
            effort: None,
            max_output: self.means.facts.max_output,
            number: self.turn.replies(),
        };
        let mut show = |_| {};
        let answer = tokio::select! {
            answer = self.means.model.ask(ask, &mut show) => answer,
            given = given_up(cancel, self.turn.deadline(&self.means.rules)) => {
                let failed = Some(String::from("given up"));
                self.host.news(News::Compacted { number, usage: None, failed });
                return self.gave_up(given);
            }
        };
        match answer {
            Ok(Answer { reply, usage }) if !reply.text.trim().is_empty() => {
                let usage = usage.map(|usage| self.means.facts.priced(usage));
                self.record(&Fact::Compacted { summary: reply.text, usage: usage.unwrap_or_default() })?;
                self.host.news(News::Compacted { number, usage, failed: None });
                Ok(())
            }
            Ok(Answer { .. }) => {
                let failure = Failure::new(
                    subagent_model::ErrorCode::Overloaded,
                    "the summary of the context was empty",
                );
                self.compaction_failed(number, &failure)
            }
            Err(failure) => self.compaction_failed(number, &failure),
        }
    }

    fn compaction_failed(&mut self, number: u32, failure: &Failure) -> std::io::Result<()> {
        self.host.news(News::Compacted { number, usage: None, failed: Some(failure.message.clone()) });
        // What is too long to be summed up is not summed up by trying again.
        if failure.code == subagent_model::ErrorCode::ContextOverflow {
            return self.record(&Fact::Ended { end: End::Failed { failure: failure.clone() } });
        }
        self.failed(failure)
    }

    /// Ends what the session holds: the servers of its tools.
    pub async fn close(self) {
        self.means.tools.close().await;
    }
}

/// Waits until a wait is to be given up.
async fn given_up(cancel: &CancellationToken, deadline: Option<u64>) -> Given {
    let time = async {
        match deadline {
            Some(at) => tokio::time::sleep(Duration::from_millis(at.saturating_sub(now_ms()))).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = cancel.cancelled() => Given::Cancelled,
        () = time => Given::Deadline,
    }
}

fn notice_of(why: Nudge) -> String {
    String::from(match why {
        Nudge::WrapUp(_) => "a limit is near: it was asked to wrap up",
        Nudge::Empty => "its answer was empty: it was asked for one",
        Nudge::Schema => "its answer does not fit what was asked for: it was asked again",
    })
}
