//! The in-process engine: wiring of writer, effects, feed and recovery.

mod activity;
mod agents;
mod attachments;
mod attempt;
mod batch;
mod book;
mod clock;
mod cwd;
mod effects;
mod face;
mod feed;
mod inners;
mod models;
mod names;
mod notices;
mod output;
mod paths;
mod recovery;
mod refusals;
mod room;
mod schema;
mod stalls;
mod talk;
mod task;
mod tasks;
mod transcripts;
mod waiters;
mod watchers;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use subagent_core::admission::Limits;
use subagent_core::retention::Policy;
use subagent_core::run::Subagent;
use subagent_hooks::{Dispatch, Hooks};
use subagent_model::request::RecoverySummary;
use subagent_model::{AttemptKey, Cause, NodeId, SubagentId, Timestamp};
use subagent_process::{Callers, ContainmentReport, ResourceLimit, ShimPool};
use subagent_provider::Registry;
use subagent_store::{MemoryStore, Store, StoreError};

use self::activity::Activities;
use self::agents::Agents;
use self::cwd::Cwds;
use self::feed::Feed;
use self::inners::LiveInners;
use self::models::KnownModels;
use self::paths::Paths;
use self::refusals::Refusals;
use self::tasks::Tasks;
use self::transcripts::Transcripts;
use self::waiters::Waiters;
use self::watchers::Watchers;
use self::writer::{Act, Message};

/// How long a shutdown waits for the last spawns to be on disk.
const DRAIN: Duration = Duration::from_secs(5);

/// How long a start waits for the ends that it found to be stored.
const SETTLE: Duration = Duration::from_secs(2);

/// How long a shutdown waits for observers to hear the last events.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long the steps of a stop may take.
pub use subagent_process::Graces;

pub use self::agents::{AgentFiles, find as find_program};

/// Everything an engine is told from outside.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where attempts keep their logs.
    pub data_dir: PathBuf,
    /// Limits of the node.
    pub limits: Limits,
    /// Graces of a stop.
    pub graces: Graces,
    /// Variables that every child gets, such as the address of the daemon.
    pub child_env: BTreeMap<String, String>,
    /// Most bytes of a child's log that are kept on disk.
    pub log_limit: u64,
    /// How long a child may run without any daemon before its shim ends it. Runs that are not durable have a shorter one.
    pub lease: Duration,
    /// Version, for `health`.
    pub version: String,
    /// How long a result waits for a requester that is a subagent to read it by itself before it is put before it.
    pub tell_after: Duration,
    /// How long after the end of a subagent its unread results are told to whoever asked for it.
    pub escalate_after: Duration,
    /// An interrupt of a turn stops children in the background as well, not only those that the turn waits for.
    pub interrupt_stops_background: bool,
    /// How long an agent may take until it accepts prompts.
    pub open_within: Duration,
    /// How often everything live is looked at: for signs of life, and in case an effect was lost.
    pub look_every: Duration,
    /// Resource limits that every child gets: those that the daemon was started with, where it has raised its own.
    pub child_limits: Vec<ResourceLimit>,
    /// What is kept, and for how long.
    pub retention: Policy,
    /// Who sees and decides beside us.
    pub hooks: Hooks,
    /// Where definitions of agent types are looked for beside the project.
    pub agents: AgentFiles,
    /// The models that may be used, by provider; of one that is not named its own count.
    pub models: BTreeMap<String, Vec<String>>,
}

impl EngineConfig {
    /// The usual `tell_after`: longer than a call takes that reads the result, shorter than anybody gets impatient.
    pub const TELL_AFTER: Duration = Duration::from_secs(2);
}

/// What a shutdown does with live children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// They run on; the next daemon adopts them. Runs that are not durable are stopped.
    Keep,
    /// They may end by themselves within the bound; then the rest is kept.
    Drain {
        /// The bound.
        within: Duration,
    },
    /// They are stopped, within a bound.
    Stop {
        /// The bound.
        within: Duration,
    },
}

