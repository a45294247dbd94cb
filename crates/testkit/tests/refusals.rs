//! What a conversation refuses, at the doors: each with its code, its exit code, and the next step; and nothing is queued
//! or changed by it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use serde_json::json;
use subagent_model::ErrorCode;
use subagent_testkit::{Home, Output, until};

const CONFIG: &str = "[daemon]\nterm_grace_ms = 60000\nkill_grace_ms = 3000\n";

/// Refused with this code, with this exit code, and with this as a part of the next step.
#[track_caller]
fn refused(output: &Output, exit: i32, code: &str, next: &str) {
    assert_eq!(output.code, exit, "{output:#?}");
    // A hint may be broken into lines anywhere, also within a word.
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let told = squeezed(&output.err);
    assert!(told.contains(&squeezed(code)), "no {code:?}: {output:#?}");
    assert!(told.contains("help:") && told.contains(&squeezed(next)), "no {next:?}: {output:#?}");
    assert!(output.out.is_empty(), "{output:#?}");
}

/// A talker in the middle of its turn, which goes on once `go` is there.
fn working(home: &Home) -> String {
    let id = home.talks(&[], "touch working\nfile go\nsay done");
    home.reached("working");
    id
}

#[test]
fn steer_05_what_has_ended_or_is_being_stopped_takes_no_message_and_nothing_is_queued() {
    let home = Home::with_config(CONFIG);
    let ended = home.talks(&[], "say done");
    home.run(&["wait", &ended]).ended(0);
    refused(
        &home.run(&["steer", &ended, "late"]),
        1,
        "no_open_turn",
        &format!("subagent resume {ended} MESSAGE"),
    );
    refused(&home.run(&["steer", &ended, "late"]), 1, "is completed", "--follow-up");
    // One that takes its time to go.
    let stopping = home.talks(&[], "ignore-term\ndeaf\ntouch ready\nfile never");
    home.reached("ready");
    home.run(&["stop", &stopping]).ended(0);
    refused(&home.run(&["steer", &stopping, "late"]), 1, "stopping", "subagent");
    assert!(home.messages(&ended).is_empty() && home.messages(&stopping).is_empty());
    assert_eq!(home.show(&ended)["run"], 1);
}

#[test]
fn steer_06_an_unknown_recipient_is_an_error_and_never_queued() {
    let home = Home::with_config(CONFIG);
    for args in [
        &["steer", "zzzzzz", "x"][..],
        &["resume", "zzzzzz", "x"],
        &["messages", "zzzzzz"],
        &["approve", "zzzzzz"],
    ] {
        refused(&home.run(args), 3, "not_found", "subagent ls --all");
    }
    home.run(&["steer", "--follow-up", "zzzzzz", "x"]).ended(3);
    let empty = home.run(&["steer", "zzzzzz", " "]);
    refused(&empty, 2, "empty", "--interrupt");
}

#[test]
fn steer_10_a_child_that_takes_nothing_in_its_turn_gives_the_message_back_and_takes_a_follow_up() {
    let home = Home::with_config(CONFIG);
    let flags = ["--background", "--json"];
    let record = home.talk_to(&flags, "touch working\nfile go\nsay done", &["--can", ""]).ended(0).json();
    let id = record["id"].as_str().unwrap();
    home.reached("working");
    // Whether this program can is known from what it says itself, once it is there.
    let returned = home.run(&["steer", "--wait", "20s", id, "now"]).ended(1).out;
    assert_eq!(returned, "returned: the child did not take it\n");
    let later = home.run(&["steer", "--follow-up", id, "say later"]).ended(0).out;
    assert!(later.contains("opens the next"), "{later}");
    home.open("go");
    until("the next run", || {
        let record = home.show(id);
        (record["run"] == 2 && record["status"] == "completed").then_some(())
    });
    assert_eq!(home.receipts(id), ["returned", "delivered"]);
    assert_eq!(home.told_to(id)[1..], ["prompt say later"]);
}

