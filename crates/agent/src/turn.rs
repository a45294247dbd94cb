//! The turn: a state machine without IO, clock or randomness. The state follows from the facts of the journal; from the
//! state follows the next step. The shell (`session`) takes the step, writes down what came of it, and asks again.
//!
//! What is not stored is only what need not survive: how often the present request was tried, and until when it pauses.

pub mod compact;
mod limits;
mod retry;
mod schema;

use std::collections::BTreeSet;

use subagent_model::{ErrorCode, Usage};

use crate::conversation::{Call, CallResult, Message, Reply, Stop, tokens};
use crate::fact::{End, Fact, Nudge};
use crate::failure::Failure;

pub use limits::Limits;
pub use schema::{Schema, SchemaError};

/// How often an empty answer is asked for again.
const MOST_EMPTY: u32 = 2;
/// Most bytes of a prompt that stand word for word beside a summary.
const KEPT_PROMPT_BYTES: usize = 16 * 1024;

/// What a session is held to.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Limits of each turn.
    pub limits: Limits,
    /// Tokens that the model can read.
    pub window: u64,
    /// How often a request is tried again that failed for a passing reason.
    pub retries: u32,
    /// What the answer must be like.
    pub schema: Option<Schema>,
    /// How often an answer may be corrected that does not fit.
    pub corrections: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { limits: Limits::default(), window: 128_000, retries: 4, schema: None, corrections: 3 }
    }
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing until the next prompt.
    Rest,
    /// Write this down, and ask again.
    Record(Fact),
    /// Ask the model.
    Ask {
        /// It is to answer, and to call nothing.
        answer_only: bool,
    },
    /// Carry these calls out, in this order.
    Run(Vec<Call>),
    /// Have the context summed up.
    Compact,
    /// Wait until then, in milliseconds since 1970.
    Pause {
        /// When it goes on.
        until: u64,
    },
}

/// A call of the last message whose result is not there.
#[derive(Debug, Clone, PartialEq)]
struct Pending {
    call: Call,
    started: bool,
}

/// A session: its context, and where its turn stands.
#[derive(Debug, Clone)]
pub struct Turn {
    messages: Vec<Message>,
    pending: Vec<Pending>,
    results: Vec<CallResult>,
    /// What was said while results were missing: it comes after them.
    waiting: Vec<String>,
    /// None while a turn is at work.
    end: Option<End>,
    used: limits::Used,
    usage: Usage,
    compactions: u32,
    wrapped: Option<subagent_model::Limit>,
    /// Tokens of the context, as far as is known.
    context: u64,
    empties: u32,
    corrections: u32,
    /// What was last said to the model asks for its answer and nothing else.
    answer_only: bool,
    /// Messages of the model, ever.
    replies: u64,
    taken: BTreeSet<u64>,
    last_prompt: String,
    last_run: Option<u32>,
    prompts: u32,
    tries: u32,
    pause: Option<u64>,
    /// The endpoint said that the context is too large.
    overflowed: bool,
    /// The context was summed up, and nothing was answered since.
    fresh: bool,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            messages: vec![],
            pending: vec![],
            results: vec![],
            waiting: vec![],
            end: Some(End::Finished { truncated: false }),
            used: limits::Used::default(),
            usage: Usage::default(),
            compactions: 0,
            wrapped: None,
            context: 0,
            empties: 0,
            corrections: 0,
            answer_only: false,
            replies: 0,
            taken: BTreeSet::new(),
            last_prompt: String::new(),
            last_run: None,
            prompts: 0,
            tries: 0,
            pause: None,
            overflowed: false,
            fresh: false,
        }
    }
}

impl Turn {
    /// The state that facts lead to.
    pub fn of<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> Self {
        let mut turn = Self::default();
        facts.into_iter().for_each(|fact| turn.apply(fact));
        turn
    }

    /// The context, for a request to the model.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// How the last turn ended. None while one is at work.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// All that the session has used.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Tokens that the context has, as far as is known.
    pub fn context(&self) -> u64 {
        self.context
    }

    /// How often the context was summed up.
    pub fn compactions(&self) -> u32 {
        self.compactions
    }

    /// The last run of the supervisor whose prompt it has.
    pub fn last_run(&self) -> Option<u32> {
        self.last_run
    }

    /// How many prompts it has had.
    pub fn prompts(&self) -> u32 {
        self.prompts
    }

