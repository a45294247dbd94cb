//! The fixtures of each dialect, read field by field: row DEF-06 as tests, and DEF-15 on the same files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{World, about, fixture_places, fixtures, one, words};
use serde_json::json;
use subagent_config::{
    AgentDefinition, Catalog, ContextOptions, ContextStart, Dialect, Effort, Field, Given, Isolation, Known,
    Limits, McpServer, MemoryScope, ModelChoice, PermissionMode, PromptMode, Sandbox, Scope, Severity,
    Skills, ToolList, Visibility, claude_agents,
};
use subagent_model::{Permissions, PolicyRule, PolicyWord};

fn fixture(name: &str) -> Arc<AgentDefinition> {
    one(&Catalog::load(&fixture_places(true)), name)
}

fn tools(list: &[&str]) -> Given<ToolList> {
    Given::Value(ToolList::new(list.iter().copied()))
}

fn named(model: &str) -> Given<ModelChoice> {
    Given::Value(ModelChoice::Named(model.to_owned()))
}

fn rule(action: Option<&str>, matches: Option<&str>, say: PolicyWord) -> PolicyRule {
    PolicyRule { action: action.map(str::to_owned), matches: matches.map(str::to_owned), say }
}

/// Where a fixture was read, with its dialect.
fn origin(it: &AgentDefinition, path: &str, dialect: Dialect) {
    assert_eq!(it.source.path.as_deref(), Some(&*fixtures().join("project").join(path)));
    assert_eq!((it.source.dialect, it.source.scope, it.source.trusted), (dialect, Scope::Project, true));
}

#[test]
fn def_06_our_own_files() {
    let it = fixture("reviewer");
    origin(&it, ".subagent/agents/reviewer.md", Dialect::Subagent);
    assert_eq!(it.name.as_str(), "reviewer");
    assert_eq!(it.display_name.as_deref(), Some("Reviewer"));
    assert_eq!(it.aliases.iter().map(ToString::to_string).collect::<Vec<_>>(), ["review", "code-review"]);
    assert_eq!(it.description, "Reads a change and says what is wrong with it.");
    assert_eq!(it.prompt.text, "You are {{type}}: {{description}}\n\n---\n\nSay \\{{nothing}} twice.");
    assert_eq!((it.prompt.mode, it.prompt.template), (PromptMode::Replace, true));
    assert_eq!(it.tools, tools(&["Read", "Grep", "Bash(git *)", "mcp__tracker__*"]));
    assert_eq!(it.disallowed_tools, Given::Nothing);
    assert_eq!(it.model, named("sonnet"));
    assert_eq!(it.effort, Given::Value(Effort::High));
    assert_eq!(it.permission_mode, Some(PermissionMode::Plan));
    assert_eq!(
        it.permissions,
        Some(Permissions {
            otherwise: PolicyWord::Ask,
            rules: vec![
                rule(Some("execute"), Some("git log*"), PolicyWord::Allow),
                rule(Some("execute"), None, PolicyWord::Deny),
            ],
            unattended: false,
            expire_ms: Some(300_000),
        })
    );
    assert_eq!(it.sandbox, Some(Sandbox::ReadOnly));
    assert_eq!(
        it.limits,
        Limits {
            max_turns: 30.into(),
            grace_turns: 2.into(),
            max_tokens: 200_000.into(),
            max_cost_usd: 1.5.into(),
            max_tool_calls: Given::Nothing,
            timeout_ms: 5_400_000.into(),
        }
    );
    assert_eq!(it.provider.as_deref(), Some("acp"));
    assert_eq!(it.skills, Given::Value(Skills::Only(words(&["review-notes"]))));
    assert_eq!(
        it.mcp_servers,
        Given::Value(vec![
            McpServer { name: "shared".into(), config: None },
            McpServer {
                name: "tracker".into(),
                config: Some(json!({"command": "tracker-mcp", "args": ["--read-only"]})),
            },
        ])
    );
    assert_eq!(it.hooks, Given::Value(json!({"Stop": [{"command": "./check.sh"}]})));
    assert_eq!(it.memory, Given::Value(MemoryScope::Project));
    assert_eq!(it.background, Some(true));
    assert_eq!(it.isolation, Given::Value(Isolation::Worktree));
    assert_eq!(
        it.context,
        ContextOptions {
            instructions: Some(true),
            start: Some(ContextStart::Fresh),
            initial_prompt: Given::Value("Begin with the tests.".into()),
            compact_at: Given::Value(150_000),
        }
    );
    assert_eq!(it.allowed_subagents, Given::Value(words(&["explore"])));
    assert_eq!((it.max_depth, it.visibility), (Some(1), Visibility::Listed));
    assert_eq!(it.locks, BTreeSet::from([Field::Model, Field::Effort]));
    assert_eq!(it.extra["house_style"], "strict");

    let plain = fixture("plain");
    assert_eq!((plain.name.as_str(), plain.prompt.text.as_str()), ("plain", "Do it."));
    assert_eq!((plain.prompt.mode, &plain.tools), (PromptMode::Append, &Given::Omitted));
}

