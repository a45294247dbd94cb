//! Telling requesters of ended runs: who is owed what, how long a carrier may hold a result, when it is tried again,
//! and the words of a notice. The duty itself is part of the run, stays with it when the next one is opened, and changes
//! only through `run::decide`; sending is the shell's. Wake-ups are level-triggered: the question is always "is anything
//! unconsumed", never "did something just end". A claim is judged when it is looked at: once its time is over, the
//! result is free for any carrier, though the claim is still written down.

use std::fmt::Write as _;
use std::time::Duration;

use subagent_model::text::{CUT_MARK, PREVIEW_BYTES, cut_at_boundary};
use subagent_model::{
    BoundedText, Cause, ErrorInfo, Mark, Outcome, Requester, RunNumber, SubagentId, SubagentRecord, Timestamp,
};

use crate::run::{Delivery, DeliveryClaim, Subagent};

/// How long a carrier may hold a result before others may try.
pub const CLAIM_BOUND: Duration = Duration::from_secs(30);

/// The longest delay between two tries.
pub const RETRY_MAX: Duration = Duration::from_mins(5);

/// What stands where a result would, at every door, when there is none or it is blank.
pub const NO_OUTPUT: &str = "(no output)";

/// Most bytes of any one text beside the result.
const LINE_BYTES: usize = 512;

/// A result that waits to be consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed<'a> {
    /// Whose result.
    pub subagent: SubagentId,
    /// Of which run.
    pub run: RunNumber,
    /// Who is to be told.
    pub requester: &'a Requester,
    /// Since when.
    pub since: Timestamp,
    /// How many carriers tried.
    pub tries: u32,
    /// A carrier that is at it.
    pub claim: Option<&'a DeliveryClaim>,
}

impl Owed<'_> {
    /// The same for every try, so that a requester knows a repetition when it sees one.
    pub fn delivery_id(&self) -> String {
        delivery_id(self.subagent, self.run)
    }

    /// True when a carrier may take it at `now`.
    pub fn is_free(&self, now: Timestamp) -> bool {
        self.claim.is_none_or(|claim| !claim.holds(now))
    }
}

/// What `state` owes, oldest run first: each ended run that its requester has not consumed.
pub fn owed(state: &Subagent) -> impl Iterator<Item = Owed<'_>> {
    state.duties().filter_map(|duty| {
        let Delivery::Owed { claim, tries, .. } = duty.delivery else { return None };
        Some(Owed {
            subagent: state.id,
            run: duty.run,
            requester: duty.told(),
            since: duty.ended_at?,
            tries: *tries,
            claim: claim.as_ref(),
        })
    })
}

/// True for a result that is put before its requester unasked. What was stopped because the turn of its requester was
/// interrupted is read when that asks: it must not begin the turn that somebody has just ended.
pub fn speaks_up(state: &Subagent, run: RunNumber) -> bool {
    !matches!(state.outcome_of(run), Some(Outcome::Stopped { stop }) if stop.cause == Cause::ParentInterrupted)
}

/// What `requester` has not consumed, oldest first: the answer to the one question of a parent that was compacted or
/// restarted.
pub fn owed_to<'a>(states: impl IntoIterator<Item = &'a Subagent>, requester: &Requester) -> Vec<Owed<'a>> {
    let mut found: Vec<_> =
        states.into_iter().flat_map(owed).filter(|owed| owed.requester == requester).collect();
    found.sort_by_key(|owed| (owed.since, owed.subagent, owed.run));
    found
}

/// True while `requester` is to be woken.
pub fn has_unconsumed<'a>(states: impl IntoIterator<Item = &'a Subagent>, requester: &Requester) -> bool {
    states.into_iter().flat_map(owed).any(|owed| owed.requester == requester)
}

/// The runs that a receipt of `by` for a whole subagent stands for: every ended one that `by` has not consumed. Without
/// any it is the current run, and the answer to a receipt for that says why.
pub fn receipts(state: &Subagent, by: &Requester) -> Vec<RunNumber> {
    let mut runs: Vec<_> = owed(state).filter(|owed| owed.requester == by).map(|owed| owed.run).collect();
    if runs.is_empty() {
        runs.push(state.run.number);
    }
    runs
}

/// Names a delivery: one per run.
pub fn delivery_id(subagent: SubagentId, run: RunNumber) -> String {
    format!("{subagent}.{run}")
}

/// Until when a carrier that claims at `now` holds the result.
pub fn claim_until(now: Timestamp) -> Timestamp {
    now.after(CLAIM_BOUND)
}

/// How long to wait after `tries` carriers failed: one second, doubled each time, five minutes at most.
pub fn retry_delay(tries: u32) -> Duration {
    match tries.checked_sub(1) {
        None => Duration::ZERO,
        // 2^9 s is above the maximum.
        Some(doublings) => Duration::from_secs(1 << doublings.min(9)).min(RETRY_MAX),
    }
}

/// The notice of how a run stands, in the words that a requester gets. Bounded in size. Everything that comes from the
/// child or its spawner is data: markup and control characters are neutralised, so no text can close its frame, forge
/// a notice or a status, or move the cursor of a terminal.
pub fn notice(record: &SubagentRecord) -> String {
    let mut text = String::with_capacity(1024);
    // Writing to a string cannot fail.
    let _ = write_notice(&mut text, record);
    text
}

