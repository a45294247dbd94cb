//! The only maker of the public record. Which fields it has, and which it must never have, is pinned by tests.

use subagent_model::text::cut_at_boundary;
use subagent_model::{
    AttemptFacts, AttemptNumber, BoundedText, Budget, Outcome, Posted, RequestItem, Requester, RunNumber,
    RunRecord, SubagentRecord, Timestamp, Usage, WrapUp,
};

use crate::run::{Delivery, EarlierRun, Ended, Phase, Subagent, resumable};

/// Most bytes of a description taken from the prompt.
const DESCRIPTION_BYTES: usize = 80;

/// The record of `state`: a value that never changes later.
pub fn record(state: &Subagent) -> SubagentRecord {
    let mut record = view(state, &RunView::current(state));
    // Between runs it is the subagent that has a status, beside its last answer.
    record.status = state.status();
    record
}

/// The record as `run` left it, for those who waited for that run or are told of it after the next one was opened:
/// outcome, times, attempts and requester are those of the run. `None` when it was never opened.
pub fn record_of_run(state: &Subagent, run: RunNumber) -> Option<SubagentRecord> {
    if run == state.run.number {
        return Some(view(state, &RunView::current(state)));
    }
    let earlier = state.earlier.iter().find(|earlier| earlier.number == run)?;
    Some(view(state, &RunView::earlier(earlier)))
}

/// What the record of a subagent shows of one run.
struct RunView<'a> {
    number: RunNumber,
    requester: &'a Requester,
    accepted_at: Timestamp,
    /// None for an earlier run, which is over.
    phase: Option<&'a Phase>,
    ended: Option<&'a Ended>,
    attempts: &'a [AttemptFacts],
    turns: u32,
    tool_uses: u32,
    usage: Option<Usage>,
    budget: Budget,
    wrap_up: Option<WrapUp>,
    requests: &'a [RequestItem],
    returned: &'a [Posted],
    prompt: Option<&'a BoundedText>,
    delivery: &'a Delivery,
}

impl<'a> RunView<'a> {
    fn current(state: &'a Subagent) -> Self {
        let run = &state.run;
        Self {
            number: run.number,
            requester: &state.requester,
            accepted_at: run.accepted_at,
            phase: Some(&run.phase),
            ended: state.ended(),
            attempts: &run.attempts,
            turns: run.turns,
            tool_uses: run.tool_uses,
            usage: run.usage,
            budget: run.budget,
            wrap_up: run.wrap_up,
            requests: &run.requests,
            returned: &run.returned,
            prompt: Some(&run.prompt),
            delivery: &run.delivery,
        }
    }

    fn earlier(run: &'a EarlierRun) -> Self {
        Self {
            number: run.number,
            requester: &run.requester,
            accepted_at: run.accepted_at,
            phase: None,
            ended: Some(&run.ended),
            attempts: &run.attempts,
            turns: run.turns,
            tool_uses: run.tool_uses,
            usage: run.usage,
            budget: run.budget,
            wrap_up: run.wrap_up,
            requests: &run.requests,
            returned: &run.returned,
            prompt: run.prompt.as_ref(),
            delivery: &run.delivery,
        }
    }
}

