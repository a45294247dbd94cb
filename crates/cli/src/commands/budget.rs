//! `subagent budget`: what a run may use and has used; changes the limits of a running one.

use clap::Args;
use subagent_model::SubagentRecord;
use subagent_runtime::Runtime;

use super::limits::LimitArgs;
use super::outcome;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::time;

/// Show or change the budget of a running subagent
///
/// Without options it shows what the current run has used and may use. With options it changes these limits of the
/// running run, and nothing else; 0 lifts one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent budget k7q2mx
  subagent budget k7q2mx --max-turns 40
  subagent budget k7q2mx --max-tokens 2M --max-cost 0")]
pub(crate) struct BudgetArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Carries it out.
pub(crate) async fn run(args: &BudgetArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    let record = match args.limits.change() {
        Some(change) => session.client.change_budget(&session.caller, id, change).await?,
        None => session.client.get(&session.caller, id).await?,
    };
    if console.json {
        console.document(&serde_json::json!({
            "id": record.id,
            "handle": record.handle,
            "run": record.run,
            "status": record.status,
            "budget": record.budget,
            "turn_count": record.turn_count,
            "tool_uses": record.tool_uses,
            "usage": record.run_usage,
            "wrap_up": record.wrap_up,
        }));
    } else {
        let rows: Vec<_> = lines(&record)
            .into_iter()
            .map(|(name, value)| vec![Cell::painted(name, Paint::Dim), Cell::plain(&value)])
            .collect();
        console.rows(&rows);
    }
    Ok(exit::DONE)
}

/// What was used of each limit, one a line; also of what has no limit, as far as it is counted.
pub(super) fn lines(record: &SubagentRecord) -> Vec<(&'static str, String)> {
    let budget = &record.budget;
    let of = |used: String, limit: Option<String>| match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => format!("{used}, no limit"),
    };
    let count = |limit: Option<u32>| limit.filter(|limit| *limit > 0).map(|limit| limit.to_string());
    let mut lines = Vec::new();
    let turns = count(budget.max_turns);
    let grace = turns.as_ref().map(|_| format!(", then {} to wrap up", budget.grace_turns.unwrap_or(5)));
    lines.push((
        "turns",
        format!("{}{}", of(record.turn_count.to_string(), turns), grace.unwrap_or_default()),
    ));
    lines.push(("tool calls", of(record.tool_uses.to_string(), count(budget.max_tool_calls))));
    let tokens = budget.max_tokens.filter(|limit| *limit > 0).map(|limit| limit.to_string());
    let used = record.run_usage.as_ref();
    if used.is_some() || tokens.is_some() {
        lines.push(("tokens", of(used.map_or(0, |usage| usage.total).to_string(), tokens)));
    }
    let cost = budget.max_cost_usd.filter(|limit| *limit > 0.0).map(|limit| format!("{limit:.2} USD"));
    let spent = used.and_then(|usage| usage.cost_usd);
    if spent.is_some() || cost.is_some() {
        lines.push(("cost", of(format!("{:.4}", spent.unwrap_or_default()), cost)));
    }
    if let Some(wrap_up) = &record.wrap_up {
        let which = outcome::limit(wrap_up.limit);
        lines.push(("wrap-up", format!("asked to because of {which}, {}", time::moment(wrap_up.at))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::commands::sample;

    #[test]
    fn queue_13_a_budget_shows_what_is_used_of_what() {
        let record = sample(&serde_json::json!({
            "turn_count": 3, "tool_uses": 7, "budget": {"max_turns": 10, "max_tool_calls": 0, "max_cost_usd": 2.5},
            "run_usage": {"input": 1, "output": 2, "cache_write": 0, "cache_read": 0, "total": 3, "cost_usd": 0.5},
        }));
        let told: Vec<_> =
            lines(&record).into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            told,
            [
                "turns: 3 of 10, then 5 to wrap up",
                "tool calls: 7, no limit",
                "tokens: 3, no limit",
                "cost: 0.5000 of 2.50 USD",
            ]
        );
    }
}