/// Why an engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be made.
    #[error("cannot use the data directory {dir}: {source}")]
    DataDir {
        /// Which.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Two providers have one name.
    #[error("two providers are named {0:?}")]
    ProviderTwice(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer thread could not be started.
    #[error("cannot start the writer thread: {0}")]
    Thread(std::io::Error),
}

/// The engine. Clones share it. Its threads and tasks go on when the last one is dropped: [`Engine::shutdown`] ends them.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: EngineConfig,
    pub(crate) paths: Paths,
    pub(crate) registry: Registry,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) memory: Arc<MemoryStore>,
    /// Every subagent whose run is live, as committed last. Only the writer changes it.
    pub(crate) live: RwLock<HashMap<SubagentId, Arc<Subagent>>>,
    pub(crate) feed: Feed,
    pub(crate) agents: Agents,
    pub(crate) models: KnownModels,
    pub(crate) transcripts: Transcripts,
    pub(crate) inners: LiveInners,
    pub(crate) waiters: Waiters,
    pub(crate) watchers: Watchers,
    pub(crate) activity: Activities,
    pub(crate) hooks: Hooks,
    /// Events on their way to observers.
    pub(crate) dispatch: Dispatch,
    /// Which processes belong to which attempt: who calls is found by it.
    pub(crate) callers: Callers,
    pub(crate) tasks: Tasks,
    /// Environment values that are never stored.
    pub(crate) secrets: Mutex<HashMap<SubagentId, BTreeMap<String, String>>>,
    pub(crate) pool: Option<ShimPool>,
    pub(crate) cwds: Cwds,
    pub(crate) writer: Sender<Message>,
    pub(crate) node: NodeId,
    pub(crate) started_at: Timestamp,
    pub(crate) gauges: Gauges,
    pub(crate) refusals: Refusals,
    pub(crate) recovery: OnceLock<RecoverySummary>,
    /// The handle on which effects run.
    pub(crate) executor: tokio::runtime::Handle,
}

/// Numbers for `health`, kept by the writer.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) running: AtomicU32,
    pub(crate) queued: AtomicU32,
    pub(crate) idle: AtomicU32,
    pub(crate) draining: AtomicBool,
    pub(crate) degraded: Mutex<Option<String>>,
    pub(crate) limits: RwLock<Limits>,
}

