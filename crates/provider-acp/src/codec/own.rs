//! What our own agent says beside the protocol, in `_meta`: turns of its model and what each used, what holds it up, and
//! which limit of its own cut it off.

use serde_json::Value;
use subagent_model::{Limit, Timestamp, Usage};
use subagent_provider::Said;

use super::usage;

/// A message of the model is finished.
pub(super) fn turn(update: &Value) -> Vec<Said> {
    let turn = &update["_meta"]["subagent/turn"];
    let Some(more) = turn["more"].as_bool() else { return vec![] };
    let used = turn.get("usage").and_then(counted).map(Said::Used);
    used.into_iter().chain([Said::Turn { more }]).collect()
}

/// What the summary of a context used.
pub(super) fn used_by_compaction(update: &Value) -> Option<Said> {
    update["_meta"].get("subagent/used").and_then(counted).map(Said::Used)
}

/// Its endpoint holds it up.
pub(super) fn held(update: &Value) -> Option<Said> {
    let until = update["_meta"]["subagent/held"].get("untilMs")?.as_i64()?;
    Some(Said::HeldUp { until: Some(Timestamp::from_micros(until.saturating_mul(1_000))) })
}

/// The limit that cut it off.
pub(super) fn limit(result: &Value) -> Option<Limit> {
    serde_json::from_value(result["_meta"].get("subagent/limit")?.clone()).ok()
}

fn counted(usage: &Value) -> Option<Usage> {
    let cost_usd = usage.get("costUsd").and_then(Value::as_f64);
    usage::of_turn(usage).map(|used| Usage { cost_usd, ..used })
}
