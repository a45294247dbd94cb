//! What a run and a tree may use. Two steps everywhere: near the limit one request to wrap up, at the limit the cut.
//! The verdicts are values; who carries them out, and when the deadline is over, is not known here.
//!
//! Absent and 0 mean without limit. Money is counted in whole micro-dollars, so that sums and comparisons are exact.

use std::collections::BTreeMap;

use subagent_model::{Budget, Limit, SubagentId, TreeBudget};

use crate::admission::{Share, TreeFacts};

/// Turns after the request to wrap up, where the spec does not say. A grace of 0 is none: the limit itself cuts.
pub const GRACE_TURNS: u32 = 5;

/// What a run has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Finished turns.
    pub turns: u32,
    /// Tokens: input, output and cache writes.
    pub tokens: u64,
    /// US dollars; unknown where nobody reports or prices them, and then no limit on money acts.
    pub cost_usd: Option<f64>,
    /// Tool calls.
    pub tool_calls: u32,
}

/// What follows for a run that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It goes on.
    Go,
    /// It is asked to wrap up.
    WrapUp {
        /// Near which limit.
        limit: Limit,
    },
    /// It is cut off.
    Cut {
        /// By which limit.
        limit: Limit,
    },
}

/// Judges a run. `warned` is the limit it was last asked to wrap up for. `wants_more` is asked for turns only: the
/// child has ended a turn and would begin another. Other limits act in the middle of a turn as well.
///
/// One request is enough, whichever limit came first. Only the turn limit asks again, because its grace is counted from
/// its own request.
pub fn judge(budget: &Budget, spent: &Spent, warned: Option<Limit>, wants_more: bool) -> Judgement {
    let amounts = [
        (Limit::Tokens, budget.max_tokens.unwrap_or(0), spent.tokens),
        (Limit::Cost, micros(budget.max_cost_usd), micros(spent.cost_usd)),
        (Limit::ToolCalls, budget.max_tool_calls.unwrap_or(0).into(), spent.tool_calls.into()),
    ];
    if let Some(limit) = used_up(amounts) {
        return Judgement::Cut { limit };
    }
    let turns = budget.max_turns.unwrap_or(0);
    if wants_more && turns > 0 && spent.turns >= turns {
        let last = turns.saturating_add(budget.grace_turns.unwrap_or(GRACE_TURNS));
        if spent.turns >= last {
            return Judgement::Cut { limit: Limit::Turns };
        }
        if warned != Some(Limit::Turns) {
            return Judgement::WrapUp { limit: Limit::Turns };
        }
    }
    wrap_up(amounts, warned)
}

/// When the request to wrap up for a deadline is due: after 90 % of it.
pub fn deadline_warning_at(deadline_ms: u64) -> u64 {
    deadline_ms - deadline_ms / 10
}

/// A limit, how much it allows, and how much of that is used.
type Used = (Limit, u64, u64);

fn used_up<const N: usize>(amounts: [Used; N]) -> Option<Limit> {
    amounts.into_iter().find(|(_, max, used)| *max > 0 && used >= max).map(|(limit, ..)| limit)
}

fn wrap_up<const N: usize>(amounts: [Used; N], warned: Option<Limit>) -> Judgement {
    let near = |(_, max, used): &Used| *max > 0 && u128::from(*used) * 10 >= u128::from(*max) * 9;
    match amounts.iter().find(|amount| near(amount)) {
        Some((limit, ..)) if warned.is_none() => Judgement::WrapUp { limit: *limit },
        _ => Judgement::Go,
    }
}

/// Whole micro-dollars. What is no amount (absent, not finite, not positive) is 0; what is positive is at least 1, so
/// that a tiny limit does not turn into none.
fn micros(usd: Option<f64>) -> u64 {
    match usd {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive and finite; the cast saturates"
        )]
        Some(usd) if usd.is_finite() && usd > 0.0 => ((usd * 1e6).round() as u64).max(1),
        _ => 0,
    }
}

/// An amount of what a tree counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Amount {
    /// Tokens.
    pub tokens: u64,
    /// US dollars, where known.
    pub cost_usd: Option<f64>,
}

