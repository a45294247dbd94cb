//! What was used, each token and each cent once. A message is counted when it is finished; the end of a turn says what
//! was used in all since the one before, inner subagents included, and what is left of that is counted then.

use subagent_model::Usage;

use super::frames::{ModelUsage, ResultFrame, Tokens};

/// What was counted, and what it is held against.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ledger {
    /// The message that is coming, as it began.
    message: Option<Tokens>,
    /// Counted since the last result.
    counted: Usage,
    /// The whole cost of the session by the last result. A session that was continued may have cost something before.
    cost: Option<f64>,
}

impl Ledger {
    /// Of a session that begins, or of one that had a life before this process.
    pub(super) fn new(continues: bool) -> Self {
        Self { cost: (!continues).then_some(0.0), ..Self::default() }
    }

    /// A message of the model begins.
    pub(super) fn begins(&mut self, tokens: Option<Tokens>) {
        self.message = Some(tokens.unwrap_or_default());
    }

    /// It is finished: what it used. None where it was counted before.
    pub(super) fn finished(&mut self, tokens: Option<Tokens>) -> Option<Usage> {
        let (begun, end) = (self.message.take()?, tokens.unwrap_or_default());
        // What the end says holds; what it leaves out is as at the beginning.
        let count = |end: Option<u64>, begun: Option<u64>| end.or(begun).unwrap_or(0);
        let used = Usage {
            input: count(end.input, begun.input),
            output: count(end.output, begun.output),
            cache_write: count(end.cache_write, begun.cache_write),
            cache_read: count(end.cache_read, begun.cache_read),
            ..Usage::default()
        };
        self.counted = self.counted.plus(used);
        Some(Usage::default().plus(used))
    }

    /// A turn is over: what is left to be counted.
    pub(super) fn settle(&mut self, result: &ResultFrame) -> Option<Usage> {
        self.message = None;
        let (tokens, cost) = match &result.model_usage_since_last_result {
            Some(models) => (Some(of_models(models.values())), cost_of(models.values())),
            // Its cost is that of the session up to here. Without knowing what it was before, a part cannot be told.
            None => (
                result.usage.map(of_tokens),
                result.total_cost_usd.zip(self.cost).map(|(now, before)| now - before),
            ),
        };
        self.cost = result.total_cost_usd.or(self.cost);
        let counted = std::mem::take(&mut self.counted);
        let whole = tokens.unwrap_or(counted);
        let left = Usage {
            input: whole.input.saturating_sub(counted.input),
            output: whole.output.saturating_sub(counted.output),
            cache_write: whole.cache_write.saturating_sub(counted.cache_write),
            cache_read: whole.cache_read.saturating_sub(counted.cache_read),
            total: 0,
            cost_usd: cost.filter(|cost| cost.is_finite() && *cost > 0.0),
        };
        let left = Usage::default().plus(left);
        (left != Usage::default()).then_some(left)
    }
}

fn of_tokens(tokens: Tokens) -> Usage {
    Usage {
        input: tokens.input.unwrap_or(0),
        output: tokens.output.unwrap_or(0),
        cache_write: tokens.cache_write.unwrap_or(0),
        cache_read: tokens.cache_read.unwrap_or(0),
        ..Usage::default()
    }
}

fn of_models<'a>(models: impl Iterator<Item = &'a ModelUsage>) -> Usage {
    models.fold(Usage::default(), |sum, model| {
        sum.plus(Usage {
            input: model.input_tokens,
            output: model.output_tokens,
            cache_write: model.cache_creation_input_tokens,
            cache_read: model.cache_read_input_tokens,
            ..Usage::default()
        })
    })
}

fn cost_of<'a>(models: impl Iterator<Item = &'a ModelUsage>) -> Option<f64> {
    models.filter_map(|model| model.cost_usd).reduce(|a, b| a + b)
}
