//! Loading: rows DEF-01 to DEF-05, DEF-07 and DEF-10 as tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use common::{World, about, fixtures, one, own, words};
use subagent_config::{
    AgentDefinition, Catalog, Catalogs, Given, Homes, Known, Places, Scope, Severity, Skills, ToolList,
    TypeError, fingerprint,
};

fn claude(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: Does something.\n---\n{body}\n")
}

fn bad_fixtures() -> Catalog {
    let home = tempfile::tempdir().unwrap();
    let agents = home.path().join("agents");
    symlink(fixtures().join("bad"), &agents).unwrap();
    let claude = camino::Utf8PathBuf::from_path_buf(home.path().to_owned()).unwrap();
    Catalog::load(&Places { user: Homes { claude: Some(claude), ..Homes::default() }, ..Places::default() })
}

#[test]
fn def_01_a_bad_file_hides_no_other_and_is_told_with_its_line() {
    let catalog = bad_fixtures();
    let names: Vec<_> = catalog.definitions().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["anchored", "explore", "general-purpose", "good", "plan", "windows"]);
    for (file, line, part) in [
        ("unclosed.md", Some(1), "has no end"),
        ("colon.md", Some(3), "needs quotes"),
        ("duplicate.md", Some(5), "duplicate"),
        ("latin1.md", Some(3), "not UTF-8"),
        ("utf16.md", None, "UTF-16"),
        ("zero.md", Some(5), "zero byte"),
        ("list.md", Some(2), "must be a table of fields (key: value), and is a list"),
        ("words.md", Some(2), "must be a table of fields (key: value), and is a text"),
        ("alias.md", Some(3), "unknown anchor"),
    ] {
        let remarks = about(&catalog, file);
        assert_eq!(remarks.len(), 1, "{file}: {remarks:?}");
        assert_eq!(remarks[0].severity, Severity::Error, "{file}");
        assert_eq!(remarks[0].at.map(|at| at.line), line, "{}", remarks[0]);
        assert!(remarks[0].message.contains(part), "{}", remarks[0]);
    }
    assert_eq!(catalog.diagnostics().len(), 9, "{:#?}", catalog.diagnostics());
}

#[test]
fn def_01_marks_and_line_ends_of_other_systems_are_read() {
    let windows = one(&bad_fixtures(), "windows");
    assert_eq!(windows.prompt.text, "One.\n\nTwo.");
    assert_eq!(windows.tools, Given::Value(ToolList::new(["Read", "Write"])));
    assert_eq!(windows.description, "From another system.");
}

#[test]
fn def_01_anchors_say_the_same_twice() {
    let anchored = one(&bad_fixtures(), "anchored");
    assert_eq!(anchored.display_name.as_deref(), Some("Says it once."));
    assert_eq!(
        (&anchored.tools, &anchored.disallowed_tools),
        (&Given::Value(ToolList::new(["Read"])), &anchored.tools)
    );
}

#[test]
fn def_01_a_broken_definition_keeps_its_name() {
    let world = World::new();
    world.write("home/.claude/agents/reviewer.md", claude("reviewer", "The wide one."));
    world.write("project/.claude/agents/any.md", "---\nname: reviewer\ntools: [Read\n---\nThe narrow one.\n");
    let catalog = world.load();
    let error = catalog.get("reviewer").unwrap_err();
    assert!(matches!(&error, TypeError::Broken { path, .. } if path.ends_with("any.md")), "{error}");
    assert!(error.to_string().contains("usable: explore, general-purpose, plan"), "{error}");
}

