//! The world of the engine's tests: the memory store, the scripted fake and real processes in real shims.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use subagent_core::run::Subagent;
use subagent_model::request::{DamagedRow, ListFilter, SpawnRequest, WaitOptions};
use subagent_model::{
    Cursor, Event, ExecSpec, Handle, NodeId, ProcessIdentity, PromptVia, Requester, ResultFrom, RunNumber,
    Status, SubagentId, SubagentRecord,
};
use subagent_process::{Containment, LauncherConfig, PoolConfig, ShimLauncher, ShimPool};
use subagent_provider::{Registry, Scripted};
use subagent_provider_cli::Exec;
use subagent_runtime::{Caller, Engine, EngineConfig, Graces, Limits, Runtime, Shutdown};
use subagent_store::{
    Committed, ContentKind, ContentPart, IdempotencyKey, ListPage, LivePage, MemoryStore, OwedRun, Place,
    Resolved, Store, StoreError, StoreMode, Transition,
};
use subagent_testkit::{home, shim_program, until, until_async};

/// An engine with the scripted fake and real shims, over a store in memory.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) fake: Scripted,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn config(dir: &Path, limits: Limits) -> EngineConfig {
    EngineConfig {
        data_dir: dir.join("data"),
        limits,
        graces: Graces { term: Duration::from_millis(300), kill: Duration::from_secs(3) },
        child_env: BTreeMap::new(),
        log_limit: 1 << 20,
        lease: Duration::from_mins(1),
        version: String::from("test"),
        tell_after: EngineConfig::TELL_AFTER,
        escalate_after: Duration::from_mins(1),
        interrupt_stops_background: false,
        open_within: Duration::from_mins(2),
        look_every: Duration::from_secs(5),
        child_limits: vec![],
        retention: subagent_runtime::Retention::default(),
        hooks: subagent_runtime::hooks::Hooks::default(),
        agents: subagent_runtime::AgentFiles::default(),
        models: BTreeMap::new(),
    }
}

pub(crate) fn pool(dir: &Path) -> ShimPool {
    pool_of(dir, shim_program())
}

/// A pool whose shims are this program.
pub(crate) fn pool_of(dir: &Path, program: &Path) -> ShimPool {
    let sockets = dir.join("s");
    std::fs::create_dir_all(&sockets).unwrap();
    let config = LauncherConfig {
        program: program.to_owned(),
        sockets,
        containment: Containment::Auto,
        // A starting engine sweeps the groups of its tag: each world has its own.
        tag: dir.file_name().unwrap().to_string_lossy().into_owned(),
    };
    ShimPool::new(ShimLauncher::new(config).unwrap(), PoolConfig { idle: 1, ..PoolConfig::default() })
}

pub(crate) async fn world(limits: Limits) -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let fake = Scripted::default();
    let store = Arc::new(MemoryStore::default());
    let engine = start(&dir, &fake, &store, limits).await;
    World { engine, fake, store, dir }
}

pub(crate) async fn start(
    dir: &tempfile::TempDir,
    fake: &Scripted,
    store: &Arc<MemoryStore>,
    limits: Limits,
) -> Engine {
    let store = Arc::clone(store) as Arc<dyn Store>;
    start_with(config(dir.path(), limits), fake, store, pool(dir.path())).await
}

pub(crate) async fn start_with(
    config: EngineConfig,
    fake: &Scripted,
    store: Arc<dyn Store>,
    pool: ShimPool,
) -> Engine {
    // A second name for children that cannot be spoken with.
    let plain = fake.also("plain", subagent_model::Capabilities::default());
    let registry = Registry::default().with(Exec).with(fake.clone()).with(plain);
    Engine::start(config, store, registry, Some(pool)).await.unwrap()
}

/// A world whose shims cannot be had: their program ends at once.
pub(crate) async fn world_without_shims(limits: Limits) -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let (fake, store) = (Scripted::default(), Arc::new(MemoryStore::default()));
    let pool = pool_of(dir.path(), &bad_shim(dir.path()));
    let engine = start_with(config(dir.path(), limits), &fake, Arc::clone(&store) as _, pool).await;
    World { engine, fake, store, dir }
}

