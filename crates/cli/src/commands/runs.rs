//! `subagent runs`: every run of a subagent.

use clap::Args;
use subagent_model::SubagentRecord;
use subagent_runtime::Runtime;

use super::outcome;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::number;
use crate::view::rows::Cell;
use crate::view::time;

/// List the runs of a subagent
///
/// The spawn is run 1; each resume and follow-up takes the next number. Each run keeps its own outcome and result:
/// `subagent result ID --run N` reads one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent runs k7q2mx
  subagent runs k7q2mx --json | jq -r '.items[] | \"\\(.run) \\(.status)\"'")]
pub(crate) struct RunsArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
}

/// Carries it out.
pub(crate) async fn run(args: &RunsArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    let list = session.client.runs(&session.caller, id).await?;
    if console.json {
        console.document(&list);
        return Ok(exit::DONE);
    }
    let rows: Vec<_> = list.items.iter().map(|record| row(record, console)).collect();
    console.rows(&rows);
    Ok(exit::DONE)
}

fn row(record: &SubagentRecord, console: &Console) -> Vec<Cell> {
    let live = !record.status.is_final();
    let turns = Some(record.turn_count as usize).filter(|turns| *turns > 0);
    vec![
        Cell::painted(&format!("run {}", record.run), Paint::Bold),
        outcome::standing_cell(record, console),
        Cell::painted(&outcome::took(record).map(time::human).unwrap_or_default(), Paint::Dim),
        Cell::painted(&turns.map(|turns| number::of(turns, "turn")).unwrap_or_default(), Paint::Dim),
        if live {
            Cell::painted("no result yet", Paint::Dim)
        } else {
            Cell::plain(&outcome::headline(record))
        },
    ]
}