#[test]
fn def_01_very_large_files_and_headers_are_refused() {
    let world = World::new();
    world.own("good", "");
    let large = format!("---\ndescription: x\n---\n{}", "x".repeat(2 * 1024 * 1024));
    world.write("project/.subagent/agents/large.md", large);
    world.write("project/.subagent/agents/header.md", own(&format!("x: {}", "y".repeat(100_000))));
    let many = (0..30_000).fold(String::from("x: ["), |all, _| all + "1,") + "]";
    world.write("project/.subagent/agents/many.md", own(&many));
    let body = format!("---\ndescription: x\n---\n{}", "y".repeat(900_000));
    world.write("project/.subagent/agents/body.md", body);
    let catalog = world.load();
    one(&catalog, "good");
    assert_eq!(one(&catalog, "body").prompt.text.len(), 900_000);
    for (file, part) in
        [("large.md", "larger than 1024 KiB"), ("header.md", "larger than 64 KiB"), ("many.md", "")]
    {
        let remarks = about(&catalog, file);
        assert!(
            remarks.len() == 1 && remarks[0].is_error() && remarks[0].message.contains(part),
            "{remarks:?}"
        );
    }
}

#[test]
fn def_01_what_is_no_plain_file_is_left_alone() {
    let world = World::new();
    world.own("good", "");
    let agents = world.root.join("project/.subagent/agents");
    fs::create_dir(agents.join("directory.md")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(agents.join("pipe.md")).status().unwrap();
    assert!(made.success());
    symlink("nowhere", agents.join("dangling.md")).unwrap();
    symlink("looping.md", agents.join("looping.md")).unwrap();
    let catalog = world.load();
    one(&catalog, "good");
    let told: Vec<_> = world.told(&catalog);
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(told.iter().any(|remark| remark.ends_with("pipe.md: error: it is no plain file")), "{told:#?}");
}

#[test]
fn def_01_a_file_where_a_directory_would_be_is_no_fault() {
    let world = World::new();
    world.own("good", "");
    // A file where a directory would be is no fault: other programs have their own files there.
    world.write("project/.claude", "");
    let catalog = world.load();
    one(&catalog, "good");
    assert_eq!(world.told(&catalog), [""; 0]);
}

#[test]
fn def_01_links_in_a_circle_end() {
    let world = World::new();
    world.write("project/.claude/agents/a/good.md", claude("good", "x"));
    symlink("..", world.root.join("project/.claude/agents/a/up")).unwrap();
    let catalog = world.load();
    one(&catalog, "good");
}

/// Every wrong value with the part of the message that names it.
const WRONG: &[(&str, &str, &str)] = &[
    ("effort: bananas", "effort", "\"bananas\" is not one of minimal, low, medium, high, xhigh, max"),
    ("effort: 2.5", "effort", "is the number 2.5"),
    ("effort: -1", "effort", "is the number -1"),
    ("max_turns: 2.5", "max_turns", "must be a whole number, and is 2.5"),
    ("max_turns: \"3\"", "max_turns", "must be a whole number, and is the text \"3\""),
    ("max_turns: -1", "max_turns", "must be from 0 to 1000000, and is -1"),
    ("max_turns: 99999999999999999999", "max_turns", "whole number"),
    ("max_turns: [1]", "max_turns", "whole number"),
    ("max_turns: true", "max_turns", "and is true"),
    ("max_cost_usd: -0.5", "max_cost_usd", "must be above 0"),
    ("max_cost_usd: .inf", "max_cost_usd", "must be a number"),
    ("max_cost_usd: cheap", "max_cost_usd", "must be a number"),
    ("background: \"false\"", "background", "must be true or false, and is the text \"false\""),
    ("background: yes", "background", "must be true or false, and is the text \"yes\""),
    ("background: 1", "background", "and is the number 1"),
    ("background:", "background", "it has no value"),
    ("timeout: 600", "timeout", "600 of which unit?"),
    ("timeout: soon", "timeout", "a duration such as 90s"),
    ("timeout: 1.5h", "timeout", "a duration such as 90s"),
    ("model: [a]", "model", "must be a text, and is a list"),
    ("model: 4", "model", "must be a text, and is the number 4"),
    ("permission_mode: yolo", "permission_mode", "\"yolo\" is not one of plan, deny, ask"),
    ("permission_mode:", "permission_mode", "it has no value"),
    ("sandbox: none", "sandbox", "\"none\" is not one of read-only, workspace-write, full-access"),
    ("isolation: docker", "isolation", "is not one of worktree"),
    ("memory: cloud", "memory", "is not one of user, project, local"),
    ("visibility: secret", "visibility", "is not one of listed, hidden, disabled"),
    ("prompt_mode: prepend", "prompt_mode", "is not one of append, replace"),
    ("tools: {Read: true}", "tools", "must be a list"),
    ("tools: [Read, 3]", "tools", "must be a text, and is a number"),
    ("tools: [Read, '']", "tools", "is empty"),
    ("tools: none, Read", "tools", "cannot stand beside others"),
    ("tools: [Raed]", "tools", "there is no tool \"Raed\"; did you mean \"Read\"?"),
    ("disallowed_tools: Bosh", "disallowed_tools", "there is no tool \"Bosh\""),
    ("tools: mcp__tracer__*", "tools", "there is no server \"tracer\""),
    ("mcp_servers: [trackr]", "mcp_servers", "there is no server \"trackr\"; did you mean \"tracker\"?"),
    ("mcp_servers: {tracker: 1}", "mcp_servers", "must be a table, and is a number"),
    ("mcp_servers: [[a]]", "mcp_servers", "an item must be a name"),
    ("mcp_servers: [tracker, tracker]", "mcp_servers", "twice"),
    ("provider: claud", "provider", "there is no provider \"claud\""),
    ("hooks: [a]", "hooks", "must be a table of hooks"),
    ("skills: 3", "skills", "must be a list"),
    ("context: fork", "context", "must be a table"),
    ("context: {start: middle}", "context.start", "is not one of fresh, fork"),
    ("context: {instruction: true}", "context.instruction", "there is no such field"),
    ("permissions: {otherwise: maybe}", "permissions.otherwise", "is not one of allow, ask, deny"),
    ("permissions: {rules: [{action: x}]}", "permissions.rules.say", "it is missing"),
    ("permissions: {rules: [{acton: x, say: deny}]}", "permissions.rules.acton", "there is no such field"),
    ("max_depth: 65", "max_depth", "from 0 to 64"),
    ("max_turn: 3", "max_turn", "there is no such limit (did you mean `max_turns`?)"),
    ("max_things: 3", "max_things", "there is no such limit (the limits are max_turns"),
    ("tool: Read", "tool", "did you mean `tools`?"),
    ("sandbx: read-only", "sandbx", "did you mean `sandbox`?"),
    ("locks: [colour]", "locks", "\"colour\" cannot be locked"),
    ("locks: [tools]", "locks", "a call can only narrow it"),
    ("provider: exec", "command", "it is missing"),
    ("command: [make]", "command", "only provider `exec`"),
    ("provider: exec\ncommand: make test", "command", "must be a list"),
    ("aliases: [../x]", "aliases", "cannot be in a name"),
    ("name: 7", "name", "must be a text, and is the number 7"),
    ("maxTurns: 1\nmax-turns: 2", "max-turns", "the same field as `maxTurns`"),
];

#[test]
fn def_02_a_wrong_value_is_refused_with_file_field_and_reason() {
    for (header, field, part) in WRONG {
        let mut world = World::trusted();
        world.places.known = Known {
            tools: Some(words(&["Read", "Write", "Bash"])),
            servers: Some(words(&["tracker"])),
            providers: Some(words(&["exec", "claude"])),
            variables: Vec::new(),
        };
        world.own("wrong", header);
        world.own("right", "tools: [Read, 'mcp__tracker__*', 'Bash(git *)', 'W*']\nmcp_servers: tracker");
        let catalog = world.load();
        one(&catalog, "right");
        let errors = about(&catalog, "wrong.md");
        let error = errors.first().unwrap_or_else(|| panic!("{header} was taken"));
        assert_eq!(error.severity, Severity::Error, "{header}: {error}");
        assert_eq!(error.field.as_deref(), Some(*field), "{header}: {error}");
        assert!(error.message.contains(part), "{header}: {error}");
        let refused = catalog.get("wrong").unwrap_err();
        assert!(
            matches!(&refused, TypeError::Broken { .. }) && refused.to_string().contains(part),
            "{refused}"
        );
    }
}

#[test]
fn def_02_a_missing_description_and_an_empty_replacement_are_refused() {
    let world = World::new();
    world.write("project/.subagent/agents/a.md", "---\nname: a\n---\nDo it.\n");
    world.write("project/.subagent/agents/b.md", "---\ndescription:\n---\nDo it.\n");
    world.write("project/.subagent/agents/c.md", "---\ndescription: x\nprompt_mode: replace\n---\n\n");
    let catalog = world.load();
    assert_eq!(
        world.told(&catalog),
        [
            "project/.subagent/agents/a.md: error: `description`: it is missing: it says when to use this type",
            "project/.subagent/agents/b.md:2:12: error: `description`: it has no value",
            "project/.subagent/agents/c.md: error: `prompt`: it is missing: it takes the place of every other prompt, \
             and is empty",
        ]
    );
}

#[test]
fn def_02_every_wrong_value_of_a_file_is_told() {
    let world = World::new();
    world.own("wrong", "effort: bananas\nbackground: yes\nmax_turns: 2.5");
    let fields: Vec<_> = about(&world.load(), "wrong.md")
        .iter()
        .map(|it| (it.field.clone().unwrap(), it.at.unwrap().line))
        .collect();
    let told: Vec<_> = fields.iter().map(|(field, line)| (field.as_str(), *line)).collect();
    assert_eq!(told, [("effort", 3), ("max_turns", 5), ("background", 4)]);
}

fn answer<T>(given: &Given<T>) -> &'static str {
    match given {
        Given::Omitted => "omitted",
        Given::Nothing => "nothing",
        Given::Value(_) => "value",
    }
}

