//! How a run ended, in few words: shared by everything that tells ends.

use std::time::Duration;

use subagent_model::{Mark, Outcome, Status, SubagentRecord};

use crate::console::Console;
use crate::exit;
use crate::view::look::{self, Paint};
use crate::view::rows::Cell;
use crate::view::{text, time};

/// What stands for a result that is empty or blank, at every door.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The exit code of a run that has ended.
pub(crate) fn exit_code(record: &SubagentRecord) -> u8 {
    if record.status.is_good() { exit::DONE } else { exit::ENDED_BADLY }
}

/// Status as a cell.
pub(crate) fn status_cell(status: Status, console: &Console) -> Cell {
    Cell::exact(look::word(status, console.out.terminal), look::of(status).1)
}

/// How long the run took, or has taken so far.
pub(crate) fn took(record: &SubagentRecord) -> Option<Duration> {
    let began = record.started_at?;
    Some(record.exited_at.or(record.completed_at).unwrap_or_else(time::now).since(began))
}

/// In one line: the failure, why it was ended, or the beginning of the result.
pub(crate) fn headline(record: &SubagentRecord) -> String {
    if let (Status::Error, Some(error)) = (record.status, &record.error) {
        return format!("{}: {}", error.code, text::line(&error.message));
    }
    if !record.status.is_good() {
        return text::line(record.end_reason.as_deref().unwrap_or_default());
    }
    let first = record.result.as_ref().map(|result| result.preview.as_str()).unwrap_or_default();
    let first = text::block(first);
    let first = first.lines().map(text::line).find(|line| !line.is_empty());
    let line = first.unwrap_or_else(|| String::from(NO_OUTPUT));
    match marks(record) {
        notes if notes.is_empty() => line,
        notes => format!("[{notes}] {line}"),
    }
}

/// Notes that a reader of the result should know, in words.
pub(crate) fn marks(record: &SubagentRecord) -> String {
    let words = record.marks.iter().filter_map(|mark| match mark {
        Mark::NoOutput => None,
        Mark::Truncated => Some("result cut short"),
        Mark::Partial => Some("partial result"),
        Mark::NeverStarted => Some("never started"),
        Mark::LeftoversEnded => Some("left processes behind, which were ended"),
        Mark::OutputIncomplete => Some("part of the output was lost"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The row of a run that has ended: handle, status, time taken, headline.
pub(crate) fn row(record: &SubagentRecord, console: &Console) -> Vec<Cell> {
    vec![
        Cell::painted(record.handle.as_str(), Paint::Bold),
        status_cell(record.status, console),
        Cell::painted(&took(record).map(time::human).unwrap_or_default(), Paint::Dim),
        Cell::plain(&headline(record)),
    ]
}

/// Tells on standard error that a run ended badly: headline, diagnostic, and where to look. Nothing for a good end.
pub(crate) fn tell_bad_end(record: &SubagentRecord, console: &Console) {
    if record.status.is_good() {
        return;
    }
    let word = look::of(record.status).1.on(record.status.as_str(), console.err.colour);
    console.note(&format!("{} {word}: {}", record.handle, headline(record)));
    if let Some(error) = &record.error {
        if record.status != Status::Error {
            console.note(&format!("  later: {}: {}", error.code, text::line(&error.message)));
        }
        if let Some(detail) = &error.detail {
            for line in text::block(detail).trim_end().lines() {
                console.note(&format!("  {line}"));
            }
        }
    }
    let notes = marks(record);
    if !notes.is_empty() {
        console.note(&format!("  note: {notes}"));
    }
    console.aside(&format!("  more: subagent show {0}; subagent logs {0}", record.handle));
}

/// The word of an outcome of an earlier run, with its reason where it is a bad one.
pub(crate) fn told(outcome: &Outcome) -> String {
    let reason = match outcome {
        Outcome::Completed | Outcome::Steered => None,
        Outcome::Aborted { limit } => Some(format!("{limit:?}").to_lowercase()),
        Outcome::Stopped { stop } => Some(format!("by {}", text::line(&stop.actor))),
        Outcome::Error { error } => Some(format!("{}: {}", error.code, text::line(&error.message))),
        Outcome::Lost { evidence } => Some(text::line(evidence)),
    };
    match reason {
        None => outcome.status().to_string(),
        Some(reason) => format!("{} ({reason})", outcome.status()),
    }
}
