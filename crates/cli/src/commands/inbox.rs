//! `subagent inbox`: what has ended and was not consumed, and what is still running.

use clap::Args;
use subagent_model::request::ListFilter;
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

/// List results that were not consumed, and what still runs
///
/// The one question of a parent that was restarted or has lost its memory. A result leaves the inbox when its requester
/// reads it (`subagent result`), waits for it (`subagent wait`), or acknowledges it (`subagent ack`).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent inbox
  subagent inbox --json | jq -r '.unconsumed[].record.handle'")]
pub(crate) struct InboxArgs {}

/// Carries it out.
pub(crate) async fn run(_: &InboxArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let items = session.client.inbox(&session.caller, MOST).await?;
    let filter = ListFilter {
        live: true,
        requester: Some(session.caller.requester.to_string()),
        ..ListFilter::default()
    };
    let running = ls::pages(&session, &filter, u32::MAX).await?.items;
    if console.json {
        console.document(&serde_json::json!({ "unconsumed": items, "running": running }));
        return Ok(exit::DONE);
    }
    let ended = items.iter().map(|item| outcome::row(&item.record, console));
    let live = running.iter().map(|record| {
        vec![
            Cell::painted(record.handle.as_str(), Paint::Bold),
            outcome::status_cell(record.status, console),
            Cell::painted(&outcome::took(record).map(time::human).unwrap_or_default(), Paint::Dim),
            Cell::painted("no result yet", Paint::Dim),
        ]
    });
    let rows: Vec<_> = ended.chain(live).collect();
    console.rows(&rows);
    if rows.is_empty() {
        console.aside("nothing is unread and nothing is running");
    } else if !items.is_empty() {
        console.aside("`subagent result ID` reads one, `subagent ack ID` takes it off the list");
    }
    Ok(exit::DONE)
}