/// A program that ends at once, with a failure.
pub(crate) fn bad_shim(dir: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let program = dir.join("no-shim");
    std::fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

pub(crate) fn me() -> Caller {
    Caller { requester: Requester::from("user:me") }
}

pub(crate) fn scripted(script: &str) -> SpawnRequest {
    SpawnRequest {
        prompt: script.to_owned(),
        provider: String::from("scripted"),
        cwd: Some("/".into()),
        durable: true,
        ..SpawnRequest::default()
    }
}

/// A scripted child that nobody can speak with.
pub(crate) fn plain(script: &str) -> SpawnRequest {
    SpawnRequest { provider: String::from("plain"), ..scripted(script) }
}

pub(crate) fn shell(script: &str) -> SpawnRequest {
    let exec = ExecSpec {
        program: String::from("/bin/sh"),
        args: vec![String::from("-c"), script.to_owned()],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: subagent_model::Talk::None,
    };
    let env = BTreeMap::from([(String::from("PATH"), String::from("/usr/bin:/bin"))]);
    SpawnRequest { provider: String::from("exec"), exec: Some(exec), env, ..scripted("") }
}

pub(crate) fn waiting(request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { wait_ms: Some(20_000), ..request }
}

impl World {
    pub(crate) async fn spawn(&self, request: SpawnRequest) -> SubagentId {
        self.engine.spawn(&me(), request).await.unwrap().record.id
    }

    pub(crate) async fn ended(&self, id: SubagentId) -> SubagentRecord {
        let options = WaitOptions { run: None, timeout_ms: Some(20_000) };
        let reply = self.engine.wait(&me(), id, options).await.unwrap();
        assert!(reply.ended, "{:?}", reply.record);
        reply.record
    }

    pub(crate) async fn status(&self, id: SubagentId) -> Status {
        self.engine.get(&me(), id).await.unwrap().status
    }

    /// Every durable event of the world, from the store.
    pub(crate) fn all_events(&self) -> Vec<Event> {
        self.store.events(Cursor(0), u32::MAX).unwrap()
    }

    /// All kinds of one subagent, however many events there are.
    pub(crate) fn all_kinds(&self, id: SubagentId) -> Vec<&'static str> {
        let events = self.all_events();
        events.iter().filter(|event| event.subagent == id).map(|event| event.kind.name()).collect()
    }

    /// How many notices are owed for this subagent.
    pub(crate) async fn notices(&self, id: SubagentId) -> usize {
        let inbox = self.engine.inbox(&me(), 1_000, None).await.unwrap();
        inbox.iter().filter(|item| item.record.id == id).count()
    }

    pub(crate) async fn until_started(&self, id: SubagentId) {
        self.until_of(id, |record| record.started_at).await;
    }

    /// The child's process, once it runs.
    pub(crate) async fn process(&self, id: SubagentId) -> ProcessIdentity {
        self.until_of(id, |record| record.attempts.last()?.process.clone()).await
    }

    /// Looks at a run until it has what is wanted, which must be before its end.
    async fn until_of<T>(&self, id: SubagentId, wanted: impl Fn(&SubagentRecord) -> Option<T>) -> T {
        until_async("a live run", || async {
            let record = self.engine.get(&me(), id).await.unwrap();
            let found = wanted(&record);
            assert!(found.is_some() || !record.status.is_final(), "it ended before: {record:?}");
            found
        })
        .await
    }

    /// Shuts the engine down and leaves its children, lets something happen, and starts another over the same store.
    pub(crate) async fn restarted(self, limits: Limits, between: impl AsyncFnOnce()) -> Self {
        let Self { engine, fake, store, dir } = self;
        engine.shutdown(Shutdown::Keep).await;
        drop(engine);
        between().await;
        let engine = start(&dir, &fake, &store, limits).await;
        Self { engine, fake, store, dir }
    }

    pub(crate) async fn until_status(&self, id: SubagentId, status: Status) {
        until_async("a status", || async { (self.status(id).await == status).then_some(()) }).await;
    }

    pub(crate) async fn kinds(&self, id: SubagentId) -> Vec<&'static str> {
        let events = self.engine.events(&me(), Cursor(0), 1_000, None).await.unwrap().items;
        events.iter().filter(|event| event.subagent == id).map(|event| event.kind.name()).collect()
    }
}

/// Kills a process and waits until it is gone.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).unwrap();
    home::kill(pid, rustix::process::Signal::KILL);
    until("a killed process to be gone", || (!home::is_alive(pid)).then_some(()));
}

/// The shim of a child: its parent.
pub(crate) fn shim_of(child: &ProcessIdentity) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A store in memory whose commits wait while its gate is closed: a disk that is slow at a chosen moment.
#[derive(Default)]
pub(crate) struct SlowStore {
    pub(crate) memory: MemoryStore,
    /// Whether the next commit fails.
    pub(crate) fails: std::sync::atomic::AtomicBool,
    gate: Mutex<SlowGate>,
    changed: Condvar,
}

#[derive(Default)]
struct SlowGate {
    closed: bool,
    waiting: bool,
}

impl SlowStore {
    pub(crate) fn close(&self) {
        self.gate.lock().unwrap().closed = true;
    }

