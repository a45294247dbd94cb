//! Calls of tools: which run beside each other, what is asked before, and what is written down around each. That a tool
//! begins is stored before it begins, what it brought before anything else follows.

use std::io;

use futures_util::future::join_all;
use serde_json::Value;
use subagent_model::text::cut_at_boundary;
use tokio_util::sync::CancellationToken;

use super::{Mode, News, Permit, Session, given_up};
use crate::conversation::Call;
use crate::fact::Fact;
use crate::tools::{Kind, Output};

/// Most bytes of a result: tools bound theirs, and this holds whatever they do.
const MOST_BYTES: usize = 256 * 1024;

/// A call that is about to be carried out.
struct Job {
    call: Call,
    kind: Kind,
    title: String,
}

impl Job {
    /// It changes nothing, so that others may run beside it.
    fn only_looks(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Search)
    }
}

impl Session {
    /// Carries calls out, in order; those in a row that only look run together. Ends early where there is something new to
    /// decide on: a cancel, a limit, a message.
    pub(super) async fn run(&mut self, calls: Vec<Call>, cancel: &CancellationToken) -> io::Result<()> {
        let mut batch: Vec<Job> = Vec::new();
        for call in calls {
            let job = self.job(call);
            let joins = batch.is_empty() || (job.only_looks() && batch.iter().all(Job::only_looks));
            if !joins {
                break;
            }
            batch.push(job);
        }
        for job in &batch {
            self.host.news(News::Called { call: job.call.clone(), title: job.title.clone(), kind: job.kind });
        }
        let given = cancel.child_token();
        let mut refused: Vec<Option<String>> = Vec::with_capacity(batch.len());
        for job in &batch {
            refused.push(self.refusal(job, cancel).await);
        }
        if cancel.is_cancelled() {
            return self.stopped(&batch);
        }
        for (job, refused) in batch.iter().zip(&refused) {
            if refused.is_none() {
                self.record(&Fact::Started { call: job.call.id.clone() })?;
            }
        }
        let outputs = self.outputs(&batch, refused, &given, cancel).await;
        for (job, output) in batch.into_iter().zip(outputs) {
            let text = self.means.model.clean(output.text);
            let text = cut_at_boundary(&text, MOST_BYTES).to_owned();
            let (call, failed) = (job.call.id.clone(), output.failed);
            self.record(&Fact::Result { call, text: text.clone(), failed })?;
            self.host.news(News::CallEnded { id: job.call.id, text, failed });
        }
        Ok(())
    }

    /// What the calls bring, together.
    async fn outputs(
        &self,
        batch: &[Job],
        refused: Vec<Option<String>>,
        given: &CancellationToken,
        cancel: &CancellationToken,
    ) -> Vec<Output> {
        let tools = &self.means.tools;
        let work = batch.iter().zip(refused).map(|(job, refused)| async move {
            match refused {
                Some(text) => Output { text, failed: true },
                None => tools.call(&job.call.tool, job.call.input.clone(), given).await,
            }
        });
        let mut work = std::pin::pin!(join_all(work));
        tokio::select! {
            outputs = &mut work => outputs,
            _ = given_up(cancel, self.turn.deadline(&self.means.rules)) => {
                // Each tool ends what it began, and says how far it came.
                given.cancel();
                work.await
            }
        }
    }

    fn job(&self, call: Call) -> Job {
        let kind = self.means.tools.kind(&call.tool).unwrap_or(Kind::Other);
        let title = self.means.tools.title(&call.tool, &call.input);
        Job { call, kind, title }
    }

    /// Why a call is not carried out.
    async fn refusal(&self, job: &Job, cancel: &CancellationToken) -> Option<String> {
        if let Value::String(text) = &job.call.input {
            let shown = cut_at_boundary(text, 200);
            return Some(format!(
                "The arguments of {} are no JSON object, so nothing was done. They begin: {shown}",
                job.call.tool
            ));
        }
        // A tool that is not there does nothing, and says so: nobody is to be asked.
        if job.only_looks() || self.means.tools.kind(&job.call.tool).is_none() {
            return None;
        }
        match self.means.mode {
            Mode::Free => None,
            Mode::ReadOnly => {
                Some(format!("Not done: this session only looks, and {} does more.", job.call.tool))
            }
            Mode::Ask => {
                let permit = tokio::select! {
                    permit = self.host.permit(&job.call, &job.title, job.kind) => permit,
                    () = cancel.cancelled() => Permit::No(String::from("cancelled")),
                };
                match permit {
                    Permit::Yes => None,
                    Permit::No(why) => Some(format!(
                        "Not permitted: {why}. Do the task another way, or say in your answer what could not be done."
                    )),
                }
            }
        }
    }

    /// Cancelled while it was asked: nothing was begun.
    fn stopped(&mut self, batch: &[Job]) -> io::Result<()> {
        for job in batch {
            let text = String::from("Not carried out: the turn was cancelled.");
            self.record(&Fact::Result { call: job.call.id.clone(), text: text.clone(), failed: true })?;
            self.host.news(News::CallEnded { id: job.call.id.clone(), text, failed: true });
        }
        Ok(())
    }
}
