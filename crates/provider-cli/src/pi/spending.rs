//! Tokens and money. Each message of the model is counted as it ends; what else a session has used (summaries, tools that
//! ask a model) is the rest between two looks at its sums.

use subagent_model::Usage;

use super::words::Spent;

/// What a session has used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spending {
    /// The sums at the last look.
    sums: Option<Spent>,
    /// What was counted since then.
    counted: Spent,
}

impl Spending {
    /// A message ended.
    pub(super) fn message(&mut self, spent: Spent) -> Option<Usage> {
        self.counted = self.counted.plus(spent);
        spent.usage()
    }

    /// A look at the sums: what they have beyond what was counted. The first look only says where counting begins.
    pub(super) fn look(&mut self, sums: Spent) -> Option<Usage> {
        let counted = std::mem::take(&mut self.counted);
        let before = self.sums.replace(sums)?;
        sums.beyond(before).beyond(counted).usage()
    }
}
