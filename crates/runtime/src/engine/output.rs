//! Reading what a child wrote, from its log: the one path for live, adopted and ended attempts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use subagent_core::frame::{Gap, Kind};
use subagent_core::run::Subagent;
use subagent_model::request::{LogPage, LogPart};
use subagent_model::{AttemptKey, ErrorCode, ExitFacts, Problem, Timestamp};
use subagent_process::log::{FrameLog, LogError, LogItem, StreamText, read_stream};
use subagent_process::{ExitCause, ExitRecord};
use subagent_provider::{EndReason, ProcessEnd};

use super::attempt::{chain, exit_facts};
use super::{Inner, clock};

/// The file that exists once a start was handed to a shim.
pub(crate) const FIRST_SEGMENT: &str = "frames.log";

/// Most bytes of the beginning and of the end of an output that a result may have.
const RESULT_HEAD: usize = 8 * 1024 * 1024;
const RESULT_TAIL: usize = 8 * 1024 * 1024;
/// Most bytes of the end of the error output that a diagnostic may have.
const STDERR_TAIL: usize = 8 * 1024;
/// A log up to this size is read where we are; a larger one on a thread of its own.
const SMALL_LOG: u64 = 256 * 1024;
/// Most bytes of one page.
const PAGE: usize = 256 * 1024;
/// How often a log is looked at that nobody tells us the growth of.
const LOOK: Duration = Duration::from_millis(100);

/// How an attempt is known to have ended.
pub(crate) enum End<'a> {
    /// By its exit record.
    Recorded(&'a ExitRecord),
    /// Its shim went away and left no record.
    ShimLost,
}

/// Everything a provider needs to judge the end. `stopped`: a stop of ours was under way.
pub(crate) async fn read_end(dir: &Path, end: End<'_>, stopped: bool) -> ProcessEnd {
    let (reason, exit, record) = match end {
        End::Recorded(record) => {
            let reason = match record.cause {
                ExitCause::Natural | ExitCause::StartFailed | ExitCause::Unknown if stopped => {
                    EndReason::Stopped
                }
                ExitCause::Natural | ExitCause::StartFailed | ExitCause::Unknown => EndReason::Natural,
                ExitCause::Stopped => EndReason::Stopped,
                ExitCause::Deadline => EndReason::Deadline,
                ExitCause::Lease => EndReason::Lease,
            };
            (reason, exit_facts(record), Some(record))
        }
        End::ShimLost => {
            let exit = ExitFacts { code: None, signal: None, at: Some(clock::now()) };
            (EndReason::ShimLost, exit, None)
        }
    };
    let path = dir.to_owned();
    let want_stdout = record.is_none_or(|record| record.stdout_bytes > 0);
    let want_stderr = record.is_none_or(|record| record.stderr_bytes > 0);
    let read = move || {
        let read = |wanted, kind, head, tail| {
            if wanted { read_stream(&path, kind, head, tail) } else { Ok(StreamText::default()) }
        };
        (
            read(want_stdout, Kind::Stdout, RESULT_HEAD, RESULT_TAIL),
            read(want_stderr, Kind::Stderr, 0, STDERR_TAIL),
        )
    };
    let (stdout, stderr) = if record.is_some_and(|record| record.log_end <= SMALL_LOG) {
        read()
    } else {
        match tokio::task::spawn_blocking(read).await {
            Ok(streams) => streams,
            Err(_) => (Ok(StreamText::default()), Ok(StreamText::default())),
        }
    };
    let mut incomplete = record.and_then(|record| record.log_error).map(|errno| {
        format!("part of its output could not be kept: {}", std::io::Error::from_raw_os_error(errno))
    });
    let mut usable = |stream: Result<StreamText, LogError>| {
        stream.unwrap_or_else(|error| {
            incomplete = Some(format!("{}: {}", ErrorCode::DamagedLog, chain(&error)));
            StreamText::default()
        })
    };
    let (stdout, stderr) = (usable(stdout), usable(stderr));
    if let Some(written) = record.map(|record| record.stdout_bytes)
        && written > stdout.logged + stdout.dropped
    {
        let missing = written - stdout.logged - stdout.dropped;
        incomplete = Some(format!("{}: {missing} bytes of its output are missing", ErrorCode::DamagedLog));
    }
    if stdout.damaged > 0 {
        incomplete =
            Some(format!("{}: {} bytes of its log are damaged", ErrorCode::DamagedLog, stdout.damaged));
    }
    ProcessEnd {
        reason,
        exit,
        stdout_head: stdout.head,
        // Of both streams together; where only one has lost anything, this is exact.
        stdout_omitted: stdout.omitted + stdout.dropped,
        stdout_tail: stdout.tail,
        stderr_tail: stderr.tail,
        incomplete,
        leftovers: record.map_or(0, |record| record.leftover_killed),
        out_of_memory: record.and_then(|record| record.oom_killed).unwrap_or(false),
    }
}

