//! The HTTP face as any program sees it: events, receipts, long texts, refusals, keys, long polls, the queue.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_model::ErrorCode;
use subagent_testkit::home::is_alive;
use subagent_testkit::http::Told;
use subagent_testkit::{Home, Http, until};

/// A home whose daemon serves, and its face.
fn serving(config: &str) -> (Home, Http) {
    let home = Home::with_config(config);
    home.run(&["ls"]).ended(0);
    let http = Http::new(home.socket());
    (home, http)
}

fn shell(home: &Home, script: &str) -> Value {
    json!({
        "provider": "exec",
        "mode": "async",
        "cwd": home.path(),
        "env": {"PATH": "/usr/bin:/bin"},
        "exec": {"program": "/bin/sh", "args": ["-c", script]},
    })
}

#[track_caller]
fn spawn(home: &Home, http: &Http, script: &str) -> String {
    let reply = http.post("/v1/subagents", &shell(home, script)).with(201);
    reply["record"]["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn ended(http: &Http, id: &str) -> Value {
    until(&format!("{id} to end"), || {
        let path = format!("/v1/subagents/{id}/wait?ack=false&timeout_ms=5000");
        let reply = http.post(&path, &json!(null)).with(200);
        (reply["ended"] == true).then(|| reply["record"].clone())
    })
}

fn head(http: &Http) -> u64 {
    http.get("/v1/health").with(200)["cursor"].as_u64().unwrap()
}

fn ids(told: &[Told]) -> Vec<u64> {
    told.iter().map(|event| event.id).collect()
}

fn inbox(http: &Http) -> Vec<String> {
    let items = http.get("/v1/inbox").with(200)["items"].clone();
    items.as_array().unwrap().iter().map(|item| item["record"]["id"].as_str().unwrap().to_owned()).collect()
}

/// A way for a test to decide when a child goes on.
fn gate(home: &Home, name: &str) -> std::path::PathBuf {
    let path = home.path().join(name);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn daemon_19_a_subscriber_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let (home, http) = serving("");
    let mut first = http.events("?after=0", None);
    let one = spawn(&home, &http, "echo one");
    ended(&http, &one);
    // It leaves in the middle.
    let mut seen = vec![first.next_event().unwrap(), first.next_event().unwrap()];
    drop(first);
    let two = spawn(&home, &http, "echo two");
    ended(&http, &two);
    let mut second = http.events("", seen.last().map(|event| event.id));
    seen.push(second.next_event().unwrap());
    // The daemon dies under it: it reads what was sent, and then the end.
    home.kill_daemon();
    seen.extend(std::iter::from_fn(|| second.next_event()));
    home.run(&["ls"]).ended(0);
    let three = spawn(&home, &http, "echo three");
    ended(&http, &three);
    let last = head(&http);
    seen.extend(http.events("", seen.last().map(|event| event.id)).through(last));
    assert_eq!(ids(&seen), (1..=last).collect::<Vec<_>>(), "a gap or a double");
    // The stream says what a page says.
    let page = http.send("GET", "/v1/events?after=0&limit=1000", &[("accept", "application/json")], b"");
    let page = page.with(200);
    let told: Vec<_> = seen.iter().map(|event| event.data.clone()).collect();
    assert_eq!(page["items"], json!(told));
    assert_eq!(page["next"], last);
    for event in &seen {
        assert_eq!(
            (event.id, event.name.as_str()),
            (event.data["seq"].as_u64().unwrap(), event.data["event"].as_str().unwrap())
        );
    }
    // Each run is told in its order and ends once.
    for id in [&one, &two, &three] {
        let own: Vec<_> =
            seen.iter().filter(|event| event.data["subagent"] == **id).map(|event| &*event.name).collect();
        assert_eq!(own.first(), Some(&"accepted"), "{own:?}");
        let place =
            |name| own.iter().position(|own| *own == name).unwrap_or_else(|| panic!("{name}: {own:?}"));
        assert!(place("claimed") < place("started") && place("started") < place("ended"), "{own:?}");
        assert_eq!(own.iter().filter(|name| **name == "ended").count(), 1, "{own:?}");
    }
}

#[test]
fn daemon_19_a_subscriber_may_want_one_subagent_only() {
    let (home, http) = serving("");
    let ids: Vec<_> = (0..3).map(|_| spawn(&home, &http, "true")).collect();
    for id in &ids {
        ended(&http, id);
    }
    let mut events = http.events(&format!("?after=0&subagent={}", ids[1]), None);
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "ended") {
        let event = events.next_event().unwrap();
        assert_eq!(event.data["subagent"], *ids[1]);
        names.push(event.name);
    }
    assert_eq!(names[0], "accepted", "{names:?}");
    // Without a position it begins with what is new.
    let mut fresh = http.events("", None);
    let begun = head(&http);
    let next = spawn(&home, &http, "true");
    let event = fresh.next_event().unwrap();
    assert!(event.id > begun && event.data["subagent"] == *next, "{event:?}");
    http.get("/v1/events?subagent=zzzz").refused(ErrorCode::NotFound);
}

