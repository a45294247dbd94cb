//! Any bytes in any place: nothing panics, nothing is lost, and what comes out is bounded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use std::fmt::Write as _;

use common::World;
use proptest::collection;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, proptest};
use proptest::{prop_assert, prop_assert_eq, prop_oneof};
use subagent_config::{AgentDefinition, TrustStore, fingerprint};

/// Where a file of each kind lies.
const FILES: &[&str] = &[
    "project/.subagent/agents/x.md",
    "project/.claude/agents/a/x.md",
    "project/.codex/agents/x.toml",
    "project/.codex/config.toml",
    "project/.opencode/agent/x.md",
    "project/opencode.json",
    "project/.pi/agents/x.md",
    "project/.gemini/agents/x.md",
];

/// Values that a key may have, right and wrong ones.
const VALUES: &[&str] = &[
    "",
    "none",
    "all",
    "[]",
    "{}",
    "x",
    "x, y",
    "[x, y]",
    "[[x]]",
    "{x: y}",
    "{x: {y: z}}",
    "true",
    "\"true\"",
    "0",
    "-1",
    "2.5",
    ".nan",
    "1e400",
    "99999999999999999999",
    "low",
    "worktree",
    "\"*\"",
    "'{{type}}'",
    "\"\\u0000\"",
    "&a [x]",
    "*a",
    "!!binary x",
    "!tag x",
    "? x",
    "|\n  x\n  y",
    "2026-01-01",
    "Agent(a, b), c",
    "../x",
    "[1, null, {a: [b]}]",
    "\"\\uD800\"",
];

const KEYS: &[&str] = &[
    "name",
    "description",
    "aliases",
    "tools",
    "disallowedTools",
    "model",
    "effort",
    "permissionMode",
    "permissions",
    "sandbox",
    "maxTurns",
    "max-turns",
    "timeout",
    "provider",
    "command",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "background",
    "isolation",
    "context",
    "allowed_subagents",
    "max_depth",
    "visibility",
    "locks",
    "permission",
    "mode",
    "turnBudget",
    "thinking",
    "developer_instructions",
    "kind",
    "<<",
    "unknown",
    "",
];

fn header() -> impl Strategy<Value = String> {
    let entry = (0..KEYS.len(), 0..VALUES.len())
        .prop_map(|(key, value)| format!("{}: {}\n", KEYS[key], VALUES[value]));
    collection::vec(entry, 0..8).prop_map(|entries| {
        let mut all = String::from("name: x\ndescription: y\n");
        all.extend(entries);
        all
    })
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let fences = prop_oneof![Just("---\n"), Just("---\r\n"), Just("---"), Just("--- \n"), Just("")];
    let framed = (fences.clone(), header(), fences, any::<String>())
        .prop_map(|(open, header, close, body)| format!("{open}{header}{close}{body}").into_bytes());
    let quoted = header().prop_map(|header| {
        let entries = header.lines().filter_map(|line| line.split_once(": "));
        let entries: Vec<_> = entries.map(|(key, value)| format!("{key:?}: {value}")).collect();
        format!("{{\"agent\": {{\"x\": {{{}}}}}}}", entries.join(", ")).into_bytes()
    });
    let toml =
        header().prop_map(|header| format!("[agents.x]\n{}", header.replace(": ", " = ")).into_bytes());
    prop_oneof![
        4 => framed,
        1 => quoted,
        1 => toml,
        1 => collection::vec(any::<u8>(), 0..200),
        1 => "[\\[\\]{}\\-:,&*!|>'\"%@` \n\ta#=.]{0,200}".prop_map(|text| format!("---\n{text}\n---\n").into_bytes()),
        1 => "[\\[\\]{}\\-:,'\"= \n\ta#.]{0,200}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn def_01_any_bytes_in_any_file_lose_nothing_else(which in 0..FILES.len(), bytes in file(), trusted in any::<bool>()) {
        let world = if trusted { World::trusted() } else { World::new() };
        world.write(FILES[which], &bytes);
        world.write("home/.claude/agents/good.md", "---\nname: good\ndescription: Fine.\n---\nFine.\n");
        let catalog = world.load();
        prop_assert!(catalog.get("good").is_ok());
        prop_assert!(catalog.get("explore").is_ok());
        prop_assert_eq!(catalog.fingerprint(), fingerprint(&world.places));
        for remark in catalog.diagnostics() {
            prop_assert!(remark.to_string().len() < 2_000);
            prop_assert!(!remark.message.contains(char::is_control));
        }
        for definition in catalog.definitions() {
            let text = serde_json::to_string(definition).unwrap();
            prop_assert!(text.len() < 100_000);
            let back: AgentDefinition = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&back, &**definition);
            if !definition.source.trusted {
                prop_assert!(definition.hooks.is_omitted() && definition.command.is_empty());
                prop_assert!(definition.locks.is_empty());
            }
        }
        // The same files are the same catalog.
        let again = world.load();
        prop_assert_eq!(again.usable(), catalog.usable());
        prop_assert_eq!(again.diagnostics(), catalog.diagnostics());
    }

    #[test]
    fn any_list_of_trusted_projects_is_read_or_refused(text in any::<String>()) {
        if let Ok(store) = TrustStore::parse(&text) {
            prop_assert_eq!(TrustStore::parse(&store.to_text().unwrap()).unwrap(), store);
        }
    }
}

