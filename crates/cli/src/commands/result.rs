//! `subagent result`: what a run brought.

use clap::Args;
use subagent_model::{
    BoundedText, ErrorCode, ErrorInfo, Mark, Outcome, Quality, RunNumber, Status, SubagentRecord,
};
use subagent_runtime::Runtime;

use super::{outcome, waiting, whole};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::text;

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

/// A run that has ended.
struct Ended<'a> {
    record: &'a SubagentRecord,
    run: RunNumber,
    status: Status,
    text: Option<&'a BoundedText>,
    marks: &'a [Mark],
    quality: Option<Quality>,
    error: Option<&'a ErrorInfo>,
}

/// Carries it out.
pub(crate) async fn run(args: &ResultArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    let record = session.client.get(&session.caller, id).await?;
    let run = args.run.map_or(record.run, RunNumber);
    // A warm subagent has a result while it lives on; the run itself says how it ended.
    let between = record.retire_at.is_some() && run == record.run;
    let record = if between { waiting::of_run(&session, record, run).await? } else { record };
    let ended = find(&record, run)?;
    let shown = if console.json {
        document(&session, &ended, args.full).await?
    } else {
        print(&session, &ended, args.full).await?
    };
    if shown {
        // Addressed to another requester, it stays for that one.
        let _ = session.client.ack_run(&session.caller, id, ended.run, true).await;
    }
    Ok(if ended.status.is_good() { exit::DONE } else { exit::ENDED_BADLY })
}

fn find(record: &SubagentRecord, run: RunNumber) -> Result<Ended<'_>, Failure> {
    if run == record.run && !record.status.is_final() {
        let message = format!("{} has no result yet: it is {}", record.handle, record.status);
        let hint = format!(
            "`subagent wait {0}` waits for the end, `subagent logs -f {0}` shows its output.",
            record.handle
        );
        return Err(Failure::new(ErrorCode::StillRunning, message).hint(hint));
    }
    if run == record.run {
        return Ok(Ended {
            record,
            run,
            status: record.status,
            text: record.result.as_ref(),
            marks: &record.marks,
            quality: record.quality,
            error: record.error.as_ref(),
        });
    }
    let earlier = record.earlier_runs.iter().find(|earlier| earlier.run == run).ok_or_else(|| {
        let message = format!("{} has no run {run}; it is at run {}", record.handle, record.run);
        Failure::new(ErrorCode::NotFound, message)
    })?;
    Ok(Ended {
        record,
        run,
        status: earlier.outcome.status(),
        text: earlier.result.as_ref(),
        marks: &earlier.marks,
        quality: Some(earlier.quality),
        error: match &earlier.outcome {
            Outcome::Error { error } => Some(error),
            _ => None,
        },
    })
}

/// Prints the text, and beside it how the run ended; true when the reader took it.
async fn print(session: &Session<'_>, ended: &Ended<'_>, full: bool) -> Result<bool, Failure> {
    let (console, record) = (session.console, ended.record);
    let taken = match ended.text {
        None => console.flush(),
        Some(text) if full || !text.truncated => whole::print(session, record.id, ended.run, text).await?,
        Some(text) => {
            console.childs_text(&text.preview);
            console.data("\n");
            let shown = subagent_model::text::PREVIEW_BYTES;
            let rest = format!("all of it: subagent result {} --run {} --full", record.handle, ended.run);
            console.note(&format!("{shown} of {} bytes; {rest}", text.bytes));
            console.flush()
        }
    };
    if ended.status.is_good() && ended.text.is_none_or(BoundedText::is_blank) {
        console.note(outcome::NO_OUTPUT);
    }
    let doubt = if ended.run == record.run { outcome::doubt(record) } else { "" };
    if !doubt.is_empty() {
        console.aside(&format!("{} run {}: {doubt}", record.handle, ended.run));
    }
    if ended.run == record.run {
        outcome::tell_bad_end(record, console);
        outcome::tell_next(record, console);
    } else if let Some(error) = ended.error {
        console.note(&format!(
            "{} run {}: {}: {}",
            record.handle,
            ended.run,
            error.code,
            text::line(&error.message)
        ));
    }
    Ok(taken)
}

async fn document(session: &Session<'_>, ended: &Ended<'_>, full: bool) -> Result<bool, Failure> {
    let (console, record) = (session.console, ended.record);
    let mut shown = String::new();
    match ended.text {
        None => {}
        Some(text) if full => {
            whole::each_part(session, record.id, ended.run, text, |part| {
                shown.push_str(part);
                true
            })
            .await?;
        }
        Some(text) => shown.push_str(&text.preview),
    }
    console.document(&serde_json::json!({
        "id": record.id,
        "handle": record.handle,
        "run": ended.run,
        "status": ended.status,
        "quality": ended.quality,
        "marks": ended.marks,
        "error": ended.error,
        "usage": record.usage,
        "text": shown,
        "bytes": ended.text.map_or(0, |text| text.bytes),
        "sha256": ended.text.and_then(|text| text.sha256.as_ref()),
        "truncated": ended.text.is_some_and(|text| text.truncated && !full),
    }));
    Ok(console.flush())
}