#[test]
fn daemon_19_a_subscriber_that_reads_nothing_slows_nobody_and_gets_everything() {
    let (home, http) = serving("[limits]\nrunning = 1\nqueue = 1000\n");
    let after = head(&http);
    let mut stuck = http.events(&format!("?after={after}"), None);
    spawn(&home, &http, "exec sleep 300");
    // Queued and stopped: four events each, without a process.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..125 {
                    let id = spawn(&home, &http, "exec sleep 300");
                    http.post(&format!("/v1/subagents/{id}/stop"), &json!({})).with(200);
                }
            });
        }
    });
    let last = head(&http);
    assert!(last - after >= 2_000, "{last} events");
    let begun = Instant::now();
    http.get("/v1/health").with(200);
    http.get("/v1/subagents?limit=10").with(200);
    let mut other = http.events(&format!("?after={}", last - 1), None);
    assert_eq!(other.next_event().unwrap().id, last);
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    assert_eq!(ids(&stuck.through(last)), (after + 1..=last).collect::<Vec<_>>());
}

#[test]
fn result_07_only_its_requester_consumes_a_result_and_only_by_reading_to_its_end() {
    let (home, http) = serving("");
    // Another person sees everything, and another client nothing.
    let (alice, bob) = (http.requester("alice"), http.requester("user:bob"));
    let id = spawn(&home, &alice, "echo 12345678; echo 12345678");
    ended(&alice, &id);
    // What bob may not: refused by the writer, behind everything that was sent to it before.
    let settled = || {
        let reply = bob.post("/v1/inbox/ack", &json!({"ids": [id]})).with(200);
        reply["refused"].clone()
    };
    assert_eq!(inbox(&alice), [id.as_str()]);
    assert!(inbox(&bob).is_empty());
    let result = format!("/v1/subagents/{id}/result");
    let other = http.requester("carol");
    other.get(&result).refused(ErrorCode::NotYours);
    other.post(&format!("/v1/subagents/{id}/wait"), &json!(null)).refused(ErrorCode::NotYours);
    let text = bob.get(&result).with(200)["text"].clone();
    assert!(text.as_str().unwrap().starts_with("12345678\n12345678"), "{text}");
    bob.post(&format!("/v1/subagents/{id}/wait"), &json!(null)).with(200);
    settled();
    assert_eq!(inbox(&alice), [id.as_str()], "another requester read it");
    // Alice looks without consuming, and reads a part.
    alice.get(&format!("{result}?ack=false")).with(200);
    alice.post(&format!("/v1/subagents/{id}/wait?ack=false"), &json!(null)).with(200);
    assert_eq!(alice.get(&format!("{result}?max=4")).with(200)["next"], 4);
    settled();
    assert_eq!(inbox(&alice), [id.as_str()], "it was not read to its end");
    assert_eq!(http.get(&format!("/v1/subagents/{id}")).with(200)["consumed"], false);
    // The end of it is the whole of it.
    assert!(alice.get(&format!("{result}?offset=4")).with(200).get("next").is_none());
    until("the receipt", || inbox(&alice).is_empty().then_some(()));
    assert_eq!(http.get(&format!("/v1/subagents/{id}")).with(200)["consumed"], true);
    // It can still be read, after a restart too, and does not come back.
    home.kill_daemon();
    home.run(&["ls"]).ended(0);
    assert!(inbox(&alice).is_empty());
    assert_eq!(bob.get(&result).with(200)["text"], text);
}

