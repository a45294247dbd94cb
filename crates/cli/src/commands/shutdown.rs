//! `subagent shutdown`: ends the daemon; its children run on unless it is told otherwise.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use subagent_model::request::Health;
use subagent_model::{ErrorCode, Problem};
use subagent_process::{ProcessIdentity, identify, is_alive};
use subagent_runtime::Runtime;
use subagent_store::{Store, StoreError};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::{number, time};

/// How long the daemon itself may take beyond that.
const OWN_TIME: Duration = Duration::from_secs(25);

/// End the daemon; its children run on
///
/// The next command starts a new daemon, which adopts the children and collects what ended meanwhile. Runs that are not
/// durable end with the daemon. While it goes down it takes nothing new; a second signal to the daemon ends it at once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent shutdown
  subagent shutdown --stop-children 1m
  subagent shutdown --drain 10m

Exit code 5: some runs were left for the next daemon though they were to be stopped or to finish.")]
pub(crate) struct ShutdownArgs {
    /// Stop all children as well, within this time [default: 30s]
    #[arg(long, value_name = "WITHIN", num_args = 0..=1, default_missing_value = "30s", value_parser = time::parse)]
    stop_children: Option<Duration>,
    /// The same bound, as an option of its own
    #[arg(long, value_name = "DURATION", requires = "stop_children", value_parser = time::parse, hide = true)]
    timeout: Option<Duration>,
    /// Let running children finish, for this time at most; then they are left for the next daemon
    #[arg(long, value_name = "WITHIN", value_parser = time::parse_positive, conflicts_with = "stop_children")]
    drain: Option<Duration>,
}

/// What becomes of the children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Children {
    /// They are left for the next daemon.
    Keep,
    /// They are stopped.
    Stop(Duration),
    /// They may finish.
    Drain(Duration),
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
    let children = match (args.stop_children, args.drain) {
        (Some(within), _) => Children::Stop(args.timeout.unwrap_or(within)),
        (None, Some(within)) => Children::Drain(within),
        (None, None) => Children::Keep,
    };
    let gone = match Session::existing(console).await? {
        Some(session) => end(&session, children).await?,
        None => Gone { was_running: false, children: 0 },
    };
    if console.json {
        console.document(&gone);
    } else {
        console.note(&told(gone, children));
    }
    Ok(if children != Children::Keep && gone.children > 0 { exit::PENDING } else { exit::DONE })
}

fn told(gone: Gone, children: Children) -> String {
    const NEXT: &str = "the next daemon, which any command starts";
    let left = number::of(gone.children as usize, "run");
    match (children, gone.children) {
        _ if !gone.was_running => String::from("no daemon is running"),
        (Children::Keep, 0) => String::from("the daemon has ended; it had no children"),
        (Children::Keep, _) => format!("the daemon has ended; {NEXT}, adopts what goes on: {left}"),
        (Children::Stop(_), 0) => String::from("the daemon has ended and its children were stopped"),
        (Children::Stop(_), _) => {
            format!("the daemon has ended; {left} did not stop in time: {NEXT}, goes on with that")
        }
        (Children::Drain(_), 0) => String::from("the daemon has ended; its children had finished"),
        (Children::Drain(_), _) => {
            format!("the daemon has ended; not finished in time: {left}; left for {NEXT}")
        }
    }
}

/// Ends the daemon of this session and returns once its process is gone.
pub(super) async fn end(session: &Session<'_>, children: Children) -> Result<Gone, Failure> {
    let health = session.client.health().await?;
    let process = identify(health.pid);
    match order(session, children).await {
        Ok(()) => {}
        // It went down between the two requests, or is about to.
        Err(problem) if matches!(problem.code, ErrorCode::DaemonUnreachable | ErrorCode::Draining) => {}
        Err(problem) => return Err(problem.into()),
    }
    let within = match children {
        Children::Keep => Duration::ZERO,
        Children::Stop(within) | Children::Drain(within) => within,
    };
    await_end(session, &health, process.as_ref(), within + OWN_TIME).await?;
    let left = match children {
        Children::Keep => health.running + health.queued,
        Children::Stop(_) | Children::Drain(_) => left(session)?,
    };
    Ok(Gone { was_running: true, children: left })
}

async fn order(session: &Session<'_>, children: Children) -> Result<(), Problem> {
    match children {
        Children::Keep => session.client.shutdown(None).await,
        Children::Stop(within) => session.client.shutdown(Some(within)).await,
        Children::Drain(within) => session.client.drain(within).await,
    }
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
