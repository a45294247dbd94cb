//! `subagent wait`: until runs have ended, or the time ran out.

use std::time::{Duration, Instant};

use clap::Args;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::Serialize;
use subagent_model::{SubagentId, SubagentRecord};
use subagent_runtime::{AckTarget, Runtime};

use super::outcome;
use super::waiting::{Waited, until_end};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::time;

/// Wait for subagents to end
///
/// Prints one line for each that has ended. Giving up stops nothing. A run whose end was printed counts as consumed; its
/// result can be read again with `subagent result`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent wait k7q2mx
  subagent wait k7q2mx m3wd8p --timeout 10m
  subagent wait --any $(subagent ls --json | jq -r '.items[].handle')

Exit codes: 0 all ended well; 1 one of them ended badly; 5 some are still live when the time ran out, each named on
standard error.")]
pub(crate) struct WaitArgs {
    /// The subagents
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Return as soon as one of them has ended; the others stay unread
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Wait for all of them; the default
    #[arg(long)]
    all: bool,
    /// At most this long: 500ms, 10s, 5m, 2h [default: until the end]
    #[arg(long, value_name = "DURATION", value_parser = time::parse)]
    timeout: Option<Duration>,
}

/// What JSON tells.
#[derive(Debug, Serialize)]
struct Told {
    /// Ended, in the order of their ends.
    ended: Vec<SubagentRecord>,
    /// Not ended yet.
    pending: Vec<Pending>,
}

/// One that is still live.
#[derive(Debug, Serialize)]
struct Pending {
    id: SubagentId,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<Box<SubagentRecord>>,
}

/// Carries it out.
pub(crate) async fn run(args: &WaitArgs, console: &Console) -> Result<u8, Failure> {
    let until = args.timeout.map(|timeout| Instant::now() + timeout);
    let session = Session::open(console).await?;
    let ids = session.resolve(&args.ids).await?;
    let session = &session;
    let mut waits: FuturesUnordered<_> =
        ids.iter().map(|id| async move { (*id, until_end(session, *id, None, until).await) }).collect();
    let mut told = Told { ended: Vec::new(), pending: Vec::new() };
    let mut left = ids.clone();
    while let Some((id, waited)) = waits.next().await {
        left.retain(|other| *other != id);
        match waited? {
            Waited::Ended(record) => {
                if !console.json {
                    console.rows(&[outcome::row(&record, console)]);
                }
                told.ended.push(*record);
                if args.any {
                    break;
                }
            }
            Waited::Pending(record) => told.pending.push(Pending { id, record }),
        }
    }
    drop(waits);
    // With --any, the rest was not waited for to the end.
    told.pending.extend(left.into_iter().map(|id| Pending { id, record: None }));
    finish(session, args.any, &told).await
}

async fn finish(session: &Session<'_>, any: bool, told: &Told) -> Result<u8, Failure> {
    let console = session.console;
    if console.json {
        console.document(told);
    }
    if console.flush() && !told.ended.is_empty() {
        let seen = |record: &SubagentRecord| AckTarget { id: record.id, run: Some(record.run) };
        let ended = told.ended.iter().map(seen).collect();
        // What belongs to another requester stays for that one.
        let _ = session.client.acknowledge(&session.caller, ended, true).await;
    }
    let satisfied = told.pending.is_empty() || (any && !told.ended.is_empty());
    if !satisfied {
        if !console.json {
            for pending in &told.pending {
                console.note(&still(pending));
            }
        }
        return Ok(exit::PENDING);
    }
    let bad = told.ended.iter().any(|record| !record.status.is_good());
    Ok(if bad { exit::ENDED_BADLY } else { exit::DONE })
}

fn still(pending: &Pending) -> String {
    let Some(record) = &pending.record else {
        return format!("{} is still pending; the daemon did not answer in time", pending.id);
    };
    let ago = time::human(time::now().since(record.updated_at));
    let since = outcome::took(record).map(|took| format!(" for {}", time::human(took))).unwrap_or_default();
    format!(
        "{} is still {}{since}; last change {ago} ago, {} turns; it was not stopped",
        record.handle,
        outcome::standing(record, false),
        record.turn_count
    )
}
