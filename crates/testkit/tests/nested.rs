//! Programs that spawn themselves for ever through the command line, or around it: the gate stops them with its numbers, and
//! nothing is left (QUEUE-09, QUEUE-10). A child sees and stops what is below it, and nothing else (PERM-11).
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use subagent_testkit::{Home, Output, subagent_program, until};

/// A home with a program in it.
fn with_program(limits: &str, script: &str) -> Home {
    let home = Home::with_config(&format!("[limits]\n{limits}[daemon]\nterm_grace_ms = 300\n"));
    let path = home.path().join("again");
    std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    home
}

/// `subagent` by name, as a child would call it.
fn path() -> String {
    let programs = subagent_program().parent().unwrap().to_str().unwrap();
    format!("{programs}:{}", std::env::var("PATH").unwrap())
}

/// Starts the program and waits until nothing lives any more; more than `limit` never run at once.
#[track_caller]
fn runs_dry(home: &Home, limit: u64) -> Vec<Value> {
    let mut command = home.command(&["run", "--background", "--", "./again"]);
    command.env("PATH", path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Home::finish(command.spawn(), b"").ended(0);
    let mut most = 0;
    until("everything to end", || {
        let health = home.run(&["status", "--json"]).ended(0).json();
        let running = health["running"].as_u64().unwrap();
        most = most.max(running);
        assert!(running <= limit, "{running} run: {health:#}");
        let live = home.run(&["ls", "--json"]).ended(0).json()["items"].clone();
        let ended = |record: &Value| record["status"] == "completed";
        live.as_array().unwrap().iter().all(ended).then_some(())
    });
    assert!(most > 0, "it was never seen to run");
    let records = home.run(&["ls", "--all", "--json"]).ended(0).json()["items"].as_array().cloned().unwrap();
    let ids: Vec<_> = records.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect();
    assert!(home.survivors(&ids).is_empty());
    records
}

/// What the refused calls said.
fn refusals(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("refused")).unwrap_or_default()
}

/// It calls itself until it is refused.
const FOR_EVER: &str = "while subagent run --background -- ./again >> spawned 2>> refused; do :; done\n";

#[test]
fn queue_10_a_program_that_spawns_itself_for_ever_is_stopped_by_depth_and_breadth() {
    let home = with_program("running = 3\ndepth = 2\nbreadth = 3\nrate = 1000\n", FOR_EVER);
    let records = runs_dry(&home, 3);
    let told = refusals(&home);
    assert!(told.contains("depth_limit"), "{told}");
    assert!(told.contains("breadth_limit"), "{told}");
    assert!(told.contains("raise `limits.") && told.contains("help:"), "no next step: {told}");
    assert!(records.iter().all(|record| record["depth"].as_u64().unwrap() <= 2), "{records:#?}");
    let roots: BTreeSet<_> = records.iter().map(|record| record["root"].to_string()).collect();
    assert_eq!(roots.len(), 1, "one tree");
    // Each of the two upper levels had three children at a time; one that ended makes room for another.
    assert!(records.len() >= 1 + 3 + 9, "{} subagents", records.len());
}

#[test]
fn queue_10_the_total_of_a_tree_ends_what_has_neither_depth_nor_breadth() {
    let home =
        with_program("running = 4\ndepth = 64\nbreadth = 1000\nrate = 10000\ntree_total = 12\n", FOR_EVER);
    let records = runs_dry(&home, 4);
    assert_eq!(records.len(), 12, "the root is one of them");
    let told = refusals(&home);
    assert!(told.contains("tree_limit") && told.contains("12"), "{told}");
}

#[test]
fn queue_10_a_spawn_rate_holds_up_a_burst_with_its_own_code() {
    let home = with_program(
        "running = 4\ndepth = 1\nbreadth = 1000\nrate = 3\nrate_window_ms = 600000\n",
        "while subagent run --background -- true >> spawned 2>> refused; do :; done\n",
    );
    let records = runs_dry(&home, 4);
    assert_eq!(records.len(), 1 + 3);
    let told = refusals(&home);
    assert!(told.contains("spawn_rate") && told.contains('3'), "{told}");
}

#[test]
fn queue_09_a_child_that_clears_its_environment_is_still_nested() {
    let clean = "while env -i PATH=\"$PATH\" SUBAGENT_HOME=\"$SUBAGENT_HOME\" HOME=/ \
        subagent run --background -- ./again >> spawned 2>> refused; do :; done\n";
    let home = with_program("running = 3\ndepth = 2\nbreadth = 2\nrate = 1000\ntree_total = 30\n", clean);
    let records = runs_dry(&home, 3);
    let told = refusals(&home);
    assert!(told.contains("depth_limit"), "{told}");
    let roots: BTreeSet<_> = records.iter().map(|record| record["root"].to_string()).collect();
    assert_eq!(roots.len(), 1, "one tree: {records:#?}");
    assert!(records.iter().filter(|record| record.get("parent").is_none()).count() == 1, "{records:#?}");
    let by_children = records.iter().filter(|record| record["depth"] != 0);
    assert!(
        by_children.clone().all(
            |record| record["requested_by"] == format!("subagent:{}", record["parent"].as_str().unwrap())
        )
    );
    assert!(by_children.count() >= 2 + 4);
}

