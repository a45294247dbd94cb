//! Stops of one tree and of everything, and the wait for the last process to be gone.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::run::{Command, Subagent};
use subagent_core::snapshot::record;
use subagent_model::request::{StopAllReply, StopAllRequest, StopReply, StopRequest};
use subagent_model::{Problem, SubagentId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::Engine;
use super::super::writer::{Act, Message, StopAll};
use super::authority::{Access, is_person, subagent_of};
use super::{LONGEST_WAIT, bounded_answer};
use crate::runtime::Caller;

/// How often a tree is looked at again, beside the changes that are told.
const LOOK: Duration = Duration::from_millis(200);

impl Engine {
    pub(super) async fn stop_one(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopRequest,
    ) -> Result<StopReply, Problem> {
        self.for_caller(caller, id, Access::Control)?;
        let command = Command::Stop {
            actor: caller.requester.to_string(),
            cause: request.cause,
            drop_follow_ups: request.drop_follow_ups,
        };
        let (reply, answer) = oneshot::channel();
        let act = Act { cascade: request.cascade, reply: Some(reply), ..Act::new(id, command) };
        self.inner.send(act.into());
        let acted = bounded_answer(answer).await?.map_err(Problem::from)?;
        Ok(StopReply { record: record(&acted.state), accepted: acted.changed, cascaded: acted.cascaded })
    }

    pub(super) async fn stop_everything(
        &self,
        caller: &Caller,
        request: StopAllRequest,
    ) -> Result<StopAllReply, Problem> {
        let below = subagent_of(&caller.requester);
        let of = (!is_person(&caller.requester) && below.is_none()).then(|| caller.requester.clone());
        let (reply, answer) = oneshot::channel();
        let all =
            StopAll { actor: caller.requester.to_string(), below, of, detached: request.detached, reply };
        self.inner.send(Message::StopAll(Box::new(all)));
        let done = bounded_answer(answer).await?;
        let stopped = done.stopped.iter().map(|state| record(state)).collect();
        Ok(StopAllReply { stopped, failed: done.failed })
    }

    /// True once neither the subagent nor anything bound below it has a process or may get one.
    pub(super) async fn wait_gone(
        &self,
        caller: &Caller,
        id: SubagentId,
        wait: Duration,
    ) -> Result<bool, Problem> {
        self.for_caller(caller, id, Access::See)?;
        let until = Instant::now() + wait.min(LONGEST_WAIT);
        loop {
            let mut watch = self.inner.watchers.watch(id);
            if self.is_gone(id) {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            // Children are not watched one by one: a look now and then finds them gone.
            let look = (Instant::now() + LOOK).min(until);
            let _ = tokio::time::timeout_at(look, watch.changed()).await;
        }
    }

    fn is_gone(&self, id: SubagentId) -> bool {
        let root = match self.inner.load(id) {
            Ok(Some(state)) if state.is_live() => return false,
            Ok(Some(state)) => state.root,
            _ => return true,
        };
        let members = self.inner.live_where(|state| state.root == root);
        !members.iter().any(|state| self.is_bound_below(state, id))
    }

    /// True when `ancestor` is above it and nothing between them is detached.
    fn is_bound_below(&self, state: &Arc<Subagent>, ancestor: SubagentId) -> bool {
        let mut at = Arc::clone(state);
        for _ in 0..1_000 {
            if !at.spec.mode.is_delivered() {
                return false;
            }
            match at.parent {
                Some(parent) if parent == ancestor => return true,
                Some(parent) => match self.inner.load(parent) {
                    Ok(Some(parent)) => at = parent,
                    _ => return false,
                },
                None => return false,
            }
        }
        false
    }
}
