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
///
/// Errors are values with a stable code. Any call may meet `store_failed` and its kin, a change also `timeout` (no commit
/// within ten seconds; it may still happen) and `draining`, and a client `daemon_unreachable`. A call that names a
/// subagent or a run which is not there gets `not_found`. Further codes stand at the call.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Asks for a subagent. Returns once it is durably accepted, or, with `wait_ms`, once it has ended or the time ran
    /// out.
    ///
    /// Refused before anything is started: `invalid_request`, `invalid_cwd`, `unknown_provider`, `not_capable`,
    /// `prompt_too_large`, and by the gate `depth_limit`, `breadth_limit`, `tree_limit`, `spawn_rate`, `queue_full`,
    /// `disk_floor`, `parent_ended`. A program that is missing is the end of the run, not a refusal.
    async fn spawn(&self, caller: &Caller, request: SpawnRequest) -> Result<SpawnReply, Problem>;

    /// The subagent of this id, handle, or unique beginning of one; `ambiguous`, with the candidates, when there are more.
    async fn resolve(&self, name: &str) -> Result<SubagentId, Problem>;

    /// The record, as committed last.
    async fn get(&self, id: SubagentId) -> Result<SubagentRecord, Problem>;

    /// How many runs start before this one; `None` when it does not wait in the queue.
    async fn queue_position(&self, id: SubagentId) -> Result<Option<u64>, Problem>;

    /// A page of records, newest first: 50 unless the filter says otherwise, at most 1,000.
    async fn list(&self, filter: ListFilter) -> Result<Page, Problem>;

    /// Waits for the end of a run, 30 seconds unless told otherwise and at most a day. Time that ran out is no error: the
    /// reply says that the run has not ended. Giving up stops nothing, and nothing is consumed.
    async fn wait(&self, id: SubagentId, options: WaitOptions) -> Result<WaitReply, Problem>;

    /// Asks to stop; returns with the state reached once that is on disk, and never waits for the child. Stopping what
    /// has ended or is being stopped changes nothing and is no error.
    async fn stop(&self, caller: &Caller, id: SubagentId, request: StopRequest)
    -> Result<StopReply, Problem>;

    /// A part of the whole result of a run (the current one when `None`): at most `max` bytes from byte `offset` on, cut
    /// between characters. `still_running` while there is none. Reading consumes nothing.
    async fn result(
        &self,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem>;

    /// A page of the child's raw output, about 256 KiB, from a position of the newest attempt's log on: 0, or `next` of the
    /// page before. With `wait`, does not return empty before that time unless no more will come. `damaged_log` when the
    /// log cannot be read at all; damage within it is a part of the page.
    async fn output(&self, id: SubagentId, from: u64, wait: Option<Duration>) -> Result<LogPage, Problem>;

    /// Ended runs that this caller has not consumed, oldest first, at most 1,000.
    async fn inbox(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem>;

    /// Marks results as consumed. With `lazily`, returns before that is on disk, and says nothing of what comes of it.
    /// What cannot be consumed stands in the reply, each with its reason: `not_yours`, `not_found`, or
    /// `illegal_transition` for a run that has not ended.
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

    /// Durable events after a position, in order and without gaps, at most 1,000. With `wait`, does not return empty before
    /// that time. Events of runs that are not durable are not among them.
    async fn events(&self, after: Cursor, limit: u32, wait: Option<Duration>) -> Result<Vec<Event>, Problem>;

    /// How the runtime stands.
    async fn health(&self) -> Result<Health, Problem>;
}