    pub(crate) fn open(&self) {
        self.gate.lock().unwrap().closed = false;
        self.changed.notify_all();
    }

    /// Returns once a commit waits.
    pub(crate) async fn until_waiting(&self) {
        until_async("a commit", || async { self.gate.lock().unwrap().waiting.then_some(()) }).await;
    }
}

impl Store for SlowStore {
    fn commit(&self, batch: &[Transition]) -> Result<Committed, StoreError> {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting = gate.closed;
        gate = self.changed.wait_while(gate, |gate| gate.closed).unwrap();
        gate.waiting = false;
        drop(gate);
        if self.fails.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return Err(StoreError::Backend { reason: String::from("on purpose") });
        }
        self.memory.commit(batch)
    }
    fn get(&self, id: SubagentId) -> Result<Option<Arc<Subagent>>, StoreError> {
        self.memory.get(id)
    }
    fn resolve(&self, name: &str) -> Result<Resolved, StoreError> {
        self.memory.resolve(name)
    }
    fn list(&self, filter: &ListFilter) -> Result<ListPage, StoreError> {
        self.memory.list(filter)
    }
    fn live(&self) -> Result<LivePage, StoreError> {
        self.memory.live()
    }
    fn owed(
        &self,
        requester: Option<&Requester>,
        after: Option<Place>,
        limit: u32,
    ) -> Result<Vec<OwedRun>, StoreError> {
        self.memory.owed(requester, after, limit)
    }
    fn owed_count(&self, requester: Option<&Requester>) -> Result<u64, StoreError> {
        self.memory.owed_count(requester)
    }
    fn events(&self, after: Cursor, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.memory.events(after, limit)
    }
    fn head(&self) -> Result<Cursor, StoreError> {
        self.memory.head()
    }
    fn content(
        &self,
        id: SubagentId,
        run: RunNumber,
        kind: ContentKind,
        offset: u64,
        max: u32,
    ) -> Result<Option<ContentPart>, StoreError> {
        self.memory.content(id, run, kind, offset, max)
    }
    fn by_idempotency_key(&self, key: &IdempotencyKey) -> Result<Option<SubagentId>, StoreError> {
        self.memory.by_idempotency_key(key)
    }
    fn children(&self, parent: SubagentId) -> Result<Vec<SubagentId>, StoreError> {
        self.memory.children(parent)
    }
    fn tree_total(&self, root: SubagentId) -> Result<u32, StoreError> {
        self.memory.tree_total(root)
    }
    fn handle_taken(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.memory.handle_taken(handle)
    }
    fn owed_requesters(&self, prefix: &str) -> Result<Vec<Requester>, StoreError> {
        self.memory.owed_requesters(prefix)
    }

    fn summaries(
        &self,
        after: Option<SubagentId>,
        limit: u32,
    ) -> Result<Vec<subagent_store::StoredSummary>, StoreError> {
        self.memory.summaries(after, limit)
    }

    fn release_content(&self, ids: &[SubagentId]) -> Result<u32, StoreError> {
        self.memory.release_content(ids)
    }

    fn tree(&self, root: SubagentId) -> Result<Vec<Arc<Subagent>>, StoreError> {
        self.memory.tree(root)
    }

    fn first_event(&self) -> Result<Cursor, StoreError> {
        self.memory.first_event()
    }

    fn prune_events(&self, before: Cursor) -> Result<u64, StoreError> {
        self.memory.prune_events(before)
    }

    fn delete(&self, ids: &[SubagentId]) -> Result<u32, StoreError> {
        self.memory.delete(ids)
    }
    fn damaged(&self) -> Result<Vec<DamagedRow>, StoreError> {
        self.memory.damaged()
    }
    fn node(&self) -> NodeId {
        self.memory.node()
    }
    fn mode(&self) -> StoreMode {
        self.memory.mode()
    }
}

/// A world whose engine is told something else.
pub(crate) async fn world_with(limits: Limits, change: impl FnOnce(&mut EngineConfig)) -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let (fake, store) = (Scripted::default(), Arc::new(MemoryStore::default()));
    let mut config = config(dir.path(), limits);
    change(&mut config);
    let engine = start_with(config, &fake, Arc::clone(&store) as _, pool(dir.path())).await;
    World { engine, fake, store, dir }
}

/// A subagent as a caller.
pub(crate) fn child(id: SubagentId) -> Caller {
    Caller { requester: Requester::subagent(id) }
}

/// The same below a parent, which is told of its end.
pub(crate) fn under(parent: SubagentId, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { parent: Some(parent.to_string()), mode: subagent_model::Mode::Async, ..request }
}
