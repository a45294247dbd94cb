//! The one trait that every face depends on: what can be asked of a runtime, in-process or through a daemon alike.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use subagent_core::admission::Limits;
use subagent_model::agents::TypeList;
use subagent_model::request::{
    Activity, AnswerRequest, BudgetRequest, ClaimRequest, GcReply, GcRequest, Health, InboxItem, ListFilter,
    LogPage, MessageList, OpenRequest, Page, QueuePlace, RequestList, ResumeRequest, ReturnRequest, RunList,
    SpawnRequest, SteerReply, SteerRequest, StopAllReply, StopAllRequest, StopReply, StopRequest, TextPart,
    UsageReport, WaitOptions, WaitReply,
};
use subagent_model::{
    Cursor, Event, InnerList, Problem, RequestNumber, Requester, RunNumber, StopInnerReply, StopInnerRequest,
    SubagentId, SubagentRecord, TranscriptPage,
};

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
    /// What was chosen where nobody said, and what of the agent type or the call was set aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a resume gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ResumeReply {
    /// The subagent as it stands at the reply.
    pub record: SubagentRecord,
    /// The run that was opened; absent when the prompt waits as a follow-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunNumber>,
    /// True when that run has ended; only where the caller asked to wait.
    pub ended: bool,
    /// True when the idempotency key named this run already.
    pub existing: bool,
    /// Parts of the request that a resume does not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
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
/// Callers see and control what is theirs: a person (`user:...`) everything, a subagent what is below it, any other
/// requester what it asked for and what is below that. Anything else is `not_yours`.
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
    /// `prompt_too_large`, `gate_denied`, and by the gate of admission `depth_limit`, `breadth_limit`, `tree_limit`,
    /// `spawn_rate`, `tree_budget`, `queue_full`, `disk_floor`, `memory_pressure`, `parent_ended`. A program that is missing
    /// is the end of the run, not a refusal.
    async fn spawn(&self, caller: &Caller, request: SpawnRequest) -> Result<SpawnReply, Problem>;

    /// Opens the next run of a subagent that has ended or is idle, through the same gate of admission. `still_running` while
    /// a run is live, unless it may wait as a follow-up; `not_resumable` or `session_gone` where it cannot go on.
    async fn resume(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: ResumeRequest,
    ) -> Result<ResumeReply, Problem>;

    /// Sends a message, or interrupts the current turn. Returns with the receipt as it stands, or, with `wait_ms`, with its
    /// last word. `no_open_turn`, `not_capable`, `not_resumable`, `mailbox_full`, `prompt_too_large` where it is not
    /// accepted; nothing is queued then.
    async fn steer(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: SteerRequest,
    ) -> Result<SteerReply, Problem>;

    /// The messages of a subagent with their receipts.
    async fn messages(&self, caller: &Caller, id: SubagentId) -> Result<MessageList, Problem>;

    /// The subagent of this id, handle, or unique beginning of one; `ambiguous`, with the candidates, when there are more.
    async fn resolve(&self, name: &str) -> Result<SubagentId, Problem>;

    /// The record, as committed last.
    async fn get(&self, caller: &Caller, id: SubagentId) -> Result<SubagentRecord, Problem>;

    /// Every run of a subagent, oldest first.
    async fn runs(&self, caller: &Caller, id: SubagentId) -> Result<RunList, Problem>;

    /// What a subagent and everything below it used, each member once. Use that nobody reported is absent, not 0. Of a tree
    /// of more than 10,000 members the oldest count, and those that are live.
    async fn usage(&self, caller: &Caller, id: SubagentId) -> Result<UsageReport, Problem>;

    /// Where a run stands in the queue, and what holds it.
    async fn queue_place(&self, caller: &Caller, id: SubagentId) -> Result<QueuePlace, Problem>;

    /// A page of records, newest first: 50 unless the filter says otherwise, at most 1,000.
    async fn list(&self, caller: &Caller, filter: ListFilter) -> Result<Page, Problem>;

    /// Waits for the end of a run, 30 seconds unless told otherwise and at most a day. Time that ran out is no error: the
    /// reply says that the run has not ended. Giving up stops nothing, and nothing is consumed. A subagent that waits for
    /// what is below it lends its slot meanwhile.
    async fn wait(&self, caller: &Caller, id: SubagentId, options: WaitOptions)
    -> Result<WaitReply, Problem>;

    /// Asks to stop; returns with the state reached once that is on disk, and never waits for the child. Stopping what
    /// has ended or is being stopped changes nothing and is no error. Stopping an idle subagent closes its process.
    async fn stop(&self, caller: &Caller, id: SubagentId, request: StopRequest)
    -> Result<StopReply, Problem>;

    /// The subagents that a child runs inside of itself, as it tells of them: those of its live conversation as they stand, and
    /// those of earlier ones as they ended, or as lost. They have no records. At most 1,024, the newest.
    async fn inner(&self, caller: &Caller, id: SubagentId) -> Result<InnerList, Problem>;

    /// Tells a child to stop one of those, where it announces that it can. Returns once it was told; it says itself when
    /// that one has stopped. One that is at work no longer changes nothing and is no error. `not_found`; `not_capable`,
    /// with the reason, where only all of it can be stopped; `illegal_transition` while its conversation ends.
    async fn stop_inner(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: StopInnerRequest,
    ) -> Result<StopInnerReply, Problem>;

    /// Asks to stop everything that is the caller's, in one step.
    async fn stop_all(&self, caller: &Caller, request: StopAllRequest) -> Result<StopAllReply, Problem>;

    /// Waits until no process of a subagent and of what is below it is left; false when the time ran out. Detached ones
    /// below it are not waited for.
    async fn gone(&self, caller: &Caller, id: SubagentId, wait: Duration) -> Result<bool, Problem>;

    /// Changes the budget of the running run.
    async fn change_budget(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: BudgetRequest,
    ) -> Result<SubagentRecord, Problem>;

    /// What children ask and nobody has answered; with `all`, also what their current runs asked before.
    async fn requests(&self, caller: &Caller, all: bool) -> Result<RequestList, Problem>;

    /// Answers a request of a child. `already_answered` when it is no longer open, `wrong_answer` when the answer does not
    /// fit it. Nobody answers for itself.
    async fn answer(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
        request: AnswerRequest,
    ) -> Result<OpenRequest, Problem>;

    /// Takes a standing answer back.
    async fn revoke(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
    ) -> Result<SubagentRecord, Problem>;

    /// A part of the whole result of a run (the current one when `None`): at most `max` bytes from byte `offset` on, cut
    /// between characters. `still_running` while there is none. Reading consumes nothing.
    async fn result(
        &self,
        caller: &Caller,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem>;

    /// A page of the child's raw output, about 256 KiB, from a position of the newest attempt's log on: 0, or `next` of the
    /// page before. With `wait`, does not return empty before that time unless no more will come. `damaged_log` when the
    /// log cannot be read at all; damage within it is a part of the page.
    async fn output(
        &self,
        caller: &Caller,
        id: SubagentId,
        from: u64,
        wait: Option<Duration>,
    ) -> Result<LogPage, Problem>;

    /// The agent types that can be asked for in a directory, or the one of this name with its whole definition; and the
    /// providers, with where their programs are on `path`. `invalid_cwd`; `invalid_request` with the usable names in `ids`.
    async fn types(
        &self,
        caller: &Caller,
        cwd: Utf8PathBuf,
        path: Option<String>,
        name: Option<&str>,
    ) -> Result<TypeList, Problem>;

    /// A page of the transcript of all its attempts, at most 1,000 entries, from the beginning or from `next` of the page
    /// before on. With `wait`, does not return empty before that time unless no more will come. Empty for children that are
    /// not spoken with: they have their output only.
    async fn transcript(
        &self,
        caller: &Caller,
        id: SubagentId,
        after: Option<&str>,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<TranscriptPage, Problem>;

    /// Ended runs that this caller has not consumed, oldest first, at most 1,000. With `wait`, does not return empty before
    /// that time: it asks whether there is anything, not whether something has just happened.
    async fn inbox(
        &self,
        caller: &Caller,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<Vec<InboxItem>, Problem>;

    /// What nobody has consumed, whoever it is for. Only for a person.
    async fn inbox_of_all(&self, caller: &Caller, limit: u32) -> Result<Vec<InboxItem>, Problem>;

    /// Takes results for a bounded time: no other carrier gets them meanwhile. They are consumed by an acknowledgement, and
    /// free again once the time is over or the carrier gives them back.
    async fn claim(&self, caller: &Caller, request: ClaimRequest) -> Result<Vec<InboxItem>, Problem>;

    /// Gives claimed results back that could not be handed over.
    async fn give_back(&self, caller: &Caller, request: ReturnRequest) -> Result<(), Problem>;

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

    /// Durable events after a position that the caller may see, in order, at most 1,000. With `wait`, does not return empty
    /// before that time. Events of runs that are not durable are not among them. `cursor_gone`, with the position to go on
    /// from, where events after the position were released.
    async fn events(
        &self,
        caller: &Caller,
        after: Cursor,
        limit: u32,
        wait: Option<Duration>,
    ) -> Result<EventPage, Problem>;

    /// What children are doing right now: momentary, lossy, never stored.
    async fn activity(&self, caller: &Caller) -> Result<Vec<Activity>, Problem>;

    /// Releases what retention allows, or says what it would release.
    async fn gc(&self, caller: &Caller, request: GcRequest) -> Result<GcReply, Problem>;

    /// The limits in force.
    async fn limits(&self) -> Result<Limits, Problem>;

    /// Changes the limits for what is decided from now on: nothing that runs or waits is turned away. Only for a person.
    async fn set_limits(&self, caller: &Caller, limits: Limits) -> Result<Limits, Problem>;

    /// How the runtime stands.
    async fn health(&self) -> Result<Health, Problem>;

    /// The subagent that a process belongs to, whatever it says about itself. Doors on this machine ask it, so that a child
    /// is known as what it is.
    fn subagent_of_process(&self, pid: u32) -> Option<SubagentId>;
}

/// Events, and the position after all that was looked at: those that the caller may not see are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    /// The events. Shared: a thousand subscribers hold each of them once.
    pub items: Vec<Arc<Event>>,
    /// Pass it as `after` to read on.
    pub next: Cursor,
}
