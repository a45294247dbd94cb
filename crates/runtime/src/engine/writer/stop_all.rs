//! A stop of everything: the queue first, so that nothing takes the slots that become free, and all in one step.

use subagent_core::run::{Phase, Subagent};
use subagent_model::{Cause, Mode, Problem, SubagentId, Timestamp};

use super::super::batch::Batch;
use super::message::{ActError, StopAll, Stopped, stop_command};
use super::{Answer, Writer};

impl Writer {
    pub(super) fn stage_stop_all(
        &mut self,
        batch: &mut Batch,
        all: StopAll,
        answers: &mut Vec<Answer>,
        now: Timestamp,
    ) {
        let StopAll { actor, below, of, detached, reply } = all;
        let mut chosen: Vec<(bool, SubagentId)> = Vec::new();
        let mut choose = |state: &Subagent| {
            let wanted = state.is_live()
                && (detached || state.spec.mode != Mode::Detached)
                && of.as_ref().is_none_or(|of| state.requester == *of);
            if wanted {
                let waits = matches!(state.run.phase, Phase::Queued { .. });
                chosen.push((!waits, state.id));
            }
        };
        self.inner.live_where(|_| true).iter().for_each(|state| choose(state));
        batch.states().for_each(&mut choose);
        // Queued ones first; then parents before their children.
        chosen.sort_unstable();
        chosen.dedup();
        let (mut stopped, mut failed) = (Vec::new(), Vec::new());
        for (_, id) in chosen {
            if below.is_some_and(|ancestor| !self.is_below(batch, id, ancestor)) {
                continue;
            }
            match self.try_act(batch, id, stop_command(&actor, Cause::Requested), None, now) {
                Ok(true) => stopped.push(id),
                Ok(false) => {}
                Err(error) => failed.push(problem_of(error, id)),
            }
        }
        if stopped.is_empty() {
            let _ = reply.send(Stopped { stopped: Vec::new(), failed });
        } else {
            answers.push(Answer::StopAll { stopped, failed, reply });
        }
    }
}

fn problem_of(error: ActError, id: SubagentId) -> Problem {
    Problem::from(error).with_ids(vec![id.to_string()])
}
