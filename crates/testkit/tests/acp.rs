//! Agents of the Agent Client Protocol through the whole program: command line, daemon, shim, and an agent that speaks the
//! real wire format and can misbehave in every way that was seen.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, until};

const CONFIG: &str = "[daemon]\nterm_grace_ms = 300\n[limits]\nmax_attempts = 1\n";

/// In a turn, with two of its own at work, the second below the first.
const FAMILY: &str = r#"inner c {"title": "probe", "capabilities": {"cancel": {}}, "state": {"state": "running"}}
below c g {"title": "below the probe", "state": {"state": "running"}}
"#;

/// The end of the one below the other.
const GONE: &str = r#"below c g {"state": {"state": "idle", "stopReason": "end_turn"}}
"#;

fn home() -> Home {
    Home::with_config(CONFIG)
}

/// The code and the message of a run that failed, and nothing of it is left.
#[track_caller]
fn failed(home: &Home, record: &Value) -> (String, String) {
    assert_eq!(record["status"], "error", "{record:#}");
    assert!(home.survivors(&[record["id"].as_str().unwrap().to_owned()]).is_empty());
    let word = |field: &str| record["error"][field].as_str().unwrap_or_default().to_owned();
    (word("code"), word("message"))
}

#[track_caller]
fn inner(home: &Home, id: &str) -> Vec<(String, String)> {
    let word = |inner: &Value, field: &str| inner[field].as_str().unwrap().to_owned();
    home.inner(id).iter().map(|inner| (word(inner, "key"), word(inner, "state"))).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(key, state)| ((*key).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn acp_01_processes_that_give_the_same_session_id_are_two_and_one_without_is_no_start() {
    let home = home();
    let knobs = ["--session", "1"];
    let script = |word: &str| format!("touch {word}\nfile go\nsay {word}");
    let both = ["one", "two"].map(|word| home.acps(&[], &knobs, &script(word)));
    for word in ["one", "two"] {
        home.reached(word);
    }
    assert_ne!(both[0], both[1]);
    home.open("go");
    for (id, word) in both.iter().zip(["one\n", "two\n"]) {
        home.run(&["wait", id]).ended(0);
        assert_eq!(home.run(&["result", id]).ended(0).out, word);
        assert_eq!(home.show(id)["session"], "1");
    }
    let (code, message) = failed(&home, &home.acp_record(&[], &["--session", "none"], "say never"));
    assert_eq!(code, "protocol");
    assert!(message.contains("session/new without the id"), "{message}");
}

#[test]
fn acp_02_what_an_agent_lacks_is_refused_with_the_exact_reason_and_a_login_is_not_tried_again() {
    let home = home();
    for (version, part) in [("2", "version 2"), ("none", "without a version")] {
        let record = home.acp_record(&[], &["--version", version], "say never");
        let (code, message) = failed(&home, &record);
        assert!(code == "protocol" && message.contains(part), "{code}: {message}");
    }
    let home = Home::with_config("[daemon]\nterm_grace_ms = 300\n[limits]\nmax_attempts = 3\n");
    let record = home.acp_record(&[], &["--login", "Authentication required"], "say never");
    let (code, message) = failed(&home, &record);
    assert!(code == "auth" && message.contains("API key"), "{code}: {message}");
    assert_eq!(record["attempt"], 1, "{record:#}");
    let flags = ["--append-system-prompt", "be brief"];
    let (code, message) = failed(&home, &home.acp_record(&flags, &["--can", "load"], "say never"));
    assert!(code == "not_capable" && message.contains("systemPrompt"), "{code}: {message}");
    // Without load and resume nothing can go on, and that is said before anything is started.
    let id = home.acps(&[], &["--can", "close"], "say once");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.show(&id)["resumable"], false);
    let refused = home.run(&["resume", &id, "say more"]).ended(4);
    assert!(refused.err.contains("not_resumable"), "{refused:#?}");
}

#[test]
fn acp_03_the_result_is_the_last_message_of_the_prompt_and_nothing_else() {
    let home = home();
    let script =
        "think hm\nsay I shall look.\ntool ls\nnotice slow today\nsay The answer\npart  is 42.\nuse 10 5";
    let record = home.acp_record(&[], &["--banner", "pi v1.6.0"], script);
    assert_eq!(record["status"], "completed", "{record:#}");
    assert_eq!(record["result"]["preview"], "The answer is 42.");
    assert_eq!((&record["tool_uses"], &record["usage"]["total"]), (&json!(1), &json!(15)));
    let logs = home.run(&["logs", record["id"].as_str().unwrap()]).ended(0).out;
    assert!(logs.contains("warning: slow today") && logs.contains("I shall look."), "{logs}");
    assert!(!logs.contains("pi v1.6.0"), "what comes before the prompt is of no run: {logs}");
}

#[test]
fn acp_04_a_history_that_is_repeated_is_neither_output_nor_usage_nor_an_event() {
    let home = home();
    let id = home.acps(&[], &["--can", "load"], "say the first\ncost 0.25");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.show(&id)["usage"]["cost_usd"], 0.25);
    let before = home.show(&id)["tool_uses"].clone();
    let blank = home.run(&["resume", "--json", &id, "stop end_turn"]).json();
    // It was asked once more because it had said nothing.
    let answer = blank["result"]["preview"].as_str().unwrap();
    assert!(answer.starts_with("heard: Give your final answer"), "the history is no answer: {blank:#}");
    assert_eq!(home.acp_methods(&["session/load"]).len(), 1);
    let record = home.show(&id);
    assert_eq!(record["tool_uses"], before, "{record:#}");
    assert_ne!(record["usage"]["cost_usd"], 7.5, "{record:#}");
    assert_eq!(home.inner(&id), Vec::<Value>::new(), "those of the history are long gone");
    let answered = home.run(&["resume", &id, "say $history"]).ended(0).out;
    assert!(answered.contains("say the first"), "it has the history: {answered}");
}

