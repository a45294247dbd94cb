//! The next run by a resume: through the same gate as a spawn.

use std::sync::{Arc, PoisonError};

use subagent_core::admission::{self, Asking, Facts, ParentFacts};
use subagent_core::run::{Command, Phase, Refusal, Subagent};
use subagent_model::{MessageMode, Problem, RunNumber, Timestamp};
use subagent_store::{Content, ContentKind};
use tokio::sync::oneshot;

use super::super::batch::Batch;
use super::super::book;
use super::message::{ActError, Resume, Resumed};
use super::{Answer, Writer};

/// The whole prompt of a run, to be kept beside the record.
pub(super) fn prompt_of(run: RunNumber, text: Arc<str>) -> Content {
    Content { run, kind: ContentKind::Prompt, text }
}

impl Writer {
    pub(super) fn stage_resume(
        &mut self,
        batch: &mut Batch,
        resume: Resume,
        reply: oneshot::Sender<Result<Resumed, Problem>>,
        answers: &mut Vec<Answer>,
        now: Timestamp,
    ) {
        match self.try_resume(batch, resume, now) {
            Ok(Opened::Staged(id, run)) => answers.push(Answer::Resume { id, run, reply }),
            Ok(Opened::Waits(state)) => {
                let _ = reply.send(Ok(Resumed { state, run: None, existing: true }));
            }
            Ok(Opened::Before(state, run)) => {
                let _ = reply.send(Ok(Resumed { state, run: Some(run), existing: true }));
            }
            Err(problem) => {
                let _ = reply.send(Err(problem));
            }
        }
    }

    fn try_resume(&mut self, batch: &mut Batch, resume: Resume, now: Timestamp) -> Result<Opened, Problem> {
        let id = resume.id;
        let state = self.newest(batch, id).ok_or(ActError::NotFound(id))?;
        if let Some(run) = resume.key.as_ref().and_then(|key| state.run_of_key(&resume.requester, key)) {
            // In the same round it is told once that is committed.
            let staged = batch.get(id).is_some();
            return Ok(if staged { Opened::Staged(id, Some(run)) } else { Opened::Before(state, run) });
        }
        if !state.is_ended() {
            let Some(text) = resume.queue else {
                let refusal = Refusal::StillRunning { run: state.run.number, status: state.status() };
                return Err(Problem::from(ActError::Refused(refusal)).with_ids(vec![id.to_string()]));
            };
            let post = Command::Post {
                from: resume.requester,
                mode: MessageMode::FollowUp,
                text,
                attachments: resume.attachments,
                or_follow_up: false,
                key: resume.key,
            };
            let posted = self.try_act(batch, id, post, None, now)?;
            // The same request again: its message waits already.
            return Ok(if posted { Opened::Staged(id, None) } else { Opened::Waits(state) });
        }
        // What can be refused for its own sake comes before what the gate says.
        let command = Command::Resume {
            prompt: resume.prompt,
            attachments: resume.attachments,
            requester: resume.requester,
            key: resume.key,
        };
        subagent_core::run::decide(&state, &command, now).map_err(ActError::Refused)?;
        self.admit_run(batch, &state, now)?;
        let run = state.run.number.next();
        let content = resume.whole.map(|text| prompt_of(run, text));
        self.try_act(batch, id, command, content, now)?;
        if !resume.secrets.is_empty() {
            let mut secrets = self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            secrets.entry(id).or_default().extend(resume.secrets);
        }
        Ok(Opened::Staged(id, Some(run)))
    }

    /// The gate for the next run of `state`.
    pub(super) fn admit_run(
        &mut self,
        batch: &Batch,
        state: &Subagent,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let mut facts = self.facts(state.spec.durable, Asking::Resume);
        if let Some(parent) = state.parent
            && state.spec.mode.is_delivered()
            && let Some(parent_state) = self.newest(batch, parent)
            // A parent that has ended binds nobody any more: whoever resumes is the requester.
            && !matches!(parent_state.run.phase, Phase::Ended(_))
        {
            let already_live = u32::from(state.is_live());
            facts.parent = Some(ParentFacts {
                depth: parent_state.depth,
                open: !matches!(parent_state.run.phase, Phase::Stopping { .. }),
                live_children: self.book.live_child_count(parent).saturating_sub(already_live),
                tree_total: 0,
                recent_spawns: self.book.recent_spawns(parent, now, self.limits.rate_window()),
                levels: None,
                types: None,
            });
        }
        self.open_account(state.root);
        facts.tree =
            self.book.accounts.get(&state.root).map(|account| account.facts(book::reservation(state)));
        facts.would_start = self.starts_without_queue()
            && self.book.would_start(state.id, &state.spec, &state.requester, state.parent, now);
        admission::admit(&self.limits, &facts)?;
        if let (Some(parent), Some(_)) = (state.parent, &facts.parent) {
            self.book.note_run(parent, now);
        }
        Ok(())
    }

    /// What the gate asks about this node.
    pub(super) fn facts(&mut self, durable: bool, kind: Asking) -> Facts {
        let room = self.room.look();
        Facts {
            kind,
            parent: None,
            tree: None,
            queued: u32::try_from(self.book.queue.len()).unwrap_or(u32::MAX),
            disk_free_mb: room.disk_mb.filter(|_| durable),
            memory_free_mb: room.memory_mb,
            would_start: false,
            draining: self.draining,
        }
    }

    /// Where there is no queue, only what could start at once is taken.
    pub(super) fn starts_without_queue(&mut self) -> bool {
        self.limits.queue == 0 && !self.held && !self.opening && self.room.hold(&self.limits).is_none()
    }
}

enum Opened {
    /// In this round; the run, unless it became a follow-up.
    Staged(subagent_model::SubagentId, Option<RunNumber>),
    /// The same request waits as a follow-up.
    Waits(Arc<Subagent>),
    /// The same request opened it before.
    Before(Arc<Subagent>, RunNumber),
}
