//! `subagent requests`: what children ask; `approve`, `deny`, `answer` and `revoke` lie beside it.

pub(crate) mod answering;
mod naming;

use clap::Args;
use subagent_model::RequestState;
use subagent_model::request::OpenRequest;
use subagent_runtime::Runtime;

use super::asked;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::time;

/// List what children ask for
///
/// Permissions and questions that nobody has answered, oldest first. What nobody answers in time is denied; the child
/// goes on, and its result says so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent requests
  subagent approve k7q2mx          the only open one of k7q2mx
  subagent deny k7q2mx.q3 --reason 'not on this branch'
  subagent answer k7q2mx.q4 'the second one'
  subagent requests --json | jq -r '.items[].id'")]
pub(crate) struct RequestsArgs {
    /// Also those that were answered, of runs that are live
    #[arg(short, long)]
    all: bool,
}

/// Carries it out.
pub(crate) async fn run(args: &RequestsArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let list = session.client.requests(&session.caller, args.all).await?;
    if console.json {
        console.document(&list);
        return Ok(exit::DONE);
    }
    let rows: Vec<_> = list.items.iter().map(row).collect();
    console.rows(&rows);
    let open: Vec<_> = list.items.iter().filter(|item| item.request.state == RequestState::Open).collect();
    match open.first() {
        None => console.aside("nobody asks for anything"),
        Some(first) => {
            console.aside(&format!("to answer: {}", asked::how_to_answer(&first.handle, &first.request)));
        }
    }
    Ok(exit::DONE)
}

/// A request as a row: its name, its kind, since when, how it stands, and what it is about.
fn row(item: &OpenRequest) -> Vec<Cell> {
    let request = &item.request;
    vec![
        Cell::painted(&asked::name(&item.handle, request), Paint::Bold),
        Cell::plain(asked::kind(request)),
        Cell::painted(&time::short(time::now().since(request.opened_at)), Paint::Dim),
        Cell::painted(&asked::state(request), Paint::Dim),
        Cell::plain(&asked::what(request)),
    ]
}
