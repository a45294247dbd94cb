//! Rules of a test: which request gets which answer, before the scripts in prompts have their say.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::answer::Answer;
use super::requests::Request;

type Judge = Box<dyn Fn(&Request) -> bool + Send + Sync>;
type Make = Box<dyn Fn(&Request) -> Answer + Send + Sync>;

/// What a rule does.
enum Deed {
    Answer(Make),
    Script(String),
}

struct Rule {
    fits: Judge,
    deed: Deed,
    left: Option<u64>,
}

/// What a rule said.
pub(super) enum Ruled {
    /// This answer.
    Answer(Answer),
    /// What this script makes of the request.
    Script(String),
}

/// Rules in the order in which they are tried.
#[derive(Default)]
pub(super) struct Rules(Mutex<Vec<Rule>>);

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    /// What the first rule says that fits and is not used up.
    pub(super) fn apply(&self, request: &Request) -> Option<Ruled> {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = rules.iter_mut().find(|rule| rule.left != Some(0) && (rule.fits)(request))?;
        if let Some(left) = &mut rule.left {
            *left -= 1;
        }
        Some(match &rule.deed {
            Deed::Answer(make) => Ruled::Answer(make(request)),
            Deed::Script(script) => Ruled::Script(script.clone()),
        })
    }

    fn add(&self, rule: Rule) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }
}

/// A rule in the making.
#[must_use = "a rule without an answer is no rule"]
pub struct When<'a> {
    rules: &'a Rules,
    fits: Judge,
    times: Option<u64>,
}

impl fmt::Debug for When<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("When").field("times", &self.times).finish_non_exhaustive()
    }
}

impl<'a> When<'a> {
    pub(super) fn new(rules: &'a Rules, fits: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self { rules, fits: Box::new(fits), times: None }
    }

    /// So many times, and then no more.
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Gets this answer.
    pub fn answer(self, answer: impl Into<Answer>) {
        let answer = answer.into();
        self.answer_with(move |_| answer.clone());
    }

    /// Gets the answer that this makes.
    pub fn answer_with(self, make: impl Fn(&Request) -> Answer + Send + Sync + 'static) {
        self.rules.add(Rule { fits: self.fits, deed: Deed::Answer(Box::new(make)), left: self.times });
    }

    /// Is answered as if its prompt were this text, with directives.
    pub fn script(self, script: &str) {
        self.rules.add(Rule { fits: self.fits, deed: Deed::Script(script.to_owned()), left: self.times });
    }
}
