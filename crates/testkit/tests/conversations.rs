//! Conversations through the command line, with a real child that is spoken with: runs, messages and their receipts,
//! interrupts, warm children, resumes, limits, and what is refused with the next step.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use subagent_testkit::home::is_alive;
use subagent_testkit::{Home, Output, until};

const CONFIG: &str = "[daemon]\nterm_grace_ms = 300\n";

/// Refused with this code, with this exit code, and with this as a part of the next step.
#[track_caller]
fn refused(output: &Output, exit: i32, code: &str, next: &str) {
    assert_eq!(output.code, exit, "{output:#?}");
    // A hint may be broken into lines anywhere.
    let words = output.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(code), "{output:#?}");
    assert!(words.contains("help:") && words.contains(next), "no {next:?}: {output:#?}");
    assert!(output.out.is_empty(), "{output:#?}");
}

/// A talker in the middle of its turn, which goes on once `go` is there.
fn working(home: &Home) -> String {
    let id = home.talks(&[], "touch working\nfile go\nsay done");
    home.reached("working");
    id
}

#[test]
fn a_conversation_runs_and_its_last_message_is_the_result() {
    let home = Home::with_config(CONFIG);
    let output =
        home.talk(&[], "say first\nturn\nuse 10 5 0.25\ntool bash\nsay the answer\nlast turn").ended(0);
    assert_eq!(output.out, "the answer\n");
    let record = home.run(&["ls", "--all", "--json"]).ended(0).json()["items"][0].clone();
    let id = record["id"].as_str().unwrap();
    let record = home.show(id);
    assert_eq!(record["status"], "completed", "{record:#}");
    assert_eq!((&record["turn_count"], &record["tool_uses"]), (&2.into(), &1.into()), "{record:#}");
    assert_eq!(record["usage"]["total"], 15, "{record:#}");
    assert_eq!(record["usage"]["cost_usd"], 0.25, "{record:#}");
    assert!(record["session"].as_str().unwrap().starts_with("talker-"), "{record:#}");
    let told = home.told_to(id);
    assert_eq!(told.len(), 1, "the prompt, once: {told:?}");
}

#[test]
fn steer_03_a_message_reaches_the_turn_in_order_and_its_receipt_says_so() {
    let home = Home::with_config(CONFIG);
    let id = home
        .talks(&[], "touch working\nfile go\nawait steer\nsay 1 $steer of $from\nawait steer\nsay 2 $steer");
    home.reached("working");
    let first = home.run(&["steer", "--wait", "20s", &id, "one"]).ended(0);
    assert_eq!(first.out, "delivered to run 1\n");
    let second = home.run_with_input(&["steer", "--wait", "20s", "--json", &id, "-"], b"two").ended(0).json();
    assert_eq!(second["message"]["receipt"], "delivered", "{second:#}");
    assert_eq!(second["message"]["run"], 1, "{second:#}");
    home.open("go");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "2 two\n");
    assert_eq!(home.told_to(&id)[1..], ["steer one", "steer two"]);
    assert_eq!(home.receipts(&id), ["delivered", "delivered"]);
    let listed = home.run(&["messages", &id]).ended(0).out;
    assert!(listed.contains("delivered to run 1") && listed.contains("two"), "{listed}");
}