/// What a tree has left for new reservations; absent where it has no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// Tokens.
    pub tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// The account of one tree: what its members have reserved, and what they have used. It follows from the records of its
/// members and can be made anew from them.
#[derive(Debug, Clone, Default)]
pub struct TreeAccount {
    budget: TreeBudget,
    members: BTreeMap<SubagentId, Member>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Member {
    spent: Sum,
    /// Up to where a live member may spend without asking; none once it has ended.
    held: Option<Sum>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    tokens: u64,
    micros: u64,
}

impl Sum {
    fn of(amount: Amount) -> Self {
        Self { tokens: amount.tokens, micros: micros(amount.cost_usd) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micros: self.micros.saturating_add(other.micros),
        }
    }

    fn max(self, other: Self) -> Self {
        Self { tokens: self.tokens.max(other.tokens), micros: self.micros.max(other.micros) }
    }
}

impl TreeAccount {
    /// The account of a tree in which nothing was used.
    pub fn new(budget: TreeBudget) -> Self {
        Self { budget, members: BTreeMap::new() }
    }

    /// Another budget; what was reserved and used stays.
    pub fn set_budget(&mut self, budget: TreeBudget) {
        self.budget = budget;
    }

    /// A member begins a run and reserves for it, beyond what it has used in earlier ones. Whether that fits was asked
    /// at admission.
    pub fn reserve(&mut self, member: SubagentId, reservation: Amount) {
        let member = self.members.entry(member).or_default();
        member.held = Some(member.spent.plus(Sum::of(reservation)));
    }

    /// What a member has used altogether, over all its runs. It never becomes less: an older report changes nothing.
    pub fn charge(&mut self, member: SubagentId, spent: Amount) {
        let member = self.members.entry(member).or_default();
        member.spent = member.spent.max(Sum::of(spent));
    }

    /// A member has ended: its reservation is given back, what it has used stays.
    pub fn end(&mut self, member: SubagentId) {
        if let Some(member) = self.members.get_mut(&member) {
            member.held = None;
        }
    }

    /// What can still be reserved.
    pub fn left(&self) -> Left {
        let used = self.reserved();
        let tokens = self.budget.max_tokens.filter(|max| *max > 0);
        let money = Some(micros(self.budget.max_cost_usd)).filter(|max| *max > 0);
        #[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
        let dollars = |micros: u64| micros as f64 / 1e6;
        Left {
            tokens: tokens.map(|max| max.saturating_sub(used.tokens)),
            cost_usd: money.map(|max| dollars(max.saturating_sub(used.micros))),
        }
    }

    /// What the gate asks about a new run that wants to reserve so much.
    pub fn facts(&self, reservation: Amount) -> TreeFacts {
        let (used, wants) = (self.reserved(), Sum::of(reservation));
        let share = |limit: u64, used, wants| (limit > 0).then_some(Share { limit, used, wants });
        TreeFacts {
            tokens: share(self.budget.max_tokens.unwrap_or(0), used.tokens, wants.tokens),
            micro_dollars: share(micros(self.budget.max_cost_usd), used.micros, wants.micros),
        }
    }

    /// Judges the tree by what was really used; reservations alone cut nobody off. `warned` is the limit that the
    /// member which is asked about was last asked to wrap up for.
    pub fn judge(&self, warned: Option<Limit>) -> Judgement {
        let used = self.members.values().fold(Sum::default(), |sum, member| sum.plus(member.spent));
        let amounts = [
            (Limit::TreeTokens, self.budget.max_tokens.unwrap_or(0), used.tokens),
            (Limit::TreeCost, micros(self.budget.max_cost_usd), used.micros),
        ];
        match used_up(amounts) {
            Some(limit) => Judgement::Cut { limit },
            None => wrap_up(amounts, warned),
        }
    }

