//! What a child has said in its current run: the answer so far, tools at work, and what is to be counted. Pure: what it
//! means for the run is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use subagent_core::run::Command;
use subagent_model::{AttemptNumber, Usage};
use subagent_provider::{LastMessage, Said};

/// Most calls of tools whose names are remembered.
const MOST_CALLS: usize = 4_096;

/// The ear of one run.
#[derive(Debug, Default)]
pub(super) struct Ear {
    answer: LastMessage,
    tools: BTreeMap<String, String>,
    calls: BTreeSet<String>,
    counts: Counts,
    /// Pieces of background work that are live.
    pub(super) background: u32,
    /// Tools that were used in this run.
    pub(super) tool_uses: u32,
    /// A part of what it said could not be heard.
    pub(super) missed: bool,
    /// Rules of its own denied something that it wanted.
    pub(super) denied: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    turns: u32,
    more: bool,
    tool_uses: u32,
    compactions: u32,
    usage: Option<Usage>,
}

impl Ear {
    /// The ear of the next run on the same process: only its background work goes on.
    pub(super) fn after(before: &Self) -> Self {
        Self { background: before.background, ..Self::default() }
    }

    /// Takes in what was said; `counted` when it was counted before.
    pub(super) fn hear(&mut self, said: &Said, counted: bool) {
        let mut counts = Counts::default();
        match said {
            Said::Delta(text) => self.answer.delta(text),
            Said::Message(text) => self.answer.message(text),
            Said::Turn { more } => {
                counts.turns = 1;
                self.counts.more = *more;
            }
            Said::ToolStarted { id, name, .. } => {
                // A call is counted once, by its own name, however often it is told of.
                if self.calls.insert(id.clone()) {
                    counts.tool_uses = 1;
                    self.tool_uses = self.tool_uses.saturating_add(1);
                }
                self.tools.insert(id.clone(), name.clone());
                if self.calls.len() > MOST_CALLS {
                    self.calls.pop_first();
                }
            }
            Said::ToolEnded { id, .. } => {
                self.tools.remove(id);
            }
            Said::Used(usage) => counts.usage = Some(*usage),
            Said::Compacted => counts.compactions = 1,
            Said::Denied(_) => self.denied = true,
            Said::Background { live } => self.background = *live,
            _ => {}
        }
        if !counted {
            self.counts.turns += counts.turns;
            self.counts.tool_uses += counts.tool_uses;
            self.counts.compactions += counts.compactions;
            if let Some(usage) = counts.usage {
                self.counts.usage = Some(self.counts.usage.unwrap_or_default().plus(usage));
            }
        }
    }

    /// The turn is over: nothing stays at work.
    pub(super) fn turn_over(&mut self) {
        self.tools.clear();
    }

    /// What is to be counted since the last time, as a command; none when there is nothing.
    pub(super) fn progress(&mut self, attempt: AttemptNumber, position: Option<u64>) -> Option<Command> {
        let counts = std::mem::take(&mut self.counts);
        let nothing = Counts { more: counts.more, ..Counts::default() };
        if counts == nothing {
            return None;
        }
        Some(Command::Progress {
            attempt,
            turns: counts.turns,
            more: counts.more,
            tool_uses: counts.tool_uses,
            compactions: counts.compactions,
            usage: counts.usage,
            position,
        })
    }

    /// The answer so far.
    pub(super) fn text(&self) -> Option<&str> {
        self.answer.text()
    }

    /// Tools at work, by name.
    pub(super) fn tools(&self) -> Vec<String> {
        self.tools.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use subagent_core::run::Command;
    use subagent_model::AttemptNumber;
    use subagent_provider::Said;

    use super::Ear;

    fn started(id: &str) -> Said {
        Said::ToolStarted { id: id.to_owned(), name: String::from("read"), input: None }
    }

    fn ended(id: &str) -> Said {
        Said::ToolEnded { id: id.to_owned(), failed: None, output: None }
    }

    #[test]
    fn rec_16_tools_are_counted_and_cleared_by_the_id_of_their_call() {
        let mut ear = Ear::default();
        for said in [started("1"), started("2"), started("1"), ended("9")] {
            ear.hear(&said, false);
        }
        assert_eq!(ear.tools(), ["read", "read"]);
        ear.hear(&ended("1"), false);
        assert_eq!(ear.tools().len(), 1);
        let Some(Command::Progress { tool_uses, .. }) = ear.progress(AttemptNumber(1), None) else {
            panic!()
        };
        assert_eq!(tool_uses, 2);
        ear.turn_over();
        assert!(ear.tools().is_empty(), "nothing stays active after the turn");
        assert!(ear.progress(AttemptNumber(1), None).is_none(), "counted once");
    }

    #[test]
    fn what_was_counted_before_is_heard_and_not_counted() {
        let mut ear = Ear::default();
        ear.hear(&Said::Message(String::from("hello")), true);
        ear.hear(&Said::Turn { more: true }, true);
        assert_eq!(ear.text(), Some("hello"));
        assert!(ear.progress(AttemptNumber(1), None).is_none());
    }
}
