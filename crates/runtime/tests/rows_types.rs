//! Agent types at the gate: the rows of agent-definitions that need an engine.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use subagent_model::request::{ListFilter, SpawnRequest};
use subagent_model::{
    AgentSetup, Capabilities, ErrorCode, Problem, SpawnSpec, SystemPromptMode, SystemPromptUse, ToolFilter,
};
use subagent_provider::{Job, Launch, ProcessEnd, Provider, Registry, Scripted, Verdict};
use subagent_runtime::{AgentFiles, Engine, Limits, Runtime, SpawnReply};
use subagent_store::{MemoryStore, Store};
use support::me;

/// The fake as an agent with a program.
struct Agent {
    name: &'static str,
    fake: Scripted,
}

impl Provider for Agent {
    fn name(&self) -> &str {
        self.name
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            tool_filter: true,
            effort: true,
            mcp_servers: true,
            system_prompt: SystemPromptUse::Override,
            ..self.fake.capabilities()
        }
    }
    fn program(&self) -> Option<&str> {
        Some(self.name)
    }
    fn install_hint(&self) -> Option<&str> {
        Some("install it so")
    }
    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        self.fake.check(spec)
    }
    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        self.fake.launch(job)
    }
    fn conclude(&self, job: &Job, end: &ProcessEnd) -> Verdict {
        self.fake.conclude(job, end)
    }
}

struct World {
    engine: Engine,
    store: Arc<MemoryStore>,
    dir: tempfile::TempDir,
}

impl World {
    async fn new(limits: Limits) -> Self {
        let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
        let store = Arc::new(MemoryStore::default());
        let fake = Scripted::default();
        let registry = Registry::default()
            .with(Agent { name: "zed", fake: fake.clone() })
            .with(Agent { name: "codex", fake: fake.clone() })
            .with(Agent { name: "claude", fake });
        let files = AgentFiles { trust: Some(dir.path().join("trust.json")), ..AgentFiles::default() };
        let config = subagent_runtime::EngineConfig { agents: files, ..support::config(dir.path(), limits) };
        let engine = Engine::start(config, Arc::clone(&store) as _, registry, None).await.unwrap();
        std::fs::create_dir_all(dir.path().join("project/.git")).unwrap();
        Self { engine, store, dir }
    }

    fn project(&self) -> std::path::PathBuf {
        self.dir.path().join("project")
    }

    /// A definition in the project.
    fn define(&self, name: &str, header: &str) {
        let dir = self.project().join(".subagent/agents");
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: {name}\ndescription: d\n{header}\n---\nDo it well.\n");
        std::fs::write(dir.join(format!("{name}.md")), text).unwrap();
    }

    /// Trusts the project: what widens in its files counts, and so do locks.
    fn trust(&self) {
        let root = self.project().canonicalize().unwrap();
        let trust = format!("{{\"version\": 1, \"projects\": {{\"{}\": {{}}}}}}", root.display());
        std::fs::write(self.dir.path().join("trust.json"), trust).unwrap();
    }

    fn request(&self, agent_type: &str) -> SpawnRequest {
        SpawnRequest {
            agent_type: Some(agent_type.to_owned()),
            provider: String::new(),
            cwd: Some(self.project().to_str().unwrap().into()),
            ..support::scripted("say done")
        }
    }

    async fn spawn(&self, request: SpawnRequest) -> Result<SpawnReply, Problem> {
        self.engine.spawn(&me(), request).await
    }

    /// What was admitted.
    async fn spec(&self, request: SpawnRequest) -> (Arc<SpawnSpec>, Vec<String>) {
        let reply = self.spawn(request).await.unwrap();
        (Arc::clone(&self.store.get(reply.record.id).unwrap().unwrap().spec), reply.notes)
    }
}