#[test]
fn steer_02_what_is_accepted_before_the_child_is_there_says_what_it_waits_for_and_arrives() {
    let home = Home::with_config("[limits]\nrunning = 1\n");
    let holder = home.talks(&[], "touch working\nfile go");
    home.reached("working");
    let id = home.talks(&[], "await steer\nawait steer\nsay $steer");
    let receipt = home.run(&["steer", &id, "early"]).ended(0).out;
    assert_eq!(receipt, "accepted: waits until run 1 has started\n");
    let late = home.run(&["steer", "--wait", "50ms", &id, "early too"]);
    assert_eq!(late.code, 5, "not delivered in time: {late:#?}");
    home.open("go");
    home.run(&["wait", &holder, &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "early too\n");
    assert_eq!(home.told_to(&id)[1..], ["steer early", "steer early too"]);
}

#[test]
fn a_follow_up_opens_the_next_run_with_a_result_of_its_own() {
    let home = Home::with_config(CONFIG);
    let id = working(&home);
    let receipt = home.run(&["steer", "--follow-up", &id, "say the second"]).ended(0).out;
    assert_eq!(receipt, "accepted: waits until run 1 has ended, and opens the next\n");
    let queued = home.run(&["resume", "--queue", &id, "say the third"]).ended(0);
    assert!(queued.err.contains("follow-up"), "{queued:#?}");
    home.open("go");
    until("the third run to end", || {
        let record = home.show(&id);
        (record["run"] == 3 && record["status"] == "completed").then_some(())
    });
    let runs = home.run(&["runs", "--json", &id]).ended(0).json();
    let told: Vec<_> = runs["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["result"]["preview"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["done", "the second", "the third"], "{runs:#}");
    for (run, text) in [("1", "done\n"), ("2", "the second\n"), ("3", "the third\n")] {
        assert_eq!(home.run(&["result", "--run", run, &id]).ended(0).out.trim_start(), text);
    }
    until("the receipts", || (!home.run(&["inbox", "--json"]).ended(0).out.contains(&id)).then_some(()));
    let table = home.run(&["runs", &id]).ended(0).out;
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[test]
fn stop_20_an_interrupt_cancels_the_turn_and_the_next_message_goes_on_in_the_same_run() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(&[], "touch working\nfile never\nsay never");
    let pid = home.until_pid(&id);
    home.reached("working");
    let interrupted = home.run(&["steer", "--wait", "20s", "--interrupt", &id, "say instead"]).ended(0);
    assert_eq!(interrupted.out, "delivered to run 1\n");
    home.run(&["wait", &id]).ended(0);
    let record = home.show(&id);
    assert_eq!((&record["run"], &record["attempt"]), (&1.into(), &1.into()), "{record:#}");
    assert_eq!(home.run(&["result", &id]).ended(0).out, "instead\n");
    assert_eq!(home.told_to(&id)[1..], ["prompt say instead"]);
    until("the child to be gone", || (!is_alive(pid)).then_some(()));
    // Without a turn there is nothing to interrupt, and nothing is changed.
    let nothing = home.run(&["steer", "--interrupt", &id]);
    assert!(
        nothing.out.contains("nothing to interrupt") && nothing.out.contains("completed"),
        "{nothing:#?}"
    );
    assert_eq!(home.show(&id)["status"], "completed");
}

#[test]
fn a_warm_child_is_idle_between_its_runs_and_stays_the_same_process() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(&["--warm"], "say one $pid");
    let record = home.until_status(&id, "idle");
    let pid = home.until_pid(&id);
    assert!(record["retire_at"].is_string(), "{record:#}");
    assert_eq!(home.run(&["result", &id]).ended(0).out, format!("one {pid}\n"));
    let next = home.run(&["resume", &id, "say two $pid"]).ended(0);
    assert_eq!(next.out, format!("two {pid}\n"), "the same process");
    let receipt =
        home.run(&["steer", "--wait", "20s", "--follow-up", &id, "touch third\nfile go\nsay three"]).ended(0);
    assert_eq!(receipt.out, "delivered to run 3\n");
    home.reached("third");
    let steered = home.run(&["steer", "--wait", "20s", &id, "a word"]).ended(0);
    assert_eq!(steered.out, "delivered to run 3\n");
    home.open("go");
    let record = home.until_status(&id, "idle");
    assert_eq!((&record["run"], &record["attempt"]), (&3.into(), &1.into()), "{record:#}");
    assert!(is_alive(pid));
    // Idle is no turn: what is sent then is the prompt of the next run.
    let prompt = home.run(&["steer", "--wait", "20s", &id, "say four"]).ended(0);
    assert_eq!(prompt.out, "delivered to run 4\n");
    home.until_status(&id, "idle");
    home.run(&["stop", "--wait", &id]).ended(0);
    assert!(!is_alive(pid), "with --wait it is gone");
    let record = home.show(&id);
    assert!(record.get("retire_at").is_none(), "{record:#}");
    let runs = home.run(&["runs", "--json", &id]).ended(0).json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 4);
    assert_eq!(runs["items"][0]["status"], "completed", "a stop changes no run that had ended: {runs:#}");
}

#[test]
fn a_resume_goes_on_in_the_session_of_what_has_ended_or_was_stopped() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(&[], "say remember the word owl");
    home.run(&["wait", &id]).ended(0);
    let first = home.until_pid(&id);
    let output = home.run(&["resume", &id, "recite"]).ended(0);
    assert!(output.out.contains("remember the word owl"), "another process of the same session: {output:#?}");
    assert_ne!(home.until_pid(&id), first);
    // What was stopped in the middle goes on as well.
    let stopped = working(&home);
    home.run(&["stop", "--wait", &stopped]).ended(0);
    assert_eq!(home.show(&stopped)["status"], "stopped");
    let output = home.run(&["resume", &stopped, "say went on"]).ended(0);
    assert_eq!(output.out, "went on\n");
    let runs = home.run(&["runs", "--json", &stopped]).ended(0).json();
    assert_eq!(
        (&runs["items"][0]["status"], &runs["items"][1]["status"]),
        (&"stopped".into(), &"completed".into())
    );
    // A type and a model are kept, and that is told.
    let kept = home.run(&["resume", &id, "--model", "other", "say kept"]).ended(0);
    assert!(kept.err.contains("ignored") && kept.err.contains("model"), "{kept:#?}");
    let timely = home.run(&["resume", "--timeout", "30ms", &id, "sleep 400\nsay late"]).ended(5);
    assert!(timely.err.contains("goes on"), "{timely:#?}");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "late\n");
}

