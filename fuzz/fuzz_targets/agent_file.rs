//! Any bytes as a definition file of each dialect. The loader reads directories only, so each kind of file has a project of
//! its own in memory. The first byte chooses the kind and whether the project is trusted.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use camino::Utf8PathBuf;
use libfuzzer_sys::fuzz_target;
use subagent_config::{
    AgentDefinition, Catalog, Diagnostic, Known, Places, Project, TrustStore, claude_agents, fingerprint,
};

/// Where a file of each kind lies.
const FILES: [&str; 9] = [
    ".subagent/agents/x.md",
    ".claude/agents/a/x.md",
    ".codex/agents/x.toml",
    ".codex/config.toml",
    ".opencode/agent/x.md",
    "opencode.json",
    "opencode.jsonc",
    ".pi/agents/x.md",
    ".gemini/agents/x.md",
];

/// Most bytes of a definition that came of one file.
const MOST_BYTES: usize = 1024 * 1024;

/// The file of each kind, and where it is looked for.
static WORLDS: LazyLock<Vec<(Utf8PathBuf, Project)>> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let base = base.join(format!("subagent-fuzz-{}", std::process::id()));
    let base = Utf8PathBuf::from_path_buf(base).expect("its name is plain");
    let world = |(number, file): (usize, &&str)| {
        let root = base.join(number.to_string());
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("it is below the root")).expect("it can be made");
        let root = root.canonicalize_utf8().expect("it is there");
        (path, Project { start: root.clone(), root })
    };
    FILES.iter().enumerate().map(world).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let trusted = kind & 128 != 0;
    match usize::from(kind & 127) % (FILES.len() + 2) {
        at if at < FILES.len() => load(&WORLDS[at], trusted, bytes),
        at if at == FILES.len() => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                let (definitions, remarks) = claude_agents(text, &known());
                definitions.iter().for_each(whole);
                remarks.iter().for_each(told);
            }
        }
        _ => {
            if let Ok(text) = std::str::from_utf8(bytes)
                && let Ok(store) = TrustStore::parse(text)
            {
                let again = store.to_text().expect("what was read can be written");
                assert_eq!(TrustStore::parse(&again).expect("and read again"), store);
            }
        }
    }
});

fn known() -> Known {
    let names = |all: &[&str]| Some(all.iter().map(|name| (*name).to_owned()).collect());
    Known {
        tools: names(&["Bash", "Read"]),
        servers: names(&["github"]),
        providers: names(&["claude", "codex"]),
        variables: vec![],
    }
}

fn load((path, project): &(Utf8PathBuf, Project), trusted: bool, bytes: &[u8]) {
    fs::write(path, bytes).expect("it can be written");
    let places = Places {
        project: Some(project.clone()),
        trusted: if trusted { vec![project.root.clone()] } else { vec![] },
        ..Places::default()
    };
    let catalog = Catalog::load(&places);
    assert_eq!(catalog.fingerprint(), fingerprint(&places));
    catalog.diagnostics().iter().for_each(told);
    for definition in catalog.definitions() {
        whole(definition);
        if !definition.source.trusted {
            assert!(definition.hooks.is_omitted() && definition.command.is_empty());
            assert!(definition.locks.is_empty());
        }
        let _ = catalog.get(definition.name.as_str());
        for alias in &definition.aliases {
            let _ = catalog.get(alias.as_str());
        }
    }
    // The same file is the same catalog.
    let again = Catalog::load(&places);
    assert_eq!(again.usable(), catalog.usable());
    assert_eq!(again.diagnostics(), catalog.diagnostics());
}

/// A definition is bounded, and survives being written.
fn whole(definition: &AgentDefinition) {
    let text = serde_json::to_string(definition).expect("it can be written");
    assert!(text.len() < MOST_BYTES, "{} bytes", text.len());
    let back: AgentDefinition = serde_json::from_str(&text).expect("it can be read again");
    assert_eq!(&back, definition);
}

fn told(remark: &Diagnostic) {
    assert!(remark.to_string().len() < 2_000);
    assert!(!remark.message.contains(char::is_control), "{:?}", remark.message);
}
