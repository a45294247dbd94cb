//! Waiting for the end of a run: in slices, over the loss of the daemon, and never longer than was asked for.

use std::time::{Duration, Instant};

use subagent_model::request::WaitOptions;
use subagent_model::{RunNumber, SubagentId, SubagentRecord};
use subagent_runtime::Runtime;

use crate::fail::Failure;
use crate::session::Session;
use crate::view::time;

/// The longest one request waits.
const SLICE: Duration = Duration::from_mins(1);
/// The pause after an answer that came back early: its daemon is going down.
const PAUSE: Duration = Duration::from_millis(50);
/// How much later than asked for a wait may return when the daemon is stuck.
const SLACK: Duration = Duration::from_millis(700);

/// What a wait saw.
#[derive(Debug, Clone)]
pub(crate) enum Waited {
    /// The run has ended.
    Ended(Box<SubagentRecord>),
    /// The time ran out. The record is missing when the daemon did not answer.
    Pending(Option<Box<SubagentRecord>>),
}

/// Waits until the run has ended, or the moment has come.
pub(crate) async fn until_end(
    session: &Session<'_>,
    id: SubagentId,
    run: Option<RunNumber>,
    until: Option<Instant>,
) -> Result<Waited, Failure> {
    let mut seen = None;
    let ended = slices(session, id, run, until, &mut seen);
    let ended = match until {
        None => ended.await?,
        Some(until) => {
            let left = until.saturating_duration_since(Instant::now()) + SLACK;
            // A daemon that is stuck is no reason to be late.
            match tokio::time::timeout(left, ended).await {
                Ok(ended) => ended?,
                Err(_) => false,
            }
        }
    };
    Ok(match seen {
        Some(record) if ended => Waited::Ended(record),
        other => Waited::Pending(other),
    })
}

async fn slices(
    session: &Session<'_>,
    id: SubagentId,
    mut run: Option<RunNumber>,
    until: Option<Instant>,
    seen: &mut Option<Box<SubagentRecord>>,
) -> Result<bool, Failure> {
    loop {
        let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
        let wait = left.min(SLICE);
        let options = WaitOptions { run, timeout_ms: Some(time::millis(wait)) };
        let asked = Instant::now();
        let reply = session.steadily(async |client| client.wait(&session.caller, id, options).await).await?;
        run = Some(reply.run);
        *seen = Some(Box::new(reply.record));
        if reply.ended {
            return Ok(true);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        if asked.elapsed() < wait {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A run that has ended as it left the subagent. The record of a warm one shows by itself that it is idle.
pub(crate) async fn of_run(
    session: &Session<'_>,
    record: SubagentRecord,
    run: RunNumber,
) -> Result<SubagentRecord, Failure> {
    if record.status.is_final() && record.run == run {
        return Ok(record);
    }
    let options = WaitOptions { run: Some(run), timeout_ms: Some(0) };
    let wait =
        async |client: &subagent_client::Client| client.wait(&session.caller, record.id, options).await;
    Ok(session.steadily(wait).await?.record)
}