#[test]
fn queue_13_a_turn_limit_asks_to_wrap_up_and_the_exit_code_tells_the_rest() {
    let home = Home::with_config(CONFIG);
    let wraps = "turn\nturn\nawait steer\nsay wrapped up\nlast turn";
    let output = home.talk(&["--json", "--max-turns", "2", "--grace-turns", "3"], wraps).ended(0);
    let record = output.json();
    assert_eq!(record["status"], "steered", "{record:#}");
    assert_eq!(record["result"]["preview"], "wrapped up");
    assert_eq!(record["wrap_up"]["limit"], "turns", "{record:#}");
    let deaf = "steers ignore\nsay so far\nrepeat 9 turn\nfile never";
    let output = home.talk(&["--json", "--max-turns", "2", "--grace-turns", "1"], deaf).ended(1);
    let record = output.json();
    assert_eq!(record["status"], "aborted", "{record:#}");
    assert_eq!(record["result"]["preview"], "so far", "what there is is kept: {record:#}");
    let said = home.run(&["result", record["id"].as_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:#?}");
    assert!(said.err.contains("aborted") && said.err.contains("limit: turns"), "{said:#?}");
    for wrong in ["-1", "2.5", "many"] {
        home.talk(&["--max-turns", wrong], "say no").ended(2);
    }
    home.talk(&["--max-turns", "0"], "repeat 30 turn\nsay as long as it takes").ended(0);
}

#[test]
fn queue_13_the_budget_of_a_running_one_is_shown_and_changed() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(
        &["--max-tokens", "1000"],
        "use 100 50\ntouch working\nfile go\nuse 800 500\nfile more\nsay fine",
    );
    home.reached("working");
    until("the use to be told", || {
        home.run(&["budget", &id]).ended(0).out.contains("150 of 1000").then_some(())
    });
    let raised = home.run(&["budget", "--json", "--max-tokens", "5k", &id]).ended(0).json();
    assert_eq!(raised["budget"]["max_tokens"], 5_000, "{raised:#}");
    home.open("go");
    home.open("more");
    home.run(&["wait", &id]).ended(0);
    assert_eq!(home.show(&id)["status"], "completed");
    refused(&home.run(&["budget", "--max-turns", "3", &id]), 1, "illegal_transition", "subagent show");
}

#[test]
fn prov_04_a_login_that_was_changed_under_a_child_is_read_again_and_one_that_never_worked_is_not() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 300\n[limits]\nmax_attempts = 3\n");
    let script = "on-continue say went on in $session\nuse 10 5\nsay so far\nfail auth the token was rotated";
    let record = home.talk(&["--json"], script).ended(0).json();
    assert_eq!((&record["status"], &record["attempt"]), (&"completed".into(), &2.into()), "{record:#}");
    let session = record["session"].as_str().unwrap();
    assert_eq!(record["result"]["preview"], format!("went on in {session}"), "the same session: {record:#}");
    let record = home.talk(&["--json"], "fail auth log in first").ended(1).json();
    assert_eq!((&record["error"]["code"], &record["attempt"]), (&"auth".into(), &1.into()), "{record:#}");
}