#[test]
fn result_07_bobs_receipt_for_alices_result_is_refused_with_its_code() {
    let (home, http) = serving("");
    let (alice, bob) = (http.requester("alice"), http.requester("bob"));
    let id = spawn(&home, &alice, "echo hers");
    ended(&alice, &id);
    let item = alice.get("/v1/inbox").with(200)["items"][0].clone();
    let delivery = item["delivery_id"].as_str().unwrap();
    assert_eq!(item["requester"], "alice");
    let reply = bob.post("/v1/inbox/ack", &json!({"ids": [delivery]})).with(200);
    assert_eq!(reply["refused"][0]["code"], "not_yours", "{reply:#}");
    assert_eq!(reply["acknowledged"], json!([]));
    // A run that there is not, and a subagent that there is not, beside one that is hers.
    let other = spawn(&home, &alice, "echo hers as well");
    ended(&alice, &other);
    let names = json!({"ids": [format!("{id}.9"), "zzzz", other]});
    let reply = alice.post("/v1/inbox/ack", &names).with(200);
    assert_eq!(reply["acknowledged"], json!([other]), "{reply:#}");
    assert_eq!(reply["refused"].as_array().unwrap().len(), 2, "{reply:#}");
    assert_eq!(inbox(&alice), [id.as_str()]);
    let reply = alice.post("/v1/inbox/ack", &json!({"ids": [delivery]})).with(200);
    assert_eq!((&reply["acknowledged"], &reply["unconsumed"]), (&json!([id]), &json!(0)), "{reply:#}");
    assert!(inbox(&alice).is_empty(), "an answer that was not asked for lazily is on disk");
    // Once more changes nothing.
    alice.post("/v1/inbox/ack", &json!({"ids": [delivery]})).with(200);
    assert!(inbox(&alice).is_empty());
}

#[test]
fn result_08_a_wait_that_sees_the_end_consumes_and_nobody_is_told_of_a_detached_one() {
    let (home, http) = serving("");
    let alice = http.requester("alice");
    let id = spawn(&home, &alice, "echo hers");
    let reply = alice.post(&format!("/v1/subagents/{id}/wait?timeout_ms=20000"), &json!(null)).with(200);
    assert_eq!((&reply["ended"], &reply["run"]), (&json!(true), &json!(1)), "{reply:#}");
    until("the receipt", || inbox(&alice).is_empty().then_some(()));
    assert_eq!(http.get(&format!("/v1/subagents/{id}")).with(200)["consumed"], true);
    let mut request = shell(&home, "echo nobody's");
    request["mode"] = json!("detached");
    let reply = alice.post("/v1/subagents", &request).with(201);
    let detached = reply["record"]["id"].as_str().unwrap();
    ended(&alice, detached);
    assert!(inbox(&alice).is_empty());
}

#[test]
fn a_requester_must_have_a_name_that_can_be_written_down() {
    let (_home, http) = serving("");
    http.requester("").get("/v1/inbox").refused(ErrorCode::InvalidRequest);
    http.requester(&"x".repeat(257)).get("/v1/inbox").refused(ErrorCode::InvalidRequest);
    http.requester(&"x".repeat(256)).get("/v1/inbox").with(200);
    http.requester("caf\u{e9}").get("/v1/inbox").refused(ErrorCode::InvalidRequest);
}

