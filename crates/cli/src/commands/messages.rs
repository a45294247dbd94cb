//! `subagent messages`: what was sent to a subagent, and what became of it.

use clap::Args;
use subagent_runtime::Runtime;

use super::receipt;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::time;

/// List the messages to a subagent with their receipts
///
/// Those that wait, and the newest of those that were delivered or returned, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent messages k7q2mx
  subagent messages k7q2mx --json | jq -r '.items[] | select(.receipt == \"returned\") | .message.text'")]
pub(crate) struct MessagesArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
}

/// Carries it out.
pub(crate) async fn run(args: &MessagesArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    let list = session.client.messages(&session.caller, id).await?;
    if console.json {
        console.document(&list);
        return Ok(exit::DONE);
    }
    let record = session.client.get(&session.caller, id).await?;
    let rows: Vec<_> = list
        .items
        .iter()
        .map(|posted| {
            let message = &posted.message;
            vec![
                Cell::painted(&message.number.to_string(), Paint::Dim),
                Cell::painted(&time::short(time::now().since(message.at)), Paint::Dim),
                Cell::plain(receipt::mode(message.mode)),
                Cell::plain(message.from.as_str()),
                Cell::plain(&receipt::words(posted, &record)),
                Cell::plain(&message.text),
            ]
        })
        .collect();
    console.rows(&rows);
    if rows.is_empty() {
        console.aside(&format!("nobody has sent a message to {}", record.handle));
    }
    Ok(exit::DONE)
}
