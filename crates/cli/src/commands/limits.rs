//! What a run may use, as options: the same words at `run` and at `budget`.

use clap::Args;
use subagent_model::Budget;
use subagent_model::request::BudgetRequest;

use crate::view::number;

/// Limits of one run.
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
#[derive(Debug, Clone, Copy, PartialEq, Args)]
pub(crate) struct LimitArgs {
    /// Turns; then it is asked to wrap up. 0: no limit
    #[arg(long, value_name = "N", value_parser = number::count, allow_negative_numbers = true, help_heading = "Limits")]
    max_turns: Option<u32>,
    /// Tokens, such as 200k; asked to wrap up at 90 %. 0: no limit
    #[arg(long, value_name = "N", value_parser = number::amount, allow_negative_numbers = true, help_heading = "Limits")]
    max_tokens: Option<u64>,
    /// US dollars, such as 2.50; asked to wrap up at 90 %. 0: no limit
    #[arg(long, value_name = "USD", value_parser = number::dollars, allow_negative_numbers = true, help_heading = "Limits")]
    max_cost: Option<f64>,
    /// Tool calls; asked to wrap up at 90 %. 0: no limit
    #[arg(long, value_name = "N", value_parser = number::count, allow_negative_numbers = true, help_heading = "Limits")]
    max_tool_calls: Option<u32>,
}

impl LimitArgs {
    /// As the budget of a new run.
    pub(crate) fn budget(&self, grace_turns: Option<u32>) -> Budget {
        Budget {
            max_turns: self.max_turns,
            grace_turns,
            max_tokens: self.max_tokens,
            max_cost_usd: self.max_cost,
            max_tool_calls: self.max_tool_calls,
        }
    }

    /// As a change of a running one; `None` when nothing is to change.
    pub(crate) fn change(&self) -> Option<BudgetRequest> {
        let request = BudgetRequest {
            max_turns: self.max_turns,
            max_tokens: self.max_tokens,
            max_cost_usd: self.max_cost,
            max_tool_calls: self.max_tool_calls,
        };
        (request != BudgetRequest::default()).then_some(request)
    }
}