/// Characters of one to four bytes, so that any page size meets the inside of some.
fn multibyte(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.extend([&number.to_string(), ":a\u{e9}\u{6f22}\u{1f600}\u{1f600}\u{6f22}\u{e9};"]);
    }
    text
}

#[test]
fn result_29_a_result_of_megabytes_is_read_in_pages_that_fit_together() {
    let (home, http) = serving("");
    let text = multibyte(3 * 1024 * 1024);
    let file = home.path().join("text");
    std::fs::write(&file, &text).unwrap();
    let id = spawn(&home, &http, &format!("cat {}", file.display()));
    let record = ended(&http, &id);
    let sum = std::process::Command::new("sha256sum").arg(&file).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let result = &record["result"];
    assert_eq!(result["bytes"], text.len());
    assert_eq!(result["truncated"], true);
    assert_eq!(result["sha256"], sum.split_whitespace().next().unwrap());
    // RESULT-30: bounded, whole characters, the true beginning.
    let preview = result["preview"].as_str().unwrap();
    assert!(preview.len() <= 16 * 1024, "{} bytes", preview.len());
    assert!(!preview.contains('\u{fffd}'));
    assert!(text.starts_with(&preview[..preview.char_indices().nth(1_000).unwrap().0]));
    let page = |offset: usize, max: usize| {
        let path = format!("/v1/subagents/{id}/result?ack=false&offset={offset}&max={max}");
        let page = http.get(&path).with(200);
        assert_eq!((&page["offset"], &page["total"]), (&json!(offset), &json!(text.len())));
        let part = page["text"].as_str().unwrap().to_owned();
        assert!(!part.is_empty() && part.len() <= max, "{} bytes at {offset}", part.len());
        assert_eq!(text.get(offset..offset + part.len()), Some(&*part), "at {offset} of {max}");
        let next = page.get("next").map(|next| usize::try_from(next.as_u64().unwrap()).unwrap());
        assert_eq!(next, Some(offset + part.len()).filter(|end| *end < text.len()));
        (part, next)
    };
    for max in [65_537, 1_000_003, 4 * 1024 * 1024] {
        let (mut whole, mut next) = (String::new(), Some(0));
        while let Some(offset) = next {
            let (part, after) = page(offset, max);
            whole += &part;
            next = after;
        }
        assert!(whole == text, "pages of {max} bytes do not give the text");
    }
    // The smallest pages, of every size around a character.
    for max in 4..=9 {
        let mut next = Some(0);
        for _ in 0..40 {
            next = page(next.unwrap(), max).1;
        }
    }
    let far = http.get(&format!("/v1/subagents/{id}/result?ack=false&offset=99999999")).with(200);
    assert_eq!((&far["text"], far.get("next")), (&json!(""), None));
    // After a restart it is the same.
    home.kill_daemon();
    home.run(&["ls"]).ended(0);
    let middle = (1_000_000..1_000_004).find(|offset| text.is_char_boundary(*offset)).unwrap();
    assert!(page(middle, 50_000).0.len() > 49_990);
}