#[test]
fn acp_05_loads_again_and_again_leave_one_process_and_a_cancel_works_after_them() {
    let home = home();
    let id = home.acps(&[], &["--can", "load"], "say 0");
    home.run(&["wait", &id]).ended(0);
    for round in 1..=3 {
        let said = home.run(&["resume", &id, &format!("say {round}")]).ended(0).out;
        assert_eq!(said, format!("{round}\n"));
        assert!(home.survivors(std::slice::from_ref(&id)).is_empty(), "after load {round}");
    }
    home.run(&["resume", "--background", &id, "touch working\nfile never"]).ended(0);
    home.reached("working");
    home.run(&["steer", "--wait", "20s", "--interrupt", &id, "say instead"]).ended(0);
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out.trim_start(), "instead\n");
    assert_eq!(home.acp_methods(&["session/cancel"]).len(), 1);
    assert!(home.survivors(&[id]).is_empty());
}

#[test]
fn acp_06_what_is_unknown_is_ignored_or_refused_and_nothing_breaks() {
    let home = home();
    let script = r#"of stranger agent_message_chunk {"content": {"type": "text", "text": "not mine"}}
of stranger subagent_update {"sessionId": "s", "state": {"state": "running"}}
update weather_update {"sky": "blue"}
raw {"jsonrpc": "2.0", "method": "weather/changed", "params": []}
raw [1, 2]
raw {"jsonrpc": "2.0", "id": 999, "result": {}}
request weather/read {"where": "here"}
say unknown: $answer"#;
    let record = home.acp_record(&[], &[], script);
    assert_eq!(record["result"]["preview"], "unknown: -32601", "{record:#}");
    assert_eq!(home.inner(record["id"].as_str().unwrap()), Vec::<Value>::new());
}

