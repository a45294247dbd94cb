//! What a command must be told of the world before it is decided, and what follows for others from a step of one run: the
//! next run, the parent that waits, the tree whose budget it uses.

use std::sync::Arc;

use subagent_core::budget::Judgement;
use subagent_core::policy;
use subagent_core::run::{Command, Subagent};
use subagent_model::{Cause, Limit, Permissions, ReturnReason, SubagentId, Timestamp};
use subagent_store::Store;

use super::super::batch::Batch;
use super::Writer;

/// More levels than any tree has.
const DEEPEST: usize = 1_000;

impl Writer {
    /// Fills in what only the writer knows.
    pub(super) fn complete(
        &mut self,
        batch: &Batch,
        committed: &Arc<Subagent>,
        command: &mut Command,
        now: Timestamp,
    ) {
        let id = committed.id;
        match command {
            Command::Conclude { children_live, max_attempts, .. }
            | Command::Gone { children_live, max_attempts, .. } => {
                *children_live = self.book.is_held_by_children(id);
                *max_attempts = self.limits.max_attempts;
            }
            Command::TurnDone { left, .. } => {
                left.children = self.book.is_held_by_children(id);
                left.unread = self.unread_of(batch, id, now);
            }
            Command::Ask { ask, policy, reason, expires_at, .. } => {
                let policies = self.policies(batch, id);
                (*policy, *reason) = policy::say(&policies, ask);
                let expiry = policies.first().and_then(|policy| policy.expire_ms);
                let expiry = expiry.unwrap_or(policy::EXPIRY_MS);
                *expires_at = now.after(std::time::Duration::from_millis(expiry));
            }
            _ => {}
        }
    }

    /// The policies of a subagent and of those above it, its own first.
    fn policies(&mut self, batch: &Batch, id: SubagentId) -> Vec<Permissions> {
        let mut policies = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at
            && policies.len() < DEEPEST
        {
            let Some(state) = self.newest(batch, id) else { break };
            policies.push(state.spec.permissions.clone());
            at = state.parent;
        }
        policies
    }

    /// What follows from the step that led away from `before`. Each look is at the newest state of this round.
    pub(super) fn follow_up(&mut self, batch: &mut Batch, before: &Subagent, now: Timestamp) {
        let id = before.id;
        let Some(after) = batch.get(id) else { return };
        let (ended, wants_next) = (after.is_ended() && !before.is_ended(), after.wants_next_run());
        let (parent, root) = (after.parent, after.root);
        let interrupted = after.run.interrupting.clone().filter(|_| before.run.interrupting.is_none());
        let spent_more = after.usage != before.usage;
        if let Some(by) = interrupted {
            self.interrupt_children(batch, id, &by, now);
        }
        if wants_next {
            self.next_run(batch, id, now);
        }
        if ended {
            self.tell_waiting_parent(batch, parent, now);
        }
        if spent_more {
            self.judge_tree(batch, root, now);
        }
        if self.book.idle.len() > self.limits.idle as usize {
            self.close_longest_idle(batch, now);
        }
    }

    /// More are idle than may be: the one that nobody has spoken to for longest ends.
    fn close_longest_idle(&mut self, batch: &mut Batch, now: Timestamp) {
        let idle: Vec<_> = self.book.idle.iter().copied().collect();
        let since = |state: &Arc<Subagent>| state.warm.as_ref().map(|warm| warm.since);
        let longest = idle
            .into_iter()
            .filter_map(|id| self.newest(batch, id))
            .filter_map(|state| Some((since(&state)?, state.id)))
            .min();
        let Some((_, id)) = longest else { return };
        let close = Command::Stop {
            actor: String::from("daemon"),
            cause: Cause::IdleTooLong,
            drop_follow_ups: false,
        };
        if let Err(error) = self.try_act(batch, id, close, None, now) {
            tracing::warn!(%id, %error, "an idle subagent could not be closed");
        }
    }

    /// Opens the next run of a follow-up by the same gate as any other; one that is not admitted comes back.
    pub(super) fn next_run(&mut self, batch: &mut Batch, id: SubagentId, now: Timestamp) {
        let Some(state) = self.newest(batch, id) else { return };
        let Some(message) = state.mail.next_follow_up() else { return };
        let (prompt, whole) = subagent_provider::bound(message.text.clone());
        if self.draining {
            // The next engine opens it.
            return;
        }
        let admitted = self.admit_run(batch, &state, now);
        let admitted = admitted.map_err(|refusal| self.inner.refusals.note(refusal).to_string());
        let opened = admitted.and_then(|()| {
            let content = whole.map(|text| super::resuming::prompt_of(state.run.number.next(), text));
            self.try_act(batch, id, Command::NextRun { prompt }, content, now)
                .map_err(|error| error.to_string())
        });
        if let Err(why) = opened {
            tracing::info!(%id, why, "a follow-up could not open the next run");
            let back = Command::ReturnFollowUps { reason: ReturnReason::NotResumed };
            if let Err(error) = self.try_act(batch, id, back, None, now) {
                tracing::error!(%id, %error, "cannot give follow-ups back");
            }
        }
    }

    /// Opens the accounts of live trees that have a budget.
    pub(super) fn open_accounts(&mut self) {
        let live = self.inner.live_where(|_| true);
        let mut roots: Vec<_> = live.iter().map(|state| state.root).collect();
        roots.sort_unstable();
        roots.dedup();
        for root in roots {
            self.open_account(root);
        }
    }

    /// Opens the account of a tree, if it has a budget and none is open.
    pub(super) fn open_account(&mut self, root: SubagentId) {
        let Ok(state) = self.committed(root) else { return };
        if state.spec.tree_budget.is_unlimited() || self.book.accounts.contains_key(&root) {
            return;
        }
        let store: &dyn Store = if state.spec.durable { &*self.inner.store } else { &*self.inner.memory };
        match store.tree(root) {
            Ok(members) => self.book.open_account(&state, members.iter().map(|member| &**member)),
            Err(error) => tracing::error!(%root, %error, "cannot read what a tree has used"),
        }
    }

    /// Asks all of a tree to wrap up, or cuts all of it off, when its budget is nearly or wholly used.
    fn judge_tree(&mut self, batch: &mut Batch, root: SubagentId, now: Timestamp) {
        let Some(account) = self.book.accounts.get(&root) else { return };
        let limit = |judgement| match judgement {
            Judgement::Go => None,
            Judgement::WrapUp { limit } => Some(Command::WrapUp { limit }),
            Judgement::Cut { limit } => Some(Command::Cut { limit }),
        };
        let Some(command) = limit(account.judge(None)) else { return };
        let is_member = |state: &Subagent| state.root == root && !state.is_ended();
        let mut members: Vec<_> = self.inner.live_where(is_member).iter().map(|state| state.id).collect();
        members.extend(batch.states().filter(|state| is_member(state)).map(|state| state.id));
        members.sort_unstable();
        members.dedup();
        for member in members {
            if let Err(error) = self.try_act(batch, member, command.clone(), None, now) {
                tracing::debug!(%member, %error, "a limit of the tree changes nothing here");
            }
        }
        let limit = match command {
            Command::Cut { limit } | Command::WrapUp { limit } => limit,
            _ => Limit::TreeTokens,
        };
        tracing::info!(%root, ?limit, "the budget of a tree is nearly used up");
    }
}
