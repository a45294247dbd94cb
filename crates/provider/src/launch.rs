//! What a provider says about a launch and learns about an end.

use std::collections::BTreeMap;
use std::sync::Arc;

use subagent_model::{AttemptKey, BoundedText, ExitFacts, SpawnSpec};

use crate::conversation::{Order, Said};
use crate::in_process::{BoxFuture, TaskContext, TaskFailure};

/// One attempt as a provider sees it.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which attempt.
    pub key: AttemptKey,
    /// What was asked.
    pub spec: Arc<SpawnSpec>,
    /// The prompt of the run, as the record holds it.
    pub prompt: BoundedText,
    /// The whole prompt. Absent when a job is looked at again only to conclude it.
    pub prompt_text: Option<Arc<str>>,
    /// A directory outside the child's workspace, where a provider's files for it may lie.
    pub dir: std::path::PathBuf,
    /// The session that this attempt is to continue. Absent: it begins one.
    pub session: Option<String>,
}

/// How a child is launched.
pub enum Launch {
    /// As a process in a shim.
    Process(ProcessLaunch),
    /// As a task inside the daemon.
    Task(Task),
    /// As a process in a shim that is spoken with, through the provider's [`crate::Codec`].
    Conversation(ProcessLaunch),
    /// As a task inside the daemon that is spoken with.
    Dialogue(Dialogue),
}

/// A task inside the daemon that is spoken with. It ends when it returns, and when its orders end.
pub type Dialogue = Box<dyn FnOnce(TaskContext, Link) -> BoxFuture<()> + Send>;

/// The two ends of a conversation inside the daemon.
#[derive(Debug)]
pub struct Link {
    /// What the child is told. `None` when nothing more will come.
    pub orders: tokio::sync::mpsc::UnboundedReceiver<Order>,
    /// What it says.
    pub say: tokio::sync::mpsc::UnboundedSender<Said>,
}

/// A process to start. Its environment is the job's, with these additions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessLaunch {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to the job's environment.
    pub env: BTreeMap<String, String>,
    /// What it reads.
    pub stdin: StdinPlan,
    /// Files to write into the job's directory before the start: name and text.
    pub files: Vec<(String, Arc<str>)>,
}

/// What a process reads on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinPlan {
    /// Nothing.
    Null,
    /// The prompt, then the end.
    Prompt,
    /// A pipe that stays open: the conversation.
    Open,
}

/// A task inside the daemon.
pub type Task = Box<dyn FnOnce(TaskContext) -> BoxFuture<TaskEnd> + Send>;

/// How a task ended.
pub type TaskEnd = Result<String, TaskFailure>;

/// Why a process is at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// By itself or from outside.
    Natural,
    /// A stop was accepted.
    Stopped,
    /// Its wall-clock limit.
    Deadline,
    /// Its lease, which no daemon renewed.
    Lease,
    /// Its shim was ended from outside.
    ShimLost,
}

/// Everything that is known of a process's end, output bounded.
#[derive(Debug, Clone)]
pub struct ProcessEnd {
    /// Why.
    pub reason: EndReason,
    /// Code, signal and time.
    pub exit: ExitFacts,
    /// Beginning of standard output; all of it when `stdout_tail` is empty.
    pub stdout_head: Vec<u8>,
    /// End of standard output, when the middle was left out.
    pub stdout_tail: Vec<u8>,
    /// Bytes left out between the two.
    pub stdout_omitted: u64,
    /// End of standard error.
    pub stderr_tail: Vec<u8>,
    /// Part of the output was not kept, or the log is damaged.
    pub incomplete: Option<String>,
    /// Processes it left behind, which were ended.
    pub leftovers: u32,
    /// The kernel ended it for want of memory.
    pub out_of_memory: bool,
}