#[test]
fn acp_07_only_text_is_sent_whatever_the_agent_would_take() {
    let home = home();
    let record = home.acp_record(&[], &["--can", "image"], "say done");
    assert_eq!(record["status"], "completed", "{record:#}");
    let told = home.acp_told();
    let prompt = told.iter().find(|told| told["method"] == "session/prompt").unwrap();
    assert_eq!(prompt["params"]["prompt"], json!([{"type": "text", "text": "say done"}]));
    // No door takes an image for it, so none can be dropped on the way.
    let spawn =
        json!({"provider": "acp", "prompt": "p", "images": [{"mime_type": "image/png", "data": "AA=="}]});
    let refused = home.http().post("/v1/subagents", &spawn);
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[test]
fn acp_08_an_option_is_chosen_by_its_kind_and_a_yes_is_a_yes_for_once() {
    let home = home();
    for (kinds, word, answer) in [
        ("allow_always,reject_once,allow_once", "approve", "id-allow_once"),
        ("allow_always,allow_once,reject_always,reject_once", "deny", "id-reject_once"),
        ("allow_once", "deny", "cancelled"),
        ("reject_once", "approve", "cancelled"),
    ] {
        let id = home.acps(&[], &[], &format!("ask {kinds} rm -rf\nsay $answer"));
        let record = home.until_status(&id, "waiting");
        let handle = record["handle"].as_str().unwrap();
        home.run(&[word, &format!("{handle}.q1")]).ended(0);
        home.run(&["wait", &id]);
        assert_eq!(home.run(&["result", &id]).out.trim(), answer, "{kinds}, {word}");
    }
}

#[test]
fn acp_09_a_cancel_answers_what_is_asked_and_the_list_is_empty() {
    let home = home();
    let script = "start-ask allow_once,reject_once ls\nstart-ask allow_once,reject_once rm\nfile never";
    let id = home.acps(&[], &[], script);
    until("both to be asked", || {
        (home.run(&["requests", "--json"]).ended(0).json()["items"].as_array()?.len() == 2).then_some(())
    });
    home.run(&["steer", "--wait", "20s", "--interrupt", &id, "say instead"]).ended(0);
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["requests", "--json"]).ended(0).json()["items"], json!([]));
    let told = home.acp_told();
    let at = told.iter().position(|told| told["method"] == "session/cancel").unwrap();
    let after = told[at..].iter().filter(|told| told["result"]["outcome"]["outcome"] == "cancelled");
    assert_eq!(after.count(), 2, "first the cancel, then the answers: {told:#?}");
}

#[test]
fn acp_10_files_and_terminals_are_not_served_wherever_they_lie() {
    let home = home();
    let outside = home.path().join("outside");
    for (method, params) in [
        ("fs/read_text_file", json!({"path": "/etc/hostname"})),
        ("fs/write_text_file", json!({"path": &outside, "content": "x"})),
        ("terminal/create", json!({"command": "touch", "args": [&outside]})),
    ] {
        let record = home.acp_record(&[], &[], &format!("request {method} {params}\nsay $answer"));
        assert_eq!(record["result"]["preview"], "-32601", "{method}: {record:#}");
        assert!(!outside.exists());
    }
    let first = &home.acp_told()[0]["params"]["clientCapabilities"];
    assert_eq!((&first["fs"]["readTextFile"], &first["terminal"]), (&json!(false), &json!(false)));
}

#[test]
fn acp_11_each_reason_to_stop_has_its_outcome() {
    let home = home();
    for (reason, status, code) in [
        ("end_turn", "completed", Value::Null),
        ("max_tokens", "completed", Value::Null),
        ("refusal", "error", json!("refused")),
        ("max_turn_requests", "aborted", Value::Null),
        ("cancelled", "error", json!("crashed")),
        ("_bored", "error", json!("protocol")),
    ] {
        let record = home.acp_record(&[], &[], &format!("say so far\nstop {reason}"));
        assert_eq!(
            (&record["status"], &record["error"]["code"]),
            (&json!(status), &code),
            "{reason}: {record:#}"
        );
        assert_eq!(record["result"]["preview"], "so far", "{reason}");
        let truncated = record["marks"].as_array().is_some_and(|marks| marks.contains(&json!("truncated")));
        assert_eq!(truncated, reason == "max_tokens", "{reason}: {record:#}");
    }
}

