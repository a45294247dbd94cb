//! `subagent ack`: takes results off the inbox.

use clap::Args;
use subagent_model::ErrorCode;
use subagent_runtime::Runtime;

use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;

/// Take results off the inbox without reading them
///
/// Only the requester of a run may do so. The results stay readable.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent ack k7q2mx m3wd8p")]
pub(crate) struct AckArgs {
    /// The subagents
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Carries it out.
pub(crate) async fn run(args: &AckArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let ids = session.resolve(&args.ids).await?;
    let reply = session.client.ack(&session.caller, ids, false).await?;
    let code = reply.refused.first().map_or(exit::DONE, |problem| ErrorCode::exit_code(problem.code));
    if console.json {
        console.document(&reply);
        return Ok(code);
    }
    console.aside(&format!("{} acknowledged, {} left in the inbox", reply.acknowledged.len(), reply.unconsumed));
    for problem in reply.refused {
        Failure::from(problem).tell(console);
    }
    Ok(code)
}