#[test]
fn def_06_claude_code() {
    let it = fixture("doc-writer");
    origin(&it, ".claude/agents/writer.md", Dialect::Claude);
    assert_eq!(it.prompt.text, "You write documentation for {{people}}.");
    assert_eq!((it.prompt.mode, it.prompt.template), (PromptMode::Replace, false));
    assert_eq!(it.tools, tools(&["Read", "Write", "Agent", "mcp__wiki__*"]));
    assert_eq!(it.allowed_subagents, Given::Value(words(&["explore", "reviewer"])));
    assert_eq!(it.disallowed_tools, tools(&["WebFetch"]));
    assert_eq!(it.model, Given::Value(ModelChoice::Inherit));
    assert_eq!(it.effort, Given::Value(Effort::Number(32_000)));
    assert_eq!(it.permission_mode, Some(PermissionMode::AcceptEdits));
    let wiki = json!({"type": "http", "url": "http://localhost:1234"});
    assert_eq!(it.mcp_servers, Given::Value(vec![McpServer { name: "wiki".into(), config: Some(wiki) }]));
    assert_eq!(it.limits, Limits { max_turns: 12.into(), ..Limits::default() });
    assert_eq!(it.skills, Given::Value(Skills::Only(words(&["prose"]))));
    assert_eq!(it.memory, Given::Value(MemoryScope::User));
    assert_eq!((it.background, &it.isolation), (Some(false), &Given::Value(Isolation::Worktree)));
    assert_eq!(it.context.instructions, Some(false));
    assert_eq!(it.context.initial_prompt, Given::Value("Look at the glossary first.".into()));
    assert_eq!(it.context.compact_at, Given::Value(100_000));
    assert_eq!((&it.extra["color"], &it.extra["someFutureKey"]), (&json!("purple"), &json!(7)));
    // The name is the one in the header, in directories below too; a file without one is a document.
    assert_eq!(fixture("lead").name.as_str(), "Lead");
    let catalog = Catalog::load(&fixture_places(true));
    let notes = about(&catalog, "NOTES.md");
    assert!(notes.len() == 1 && notes[0].severity == Severity::Note, "{notes:?}");
    catalog.get("notes").unwrap_err();
}

