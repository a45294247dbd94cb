//! The one trait that every face depends on: what can be asked of a runtime, in-process or through a daemon alike.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use subagent_model::request::{
    Health, InboxItem, ListFilter, LogPage, Page, SpawnRequest, StopReply, StopRequest, TextPart,
    WaitOptions, WaitReply,
};
use subagent_model::{Cursor, Event, Problem, Requester, RunNumber, SubagentId, SubagentRecord};

/// Who calls: results are addressed to the requester, and a subagent that calls is the parent of what it spawns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The requester.
    pub requester: Requester,
}

/// What a spawn gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SpawnReply {
    /// The subagent as it stands at the reply.
    pub record: SubagentRecord,
    /// True when the run has ended; only where the caller asked to wait.
    pub ended: bool,
    /// True when the idempotency key named this subagent already.
    pub existing: bool,
}

/// Whose result is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckTarget {
    /// The subagent.
    pub id: SubagentId,
    /// Which run; when absent, every ended run of it that is addressed to the caller and not consumed.
    pub run: Option<RunNumber>,
}

/// The name that a door is told it by: `SUBAGENT`, or `SUBAGENT.RUN` as a delivery is named.
impl std::fmt::Display for AckTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.run {
            Some(run) => write!(f, "{}.{run}", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// What an acknowledgement did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AckReply {
    /// Acknowledged by this call or before.
    pub acknowledged: Vec<SubagentId>,
    /// Not acknowledged, each with the reason.
    pub refused: Vec<Problem>,
    /// How many ended runs of this requester are still unconsumed.
    pub unconsumed: u64,
}

/// A runtime of subagents. Every call is bounded in time; none stops a child unless it says so.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Asks for a subagent. Returns once it is durably accepted, or, with `wait_ms`, once it has ended or the time ran
    /// out.
    async fn spawn(&self, caller: &Caller, request: SpawnRequest) -> Result<SpawnReply, Problem>;

    /// The subagent of this id, handle, or unique beginning of one.
    async fn resolve(&self, name: &str) -> Result<SubagentId, Problem>;

    /// The record.
    async fn get(&self, id: SubagentId) -> Result<SubagentRecord, Problem>;

    /// How many runs start before this one; `None` when it does not wait in the queue.
    async fn queue_position(&self, id: SubagentId) -> Result<Option<u64>, Problem>;

    /// A page of records, newest first.
    async fn list(&self, filter: ListFilter) -> Result<Page, Problem>;

    /// Waits for the end of a run. Giving up stops nothing.
    async fn wait(&self, id: SubagentId, options: WaitOptions) -> Result<WaitReply, Problem>;

    /// Asks to stop; returns at once with the state reached.
    async fn stop(&self, caller: &Caller, id: SubagentId, request: StopRequest)
    -> Result<StopReply, Problem>;

    /// A part of the whole result of a run (the current one when `None`).
    async fn result(
        &self,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem>;

    /// A page of the child's raw output from a position on. With `wait`, does not return empty before that time.
    async fn output(&self, id: SubagentId, from: u64, wait: Option<Duration>) -> Result<LogPage, Problem>;

    /// Ended runs that this caller has not consumed, oldest first.
    async fn inbox(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem>;

    /// Marks results as consumed. With `lazily`, returns before that is on disk.
    async fn acknowledge(
        &self,
        caller: &Caller,
        targets: Vec<AckTarget>,
        lazily: bool,
    ) -> Result<AckReply, Problem>;

    /// Marks everything of these subagents as consumed that is addressed to the caller. Whoever has read one run uses
    /// [`Self::ack_run`]: by now another may have ended that nobody has seen.
    async fn ack(&self, caller: &Caller, ids: Vec<SubagentId>, lazily: bool) -> Result<AckReply, Problem> {
        let targets = ids.into_iter().map(|id| AckTarget { id, run: None }).collect();
        self.acknowledge(caller, targets, lazily).await
    }

    /// Marks the result of one run as consumed, and of no other.
    async fn ack_run(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: RunNumber,
        lazily: bool,
    ) -> Result<AckReply, Problem> {
        self.acknowledge(caller, vec![AckTarget { id, run: Some(run) }], lazily).await
    }

    /// Durable events after a position. With `wait`, does not return empty before that time.
    async fn events(&self, after: Cursor, limit: u32, wait: Option<Duration>) -> Result<Vec<Event>, Problem>;

    /// How the runtime stands.
    async fn health(&self) -> Result<Health, Problem>;
}
