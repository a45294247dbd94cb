//! `subagent upgrade`: from the running daemon to one of this program, without touching children.

use clap::Args;
use subagent_model::ErrorCode;
use subagent_runtime::Runtime;

use super::{doctor, shutdown, status};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::paths::Paths;
use crate::session::Session;
use crate::{config, connect, shim};

/// Replace the running daemon by one of this program
///
/// Install the new program first, then call this from it. Everything the new daemon needs is checked before the old one
/// goes down; children run on all the time, and the new daemon adopts them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent upgrade
  /opt/new/bin/subagent upgrade")]
pub(crate) struct UpgradeArgs {}

/// Carries it out.
pub(crate) async fn run(_: &UpgradeArgs, console: &Console) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    check(&paths)?;
    let old = Session::existing(console).await?;
    let mut before = None;
    if let Some(session) = &old {
        if session.own_id.is_some() {
            let message = "a daemon cannot be replaced from within one of its children";
            return Err(Failure::new(ErrorCode::IllegalTransition, message).hint("Call it from outside."));
        }
        before = Some(session.client.health().await?.version);
        shutdown::end(session, shutdown::Children::Keep).await?;
    }
    let session = Session::open(console).await.map_err(|failure| {
        let hint = "Children run on without a daemon, for hours, until their lease ends. Correct the cause and run any \
                    `subagent` command, or put the old program back and do the same: it adopts them.";
        let problem = failure.problem();
        Failure::new(problem.code, format!("the old daemon has ended and the new one did not start: {problem}")).hint(hint)
    })?;
    let health = session.client.health().await?;
    if health.version != env!("CARGO_PKG_VERSION") {
        let message =
            format!("a daemon of version {} was started by another command meanwhile", health.version);
        return Err(
            Failure::new(ErrorCode::IllegalTransition, message).hint("Call `subagent upgrade` again.")
        );
    }
    if console.json {
        console.document(&serde_json::json!({ "from": before, "to": health.version, "pid": health.pid, "recovery": health.recovery }));
        return Ok(exit::DONE);
    }
    console.note(&match before {
        None => format!("no daemon was running; version {} serves now", health.version),
        Some(before) if before == health.version => {
            format!("the daemon was replaced; version {before} as before")
        }
        Some(before) => format!("version {before} was replaced by {}", health.version),
    });
    for (name, value) in status::recovery(&health.recovery) {
        console.note(&format!("{name}: {value}"));
    }
    Ok(exit::DONE)
}

/// Everything that can be known to go wrong with the new daemon, while the old one still serves.
fn check(paths: &Paths) -> Result<(), Failure> {
    shim::try_out(&shim::find()?)?;
    config::load(&paths.config)?;
    doctor::store_format(&paths.data)?;
    connect::program()?;
    Ok(())
}
