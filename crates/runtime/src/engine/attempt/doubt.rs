//! When a shim does not answer: it may be suspended, be dying, or be held by somebody else. What it holds is decided only
//! once it is known to be gone; until then a start that it was told of may still happen.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use subagent_model::{Outcome, ProcessIdentity};
use subagent_process::{Shim, exit_record, is_alive, leftovers, signal_checked};
use subagent_provider::Verdict;

use super::super::output::{self, End};
use super::super::writer::Act;
use super::{Attempt, LEFTOVERS, chain};

/// How long a process whose connection just closed may take to be seen dead.
const DYING: Duration = Duration::from_millis(500);
/// How long a killed shim may take to be gone.
const KILLED: Duration = Duration::from_secs(5);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// Lets a suspended shim go on. Harmless to any other.
pub(crate) fn nudge(shim: &Shim) {
    // Gone already shows as the end.
    let _ = signal_checked(shim.identity(), Signal::CONT.as_raw());
}

impl Attempt {
    /// Ends a shim from outside, and with it what it was told and has not done. Returns once it is gone.
    pub(crate) async fn put_down(&self, shim: &Shim) {
        tracing::warn!(key = %self.key, "a shim does not answer; it is ended from outside");
        // Gone already is as good.
        let _ = signal_checked(shim.identity(), Signal::KILL.as_raw());
        if !gone_within(shim.identity(), KILLED).await {
            tracing::error!(key = %self.key, "a shim does not go after SIGKILL");
        }
    }

    /// The connection to a shim is over. True when the shim is: it is not when another daemon or task took it over.
    pub(crate) async fn is_gone(&self, shim: &Shim) -> bool {
        gone_within(shim.identity(), DYING).await
    }

    /// Ends an attempt whose shim is gone: by its exit record, or as what it is. Nothing of its tree is left after. `seen`:
    /// its process was seen to run by this daemon; `told` is what nobody was told of it yet.
    pub(super) async fn settle_without_shim(&self, cgroup: Option<PathBuf>, told: Option<Act>, seen: bool) {
        let (record, unreadable) = match exit_record::read(&self.dir()) {
            Ok(record) => (record, None),
            Err(error) => (None, Some(format!("its exit record cannot be read: {}", chain(&error)))),
        };
        if !record.as_ref().is_some_and(|record| record.tree_gone) {
            self.end_leftovers(cgroup).await;
        }
        if let Some(record) = record {
            let verdict = self.verdict_of(&record).await;
            self.settle_past(verdict, told).await;
            return;
        }
        if unreadable.is_none() && !seen && self.never_launched() {
            return self.requeue("no process was made").await;
        }
        let seen = seen || self.started_here();
        let mut verdict = self.judge(End::ShimLost).await;
        if !seen && !self.stop.is_cancelled() {
            // What it wrote is kept beside the fact that nobody knows how it ended.
            let evidence =
                unreadable.unwrap_or_else(|| String::from("its process is gone and left no exit record"));
            verdict.conclusion.outcome = Outcome::Lost { evidence };
            verdict.conclusion.exit = None;
        }
        self.settle_past(verdict, told).await;
    }

    /// Ends a run whose shim is gone. What a child that was spoken with had said is in the log.
    async fn settle_past(&self, verdict: Verdict, told: Option<Act>) {
        // In one go: the writer takes them as one batch.
        if let Some(fact) = told {
            self.tell(fact);
        }
        let codec = self.provider().ok().and_then(|provider| provider.codec(&self.job()));
        match codec {
            Some(codec) => self.converse_past(codec, verdict).await,
            None => self.conclude(verdict).await,
        };
    }

    /// How it ended, as far as anybody knows: its shim is gone. Nothing of its tree is left after.
    pub(crate) async fn verdict_without_shim(&self, cgroup: Option<PathBuf>) -> Verdict {
        let record = exit_record::read(&self.dir()).ok().flatten();
        if !record.as_ref().is_some_and(|record| record.tree_gone) {
            self.end_leftovers(cgroup).await;
        }
        match &record {
            Some(record) => self.verdict_of(record).await,
            None => self.judge(End::ShimLost).await,
        }
    }

    pub(super) async fn end_leftovers(&self, cgroup: Option<PathBuf>) {
        let name = self.key.to_string();
        let gone = tokio::task::spawn_blocking(move || {
            leftovers::kill_leftovers(&name, cgroup.as_deref(), LEFTOVERS)
        });
        if !gone.await.unwrap_or(false) {
            tracing::error!(key = %self.key, "processes of a lost shim are still there");
        }
    }

    /// No start was ever handed to a shim, as far as files and the record tell. Either alone may have been lost.
    pub(super) fn never_launched(&self) -> bool {
        !self.has_log()
            && self.latest().is_none_or(|facts| facts.started_at.is_none() && facts.process.is_none())
    }

    /// A shim began with it.
    pub(super) fn has_log(&self) -> bool {
        Path::exists(&self.dir().join(output::FIRST_SEGMENT))
    }

    /// This daemon saw the child run, so its end with the shim was seen too.
    fn started_here(&self) -> bool {
        let since = self.inner.started_at;
        self.latest().is_some_and(|facts| facts.started_at.is_some_and(|at| at >= since))
    }

    fn latest(&self) -> Option<subagent_model::AttemptFacts> {
        let state = self.inner.live(self.key.subagent)?;
        state.run.attempts.iter().find(|facts| facts.attempt == self.key.attempt).cloned()
    }
}

async fn gone_within(identity: &ProcessIdentity, bound: Duration) -> bool {
    let until = Instant::now() + bound;
    while is_alive(identity) {
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}
