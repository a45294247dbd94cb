//! The only maker of the public record. Which fields it has, and which it must never have, is pinned by tests.

use subagent_model::text::cut_at_boundary;
use subagent_model::{Outcome, SubagentRecord};

use crate::run::{Delivery, Phase, Subagent};

/// Most bytes of a description taken from the prompt.
const DESCRIPTION_BYTES: usize = 80;

/// The record of `state`: a value that never changes later.
pub fn record(state: &Subagent) -> SubagentRecord {
    let ended = match &state.run.phase {
        Phase::Ended(ended) => Some(&**ended),
        _ => None,
    };
    let stop = match (&state.run.phase, ended.map(|ended| &ended.outcome)) {
        (Phase::Stopping { stop, .. }, _) | (_, Some(Outcome::Stopped { stop })) => Some(stop.clone()),
        _ => None,
    };
    let error = ended.and_then(|ended| match &ended.outcome {
        Outcome::Error { error } => Some(error.clone()),
        _ => ended.late_error.clone(),
    });
    let last = state.run.attempts.last();
    SubagentRecord {
        id: state.id,
        handle: state.handle.clone(),
        agent_type: state.spec.agent_type.clone(),
        description: description(state),
        provider: state.spec.provider.clone(),
        mode: state.spec.mode,
        is_background: state.spec.mode.is_background(),
        status: state.status(),
        quality: ended.map(|ended| ended.quality),
        marks: ended.map(|ended| ended.marks.clone()).unwrap_or_default(),
        run: state.run.number,
        attempt: state.last_attempt,
        parent: state.parent,
        root: state.root,
        depth: state.depth,
        requested_by: state.requester.clone(),
        created_at: state.created_at,
        started_at: state.run.attempts.iter().find_map(|facts| facts.started_at),
        completed_at: ended.map(|ended| ended.completed_at),
        exited_at: ended.and_then(|ended| ended.exit).and_then(|exit| exit.at),
        updated_at: state.updated_at,
        result: ended.and_then(|ended| ended.result.clone()),
        error,
        end_reason: ended.map(|ended| end_reason(&ended.outcome)),
        stop,
        queued_for: match &state.run.phase {
            Phase::Queued { reason, .. } => Some(reason.clone()),
            _ => None,
        },
        waiting_on: match &state.run.phase {
            Phase::Waiting { on, .. } => Some(on.clone()),
            _ => None,
        },
        turn_count: state.run.turns,
        max_turns: None,
        tool_uses: state.run.tool_uses,
        usage: state.usage,
        compaction_count: state.compactions,
        attempts: state.run.attempts.clone(),
        earlier_runs: state.earlier.clone(),
        cwd: state.spec.cwd.clone(),
        transcript: last
            .filter(|facts| facts.started_at.is_some())
            .map(|facts| format!("attempts/{}/{}.{}", state.id, state.run.number, facts.attempt)),
        labels: state.spec.labels.clone(),
        tier: String::from("flat"),
        consumed: matches!(state.run.delivery, Delivery::Consumed { .. }),
        durable: state.spec.durable,
        node: state.hold().map(|hold| hold.owner.clone()),
    }
}

fn description(state: &Subagent) -> String {
    state.spec.description.clone().unwrap_or_else(|| {
        let line = state.run.prompt.preview.lines().map(str::trim).find(|line| !line.is_empty());
        let line = line.map(ToOwned::to_owned).or_else(|| {
            let exec = state.spec.exec.as_ref()?;
            Some(std::iter::once(&exec.program).chain(&exec.args).cloned().collect::<Vec<_>>().join(" "))
        });
        let line = line.unwrap_or_default();
        cut_at_boundary(line.lines().next().unwrap_or_default(), DESCRIPTION_BYTES).to_owned()
    })
}

/// In words, why a run ended.
fn end_reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed => String::from("ended by itself"),
        Outcome::Steered => String::from("wrapped up at its turn limit"),
        Outcome::Aborted { limit } => format!("cut off by its limit: {limit:?}").to_lowercase(),
        Outcome::Stopped { stop } => format!("stopped by {}", stop.actor),
        Outcome::Error { error } => error.message.clone(),
        Outcome::Lost { evidence } => evidence.clone(),
    }
}