#[test]
fn def_06_codex() {
    let it = fixture("tester");
    origin(&it, ".codex/agents/deep/tester.toml", Dialect::Codex);
    assert_eq!(it.prompt.text, "Run the tests.\nReport what failed.");
    assert_eq!(it.prompt.mode, PromptMode::Append);
    assert_eq!(it.model, named("openai/gpt-6"));
    assert_eq!(it.effort, Given::Value(Effort::XHigh));
    assert_eq!((it.sandbox, it.permission_mode), (Some(Sandbox::WorkspaceWrite), Some(PermissionMode::Deny)));
    let ci = McpServer { name: "ci".into(), config: Some(json!({"command": "ci-mcp"})) };
    assert_eq!(it.mcp_servers, Given::Value(vec![ci]));
    assert_eq!(it.extra["nickname_candidates"], json!(["Tess"]));
    assert_eq!(it.extra["model_context_window"], 200_000);
    // The table of config.toml: a role in a file beside it, and one without.
    let migrator = fixture("migrator");
    origin(&migrator, ".codex/roles/migrator.toml", Dialect::Codex);
    assert_eq!((migrator.description.as_str(), migrator.sandbox), ("Moves data.", Some(Sandbox::ReadOnly)));
    let watcher = fixture("watcher");
    origin(&watcher, ".codex/config.toml", Dialect::Codex);
    assert_eq!(watcher.prompt.text, "");
}

#[test]
fn def_06_opencode() {
    let it = fixture("sub/bar");
    origin(&it, ".opencode/agent/sub/bar.md", Dialect::Opencode);
    assert_eq!((it.prompt.text.as_str(), it.prompt.mode), ("Look around.", PromptMode::Replace));
    assert_eq!(it.model, named("anthropic/claude-haiku-5"));
    assert_eq!(it.effort, Given::Value(Effort::High));
    assert_eq!(it.limits.max_turns, Given::Value(9));
    assert_eq!((&it.tools, &it.disallowed_tools), (&Given::Omitted, &tools(&["write", "edit", "webfetch"])));
    // The last rule that fits counts in opencode, and the first one here.
    let rules = it.permissions.as_ref().unwrap().rules.clone();
    assert_eq!(
        rules,
        [
            rule(Some("task"), Some("explore"), PolicyWord::Allow),
            rule(Some("task"), Some("*"), PolicyWord::Deny),
            rule(Some("webfetch"), None, PolicyWord::Deny),
            rule(Some("bash"), Some("git *"), PolicyWord::Allow),
            rule(Some("bash"), Some("*"), PolicyWord::Ask),
        ]
    );
    assert_eq!(it.allowed_subagents, Given::Value(words(&["explore"])));
    assert_eq!(it.visibility, Visibility::Hidden);
    assert_eq!(it.extra["temperature"], 0.2);
    // The table of opencode.json, with comments and commas at the end.
    let short = fixture("summarize");
    origin(&short, "opencode.json", Dialect::Opencode);
    assert_eq!((short.prompt.text.as_str(), &short.tools), ("Make it short.", &tools(&["read"])));
    assert_eq!(short.limits.max_turns, Given::Value(3));
    // What a person speaks with is no subagent; settings of opencode's own agents are no definitions.
    let catalog = Catalog::load(&fixture_places(true));
    assert!(catalog.get("build").unwrap_err().to_string().contains("is disabled"));
    let notes = about(&catalog, "opencode.json");
    assert!(notes.len() == 1 && notes[0].severity == Severity::Note, "{notes:?}");
}

#[test]
fn def_06_pi() {
    let it = fixture("tools.scout");
    origin(&it, ".pi/agents/scout.md", Dialect::Pi);
    assert_eq!(it.display_name.as_deref(), Some("The scout"));
    assert_eq!(it.tools, tools(&["read", "grep", "find"]));
    assert_eq!(it.disallowed_tools, tools(&["bash"]));
    assert_eq!((&it.model, &it.effort), (&named("haiku"), &Given::Nothing));
    assert_eq!(it.prompt.mode, PromptMode::Replace);
    assert_eq!(
        it.limits,
        Limits { max_turns: 8.into(), grace_turns: 1.into(), timeout_ms: 90_000.into(), ..Limits::default() }
    );
    assert_eq!((&it.skills, &it.memory), (&Given::Nothing, &Given::Value(MemoryScope::Local)));
    assert_eq!((it.background, &it.isolation), (Some(true), &Given::Nothing));
    assert_eq!((it.context.start, it.context.instructions), (Some(ContextStart::Fork), Some(false)));
    assert_eq!((&it.allowed_subagents, it.max_depth), (&Given::Omitted, Some(0)));
    assert_eq!(it.extra["fallbackModels"], json!(["sonnet"]));
    // The name of the file where the header has none.
    assert!(
        Catalog::load(&fixture_places(true)).get("sleeper").unwrap_err().to_string().contains("is disabled")
    );
}