fn view(state: &Subagent, run: &RunView<'_>) -> SubagentRecord {
    let ended = run.ended;
    let stop = match (run.phase, ended.map(|ended| &ended.outcome)) {
        (Some(Phase::Stopping { stop, .. }), _) | (_, Some(Outcome::Stopped { stop })) => Some(stop.clone()),
        _ => None,
    };
    let error = ended.and_then(|ended| match &ended.outcome {
        Outcome::Error { error } => Some(error.clone()),
        _ => ended.late_error.clone(),
    });
    let is_current = run.number == state.run.number;
    let last = run.attempts.last();
    SubagentRecord {
        id: state.id,
        handle: state.handle.clone(),
        agent_type: state.spec.agent_type.clone(),
        description: description(state, run.prompt.unwrap_or(&state.spec.prompt)),
        provider: state.spec.provider.clone(),
        mode: state.spec.mode,
        is_background: state.spec.mode.is_background(),
        status: ended.map_or_else(|| state.status(), |ended| ended.outcome.status()),
        quality: ended.map(|ended| ended.quality),
        marks: ended.map(|ended| ended.marks.clone()).unwrap_or_default(),
        run: run.number,
        attempt: if is_current {
            state.last_attempt
        } else {
            last.map_or(AttemptNumber(0), |facts| facts.attempt)
        },
        parent: state.parent,
        root: state.root,
        depth: state.depth,
        requested_by: run.requester.clone(),
        created_at: state.created_at,
        accepted_at: run.accepted_at,
        started_at: run.attempts.iter().find_map(|facts| facts.started_at),
        completed_at: ended.map(|ended| ended.completed_at),
        exited_at: ended.and_then(|ended| ended.exit).and_then(|exit| exit.at),
        updated_at: state.updated_at,
        result: ended.and_then(|ended| ended.result.clone()),
        error,
        end_reason: ended.map(|ended| end_reason(&ended.outcome)),
        stop,
        queued_for: match run.phase {
            Some(Phase::Queued { reason, .. }) => Some(reason.clone()),
            _ => None,
        },
        waiting_on: match run.phase {
            Some(Phase::Waiting { on, .. }) => Some(on.clone()),
            _ => None,
        },
        waiting_since: match run.phase {
            Some(Phase::Waiting { since, .. }) => Some(*since),
            _ => None,
        },
        requests: run.requests.to_vec(),
        grants: state.grants.clone(),
        pending_messages: if is_current { state.mail.pending().cloned().collect() } else { vec![] },
        returned_messages: run.returned.to_vec(),
        turn_count: run.turns,
        max_turns: run.budget.max_turns.filter(|turns| *turns > 0),
        budget: run.budget,
        wrap_up: run.wrap_up,
        tool_uses: run.tool_uses,
        usage: state.usage,
        run_usage: run.usage,
        compaction_count: state.compactions,
        attempts: run.attempts.to_vec(),
        earlier_runs: state
            .earlier
            .iter()
            .filter(|earlier| earlier.number < run.number)
            .map(run_record)
            .collect(),
        cwd: state.spec.cwd.clone(),
        transcript: last.filter(|facts| facts.started_at.is_some()).map(|facts| {
            let run = facts.born_in.unwrap_or(run.number);
            format!("attempts/{}.{run}.{}", state.id, facts.attempt)
        }),
        session: state.session.clone(),
        resumable: is_current && state.is_ended() && resumable(state).is_ok(),
        retire_at: state.warm.as_ref().filter(|_| is_current && state.is_ended()).map(|warm| warm.until),
        labels: state.spec.labels.clone(),
        tier: String::from("flat"),
        consumed: is_consumed(run.delivery),
        durable: state.spec.durable,
        node: state.hold().filter(|_| is_current).map(|hold| hold.owner.clone()),
    }
}

fn run_record(earlier: &EarlierRun) -> RunRecord {
    RunRecord {
        run: earlier.number,
        requested_by: earlier.requester.clone(),
        accepted_at: earlier.accepted_at,
        prompt: earlier.prompt.clone(),
        started_at: earlier.attempts.iter().find_map(|facts| facts.started_at),
        outcome: earlier.ended.outcome.clone(),
        completed_at: earlier.ended.completed_at,
        quality: earlier.ended.quality,
        consumed: is_consumed(&earlier.delivery),
        result: earlier.ended.result.clone(),
        marks: earlier.ended.marks.clone(),
        turn_count: earlier.turns,
        tool_uses: earlier.tool_uses,
        usage: earlier.usage,
        wrap_up: earlier.wrap_up,
        requests: earlier.requests.clone(),
        returned_messages: earlier.returned.clone(),
        attempts: earlier.attempts.clone(),
    }
}

fn is_consumed(delivery: &Delivery) -> bool {
    matches!(delivery, Delivery::Consumed { .. })
}

/// As given, else the first line of the prompt, else the file name of the program. Never its arguments, nor the path:
/// they may hold secrets.
fn description(state: &Subagent, prompt: &BoundedText) -> String {
    if let Some(given) = &state.spec.description {
        return given.clone();
    }
    let line = prompt.preview.lines().map(str::trim).find(|line| !line.is_empty());
    let program = || state.spec.exec.as_ref()?.program.rsplit('/').next()?.lines().next();
    cut_at_boundary(line.or_else(program).unwrap_or_default(), DESCRIPTION_BYTES).to_owned()
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
