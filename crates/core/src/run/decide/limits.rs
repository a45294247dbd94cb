//! Limits of a run: the request to wrap up, then the cut. Which limit is near is judged by [`crate::budget`].

use subagent_model::{Budget, EventKind, Limit, Requester};

use super::super::state::Phase;
use super::{Decision, Table};
use crate::budget::{Judgement, Spent, judge};

impl Table<'_> {
    /// Told once, whichever limit comes first, and said to the child where it takes messages.
    pub(super) fn wrap_up(&self, limit: Limit) -> Vec<EventKind> {
        let run = &self.state.run;
        // The turn limit has a grace of its own, so it is told even after another one.
        let told = run.wrap_up.is_some_and(|asked| asked.limit == limit || limit != Limit::Turns);
        if told { vec![] } else { self.ask_to_wrap_up(limit) }
    }

    fn ask_to_wrap_up(&self, limit: Limit) -> Vec<EventKind> {
        let run = &self.state.run;
        let working = matches!(
            run.phase,
            Phase::Starting { .. } | Phase::Running { .. } | Phase::Waiting { hold: Some(_), .. }
        );
        if run.cut.is_some() || run.done.is_some() || !working {
            return vec![];
        }
        let mut facts = vec![EventKind::WrapUpAsked { limit }];
        facts.extend(self.post_by_runtime(&wrap_up_text(limit)));
        facts
    }

    /// A run without a process ends at once; any other is ended from outside and keeps what it has.
    pub(super) fn cut(&self, limit: Limit) -> Vec<EventKind> {
        let run = &self.state.run;
        if run.cut.is_some() || run.done.is_some() {
            return vec![];
        }
        match &run.phase {
            Phase::Queued { .. } => {
                let mut facts = vec![EventKind::CutOff { limit }];
                facts.extend(self.end(self.aborted(limit, None)));
                facts
            }
            Phase::Waiting { hold: None, held, .. } => {
                let mut facts = vec![EventKind::CutOff { limit }];
                facts.extend(self.end(self.aborted(limit, held.as_deref())));
                facts
            }
            Phase::Starting { .. } | Phase::Running { .. } | Phase::Waiting { .. } => {
                vec![EventKind::CutOff { limit }]
            }
            Phase::Stopping { .. } | Phase::Ended(_) => vec![],
        }
    }

    /// What was used so far is judged by the new budget at once: a child that is silent is bound by it as well.
    pub(super) fn change_budget(&self, budget: &Budget, by: &Requester) -> Decision {
        let run = &self.state.run;
        let over = matches!(run.phase, Phase::Stopping { .. } | Phase::Ended(_));
        if over || run.cut.is_some() || run.done.is_some() {
            return Err(self.illegal());
        }
        if run.budget == *budget {
            return Ok(vec![]);
        }
        let spent = Spent {
            turns: run.turns,
            tokens: run.usage.map_or(0, |used| used.total),
            cost_usd: run.usage.and_then(|used| used.cost_usd),
            tool_calls: run.tool_uses,
        };
        let mut facts = vec![EventKind::BudgetChanged { budget: *budget, by: by.clone() }];
        facts.extend(match judge(budget, &spent, None, false) {
            Judgement::Go => vec![],
            Judgement::WrapUp { limit } => self.ask_to_wrap_up(limit),
            Judgement::Cut { limit } => self.cut(limit),
        });
        Ok(facts)
    }
}

/// What a child is told near a limit.
fn wrap_up_text(limit: Limit) -> String {
    let what = match limit {
        Limit::Turns => "You have reached your turn limit.",
        Limit::Tokens => "You have nearly used up your token budget.",
        Limit::Cost => "You have nearly used up your cost budget.",
        Limit::ToolCalls => "You have nearly used up your budget of tool calls.",
        Limit::Deadline => "You are near your deadline.",
        Limit::TreeTokens | Limit::TreeCost => "The budget that you share with others is nearly used up.",
        Limit::Stall => "You have not been heard of for a long time.",
    };
    format!("{what} Wrap up now: start nothing new, and give your final answer with what you have.")
}