impl Engine {
    /// Starts an engine: recovers what the store and the live shims hold, then takes work. Must be called within a
    /// tokio runtime. Without a pool, providers that need processes are refused.
    pub async fn start(
        config: EngineConfig,
        store: Arc<dyn Store>,
        registry: Registry,
        pool: Option<ShimPool>,
    ) -> Result<Self, StartError> {
        if let Some(name) = registry.given_twice() {
            return Err(StartError::ProviderTwice(name.to_owned()));
        }
        let paths = Paths::new(&config.data_dir);
        paths.make().map_err(|source| StartError::DataDir { dir: config.data_dir.clone(), source })?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let head = store.head()?;
        let agents = Agents::new(config.agents.clone(), &registry);
        let gauges = Gauges { limits: RwLock::new(config.limits.clone()), ..Gauges::default() };
        let inner = Arc::new(Inner {
            paths,
            registry,
            node: store.node(),
            memory: Arc::new(MemoryStore::default()),
            live: RwLock::default(),
            feed: Feed::new(head),
            agents,
            models: KnownModels::new(config.models.clone()),
            transcripts: Transcripts::start().map_err(StartError::Thread)?,
            inners: LiveInners::default(),
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            activity: Activities::default(),
            dispatch: config.hooks.dispatch(
                config.data_dir.clone(),
                head,
                &tokio::runtime::Handle::current(),
            ),
            hooks: config.hooks.clone(),
            callers: Callers::new(),
            tasks: Tasks::default(),
            secrets: Mutex::default(),
            pool,
            cwds: Cwds::default(),
            writer: sender,
            started_at: clock::now(),
            gauges,
            refusals: Refusals::default(),
            recovery: OnceLock::new(),
            executor: tokio::runtime::Handle::current(),
            config,
            store,
        });
        let ending = recovery::recover(&inner).await?;
        let weak = Arc::downgrade(&inner);
        writer::start(&inner, receiver).map_err(StartError::Thread)?;
        tokio::spawn(effects::slow_timer(weak.clone(), inner.config.look_every));
        tokio::spawn(effects::housekeeping(weak));
        // The first caller is not to see what is over as running. A disk that takes no end now takes it later.
        // A run that goes on as another attempt is over its end as well.
        let is_held = |(id, attempt)| {
            inner.live(id).is_some_and(|state| state.hold().is_some_and(|hold| hold.attempt == attempt))
        };
        let settled = async {
            while ending.iter().copied().any(is_held) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(SETTLE, settled).await;
        inner.send(Message::Open);
        Ok(Self { inner })
    }

    /// Changes the limits while running, for what is decided from now on: nothing that runs or waits is turned away.
    pub fn set_limits(&self, limits: Limits) {
        self.inner.send(Message::Limits(Box::new(limits), None));
    }

    /// Takes no new work any more, does with the children as told, and returns once all that was accepted is on disk.
    /// Bounded: by the given time for `Stop`, else by a few seconds.
    pub async fn shutdown(&self, policy: Shutdown) {
        let inner = &self.inner;
        inner.gauges.draining.store(true, Ordering::SeqCst);
        let (done, drained) = tokio::sync::oneshot::channel();
        inner.send(Message::Drain(done));
        // A writer that is stuck in a flush must not hold us.
        let _ = tokio::time::timeout(DRAIN, drained).await;
        if let Shutdown::Drain { within } = policy {
            let over = async {
                while !inner.live_where(Subagent::holds_slot).is_empty() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let _ = tokio::time::timeout(within, over).await;
        }
        let (victims, within) = match policy {
            Shutdown::Keep | Shutdown::Drain { .. } => {
                let volatile: Vec<_> = inner.live_where(|state| !state.spec.durable);
                (volatile, inner.config.graces.term + inner.config.graces.kill)
            }
            Shutdown::Stop { within } => (inner.live_where(|_| true), within),
        };
        for state in &victims {
            inner.send(Act::new(state.id, writer::stop_command("daemon", Cause::Shutdown)).into());
        }
        let gone = async {
            while victims.iter().any(|state| inner.live(state.id).is_some()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(within, gone).await.is_err() {
            tracing::warn!(
                "some children were not gone within the bound; they are stopped by the next daemon"
            );
        }
        let (done, halted) = tokio::sync::oneshot::channel();
        inner.send(Message::Halt(done));
        // The writer answers after its last commit; a writer that is stuck in a flush must not hold us.
        let _ = tokio::time::timeout(Duration::from_secs(10), halted).await;
        inner.waiters.let_go();
        inner.dispatch.drain(LAST_WORDS).await;
        let let_go = async {
            while !inner.tasks.let_go() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // A task ends at its next await; one that is stuck elsewhere ends with the process.
        let _ = tokio::time::timeout(Duration::from_secs(2), let_go).await;
    }

    /// How many runs are live: waiting for a slot or for children, running, or being stopped.
    pub fn live_count(&self) -> usize {
        let live = self.inner.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().filter(|state| !state.is_ended()).count()
    }

    /// How child trees are contained: `cgroup`, `walk`, or `none` without a pool.
    pub fn containment(&self) -> &'static str {
        self.inner.containment()
    }
}

impl Inner {
    pub(crate) fn send(&self, message: Message) {
        // The writer outlives every sender but at shutdown, when nobody waits for an answer any more.
        let _ = self.writer.send(message);
    }

    pub(crate) fn live(&self, id: SubagentId) -> Option<Arc<Subagent>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub(crate) fn live_where(&self, wanted: impl Fn(&Subagent) -> bool) -> Vec<Arc<Subagent>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().filter(|state| wanted(state)).cloned().collect()
    }

    /// The subagent that a process belongs to. Its environment counts where nothing else is known: it can only lower what
    /// somebody may do who would be taken for the person else.
    pub(crate) fn subagent_of_process(&self, pid: u32) -> Option<SubagentId> {
        Some(self.callers.find(pid)?.attempt.parse::<AttemptKey>().ok()?.subagent)
    }

    pub(crate) fn containment(&self) -> &'static str {
        match self.pool.as_ref().map(|pool| pool.launcher().containment()) {
            None => "none",
            Some(ContainmentReport::Cgroup(_)) => "cgroup",
            Some(ContainmentReport::Walk(_)) => "walk",
        }
    }

    /// The state as committed last, live or ended.
    pub(crate) fn load(&self, id: SubagentId) -> Result<Option<Arc<Subagent>>, StoreError> {
        if let Some(state) = self.live(id) {
            return Ok(Some(state));
        }
        match self.memory.get(id)? {
            Some(state) => Ok(Some(state)),
            None => self.store.get(id),
        }
    }
}
