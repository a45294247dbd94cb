//! An attempt inside the daemon: an async closure, cancelled politely, dropped when it does not react.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use subagent_core::run::Command;
use subagent_model::{Conclusion, ErrorCode, ErrorInfo, ExitFacts, Mark, Outcome, Quality};
use subagent_provider::{Task, TaskContext, TaskEnd, TaskFailure, Verdict, bound};
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, panic_text};
use super::clock;
use super::writer::Act;

/// Runs the closure to its end.
pub(crate) async fn drive(attempt: &Attempt, body: Task) {
    let prompt = match attempt.prompt_text().await {
        Ok(prompt) => prompt,
        Err(problem) => {
            attempt.conclude(verdict(Err(TaskFailure::new(problem.message)), ErrorCode::StartFailed)).await;
            return;
        }
    };
    let command = Command::Started { attempt: attempt.key.attempt, process: None };
    attempt.inner.send(Act::lazy(attempt.key.subagent, command).into());
    let cancelled = CancellationToken::new();
    let spec = Arc::clone(&attempt.state.spec);
    let context = TaskContext { key: attempt.key, prompt, spec, session: None, cancelled: cancelled.clone() };
    let mut work = AssertUnwindSafe(async move { body(context).await }).catch_unwind().boxed();
    let graces = attempt.inner.config.graces;
    let deadline = async {
        match attempt.time_left() {
            Some(deadline) => tokio::time::sleep(deadline).await,
            None => std::future::pending().await,
        }
    };
    let mut late = false;
    let end = tokio::select! {
        end = &mut work => Some(end),
        () = attempt.stop.cancelled() => None,
        () = deadline => {
            late = true;
            None
        }
    };
    let end = if end.is_some() {
        end
    } else {
        cancelled.cancel();
        tokio::time::timeout(graces.term, &mut work).await.ok()
    };
    drop(work);
    let mut verdict = match end {
        Some(Ok(end)) => verdict(end, ErrorCode::Crashed),
        Some(Err(panic)) => verdict(Err(TaskFailure::new(panic_text(&*panic))), ErrorCode::Panicked),
        None => verdict(Err(TaskFailure::new("it did not react to its cancellation")), ErrorCode::Timeout),
    };
    if late {
        verdict.conclusion.outcome = Outcome::Aborted { limit: subagent_model::Limit::Deadline };
    }
    attempt.conclude(verdict).await;
}

fn verdict(end: TaskEnd, code: ErrorCode) -> Verdict {
    let exit = Some(ExitFacts { code: None, signal: None, at: Some(clock::now()) });
    match end {
        Ok(text) => {
            let blank = text.trim().is_empty();
            let (result, whole) = bound(text);
            let quality = if blank { Quality::Unverified } else { Quality::Ok };
            let marks = if blank { vec![Mark::NoOutput] } else { vec![] };
            Verdict {
                conclusion: Conclusion {
                    outcome: Outcome::Completed,
                    result: Some(result),
                    marks,
                    quality,
                    exit,
                },
                whole,
            }
        }
        Err(failure) => {
            let partial = failure.partial.filter(|text| !text.trim().is_empty()).map(bound);
            let (result, whole) = partial.map_or((None, None), |(result, whole)| (Some(result), whole));
            let marks = if result.is_some() { vec![Mark::Partial] } else { vec![] };
            let quality = if result.is_some() { Quality::Partial } else { Quality::Unverified };
            let error = ErrorInfo {
                code,
                message: failure.message,
                detail: None,
                reset_at: None,
                retryable: failure.retryable,
                exit: None,
            };
            Verdict {
                conclusion: Conclusion { outcome: Outcome::Error { error }, result, marks, quality, exit },
                whole,
            }
        }
    }
}
