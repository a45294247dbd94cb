//! Unread results: asked for, claimed by carriers, given back, consumed.

use std::time::Duration;

use subagent_core::delivery::{CLAIM_BOUND, notice, owed};
use subagent_core::run::Command;
use subagent_core::snapshot::record_of_run;
use subagent_model::request::{ClaimRequest, InboxItem, ReturnRequest};
use subagent_model::{Problem, Requester, RunNumber, SubagentId};
use subagent_store::{OwedRun, Store, StoreError};
use tokio::time::Instant;

use super::super::writer::Act;
use super::super::{Engine, Inner, clock};
use super::prepare::{LONGEST_WORD, invalid};
use super::{LARGEST_PAGE, LONGEST_WAIT, bounded_answer, problem};
use crate::runtime::Caller;

/// The longest time for which a carrier may hold a result.
const LONGEST_CLAIM: Duration = Duration::from_mins(5);

impl Engine {
    /// What the caller has not consumed; waits for the first one if told to. Asked again and again, never told once.
    pub(super) async fn unread(
        &self,
        requester: &Requester,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<Vec<InboxItem>, Problem> {
        let until = wait.map(|wait| Instant::now() + wait.min(LONGEST_WAIT));
        loop {
            let mut ends = self.inner.waiters.any_end();
            let items = self.read_inbox(Some(requester), limit)?;
            match until {
                Some(until) if items.is_empty() && Instant::now() < until => {
                    let _ = tokio::time::timeout_at(until, ends.changed()).await;
                }
                _ => return Ok(items),
            }
        }
    }

    pub(super) fn read_inbox(
        &self,
        requester: Option<&Requester>,
        limit: u32,
    ) -> Result<Vec<InboxItem>, Problem> {
        Ok(self.inner.owed(requester, limit).map_err(problem)?.iter().filter_map(inbox_item).collect())
    }

    pub(super) async fn claim_results(
        &self,
        caller: &Caller,
        request: ClaimRequest,
    ) -> Result<Vec<InboxItem>, Problem> {
        if request.carrier.is_empty() || request.carrier.len() > LONGEST_WORD {
            return Err(invalid(format!("a carrier has a name of at most {LONGEST_WORD} bytes")));
        }
        let hold = request.hold_ms.map_or(CLAIM_BOUND, Duration::from_millis).min(LONGEST_CLAIM);
        let limit = request.limit.unwrap_or(100).clamp(1, LARGEST_PAGE);
        let wait = request.wait_ms.map(Duration::from_millis).unwrap_or_default().min(LONGEST_WAIT);
        let until = Instant::now() + wait;
        loop {
            let mut ends = self.inner.waiters.any_end();
            let claimed = self.claim_now(&caller.requester, &request.carrier, hold, limit).await?;
            if !claimed.is_empty() || Instant::now() >= until {
                return Ok(claimed);
            }
            // A claim of somebody else may run out meanwhile: nothing tells of that.
            let look = (Instant::now() + Duration::from_secs(1)).min(until);
            let _ = tokio::time::timeout_at(look, ends.changed()).await;
        }
    }

    async fn claim_now(
        &self,
        requester: &Requester,
        carrier: &str,
        hold: Duration,
        limit: u32,
    ) -> Result<Vec<InboxItem>, Problem> {
        let now = clock::now();
        // Others may hold the oldest ones.
        let look = limit.saturating_mul(2).saturating_add(100);
        let owed = self.inner.owed(Some(requester), look).map_err(problem)?;
        let free = owed.iter().filter(|run| {
            subagent_core::delivery::owed(&run.state).any(|owed| {
                owed.run == run.run && (owed.is_free(now) || owed.claim.is_some_and(|c| c.carrier == carrier))
            })
        });
        let mut pending = Vec::new();
        for OwedRun { state, run, .. } in free.take(limit as usize) {
            let command =
                Command::ClaimDelivery { run: *run, carrier: carrier.to_owned(), until: now.after(hold) };
            let (reply, answer) = tokio::sync::oneshot::channel();
            self.inner.send(Act { reply: Some(reply), ..Act::new(state.id, command) }.into());
            pending.push((*run, answer));
        }
        let mut items = Vec::new();
        for (run, answer) in pending {
            // Whoever was faster has it.
            let Ok(acted) = bounded_answer(answer).await? else { continue };
            items.extend(inbox_item(&OwedRun { ended_at: now, run, state: acted.state }));
        }
        Ok(items)
    }

    pub(super) async fn return_results(
        &self,
        caller: &Caller,
        request: ReturnRequest,
    ) -> Result<(), Problem> {
        let targets =
            request.deliveries.iter().map(|name| delivery_of(name)).collect::<Result<Vec<_>, _>>()?;
        for (id, run) in targets {
            self.for_caller(caller, id, super::authority::Access::See)?;
            let (carrier, reason) = (request.carrier.clone(), request.reason.clone());
            self.act(id, Command::ReturnDelivery { run, carrier, reason }, false).await?;
        }
        Ok(())
    }
}

impl Inner {
    /// What is owed to a requester, or to all, oldest first.
    pub(crate) fn owed(&self, requester: Option<&Requester>, limit: u32) -> Result<Vec<OwedRun>, StoreError> {
        let limit = limit.clamp(1, LARGEST_PAGE);
        let mut owed = self.store.owed(requester, None, limit)?;
        owed.extend(self.memory.owed(requester, None, limit)?);
        owed.sort_unstable_by_key(OwedRun::place);
        owed.truncate(limit as usize);
        Ok(owed)
    }
}

/// `SUBAGENT.RUN`.
fn delivery_of(name: &str) -> Result<(SubagentId, RunNumber), Problem> {
    let parts = name.split_once('.').and_then(|(id, run)| Some((id.parse().ok()?, run.parse().ok()?)));
    let (id, run) = parts.ok_or_else(|| invalid(format!("{name:?} is no delivery: SUBAGENT.RUN")))?;
    Ok((id, RunNumber(run)))
}

/// What the inbox tells of a run; `None` when its state does not owe it, which no store says.
pub(super) fn inbox_item(OwedRun { state, run, .. }: &OwedRun) -> Option<InboxItem> {
    let owed = owed(state).find(|owed| owed.run == *run)?;
    let record = record_of_run(state, *run)?;
    Some(InboxItem {
        delivery_id: owed.delivery_id(),
        run: *run,
        requester: owed.requester.to_string(),
        tries: owed.tries,
        notice: notice(&record),
        claimed: owed.claim.filter(|claim| claim.holds(clock::now())).map(|claim| claim.carrier.clone()),
        record,
    })
}
