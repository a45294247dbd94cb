//! The provider port: the only place that knows how a kind of child is driven.
//!
//! A provider states its capabilities up front and says for a spec how the child is launched and what its end means. It
//! starts nothing itself: processes are made by the runtime through shims, so that every kind of child is contained,
//! adopted and stopped in the same way. Vendors live in the adapter crates; here are the port, the registry, the
//! in-process provider and the scripted fake.

mod attached;
mod conversation;
mod ended;
mod in_process;
mod launch;
mod login;
mod origin;
mod registry;
mod scripted;
mod verdict;

pub use attached::{Attached, with_texts};
pub use conversation::{
    Codec, Heard, Inner, InnerState, LastMessage, ModelOffer, Order, PlanState, PlanStep, Said, TurnEnd,
    WasTold,
};
pub use in_process::{BoxFuture, InProcess, TaskContext, TaskFailure};
pub use launch::{
    Dialogue, EndReason, Job, Launch, Link, ProcessEnd, ProcessLaunch, StdinPlan, Task, TaskEnd,
};
pub use login::{Login, LoginAnswer, LoginQuestion};
pub use origin::with_origin;
pub use registry::Registry;
pub use scripted::{Gate, Launched, Scripted, Told, ToldKind};
pub use subagent_model::{Capabilities, Steering, SystemPromptUse};

pub use verdict::{Verdict, bound};

use subagent_model::{Problem, SpawnSpec};

/// How a kind of child is driven.
pub trait Provider: Send + Sync + 'static {
    /// The name that specs use.
    fn name(&self) -> &str;

    /// What it can do at most. What is missing is refused before anything starts.
    fn capabilities(&self) -> Capabilities;

    /// What it can do for this spec: a provider may drive different kinds of children.
    fn capabilities_for(&self, _: &SpawnSpec) -> Capabilities {
        self.capabilities()
    }

    /// The account that it would use, where it can tell several apart. Cool-downs are shared by it.
    fn account(&self, _: &SpawnSpec) -> Option<String> {
        None
    }

    /// The program that it looks for on the child's `PATH`, for providers of agents. None where the spec names it, or none
    /// is needed.
    fn program(&self) -> Option<&str> {
        None
    }

    /// How that program is installed.
    fn install_hint(&self) -> Option<&str> {
        None
    }

    /// How its program is asked whether it is logged in, where it has a command for that.
    fn login_question(&self) -> Option<LoginQuestion> {
        None
    }

    /// What its program's answer to [`Self::login_question`] means.
    fn login(&self, _: &LoginAnswer) -> Login {
        Login::Unknown
    }

    /// Names that it always takes for models, beside others that are not known here.
    fn models(&self) -> &[&str] {
        &[]
    }

    /// It drives an agent: it takes a task in words and can be of an agent type. Others take a type as a mere label.
    fn is_agent(&self) -> bool {
        self.program().is_some()
    }

    /// What must be set up before it can work at all. Where nobody names a provider it is not chosen then.
    fn lacks(&self) -> Option<&str> {
        None
    }

    /// Refuses a spec that it cannot run. Called once, at admission; must not touch the disk or the network.
    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem>;

    /// A fresh codec for a child of this provider that is spoken with; none where there is nothing to say. The child of
    /// a daemon that is gone is taken over with it.
    fn codec(&self, _: &Job) -> Option<Box<dyn Codec>> {
        None
    }

    /// How the child of `job` is launched.
    fn launch(&self, job: &Job) -> Result<Launch, Problem>;

    /// What the end of a process that this provider launched means.
    fn conclude(&self, job: &Job, end: &ProcessEnd) -> Verdict;
}
