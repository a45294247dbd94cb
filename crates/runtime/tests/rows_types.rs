//! Agent types at the gate: the rows of agent-definitions that need an engine.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use subagent_model::request::{ListFilter, SpawnRequest};
use subagent_model::{
    AgentSetup, Capabilities, ErrorCode, ExecSpec, Mode, Permissions, PolicyRule, PolicyWord, Problem,
    PromptVia, ResultFrom, SpawnSpec, SubagentId, SystemPromptMode, SystemPromptUse, Talk, ToolFilter,
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
    fake: Scripted,
}

impl World {
    async fn new(limits: Limits) -> Self {
        Self::with(limits, &[]).await
    }

    /// With these models set.
    async fn with(limits: Limits, models: &[(&str, &[&str])]) -> Self {
        let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
        let store = Arc::new(MemoryStore::default());
        let fake = Scripted::default();
        let registry = Registry::default()
            .with(Agent { name: "zed", fake: fake.clone() })
            .with(Agent { name: "codex", fake: fake.clone() })
            .with(Agent { name: "claude", fake: fake.clone() })
            .with(fake.clone());
        let files = AgentFiles { trust: Some(dir.path().join("trust.json")), ..AgentFiles::default() };
        let config = subagent_runtime::EngineConfig {
            agents: files,
            models: models
                .iter()
                .map(|(name, list)| ((*name).to_owned(), list.iter().map(|it| (*it).to_owned()).collect()))
                .collect(),
            ..support::config(dir.path(), limits)
        };
        let engine = Engine::start(config, Arc::clone(&store) as _, registry, None).await.unwrap();
        std::fs::create_dir_all(dir.path().join("project/.git")).unwrap();
        Self { engine, store, dir, fake }
    }

