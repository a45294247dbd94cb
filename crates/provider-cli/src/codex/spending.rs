//! Tokens. A thread tells its total each time; what was used is the difference, so nothing is counted twice.

use serde::Deserialize;
use serde_json::Value;
use subagent_model::Usage;

/// A count of tokens as it stands on the wire. Input includes what was read from the cache and written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    #[serde(rename = "inputTokens")]
    input: u64,
    #[serde(rename = "cachedInputTokens")]
    cached: u64,
    #[serde(rename = "cacheWriteInputTokens")]
    cache_write: u64,
    #[serde(rename = "outputTokens")]
    output: u64,
}

/// What a thread has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Spending {
    /// The total that was told last. None of a thread whose past is not known.
    total: Option<Tokens>,
}

impl Spending {
    /// Of a new thread.
    pub(super) fn of_new() -> Self {
        Self { total: Some(Tokens::default()) }
    }

    /// What was used since the last time. `now`: the news is of what goes on, and not a look back.
    pub(super) fn update(&mut self, told: &Value, now: bool) -> Option<Usage> {
        let total: Tokens = serde_json::from_value(told["total"].clone()).ok()?;
        let used = match self.total.replace(total) {
            Some(before) => total.since(before),
            None if now => serde_json::from_value(told["last"].clone()).ok()?,
            None => return None,
        };
        (used != Tokens::default()).then(|| used.usage())
    }
}

impl Tokens {
    fn since(self, before: Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            cached: self.cached.saturating_sub(before.cached),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
            output: self.output.saturating_sub(before.output),
        }
    }

    fn usage(self) -> Usage {
        let Self { input, cached, cache_write, output } = self;
        let input = input.saturating_sub(cached.saturating_add(cache_write));
        // Adding makes the total.
        let used = Usage { input, output, cache_write, cache_read: cached, total: 0, cost_usd: None };
        Usage::default().plus(used)
    }
}
