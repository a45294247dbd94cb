//! What the end of a process means, as far as every provider of processes reads it alike. The class of an end comes from
//! the exit status; text only supports it.

use std::fmt::Write as _;

use subagent_model::text::tail_at_boundary;
use subagent_model::{Cause, ErrorCode, ErrorInfo, Limit, Mark, Outcome, StopInfo};

use crate::{EndReason, ProcessEnd, Verdict};

/// Most bytes of the end of standard error that go into a diagnostic.
const DETAIL_BYTES: usize = 2 * 1024;

impl ProcessEnd {
    /// It ended by itself, with code 0.
    pub fn is_good(&self) -> bool {
        self.reason == EndReason::Natural && self.exit.code == Some(0) && self.exit.signal.is_none()
    }

    /// The outcome of an end that is not good. The status decides, never the text.
    pub fn bad_outcome(&self) -> Outcome {
        match self.reason {
            EndReason::Deadline => return Outcome::Aborted { limit: Limit::Deadline },
            EndReason::Lease => {
                let message = String::from("no daemon came back before its lease ran out");
                return self.error(ErrorCode::Timeout, message);
            }
            EndReason::ShimLost => {
                return self.error(ErrorCode::ShimLost, String::from("its shim was ended from outside"));
            }
            // Its signal and code are the stop's doing and no failure of its own.
            EndReason::Stopped => {
                let at = self.exit.at.unwrap_or_default();
                let stop = StopInfo { actor: String::from("its shim"), cause: Cause::Requested, at };
                return Outcome::Stopped { stop };
            }
            EndReason::Natural => {}
        }
        if self.out_of_memory {
            let message = String::from("the kernel ended it for want of memory");
            return self.error(ErrorCode::OutOfMemory, message);
        }
        let message = match (self.exit.code, self.exit.signal) {
            (_, Some(signal)) => format!("ended by signal {signal}{}", signal_name(signal)),
            (Some(code), None) => format!("exited with code {code}"),
            (None, None) => String::from("ended, and nobody saw how"),
        };
        self.error(ErrorCode::Crashed, message)
    }

    /// A failure with the end of its error output and the facts of its exit.
    pub fn error(&self, code: ErrorCode, message: String) -> Outcome {
        let stderr = String::from_utf8_lossy(&self.stderr_tail);
        let tail = tail_at_boundary(stderr.trim_end(), DETAIL_BYTES);
        let cut = if tail.len() < stderr.trim_end().len() { "[...] " } else { "" };
        let mut detail = format!("{cut}{tail}");
        if let Some(incomplete) = &self.incomplete {
            // Writing to a string cannot fail.
            let _ = write!(detail, "\n({incomplete})");
        }
        Outcome::Error {
            error: ErrorInfo {
                code,
                message,
                detail: Some(detail).filter(|detail| !detail.trim().is_empty()),
                retryable: matches!(code, ErrorCode::ShimLost | ErrorCode::OutOfMemory | ErrorCode::Timeout),
                reset_at: None,
                exit: Some(self.exit),
            },
        }
    }

    /// What was left behind and what could not be kept.
    pub fn marks_of_the_tree(&self) -> Vec<Mark> {
        let leftovers = (self.leftovers > 0).then_some(Mark::LeftoversEnded);
        let incomplete = self.incomplete.is_some().then_some(Mark::OutputIncomplete);
        leftovers.into_iter().chain(incomplete).collect()
    }

    /// The end of a child that is spoken with and did not say that it was done. What it said by then is known to the
    /// runtime, and is no result.
    pub fn ended_unsaid(&self) -> Verdict {
        let outcome = if self.is_good() {
            let message = String::from("the program ended well, but did not say that it was done");
            self.error(ErrorCode::NoFinalMessage, message)
        } else {
            self.bad_outcome()
        };
        let mut verdict = Verdict::without_text(outcome);
        verdict.conclusion.marks = self.marks_of_the_tree();
        verdict.conclusion.exit = Some(self.exit);
        verdict
    }
}

/// The name of a signal in words, for the ones that people meet (signal(7), the numbers that all platforms share).
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