#[test]
fn bad_requests_are_refused_with_status_code_and_hint_and_the_daemon_goes_on() {
    let (home, http) = serving("");
    let post = |body: &[u8]| http.send("POST", "/v1/subagents", &[], body);
    for body in [&b"{"[..], b"", b"null", b"[]", b"\xff\xfe", b"{\"provider\":\"exec\"}}"] {
        post(body).refused(ErrorCode::InvalidRequest);
    }
    let with = |field: &str, value: Value| {
        let mut request = shell(&home, "true");
        request[field] = value;
        http.post("/v1/subagents", &request)
    };
    let problem = with("bogus_field", json!(1)).refused(ErrorCode::InvalidRequest);
    assert!(problem.message.contains("bogus_field"), "{problem:?}");
    for (field, value) in [
        ("prompt", json!(7)),
        ("exec", json!("sh")),
        ("mode", json!("sideways")),
        ("env", json!({"A": 1})),
        ("env", json!({"A=B": "x"})),
        ("env", json!({"A": "nul\u{0}"})),
        ("deadline_ms", json!(-1)),
        ("deadline_ms", json!(0)),
        ("description", json!("x".repeat(513))),
        ("labels", json!({"": "x"})),
    ] {
        let problem = with(field, value.clone());
        assert_eq!(problem.status, 400, "{field} {value}: {problem:?}");
        problem.refused(ErrorCode::InvalidRequest);
    }
    for cwd in [json!(null), json!("relative/dir"), json!("/no/such/dir"), json!("/etc/passwd")] {
        with("cwd", cwd).refused(ErrorCode::InvalidCwd);
    }
    with("provider", json!("no-such-provider")).refused(ErrorCode::UnknownProvider);
    with("parent", json!("zzzz")).refused(ErrorCode::NotFound);
    http.get("/v1/no/such/route").refused(ErrorCode::NotFound);
    http.get("/").refused(ErrorCode::NotFound);
    for query in ["bogus=1", "status=sleeping", "limit=many", "before=xyz", "live=perhaps"] {
        http.get(&format!("/v1/subagents?{query}")).refused(ErrorCode::InvalidRequest);
    }
    http.get("/v1/subagents/zzzz").refused(ErrorCode::NotFound);
    http.get("/v1/subagents/zzzz/result").refused(ErrorCode::NotFound);
    http.get("/v1/subagents/zzzz/runs").refused(ErrorCode::NotFound);
    http.get("/v1/subagents/zzzz/transcript").refused(ErrorCode::NotFound);
    http.post("/v1/subagents/zzzz/stop", &json!({})).refused(ErrorCode::NotFound);
    http.post("/v1/subagents/zzzz/wait", &json!(null)).refused(ErrorCode::NotFound);
    let ids: Vec<_> = (0..2).map(|_| spawn(&home, &http, "exec sleep 300")).collect();
    // Ids of the same hour begin alike.
    let problem =
        http.post(&format!("/v1/subagents/{}/stop", &ids[0][..6]), &json!({})).refused(ErrorCode::Ambiguous);
    assert_eq!(problem.ids.len(), 2, "{problem:?}");
    for id in &ids {
        let path = format!("/v1/subagents/{id}");
        assert_eq!(http.get(&path).with(200).get("stop"), None, "nothing was done");
        http.get(&format!("{path}/result")).refused(ErrorCode::StillRunning);
        http.get(&format!("{path}/result?run=2")).refused(ErrorCode::NotFound);
        http.post(&format!("{path}/wait?run=2"), &json!(null)).refused(ErrorCode::NotFound);
        http.post(&format!("{path}/stop"), &json!({"cascade": "yes"})).refused(ErrorCode::InvalidRequest);
    }
    http.post("/v1/shutdown", &json!({"at_once": true})).refused(ErrorCode::InvalidRequest);
    http.post("/v1/inbox/ack", &json!({"ids": "all"})).refused(ErrorCode::InvalidRequest);
    // No HTTP at all.
    let mut stream = UnixStream::connect(http.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"\x16\x03\x01 hello\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    let id = spawn(&home, &http, "echo still works");
    assert_eq!(ended(&http, &id)["status"], "completed");
    assert_eq!(http.get("/v1/subagents?limit=1000").with(200)["items"].as_array().unwrap().len(), 3);
}

#[test]
fn a_body_over_the_limit_is_refused_with_the_limit_and_the_daemon_goes_on() {
    let (home, http) = serving("");
    let limit = 128 * 1024 * 1024;
    let body = vec![b' '; limit + 1];
    let problem = http.send("POST", "/v1/subagents", &[], &body).refused(ErrorCode::PromptTooLarge);
    assert!(problem.message.contains(&limit.to_string()), "{problem:?}");
    drop(body);
    let id = spawn(&home, &http, "echo still works");
    assert_eq!(ended(&http, &id)["status"], "completed");
}

#[test]
fn a_wrong_method_and_a_path_that_is_no_text_are_refused_with_a_problem_too() {
    let (_home, http) = serving("");
    let problem = |reply: subagent_testkit::http::Reply| {
        let problem: Result<subagent_model::Problem, _> = serde_json::from_slice(&reply.body);
        assert!(problem.is_ok_and(|problem| problem.hint.is_some()), "{reply:?}");
    };
    problem(http.send("PUT", "/v1/subagents", &[], b"{}"));
    problem(http.send("DELETE", "/v1/health", &[], b""));
    problem(http.get("/v1/subagents/%FF"));
}

#[test]
fn rec_05_one_key_gives_one_subagent_from_eight_callers_and_over_a_kill() {
    let (home, http) = serving("");
    let http = http.requester("alice");
    let mark = home.path().join("ran");
    let request = shell(&home, &format!("echo ran >> {}; exec sleep 300", mark.display()));
    let body = serde_json::to_vec(&request).unwrap();
    let ask = |http: &Http| http.send("POST", "/v1/subagents", &[("idempotency-key", "the key")], &body);
    let start = Barrier::new(8);
    let replies: Vec<_> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let reply = ask(&http);
                    (reply.status, reply.json())
                })
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect()
    });
    let id = replies[0].1["record"]["id"].as_str().unwrap();
    for (status, reply) in &replies {
        assert_eq!(reply["record"]["id"], id, "{replies:?}");
        assert_eq!(*status, if reply["existing"] == true { 200 } else { 201 }, "{reply}");
    }
    assert_eq!(replies.iter().filter(|(status, _)| *status == 201).count(), 1, "one of them made it");
    let pid = home.until_pid(id);
    home.kill_daemon();
    home.run(&["ls"]).ended(0);
    let again = ask(&http).with(200);
    assert_eq!((&again["record"]["id"], &again["existing"]), (&json!(id), &json!(true)));
    assert!(is_alive(pid));
    // A key is its requester's own.
    let other = ask(&http.requester("bob")).with(201);
    assert_ne!(other["record"]["id"], id);
    home.until_pid(other["record"]["id"].as_str().unwrap());
    until("both to have run", || {
        (std::fs::read_to_string(&mark).unwrap_or_default() == "ran\nran\n").then_some(())
    });
    // A client sees its own, and a person all.
    let listed = |http: &Http| http.get("/v1/subagents").with(200)["items"].as_array().unwrap().len();
    assert_eq!((listed(&http), listed(&home.http())), (1, 2));
}

