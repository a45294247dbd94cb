//! Which facts a command leads to. One table for first runs, resumes and follow-ups; one file for each kind of command.
//!
//! Three rules matter most. The fence: a command of any but the live attempt changes nothing. Stop wins: once a stop
//! is accepted the run can only end as stopped, at the time of the stop; what comes late is kept on it. First end
//! wins: an ended run never changes.

mod attempts;
mod deliveries;
mod ends;
mod limits;
mod messages;
mod requests;
mod runs;
mod turns;

pub(crate) use runs::resumable;

use subagent_model::{AttemptNumber, EventKind, QueueReason, RequestNumber, Timestamp};

use super::command::{Birth, Command, Refusal};
use super::state::{Hold, Phase, Subagent};

/// The facts of a birth that passed admission.
pub fn accept(birth: Birth) -> Vec<EventKind> {
    vec![
        EventKind::Accepted {
            handle: birth.handle,
            spec: Box::new(birth.spec),
            parent: birth.parent,
            root: birth.root,
            depth: birth.depth,
            requester: birth.requester,
        },
        EventKind::Queued { reason: QueueReason::Capacity },
    ]
}

/// What a command leads to.
type Decision = Result<Vec<EventKind>, Refusal>;

/// The facts that `command` leads to at `now`. No facts means: accepted, nothing to change.
pub fn decide(state: &Subagent, command: &Command, now: Timestamp) -> Decision {
    let table = Table { state, now, command: command.name() };
    match command {
        Command::Claim { owner, lease_until } => table.claim(owner, *lease_until),
        Command::Renew { attempt, lease_until } => table.renew(*attempt, *lease_until),
        Command::Reclaim { owner, lease_until, max_attempts } => {
            table.reclaim(owner, *lease_until, *max_attempts)
        }
        Command::Started { attempt, process } => table.started(*attempt, process.as_ref()),
        Command::Opened { attempt, session } => table.opened(*attempt, session.as_ref()),
        Command::Prompted { attempt, position } => table.prompted(*attempt, *position),
        Command::Progress { attempt, turns, more, tool_uses, compactions, usage, position } => {
            table.progress(*attempt, [*turns, *tool_uses, *compactions], *more, *usage, *position)
        }
        Command::Requeue { attempt, reason, exit, not_before, max_attempts } => {
            table.requeue(*attempt, reason, *exit, *not_before, *max_attempts)
        }
        Command::Stall { attempt, since } => table.stall(*attempt, *since),
        Command::Revive { attempt } => table.revive(*attempt),
        Command::TurnDone { attempt, conclusion, left } => table.turn_done(*attempt, conclusion, *left),
        Command::TurnCancelled { attempt, conclusion, given } => {
            table.turn_cancelled(*attempt, conclusion, *given)
        }
        Command::Nudge { attempt, nudge, given } => table.nudge(*attempt, nudge, *given),
        Command::BackgroundEnded { attempt } => table.background_ended(*attempt),
        Command::ChildrenEnded { unread } => table.children_ended(*unread),
        Command::Conclude { attempt, conclusion, children_live, max_attempts } => {
            table.conclude(*attempt, conclusion, *children_live, *max_attempts)
        }
        Command::Gone { attempt, evidence, children_live, max_attempts } => {
            table.gone(*attempt, evidence, *children_live, *max_attempts)
        }
        Command::SessionGone { attempt, reason, exit } => table.session_gone(*attempt, reason, *exit),
        Command::Stop { actor, cause, drop_follow_ups } => Ok(table.stop(actor, *cause, *drop_follow_ups)),
        Command::Unpark => table.unpark(),
        Command::Resume { prompt, attachments, requester, key } => {
            table.resume(prompt, attachments, requester, key.as_ref())
        }
        Command::NextRun { prompt } => table.next_run(prompt),
        Command::ReturnFollowUps { reason } => Ok(table.return_follow_ups(*reason)),
        Command::Post { from, mode, text, attachments, or_follow_up, key } => {
            table.post_once(from, *mode, (text, attachments), *or_follow_up, key.as_deref())
        }
        Command::Settle { attempt, number, written } => table.settle(*attempt, *number, *written),
        Command::Withdraw { number } => Ok(table.withdraw(*number)),
        Command::SetAside { number } => table.set_aside(*number),
        Command::Interrupt { by, text } => table.interrupt(by, text.as_deref()),
        Command::Ask { attempt, ask, policy, reason, expires_at } => {
            table.ask(*attempt, ask, *policy, reason.as_ref(), *expires_at)
        }
        Command::Answer { number, by, answer, reason } => table.answer(*number, by, answer, reason.as_ref()),
        Command::Expire { number } => table.expire(*number),
        Command::Told { attempt, number } => table.told(*attempt, *number),
        Command::TakeBack { attempt, key } => table.take_back(*attempt, key),
        Command::Revoke { number, by } => table.revoke(*number, by),
        Command::WrapUp { limit } => Ok(table.wrap_up(*limit)),
        Command::Cut { limit } => Ok(table.cut(*limit)),
        Command::ChangeBudget { budget, by } => table.change_budget(budget, by),
        Command::ClaimDelivery { run, carrier, until } => table.claim_delivery(*run, carrier, *until),
        Command::ReturnDelivery { run, carrier, reason } => table.return_delivery(*run, carrier, reason),
        Command::Escalate { run, to } => table.escalate(*run, to),
        Command::Acknowledge { run, by } => table.acknowledge(*run, by),
    }
}

/// One decision: the state it is about, and when.
struct Table<'a> {
    state: &'a Subagent,
    now: Timestamp,
    command: &'static str,
}

impl Table<'_> {
    fn illegal(&self) -> Refusal {
        Refusal::Illegal { command: self.command, status: self.state.status() }
    }

    fn phase(&self) -> &Phase {
        &self.state.run.phase
    }

    /// The hold, if `attempt` is the live one.
    fn fenced(&self, attempt: AttemptNumber) -> Result<&Hold, Refusal> {
        match self.state.hold() {
            Some(hold) if hold.attempt == attempt => Ok(hold),
            _ => Err(Refusal::Stale { given: attempt, latest: self.state.last_attempt }),
        }
    }

    /// A fact that came too late. One that is from the future was never given out: that is refused.
    fn late(&self, attempt: AttemptNumber, what: &str) -> Decision {
        let latest = self.state.last_attempt;
        if attempt > latest || attempt == AttemptNumber(0) {
            return Err(Refusal::Stale { given: attempt, latest });
        }
        Ok(vec![EventKind::Late { attempt, what: what.to_owned() }])
    }

    fn next_request(&self) -> RequestNumber {
        RequestNumber(self.state.last_request.0 + 1)
    }
}