/// A directory with these programs.
fn programs(dir: &Path, names: &[&str]) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(names.join("-"));
    std::fs::create_dir_all(&path).unwrap();
    for name in names {
        let program = path.join(name);
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn def_10_an_unknown_or_disabled_type_is_refused_with_the_usable_ones() {
    let world = World::new(Limits::default()).await;
    world.define("reviewer", "provider: claude");
    world.define("sleeper", "visibility: disabled");
    for name in ["reviewr", "sleeper", "General Purpose"] {
        let problem = world.spawn(world.request(name)).await.unwrap_err();
        assert_eq!(problem.code, ErrorCode::InvalidRequest, "{problem:?}");
        assert!(problem.ids.contains(&String::from("reviewer")), "{problem:?}");
        assert!(
            problem.ids.contains(&String::from("general-purpose"))
                && !problem.ids.contains(&"sleeper".into())
        );
    }
    let all = world.engine.list(&me(), ListFilter::default()).await.unwrap();
    assert!(all.items.is_empty(), "nothing was started in its place");
    // Names are found whatever their case.
    let reply = world.spawn(world.request("REVIEWER")).await.unwrap();
    assert_eq!(reply.record.agent_type, "reviewer");
}

#[tokio::test(flavor = "multi_thread")]
async fn def_08_and_09_the_caller_wins_where_it_may_and_what_was_set_aside_is_told() {
    let world = World::new(Limits::default()).await;
    world.trust();
    world.define(
        "worker",
        "provider: claude\nmodel: small\neffort: low\nmax_turns: 7\ntools: Read, Grep\nlocks: [effort]",
    );
    let (spec, notes) = world.spec(world.request("worker")).await;
    assert_eq!((spec.provider.as_str(), spec.model.as_deref()), ("claude", Some("small")));
    assert_eq!((spec.budget.max_turns, spec.setup.effort.as_deref()), (Some(7), Some("low")));
    assert_eq!(spec.setup.tools.allow.as_deref().unwrap(), ["Read", "Grep"]);
    let prompt = spec.setup.system_prompt.as_ref().unwrap();
    assert!(prompt.text.starts_with("Do it well.\n\n<subagent>") && prompt.mode == SystemPromptMode::Append);
    assert_eq!(notes, Vec::<String>::new());
    let call = SpawnRequest {
        model: Some(String::from("large")),
        setup: AgentSetup {
            effort: Some(String::from("high")),
            tools: ToolFilter { allow: Some(vec!["Grep".into(), "Bash".into()]), deny: vec![] },
            ..AgentSetup::default()
        },
        ..world.request("worker")
    };
    let (spec, notes) = world.spec(call).await;
    assert_eq!((spec.model.as_deref(), spec.setup.effort.as_deref()), (Some("large"), Some("low")));
    assert_eq!(spec.setup.tools.allow.as_deref().unwrap(), ["Grep"], "a call only narrows");
    for told in ["model: large", "effort: low, locked", "tools"] {
        assert!(notes.iter().any(|note| note.contains(told)), "{told}: {notes:?}");
    }
    let wrong = SpawnRequest {
        setup: AgentSetup { effort: Some(String::from("bananas")), ..AgentSetup::default() },
        ..world.request("worker")
    };
    assert!(world.spawn(wrong).await.unwrap_err().message.contains("bananas"));
}

#[tokio::test(flavor = "multi_thread")]
async fn def_03_no_tools_and_all_tools_are_different_things() {
    let world = World::new(Limits::default()).await;
    world.define("all", "provider: claude");
    world.define("none", "provider: claude\ntools: []");
    assert_eq!(world.spec(world.request("all")).await.0.setup.tools.allow, None);
    assert_eq!(world.spec(world.request("none")).await.0.setup.tools.allow, Some(vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn def_07_the_next_spawn_has_the_edit_and_a_queued_run_does_not() {
    let world = World::new(Limits { running: 0, ..Limits::default() }).await;
    world.define("worker", "provider: claude\nmodel: one");
    let queued = world.spawn(world.request("worker")).await.unwrap().record.id;
    world.define("worker", "provider: claude\nmodel: second");
    let (spec, _) = world.spec(world.request("worker")).await;
    assert_eq!(spec.model.as_deref(), Some("second"));
    assert_eq!(world.store.get(queued).unwrap().unwrap().spec.model.as_deref(), Some("one"));
    let cwd = world.project().to_str().unwrap().into();
    let list = world.engine.types(&me(), cwd, None, None).await.unwrap();
    let worker = list.items.iter().find(|it| it.name == "worker").unwrap();
    assert_eq!(worker.model.as_deref(), Some("second"), "the list follows");
}

#[tokio::test(flavor = "multi_thread")]
async fn def_15_what_an_untrusted_project_may_not_say_does_not_count() {
    let world = World::new(Limits::default()).await;
    world.define("worker", "provider: claude\nmcp_servers:\n  own: {command: steal}");
    let (spec, _) = world.spec(world.request("worker")).await;
    assert!(spec.setup.mcp_servers.is_empty(), "{:?}", spec.setup);
    world.trust();
    let (spec, _) = world.spec(world.request("worker")).await;
    assert_eq!(spec.setup.mcp_servers[0].name, "own");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_a_child_back_must_hold() {
    let world = World::new(Limits::default()).await;
    world.define("apart", "provider: claude\nisolation: worktree");
    world.define("fenced", "provider: claude\nsandbox: workspace-write");
    world.define("looks", "provider: codex\nsandbox: read-only");
    world.define("plans", "provider: zed\npermission_mode: plan");
    for (name, what) in [("apart", "worktree"), ("fenced", "sandbox"), ("plans", "plan")] {
        let problem = world.spawn(world.request(name)).await.unwrap_err();
        assert_eq!(problem.code, ErrorCode::NotCapable, "{problem:?}");
        assert!(problem.message.contains(what), "{problem:?}");
    }
    let (spec, _) = world.spec(world.request("looks")).await;
    assert_eq!(spec.setup.permission_mode.as_deref(), Some("read-only"), "codex has one of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_agent_that_is_installed_is_taken_and_told() {
    let world = World::new(Limits::default()).await;
    let with = |names: &[&str]| {
        let path = programs(world.dir.path(), names);
        SpawnRequest { agent_type: None, env: [("PATH".into(), path)].into(), ..world.request("x") }
    };
    for (names, taken) in
        [(&["zed", "codex", "claude"][..], "claude"), (&["zed", "codex"], "codex"), (&["zed"], "zed")]
    {
        let (spec, notes) = world.spec(with(names)).await;
        assert_eq!(spec.provider, taken);
        assert_eq!(notes, [format!("provider: {taken}, the first agent that is installed")]);
    }
    let problem = world.spawn(with(&[])).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::ProgramNotFound);
    assert_eq!(problem.hint.as_deref(), Some("install it so"));
    // A definition of an agent's own kind goes to that agent.
    let dir = world.project().join(".codex/agents");
    std::fs::create_dir_all(&dir).unwrap();
    let text = "name = \"theirs\"\ndescription = \"d\"\ndeveloper_instructions = \"x\"\n";
    std::fs::write(dir.join("theirs.toml"), text).unwrap();
    let path = programs(world.dir.path(), &["codex", "claude"]);
    let request = SpawnRequest { env: [("PATH".into(), path)].into(), ..world.request("theirs") };
    assert_eq!(world.spec(request).await.0.provider, "codex");
    let cwd = world.project().to_str().unwrap().into();
    let list =
        world.engine.types(&me(), cwd, Some(programs(world.dir.path(), &["zed"])), None).await.unwrap();
    let found: Vec<_> = list.providers.iter().map(|it| (it.name.as_str(), it.found.is_some())).collect();
    assert_eq!(found, [("claude", false), ("codex", false), ("zed", true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prov_02_a_name_that_is_given_twice_is_an_error() {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let agent = || Agent { name: "zed", fake: Scripted::default() };
    let registry = Registry::default().with(agent()).with(agent());
    assert!(registry.get("zed").is_ok(), "the first is intact");
    let config = support::config(dir.path(), Limits::default());
    let refused = Engine::start(config, Arc::new(MemoryStore::default()), registry, None).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("zed")));
}
