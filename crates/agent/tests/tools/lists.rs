//! Lists of tools, at the call: whatever the model was told or asks for.

use serde_json::json;
use subagent_agent::tools::{OpenError, Settings, Toolbox};

use super::{World, text};

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn perm_07_a_hidden_tool_that_is_called_all_the_same_is_refused() {
    let world = World::with(|settings| {
        settings.allow = Some(list(&["Read", "Grep", "Bash(git status)"]));
        settings.deny = list(&["grep"]);
    });
    let names: Vec<_> = world.tools.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["bash", "read"]);
    for (tool, input) in [
        ("write", json!({ "path": "x", "content": "x" })),
        ("WRITE", json!({ "path": "x", "content": "x" })),
        ("edit", json!({ "path": "x", "old_text": "a", "new_text": "b" })),
        ("grep", json!({ "pattern": "x" })),
        ("subagent", json!({ "prompt": "x" })),
        ("mcp__a__b", json!({})),
        ("", json!({})),
        ("read\n", json!({ "path": "x" })),
    ] {
        let said = world.refused(tool, input).await;
        assert!(said.contains("may not be used") || said.contains("there is no tool"), "{said}");
        assert!(said.contains("bash, read"), "it says what there is: {said}");
    }
    assert!(!world.root.join("x").exists());
    let said = world.refused("bash", json!({ "command": "git status; touch y" })).await;
    assert!(said.contains("`touch y` may not be used"), "{said}");
    assert!(!world.root.join("y").exists());
}

#[tokio::test]
async fn limits_on_paths_hold_behind_links_and_in_searches() {
    let world = World::with(|settings| {
        settings.allow = Some(list(&["read", "grep", "ls", "find", "Edit(src/*)", "Write(src/*)"]));
        settings.deny = list(&["Read(private/**)"]);
    });
    world.put("src/a", "needle\n");
    world.put("other/a", "needle\n");
    world.put("private/a", "needle\n");
    for (link, to) in [("src/out", "../other"), ("src/secret", "../private/a")] {
        std::os::unix::fs::symlink(to, world.root.join(link)).unwrap();
    }
    let edit = |path: &str| json!({ "path": path, "old_text": "needle", "new_text": "changed" });
    world.done("edit", edit("src/a")).await;
    for path in ["other/a", "src/out/a", "src/../other/a", "private/a", "src/secret"] {
        world.refused("edit", edit(path)).await;
        world.refused("write", json!({ "path": path, "content": "x" })).await;
    }
    assert_eq!(
        (text(&world.root.join("other/a")), text(&world.root.join("private/a"))),
        ("needle\n".into(), "needle\n".into())
    );
    for path in ["other/new", "src/out/new", "private/new"] {
        world.refused("write", json!({ "path": path, "content": "x" })).await;
    }
    for path in ["private/a", "src/secret", "./private/../private/a"] {
        world.refused("read", json!({ "path": path })).await;
    }
    assert_eq!(world.done("grep", json!({ "pattern": "needle" })).await, "other/a:1:needle");
    assert!(!world.done("find", json!({ "pattern": "**" })).await.contains("private/a"));
}

#[test]
fn what_cannot_be_kept_is_refused_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    let settings =
        |deny: &[&str]| Settings { roots: vec![home.path().into()], deny: list(deny), ..Settings::default() };
    let refused = Toolbox::open(settings(&["Bash(rm *)"])).unwrap_err();
    assert!(matches!(refused, OpenError::Rule(_)));
    assert!(refused.to_string().contains("deny Bash as a whole"), "{refused}");
    assert!(Toolbox::open(settings(&["Bash"])).is_ok());
}

#[tokio::test]
async fn a_name_of_no_tool_is_told_once() {
    let home = tempfile::tempdir().unwrap();
    let allow = Some(list(&["Read", "WebSearch"]));
    let tools =
        Toolbox::open(Settings { roots: vec![home.path().into()], allow, ..Settings::default() }).unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    assert_eq!(tools.prepare(&cancel).await, ["\"WebSearch\" is allowed, and there is no such tool here"]);
    assert_eq!(tools.prepare(&cancel).await, Vec::<String>::new());
    assert_eq!(tools.notes().len(), 1);
}