#[test]
fn result_03_a_long_poll_takes_the_time_it_was_given_and_ends_with_the_run() {
    let (home, http) = serving("");
    let gate = gate(&home, "gate");
    let id = spawn(&home, &http, &format!("read line < {}; echo through", gate.display()));
    home.until_pid(&id);
    let path = format!("/v1/subagents/{id}/wait?timeout_ms=400");
    let begun = Instant::now();
    let reply = http.post(&path, &json!(null)).with(200);
    let took = begun.elapsed();
    assert_eq!((&reply["ended"], &reply["record"]["status"]), (&json!(false), &json!("running")));
    assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(10), "{took:?}");
    let begun = Instant::now();
    let zero = http.post(&format!("/v1/subagents/{id}/wait?timeout_ms=0"), &json!(null)).with(200);
    assert_eq!(zero["ended"], false);
    // One that has much time left ends with the run.
    let waiter = std::thread::spawn({
        let (http, id) = (http.clone(), id.clone());
        move || http.post(&format!("/v1/subagents/{id}/wait?timeout_ms=25000"), &json!(null)).with(200)
    });
    std::fs::write(&gate, "go\n").unwrap();
    let reply = waiter.join().unwrap();
    assert_eq!((&reply["ended"], &reply["record"]["status"]), (&json!(true), &json!("completed")));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// A child that is waited for by callers who all leave before it ends. Gives whose result nobody has read.
