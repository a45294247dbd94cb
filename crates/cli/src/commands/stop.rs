//! `subagent stop`: ends runs and, with them, their trees.

use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;
use subagent_model::request::{StopAllRequest, StopReply, StopRequest};
use subagent_model::{Cause, ErrorCode, Problem, StopInnerRequest, SubagentId};
use subagent_runtime::Runtime;

use super::{inner, outcome};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::time;

/// The longest one request waits.
const SLICE: Duration = Duration::from_secs(30);

/// Stop subagents and everything they spawned
///
/// Returns at once with the state reached: first end of input and SIGTERM, then SIGKILL after a grace. What was spawned
/// as detached goes on. A result that comes late is kept. A stopped subagent can be resumed where its provider can.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent stop k7q2mx
  subagent stop --wait k7q2mx m3wd8p
  subagent stop --wait=10s k7q2mx
  subagent stop --all
  subagent stop k7q2mx --inner a81f

Stopping one that has ended changes nothing and says how it ended. Exit code 5: with --wait, something is still there
when the time ran out.")]
pub(crate) struct StopArgs {
    /// The subagents
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Every live subagent, queued ones first, in one step; within a subagent, what is below it
    #[arg(long)]
    all: bool,
    /// With --all: detached ones too
    #[arg(long, requires = "all", conflicts_with = "ids")]
    detached: bool,
    /// Leave the children of what is stopped alone
    #[arg(long, conflicts_with = "all")]
    no_cascade: bool,
    /// Also return the follow-ups that wait; else the first of them opens the next run
    #[arg(long, conflicts_with = "all")]
    drop_follow_ups: bool,
    /// Only this one of the agents that run inside of the subagent, where it can stop one by itself: its key, or the unique
    /// beginning of one; `subagent show ID` lists them
    #[arg(long, value_name = "KEY", conflicts_with_all = ["all", "no_cascade", "drop_follow_ups", "wait"])]
    inner: Option<String>,
    /// Return once nothing of them is left running, or this time is over
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "forever",
        value_parser = within)]
    wait: Option<Within>,
}

/// How long to wait.
#[derive(Debug, Clone, Copy)]
enum Within {
    Forever,
    Time(Duration),
}

fn within(text: &str) -> Result<Within, String> {
    if text == "forever" { Ok(Within::Forever) } else { time::parse(text).map(Within::Time) }
}

/// What JSON tells.
#[derive(Debug, Default, Serialize)]
struct Told {
    /// What was asked to stop, as it stands.
    stopped: Vec<Stopped>,
    /// What could not be asked to, with the reason.
    failed: Vec<Problem>,
    /// What is not gone yet, after a wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending: Vec<SubagentId>,
}

/// One that was asked to stop.
#[derive(Debug, Serialize)]
struct Stopped {
    #[serde(flatten)]
    reply: StopReply,
    /// It had ended before it was asked.
    #[serde(skip)]
    had_ended: bool,
}

/// Carries it out.
pub(crate) async fn run(args: &StopArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    if let Some(key) = &args.inner {
        return stop_inner(&session, &args.ids, key).await;
    }
    let mut told = if args.all {
        stop_all(&session, args.detached).await?
    } else {
        let ids = session.resolve(&args.ids).await?;
        stop(&session, &ids, args).await
    };
    if let Some(within) = args.wait {
        let until = match within {
            Within::Forever => None,
            Within::Time(time) => Some(Instant::now() + time),
        };
        wait(&session, &mut told, until).await?;
    }
    tell(&told, console);
    // One that cannot be stopped does not keep the others; all failures are told together.
    let failed = told.failed.first().map(|problem| problem.code);
    if !console.json {
        for problem in told.failed {
            Failure::from(problem).tell(console);
        }
    }
    let pending = if told.pending.is_empty() { exit::DONE } else { exit::PENDING };
    Ok(failed.map_or(pending, ErrorCode::exit_code))
}