#[test]
fn def_01_expansions_are_bounded() {
    let world = World::new();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        let _ = writeln!(bomb, "a{level}: &a{level} [{before}]");
    }
    world.own("lists", &bomb);
    world.own("texts", &format!("t: &t {}\nl: [{}]", "y".repeat(30_000), vec!["*t"; 150].join(", ")));
    world.own("merges", &format!("m: &m {{{}}}\n<<: [{}]", "a: b", vec!["*m"; 100].join(", ")));
    world.own("deep", &format!("d: {}", "[".repeat(20_000)));
    world.own(
        "blocks",
        &(0..3_000).fold(String::new(), |all, depth| {
            all + &" ".repeat(depth % 300)
                + "a:
"
        }),
    );
    world.write("project/opencode.json", "[".repeat(500_000));
    world.write("project/.codex/config.toml", format!("a = {}", "[".repeat(500_000)));
    world.write("project/.codex/agents/t.toml", format!("{}x = 1", "a.".repeat(100_000)));
    let catalog = world.load();
    for definition in catalog.definitions() {
        assert!(serde_json::to_string(definition).unwrap().len() < 1024 * 1024, "{}", definition.name);
    }
    assert!(catalog.diagnostics().len() > 5, "{:#?}", catalog.diagnostics());
}

#[test]
fn def_01_large_files_take_no_long_time() {
    let world = World::new();
    let items = |item: &str, count: usize| vec![item; count].join(&format!(",{}", " ".repeat(40)));
    world.write("project/.codex/agents/line.toml", format!("a = [{}]", items("1", 19_000)));
    let keys = |sign: &str| (0..19_000).map(|at| format!("\"k{at}\"{sign} 1")).collect::<Vec<_>>();
    world.write("project/.codex/agents/keys.toml", format!("a = {{ {} }}", keys(" =").join(", ")));
    world.write("project/.codex/config.toml", format!("[agents]\n{}", keys(" =").join("\n")));
    world.write("project/opencode.json", format!("{{\"agent\": {{{}}}}}", keys(":").join(", ")));
    let names: Vec<_> = (0..150_000).map(|at| at.to_string()).collect();
    let csv = format!(r#"{{"agent": {{"csv": {{"description": "x", "tools": "{}"}}}}}}"#, names.join(","));
    world.write("project/deep/opencode.json", &csv[..csv.len().min(1024 * 1024)]);
    let start = std::time::Instant::now();
    let catalog = world.load();
    // In a build for tests on a busy machine; what was quadratic took minutes.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    assert!(catalog.get("csv").is_err());
    assert!(catalog.diagnostics().iter().all(|remark| remark.to_string().len() < 2_000));
}