#[test]
fn acp_12_a_connection_that_is_lost_in_a_turn_is_an_error_with_the_exit_and_usage_is_unknown() {
    let home = home();
    let record = home.acp_record(&[], &[], "say so far\nexit 7");
    let (code, _) = failed(&home, &record);
    assert_eq!(code, "crashed", "{record:#}");
    assert_eq!(record["error"]["exit"]["code"], 7, "{record:#}");
    assert_eq!(record["result"]["preview"], "so far");
    assert!(record.get("usage").is_none(), "unknown is not 0: {record:#}");
}

#[test]
fn acp_13_slow_to_start_and_slow_to_leave_is_within_the_limits() {
    // The limits that hold where nobody sets any.
    let home = Home::new();
    let begun = std::time::Instant::now();
    let record = home.acp_record(&[], &["--slow-start", "8000", "--slow-leave", "2000"], "say at last");
    assert_eq!(record["status"], "completed", "{record:#}");
    assert!(begun.elapsed().as_secs() >= 8);
    let id = record["id"].as_str().unwrap();
    let record = until("its process to end", || {
        Some(home.show(id)).filter(|record| record["attempts"][0]["exit"].is_object())
    });
    let exit = &record["attempts"][0]["exit"];
    assert_eq!((&exit["code"], exit.get("signal")), (&json!(0), None), "it left by itself: {record:#}");
}

#[test]
fn acp_14_its_own_are_shown_below_it_and_told_apart() {
    let home = home();
    let script = format!(
        "of c agent_message_chunk {{\"content\": {{\"type\": \"text\", \"text\": \"early\"}}}}\n{FAMILY}touch working\nfile go\n\
         below c g {{\"state\": {{\"state\": \"idle\", \"stopReason\": \"error\"}}}}\n\
         inner c {{\"state\": {{\"state\": \"idle\", \"stopReason\": \"end_turn\"}}}}\nsay done"
    );
    let id = home.acps(&[], &[], &script);
    home.reached("working");
    until("both to be told of", || (home.inner(&id).len() == 2).then_some(()));
    assert_eq!(inner(&home, &id), pairs(&[("c", "running"), ("g", "running")]));
    let all = home.inner(&id);
    assert_eq!((&all[0]["title"], &all[0]["can_stop"]), (&json!("probe"), &json!(true)));
    assert_eq!((&all[1]["parent"], all[1].get("can_stop")), (&json!("c"), None));
    let tree = home.run(&["ls", "--tree"]).ended(0).out;
    let lines: Vec<_> =
        tree.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines[2].starts_with("└─ c running") && lines[2].ends_with("its own probe"), "{tree}");
    assert!(lines[3].starts_with("└─ g running") && tree.contains("   └─ g"), "{tree}");
    assert_eq!(home.run(&["ls", "--json"]).ended(0).json().get("inner"), None, "only where it is asked for");
    let listed = home.run(&["ls", "--tree", "--json"]).ended(0).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "they are no records: {listed:#}");
    assert_eq!(listed["inner"][&id].as_array().unwrap().len(), 2, "{listed:#}");
    let shown = home.run(&["show", &id]).ended(0).out;
    assert!(shown.contains("inner c") && shown.contains("--inner c"), "{shown}");
    assert_eq!(home.show(&id)["inner"][0]["key"], "c");
    home.open("go");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "done\n", "their text is no part of the answer");
    let ended = pairs(&[("c", "completed"), ("g", "failed")]);
    assert_eq!(inner(&home, &id), ended);
    home.next_daemon();
    assert_eq!(inner(&home, &id), ended, "the transcript tells of them");
}

