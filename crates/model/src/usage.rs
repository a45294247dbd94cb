//! What a run used: tokens and money, folded by value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of finished messages. `total` is input + output + cache writes; cache reads are told apart and never
/// counted into it. Counters survive compaction and resume.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
    /// Tokens read from the provider's cache: never part of the total.
    pub cache_read: u64,
    /// Input + output + cache writes.
    pub total: u64,
    /// Money in US dollars, only where reported or priced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// This usage and `other` together; sums saturate, the total is made anew.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let input = self.input.saturating_add(other.input);
        let output = self.output.saturating_add(other.output);
        let cache_write = self.cache_write.saturating_add(other.cache_write);
        Self {
            input,
            output,
            cache_write,
            cache_read: self.cache_read.saturating_add(other.cache_read),
            total: input.saturating_add(output).saturating_add(cache_write),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;

    #[test]
    fn rec_12_cache_reads_stay_out_of_the_total() {
        let one = Usage { input: 5, output: 2, cache_write: 3, cache_read: 1000, total: 0, cost_usd: None };
        let sum = Usage::default().plus(one).plus(one);
        assert_eq!((sum.total, sum.cache_read, sum.cost_usd), (20, 2000, None));
    }
}
