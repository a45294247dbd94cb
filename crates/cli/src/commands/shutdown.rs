//! `subagent shutdown`: ends the daemon; its children run on unless it is told otherwise.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use subagent_model::ErrorCode;
use subagent_model::request::Health;
use subagent_process::{ProcessIdentity, identify, is_alive};
use subagent_runtime::Runtime;
use subagent_store::{Store, StoreError};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::time;

/// How long children may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// How long the daemon itself may take beyond that.
const OWN_TIME: Duration = Duration::from_secs(25);

/// End the daemon; its children run on
///
/// The next command starts a new daemon, which adopts the children and collects what ended meanwhile. Runs that are not
/// durable end with the daemon.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent shutdown
  subagent shutdown --stop-children --timeout 1m")]
pub(crate) struct ShutdownArgs {
    /// Stop all children as well
    #[arg(long)]
    stop_children: bool,
    /// How long the children may take to stop: 500ms, 10s, 5m [default: 30s]
    #[arg(long, value_name = "DURATION", requires = "stop_children", value_parser = time::parse)]
    timeout: Option<Duration>,
}

/// What a shutdown left.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Gone {
    /// Whether there was a daemon.
    pub(super) was_running: bool,
    /// Runs that were live, or waited in the queue, and are left for the next daemon.
    pub(super) children: u32,
}

/// Carries it out.
pub(crate) async fn run(args: &ShutdownArgs, console: &Console) -> Result<u8, Failure> {
    let within = args.stop_children.then(|| args.timeout.unwrap_or(STOP_WITHIN));
    let gone = match Session::existing(console).await? {
        Some(session) => end(&session, within).await?,
        None => Gone { was_running: false, children: 0 },
    };
    if console.json {
        console.document(&gone);
    } else if !gone.was_running {
        console.note("no daemon is running");
    } else if args.stop_children && gone.children == 0 {
        console.note("the daemon has ended and its children were stopped");
    } else if args.stop_children {
        console.note(&format!(
            "the daemon has ended; {} of its runs did not stop in time: the next daemon, which any command starts, goes on with \
             that",
            gone.children
        ));
    } else if gone.children == 0 {
        console.note("the daemon has ended; it had no children");
    } else {
        console.note(&format!(
            "the daemon has ended; {} of its runs go on and are adopted by the next daemon, which any command starts",
            gone.children
        ));
    }
    Ok(if args.stop_children && gone.children > 0 { exit::PENDING } else { exit::DONE })
}

/// Ends the daemon of this session and returns once its process is gone.
pub(super) async fn end(session: &Session<'_>, stop_children: Option<Duration>) -> Result<Gone, Failure> {
    let health = session.client.health().await?;
    let process = identify(health.pid);
    match session.client.shutdown(stop_children).await {
        Ok(()) => {}
        // It went down between the two requests, or is about to.
        Err(problem) if matches!(problem.code, ErrorCode::DaemonUnreachable | ErrorCode::Draining) => {}
        Err(problem) => return Err(problem.into()),
    }
    await_end(session, &health, process.as_ref(), stop_children.unwrap_or_default() + OWN_TIME).await?;
    let children = match stop_children {
        None => health.running + health.queued,
        Some(_) => left(session)?,
    };
    Ok(Gone { was_running: true, children })
}

/// Runs that the daemon did not see end: it is gone, so the store tells.
fn left(session: &Session<'_>) -> Result<u32, Failure> {
    let failed = |error: StoreError| {
        Failure::new(error.code(), "it cannot be told whether all children were stopped").because(error)
    };
    let options = OpenOptions { create: false, ..OpenOptions::default() };
    let store = SqliteStore::open(&session.paths.data, &options).map_err(failed)?;
    Ok(u32::try_from(store.live().map_err(failed)?.items.len()).unwrap_or(u32::MAX))
}

async fn await_end(
    session: &Session<'_>,
    health: &Health,
    process: Option<&ProcessIdentity>,
    bound: Duration,
) -> Result<(), Failure> {
    let until = Instant::now() + bound;
    let mut pause = Duration::from_millis(2);
    while process.is_some_and(is_alive) {
        if Instant::now() >= until {
            let message =
                format!("the daemon (process {}) has not ended within {}", health.pid, time::human(bound));
            return Err(Failure::new(ErrorCode::Timeout, message).hint(format!(
                "`kill {}` insists; its children run on. Its log is {}.",
                health.pid,
                session.paths.log().display()
            )));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(())
}
