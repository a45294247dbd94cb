//! Use of a subagent and of what is below it. What it adds up to is the core's.

use std::sync::Arc;

use subagent_core::rollup::{Used, roll_up};
use subagent_model::request::UsageReport;
use subagent_model::{ErrorCode, Problem, SubagentId};
use subagent_store::{Store, StoreError};

use super::super::{Engine, Inner};
use super::authority::Access;
use super::problem;
use crate::runtime::Caller;

impl Engine {
    pub(super) async fn report_usage(&self, caller: &Caller, id: SubagentId) -> Result<UsageReport, Problem> {
        let root = self.for_caller(caller, id, Access::See)?.root;
        let inner = Arc::clone(&self.inner);
        // A tree may be large.
        let members = tokio::task::spawn_blocking(move || inner.used_in_tree(root)).await;
        let members = members.map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?;
        Ok(roll_up(id, members.map_err(problem)?))
    }
}

impl Inner {
    /// The members of a tree, durable or not; of those that are live the state as it is now comes last, and counts.
    fn used_in_tree(&self, root: SubagentId) -> Result<Vec<Used>, StoreError> {
        let stored = self.store.tree(root)?;
        let volatile = self.memory.tree(root)?;
        let live = self.live_where(|state| state.root == root);
        Ok(stored.iter().chain(&volatile).chain(&live).map(|state| Used::from(&**state)).collect())
    }
}