#[test]
fn def_06_gemini() {
    let it = fixture("poet");
    origin(&it, ".gemini/agents/poet.md", Dialect::Gemini);
    assert_eq!(it.tools, tools(&["read_file", "mcp_verse_*"]));
    assert_eq!(it.model, Given::Value(ModelChoice::Inherit));
    assert_eq!(it.limits, Limits { max_turns: 5.into(), timeout_ms: 150_000.into(), ..Limits::default() });
    assert_eq!(it.allowed_subagents, Given::Nothing);
    assert_eq!(it.extra["temperature"], 0.9);
    let world = World::new();
    world.write(
        "project/.gemini/agents/far.md",
        "---\nname: far\ndescription: x\nkind: remote\nagent_card_url: http://x\n---\n",
    );
    assert!(world.load().get("far").unwrap_err().to_string().contains("known by its card"));
}

#[test]
fn def_06_unknown_keys_are_kept_with_a_warning_and_nothing_else_is_told() {
    let catalog = Catalog::load(&fixture_places(true));
    let mut told: Vec<_> = catalog
        .diagnostics()
        .iter()
        .filter(|remark| remark.severity != Severity::Note)
        .map(|remark| (remark.severity, remark.path.file_name().unwrap(), remark.field.as_deref().unwrap()))
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            (Severity::Warning, "reviewer.md", "house_style"),
            (Severity::Warning, "tester.toml", "model_context_window"),
            (Severity::Warning, "writer.md", "someFutureKey"),
        ]
    );
    assert_eq!(
        catalog.usable(),
        [
            "doc-writer",
            "explore",
            "general-purpose",
            "Lead",
            "migrator",
            "plain",
            "plan",
            "poet",
            "reviewer",
            "summarize",
            "tester",
            "tools.scout",
            "watcher",
        ]
    );
}