fn left_alone(home: &Home, http: &Http, leave: impl FnOnce(&str)) -> String {
    let gate = gate(home, "gate");
    // The requester of the command line.
    let owner = http.requester(&Home::caller().requester.to_string());
    let id = spawn(home, &owner, &format!("read line < {}; echo through", gate.display()));
    let pid = home.until_pid(&id);
    leave(&id);
    assert!(is_alive(pid));
    std::fs::write(&gate, "go\n").unwrap();
    let bob = http.requester("user:bob");
    assert_eq!(ended(&bob, &id)["status"], "completed");
    // Behind every receipt that a wait may have sent.
    bob.post("/v1/inbox/ack", &json!({"ids": [id]})).with(200);
    assert_eq!(inbox(&owner), [id.as_str()], "nobody has read it");
    assert_eq!(owner.get(&format!("/v1/subagents/{id}/result")).with(200)["text"], "through");
    until("the receipt", || inbox(&owner).is_empty().then_some(()));
    id
}

#[test]
fn result_02_a_command_that_waits_and_is_killed_takes_neither_child_nor_notice_along() {
    let (home, http) = serving("");
    left_alone(&home, &http, |id| {
        let mut wait = home.command(&["wait", id]).spawn().unwrap();
        // It is known to wait once it is connected, or will be killed before; both must do no harm.
        http.get("/v1/health").with(200);
        wait.kill().unwrap();
        wait.wait().unwrap();
    });
}

#[test]
fn result_02_a_caller_that_leaves_takes_neither_the_child_nor_the_notice_along() {
    let (home, http) = serving("");
    left_alone(&home, &http, |id| {
        let owner = http.requester(&Home::caller().requester.to_string());
        let path = format!("/v1/subagents/{id}/wait?timeout_ms=30000");
        drop((0..8).map(|_| owner.open("POST", &path, &[], b"")).collect::<Vec<_>>());
        http.get("/v1/health").with(200);
    });
}

#[test]
fn queue_01_a_full_queue_refuses_with_its_numbers_and_each_that_waits_knows_its_place() {
    let (home, http) = serving("[limits]\nrunning = 1\nqueue = 2\n");
    let first = spawn(&home, &http, "exec sleep 300");
    home.until_pid(&first);
    let queued: Vec<_> = (0..2).map(|_| spawn(&home, &http, "exec sleep 300")).collect();
    let place = |id: &str| http.get(&format!("/v1/subagents/{id}")).with(200).get("queue_position").cloned();
    assert_eq!(place(&first), None);
    assert_eq!((place(&queued[0]), place(&queued[1])), (Some(json!(0)), Some(json!(1))));
    let problem = http.post("/v1/subagents", &shell(&home, "true")).refused(ErrorCode::QueueFull);
    assert_eq!((problem.limit, problem.used), (Some(2), Some(2)), "{problem:?}");
    let listed = http.get("/v1/subagents").with(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3, "a refused spawn leaves nothing");
    let health = http.get("/v1/health").with(200);
    assert_eq!((&health["running"], &health["queued"]), (&json!(1), &json!(2)), "{health:#}");
    // A place becomes free, and the one behind moves up.
    http.post(&format!("/v1/subagents/{}/stop", queued[0]), &json!({})).with(200);
    assert_eq!(place(&queued[1]), Some(json!(0)));
    let third = spawn(&home, &http, "exec sleep 300");
    assert_eq!(place(&third), Some(json!(1)));
    http.post(&format!("/v1/subagents/{first}/stop"), &json!({})).with(200);
    home.until_status(&queued[1], "running");
    assert_eq!((place(&queued[1]), place(&third)), (None, Some(json!(0))));
}
