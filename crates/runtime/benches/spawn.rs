//! Spawn to result through the engine alone: no HTTP, no client.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use subagent_model::request::SpawnRequest;
use subagent_model::{ExecSpec, PromptVia, Requester, ResultFrom};
use subagent_process::{Containment, LauncherConfig, PoolConfig, ShimLauncher, ShimPool};
use subagent_provider::{Registry, Scripted};
use subagent_provider_cli::Exec;
use subagent_runtime::{Caller, Engine, EngineConfig, Graces, Limits, Runtime};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

fn main() {
    divan::main();
}

struct World {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    _dir: tempfile::TempDir,
}

fn world() -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sockets = tempfile::Builder::new().prefix("sa-").tempdir().unwrap().keep();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let program = subagent_testkit::shim_program().to_owned();
    let data_dir = dir.path().join("data");
    let engine = runtime.block_on(async {
        let launcher =
            LauncherConfig { program, sockets, containment: Containment::Auto, tag: String::from("b") };
        let pool = ShimPool::new(ShimLauncher::new(launcher).unwrap(), PoolConfig::default());
        let store = Arc::new(SqliteStore::open(dir.path(), &OpenOptions::default()).unwrap());
        let config = EngineConfig {
            data_dir,
            limits: Limits { running: 16, queue: 10_000, ..Limits::default() },
            graces: Graces::default(),
            child_env: BTreeMap::new(),
            log_limit: 1 << 20,
            lease: Duration::from_mins(10),
            version: String::from("bench"),
            escalate_after: Duration::from_mins(1),
            interrupt_stops_background: false,
            open_within: Duration::from_mins(2),
            tell_after: EngineConfig::TELL_AFTER,
            look_every: Duration::from_secs(5),
            child_limits: vec![],
            retention: subagent_runtime::Retention::default(),
            hooks: subagent_runtime::hooks::Hooks::default(),
            agents: subagent_runtime::AgentFiles::default(),
            models: BTreeMap::new(),
        };
        let registry = Registry::default().with(Exec).with(Scripted::default());
        let engine = Engine::start(config, store, registry, Some(pool)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        engine
    });
    World { runtime, engine, _dir: dir }
}

fn request(durable: bool, scripted: bool) -> SpawnRequest {
    let exec = ExecSpec {
        program: String::from("/bin/true"),
        args: vec![],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: subagent_model::Talk::None,
    };
    SpawnRequest {
        provider: String::from(if scripted { "scripted" } else { "exec" }),
        exec: (!scripted).then_some(exec),
        prompt: String::from(if scripted { "say x" } else { "" }),
        cwd: Some("/".into()),
        durable,
        wait_ms: Some(10_000),
        ..SpawnRequest::default()
    }
}

fn spawn(bencher: Bencher<'_, '_>, durable: bool, scripted: bool) {
    let world = world();
    let caller = Caller { requester: Requester::from("bench") };
    bencher.bench_local(|| {
        let reply = world.runtime.block_on(world.engine.spawn(&caller, request(durable, scripted))).unwrap();
        assert!(reply.ended);
    });
}

#[divan::bench(sample_count = 300)]
fn process_durable(bencher: Bencher<'_, '_>) {
    spawn(bencher, true, false);
}

#[divan::bench(sample_count = 300)]
fn process_not_durable(bencher: Bencher<'_, '_>) {
    spawn(bencher, false, false);
}

#[divan::bench(sample_count = 300)]
fn closure_durable(bencher: Bencher<'_, '_>) {
    spawn(bencher, true, true);
}

#[divan::bench(sample_count = 300)]
fn closure_not_durable(bencher: Bencher<'_, '_>) {
    spawn(bencher, false, true);
}
