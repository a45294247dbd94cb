//! The built-in agent as a child of a real daemon, against the scripted model: runs, steering, stops, resumes, the death of
//! the daemon and of the agent, quotas, and that no key is left anywhere.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Stdio;

use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::model_server::Answer;
use subagent_testkit::{Home, ModelServer, until};

const KEY: &str = "sk-secret-0123456789";

/// A home whose built-in agent asks this model, with its key in a file.
fn home(model: &ModelServer) -> Home {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let key = home.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "[daemon]\nterm_grace_ms = 500\n[agent]\nmodel = \"test/fake-model\"\n[agent.endpoints.test]\nkind = \"openai\"\n\
         url = \"{}/v1\"\nkey_file = \"{}\"\n",
        model.url(),
        key.display()
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    home
}

const RUN: [&str; 7] = ["run", "-p", "builtin", "--allow", "execute:*", "--allow", "edit:*"];

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    RUN.iter().copied().chain(more.iter().copied()).collect()
}

fn background(home: &Home, more: &[&str]) -> String {
    let args = [&["--background"], more].concat();
    home.run(&run(&args)).ended(0).out.trim().to_owned()
}

/// Waits until the model waits at this gate.
fn at_gate(model: &ModelServer, name: &str) {
    let gate = model.gate(name);
    until("the model to wait at the gate", || (gate.waiting() > 0).then_some(()));
}

#[test]
fn a_run_uses_tools_and_its_record_has_turns_tools_and_tokens() {
    let model = ModelServer::start();
    let home = home(&model);
    let output = home.run(&run(&["[[sh:echo hello > a.txt; cat a.txt]] [[say:done]] [[echo]]"])).ended(0);
    assert!(output.out.contains("done users=1 results=1") && output.out.contains("hello"), "{output:#?}");
    let record = home.run(&["ls", "--all", "--json"]).ended(0).json()["items"][0].clone();
    let record = home.show(record["id"].as_str().unwrap());
    assert_eq!((&record["status"], &record["type"]), (&"completed".into(), &"builtin".into()), "{record:#}");
    assert_eq!((&record["turn_count"], &record["tool_uses"]), (&2.into(), &1.into()), "{record:#}");
    assert_eq!(
        (&record["usage"]["total"], &record["usage"]["input"]),
        (&240.into(), &200.into()),
        "rec_12 {record:#}"
    );
    assert_eq!(record["resumable"], true, "{record:#}");
}

#[test]
fn steer_03_a_message_reaches_the_turn_and_a_stop_ends_it() {
    let model = ModelServer::start();
    let home = home(&model);
    let id = background(&home, &["[[gate:g]] [[say:first]]"]);
    at_gate(&model, "g");
    let steer = home.command(&["steer", "--wait", "20s", &id, "[[gate:h]] [[say:steered]]"]);
    let steer = { steer }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    until("the message", || (home.run(&["messages", &id]).out.lines().count() > 0).then_some(()));
    model.gate("g").open();
    assert_eq!(Home::finish(steer, b"").ended(0).out, "delivered to run 1\n");
    at_gate(&model, "h");
    assert_eq!(model.conversations().last().unwrap().conversation.as_ref().unwrap().prompts.len(), 2);
    let pid = home.until_pid(&id);
    home.run(&["stop", &id]).ended(0);
    let record = home.until_status(&id, "stopped");
    until("its process to be gone", || (!is_alive(pid)).then_some(()));
    assert_eq!(record["turn_count"], 1, "{record:#}");
}

#[test]
fn res_02_a_resume_goes_on_in_the_same_session() {
    let model = ModelServer::start();
    let home = home(&model);
    let id = background(&home, &["[[exactly:one]]"]);
    home.run(&["wait", &id]).ended(0);
    let output = home.run(&["resume", &id, "[[say:two]]"]).ended(0);
    assert!(output.out.contains("two users=2"), "{output:#?}");
    assert_eq!(home.run(&["result", "--run", "1", &id]).ended(0).out.trim(), "one", "res_03");
    let record = home.show(&id);
    assert_eq!(
        (&record["run"], &record["turn_count"]),
        (&2.into(), &1.into()),
        "a budget of its own: {record:#}"
    );
}