#[test]
fn def_03_left_out_empty_and_none_stay_apart() {
    let world = World::trusted();
    world.own("omitted", "");
    world.own("empty", "tools: []\ndisallowed_tools:\nmodel:\neffort: \"\"\nmax_turns:\ntimeout:\nskills: []\nmcp_servers: {}\nhooks: {}\nmemory:\nisolation:\nallowed_subagents: []");
    world.own("none", "tools: none\ndisallowed_tools: none\nmodel: none\neffort: none\nmax_turns: 0\ntimeout: none\nskills: false\nmcp_servers: none\nhooks:\nmemory: none\nisolation: none\nallowed_subagents: [none]");
    world.own("some", "tools: Read\ndisallowed_tools: [Bash]\nmodel: sonnet\neffort: low\nmax_turns: 1\ntimeout: 1s\nskills: true\nmcp_servers: a\nhooks: {Stop: []}\nmemory: user\nisolation: worktree\nallowed_subagents: plan");
    let catalog = world.load();
    assert_eq!(world.told(&catalog), [""; 0]);
    let answers = |name: &str| {
        let it = one(&catalog, name);
        [
            answer(&it.tools),
            answer(&it.disallowed_tools),
            answer(&it.model),
            answer(&it.effort),
            answer(&it.limits.max_turns),
            answer(&it.limits.timeout_ms),
            answer(&it.skills),
            answer(&it.mcp_servers),
            answer(&it.hooks),
            answer(&it.memory),
            answer(&it.isolation),
            answer(&it.allowed_subagents),
        ]
    };
    assert_eq!(answers("omitted"), ["omitted"; 12]);
    assert_eq!(answers("empty"), ["nothing"; 12]);
    assert_eq!(answers("none"), ["nothing"; 12]);
    assert_eq!(answers("some"), ["value"; 12]);
    assert_eq!(one(&catalog, "some").skills, Given::Value(Skills::All));
    // They stay apart on the way through JSON, as a queued run keeps them.
    for definition in catalog.definitions() {
        let text = serde_json::to_string(definition).unwrap();
        assert_eq!(&serde_json::from_str::<AgentDefinition>(&text).unwrap(), &**definition);
    }
}