    /// What is used or promised: of a live member whichever is more.
    fn reserved(&self) -> Sum {
        let of = |member: &Member| member.held.map_or(member.spent, |held| held.max(member.spent));
        self.members.values().fold(Sum::default(), |sum, member| sum.plus(of(member)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, GRACE_TURNS, Judgement, Left, Spent, TreeAccount, deadline_warning_at, judge};
    use subagent_model::{Budget, Limit, SubagentId, TreeBudget};

    fn id(n: u128) -> SubagentId {
        SubagentId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn wrap_up(limit: Limit) -> Judgement {
        Judgement::WrapUp { limit }
    }

    fn cut(limit: Limit) -> Judgement {
        Judgement::Cut { limit }
    }

    fn tokens(tokens: u64) -> Amount {
        Amount { tokens, cost_usd: None }
    }

    #[test]
    fn sm_20_turns_are_warned_once_and_cut_after_the_grace() {
        let budget = Budget { max_turns: Some(10), ..Budget::default() };
        let at = |turns, warned, more| judge(&budget, &Spent { turns, ..Spent::default() }, warned, more);
        let told = Some(Limit::Turns);
        assert_eq!(at(9, None, true), Judgement::Go);
        assert_eq!(at(10, None, false), Judgement::Go, "it ends by itself");
        assert_eq!(at(10, None, true), wrap_up(Limit::Turns));
        assert_eq!(at(10, told, true), Judgement::Go);
        assert_eq!(at(14, told, true), Judgement::Go);
        assert_eq!(at(15, told, false), Judgement::Go, "wrapped up with the last turn of the grace");
        assert_eq!(at(15, told, true), cut(Limit::Turns));
        assert_eq!(GRACE_TURNS, 5);
    }

    #[test]
    fn sm_20_the_grace_is_the_specs() {
        let with = |grace| Budget { max_turns: Some(3), grace_turns: Some(grace), ..Budget::default() };
        let spent = |turns| Spent { turns, ..Spent::default() };
        assert_eq!(judge(&with(2), &spent(4), Some(Limit::Turns), true), Judgement::Go);
        assert_eq!(judge(&with(2), &spent(5), Some(Limit::Turns), true), cut(Limit::Turns));
        assert_eq!(judge(&with(0), &spent(3), None, true), cut(Limit::Turns));
        let widest = Budget { max_turns: Some(u32::MAX), ..Budget::default() };
        assert_eq!(judge(&widest, &spent(u32::MAX - 1), None, true), Judgement::Go);
    }

    #[test]
    fn queue_13_each_amount_is_warned_at_90_percent_and_cut_at_100() {
        type Case = (Limit, Budget, fn(u64) -> Spent);
        let none = Budget::default();
        let cases: [Case; 3] = [
            (Limit::Tokens, Budget { max_tokens: Some(1_000), ..none }, |n| Spent {
                tokens: n,
                ..Spent::default()
            }),
            (Limit::ToolCalls, Budget { max_tool_calls: Some(1_000), ..none }, |n| Spent {
                tool_calls: u32::try_from(n).unwrap_or(u32::MAX),
                ..Spent::default()
            }),
            (Limit::Cost, Budget { max_cost_usd: Some(10.0), ..none }, |n| Spent {
                // A sum of cents, with the error that such a sum has.
                cost_usd: Some((0..n).map(|_| 0.01).sum()),
                ..Spent::default()
            }),
        ];
        for (limit, budget, spent) in cases {
            assert_eq!(judge(&budget, &spent(899), None, true), Judgement::Go, "{limit:?}");
            assert_eq!(judge(&budget, &spent(900), None, true), wrap_up(limit));
            assert_eq!(judge(&budget, &spent(999), Some(limit), true), Judgement::Go);
            assert_eq!(judge(&budget, &spent(1_000), Some(limit), true), cut(limit));
            assert_eq!(judge(&budget, &spent(1_000), None, false), cut(limit), "in the middle of a turn too");
        }
    }

    #[test]
    fn queue_13_one_request_is_enough_but_the_turn_limit_has_its_own() {
        let budget = Budget { max_turns: Some(5), max_tokens: Some(100), ..Budget::default() };
        let spent = Spent { turns: 5, tokens: 95, ..Spent::default() };
        assert_eq!(judge(&budget, &spent, Some(Limit::Deadline), false), Judgement::Go);
        assert_eq!(judge(&budget, &spent, Some(Limit::Tokens), true), wrap_up(Limit::Turns));
        assert_eq!(judge(&budget, &spent, Some(Limit::Turns), true), Judgement::Go);
    }

    #[test]
    fn queue_18_absent_and_0_are_unlimited_and_so_is_what_is_no_number() {
        let used =
            Spent { turns: u32::MAX, tokens: u64::MAX, cost_usd: Some(f64::MAX), tool_calls: u32::MAX };
        let zero = Budget {
            max_turns: Some(0),
            grace_turns: Some(0),
            max_tokens: Some(0),
            max_cost_usd: Some(0.0),
            max_tool_calls: Some(0),
        };
        for budget in [Budget::default(), zero, Budget { max_cost_usd: Some(f64::NAN), ..zero }] {
            assert_eq!(judge(&budget, &used, None, true), Judgement::Go);
        }
        let tiny = Budget { max_cost_usd: Some(1e-9), ..zero };
        assert_eq!(judge(&tiny, &used, None, true), cut(Limit::Cost));
        let unknown = Spent { cost_usd: None, ..used };
        assert_eq!(judge(&tiny, &unknown, None, true), Judgement::Go, "rec_15: unknown is not 0 and not all");
    }

    #[test]
    fn deadlines_are_warned_at_90_percent() {
        assert_eq!([0, 1, 10, 60_000].map(deadline_warning_at), [0, 1, 9, 54_000]);
        assert!(deadline_warning_at(u64::MAX) < u64::MAX);
    }

    fn account(max_tokens: u64, max_cost_usd: f64) -> TreeAccount {
        TreeAccount::new(TreeBudget { max_tokens: Some(max_tokens), max_cost_usd: Some(max_cost_usd) })
    }

    #[test]
    fn queue_14_reservations_count_as_used_until_the_member_ends() {
        let mut tree = account(1_000, 2.0);
        tree.charge(id(1), Amount { tokens: 100, cost_usd: Some(0.1) });
        tree.reserve(id(2), Amount { tokens: 300, cost_usd: Some(0.5) });
        assert_eq!(tree.left(), Left { tokens: Some(600), cost_usd: Some(1.4) });
        tree.charge(id(2), tokens(200));
        assert_eq!(tree.left().tokens, Some(600), "within its reservation");
        tree.charge(id(2), tokens(350));
        assert_eq!(tree.left().tokens, Some(550), "beyond it");
        tree.charge(id(2), tokens(10));
        assert_eq!(tree.left().tokens, Some(550), "an older report");
        tree.end(id(2));
        assert_eq!(tree.left(), Left { tokens: Some(550), cost_usd: Some(1.9) });
        tree.reserve(id(2), tokens(50));
        assert_eq!(tree.left().tokens, Some(500), "its next run reserves beyond what it has used");
        tree.set_budget(TreeBudget { max_tokens: Some(100), max_cost_usd: None });
        assert_eq!(tree.left(), Left { tokens: Some(0), cost_usd: None });
    }

    #[test]
    fn queue_14_a_tree_is_judged_by_what_it_used_and_not_by_promises() {
        let mut tree = account(1_000, 1.0);
        tree.reserve(id(1), tokens(1_000));
        assert_eq!(tree.judge(None), Judgement::Go);
        tree.charge(id(1), tokens(400));
        tree.charge(id(2), tokens(500));
        assert_eq!(tree.judge(None), wrap_up(Limit::TreeTokens));
        assert_eq!(tree.judge(Some(Limit::Turns)), Judgement::Go);
        tree.end(id(2));
        tree.charge(id(1), tokens(500));
        assert_eq!(tree.judge(Some(Limit::TreeTokens)), cut(Limit::TreeTokens));
        let mut tree = account(0, 1.0);
        tree.charge(id(1), Amount { tokens: u64::MAX, cost_usd: Some(0.95) });
        tree.charge(id(2), Amount { tokens: u64::MAX, cost_usd: None });
        assert_eq!(tree.judge(None), wrap_up(Limit::TreeCost));
        tree.charge(id(2), Amount { tokens: 0, cost_usd: Some(0.05) });
        assert_eq!(tree.judge(None), cut(Limit::TreeCost));
    }
}