#[test]
fn stop_16_a_stop_of_everything_takes_queued_running_and_idle_ones() {
    let home = Home::with_config("[limits]\nrunning = 1\n[daemon]\nterm_grace_ms = 300\n");
    let warm = home.talks(&["--warm"], "say warm");
    home.until_status(&warm, "idle");
    let running = working(&home);
    let queued = home.talks(&[], "touch must.not.be");
    let pids = [home.until_pid(&warm), home.until_pid(&running)];
    let waits = home.command(&["wait", &queued]).stdout(std::process::Stdio::piped()).spawn();
    let told = home.run(&["stop", "--all", "--wait", "--json"]).ended(0).json();
    assert_eq!(told["stopped"].as_array().unwrap().len(), 3, "{told:#}");
    assert_eq!(Home::finish(waits, b"").code, 1, "who waited for the queued one is answered");
    for pid in pids {
        assert!(!is_alive(pid));
    }
    assert_eq!(home.show(&running)["status"], "stopped");
    assert_eq!(home.show(&queued)["status"], "stopped");
    assert!(!home.path().join("must.not.be").exists());
    assert!(home.survivors(&[warm, running, queued]).is_empty());
}

#[test]
fn result_33_a_dry_run_says_what_would_go_and_touches_nothing() {
    let home = Home::with_config(CONFIG);
    let (read, unread) = (home.talks(&[], "say read"), home.talks(&[], "say unread"));
    home.run(&["wait", &read]).ended(0);
    home.until_status(&unread, "completed");
    until("the receipt", || (home.show(&read)["consumed"] == true).then_some(()));
    let dry = ["gc", "--dry-run", "--older-than", "0s", "--records", "--json"];
    let told = home.run(&dry).ended(0).json();
    assert_eq!(told["records"], serde_json::json!([read]), "{told:#}");
    assert_eq!((&told["dry_run"], &told["unread"]), (&true.into(), &1.into()), "{told:#}");
    assert_eq!(home.run(&dry).ended(0).json()["records"], told["records"], "nothing went");
    let words = home.run(&["gc", "--dry-run", "--older-than", "0s"]).ended(0);
    assert!(words.err.contains("would be released") && words.err.contains("unread"), "{words:#?}");
    assert_eq!(home.run(&["result", &unread]).ended(0).out, "unread\n");
    let logs = home.path().join(home.show(&read)["transcript"].as_str().unwrap());
    assert!(logs.is_dir());
    home.run(&["gc", "--older-than", "0s"]).ended(0);
    assert!(!logs.exists(), "the log of what was read");
    assert_eq!(home.run(&["result", &read]).ended(0).out, "read\n", "the text stays readable");
}
