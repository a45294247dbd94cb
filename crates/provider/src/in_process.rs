//! The in-process provider: any async closure as a subagent, for applications that embed the runtime.
//!
//! A closure lives in the daemon's process and ends with it: a run that was in one when the daemon died is lost, and
//! says so.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use subagent_model::{AttemptKey, ErrorCode, Problem, SpawnSpec};
use tokio_util::sync::CancellationToken;

use crate::{Capabilities, Job, Launch, ProcessEnd, Provider, TaskEnd, Verdict};

/// A boxed future.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a closure gets.
#[derive(Debug, Clone)]
pub struct TaskContext {
    /// Which attempt it is.
    pub key: AttemptKey,
    /// The whole prompt.
    pub prompt: Arc<str>,
    /// What was asked.
    pub spec: Arc<SpawnSpec>,
    /// The session that it is to continue, for a task that is spoken with.
    pub session: Option<String>,
    /// Fires when the run is to end. A closure that does not react is dropped after the grace.
    pub cancelled: CancellationToken,
}

/// A failure that a closure reports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TaskFailure {
    /// One line.
    pub message: String,
    /// Asking again may help.
    pub retryable: bool,
    /// What it had by then.
    pub partial: Option<String>,
}

impl TaskFailure {
    /// A failure that asking again will not mend.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retryable: false, partial: None }
    }
}

type Closure = Arc<dyn Fn(TaskContext) -> BoxFuture<TaskEnd> + Send + Sync>;

/// The provider `in-process`: closures by agent type.
#[derive(Default, Clone)]
pub struct InProcess {
    closures: BTreeMap<String, Closure>,
}

impl InProcess {
    /// The provider's name.
    pub const NAME: &str = "in-process";

    /// Adds a closure under an agent type.
    #[must_use]
    pub fn with<F, R>(mut self, agent_type: impl Into<String>, closure: F) -> Self
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = TaskEnd> + Send + 'static,
    {
        self.closures.insert(agent_type.into(), Arc::new(move |context| Box::pin(closure(context))));
        self
    }

    fn closure(&self, spec: &SpawnSpec) -> Result<&Closure, Problem> {
        self.closures.get(&spec.agent_type).ok_or_else(|| {
            let known = self.closures.keys().cloned().collect::<Vec<_>>().join(", ");
            let message = match known.as_str() {
                "" => String::from(
                    "this daemon has no in-process closures: they need an application that embeds it",
                ),
                known => format!("no closure has the agent type {:?}; there are: {known}", spec.agent_type),
            };
            Problem::new(ErrorCode::NotCapable, message)
        })
    }
}

impl Provider for InProcess {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        self.closure(spec).map(drop)
    }

    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        let closure = Arc::clone(self.closure(&job.spec)?);
        Ok(Launch::Task(Box::new(move |context| closure(context))))
    }

    fn conclude(&self, _: &Job, _: &ProcessEnd) -> Verdict {
        // It launches no processes; the runtime never asks.
        Verdict::lost("a closure has no process")
    }
}
