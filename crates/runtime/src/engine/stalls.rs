//! Signs of life: who was silent for longer than its policy allows is told as stalled, and cut off only where the policy
//! says so.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::run::{Command, Phase, Subagent};
use subagent_model::Limit;

use super::Inner;
use super::writer::Act;

/// How long a child may be silent where its spec does not say.
const PATIENCE: Duration = Duration::from_mins(10);

/// Looks at one child.
pub(crate) fn look(inner: &Arc<Inner>, state: &Arc<Subagent>) {
    let Phase::Running { hold, .. } = &state.run.phase else { return };
    let attempt = hold.attempt;
    let key = state.key_of(attempt);
    let log_end = inner.tasks.log_end(key).map(|end| *end.borrow());
    let process = state.run.attempts.last().and_then(|facts| facts.process.clone());
    let cgroup = inner.tasks.cgroup(key);
    let cpu = process.and_then(|process| subagent_process::cpu_time(cgroup.as_deref(), &process));
    let silence = inner.activity.look(state, log_end, cpu);
    let policy = &state.spec.stall;
    let patience = policy.after_ms.map_or(PATIENCE, Duration::from_millis);
    let silent = patience > Duration::ZERO && silence.lasts >= patience && !silence.in_tool;
    let tell = |command| inner.send(Act::lazy(state.id, command).into());
    match (silent, state.run.stalled_since) {
        (true, None) => tell(Command::Stall { attempt, since: silence.since }),
        (true, Some(_)) => {
            let kill = policy.kill_after_ms.map(Duration::from_millis);
            if kill.is_some_and(|kill| silence.lasts >= patience.saturating_add(kill)) {
                tell(Command::Cut { limit: Limit::Stall });
            }
        }
        (false, Some(_)) => tell(Command::Revive { attempt }),
        (false, None) => {}
    }
}
