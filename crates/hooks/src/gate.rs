//! The port for code that decides, and the order in which it is asked. A decision comes within its deadline, or the
//! gate's own default is taken.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use subagent_model::{Conclusion, Requester, SpawnSpec, SubagentId};

use crate::contain::{Failure, contained};
use crate::info::RunFacts;

/// How long a gate may take for one decision unless it says otherwise.
pub const GATE_DEADLINE: Duration = Duration::from_secs(10);

/// How often gates may make one run go on.
pub const MAX_CONTINUATIONS: u32 = 8;

/// A run that wants to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnAsk {
    /// What is asked for.
    pub spec: Arc<SpawnSpec>,
    /// The subagent whose next run it is, when it is a resume.
    pub resumes: Option<SubagentId>,
    /// Its parent.
    pub parent: Option<SubagentId>,
    /// Distance from the root of its tree.
    pub depth: u32,
    /// Who asks.
    pub requester: Requester,
}

/// A run that is about to end.
#[derive(Debug, Clone, PartialEq)]
pub struct EndAsk {
    /// Whose.
    pub facts: RunFacts,
    /// How it would end.
    pub conclusion: Arc<Conclusion>,
    /// True when a stop was accepted.
    pub stopping: bool,
    /// What the child said last.
    pub last_assistant_message: Option<Arc<str>>,
    /// How often gates have made it go on so far.
    pub continuations: u32,
}

/// What a gate says to a run that wants to begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SpawnDecision {
    /// It may.
    #[default]
    Allow,
    /// It may not.
    Deny {
        /// Why, for the caller.
        reason: String,
    },
}

/// What a gate says to a run that is about to end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EndDecision {
    /// It may end.
    #[default]
    Allow,
    /// It goes on.
    Continue {
        /// Why: the next message to the child. A blank one lets the run end, since there is nothing to say.
        reason: String,
    },
}

/// What counts when a gate panics or is late.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnFailure {
    /// For a run that wants to begin.
    pub at_spawn: SpawnDecision,
    /// For a run that is about to end.
    pub at_end: EndDecision,
}

/// Decides. A gate may be slow, but must not block its thread. Name, deadline and defaults are asked once, at
/// registration.
#[async_trait]
pub trait Gate: Send + Sync + 'static {
    /// Its name in logs and refusals.
    fn name(&self) -> &str;

    /// How long one decision may take.
    fn deadline(&self) -> Duration {
        GATE_DEADLINE
    }

    /// What counts when it fails: unless it says otherwise, as if it had allowed.
    fn on_failure(&self) -> OnFailure {
        OnFailure::default()
    }

    /// May this run begin?
    async fn at_spawn(&self, _ask: &SpawnAsk) -> SpawnDecision {
        SpawnDecision::Allow
    }

    /// May this run end?
    async fn at_end(&self, _ask: &EndAsk) -> EndDecision {
        EndDecision::Allow
    }
}

/// What all gates together say to a run that wants to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpawnRuling {
    /// It may.
    Allowed,
    /// One of them refused.
    Denied {
        /// Which.
        gate: Arc<str>,
        /// Why.
        reason: String,
    },
}

/// What all gates together say to a run that is about to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndRuling {
    /// It ends.
    Ends,
    /// It ends: it was made to go on as often as is allowed, and nobody was asked.
    Exhausted,
    /// It goes on.
    Continues {
        /// Which gate wants it.
        gate: Arc<str>,
        /// The next message to the child.
        reason: String,
    },
}

/// Whether a run that went on `continuations` times may be made to go on once more.
pub fn may_continue(continuations: u32) -> bool {
    continuations < MAX_CONTINUATIONS
}

/// All gates, asked in the order of their registration.
#[derive(Clone, Default)]
pub struct Gates {
    gates: Arc<[Guarded]>,
}

/// A gate with what was asked of it beforehand.
struct Guarded {
    name: Arc<str>,
    deadline: Duration,
    on_failure: OnFailure,
    gate: Arc<dyn Gate>,
}

impl Gates {
    /// These gates.
    pub fn new(gates: &[Arc<dyn Gate>]) -> Self {
        let guarded = |gate: &Arc<dyn Gate>| Guarded {
            name: Arc::from(gate.name()),
            deadline: gate.deadline(),
            on_failure: gate.on_failure(),
            gate: Arc::clone(gate),
        };
        Self { gates: gates.iter().map(guarded).collect() }
    }

    /// True when there is nobody to ask.
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Asks whether a run may begin. The first refusal decides, and no later gate is asked.
    pub async fn at_spawn(&self, ask: &SpawnAsk) -> SpawnRuling {
        for guarded in &*self.gates {
            let call = contained(async { guarded.gate.at_spawn(ask).await }, guarded.deadline).await;
            let decision =
                call.unwrap_or_else(|failure| guarded.default(&failure, &guarded.on_failure.at_spawn));
            if let SpawnDecision::Deny { reason } = decision {
                return SpawnRuling::Denied { gate: Arc::clone(&guarded.name), reason };
            }
        }
        SpawnRuling::Allowed
    }

    /// Asks whether a run may end. The first that wants it to go on decides, and no later gate is asked. Nobody is asked
    /// about a stopped run, which stays stopped, nor about one that went on as often as is allowed.
    pub async fn at_end(&self, ask: &EndAsk) -> EndRuling {
        if self.is_empty() || ask.stopping {
            return EndRuling::Ends;
        }
        if !may_continue(ask.continuations) {
            return EndRuling::Exhausted;
        }
        for guarded in &*self.gates {
            let call = contained(async { guarded.gate.at_end(ask).await }, guarded.deadline).await;
            let decision =
                call.unwrap_or_else(|failure| guarded.default(&failure, &guarded.on_failure.at_end));
            match decision {
                EndDecision::Continue { reason } if reason.trim().is_empty() => {
                    tracing::warn!(gate = %guarded.name, "a gate wants a run to go on without a reason");
                }
                EndDecision::Continue { reason } => {
                    return EndRuling::Continues { gate: Arc::clone(&guarded.name), reason };
                }
                EndDecision::Allow => {}
            }
        }
        EndRuling::Ends
    }
}

impl Guarded {
    fn default<T: Clone>(&self, failure: &Failure, decision: &T) -> T {
        tracing::warn!(gate = %self.name, %failure, "a gate failed; its default counts");
        decision.clone()
    }
}