    /// A live subagent of this type, whose children are spawned below it.
    async fn parent(&self, request: SpawnRequest) -> SubagentId {
        let gate = format!("up-{}", uuid::Uuid::now_v7());
        let request = SpawnRequest { prompt: format!("gate {gate}"), mode: Mode::Async, ..request };
        let id = self.spawn(request).await.unwrap().record.id;
        self.fake.gate(&gate).reached().await;
        id
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
        assert_eq!(problem.code, ErrorCode::UnknownType, "{problem:?}");
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
    assert_eq!(found, [("claude", false), ("codex", false), ("scripted", false), ("zed", true)]);
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

fn below(parent: SubagentId, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { parent: Some(parent.to_string()), ..request }
}

fn of(provider: &str, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { provider: provider.to_owned(), agent_type: None, ..request }
}

fn with_tools(allow: &[&str], request: SpawnRequest) -> SpawnRequest {
    let allow = Some(allow.iter().map(|tool| (*tool).to_owned()).collect());
    SpawnRequest {
        setup: AgentSetup { tools: ToolFilter { allow, deny: vec![] }, ..request.setup.clone() },
        ..request
    }
}

fn in_mode(mode: &str, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest {
        setup: AgentSetup { permission_mode: Some(mode.to_owned()), ..request.setup.clone() },
        ..request
    }
}

fn program(words: &[&str], request: SpawnRequest) -> SpawnRequest {
    let exec = ExecSpec {
        program: words[0].to_owned(),
        args: words[1..].iter().map(|word| (*word).to_owned()).collect(),
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: Talk::None,
    };
    SpawnRequest { provider: String::from("scripted"), agent_type: None, exec: Some(exec), ..request }
}

#[tokio::test(flavor = "multi_thread")]
async fn perm_09_a_child_has_the_tools_of_its_parent_with_a_type_and_without() {
    let world = World::new(Limits { depth: 4, ..Limits::default() }).await;
    world.define("narrow", "provider: claude\ntools: Read, Grep, Bash(git *)\ndisallowed_tools: Task");
    world.define("wide", "provider: claude\ntools: Read, Write, Bash");
    world.define("open", "provider: claude");
    let parent = world.parent(world.request("narrow")).await;
    let tools = ["Read", "Grep", "Bash(git *)"];
    for request in [of("claude", world.request("x")), world.request("open")] {
        let (spec, _) = world.spec(below(parent, request)).await;
        assert_eq!(spec.setup.tools.allow.as_deref().unwrap(), tools, "neither none nor the default");
        assert_eq!(spec.setup.tools.deny, ["Task"]);
    }
    let (spec, notes) = world.spec(below(parent, world.request("wide"))).await;
    assert_eq!(spec.setup.tools.allow.as_deref().unwrap(), ["Read", "Bash(git *)"]);
    assert!(notes.iter().any(|note| note.contains("Write") && note.contains("parent")), "{notes:?}");
    let more = with_tools(&["Write"], of("claude", world.request("x")));
    let (spec, notes) = world.spec(below(parent, more)).await;
    assert_eq!(spec.setup.tools.allow.as_deref(), Some(&[][..]), "none is none");
    assert!(notes.iter().any(|note| note.contains("Write")), "{notes:?}");
    // A level deeper it is the same; and one that has all of its tools gives all.
    let child = world.parent(below(parent, world.request("open"))).await;
    let (spec, _) = world.spec(below(child, of("claude", world.request("x")))).await;
    assert_eq!(spec.setup.tools.allow.as_deref().unwrap(), tools);
    let root = world.parent(world.request("open")).await;
    assert_eq!(world.spec(below(root, world.request("open"))).await.0.setup.tools.allow, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn perm_06_a_nested_spawn_is_never_in_a_looser_mode_than_its_parent() {
    let world = World::new(Limits { depth: 4, ..Limits::default() }).await;
    world.trust();
    world.define("open", "provider: claude");
    world.define("edits", "provider: claude\npermission_mode: accept-edits");
    let mode = |spec: &SpawnSpec| spec.setup.permission_mode.clone();
    let asks = world.parent(world.request("open")).await;
    for request in [of("claude", world.request("x")), world.request("open")] {
        let (spec, notes) = world.spec(below(asks, in_mode("bypassPermissions", request))).await;
        assert_eq!(mode(&spec), None, "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("permission_mode: ask; bypass")), "{notes:?}");
    }
    assert_eq!(mode(&world.spec(below(asks, world.request("edits"))).await.0), None, "the type neither");
    let (spec, _) = world.spec(below(asks, in_mode("plan", of("claude", world.request("x"))))).await;
    assert_eq!(mode(&spec).as_deref(), Some("plan"), "narrower it may be");
    // What the parent has, its child may have.
    let edits = world.parent(world.request("edits")).await;
    let (spec, _) = world.spec(below(edits, in_mode("acceptEdits", of("claude", world.request("x"))))).await;
    assert_eq!(mode(&spec).as_deref(), Some("acceptEdits"));
    // Of another agent's word nobody knows what it comes to.
    let problem = world.spawn(below(asks, in_mode("yolo", of("zed", world.request("x"))))).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::WiderThanParent, "{problem:?}");
    // A person may say whatever there is.
    let (spec, _) = world.spec(in_mode("bypassPermissions", of("claude", world.request("x")))).await;
    assert_eq!(mode(&spec).as_deref(), Some("bypassPermissions"));
    let (spec, _) = world.spec(in_mode("yolo", of("zed", world.request("x")))).await;
    assert_eq!(mode(&spec).as_deref(), Some("yolo"));
    // Codex asks about all edits where nothing wider is allowed.
    let (spec, _) =
        world.spec(below(asks, in_mode("workspace-write", of("codex", world.request("x"))))).await;
    assert_eq!(mode(&spec), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn perm_10_a_child_that_cannot_be_in_the_sandbox_of_its_parent_is_refused() {
    let world = World::new(Limits { depth: 4, ..Limits::default() }).await;
    let looks = world.parent(in_mode("read-only", of("codex", world.request("x")))).await;
    let (spec, notes) =
        world.spec(below(looks, in_mode("danger-full-access", of("codex", world.request("x"))))).await;
    assert_eq!(spec.setup.permission_mode.as_deref(), Some("read-only"), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("sandbox: read-only")), "{notes:?}");
    let (spec, _) = world.spec(below(looks, of("codex", world.request("x")))).await;
    assert_eq!(spec.setup.permission_mode.as_deref(), Some("read-only"), "inherited");
    for name in ["claude", "zed"] {
        let problem = world.spawn(below(looks, of(name, world.request("x")))).await.unwrap_err();
        assert_eq!(problem.code, ErrorCode::NotCapable, "{problem:?}");
        assert!(problem.message.contains("sandbox read-only"), "{problem:?}");
    }
    let problem = world.spawn(below(looks, program(&["make"], world.request("x")))).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::WiderThanParent, "{problem:?}");
    assert!(problem.message.contains("sandbox"), "{problem:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn perm_06_a_program_is_run_only_by_those_who_may_run_programs() {
    let world = World::new(Limits { depth: 4, ..Limits::default() }).await;
    let refused = async |parent, request| {
        let problem = world.spawn(below(parent, request)).await.unwrap_err();
        assert_eq!(problem.code, ErrorCode::WiderThanParent, "{problem:?}");
        problem.message
    };
    let make = || program(&["make", "test"], world.request("x"));
    let reads = world.parent(with_tools(&["Read", "Bash(git *)"], of("claude", world.request("x")))).await;
    assert!(refused(reads, make()).await.contains("make"));
    let own = SpawnRequest { provider: String::from("claude"), ..make() };
    refused(reads, own).await;
    let shell = world.parent(with_tools(&["Bash"], of("claude", world.request("x")))).await;
    let ran = world.spawn(below(shell, make())).await.unwrap().record.id;
    // What bound the parent of a program binds the children of the program.
    let bounds = world.store.get(ran).unwrap().unwrap().spec.bounds.clone();
    assert_eq!(bounds.tools.allow.as_deref().unwrap(), ["Bash"]);
    // A program asks nobody, so the policies above it are asked for it.
    let rule = |matches: &str, say| PolicyRule {
        action: Some(String::from("execute")),
        matches: Some(matches.to_owned()),
        say,
    };
    let permissions = Permissions {
        rules: vec![rule("make *", PolicyWord::Allow), rule("rm *", PolicyWord::Deny)],
        ..Permissions::default()
    };
    let held = world.parent(SpawnRequest { permissions, ..of("claude", world.request("x")) }).await;
    world.spawn(below(held, make())).await.unwrap();
    let why = refused(held, program(&["rm", "-rf", "."], world.request("x"))).await;
    assert!(why.contains("rule 2 of the policy"), "{why}");
    let nobody = Permissions { unattended: true, ..Permissions::default() };
    let alone = world.parent(SpawnRequest { permissions: nobody, ..of("claude", world.request("x")) }).await;
    assert!(refused(alone, make()).await.contains("nobody is there to answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn perm_06_a_type_spawns_the_types_that_it_may_and_no_deeper() {
    let world = World::new(Limits { depth: 9, ..Limits::default() }).await;
    world.define("lead", "provider: claude\nallowed_subagents: [Helper, lead]\nmax_depth: 2");
    world.define("worker", "provider: claude\naliases: [helper]");
    world.define("alone", "provider: claude\nallowed_subagents: []");
    let lead = world.parent(world.request("lead")).await;
    let worker = world.parent(below(lead, world.request("worker"))).await;
    for request in [world.request("alone"), of("claude", world.request("x"))] {
        let problem = world.spawn(below(lead, request)).await.unwrap_err();
        assert_eq!(problem.code, ErrorCode::TypeNotAllowed, "{problem:?}");
        assert_eq!(problem.ids, ["worker", "lead"], "by their own names");
    }
    // Below it the same types, and one level less.
    let problem = world.spawn(below(worker, world.request("alone"))).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::TypeNotAllowed, "{problem:?}");
    let last = world.parent(below(worker, world.request("worker"))).await;
    let problem = world.spawn(below(last, world.request("worker"))).await.unwrap_err();
    assert_eq!((problem.code, problem.limit, problem.used), (ErrorCode::DepthLimit, Some(2), Some(2)));
    let alone = world.parent(world.request("alone")).await;
    let problem = world.spawn(below(alone, world.request("worker"))).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::TypeNotAllowed, "{problem:?}");
    let refused = world.engine.health().await.unwrap().refused;
    assert_eq!(refused.get("type_not_allowed"), Some(&4), "refusals of the one gate: {refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn def_11_a_model_is_the_one_that_its_name_means_or_an_error() {
    let world = World::with(Limits::default(), &[("claude", &["sonnet-5", "sonnet-5-long", "opus-5"])]).await;
    let named = |provider: &str, model: &str| SpawnRequest {
        model: Some(model.to_owned()),
        ..of(provider, world.request("x"))
    };
    let (spec, notes) = world.spec(named("claude", "sonnet-5")).await;
    assert_eq!(
        (spec.model.as_deref(), notes.as_slice()),
        (Some("sonnet-5"), &[][..]),
        "exact: nothing to tell"
    );
    let (spec, notes) = world.spec(named("claude", "Opus")).await;
    assert_eq!(spec.model.as_deref(), Some("opus-5"));
    assert_eq!(notes, ["model: opus-5, which \"Opus\" means"]);
    for (name, usable) in [("sonnet", 2), ("haiku", 3)] {
        let problem = world.spawn(named("claude", name)).await.unwrap_err();
        assert_eq!((problem.code, problem.ids.len()), (ErrorCode::UnknownModel, usable), "{problem:?}");
        assert!(problem.message.starts_with("the call names"), "{problem:?}");
    }
    world.define("worker", "provider: claude\nmodel: gone");
    let problem = world.spawn(world.request("worker")).await.unwrap_err();
    assert!(problem.message.starts_with("the definition names the model \"gone\""), "{problem:?}");
    // Where nothing is known of a provider's models the name is passed as it is.
    let (spec, notes) = world.spec(named("codex", "Any Thing")).await;
    assert_eq!((spec.model.as_deref(), notes.len()), (Some("Any Thing"), 0));
    // What an agent has offered counts from then on.
    let told =
        SpawnRequest { prompt: String::from("offer gpt-6 gpt-6-mini\nsay done"), ..named("codex", "a") };
    world.spawn(SpawnRequest { wait_ms: Some(20_000), ..told }).await.unwrap();
    let (spec, notes) = world.spec(named("codex", "gpt 6 mini")).await;
    assert_eq!(spec.model.as_deref(), Some("gpt-6-mini"), "{notes:?}");
    let (spec, _) = world.spec(named("codex", "newer")).await;
    assert_eq!(spec.model.as_deref(), Some("newer"), "it may have come since");
}