    /// How many messages of the model it has had, summed-up ones too.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// A message of this number is here already.
    pub fn has_taken(&self, number: u64) -> bool {
        self.taken.contains(&number)
    }

    /// The text of the last message of the model, where that one has no calls.
    pub fn answer(&self) -> Option<&Reply> {
        match self.messages.last() {
            Some(Message::Assistant(reply)) if reply.calls.is_empty() => Some(reply),
            _ => None,
        }
    }

    /// Takes a fact in. A fact that makes no sense at its place changes nothing that matters: journals are files.
    pub fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::Inherited { text, .. } => self.say(text.clone()),
            Fact::Prompt { text, at, run } => {
                self.balance();
                self.say(text.clone());
                self.last_prompt.clone_from(text);
                self.last_run = run.or(self.last_run);
                self.prompts += 1;
                self.end = None;
                self.used = limits::Used::begun(*at);
                self.wrapped = None;
                (self.empties, self.corrections, self.answer_only) = (0, 0, false);
                self.again();
            }
            Fact::Steer { text, number } => {
                self.taken.extend(*number);
                self.answer_only = false;
                self.later(text.clone());
            }
            Fact::Nudge { why, text } => {
                match why {
                    Nudge::WrapUp(limit) => self.wrapped = Some(*limit),
                    Nudge::Empty => self.empties += 1,
                    Nudge::Schema => self.corrections += 1,
                }
                self.answer_only = !matches!(why, Nudge::WrapUp(_));
                self.later(text.clone());
            }
            Fact::Reply { reply, usage, counted } => {
                self.balance();
                self.spend(*usage);
                self.used.turns += 1;
                self.replies += 1;
                self.answer_only = false;
                self.pending =
                    reply.calls.iter().map(|call| Pending { call: call.clone(), started: false }).collect();
                self.messages.push(Message::Assistant(reply.clone()));
                self.context = if *counted {
                    usage.total.saturating_add(usage.cache_read)
                } else {
                    tokens(self.messages.iter().map(Message::bytes).sum())
                };
                self.fresh = false;
                self.again();
            }
            Fact::Started { call } => {
                for pending in self.pending.iter_mut().filter(|pending| pending.call.id == *call) {
                    pending.started = true;
                }
            }
            Fact::Result { call, text, failed } => {
                let Some(at) = self.pending.iter().position(|pending| pending.call.id == *call) else {
                    return;
                };
                let Pending { call, .. } = self.pending.remove(at);
                self.used.tool_calls += 1;
                self.brought(&call, text.clone(), *failed);
                if self.pending.is_empty() {
                    self.balance();
                }
            }
            Fact::Compacted { summary, usage } => {
                self.balance();
                self.spend(*usage);
                self.compactions += 1;
                self.messages = vec![Message::User(after_compaction(summary, &self.last_prompt))];
                self.context = tokens(self.messages.iter().map(Message::bytes).sum());
                self.fresh = true;
                self.again();
            }
            Fact::Ended { end } => {
                self.balance();
                self.end = Some(end.clone());
            }
        }
    }

    /// The next step at this time, in milliseconds since 1970.
    pub fn next(&self, rules: &Rules, now: u64) -> Step {
        if self.end.is_some() {
            return Step::Rest;
        }
        if let Some(step) = self.judged(rules) {
            return step;
        }
        if let Some(limit) = limits::used_up(&self.used, &rules.limits, now) {
            return ended(End::CutOff { limit });
        }
        if !self.pending.is_empty() {
            return Step::Run(self.pending.iter().map(|pending| pending.call.clone()).collect());
        }
        if let Some(until) = self.pause.filter(|until| *until > now) {
            return Step::Pause { until };
        }
        if self.wrapped.is_none()
            && let Some(limit) = limits::is_near(&self.used, &rules.limits, now)
        {
            return Step::Record(limits::wrap_up(limit, &rules.limits));
        }
        if self.is_too_large(rules) {
            return Step::Compact;
        }
        Step::Ask { answer_only: self.answer_only || limits::is_last(&self.used, &rules.limits) }
    }

    /// When time is up for the turn: milliseconds since 1970.
    pub fn deadline(&self, rules: &Rules) -> Option<u64> {
        self.used.deadline(&rules.limits)
    }

    /// The request to the model failed; gives the fact to write down, where that is the end.
    pub fn failed(&mut self, failure: &Failure, rules: &Rules, now: u64, salt: u64) -> Option<Fact> {
        if failure.code == ErrorCode::ContextOverflow && !self.fresh && self.messages.len() > 1 {
            self.overflowed = true;
            return None;
        }
        match retry::pause(failure, self.tries, rules.retries, salt) {
            Some(wait) => {
                self.tries += 1;
                self.pause = Some(now.saturating_add(wait));
                None
            }
            None => Some(Fact::Ended { end: End::Failed { failure: failure.clone() } }),
        }
    }

    /// What follows where the model has said its last: nothing else, where there is something else to do.
    fn judged(&self, rules: &Rules) -> Option<Step> {
        let reply = self.answer()?;
        if reply.stop == Stop::Refusal {
            let failure = Failure::new(ErrorCode::Refused, "the model, or a filter before it, refused");
            return Some(ended(End::Failed { failure }));
        }
        let truncated = reply.stop == Stop::Length;
        let cut = limits::used_up_but_for_time(&self.used, &rules.limits);
        if reply.text.trim().is_empty() {
            return Some(match cut {
                Some(limit) => ended(End::CutOff { limit }),
                None if self.empties < MOST_EMPTY => Step::Record(Fact::Nudge {
                    why: Nudge::Empty,
                    text: String::from(
                        "Your last message was empty. Give your final answer now, as text: what you did, what you \
                         found, and what is open.",
                    ),
                }),
                None => ended(End::Finished { truncated }),
            });
        }
        if let Some(schema) = &rules.schema
            && let Err(error) = schema.check(&reply.text)
        {
            return Some(match cut {
                Some(limit) => ended(End::CutOff { limit }),
                None if self.corrections < rules.corrections => {
                    Step::Record(Fact::Nudge { why: Nudge::Schema, text: schema.correction(&error) })
                }
                None => {
                    let message = format!("the answer does not fit its schema: {error}");
                    ended(End::Failed { failure: Failure::new(ErrorCode::SchemaMismatch, message) })
                }
            });
        }
        Some(ended(End::Finished { truncated }))
    }

    fn is_too_large(&self, rules: &Rules) -> bool {
        let large = self.context > rules.window / 10 * 8;
        (large || self.overflowed) && !self.fresh && self.messages.len() > 1
    }

    fn spend(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
        self.used.usage = self.used.usage.plus(usage);
    }

    /// The next request is a new one.
    fn again(&mut self) {
        (self.tries, self.pause, self.overflowed) = (0, None, false);
    }

    fn say(&mut self, text: String) {
        self.context = self.context.saturating_add(tokens(text.len()));
        self.messages.push(Message::User(text));
    }

    /// Says it now, or once the results are there.
    fn later(&mut self, text: String) {
        if self.pending.is_empty() && self.results.is_empty() {
            self.say(text);
        } else {
            self.waiting.push(text);
        }
    }

    fn brought(&mut self, call: &Call, text: String, failed: bool) {
        self.context = self.context.saturating_add(tokens(text.len()));
        self.results.push(CallResult { call: call.id.clone(), tool: call.tool.clone(), text, failed });
    }

    /// Every call has a result, whatever has happened: a context is never left without.
    fn balance(&mut self) {
        for Pending { call, started } in std::mem::take(&mut self.pending) {
            let text = if started {
                "Interrupted while it was at work: it may have taken effect in part or in full. Look before you do it \
                 again."
            } else {
                "Not carried out: the turn was interrupted before. Call it again if it is still wanted."
            };
            self.brought(&call, String::from(text), true);
        }
        if !self.results.is_empty() {
            self.messages.push(Message::Results(std::mem::take(&mut self.results)));
        }
        for text in std::mem::take(&mut self.waiting) {
            self.say(text);
        }
    }
}

fn ended(end: End) -> Step {
    Step::Record(Fact::Ended { end })
}

/// The one message that a context begins with once it was summed up.
fn after_compaction(summary: &str, prompt: &str) -> String {
    let prompt = subagent_model::text::cut_at_boundary(prompt, KEPT_PROMPT_BYTES);
    format!(
        "The conversation so far was summed up, since it grew too long.\n\n<summary>\n{summary}\n</summary>\n\nThe last task \
         that was given, in its own words:\n\n<task>\n{prompt}\n</task>\n\nGo on from there. What the summary calls done is \
         done: do not do it again."
    )
}

#[cfg(test)]
mod tests;