#[test]
fn res_12_a_child_outlives_the_daemon_and_is_taken_over() {
    let model = ModelServer::start();
    let home = home(&model);
    let id = background(&home, &["[[sh:echo once >> log]] [[gate:g]] [[say:done]]"]);
    at_gate(&model, "g");
    let pid = home.until_pid(&id);
    home.kill_daemon();
    assert!(is_alive(pid));
    let steered = home.run(&["steer", &id, "[[say:and steered]]"]).ended(0);
    assert!(steered.out.starts_with("accepted"), "{steered:#?}");
    assert_eq!(home.until_pid(&id), pid, "the same process");
    model.gate("g").open();
    home.run(&["wait", &id]).ended(0);
    let result = home.run(&["result", &id]).ended(0).out;
    assert!(result.contains("and steered users=2"), "{result}");
    assert_eq!(std::fs::read_to_string(home.path().join("log")).unwrap(), "once\n");
    let record = home.show(&id);
    assert_eq!((&record["attempt"], &record["turn_count"]), (&1.into(), &3.into()), "{record:#}");
}

#[test]
fn res_14_killed_with_its_shim_the_session_goes_on_and_no_finished_call_runs_again() {
    let model = ModelServer::start();
    let home = home(&model);
    let id = background(&home, &["the task [[sh:echo once >> log]] [[gate:g]] [[say:done]]"]);
    at_gate(&model, "g");
    let pid = home.until_pid(&id);
    let parent = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let shim = parent.rsplit(") ").next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    // The machine is lost, as far as one test can have it.
    home.kill_daemon();
    kill(shim, rustix::process::Signal::KILL);
    kill(pid, rustix::process::Signal::KILL);
    until("both to be gone", || (!is_alive(shim) && !is_alive(pid)).then_some(()));
    model.gate("g").open();
    home.run(&["wait", &id]).ended(0);
    let record = home.show(&id);
    assert_eq!((&record["status"], &record["attempt"]), (&"completed".into(), &2.into()), "{record:#}");
    assert_eq!(std::fs::read_to_string(home.path().join("log")).unwrap(), "once\n", "res_18");
    let last = model.conversations().pop().unwrap();
    let prompts = last.conversation.unwrap().prompts;
    assert_eq!(prompts.len(), 2, "res_09: the task once, and to go on: {prompts:?}");
    assert!(prompts[0].starts_with("the task") && prompts[1].starts_with("Go on"), "{prompts:?}");
}

#[test]
fn queue_20_a_quota_parks_the_run_and_the_same_session_goes_on() {
    let model = ModelServer::start();
    let home = home(&model);
    let id = background(&home, &["[[quota:1]]"]);
    let parked = until("the run to wait for its quota", || {
        let record = home.show(&id);
        (record["status"] == "waiting").then_some(record)
    });
    assert!(parked.to_string().contains("quota"), "{parked:#}");
    home.run(&["wait", &id]).ended(0);
    let record = home.show(&id);
    assert_eq!((&record["status"], &record["attempt"]), (&"completed".into(), &2.into()), "{record:#}");
    let prompts = model.conversations().pop().unwrap().conversation.unwrap().prompts;
    assert_eq!(prompts.len(), 2, "res_09: the task once, and to go on: {prompts:?}");
}

#[test]
fn queue_13_the_supervisor_limits_turns_as_with_any_agent() {
    let model = ModelServer::start();
    let always = Answer::call("bash", serde_json::json!({"command": "true"}));
    model.when(|request| request.prompt().contains("endless")).answer(always);
    let home = home(&model);
    let id = background(&home, &["--max-turns", "2", "endless"]);
    home.run(&["wait", &id]);
    let record = home.show(&id);
    assert_eq!(record["status"], "steered", "asked to wrap up, and it did: {record:#}");
}

