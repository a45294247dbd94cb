//! The schema of our own files and the loader agree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use common::{World, fixtures};
use subagent_config::agent_file_schema;

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(agent_file_schema().as_value()).unwrap()
}

/// Headers as JSON, with whether an editor should find a fault in them.
const HEADERS: &[(&str, bool)] = &[
    ("{}", true),
    (r#"{"tools": "Read, Grep", "model": null}"#, true),
    (r#"{"tools": [], "effort": 3, "skills": true, "max_turns": "none", "timeout": "10m"}"#, true),
    (r#"{"mcp_servers": ["a", {"b": {"command": "x"}}], "locks": ["model"], "isolation": "worktree"}"#, true),
    (r#"{"context": {"instructions": false}, "permissions": {"rules": [{"say": "deny"}]}}"#, true),
    (r#"{"house_style": "kept"}"#, true),
    (r#"{"memory": "none", "isolation": null, "hooks": null, "tools": null, "effort": null}"#, true),
    (r#"{"sandbox": null}"#, false),
    (r#"{"background": null}"#, false),
    (r#"{"provider": null}"#, false),
    (r#"{"max_depth": null}"#, false),
    (r#"{"visibility": null}"#, false),
    (r#"{"effort": "bananas"}"#, false),
    (r#"{"max_turns": 2.5}"#, false),
    (r#"{"background": "false"}"#, false),
    (r#"{"tools": 3}"#, false),
    (r#"{"sandbox": "none"}"#, false),
    (r#"{"locks": ["tools"]}"#, false),
    (r#"{"context": {"instruction": false}}"#, false),
    (r#"{"max_depth": 65}"#, false),
    (r#"{"command": []}"#, false),
];

#[test]
fn def_02_an_editor_finds_the_faults_that_the_loader_finds() {
    let validator = validator();
    for (header, good) in HEADERS {
        let mut value: serde_json::Value = serde_json::from_str(header).unwrap();
        value["description"] = "x".into();
        assert_eq!(validator.is_valid(&value), *good, "{header}");
        let world = World::trusted();
        // JSON is YAML.
        world.write("project/.subagent/agents/x.md", format!("---\n{value}\n---\nBody.\n"));
        let catalog = world.load();
        assert_eq!(catalog.get("x").is_ok(), *good, "{header}: {:#?}", catalog.diagnostics());
    }
    assert!(!validator.is_valid(&serde_json::json!({"name": "x"})));
}

#[test]
fn the_example_of_the_documentation_is_valid_and_loads() {
    let root = fixtures();
    let docs = root.ancestors().nth(4).unwrap().join("docs/agents.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let example = text.split("```markdown\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let world = World::trusted();
    world.write("project/.subagent/agents/reviewer.md", example);
    let catalog = world.load();
    catalog.get("reviewer").unwrap();
    assert_eq!(world.told(&catalog), [""; 0]);
}
