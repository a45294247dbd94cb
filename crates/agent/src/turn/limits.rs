//! Limits of a turn, each in two steps: a request to wrap up, then the cut. Turns are asked at the limit and cut after the
//! grace; all others are asked at 90 % and cut at 100 %.

use serde::Deserialize;
use subagent_model::{Limit, Usage};

use crate::fact::{Fact, Nudge};

/// Turns that are left after the request to wrap up.
const GRACE: u32 = 5;

/// What a turn may use. Absent and 0 are without limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct Limits {
    /// Messages of the model.
    pub max_turns: Option<u32>,
    /// More of them after the request to wrap up; 5 when absent.
    pub grace_turns: Option<u32>,
    /// Tokens: input, output and cache writes.
    pub max_tokens: Option<u64>,
    /// Money, in US dollars.
    pub max_cost_usd: Option<f64>,
    /// Calls of tools.
    pub max_tool_calls: Option<u32>,
    /// Time, in milliseconds.
    pub max_ms: Option<u64>,
}

/// What a turn has used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Used {
    pub(super) turns: u32,
    pub(super) tool_calls: u32,
    pub(super) usage: Usage,
    /// When it began: milliseconds since 1970.
    at: u64,
}

impl Used {
    pub(super) fn begun(at: u64) -> Self {
        Self { at, ..Self::default() }
    }

    pub(super) fn deadline(&self, limits: &Limits) -> Option<u64> {
        limits.max_ms.filter(|max| *max > 0).map(|max| self.at.saturating_add(max))
    }
}

impl Limits {
    fn turns(&self) -> Option<u32> {
        self.max_turns.filter(|max| *max > 0)
    }

    fn grace(&self) -> u32 {
        self.grace_turns.unwrap_or(GRACE)
    }
}

/// The limit that is used up, if any.
pub(super) fn used_up(used: &Used, limits: &Limits, now: u64) -> Option<Limit> {
    let time = limits.max_ms.is_some_and(|max| max > 0 && now.saturating_sub(used.at) >= max);
    used_up_but_for_time(used, limits).or(time.then_some(Limit::Deadline))
}

/// The same, without a look at the clock.
pub(super) fn used_up_but_for_time(used: &Used, limits: &Limits) -> Option<Limit> {
    if limits.turns().is_some_and(|max| used.turns >= max.saturating_add(limits.grace())) {
        return Some(Limit::Turns);
    }
    reached(used, limits, 100)
}

/// The limit that is near, if any.
pub(super) fn is_near(used: &Used, limits: &Limits, now: u64) -> Option<Limit> {
    if limits.turns().is_some_and(|max| used.turns >= max) {
        return Some(Limit::Turns);
    }
    let time = limits.max_ms.is_some_and(|max| max > 0 && now.saturating_sub(used.at) >= max / 10 * 9);
    reached(used, limits, 90).or(time.then_some(Limit::Deadline))
}

/// The next message of the model is the last that it may write.
pub(super) fn is_last(used: &Used, limits: &Limits) -> bool {
    limits.turns().is_some_and(|max| used.turns.saturating_add(1) >= max.saturating_add(limits.grace()))
}

fn reached(used: &Used, limits: &Limits, percent: u64) -> Option<Limit> {
    let whole = |used: u64, max: Option<u64>| {
        max.is_some_and(|max| max > 0 && u128::from(used) * 100 >= u128::from(max) * u128::from(percent))
    };
    let spent = used.usage.cost_usd.unwrap_or(0.0);
    #[expect(clippy::cast_precision_loss, reason = "a percentage")]
    let part = percent as f64 / 100.0;
    if whole(used.usage.total, limits.max_tokens) {
        Some(Limit::Tokens)
    } else if limits.max_cost_usd.is_some_and(|max| max > 0.0 && spent >= max * part) {
        Some(Limit::Cost)
    } else if whole(used.tool_calls.into(), limits.max_tool_calls.map(u64::from)) {
        Some(Limit::ToolCalls)
    } else {
        None
    }
}

/// The request to wrap up.
pub(super) fn wrap_up(limit: Limit, limits: &Limits) -> Fact {
    let what = match limit {
        Limit::Turns => format!("limit of turns: {} are left", limits.grace()),
        Limit::Cost => String::from("limit of money: nearly all of it is spent"),
        Limit::ToolCalls => String::from("limit of tool calls: hardly any are left"),
        Limit::Deadline => String::from("limit of time: hardly any is left"),
        _ => String::from("limit of tokens: nearly all are used"),
    };
    let text = format!(
        "You have reached your {what}. Wrap up now: finish what must not stay half done, then give your final answer with \
         what is done and what is open."
    );
    Fact::Nudge { why: Nudge::WrapUp(limit), text }
}