#[test]
fn result_an_answer_is_held_to_its_schema_and_tools_to_their_list() {
    let model = ModelServer::start();
    let home = home(&model);
    std::fs::write(home.path().join("s.json"), r#"{"type": "object", "required": ["n"]}"#).unwrap();
    model.when(|request| request.prompt().contains("does not fit")).script("[[exactly:{\"n\": 1}]]");
    let output = home.run(&run(&["--schema", "s.json", "[[exactly:no json]]"])).ended(0);
    assert_eq!(output.out.trim(), "{\"n\": 1}");
    let output = home.run(&run(&[
        "--tools",
        "read,ls",
        "[[call:bash|{\"command\": \"echo x > x\"}]] [[say:y]] [[echo]]",
    ]));
    assert!(!home.path().join("x").exists(), "enforced at execution: {output:#?}");
    let offered = model.conversations().pop().unwrap().conversation.unwrap().tools;
    assert_eq!(offered.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["ls", "read"]);
}

#[test]
fn a_key_is_in_no_record_log_transcript_or_environment() {
    let model = ModelServer::start();
    let home = home(&model);
    let key = home.path().join("key");
    let script = format!("[[sh:env; cat {}]] [[gate:g]] [[say:done]] [[echo]]", key.display());
    let id = background(&home, &[&script]);
    at_gate(&model, "g");
    let pid = home.until_pid(&id);
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!contains(&environment, KEY));
    model.gate("g").open();
    home.run(&["wait", &id]).ended(0);
    let result = home.run(&["result", &id]).ended(0).out;
    assert!(result.contains("[key]") && !result.contains(KEY), "{result}");
    assert_eq!(model.conversations()[0].key(), Some(KEY));
    home.run(&["shutdown"]).ended(0);
    std::fs::remove_file(key).unwrap();
    assert_eq!(holding(home.path(), KEY), Vec::<String>::new());
}

#[test]
fn a_key_in_the_environment_is_taken_out_of_it_before_a_tool_can_look() {
    let model = ModelServer::start();
    let home = Home::new();
    let (url, key) = (format!("SUBAGENT_AGENT_URL={}/v1", model.url()), format!("SUBAGENT_AGENT_KEY={KEY}"));
    let more = [
        "-e",
        &url,
        "-e",
        &key,
        "--model",
        "env/fake",
        "[[sh:tr '\\0' '\\n' < /proc/$PPID/environ]] [[say:x]] [[echo]]",
    ];
    let output = home.run(&run(&more)).ended(0);
    assert!(output.out.contains("SUBAGENT_AGENT_URL") && !output.out.contains("sk-secret"), "{output:#?}");
    assert!(!output.out.contains("[key]"), "it is not there at all: {output:#?}");
    assert_eq!(model.conversations()[0].key(), Some(KEY));
}

#[test]
fn doctor_says_what_is_wrong_with_an_endpoint() {
    let model = ModelServer::start();
    let home = home(&model);
    let check = |home: &Home| {
        let report = serde_json::from_str::<serde_json::Value>(&home.run(&["doctor", "--json"]).out).unwrap();
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "endpoint").unwrap().clone()
    };
    assert_eq!(check(&home)["state"], "ok", "{}", check(&home));
    model.when(|request| request.path.ends_with("/models")).times(0).script("");
    std::fs::remove_file(home.path().join("key")).unwrap();
    let wrong = check(&home);
    assert_eq!(wrong["state"], "bad", "{wrong}");
    assert!(wrong["what"].as_str().unwrap().contains("key file"), "{wrong}");
    std::fs::write(
        home.path().join("config.toml"),
        "[agent]\nmodel = \"x/y\"\n[agent.endpoints.x]\nkind = \"openai\"\nurl = \"http://127.0.0.1:1/v1\"\n",
    )
    .unwrap();
    let wrong = check(&home);
    assert!(wrong["what"].as_str().unwrap().contains("cannot be reached"), "{wrong}");
    std::fs::write(home.path().join("config.toml"), "[agent]\nmodle = \"x/y\"\n").unwrap();
    let wrong = check(&home);
    assert!(wrong["what"].as_str().unwrap().contains("line 2"), "{wrong}");
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The files below a directory that hold this text.
fn holding(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if kind.is_file() && contains(&std::fs::read(entry.path()).unwrap(), text) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn where_no_other_agent_is_installed_it_is_taken_and_that_is_told() {
    let model = ModelServer::start();
    let home = home(&model);
    let mut command = home.command(&["run", "say it [[say:here]]"]);
    command.env("PATH", "/usr/bin:/bin").stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = Home::finish(command.spawn(), b"").ended(0);
    assert!(output.out.contains("here"), "{output:#?}");
    assert!(output.err.contains("provider: builtin"), "{output:#?}");
}
