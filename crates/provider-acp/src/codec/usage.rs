//! What a turn used. Tokens come with the answer to a prompt, for that turn; money comes as the sum of the session, of
//! which the difference counts. What is not sent is unknown, and nothing is said of it.

use serde_json::Value;
use subagent_model::Usage;

/// The tokens of a turn.
pub(super) fn of_turn(usage: &Value) -> Option<Usage> {
    let count = |field: &str| usage.get(field).and_then(Value::as_u64);
    let (mut input, mut output) = (count("inputTokens")?, count("outputTokens")?);
    let thought = count("thoughtTokens").unwrap_or(0);
    let (cache_read, cache_write) =
        (count("cachedReadTokens").unwrap_or(0), count("cachedWriteTokens").unwrap_or(0));
    // Agents differ in whether the cached tokens are among the input, and thoughts among the output: the total tells.
    if let Some(total) = count("totalTokens") {
        let base = input.saturating_add(output);
        let cached = cache_read.saturating_add(cache_write);
        let beyond = total.saturating_sub(base);
        if thought > 0 && (beyond == thought || beyond == thought.saturating_add(cached)) {
            output = output.saturating_add(thought);
        }
        if cached > 0 && total >= base && (beyond == 0 || beyond == thought) {
            input = input.saturating_sub(cached);
        }
    }
    // Adding makes the total.
    Some(Usage::default().plus(Usage { input, output, cache_write, cache_read, total: 0, cost_usd: None }))
}

/// What the session has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cost {
    /// As far as it was counted; unknown where the session is older than this conversation.
    counted: Option<f64>,
}

impl Cost {
    /// Of a session that has just begun.
    pub(super) fn none_yet() -> Self {
        Self { counted: Some(0.0) }
    }

    /// Takes in the sum; gives what is new of it. With `counts` false it was spent before.
    pub(super) fn sum(&mut self, cost: &Value, counts: bool) -> Option<Usage> {
        let amount = cost.get("amount").and_then(Value::as_f64).filter(|amount| *amount >= 0.0)?;
        let dollars = cost.get("currency").and_then(Value::as_str)?.eq_ignore_ascii_case("usd");
        if !dollars {
            return None;
        }
        // A smaller sum is that of a count that began anew.
        let new = self.counted.replace(amount).filter(|_| counts).map(|counted| amount - counted);
        let cost_usd = Some(new.filter(|new| *new > 0.0)?);
        Some(Usage { cost_usd, ..Usage::default() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use serde_json::json;

    use super::{Cost, of_turn};

    #[test]
    fn rec_12_cached_tokens_are_told_apart_however_the_agent_counts_them() {
        for (usage, expected) in [
            // Apart from the input, as claude-agent-acp counts.
            (
                json!({"inputTokens": 3, "outputTokens": 22, "cachedWriteTokens": 42_653, "cachedReadTokens": 7,
                    "totalTokens": 42_685}),
                (3, 22, 42_653, 7, 42_678),
            ),
            // Among the input, as codex counts.
            (
                json!({"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 60, "totalTokens": 120}),
                (40, 20, 0, 60, 60),
            ),
            // Thoughts apart from the output, and among it.
            (
                json!({"inputTokens": 10, "outputTokens": 5, "thoughtTokens": 4, "totalTokens": 19}),
                (10, 9, 0, 0, 19),
            ),
            (
                json!({"inputTokens": 10, "outputTokens": 5, "thoughtTokens": 4, "totalTokens": 15}),
                (10, 5, 0, 0, 15),
            ),
            // Fields of another form are as good as absent.
            (
                json!({"inputTokens": 10, "outputTokens": 5, "thoughtTokens": "many", "totalTokens": null}),
                (10, 5, 0, 0, 15),
            ),
        ] {
            let used = of_turn(&usage).unwrap();
            let counts = (used.input, used.output, used.cache_write, used.cache_read, used.total);
            assert_eq!(counts, expected, "{usage}");
        }
        for nothing in [json!(null), json!({}), json!({"totalTokens": 5}), json!([1])] {
            assert_eq!(of_turn(&nothing), None, "acp_12: not sent is unknown, not zero");
        }
    }

    #[test]
    fn of_the_cost_of_a_session_the_difference_counts() {
        let dollars = |amount: f64| json!({"amount": amount, "currency": "USD"});
        let mut cost = Cost::none_yet();
        assert_eq!(cost.sum(&dollars(0.25), true).unwrap().cost_usd, Some(0.25));
        assert_eq!(cost.sum(&dollars(0.25), true), None);
        assert_eq!(cost.sum(&dollars(0.75), true).unwrap().cost_usd, Some(0.5));
        assert_eq!(cost.sum(&dollars(0.5), true), None, "counted anew");
        assert_eq!(cost.sum(&dollars(1.0), true).unwrap().cost_usd, Some(0.5));
        for nothing in
            [json!({"amount": 9, "currency": "EUR"}), json!({"amount": -1.0, "currency": "USD"}), json!(3)]
        {
            assert_eq!(cost.sum(&nothing, true), None);
        }
        let mut older = Cost::default();
        assert_eq!(older.sum(&dollars(3.0), false), None, "acp_04: repeated while loading");
        assert_eq!(older.sum(&dollars(3.5), true).unwrap().cost_usd, Some(0.5));
        let mut silent = Cost::default();
        assert_eq!(silent.sum(&dollars(3.0), true), None, "how much of it is new cannot be known");
    }
}