#[test]
fn acp_14_only_one_that_announces_it_is_stopped_by_itself_and_the_turn_goes_on() {
    let home = home();
    let script = format!("{FAMILY}touch working\ncancelled c\ntouch cancelled\nfile go\n{GONE}say went on");
    let id = home.acps(&[], &[], &script);
    home.reached("working");
    until("both to be told of", || (home.inner(&id).len() == 2).then_some(()));
    let refused = home.run(&["stop", &id, "--inner", "g"]).ended(2);
    assert!(refused.err.contains("not_capable") && refused.err.contains("subagent stop"), "{refused:#?}");
    let missing = home.run(&["stop", &id, "--inner", "x"]).ended(3);
    assert!(missing.err.contains("At work are: c, g"), "{missing:#?}");
    home.run(&["stop", &id, "--inner", "c", "--all"]).ended(2);
    let told = home.run(&["stop", &id, "--inner", "c"]).ended(0).out;
    assert!(told.contains("was told to stop"), "{told}");
    home.reached("cancelled");
    assert_eq!(home.acp_methods(&["session/cancel"]), ["session/cancel c"], "its own session goes on");
    until("it to be stopped", || (inner(&home, &id)[0].1 == "stopped").then_some(()));
    let again = home.run(&["stop", "--json", &id, "--inner", "c"]).ended(0).json();
    assert_eq!(
        (&again["accepted"], &again["inner"]["state"]),
        (&json!(false), &json!("stopped")),
        "{again:#}"
    );
    home.open("go");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "went on\n");
    let late = home.run(&["stop", "--json", &id, "--inner", "g"]).ended(0).json();
    assert_eq!(
        (&late["accepted"], &late["inner"]["state"]),
        (&json!(false), &json!("completed")),
        "{late:#}"
    );
    let logs = home.run(&["logs", &id]).ended(0).out;
    assert!(logs.contains("subagent c is to stop"), "{logs}");
}

#[test]
fn acp_14_what_one_of_them_asks_is_cancelled_with_it() {
    let home = home();
    let script = format!("{FAMILY}ask-as c allow_once,reject_once rm\n{GONE}say $answer");
    let id = home.acps(&[], &[], &script);
    home.until_status(&id, "waiting");
    let stopped = home.http().post(&format!("/v1/subagents/{id}/inner/stop"), &json!({"key": "c"}));
    assert_eq!(stopped.with(200)["accepted"], true);
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "cancelled\n");
    assert_eq!(home.run(&["requests", "--json"]).ended(0).json()["items"], json!([]));
}