#[test]
fn def_06_keys_may_be_written_in_every_case_and_lists_in_both_ways() {
    let world = World::trusted();
    for (index, (turns, deny)) in [
        ("maxTurns: 3", "disallowedTools: A, B"),
        ("max-turns: 3", "disallowed-tools: [A, B]"),
        ("max_turns: 3", "disallowed_tools:\n  - A\n  - B"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("---\nname: n{index}\ndescription: x\n{turns}\n{deny}\n---\nBody.\n");
        for place in [".subagent", ".claude", ".pi"] {
            let directory = if place == ".subagent" { "project" } else { &format!("project/{}", "deep") };
            world.write(&format!("{directory}/{place}/agents/n{index}.md"), &text);
        }
        world.own(&format!("own{index}"), &format!("{turns}\n{deny}"));
    }
    let catalog = world.load();
    assert_eq!(world.told(&catalog), [""; 0]);
    for name in ["n0", "n1", "n2", "own0", "own1", "own2"] {
        let it = one(&catalog, name);
        assert_eq!(
            (&it.limits.max_turns, &it.disallowed_tools),
            (&Given::Value(3), &tools(&["A", "B"])),
            "{name}"
        );
    }
}

#[test]
fn def_06_a_role_in_two_files_of_codex_is_an_error_and_one_that_is_pointed_to_is_not() {
    let world = World::new();
    world.write(
        "project/.codex/agents/a.toml",
        "name = \"a\"\ndescription = \"x\"\ndeveloper_instructions = \"A\"\n",
    );
    world.write(
        "project/.codex/config.toml",
        "[agents.a]\ndescription = \"x\"\nconfig_file = \"agents/a.toml\"\n",
    );
    one(&world.load(), "a");
    world.write(
        "project/.codex/agents/b.toml",
        "name = \"A\"\ndescription = \"x\"\ndeveloper_instructions = \"B\"\n",
    );
    assert!(world.load().get("a").unwrap_err().to_string().contains("more than once"));
    world.write(
        "project/.codex/agents/c.toml",
        "name = \"c\"\ndescription = \"x\"\ndeveloper_instructions = \" \"\n",
    );
    world.write("project/.codex/agents/d.toml", "name = \"d\"\ndescription = \"x\"\n");
    let catalog = world.load();
    for name in ["c", "d"] {
        assert!(catalog.get(name).unwrap_err().to_string().contains("developer_instructions"), "{name}");
    }
}

#[test]
fn def_06_texts_that_opencode_would_put_in_are_refused() {
    let world = World::new();
    world.write(
        "project/opencode.json",
        r#"{"agent": {"a": {"description": "x", "prompt": "{file:./a.txt}"}}}"#,
    );
    assert!(world.load().get("a").unwrap_err().to_string().contains("is not read here"));
}

#[test]
fn def_15_what_gives_power_is_held_back_until_the_project_is_trusted() {
    let catalog = Catalog::load(&fixture_places(false));
    let reviewer = one(&catalog, "reviewer");
    assert!(!reviewer.source.trusted);
    assert_eq!(reviewer.hooks, Given::Omitted);
    assert_eq!(reviewer.mcp_servers, Given::Value(vec![McpServer { name: "shared".into(), config: None }]));
    assert_eq!(reviewer.locks, BTreeSet::new());
    // What keeps it back stays.
    assert_eq!(
        (reviewer.permission_mode, reviewer.sandbox),
        (Some(PermissionMode::Plan), Some(Sandbox::ReadOnly))
    );
    assert!(reviewer.tools.value().is_some() && reviewer.limits.max_turns == Given::Value(30));
    let rules = &reviewer.permissions.as_ref().unwrap().rules;
    assert_eq!((rules[0].say, rules[1].say), (PolicyWord::Ask, PolicyWord::Deny));

    assert_eq!(one(&catalog, "doc-writer").permission_mode, None);
    assert_eq!(one(&catalog, "doc-writer").mcp_servers, Given::Nothing);
    let tester = one(&catalog, "tester");
    // A fence stays, whoever set it up; only none at all is a wider one.
    assert_eq!((tester.sandbox, &tester.mcp_servers), (Some(Sandbox::WorkspaceWrite), &Given::Nothing));
    assert!(tester.extra.is_empty());
    assert_eq!(one(&catalog, "poet").mcp_servers, Given::Nothing);

    let mut held: Vec<_> = catalog
        .diagnostics()
        .iter()
        .filter(|remark| remark.message.ends_with("until the project is trusted"))
        .map(|remark| {
            assert_eq!(remark.severity, Severity::Warning);
            format!("{}: {}", remark.path.file_name().unwrap(), remark.field.as_deref().unwrap())
        })
        .collect();
    held.sort_unstable();
    assert_eq!(
        held,
        [
            "bar.md: permission",
            "poet.md: mcpServers",
            "reviewer.md: hooks",
            "reviewer.md: locks",
            "reviewer.md: max_tool_calls",
            "reviewer.md: mcp_servers",
            "reviewer.md: permissions",
            "scout.md: isolation",
            "tester.toml: mcp_servers",
            "tester.toml: model_context_window",
            "writer.md: mcpServers",
            "writer.md: permissionMode",
        ]
    );
}

#[test]
fn def_15_a_command_of_a_stranger_does_not_run() {
    let mut world = World::new();
    world.own("build", "provider: exec\ncommand: [make, all]");
    let catalog = world.load();
    assert!(catalog.get("build").unwrap_err().to_string().contains("is disabled"));
    assert_eq!(
        world.told(&catalog),
        [
            "project/.subagent/agents/build.md:4:1: warning: `command`: the command is ignored, and the type is disabled \
             until the project is trusted"
        ]
    );
    // Trust in a directory above counts, and one in a sibling does not.
    world.places.trusted = vec![world.root.join("proj"), world.root.join("project/deep")];
    world.load().get("build").unwrap_err();
    world.places.trusted = vec![world.root.clone()];
    assert_eq!(one(&world.load(), "build").command, ["make", "all"]);
}

#[test]
fn def_15_a_link_to_a_trusted_name_is_not_trusted() {
    let mut world = World::new();
    world.own("build", "provider: exec\ncommand: [make]");
    // The trusted path is a link to the project: the same place, so it is trusted; the other way round it is not.
    let link = world.root.join("link");
    std::os::unix::fs::symlink(world.root.join("project"), &link).unwrap();
    world.places.trusted = vec![link];
    one(&world.load(), "build");
    let other = World::new();
    let named = world.root.join("trusted");
    std::os::unix::fs::symlink(other.root.join("project"), &named).unwrap();
    other.own("build", "provider: exec\ncommand: [make]");
    world.places.trusted = vec![world.root.clone()];
    world.places.project = Some(subagent_config::Project { start: named.clone(), root: named });
    assert!(world.load().get("build").unwrap_err().to_string().contains("is disabled"));
}

#[test]
fn def_06_claude_code_in_json() {
    let json = r#"{
        "helper": {"description": "Helps.", "prompt": "Help.", "tools": ["Read"], "maxTurns": 3, "color": "red"},
        "wrong": {"description": "x", "prompt": "y", "maxTurns": "3"},
        "-bad": {"description": "x", "prompt": "y"}
    }"#;
    let (definitions, remarks) = claude_agents(json, &Known::default());
    assert_eq!(definitions.len(), 1);
    assert_eq!((definitions[0].prompt.text.as_str(), &definitions[0].tools), ("Help.", &tools(&["Read"])));
    assert_eq!(definitions[0].source.to_string(), "(runtime)");
    let remarks: Vec<_> = remarks.iter().map(ToString::to_string).collect();
    assert_eq!(
        remarks,
        [
            "(runtime):3:66: error: `wrong.maxTurns`: it must be a whole number, and is the text \"3\"",
            "(runtime):4:17: error: `-bad.name`: a name begins with a letter, a digit or `_` and ends with one, not with '-'",
        ]
    );
    assert_eq!(claude_agents("[", &Known::default()).1.len(), 1);
    let world = World::new();
    let mut places = world.places.clone();
    places.runtime = definitions;
    assert_eq!(one(&Catalog::load(&places), "helper").source.scope, Scope::Runtime);
}

#[test]
fn def_06_origin_and_kind_are_shown() {
    let of = |name: &str, trusted| one(&Catalog::load(&fixture_places(trusted)), name).source.to_string();
    assert!(of("doc-writer", true).ends_with(".claude/agents/writer.md (claude)"));
    assert!(of("poet", false).ends_with(".gemini/agents/poet.md (gemini, not trusted)"));
    assert_eq!(of("explore", true), "(builtin)");
}

#[test]
fn def_15_to_be_without_hooks_limits_and_isolation_is_power_too() {
    let world = World::new();
    world.own("free", "hooks: none\nmax_turns: 0\ntimeout: none\nisolation: none");
    let catalog = world.load();
    let it = one(&catalog, "free");
    assert_eq!(
        (&it.hooks, &it.isolation, &it.limits),
        (&Given::Omitted, &Given::Omitted, &Limits::default())
    );
    assert_eq!(world.told(&catalog).len(), 4);
}
