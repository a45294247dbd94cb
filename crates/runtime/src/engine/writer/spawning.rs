//! Births: idempotency, the gate, a handle that is free.

use std::sync::Arc;

use subagent_core::admission::{self, Asking, ParentFacts, TypeFacts};
use subagent_core::budget::Amount;
use subagent_core::run::{Birth, Phase, Subagent, accept};
use subagent_model::{ErrorCode, Handle, Problem, SubagentId, Timestamp};
use subagent_store::{Store, StoreError};
use tokio::sync::oneshot;

use super::super::batch::Batch;
use super::super::names;
use super::message::{ActError, Spawn, Spawned};
use super::{Answer, Writer};

impl Writer {
    pub(super) fn stage_spawn(
        &mut self,
        batch: &mut Batch,
        spawn: Spawn,
        reply: oneshot::Sender<Result<Spawned, Problem>>,
        answers: &mut Vec<Answer>,
        now: Timestamp,
    ) {
        match self.try_spawn(batch, spawn, now) {
            Ok(id) => answers.push(Answer::Spawn { id, existing: false, reply }),
            Err(Earlier::Staged(id)) => answers.push(Answer::Spawn { id, existing: true, reply }),
            Err(Earlier::Existing(state)) => {
                let _ = reply.send(Ok(Spawned { state, existing: true }));
            }
            Err(Earlier::Refused(problem)) => {
                let _ = reply.send(Err(*problem));
            }
        }
    }

    fn try_spawn(&mut self, batch: &mut Batch, spawn: Spawn, now: Timestamp) -> Result<SubagentId, Earlier> {
        if let Some(key) = &spawn.idempotency {
            // The same request twice in one round: the store would refuse the whole of it.
            if let Some(id) = batch.by_key(key) {
                if let Some(state) = batch.get(id) {
                    same_request(state, &spawn)?;
                }
                return Err(Earlier::Staged(id));
            }
            let inner = Arc::clone(&self.inner);
            for store in [&*inner.store, &*inner.memory as &dyn Store] {
                if let Some(id) = store.by_idempotency_key(key).map_err(store_problem)? {
                    let state = self.committed(id).map_err(|error| Earlier::refused(error.into()))?;
                    same_request(&state, &spawn)?;
                    return Err(Earlier::Existing(state));
                }
            }
        }
        let mut facts = self.facts(spawn.spec.durable, Asking::Spawn);
        let (mut root, mut depth) = (spawn.id, 0);
        if let Some(parent) = spawn.parent {
            let state = match batch.get(parent) {
                Some(state) => Arc::new(state.clone()),
                None => self.committed(parent).map_err(|error| Earlier::refused(error.into()))?,
            };
            root = state.root;
            depth = state.depth + 1;
            let store = &self.inner.store;
            facts.parent = Some(ParentFacts {
                depth: state.depth,
                open: !matches!(state.run.phase, Phase::Ended(_) | Phase::Stopping { .. }),
                live_children: self.book.live_child_count(parent),
                tree_total: self.book.tree_total(root, || store.tree_total(root)).map_err(store_problem)?,
                recent_spawns: self.book.recent_spawns(parent, now, self.limits.rate_window()),
                levels: state.spec.bounds.depth,
                types: state
                    .spec
                    .bounds
                    .types
                    .clone()
                    .map(|allowed| TypeFacts { allowed, wanted: spawn.spec.agent_type.clone() }),
            });
        }
        if spawn.parent.is_some() {
            self.open_account(root);
        }
        facts.tree = self.book.accounts.get(&root).map(|account| {
            let budget = &spawn.spec.budget;
            let tokens = budget.max_tokens.unwrap_or(0);
            account.facts(Amount { tokens, cost_usd: budget.max_cost_usd })
        });
        facts.would_start = self.starts_without_queue()
            && self.book.would_start(spawn.id, &spawn.spec, &spawn.requester, spawn.parent, now);
        admission::admit(&self.limits, &facts).map_err(Earlier::refused)?;
        let handle = self.free_handle(batch).map_err(store_problem)?;
        let birth = Birth {
            id: spawn.id,
            handle,
            spec: spawn.spec,
            parent: spawn.parent,
            root,
            depth,
            requester: spawn.requester,
        };
        let state = batch
            .birth(spawn.id, accept(birth), spawn.content, spawn.idempotency, now)
            .map_err(|error| Earlier::refused(Problem::new(ErrorCode::Panicked, error.to_string())))?;
        if state.parent.is_none() {
            self.book.open_account(state, []);
        }
        self.book.step(None, state, now);
        if let Some(parent) = spawn.parent {
            self.book.note_spawn(parent, root, now);
        }
        Ok(spawn.id)
    }

    fn free_handle(&self, batch: &Batch) -> Result<Handle, StoreError> {
        for length in 6..16 {
            let handle = names::new_handle(length);
            if !batch.handle_taken(&handle)
                && !self.inner.store.handle_taken(&handle)?
                && !self.inner.memory.handle_taken(&handle)?
            {
                return Ok(handle);
            }
        }
        Ok(names::new_handle(16))
    }
}

/// How a spawn ended before the commit.
enum Earlier {
    Existing(Arc<Subagent>),
    /// An earlier request of the same round gave it; told once that is committed.
    Staged(SubagentId),
    Refused(Box<Problem>),
}

impl Earlier {
    fn refused(problem: Problem) -> Self {
        Self::Refused(Box::new(problem))
    }
}

/// A key stands for one request: another one under it is not done in silence, and not taken for the first.
fn same_request(state: &Subagent, spawn: &Spawn) -> Result<(), Earlier> {
    let (old, new) = (&*state.spec, &spawn.spec);
    let differs = [
        ("the task", old.prompt != new.prompt || old.attachments != new.attachments),
        ("the provider", old.provider != new.provider),
        ("the agent type", old.agent_type != new.agent_type),
        ("the program", old.exec != new.exec),
        ("the mode", old.mode != new.mode),
        ("the directory", old.cwd != new.cwd),
        ("the parent", state.parent != spawn.parent),
    ];
    let Some((what, _)) = differs.into_iter().find(|(_, differs)| *differs) else { return Ok(()) };
    let message = format!("the key stands for {}, and {what} is another one there", state.handle);
    Err(Earlier::refused(
        Problem::new(ErrorCode::IdempotencyMismatch, message).with_ids(vec![state.id.to_string()]),
    ))
}

fn store_problem(error: StoreError) -> Earlier {
    Earlier::refused(ActError::Store(error).into())
}