#[test]
fn acp_14_if_the_connection_dies_they_are_lost_and_another_process_may_use_the_name_again() {
    let home = home();
    let id = home.acps(&[], &["--session", "same"], &format!("{FAMILY}touch working\nfile never"));
    home.reached("working");
    until("both to be told of", || (home.inner(&id).len() == 2).then_some(()));
    // A daemon that takes the conversation over knows them by the log, and that one can be stopped.
    home.next_daemon();
    until("the next daemon to know them", || (home.inner(&id).first()?["can_stop"] == true).then_some(()));
    assert_eq!(inner(&home, &id), pairs(&[("c", "running"), ("g", "running")]));
    kill(home.until_pid(&id), rustix::process::Signal::KILL);
    let record = home.until_status(&id, "error");
    let lost = pairs(&[("c", "lost"), ("g", "lost")]);
    assert_eq!(inner(&home, &id), lost, "{record:#}");
    let said =
        home.run(&["resume", &id, r#"inner c {"state": {"state": "idle", "stopReason": "end_turn"}}"#]);
    assert!(said.code <= 1, "{said:#?}");
    assert_eq!(inner(&home, &id), [lost, pairs(&[("c", "completed")])].concat());
}

#[test]
fn acp_14_one_that_outlives_the_turn_is_waited_for_and_can_be_stopped() {
    let home = home();
    let script = format!("{FAMILY}say done\nend\ncancelled c");
    let id = home.acps(&["--warm"], &[], &script.replace("\"running\"}}\nsay", "\"idle\"}}\nsay"));
    let record = home.until_status(&id, "waiting");
    assert_eq!(record["waiting_on"]["for"], "background", "{record:#}");
    home.run(&["stop", &id, "--inner", "c"]).ended(0);
    home.until_status(&id, "idle");
    assert_eq!(inner(&home, &id)[0], ("c".into(), "stopped".into()));
}

#[test]
fn a_session_is_closed_where_that_is_announced_and_its_input_ended_after() {
    let home = home();
    for (knobs, expected) in [
        (&["--can", "load,close"][..], &["session/close acp-", "end of input"][..]),
        (&["--can", "load"], &["end of input"]),
        // One that never answers is not waited for longer than the bound.
        (&["--can", "load,close", "--slow-close", "60000"], &["session/close acp-", "end of input"]),
    ] {
        let before = home.acp_methods(&["session/close", "end of input"]).len();
        let begun = std::time::Instant::now();
        let record = home.acp_record(&[], knobs, "say done");
        assert_eq!(record["status"], "completed", "{record:#}");
        let id = record["id"].as_str().unwrap().to_owned();
        home.run(&["stop", "--wait", &id]).ended(0);
        let told = home.acp_methods(&["session/close", "end of input"]).split_off(before);
        assert_eq!(told.len(), expected.len(), "{told:?}");
        assert!(told.iter().zip(expected).all(|(told, expected)| told.starts_with(expected)), "{told:?}");
        assert!(begun.elapsed().as_secs() < 10, "{knobs:?}");
        let exit = home.show(&id)["attempts"][0]["exit"].clone();
        assert_eq!((&exit["code"], exit.get("signal")), (&json!(0), None), "{knobs:?}");
    }
    // What was closed goes on all the same: by another process.
    let warm = home.acps(&["--warm"], &["--can", "load,close"], "say one");
    home.until_status(&warm, "idle");
    let pid = home.until_pid(&warm);
    home.run(&["stop", "--wait", &warm]).ended(0);
    assert!(!is_alive(pid));
    let closed = home.acp_methods(&["session/close"]);
    assert!(closed.last().unwrap().ends_with(&format!("acp-{pid}")), "{closed:?}");
    let said = home.run(&["resume", &warm, "say $history"]).ended(0).out;
    assert!(said.contains("say one"), "{said}");
}

#[test]
fn a_session_is_forked_where_that_is_announced_and_stays_as_it_was() {
    let home = home();
    let id = home.acps(&[], &[], "say remember the word owl");
    home.run(&["wait", &id]).ended(0);
    let session = home.show(&id)["session"].as_str().unwrap().to_owned();
    let fork = home.acp_record(&["--fork-session", &session], &[], "say $history");
    assert_eq!(fork["result"]["preview"], "say remember the word owl", "{fork:#}");
    assert_ne!(fork["session"], session.as_str(), "under a name of its own");
    assert_eq!(home.acp_methods(&["session/fork"]), [format!("session/fork {session}")]);
    let said = home.run(&["resume", &id, "say $history"]).ended(0).out;
    assert!(!said.contains("say $history"), "what the fork was asked is not in it: {said}");
    // The next run of the fork goes on with the fork.
    let next = home.run(&["resume", fork["id"].as_str().unwrap(), "say $session"]).ended(0).out;
    assert_eq!(next.trim(), fork["session"].as_str().unwrap());
    let lacks = home.acp_record(&["--fork-session", &session], &["--can", "load"], "say never");
    let (code, message) = failed(&home, &lacks);
    assert!(code == "not_capable" && message.contains("session/fork"), "{code}: {message}");
    let handle = home.show(&id)["handle"].as_str().unwrap().to_owned();
    let named = home.acp_record(&["--fork", &handle], &[], "say copied $history");
    assert!(named["result"]["preview"].as_str().unwrap().contains("the word owl"), "{named:#}");
    let other = home.run(&["run", "--fork", &handle, "-p", "exec", "--", "true"]).ended(2);
    assert!(other.err.contains("--provider acp"), "{other:#?}");
    let plain = home.background(&["true"])["id"].as_str().unwrap().to_owned();
    let none = home.run(&["run", "--fork", &plain, "--", "true"]).ended(4);
    assert!(none.err.contains("not_resumable"), "{none:#?}");
    let gone = home.acp_record(&["--fork-session", "nobody"], &[], "say never");
    assert_eq!(gone["status"], "error", "{gone:#}");
}