#[test]
fn steer_10_a_program_that_is_not_spoken_with_takes_nothing_at_all() {
    let home = Home::with_config(CONFIG);
    let record = home.background(&["sleep", "300"]);
    let id = record["id"].as_str().unwrap();
    home.until_pid(id);
    let with_text = ["steer", "--interrupt", id, "x"];
    for args in [&["steer", id, "x"][..], &with_text, &["steer", "--follow-up", id, "x"]] {
        let output = home.run(args);
        assert!(output.code != 0 && output.err.contains("help:"), "{args:?}: {output:#?}");
        assert!(
            output.err.contains("not_capable") || output.err.contains("not_resumable"),
            "{args:?}: {output:#?}"
        );
    }
    assert!(home.messages(id).is_empty());
    let nothing = home.run(&["steer", "--interrupt", id]).out;
    assert!(nothing.starts_with("nothing to interrupt"), "{nothing}");
    assert_eq!(home.show(id)["status"], "running");
    for flags in [&["--warm"][..], &["--max-turns", "3"], &["--max-tokens", "100"]] {
        let args: Vec<_> = ["run"].iter().chain(flags).chain(&["--", "true"]).copied().collect();
        refused(&home.run(&args), 2, "not_capable", "");
    }
}

#[test]
fn res_01_a_resume_of_a_live_run_is_refused_or_waits_and_the_run_is_not_touched() {
    let home = Home::with_config(CONFIG);
    let id = working(&home);
    refused(&home.run(&["resume", &id, "more"]), 5, "still_running", "--queue");
    // Two at once: never two turns on one session.
    let both: Vec<_> = (0..2)
        .map(|_| home.command(&["resume", &id, "more"]).stderr(std::process::Stdio::piped()).spawn())
        .collect();
    for one in both {
        assert_eq!(Home::finish(one, b"").code, 5);
    }
    home.open("go");
    home.run(&["wait", &id]).ended(0);
    let record = home.show(&id);
    assert_eq!((&record["run"], &record["status"]), (&1.into(), &"completed".into()), "{record:#}");
    assert_eq!(home.told_to(&id).len(), 1);
    assert_eq!(home.run(&["result", &id]).ended(0).out, "done\n");
}

#[test]
fn res_06_what_cannot_be_resumed_says_why_and_nobody_offers_it() {
    let home = Home::with_config(CONFIG);
    // Its provider cannot.
    let plain = home.background(&["true"])["id"].as_str().unwrap().to_owned();
    home.until_status(&plain, "completed");
    refused(&home.run(&["resume", &plain, "more"]), 4, "not_resumable", "");
    let card = home.run(&["show", &plain]).ended(0).out;
    assert!(!card.contains("subagent resume"), "{card}");
    // Its session is gone.
    let id = home.talks(&[], "say done");
    home.run(&["wait", &id]).ended(0);
    assert!(home.run(&["show", &id]).ended(0).out.contains("subagent resume"));
    let session = home.show(&id)["session"].as_str().unwrap().to_owned();
    std::fs::remove_file(home.path().join("sessions").join(format!("{session}.jsonl"))).unwrap();
    let gone = home.run(&["resume", &id, "more"]);
    assert!(gone.code == 1 || gone.code == 4, "{gone:#?}");
    assert!(gone.err.contains("session_gone"), "{gone:#?}");
    assert_eq!(home.run(&["result", "--run", "1", &id]).ended(0).out, "done\n", "the old result stays");
}