#[test]
fn def_04_the_nearest_place_wins_as_a_whole() {
    let mut world = World::new();
    world.places.managed.claude = Some(world.root.join("managed"));
    world
        .write("home/.claude/agents/x.md", "---\nname: Helper\ndescription: user\nmodel: opus\n---\nUser.\n");
    let helper = |world: &World| {
        let it = one(&world.load(), "HELPER");
        (
            it.name.to_string(),
            it.description.clone(),
            it.model.value().map(ToString::to_string),
            it.source.scope,
        )
    };
    let opus = Some(String::from("opus"));
    assert_eq!(helper(&world), ("Helper".into(), "user".into(), opus.clone(), Scope::User));
    world.write("project/.claude/agents/x.md", "---\nname: helper\ndescription: root\n---\nRoot.\n");
    assert_eq!(helper(&world), ("helper".into(), "root".into(), None, Scope::Project));
    world.write("project/deep/.gemini/agents/x.md", "---\nname: helper\ndescription: deep\n---\nDeep.\n");
    assert_eq!(helper(&world).1, "deep");
    // At one level our own files come first.
    world.write("project/deep/.subagent/agents/helper.md", "---\ndescription: ours\n---\nOurs.\n");
    assert_eq!(helper(&world).1, "ours");
    world.write(
        "managed/agents/x.md",
        "---\nname: helper\ndescription: managed\nmodel: opus\n---\nManaged.\n",
    );
    assert_eq!(helper(&world), ("helper".into(), "managed".into(), opus, Scope::Managed));
    let catalog = world.load();
    assert_eq!(catalog.shadowed().len(), 4);
    assert_eq!(world.told(&catalog), [""; 0]);
}

