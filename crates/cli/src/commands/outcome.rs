//! How a run stands or ended, in few words: shared by everything that tells of runs.

use std::time::Duration;

use subagent_model::{
    ActivityOn, Limit, Mark, Mode, Outcome, Quality, QueueReason, ReturnReason, Status, SubagentRecord,
};

use crate::console::Console;
use crate::exit;
use crate::view::look::{self, Paint};
use crate::view::rows::Cell;
use crate::view::{number, text, time};

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

/// Status with what belongs to it as a cell.
pub(crate) fn standing_cell(record: &SubagentRecord, console: &Console) -> Cell {
    Cell::exact(standing(record, console.out.terminal), look::of(record.status).1)
}

/// Status with what one should know of it: `waiting (approval)`, `completed (unverified)`.
pub(crate) fn standing(record: &SubagentRecord, terminal: bool) -> String {
    let word = look::word(record.status, terminal);
    let flags = flags(record);
    if flags.is_empty() { word } else { format!("{word} ({})", flags.join(", ")) }
}

fn flags(record: &SubagentRecord) -> Vec<String> {
    let live = !record.status.is_final();
    let mut flags = Vec::new();
    let mut flag = |word: &str| flags.push(word.to_owned());
    match &record.queued_for {
        Some(QueueReason::Rate { .. }) => flag("rate limit"),
        Some(QueueReason::Retry { .. }) => flag("retry"),
        Some(QueueReason::Capacity) | None => {}
    }
    match &record.waiting_on {
        Some(ActivityOn::Children) => flag("children"),
        Some(ActivityOn::Approval) => flag("approval"),
        Some(ActivityOn::Question) => flag("question"),
        Some(ActivityOn::Background) => flag("background"),
        Some(ActivityOn::Quota { .. }) => flag("quota"),
        None => {}
    }
    if record.status.is_good() || record.status == Status::Idle {
        match record.quality {
            Some(Quality::Unverified) => flag("unverified"),
            Some(Quality::Partial) => flag("partial"),
            Some(Quality::Ok) | None => {}
        }
    }
    if live && record.mode == Mode::Detached {
        flag("detached");
    }
    if live && record.wrap_up.is_some() && record.status != Status::Idle {
        flag("wrapping up");
    }
    if !record.pending_messages.is_empty() {
        flag(&format!("{} pending", number::of(record.pending_messages.len(), "message")));
    }
    flags
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
    if !record.status.is_good() && record.status != Status::Idle {
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
        Mark::PermissionDenied => Some("something it asked for was denied"),
        Mark::MessagesReturned => Some("messages came back undelivered"),
        Mark::GateUnheard => Some("a gate would have made it go on"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Why a good end should be looked at; empty where nothing speaks against it.
pub(crate) fn doubt(record: &SubagentRecord) -> &'static str {
    match record.quality.filter(|_| record.status.is_good()) {
        Some(Quality::Unverified) => "unverified; look before you trust it",
        _ => "",
    }
}

/// The row of a run that has ended: handle, status, time taken, headline.
pub(crate) fn row(record: &SubagentRecord, console: &Console) -> Vec<Cell> {
    vec![
        Cell::painted(record.handle.as_str(), Paint::Bold),
        standing_cell(record, console),
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

/// Tells how to go on: what stays alive, and what can be resumed after a bad end.
pub(crate) fn tell_next(record: &SubagentRecord, console: &Console) {
    let handle = &record.handle;
    if let Some(until) = record.retire_at {
        console.aside(&format!(
            "{handle} stays alive, for {}: `subagent steer --follow-up {handle} TEXT` goes on, `subagent stop {handle}` \
             ends it",
            time::human(until.since(time::now()))
        ));
    } else if record.resumable && !record.status.is_good() {
        console.aside(&format!("  go on: subagent resume {handle} PROMPT"));
    }
}

/// The word of an outcome of an earlier run, with its reason where it is a bad one.
pub(crate) fn told(outcome: &Outcome) -> String {
    let reason = match outcome {
        Outcome::Completed | Outcome::Steered => None,
        Outcome::Aborted { limit: which } => Some(limit(*which).to_owned()),
        Outcome::Stopped { stop } => Some(format!("by {}", text::line(&stop.actor))),
        Outcome::Error { error } => Some(format!("{}: {}", error.code, text::line(&error.message))),
        Outcome::Lost { evidence } => Some(text::line(evidence)),
    };
    match reason {
        None => outcome.status().to_string(),
        Some(reason) => format!("{} ({reason})", outcome.status()),
    }
}

/// A limit in words.
pub(crate) fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Deadline => "its deadline",
        Limit::Turns => "its turn limit",
        Limit::Tokens => "its token limit",
        Limit::Cost => "its cost limit",
        Limit::ToolCalls => "its limit of tool calls",
        Limit::TreeTokens => "the token limit of its tree",
        Limit::TreeCost => "the cost limit of its tree",
        Limit::Stall => "no sign of life",
    }
}

/// Why a message came back, and what to do about it.
pub(crate) fn returned(reason: ReturnReason) -> String {
    format!("returned: {}", reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::{headline, standing};
    use crate::commands::sample;

    #[test]
    fn perm_01_the_status_says_what_is_waited_for() {
        let waits = sample(&serde_json::json!({"status": "waiting", "waiting_on": {"for": "approval"}}));
        assert_eq!(standing(&waits, false), "waiting (approval)");
        let quota = serde_json::json!({"for": "quota", "until": "2026-11-30T00:00:00Z"});
        let parked = sample(&serde_json::json!({"status": "waiting", "waiting_on": quota}));
        assert_eq!(standing(&parked, false), "waiting (quota)");
        assert_eq!(standing(&sample(&serde_json::json!({"status": "idle"})), false), "idle");
    }

    #[test]
    fn result_24_an_unverified_end_is_flagged_in_lists() {
        let record = sample(&serde_json::json!({"status": "completed", "quality": "unverified"}));
        assert_eq!(standing(&record, false), "completed (unverified)");
        let fine = sample(&serde_json::json!({"status": "completed", "quality": "ok"}));
        assert_eq!(standing(&fine, false), "completed");
    }

    #[test]
    fn steer_12_pending_messages_and_stop_14_detached_ones_are_said_in_lists() {
        let message = serde_json::json!({"number": 1, "from": "user:0", "mode": "steer", "text": "t", "at": "2026-11-30T00:00:00Z"});
        let record = sample(
            &serde_json::json!({"status": "running", "mode": "detached", "pending_messages": [message]}),
        );
        assert_eq!(standing(&record, false), "running (detached, 1 message pending)");
    }

    #[test]
    fn perm_02_a_denial_stands_beside_the_result() {
        let record = sample(&serde_json::json!({
            "status": "completed", "marks": ["permission_denied"],
            "result": {"preview": "done\n", "bytes": 5, "truncated": false},
        }));
        assert_eq!(headline(&record), "[something it asked for was denied] done");
    }
}
