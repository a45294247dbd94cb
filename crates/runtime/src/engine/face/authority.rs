//! Whose a subagent is. A person sees and controls everything; a subagent what is below it; any other requester what it
//! asked for, and what is below that.

use std::collections::HashMap;
use std::sync::Arc;

use subagent_core::run::Subagent;
use subagent_model::{ErrorCode, Problem, Requester, SubagentId};

use super::super::Engine;
use super::{not_found, problem};
use crate::runtime::Caller;

/// More levels than any tree has.
const DEEPEST: usize = 1_000;

/// What a caller wants of a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// To look at it. A subagent may look at itself.
    See,
    /// To change what becomes of it. Nobody is above itself.
    Control,
}

impl Engine {
    /// The subagent, if the caller may do that with it.
    pub(super) fn for_caller(
        &self,
        caller: &Caller,
        id: SubagentId,
        access: Access,
    ) -> Result<Arc<Subagent>, Problem> {
        let state = self.inner.load(id).map_err(problem)?.ok_or_else(|| not_found(id))?;
        if self.is_theirs(caller, &state, access)? {
            return Ok(state);
        }
        let message = format!("{} belongs to another requester than {}", state.handle, caller.requester);
        Err(Problem::new(ErrorCode::NotYours, message).with_ids(vec![id.to_string()]))
    }

    /// Whether it is the caller's.
    pub(super) fn is_theirs(
        &self,
        caller: &Caller,
        state: &Arc<Subagent>,
        access: Access,
    ) -> Result<bool, Problem> {
        if is_person(&caller.requester) {
            return Ok(true);
        }
        let own = subagent_of(&caller.requester);
        if own == Some(state.id) {
            return Ok(access == Access::See);
        }
        let mut at = Arc::clone(state);
        for _ in 0..DEEPEST {
            let theirs = match own {
                Some(own) => at.parent == Some(own),
                None => asked_for(&at, &caller.requester, access),
            };
            if theirs {
                return Ok(true);
            }
            let Some(parent) = at.parent else { return Ok(false) };
            // A parent that is no longer stored ends the walk: what cannot be shown to be theirs is not.
            match self.inner.load(parent).map_err(problem)? {
                Some(parent) => at = parent,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Only for a person at this machine.
    pub(super) fn only_a_person(caller: &Caller, what: &str) -> Result<(), Problem> {
        if is_person(&caller.requester) {
            return Ok(());
        }
        let message = format!("{} may not {what}: only a person may", caller.requester);
        Err(Problem::new(ErrorCode::NotYours, message))
    }

    /// Judges many of them, each subagent once.
    pub(super) fn judge<'a>(&'a self, caller: &'a Caller) -> impl FnMut(SubagentId) -> bool + 'a {
        let mut known: HashMap<SubagentId, bool> = HashMap::new();
        let person = is_person(&caller.requester);
        move |id| {
            person
                || *known.entry(id).or_insert_with(|| {
                    let state = self.inner.load(id).ok().flatten();
                    state.is_some_and(|state| self.is_theirs(caller, &state, Access::See).unwrap_or(false))
                })
        }
    }
}

/// A person at the command line of this machine.
pub(super) fn is_person(requester: &Requester) -> bool {
    requester.as_str().starts_with("user:")
}

/// The subagent that a requester is.
pub(super) fn subagent_of(requester: &Requester) -> Option<SubagentId> {
    requester.as_str().strip_prefix("subagent:")?.parse().ok()
}

/// Whoever asked for any run may look at it; who asked for the present one controls it.
fn asked_for(state: &Subagent, requester: &Requester, access: Access) -> bool {
    match access {
        Access::See => state.duties().any(|duty| duty.is_for(requester)),
        Access::Control => state.requester == *requester,
    }
}