#[test]
fn def_04_a_file_takes_the_place_of_a_built_in_type() {
    let world = World::new();
    assert_eq!(one(&world.load(), "explore").source.scope, Scope::Builtin);
    world.own("Explore", "");
    assert_eq!(one(&world.load(), "explore").source.scope, Scope::Project);
    assert_eq!(world.load().usable(), ["Explore", "general-purpose", "plan"]);
}

#[test]
fn def_04_two_in_one_place_are_an_error_naming_both() {
    let world = World::new();
    world.write("project/.claude/agents/a.md", claude("same", "A"));
    world.write("project/.claude/agents/sub/b.md", claude("Same", "B"));
    world.write("home/.claude/agents/c.md", claude("same", "C"));
    let catalog = world.load();
    let TypeError::Twice { by, .. } = catalog.get("same").unwrap_err() else { panic!() };
    assert!(by[0].contains("project/.claude/agents/a.md") && by[1].contains("agents/sub/b.md"), "{by:?}");
    let told = world.told(&catalog);
    assert_eq!(
        told,
        [
            "project/.claude/agents/a.md: error: the name \"same\" is also that of \
             project/.claude/agents/sub/b.md; none of them is used",
            "project/.claude/agents/sub/b.md: error: the name \"Same\" is also that of \
             project/.claude/agents/a.md; none of them is used",
        ]
    );
}

#[test]
fn def_04_a_name_comes_before_an_alias_and_the_nearest_alias_before_others() {
    let world = World::new();
    world.own("one", "aliases: [two, short, shared]");
    world.own("two", "aliases: shared");
    world
        .write("home/.pi/agent/agents/far.md", "---\nname: far\ndescription: x\naliases: short, long\n---\n");
    let catalog = world.load();
    assert_eq!(one(&catalog, "Two").name.as_str(), "two");
    assert_eq!(one(&catalog, "SHORT").name.as_str(), "one");
    assert_eq!(one(&catalog, "long").name.as_str(), "far");
    let TypeError::Twice { by, .. } = catalog.get("shared").unwrap_err() else { panic!() };
    assert_eq!(by, ["one", "two"]);
}

