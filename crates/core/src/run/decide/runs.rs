//! The next run of a subagent: by a resume, or by a follow-up that waited. One path for both.

use subagent_model::{Attachment, BoundedText, EventKind, QueueReason, Requester, ReturnReason};

use super::super::command::{NotResumable, Refusal};
use super::super::state::Subagent;
use super::{Decision, Table};

impl Table<'_> {
    pub(super) fn resume(
        &self,
        prompt: &BoundedText,
        attachments: &[Attachment],
        requester: &Requester,
        key: Option<&String>,
    ) -> Decision {
        if key.is_some_and(|key| self.state.run_of_key(requester, key).is_some()) {
            return Ok(vec![]);
        }
        if !self.state.is_ended() {
            return Err(self.still_running());
        }
        resumable(self.state)?;
        Ok(vec![
            EventKind::Resumed {
                prompt: prompt.clone(),
                attachments: attachments.to_vec(),
                requester: requester.clone(),
                message: None,
                key: key.cloned(),
            },
            EventKind::Queued { reason: QueueReason::Capacity },
        ])
    }

    pub(super) fn next_run(&self, prompt: &BoundedText) -> Decision {
        if !self.state.is_ended() {
            return Err(self.still_running());
        }
        resumable(self.state)?;
        let Some(next) = self.state.mail.next_follow_up() else { return Err(self.illegal()) };
        Ok(vec![
            EventKind::Resumed {
                prompt: prompt.clone(),
                attachments: next.attachments.clone(),
                // A message of the runtime is part of what was asked before.
                requester: if next.from.as_str() == super::super::RUNTIME {
                    self.state.requester.clone()
                } else {
                    next.from.clone()
                },
                message: Some(next.number),
                key: next.key.clone(),
            },
            EventKind::Queued { reason: QueueReason::Capacity },
        ])
    }

    pub(super) fn return_follow_ups(&self, reason: ReturnReason) -> Vec<EventKind> {
        let waiting = self.state.mail.follow_ups();
        waiting.map(|message| EventKind::MessageReturned { number: message.number, reason }).collect()
    }

    fn still_running(&self) -> Refusal {
        Refusal::StillRunning { run: self.state.run.number, status: self.state.status() }
    }
}

/// Whether a next run can go on where the last one ended, once that has ended.
pub(crate) fn resumable(state: &Subagent) -> Result<(), Refusal> {
    let why = if state.warm.as_ref().is_some_and(|warm| warm.closing.is_none()) {
        return Ok(());
    } else if !state.spec.can.resume {
        NotResumable::ProviderCannot
    } else if state.session.is_none() {
        NotResumable::NoSession
    } else {
        return Ok(());
    };
    Err(Refusal::NotResumable { why })
}