/// SM-25, samples at the command line: what each status answers to each operation, and that none hangs.
#[test]
fn sm_25_each_operation_is_answered_in_each_status() {
    let home =
        Home::with_config("[limits]\nrunning = 4\n[daemon]\nterm_grace_ms = 60000\nkill_grace_ms = 3000\n");
    let holders: Vec<_> = (0..2).map(|_| home.background(&["sleep", "300"])).collect();
    let running = working(&home);
    let waiting = home.talks(&[], "ask execute rm -rf /\nsay $answer");
    home.until_status(&waiting, "waiting");
    let ended = home.talks(&["--no-durable"], "say never begins");
    let queued = home.talks(&[], "say never begins");
    assert_eq!(home.show(&queued)["status"], "queued");
    home.run(&["stop", &ended]).ended(0);
    let resume = |id: &str| home.run(&["resume", "--background", id, "more"]).code;
    let steer = |id: &str| home.run(&["steer", id, "a word"]).code;
    let result = |id: &str| home.run(&["result", id]).code;
    let approve = |id: &str| home.run(&["approve", id]).code;
    let budget = |id: &str| home.run(&["budget", "--max-turns", "9", id]).code;
    let interrupt = |id: &str| home.run(&["steer", "--interrupt", id]).code;
    // queued: takes messages for its start, has no result, no turn, no request.
    let of = |id: &str| [resume(id), steer(id), result(id), approve(id), interrupt(id)];
    assert_eq!(of(&queued), [5, 0, 5, 3, 0], "queued");
    assert_eq!(
        [resume(&running), steer(&running), result(&running), approve(&running), budget(&running)],
        [5, 0, 5, 3, 0]
    );
    assert_eq!(
        [resume(&waiting), steer(&waiting), result(&waiting), budget(&waiting)],
        [5, 0, 5, 0],
        "waiting"
    );
    assert_eq!(home.show(&ended)["status"], "stopped");
    let never = of(&ended);
    assert_eq!((never[1], never[3]), (1, 3), "stopped: {never:?}");
    // A stop is answered in every one, and once more changes nothing.
    for id in [&running, &waiting, &queued, &ended] {
        home.run(&["stop", id]).ended(0);
        home.run(&["stop", id]).ended(0);
    }
    for record in holders {
        home.run(&["stop", record["id"].as_str().unwrap()]).ended(0);
    }
}

#[test]
fn the_same_refusals_over_http() {
    let home = Home::with_config(CONFIG);
    let id = working(&home);
    let http = home.http();
    let path = |what: &str| format!("/v1/subagents/{id}/{what}");
    http.post(&path("resume"), &json!({"prompt": "more"})).refused(ErrorCode::StillRunning);
    http.post(&path("steer"), &json!({"message": ""})).refused(ErrorCode::InvalidRequest);
    http.post(&path("steer"), &json!({"message": "x", "how": "now"})).refused(ErrorCode::InvalidRequest);
    http.post("/v1/subagents/zzzzzz/steer", &json!({"message": "x"})).refused(ErrorCode::NotFound);
    http.post(&format!("/v1/requests/{id}.q9"), &json!({"choice": "allow_once"}))
        .refused(ErrorCode::NotFound);
    // Another client neither sees nor speaks to it.
    let other = http.requester("somebody");
    other.post(&path("steer"), &json!({"message": "x"})).refused(ErrorCode::NotYours);
    other.post(&path("stop"), &json!({})).refused(ErrorCode::NotYours);
    assert!(home.messages(&id).is_empty());
    let sent = json!({"message": "once", "idempotency_key": "k", "wait_ms": 20_000});
    let reply = http.post(&path("steer"), &sent).with(200);
    assert_eq!(reply["message"]["receipt"], "delivered", "{reply:#}");
    let again = http.post(&path("steer"), &sent).with(200);
    assert_eq!(again["message"]["message"]["number"], reply["message"]["message"]["number"], "{again:#}");
    home.open("go");
    home.run(&["wait", &id]).ended(0);
    http.post(&path("steer"), &json!({"message": "late"})).refused(ErrorCode::NoOpenTurn);
    let reply = http.post(&path("resume"), &json!({"prompt": "say by http", "wait_ms": 20_000})).with(201);
    assert_eq!((&reply["run"], &reply["ended"]), (&json!(2), &json!(true)), "{reply:#}");
    assert_eq!(reply["record"]["result"]["preview"], "by http");
    assert_eq!(home.told_to(&id).iter().filter(|told| *told == "steer once").count(), 1);
}