#[test]
fn def_05_names_that_could_be_something_else_are_refused_in_every_dialect() {
    let world = World::new();
    for (index, name) in
        ["../up", ".dot", "-dash", "a:b", "'<b>x</b>'", "'[x](y)'", "\"a\\nb\""].iter().enumerate()
    {
        world.write(&format!("project/.claude/agents/{index}.md"), claude(name, "x"));
    }
    world.write("project/.claude/agents/long.md", claude(&"x".repeat(65), "x"));
    world.write("project/.subagent/agents/-own.md", own(""));
    world.write("project/.opencode/agent/a/-b.md", own(""));
    world.write("project/.codex/config.toml", "[agents.\"a/b\"]\ndescription = \"x\"\n");
    world.write("project/opencode.json", r#"{"agent": {"../x": {"description": "x"}}}"#);
    let catalog = world.load();
    assert_eq!(catalog.usable(), ["explore", "general-purpose", "plan"]);
    let told = world.told(&catalog);
    assert_eq!(told.len(), 12, "{told:#?}");
    assert!(told.iter().all(|remark| remark.contains("name") && remark.contains("error")), "{told:#?}");
}

#[test]
fn def_05_links_do_not_lead_out_of_a_project() {
    let world = World::new();
    let secret = world.write("secret/plan.md", "---\nname: stolen\ndescription: x\n---\nA secret.\n");
    let inside = world.write("project/shared/inside.md", claude("inside", "x"));
    fs::create_dir_all(world.root.join("project/.claude/agents")).unwrap();
    symlink(&secret, world.root.join("project/.claude/agents/stolen.md")).unwrap();
    symlink(secret.parent().unwrap(), world.root.join("project/.claude/agents/all")).unwrap();
    symlink(&inside, world.root.join("project/.claude/agents/inside.md")).unwrap();
    symlink(secret.parent().unwrap(), world.root.join("project/.gemini")).unwrap();
    world.write("secret/agents/g.md", claude("gem", "x"));
    world.write(
        "project/.codex/config.toml",
        "[agents.out]\ndescription = \"x\"\nconfig_file = \"../../secret/plan.md\"\n",
    );
    // What is the person's own may be a link to wherever they keep it.
    fs::create_dir_all(world.root.join("home/.claude")).unwrap();
    world.write("dotfiles/mine.md", claude("mine", "x"));
    symlink(world.root.join("dotfiles"), world.root.join("home/.claude/agents")).unwrap();
    let catalog = world.load();
    one(&catalog, "inside");
    one(&catalog, "mine");
    assert!(catalog.get("stolen").is_err() && catalog.get("gem").is_err());
    assert!(catalog.get("out").unwrap_err().to_string().contains("not in the project"));
    let out = world.told(&catalog).iter().filter(|it| it.contains("leads out of the project")).count();
    assert_eq!(out, 3, "{:#?}", world.told(&catalog));
}

#[test]
fn def_07_one_function_finds_the_directories() {
    let homes = Homes::below("/home/x".into(), "/home/x/.config".into());
    assert_eq!(homes.subagent.as_deref(), Some("/home/x/.config/subagent".into()));
    assert_eq!(homes.pi.as_deref(), Some("/home/x/.pi/agent".into()));
    // A directory that was set takes the place of the usual one.
    let mut world = World::new();
    world.write("home/.claude/agents/a.md", claude("usual", "x"));
    world.write("elsewhere/agents/a.md", claude("moved", "x"));
    world.places.user.claude = Some(world.root.join("elsewhere"));
    let catalog = world.load();
    one(&catalog, "moved");
    catalog.get("usual").unwrap_err();
}

#[test]
fn def_07_the_next_spawn_uses_an_edit_and_queued_runs_do_not() {
    let mut world = World::new();
    let path = world.own("worker", "model: one");
    let catalogs = Catalogs::new(world.load());
    let queued = one(&catalogs.current(), "worker");
    assert!(Arc::ptr_eq(&catalogs.refresh(&world.places), &catalogs.current()));
    let before = fingerprint(&world.places);
    // The same size, and a time that is put back.
    let times = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, own("model: two")).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
    assert_ne!(fingerprint(&world.places), before);
    let model = |definition: &AgentDefinition| definition.model.value().map(ToString::to_string);
    let next = one(&catalogs.refresh(&world.places), "worker");
    assert_eq!((model(&queued), model(&next)), (Some("one".into()), Some("two".into())));

    // A file that comes, one that goes, and a type that is added while the program runs.
    world.own("late", "");
    assert!(catalogs.refresh(&world.places).usable().contains(&String::from("late")));
    fs::remove_file(&path).unwrap();
    let current = catalogs.refresh(&world.places);
    assert!(current.get("worker").is_err());
    let mut added = (*queued).clone();
    added.name = subagent_config::AgentName::new("late").unwrap();
    added.source.scope = Scope::Runtime;
    world.places.runtime.push(added);
    let current = catalogs.refresh(&world.places);
    assert_eq!(one(&current, "late").source.scope, Scope::Runtime);
    assert_eq!(current.usable(), ["explore", "general-purpose", "late", "plan"]);
    // Trust that is given later counts from then on.
    world.places.trusted.push(world.root.join("project"));
    assert!(!Arc::ptr_eq(&catalogs.refresh(&world.places), &current));
}

