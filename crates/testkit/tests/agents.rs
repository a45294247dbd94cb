//! Agents and agent types at the command line, without any agent: what is said where something is missing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Stdio;

use subagent_testkit::Home;
use subagent_testkit::home::Output;

/// A command whose `PATH` has nothing but this directory, in which nothing is.
fn bare(home: &Home, args: &[&str]) -> Output {
    let empty = home.path().join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let mut command = home.command(args);
    command.env("PATH", &empty).env("HOME", home.path());
    Home::finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn(), b"")
}

fn project(home: &Home) -> std::path::PathBuf {
    let project = home.path().join("project");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    std::fs::create_dir_all(project.join(".subagent/agents")).unwrap();
    project
}

fn define(project: &Path, name: &str, text: &str) {
    std::fs::write(project.join(".subagent/agents").join(name), text).unwrap();
}

#[test]
fn acp_13_an_agent_that_never_opens_its_session_is_given_up() {
    let home = Home::with_config(
        "[daemon]\nopen_timeout_ms = 400\nterm_grace_ms = 300\n[limits]\nmax_attempts = 1\n",
    );
    let ran = home.run(&["run", "--json", "-p", "acp", "a task", "--", "sleep", "1000"]).ended(1);
    let record = ran.json();
    assert_eq!(
        (&record["status"], &record["error"]["code"]),
        (&"error".into(), &"timeout".into()),
        "{record:#}"
    );
    assert!(home.survivors(&[record["id"].as_str().unwrap().to_owned()]).is_empty());
}

#[test]
fn a_missing_agent_is_told_with_how_to_install_it() {
    let home = Home::new();
    let none = bare(&home, &["run", "a task"]).ended(1);
    assert!(none.err.contains("no agent is installed") && none.err.contains("npm install"), "{}", none.err);
    assert!(none.err.contains("builtin: no model is named"), "{}", none.err);
    let named = bare(&home, &["run", "--json", "-p", "codex", "a task"]).ended(1).json();
    assert_eq!(named["error"]["code"], "program_not_found", "{named:#}");
    assert!(named["error"]["detail"].as_str().unwrap().contains("npm install -g @openai/codex"), "{named:#}");
    let doctor = bare(&home, &["doctor"]).ended(0);
    assert!(doctor.out.contains("claude is not installed") && doctor.out.contains("no agent is installed"));
    bare(&home, &["run"]).ended(2);
    bare(&home, &["run", "-p", "claude", " "]).ended(2);
}

#[test]
fn def_01_to_10_types_are_listed_shown_and_refused_with_the_reason() {
    let home = Home::new();
    let project = project(&home);
    define(&project, "good.md", "---\ndescription: does good\nmodel: small\n---\nBe good.\n");
    define(&project, "bad.md", "---\ndescription: [\n---\nx\n");
    let cwd = project.to_str().unwrap();
    let list = bare(&home, &["types", "--cwd", cwd]).ended(0);
    for name in ["good", "general-purpose", "explore", "plan"] {
        assert!(list.out.contains(name), "{name}: {}", list.out);
    }
    assert!(list.err.contains("bad.md"), "the bad one is told, and hides no other: {}", list.err);
    let shown = bare(&home, &["types", "show", "GOOD", "--cwd", cwd]).ended(0).out;
    assert!(shown.contains("Be good.") && shown.contains("good.md") && shown.contains("small"), "{shown}");
    let refused = bare(&home, &["types", "show", "goood", "--cwd", cwd]).ended(2).err;
    assert!(refused.contains("did you mean") && refused.contains("general-purpose"), "{refused}");
    let broken = bare(&home, &["run", "-t", "bad", "--cwd", cwd, "a task"]).ended(2).err;
    assert!(broken.contains("bad.md"), "{broken}");
    // For a program a type is a label.
    home.run(&["run", "-t", "whatever", "--", "true"]).ended(0);
}

#[test]
fn def_15_a_project_is_trusted_and_distrusted() {
    let home = Home::new();
    let project = project(&home);
    let dir = project.to_str().unwrap();
    define(&project, "own.md", "---\ndescription: d\nmcp_servers:\n  s: {command: x}\n---\np\n");
    let servers = || {
        let shown = bare(&home, &["types", "show", "own", "--json", "--cwd", dir]).ended(0).json();
        shown["definition"]["mcp_servers"].clone()
    };
    assert!(servers().as_array().is_none_or(Vec::is_empty));
    let told = bare(&home, &["types", "trust", dir]).ended(0).out;
    assert!(told.contains("is trusted"), "{told}");
    assert_eq!(servers()[0]["name"], "s");
    bare(&home, &["types", "distrust", dir]).ended(0);
    assert!(servers().as_array().is_none_or(Vec::is_empty));
}