#[test]
fn queue_09_a_forged_name_over_http_makes_a_child_no_person() {
    if !Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no curl");
        return;
    }
    let forged = r#"body="{\"provider\":\"exec\",\"mode\":\"async\",\"cwd\":\"$PWD\",\"exec\":{\"program\":\"./again\"},\
\"env\":{\"PATH\":\"$PATH\"}}"
i=0
while [ $i -lt 20 ]; do
  i=$((i+1))
  curl -s --unix-socket "$SUBAGENT_SOCKET" -H 'x-subagent-requester: user:0' -H 'content-type: application/json' \
    -d "$body" http://subagent/v1/subagents >> answers 2>&1; echo >> answers
done
curl -s --unix-socket "$SUBAGENT_SOCKET" -H 'x-subagent-requester: user:0' -X PUT -H 'content-type: application/json' \
  -d '{"running":1000}' http://subagent/v1/limits >> raised; echo >> raised
"#;
    let home = with_program("running = 3\ndepth = 1\nbreadth = 10\nrate = 1000\ntree_total = 3\n", forged);
    let records = runs_dry(&home, 3);
    assert_eq!(records.len(), 3);
    let roots: BTreeSet<_> = records.iter().map(|record| record["root"].to_string()).collect();
    assert_eq!(roots.len(), 1, "one tree: {records:#?}");
    let answers = std::fs::read_to_string(home.path().join("answers")).unwrap();
    assert!(answers.contains("depth_limit") && answers.contains("tree_limit"), "{answers}");
    // Three children write into one file, each its answer and then a newline: their lines may mix.
    let raised = std::fs::read_to_string(home.path().join("raised")).unwrap();
    assert_eq!(raised.matches("\"not_yours\"").count(), 3, "limits are for a person: {raised}");
    assert!(!raised.contains("\"running\""), "limits are for a person: {raised}");
}

/// Runs a command within a child, which writes what it saw into files of the home.
#[track_caller]
fn within(home: &Home, script: &str) -> Output {
    let mut command = home.command(&["run", "--json", "--", "sh", "-c", script]);
    command.env("PATH", path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Home::finish(command.spawn(), b"")
}

#[test]
fn perm_11_a_child_sees_and_stops_what_is_below_it_and_nothing_else() {
    let home = Home::with_config("[limits]\nrunning = 8\nrate = 1000\n[daemon]\nterm_grace_ms = 300\n");
    let other = home.background(&["sleep", "300"])["id"].as_str().unwrap().to_owned();
    let asking = home.talks(&[], "ask execute make\nsay $answer");
    home.until_status(&asking, "waiting");
    let script = format!(
        "own=$(subagent run --background -- sleep 300)
        subagent ls --all --json > seen
        subagent stop --wait {other} 2> stop; echo $? >> codes
        subagent show {other} 2> show; echo $? >> codes
        subagent steer {asking} hello 2> steer; echo $? >> codes
        subagent approve {asking} 2> approve; echo $? >> codes
        subagent result {other} 2> result; echo $? >> codes
        subagent stop $SUBAGENT_ID 2> self; echo $? >> codes
        subagent stop --wait $own; echo $? >> codes
        subagent show --json $own > own
        subagent stop --all --json > all"
    );
    let record = within(&home, &script).ended(0).json();
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
    let codes = read("codes");
    let codes: Vec<_> = codes.lines().collect();
    assert_eq!(codes.len(), 7, "{codes:?}");
    for (name, code) in ["stop", "show", "steer", "approve", "result", "self"].iter().zip(&codes) {
        let told = read(name);
        assert_ne!(*code, "0", "{name}: {told}");
        assert!(told.contains("not_yours") || told.contains("not_found"), "{name}: {told}");
    }
    assert_eq!(codes[6], "0", "its own child");
    let own: Value = serde_json::from_str(&read("own")).unwrap();
    assert_eq!((&own["status"], &own["parent"]), (&"stopped".into(), &record["id"]));
    let seen: Value = serde_json::from_str(&read("seen")).unwrap();
    let seen: Vec<_> =
        seen["items"].as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap()).collect();
    assert!(seen.contains(&own["id"].as_str().unwrap()), "{seen:?}");
    assert!(!seen.contains(&other.as_str()) && !seen.contains(&asking.as_str()), "{seen:?}");
    let all: Value = serde_json::from_str(&read("all")).unwrap();
    assert!(!all.to_string().contains(&other), "{all:#}");
    // What was not its own goes on.
    assert_eq!(home.show(&other)["status"], "running");
    assert_eq!(home.show(&asking)["status"], "waiting");
    assert!(home.messages(&asking).is_empty());
    assert_eq!(record["status"], "completed");
}
