//! `subagent result`: what a run brought.

use clap::Args;
use subagent_model::{BoundedText, ErrorCode, Outcome, RunNumber, Status, SubagentRecord};
use subagent_runtime::Runtime;

use super::{outcome, whole};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;

/// Print the result of a subagent
///
/// The result goes to standard output, at most 8 KiB of it without --full; how it failed, if it did, goes to standard
/// error. Reading is an acknowledgement: the run leaves the inbox.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent result k7q2mx
  subagent result k7q2mx --full > whole.txt
  subagent result k7q2mx --run 1

Exit codes: 0 a good end; 1 a bad one; 5 still live.")]
pub(crate) struct ResultArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
    /// All of it, however long
    #[arg(long)]
    full: bool,
    /// The result of an earlier run [default: the current one]
    #[arg(long, value_name = "N")]
    run: Option<u32>,
}

/// Carries it out.
pub(crate) async fn run(args: &ResultArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    let record = session.client.get(id).await?;
    let run = args.run.map_or(record.run, RunNumber);
    let (status, text) = find(&record, run)?;
    let shown = match text {
        Some(text) => print(&session, &record, run, status, text, args.full).await?,
        None if console.json => document(console, &record, run, status, None, ""),
        None => console.flush(),
    };
    let current = run == record.run;
    if current && !console.json {
        outcome::tell_bad_end(&record, console);
    }
    if !console.json && status.is_good() && text.is_none_or(BoundedText::is_blank) {
        console.note(outcome::NO_OUTPUT);
    }
    if shown && current {
        // Addressed to another requester, it stays for that one.
        let _ = session.client.ack(&session.caller, vec![id], true).await;
    }
    Ok(if status.is_good() { exit::DONE } else { exit::ENDED_BADLY })
}

/// Status and text of a run that has ended.
fn find(record: &SubagentRecord, run: RunNumber) -> Result<(Status, Option<&BoundedText>), Failure> {
    if run == record.run {
        if record.status.is_final() {
            return Ok((record.status, record.result.as_ref()));
        }
        let message = format!("{} has no result yet: it is {}", record.handle, record.status);
        let hint = format!("`subagent wait {0}` waits for the end, `subagent logs -f {0}` shows its output.", record.handle);
        return Err(Failure::new(ErrorCode::StillRunning, message).hint(hint));
    }
    let earlier = record.earlier_runs.iter().find(|earlier| earlier.run == run);
    let status = |outcome: &Outcome| outcome.status();
    earlier.map(|earlier| (status(&earlier.outcome), earlier.result.as_ref())).ok_or_else(|| {
        Failure::new(ErrorCode::NotFound, format!("{} has no run {run}; it is at run {}", record.handle, record.run))
    })
}

/// Prints the text; true when the reader took it.
async fn print(
    session: &Session<'_>,
    record: &SubagentRecord,
    run: RunNumber,
    status: Status,
    text: &BoundedText,
    full: bool,
) -> Result<bool, Failure> {
    let console = session.console;
    if console.json {
        let mut all = String::new();
        if full {
            whole::each_part(session, record.id, run, text, |part| {
                all.push_str(part);
                true
            })
            .await?;
        } else {
            all.push_str(&text.preview);
        }
        return Ok(document(console, record, run, status, Some((text, full)), &all));
    }
    if full || !text.truncated {
        return whole::print(session, record.id, run, text).await;
    }
    console.childs_text(&text.preview);
    console.data("\n");
    let shown = subagent_model::text::PREVIEW_BYTES;
    console.note(&format!(
        "{shown} of {} bytes; all of it: subagent result {} --full",
        text.bytes, record.handle
    ));
    Ok(console.flush())
}

fn document(
    console: &Console,
    record: &SubagentRecord,
    run: RunNumber,
    status: Status,
    told: Option<(&BoundedText, bool)>,
    text: &str,
) -> bool {
    let current = run == record.run;
    console.document(&serde_json::json!({
        "id": record.id,
        "handle": record.handle,
        "run": run,
        "status": status,
        "quality": record.quality.filter(|_| current),
        "marks": if current { record.marks.as_slice() } else { &[] },
        "error": record.error.as_ref().filter(|_| current),
        "usage": record.usage,
        "text": text,
        "bytes": told.map_or(0, |(whole, _)| whole.bytes),
        "sha256": told.and_then(|(whole, _)| whole.sha256.as_ref()),
        "truncated": told.is_some_and(|(whole, full)| whole.truncated && !full),
    }));
    console.flush()
}
