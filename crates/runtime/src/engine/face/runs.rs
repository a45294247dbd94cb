//! The next run, and what there is of earlier ones.

use std::collections::BTreeMap;
use std::time::Duration;

use subagent_core::snapshot::{record, record_of_run};
use subagent_model::request::{ResumeRequest, RunList};
use subagent_model::{Problem, RunNumber, SubagentId};
use subagent_provider::bound;
use tokio::sync::oneshot;

use super::super::Engine;
use super::super::writer::{Message, Resume, Resumed};
use super::authority::Access;
use super::prepare::{LONGEST_WORD, check_environment, invalid};
use super::{LONGEST_WAIT, bounded_answer};
use crate::runtime::{Caller, ResumeReply};

impl Engine {
    pub(super) async fn open_run(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: ResumeRequest,
    ) -> Result<ResumeReply, Problem> {
        let wait = request.wait_ms.map(Duration::from_millis);
        let opened = self.ask_for_run(caller, id, request).await;
        let (Resumed { state, run, existing }, ignored) =
            opened.map_err(|refusal| self.inner.refusals.note(refusal))?;
        let mut reply = ResumeReply { record: record(&state), run, ended: false, existing, ignored };
        if let (Some(wait), Some(run)) = (wait, run) {
            let waited = self.wait_for(caller, id, run, wait.min(LONGEST_WAIT)).await?;
            (reply.record, reply.ended) = (waited.record, waited.ended);
        }
        Ok(reply)
    }

    /// The run, and the parts of the request that it does not use.
    async fn ask_for_run(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: ResumeRequest,
    ) -> Result<(Resumed, Vec<String>), Problem> {
        let before = self.for_caller(caller, id, Access::Control)?;
        if request.prompt.trim().is_empty() {
            return Err(invalid("a resume needs a prompt"));
        }
        if request.idempotency_key.as_ref().is_some_and(|key| key.len() > LONGEST_WORD) {
            return Err(invalid(format!("an idempotency key has at most {LONGEST_WORD} bytes")));
        }
        check_environment(request.secret_env.iter())?;
        // Nothing may start in a directory that is gone, or in another one instead.
        self.inner.cwds.check_anew(&before.spec.cwd).await?;
        self.inner.registry.get(&before.spec.provider)?;
        self.ask_gates_again(caller, &before, &request.prompt).await?;
        let attachments = self.attach_to(&before, request.attachments).await?;
        let mut ignored = Vec::new();
        if request.agent_type.as_ref().is_some_and(|given| *given != before.spec.agent_type) {
            ignored.push(format!("agent_type: it stays {:?}", before.spec.agent_type));
        }
        if request.model.is_some() && request.model != before.spec.model {
            let kept = before.spec.model.as_deref().unwrap_or("the provider's own");
            ignored.push(format!("model: it stays {kept:?}"));
        }
        let (known, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) =
            request.secret_env.into_iter().partition(|(name, _)| before.spec.secret_env.contains(name));
        ignored.extend(unknown.keys().map(|name| format!("secret_env {name}: the spawn did not have it")));
        let queue = request.queue.then(|| request.prompt.clone());
        let (prompt, whole) = bound(request.prompt);
        let resume = Resume {
            id,
            prompt,
            attachments,
            requester: caller.requester.clone(),
            whole,
            queue,
            key: request.idempotency_key,
            secrets: known,
        };
        let (reply, answer) = oneshot::channel();
        self.inner.send(Message::Resume(Box::new(resume), reply));
        Ok((bounded_answer(answer).await??, ignored))
    }

    pub(super) fn list_runs(&self, caller: &Caller, id: SubagentId) -> Result<RunList, Problem> {
        let state = self.for_caller(caller, id, Access::See)?;
        let numbers = (1..=state.run.number.0).map(RunNumber);
        let items = numbers.filter_map(|number| record_of_run(&state, number)).collect();
        Ok(RunList { id, items })
    }
}