async fn stop(session: &Session<'_>, ids: &[SubagentId], args: &StopArgs) -> Told {
    let request = StopRequest {
        cause: Cause::Requested,
        cascade: !args.no_cascade,
        drop_follow_ups: args.drop_follow_ups,
    };
    let asked = ids.iter().map(|id| {
        let request = request.clone();
        async move { (*id, session.client.stop(&session.caller, *id, request).await) }
    });
    let mut told = Told::default();
    for (id, reply) in join_all(asked).await {
        match reply {
            Ok(reply) => {
                let had_ended = !reply.accepted && reply.record.status.is_final();
                told.stopped.push(Stopped { reply, had_ended });
            }
            Err(problem) if problem.ids.is_empty() => {
                told.failed.push(problem.with_ids(vec![id.to_string()]));
            }
            Err(problem) => told.failed.push(problem),
        }
    }
    told
}

/// Stops one that runs inside of a subagent.
async fn stop_inner(session: &Session<'_>, ids: &[String], key: &str) -> Result<u8, Failure> {
    let [name] = ids else {
        let message = "--inner stops one of the agents of one subagent, and more than one subagent is named";
        return Err(Failure::new(ErrorCode::InvalidRequest, message)
            .hint("Name one: `subagent stop ID --inner KEY`."));
    };
    let id = session.client.resolve(name).await?;
    let request = StopInnerRequest { key: key.to_owned() };
    let reply = session.client.stop_inner(&session.caller, id, request).await.map_err(|problem| {
        let at_work = problem.ids.join(", ");
        match problem.code {
            ErrorCode::NotFound | ErrorCode::Ambiguous if !at_work.is_empty() => {
                Failure::from(Problem { hint: Some(format!("At work are: {at_work}.")), ..problem })
            }
            _ => problem.into(),
        }
    })?;
    let console = session.console;
    if console.json {
        console.document(&reply);
        return Ok(exit::DONE);
    }
    let note = if reply.accepted { "was told to stop" } else { "had ended before" };
    console.rows(&[vec![
        Cell::painted(&reply.inner.key, Paint::Bold),
        Cell::painted(reply.inner.state.as_str(), inner::paint(reply.inner.state)),
        Cell::plain(note),
    ]]);
    Ok(exit::DONE)
}

async fn stop_all(session: &Session<'_>, detached: bool) -> Result<Told, Failure> {
    let reply = session.client.stop_all(&session.caller, StopAllRequest { detached }).await?;
    let stopped = reply.stopped.into_iter().map(|record| Stopped {
        reply: StopReply { record, accepted: true, cascaded: Vec::new() },
        had_ended: false,
    });
    Ok(Told { stopped: stopped.collect(), failed: reply.failed, pending: Vec::new() })
}

/// Until the trees are gone or the moment has come; the replies then tell how they ended.
async fn wait(session: &Session<'_>, told: &mut Told, until: Option<Instant>) -> Result<(), Failure> {
    for Stopped { reply, .. } in &mut told.stopped {
        let id = reply.record.id;
        if !gone(session, id, until).await? {
            told.pending.push(id);
        }
        reply.record = session.steadily(async |client| client.get(&session.caller, id).await).await?;
    }
    Ok(())
}

async fn gone(session: &Session<'_>, id: SubagentId, until: Option<Instant>) -> Result<bool, Failure> {
    loop {
        let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
        let slice = left.min(SLICE);
        if session.steadily(async |client| client.gone(&session.caller, id, slice).await).await? {
            return Ok(true);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        // An answer that came early is from a daemon that goes down.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn tell(told: &Told, console: &Console) {
    if console.json {
        console.document(told);
        return;
    }
    let rows: Vec<_> = told.stopped.iter().map(|stopped| row(stopped, console)).collect();
    console.rows(&rows);
    if told.stopped.is_empty() && told.failed.is_empty() {
        console.aside("nothing is live");
    }
    for Stopped { reply, .. } in &told.stopped {
        if told.pending.contains(&reply.record.id) {
            console.note(&format!("{} is not gone yet; it goes on being stopped", reply.record.handle));
        }
    }
}

fn row(stopped: &Stopped, console: &Console) -> Vec<Cell> {
    let (reply, record) = (&stopped.reply, &stopped.reply.record);
    let note = match reply.accepted {
        false if stopped.had_ended => format!("had ended before: {}", outcome::headline(record)),
        false => String::from("was being stopped already"),
        true if reply.cascaded.is_empty() => String::new(),
        true => format!("with {} below it", reply.cascaded.len()),
    };
    vec![
        Cell::painted(record.handle.as_str(), Paint::Bold),
        outcome::status_cell(record.status, console),
        Cell::plain(&note),
    ]
}
