//! What happens by the passing of time alone: requests that nobody answered, quotas that are renewed, warm subagents that
//! were idle for too long. And what keeps a run in the queue.

use subagent_core::need::{Need, needs};
use subagent_core::run::{Command, Phase};
use subagent_core::slots::Held;
use subagent_model::request::QueuePlace;
use subagent_model::{Cause, QueueReason, SubagentId, Timestamp};

use super::super::batch::Batch;
use super::Writer;

impl Writer {
    /// Carries out what is due.
    pub(super) fn timers(&mut self, batch: &mut Batch, now: Timestamp) {
        for id in self.book.due(now) {
            let Some(state) = self.newest(batch, id) else { continue };
            for need in needs(&state, now) {
                let command = match need {
                    Need::Expire { number, at } if at <= now => Command::Expire { number },
                    Need::Unpark { at } if at <= now => Command::Unpark,
                    Need::Retire { at } if at <= now => Command::Stop {
                        actor: String::from("daemon"),
                        cause: Cause::IdleTooLong,
                        drop_follow_ups: false,
                    },
                    _ => continue,
                };
                if let Err(error) = self.try_act(batch, id, command, None, now) {
                    tracing::warn!(%id, %error, "what was due could not be done");
                }
            }
        }
    }

    /// Where a run stands in the queue, and what holds it.
    pub(super) fn place(&mut self, id: SubagentId, now: Timestamp) -> QueuePlace {
        let ahead = self.book.queue.position(id, now).map(|ahead| ahead as u64);
        if ahead.is_none() {
            return QueuePlace::default();
        }
        let held_by = match self.room.hold(&self.limits) {
            Some(short) => Some(short.to_owned()),
            None if self.draining => Some(String::from("the daemon is shutting down")),
            None => self.book.held_by(id, now).map(|held| words(&held, self.next_try(id))),
        };
        QueuePlace { ahead, held_by }
    }

    /// When a start that failed is tried again.
    fn next_try(&self, id: SubagentId) -> Option<Timestamp> {
        match self.inner.live(id)?.run.phase {
            Phase::Queued { reason: QueueReason::Retry { at }, .. } => Some(at),
            _ => None,
        }
    }
}

fn words(held: &Held, next_try: Option<Timestamp>) -> String {
    match held {
        Held::Running { limit } => format!("limits.running ({limit})"),
        Held::Provider { name, limit } => format!("limits.per_provider.{name} ({limit})"),
        Held::Model { name, limit } => format!("limits.per_model.{name} ({limit})"),
        Held::CoolDown { until } if next_try == Some(*until) => format!("retry not before {until}"),
        Held::CoolDown { until } => format!("rate limit until {until}"),
    }
}