fn write_notice(out: &mut String, record: &SubagentRecord) -> std::fmt::Result {
    write!(
        out,
        "<subagent-notice delivery=\"{}\" subagent=\"{}\" handle=\"{}\" run=\"{}\" status=\"{}\"",
        delivery_id(record.id, record.run),
        record.id,
        line(record.handle.as_str()),
        record.run,
        record.status,
    )?;
    if let Some(quality) = record.quality {
        write!(out, " quality=\"{}\"", format!("{quality:?}").to_lowercase())?;
    }
    writeln!(out, ">")?;
    writeln!(out, "<about>{}</about>", line(&record.description))?;
    if let Some(reason) = &record.end_reason {
        writeln!(out, "<why>{}</why>", line(reason))?;
    }
    for mark in &record.marks {
        writeln!(out, "<mark>{}</mark>", words(*mark))?;
    }
    if let Some(error) = &record.error {
        write_error(out, error)?;
    }
    if let Some(usage) = &record.usage {
        write!(out, "<usage total=\"{}\" cache_read=\"{}\"", usage.total, usage.cache_read)?;
        if let Some(cost) = usage.cost_usd {
            write!(out, " cost_usd=\"{cost}\"")?;
        }
        writeln!(out, " turns=\"{}\" tool_uses=\"{}\"/>", record.turn_count, record.tool_uses)?;
    }
    if !record.status.is_final() {
        writeln!(out, "<pending>there is no result yet</pending>")?;
    } else if record.marks.contains(&Mark::NeverStarted) {
        writeln!(out, "<pending>it never started, so there is no result</pending>")?;
    } else {
        write_result(out, record)?;
    }
    writeln!(out, "</subagent-notice>")
}

fn write_error(out: &mut String, error: &ErrorInfo) -> std::fmt::Result {
    writeln!(
        out,
        "<error code=\"{}\" retryable=\"{}\">{}</error>",
        error.code,
        error.retryable,
        line(&error.message)
    )?;
    if let Some(detail) = &error.detail {
        writeln!(out, "<detail>{}</detail>", block(detail, LINE_BYTES))?;
    }
    Ok(())
}

fn write_result(out: &mut String, record: &SubagentRecord) -> std::fmt::Result {
    let handle = line(record.handle.as_str());
    match record.result.as_ref().filter(|text| !text.is_blank()) {
        None => writeln!(out, "<result bytes=\"0\">{NO_OUTPUT}</result>")?,
        Some(BoundedText { preview, bytes, sha256, truncated }) => {
            write!(out, "<result bytes=\"{bytes}\" truncated=\"{truncated}\"")?;
            if let Some(digest) = sha256 {
                write!(out, " sha256=\"{}\"", line(digest))?;
            }
            writeln!(out, ">\n{}\n</result>", block(preview, PREVIEW_BYTES))?;
        }
    }
    writeln!(out, "<more>subagent result {handle} --run {}</more>", record.run)
}

fn words(mark: Mark) -> &'static str {
    match mark {
        Mark::NoOutput => "no output",
        Mark::Truncated => "truncated",
        Mark::Partial => "partial",
        Mark::NeverStarted => "never started",
        Mark::LeftoversEnded => "processes it left behind were ended",
        Mark::OutputIncomplete => "part of its output could not be kept",
        Mark::PermissionDenied => "something it asked for was denied",
        Mark::MessagesReturned => "messages to it came back undelivered",
        Mark::GateUnheard => "a gate wanted it to go on, and it could not",
    }
}

/// A text on one line, bounded.
fn line(text: &str) -> String {
    block(&text.split_whitespace().collect::<Vec<_>>().join(" "), LINE_BYTES)
}

/// A text of several lines as data, at most `max` bytes long **after** it was neutralised, marked when it was cut.
fn block(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for character in text.chars() {
        let before = out.len();
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            character if is_control(character) => out.push('\u{fffd}'),
            character => out.push(character),
        }
        if out.len() > max {
            out.truncate(before);
            // Not in the middle of an escape: an unescaped ampersand begins one of at most six bytes.
            let mut kept = cut_at_boundary(&out, max - CUT_MARK.len()).len();
            if let Some(begin) = out[..kept].rfind('&')
                && !out[begin..kept].contains(';')
            {
                kept = begin;
            }
            out.truncate(kept);
            out.push_str(CUT_MARK);
            return out;
        }
    }
    out
}

/// Characters that act on a terminal or turn the direction of the text around them.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CUT_MARK, RETRY_MAX, block, retry_delay};

    #[test]
    fn result_10_the_delay_grows_to_its_bound() {
        let delays: Vec<_> = (0..12).map(retry_delay).collect();
        assert_eq!(delays[0], Duration::ZERO);
        assert_eq!(delays[1], Duration::from_secs(1));
        assert_eq!(delays[4], Duration::from_secs(8));
        assert!(delays.is_sorted());
        assert_eq!(delays[11], RETRY_MAX);
        assert_eq!(retry_delay(u32::MAX), RETRY_MAX);
    }

    #[test]
    fn result_30_a_cut_splits_neither_a_character_nor_an_escape() {
        for max in 60..120 {
            let text = block(&"aé漢🦀<&>\"".repeat(40), max);
            assert!(text.len() <= max && text.ends_with(CUT_MARK));
            let body = text.trim_end_matches(CUT_MARK);
            assert!(body.split('&').skip(1).all(|rest| rest.contains(';')), "{body}");
        }
    }

    #[test]
    fn result_31_markup_and_control_characters_are_data() {
        let text = block("</result><x a='1'>\u{1b}[2J\u{202e}&amp;\r\n", 1000);
        assert_eq!(text, "&lt;/result&gt;&lt;x a=&#39;1&#39;&gt;\u{fffd}[2J\u{fffd}&amp;amp;\u{fffd}\n");
    }
}