/// A page of the newest attempt's output.
pub(crate) async fn page(
    inner: &Arc<Inner>,
    state: &Subagent,
    from: u64,
    wait: Option<Duration>,
) -> Result<LogPage, Problem> {
    let has_log = |attempt| inner.paths.attempt_of(state, state.key_of(attempt)).join(FIRST_SEGMENT).exists();
    let latest = state.run.attempts.iter().rev().map(|facts| facts.attempt);
    let Some(attempt) = latest.clone().find(|attempt| has_log(*attempt)) else {
        // Nothing was started yet, or ever will be.
        if let (false, Some(wait)) = (state.is_ended(), wait) {
            tokio::time::sleep(wait.min(LOOK)).await;
        }
        return Ok(LogPage { parts: Vec::new(), next: from, attempt: None, ended: state.is_ended() });
    };
    let key = state.key_of(attempt);
    let until = wait.map(|wait| tokio::time::Instant::now() + wait);
    loop {
        // Asked before reading: what comes between is found by the next page, never lost.
        let live = inner.live(key.subagent).is_some_and(|state| state.attempt_key() == Some(key));
        let dir = inner.paths.attempt_of(state, key);
        let (parts, next) = tokio::task::spawn_blocking(move || read_page(&dir, from))
            .await
            .map_err(|error| Problem::new(ErrorCode::Panicked, error.to_string()))?
            .map_err(|error| Problem::new(ErrorCode::DamagedLog, chain(&error)))?;
        let patient = until.filter(|until| tokio::time::Instant::now() < *until);
        match patient {
            Some(until) if parts.is_empty() && live => grow(inner, key, from, until).await,
            _ => {
                let ended = !live && parts.is_empty();
                return Ok(LogPage { parts, next, attempt: Some(key.to_string()), ended });
            }
        }
    }
}

/// Waits until the log may have grown past `from`, the attempt may have ended, or `until`.
async fn grow(inner: &Inner, key: AttemptKey, from: u64, until: tokio::time::Instant) {
    let look = (tokio::time::Instant::now() + LOOK).min(until);
    if let Some(mut end) = inner.tasks.log_end(key) {
        // The end of the attempt closes the channel; both are a reason to look.
        let _ = tokio::time::timeout_at(look, end.wait_for(|end| *end > from)).await;
    } else {
        tokio::time::sleep_until(look).await;
    }
}

/// An item of the log as readers see it; control frames are ours.
fn part_of(item: LogItem) -> Option<LogPart> {
    let none = Timestamp::default();
    let (stream, at, text) = match item {
        LogItem::Frame(frame) => {
            let at = Timestamp::from_micros(i64::try_from(frame.at_micros).unwrap_or(0));
            let text = String::from_utf8_lossy(&frame.payload).into_owned();
            match frame.kind {
                Kind::Stdout => ("stdout", at, text),
                Kind::Stderr => ("stderr", at, text),
                Kind::Stdin => ("stdin", at, text),
                Kind::Gap => {
                    // What was deleted further up is told where it is missing.
                    let bytes =
                        Gap::decode(&frame.payload).map(|gap| gap.bytes).filter(|bytes| *bytes > 0)?;
                    ("gap", at, format!("{bytes} bytes could not be written to the log"))
                }
                Kind::Control | Kind::Other(_) => return None,
            }
        }
        LogItem::Corruption { offset, bytes } => {
            ("damage", none, format!("{bytes} bytes at {offset} are damaged and were skipped"))
        }
        LogItem::Missing { from, to } => {
            ("gap", none, format!("{} bytes at {from} were dropped to keep the log bounded", to - from))
        }
    };
    Some(LogPart { stream: stream.to_owned(), at, text })
}

fn read_page(dir: &Path, from: u64) -> Result<(Vec<LogPart>, u64), LogError> {
    let mut log = FrameLog::open_at(dir, from);
    let (mut parts, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE {
        let Some(item) = log.next_item()? else { break };
        let part = part_of(item);
        bytes += part.as_ref().map_or(0, |part| part.text.len());
        parts.extend(part);
    }
    Ok((parts, log.position()))
}
