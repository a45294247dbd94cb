//! A foreground run from its start to its printed result. The result counts as consumed only once it was printed.

use subagent_model::SubagentRecord;
use subagent_model::request::StopRequest;
use subagent_runtime::{Runtime, SpawnReply};
use tokio::signal::unix::Signal;

use super::progress::Progress;
use crate::commands::waiting::{Waited, until_end};
use crate::commands::{outcome, whole};
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;

/// Waits, prints, acknowledges; the exit code tells how it ended.
pub(super) async fn to_the_end(
    session: &Session<'_>,
    reply: SpawnReply,
    mut interrupts: Signal,
) -> Result<u8, Failure> {
    let ended = if reply.ended {
        Some(Box::new(reply.record))
    } else {
        watch(session, &reply.record, &mut interrupts).await?
    };
    match ended {
        Some(record) => tell(session, &record).await,
        None => Ok(exit::PENDING),
    }
}

/// The record at the end; `None` when the second Ctrl-C left it to the daemon.
async fn watch(
    session: &Session<'_>,
    record: &SubagentRecord,
    interrupts: &mut Signal,
) -> Result<Option<Box<SubagentRecord>>, Failure> {
    let (id, handle) = (record.id, &record.handle);
    let progress = Progress::begin(session, record);
    let waited = until_end(session, id, Some(record.run), None);
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
                let stop = session.client.stop(&session.caller, id, StopRequest::default()).await;
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
            let blank = record.result.as_ref().is_none_or(subagent_model::BoundedText::is_blank);
            let notes = outcome::marks(record);
            let told = [if blank { outcome::NO_OUTPUT } else { "" }, notes.as_str()];
            for note in told.into_iter().filter(|note| !note.is_empty()) {
                console.aside(&format!("{} {}: {note}", record.handle, record.status));
            }
        }
        taken
    };
    if taken {
        // What cannot be acknowledged now stays in the inbox; the result was printed all the same.
        let _ = session.client.ack_run(&session.caller, record.id, record.run, true).await;
    }
    Ok(outcome::exit_code(record))
}
