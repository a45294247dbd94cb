//! `subagent ack`: takes results off the inbox.

use clap::Args;
use subagent_model::{ErrorCode, RunNumber};
use subagent_runtime::{AckTarget, Runtime};

use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;

/// Take results off the inbox without reading them
///
/// Only the requester of a run may do so. The results stay readable. An ID with .RUN behind it means that run alone, as
/// the delivery ids of the inbox do; without, every ended run of the subagent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent ack k7q2mx m3wd8p
  subagent ack k7q2mx.2")]
pub(crate) struct AckArgs {
    /// The subagents
    #[arg(value_name = "ID[.RUN]", required = true)]
    ids: Vec<String>,
}

/// Carries it out.
pub(crate) async fn run(args: &AckArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let mut targets = Vec::with_capacity(args.ids.len());
    for name in &args.ids {
        let (name, run) = delivery(name);
        targets.push(AckTarget { id: session.client.resolve(name).await?, run });
    }
    let reply = session.client.acknowledge(&session.caller, targets, false).await?;
    let code = reply.refused.first().map_or(exit::DONE, |problem| ErrorCode::exit_code(problem.code));
    if console.json {
        console.document(&reply);
        return Ok(code);
    }
    console.aside(&format!(
        "{} acknowledged, {} left in the inbox",
        reply.acknowledged.len(),
        reply.unconsumed
    ));
    for problem in reply.refused {
        Failure::from(problem).tell(console);
    }
    Ok(code)
}

/// The subagent, and its run if one is named. No id or handle has a dot.
fn delivery(name: &str) -> (&str, Option<RunNumber>) {
    let parts = name.rsplit_once('.').and_then(|(subagent, run)| Some((subagent, run.parse().ok()?)));
    parts.map_or((name, None), |(subagent, run)| (subagent, Some(RunNumber(run))))
}

#[cfg(test)]
mod tests {
    use super::delivery;
    use subagent_model::RunNumber;

    #[test]
    fn result_13_a_run_can_be_named() {
        assert_eq!(delivery("k7q2mx"), ("k7q2mx", None));
        assert_eq!(delivery("k7q2mx.2"), ("k7q2mx", Some(RunNumber(2))));
        assert_eq!(delivery("k7q2mx.x"), ("k7q2mx.x", None));
    }
}
