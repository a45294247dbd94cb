//! A run that is followed from its start to its printed result. The result counts as consumed only once it was printed.

mod progress;

use std::time::Duration;

use subagent_model::request::StopRequest;
use subagent_model::{Cause, ErrorCode, RunNumber, SubagentRecord};
use subagent_runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::progress::Progress;
pub(super) use self::progress::words;
use super::waiting::{self, Waited, until_end};
use super::{asked, outcome, whole};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;

/// How long the first request waits for the end: most short programs are over by then, and one that is not can be
/// stopped by its id.
const FIRST_WAIT: Duration = Duration::from_millis(400);
/// The same where somebody looks on and wants to see progress.
const FIRST_WAIT_SEEN: Duration = Duration::from_millis(150);

/// A run that was accepted.
pub(super) struct Begun {
    /// The subagent at the reply.
    pub(super) record: SubagentRecord,
    /// Which run.
    pub(super) run: RunNumber,
    /// It has ended already.
    pub(super) ended: bool,
}

/// How long the request that begins a run is to wait for its end.
pub(super) fn first_wait(console: &Console) -> Duration {
    if console.err.terminal && !console.json { FIRST_WAIT_SEEN } else { FIRST_WAIT }
}

/// From now on Ctrl-C is ours.
pub(super) fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(ErrorCode::DaemonUnreachable, "cannot catch Ctrl-C").because(error))
}

/// Waits, prints, acknowledges; the exit code tells how it ended.
pub(super) async fn to_the_end(
    session: &Session<'_>,
    begun: Begun,
    mut interrupts: Signal,
) -> Result<u8, Failure> {
    let ended = if begun.ended {
        Some(waiting::of_run(session, begun.record, begun.run).await?)
    } else {
        watch(session, &begun, &mut interrupts).await?.map(|record| *record)
    };
    match ended {
        Some(record) => tell(session, &record).await,
        None => Ok(exit::PENDING),
    }
}

/// The record at the end; `None` when the second Ctrl-C left it to the daemon.
async fn watch(
    session: &Session<'_>,
    begun: &Begun,
    interrupts: &mut Signal,
) -> Result<Option<Box<SubagentRecord>>, Failure> {
    let (id, handle) = (begun.record.id, &begun.record.handle);
    let progress = Progress::begin(session, &begun.record);
    let waited = until_end(session, id, Some(begun.run), None);
    let shown = progress.keep(session, id);
    tokio::pin!(waited, shown);
    let mut stopping = false;
    loop {
        tokio::select! {
            ended = &mut waited => return Ok(match ended? {
                Waited::Ended(record) => Some(record),
                // Without a bound it does not come back before the end.
                Waited::Pending(record) => record,
            }),
            never = &mut shown => match never {},
            _ = interrupts.recv() => {
                if stopping {
                    let next = format!(
                        "{handle} is left to the daemon, which goes on ending it; look after it with `subagent show \
                         {handle}`, `subagent wait {handle}`"
                    );
                    progress.say(session, &next);
                    return Ok(None);
                }
                stopping = true;
                progress.say(session, &format!("stopping {handle}; Ctrl-C again leaves it to the daemon"));
                let request = StopRequest { cause: Cause::CallerCancelled, ..StopRequest::default() };
                let stop = session.client.stop(&session.caller, id, request).await;
                if let Err(problem) = stop {
                    progress.say(session, &format!("{handle} cannot be stopped now: {problem}"));
                }
            }
        }
    }
}

async fn tell(session: &Session<'_>, record: &SubagentRecord) -> Result<u8, Failure> {
    let console = session.console;
    let taken = if console.json {
        console.document(record);
        console.flush()
    } else {
        let taken = match &record.result {
            Some(text) => whole::print(session, record.id, record.run, text).await?,
            None => console.flush(),
        };
        outcome::tell_bad_end(record, console);
        if record.status.is_good() {
            for note in good_notes(record) {
                console.aside(&format!("{} {}: {note}", record.handle, record.status));
            }
        }
        for denied in asked::denials(record) {
            console.note(&format!("{} {denied}", record.handle));
        }
        outcome::tell_next(record, console);
        taken
    };
    if taken {
        // What cannot be acknowledged now stays in the inbox; the result was printed all the same.
        let _ = session.client.ack_run(&session.caller, record.id, record.run, true).await;
    }
    Ok(outcome::exit_code(record))
}

/// What a reader of a good result should know beside it.
fn good_notes(record: &SubagentRecord) -> Vec<String> {
    let blank = record.result.as_ref().is_none_or(subagent_model::BoundedText::is_blank);
    let empty = if blank { outcome::NO_OUTPUT } else { "" };
    let told = [String::from(empty), outcome::marks(record), outcome::doubt(record).to_owned()];
    told.into_iter().filter(|note| !note.is_empty()).collect()
}
