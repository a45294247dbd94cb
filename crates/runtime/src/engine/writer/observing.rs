//! Committed events on their way to observers. Costs nothing when there are none, and never waits.

use std::collections::HashMap;
use std::sync::Arc;

use subagent_core::run::Subagent;
use subagent_core::snapshot::{record, record_of_run};
use subagent_hooks::{Committed, RunView};
use subagent_model::{Event, RunNumber, SubagentId};
use subagent_store::Transition;

use super::Writer;

impl Writer {
    /// Hands events over, in their order. `logged`: they have a position in the durable log.
    pub(super) fn tell_observers(&self, transitions: &[Transition], events: &[Event], logged: bool) {
        let dispatch = &self.inner.dispatch;
        if dispatch.is_empty() {
            return;
        }
        let states: HashMap<SubagentId, &Arc<Subagent>> =
            transitions.iter().map(|transition| (transition.state.id, &transition.state)).collect();
        for event in events {
            let Some(state) = states.get(&event.subagent) else { continue };
            let requester = state.duty(event.run).map_or(&state.requester, |duty| duty.requester).clone();
            let committed = Committed { event: event.clone(), requester, logged };
            dispatch.committed(committed, || view(state, event.run));
        }
    }
}

fn view(state: &Subagent, run: RunNumber) -> RunView {
    let record = record_of_run(state, run).unwrap_or_else(|| record(state));
    let last_message = record.result.as_ref().map(|text| Arc::from(text.preview.as_str()));
    let continuations = if run == state.run.number { state.run.nudges.gates } else { 0 };
    RunView { record, last_message, continuations }
}