#[test]
fn def_07_a_file_that_another_one_points_to_is_watched_too() {
    let world = World::new();
    world.write("project/.codex/config.toml", "[agents.m]\ndescription = \"x\"\nconfig_file = \"m.toml\"\n");
    let role = world.write("project/.codex/m.toml", "developer_instructions = \"One.\"\n");
    let before = fingerprint(&world.places);
    fs::write(&role, "developer_instructions = \"Two!\"\n").unwrap();
    assert_ne!(fingerprint(&world.places), before);
    assert_eq!(one(&world.load(), "m").prompt.text, "Two!");
}

#[test]
fn def_10_an_unknown_or_disabled_type_is_an_error_with_the_usable_ones() {
    let world = World::new();
    world.own("off", "visibility: disabled\naliases: off-too");
    world.own("quiet", "visibility: hidden");
    world.own("reviewer", "");
    let catalog = world.load();
    let unknown = catalog.get("reviewr").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no agent type \"reviewr\" (did you mean \"reviewer\"?); usable: explore, general-purpose, plan, reviewer"
    );
    for name in ["off", "OFF", "off-too"] {
        let disabled = catalog.get(name).unwrap_err();
        assert!(matches!(&disabled, TypeError::Disabled { name, .. } if name == "off"), "{disabled}");
        assert_eq!(disabled.usable(), ["explore", "general-purpose", "plan", "reviewer"]);
    }
    one(&catalog, "quiet");
    for name in ["", " ", "reviewer ", "../reviewer", "\u{1b}[2J", &"x".repeat(100_000)] {
        let error = catalog.get(name).unwrap_err();
        assert!(error.to_string().len() < 1_000 && !error.to_string().contains('\u{1b}'), "{error}");
    }
}

#[test]
fn a_project_around_the_home_directory_does_not_make_its_files_a_strangers() {
    let mut world = World::new();
    world.write(
        "home/.claude/agents/a.md",
        "---\nname: a\ndescription: x\npermissionMode: bypassPermissions\n---\nx\n",
    );
    let home = world.root.join("home");
    world.places.project = Some(subagent_config::Project { start: home.clone(), root: home });
    let catalog = world.load();
    let it = one(&catalog, "a");
    assert_eq!((it.source.scope, it.source.trusted), (Scope::User, true));
    assert_eq!(world.told(&catalog), [""; 0]);
}
