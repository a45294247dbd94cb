//! `subagent stop`: ends runs and, with them, their trees.

use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;
use subagent_model::request::{ListFilter, StopReply, StopRequest};
use subagent_model::{Cause, ErrorCode, Problem, Status, SubagentId};
use subagent_runtime::Runtime;

use super::{ls, outcome, waiting};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;

/// How often stop-all looks for runs that were spawned meanwhile.
const ROUNDS: usize = 3;

/// Stop subagents and everything they spawned
///
/// Returns at once with the state reached: first end of input and SIGTERM, then SIGKILL after a grace. What was spawned
/// as detached goes on. A result that comes late is kept.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent stop k7q2mx
  subagent stop --wait k7q2mx m3wd8p
  subagent stop --all

Stopping one that has ended changes nothing and says how it ended.")]
pub(crate) struct StopArgs {
    /// The subagents
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Every live subagent; within a subagent, its own children
    #[arg(long)]
    all: bool,
    /// Leave the children of what is stopped alone
    #[arg(long)]
    no_cascade: bool,
    /// Return once nothing of them is left running
    #[arg(long)]
    wait: bool,
}

/// What JSON tells.
#[derive(Debug, Default, Serialize)]
struct Told {
    /// What was asked to stop, as it stands.
    stopped: Vec<Stopped>,
    /// What could not be asked to, with the reason.
    failed: Vec<Problem>,
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
    let mut told = Told::default();
    if args.all {
        stop_all(&session, args, &mut told).await?;
    } else {
        let ids = session.resolve(&args.ids).await?;
        stop(&session, &ids, args, &mut told).await;
    }
    if args.wait {
        wait(&session, &mut told).await?;
    }
    if console.json {
        console.document(&told);
    } else {
        let rows: Vec<_> = told.stopped.iter().map(|stopped| row(stopped, console)).collect();
        console.rows(&rows);
        if told.stopped.is_empty() && told.failed.is_empty() {
            console.aside("nothing is live");
        }
    }
    // One that cannot be stopped does not keep the others; all failures are told together.
    let first = told.failed.first().map(|problem| problem.code);
    if !console.json {
        for problem in told.failed {
            Failure::from(problem).tell(console);
        }
    }
    Ok(first.map_or(exit::DONE, ErrorCode::exit_code))
}

async fn stop(session: &Session<'_>, ids: &[SubagentId], args: &StopArgs, told: &mut Told) {
    let request = StopRequest { cause: Cause::Requested, cascade: !args.no_cascade };
    let asked = ids.iter().map(|id| {
        let request = request.clone();
        async move { (*id, session.client.stop(&session.caller, *id, request).await) }
    });
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
}

/// The queued ones first, so that none of them starts into a slot that becomes free; again, until nothing new is found.
async fn stop_all(session: &Session<'_>, args: &StopArgs, told: &mut Told) -> Result<(), Failure> {
    let requester = session.own_id.is_some().then(|| session.caller.requester.to_string());
    for _ in 0..ROUNDS {
        let mut found = 0;
        for queued in [true, false] {
            let filter = ListFilter { live: true, requester: requester.clone(), ..ListFilter::default() };
            let page = ls::pages(session, &filter, u32::MAX).await?;
            let ids: Vec<_> = page
                .items
                .iter()
                .filter(|record| {
                    record.status != Status::Stopping && (record.status == Status::Queued) == queued
                })
                .map(|record| record.id)
                .filter(|id| !told.stopped.iter().any(|stopped| stopped.reply.record.id == *id))
                .collect();
            found += ids.len();
            stop(session, &ids, args, told).await;
        }
        if found == 0 {
            break;
        }
    }
    Ok(())
}

/// Until the trees are gone; the replies then tell how they ended.
async fn wait(session: &Session<'_>, told: &mut Told) -> Result<(), Failure> {
    for Stopped { reply, .. } in &mut told.stopped {
        for id in &reply.cascaded {
            waiting::until_end(session, *id, None, None).await?;
        }
        let (id, run) = (reply.record.id, reply.record.run);
        if let waiting::Waited::Ended(record) = waiting::until_end(session, id, Some(run), None).await? {
            reply.record = *record;
        }
    }
    Ok(())
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
