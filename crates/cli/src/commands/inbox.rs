//! `subagent inbox`: what has ended and was not consumed, and what is still running.

use std::time::{Duration, Instant};

use clap::Args;
use subagent_model::SubagentRecord;
use subagent_model::request::{ClaimRequest, InboxItem, ListFilter};
use subagent_runtime::Runtime;

use super::{ls, outcome};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::time;

/// Most results that are listed at once.
const MOST: u32 = 1_000;
/// The longest one request waits.
const SLICE: Duration = Duration::from_secs(30);

/// List results that were not consumed, and what still runs
///
/// The one question of a parent that was restarted or has lost its memory. A result leaves the inbox when its requester
/// reads it (`subagent result`), waits for it (`subagent wait`), or acknowledges it (`subagent ack`).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent inbox
  subagent inbox --wait 10m
  subagent inbox --json | jq -r '.unconsumed[].record.handle'
  subagent inbox --claim my-hook --json | jq -r '.unconsumed[].delivery_id' | xargs subagent ack

A claim keeps a result from every other carrier for 30 seconds; `subagent ack` consumes it, else it is free again.")]
pub(crate) struct InboxArgs {
    /// What nobody has consumed, whoever it is for
    #[arg(short, long, conflicts_with_all = ["claim", "wait"])]
    all: bool,
    /// Wait at most this long until there is something
    #[arg(long, value_name = "DURATION", value_parser = time::parse_positive)]
    wait: Option<Duration>,
    /// Take the results for a bounded time, as the carrier of this name, and print their notices
    #[arg(long, value_name = "CARRIER")]
    claim: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(args: &InboxArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let items = if args.all {
        session.client.inbox_of_all(&session.caller, MOST).await?
    } else {
        unread(&session, args).await?
    };
    let filter = ListFilter {
        live: true,
        requester: (!args.all).then(|| session.caller.requester.to_string()),
        ..ListFilter::default()
    };
    let running = ls::pages(&session, &filter, u32::MAX).await?.items;
    if console.json {
        console.document(&serde_json::json!({ "unconsumed": items, "running": running }));
        return Ok(exit::DONE);
    }
    if args.claim.is_some() {
        // For a carrier: the notices as they are to be handed on.
        for item in &items {
            console.childs_text(&format!("{}\n", item.notice.trim_end()));
        }
        return Ok(exit::DONE);
    }
    tell(&items, &running, args.all, console);
    Ok(exit::DONE)
}

/// What the caller has not consumed, waited for in slices.
async fn unread(session: &Session<'_>, args: &InboxArgs) -> Result<Vec<InboxItem>, Failure> {
    let until = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let slice = until.map(|until| until.saturating_duration_since(Instant::now()).min(SLICE));
        let items = match &args.claim {
            Some(carrier) => {
                let wait_ms = slice.map(time::millis);
                let request = ClaimRequest { carrier: carrier.clone(), hold_ms: None, limit: None, wait_ms };
                session.client.claim(&session.caller, request).await?
            }
            None => session.steadily(async |client| client.inbox(&session.caller, MOST, slice).await).await?,
        };
        if !items.is_empty() || until.is_none_or(|until| Instant::now() >= until) {
            return Ok(items);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn tell(items: &[InboxItem], running: &[SubagentRecord], all: bool, console: &Console) {
    let ended = items.iter().map(|item| {
        let mut row = outcome::row(&item.record, console);
        // A later run may be open: the name says which one this is.
        row[0] = Cell::painted(&format!("{}.{}", item.record.handle, item.run), Paint::Bold);
        if all {
            row.insert(1, Cell::painted(&format!("for {}", item.requester), Paint::Dim));
        }
        row
    });
    let live = running.iter().map(|record| {
        let mut row = vec![
            Cell::painted(record.handle.as_str(), Paint::Bold),
            outcome::standing_cell(record, console),
            Cell::painted(&outcome::took(record).map(time::human).unwrap_or_default(), Paint::Dim),
            Cell::painted(
                if record.retire_at.is_some() { "between runs" } else { "no result yet" },
                Paint::Dim,
            ),
        ];
        if all {
            row.insert(1, Cell::painted(&format!("for {}", record.requested_by), Paint::Dim));
        }
        row
    });
    let rows: Vec<_> = ended.chain(live).collect();
    console.rows(&rows);
    if rows.is_empty() {
        console.aside("nothing is unread and nothing is running");
    } else if !items.is_empty() {
        console.aside("`subagent result ID` reads one, `subagent ack ID` takes it off the list");
    }
}
