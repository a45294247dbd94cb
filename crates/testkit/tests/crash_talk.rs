//! The daemon is killed in the middle of a conversation, at each of its moments. The next one goes on with the same
//! process: what was told is told once, receipts are true, requests can be answered, each run ends once (RES-12, RES-18).
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, until};

const CONFIG: &str = "[daemon]\nterm_grace_ms = 300\n";

/// A process that stands still until this is dropped, however the test ends.
struct Suspended(i32);

impl Suspended {
    fn new(pid: i32) -> Self {
        kill(pid, Signal::STOP);
        let suspended = Self(pid);
        until("the process to stand still", || (stat(pid)?.0 == "T").then_some(()));
        suspended
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        kill(self.0, Signal::CONT);
    }
}

/// State and parent of a process.
fn stat(pid: i32) -> Option<(String, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// A talker whose daemon is about to be killed.
struct Talk {
    home: Home,
    id: String,
    pid: i32,
}

impl Talk {
    /// One that came to `touch working`.
    #[track_caller]
    fn working(flags: &[&str], script: &str) -> Self {
        let home = Home::with_config(CONFIG);
        let id = home.talks(flags, script);
        home.reached("working");
        let pid = home.until_pid(&id);
        Self { home, id, pid }
    }

    fn shim(&self) -> i32 {
        stat(self.pid).unwrap().1
    }

    #[track_caller]
    fn has(&self, event: &str) {
        until(&format!("the event {event}"), || {
            self.home.story(&self.id).iter().any(|name| name == event).then_some(())
        });
    }

    /// The next daemon has the same process in the same attempt.
    #[track_caller]
    fn adopted(&self) {
        self.home.next_daemon();
        assert!(is_alive(self.pid), "a child outlives its daemon");
        assert_eq!(self.home.until_pid(&self.id), self.pid);
        assert_eq!(self.home.show(&self.id)["attempt"], 1);
    }

    /// Waits for the end of its current run and gives its result.
    #[track_caller]
    fn result(&self) -> String {
        self.home.run(&["wait", &self.id]).ended(0);
        self.home.run(&["result", &self.id]).ended(0).out
    }

    /// The transcript has what the child was told, each once, whoever of the daemons wrote it down.
    #[track_caller]
    fn transcript_is_whole(&self, heard: &[String]) {
        let lines = self.home.run(&["logs", "--json", &self.id]).ended(0).out;
        let entries: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(entries[0]["type"], "begin");
        let places: Vec<_> = entries.iter().map(|entry| entry["log"].to_string()).collect();
        let mut once = places.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), places.len(), "nothing stands there twice: {lines}");
        // A message that opens a turn is a prompt of it; what it was is not in the log.
        let is_told = |kind: &str| matches!(kind, "prompt" | "steer");
        let told = entries.iter().filter(|entry| is_told(entry["type"].as_str().unwrap()));
        let heard = heard.iter().filter(|line| is_told(line.split(' ').next().unwrap()));
        assert_eq!(told.count(), heard.count(), "{lines}");
    }

    /// It ended in so many runs, each once, and in its only process; what it was told was this, each once.
    #[track_caller]
    fn ended(&self, runs: usize, told: &[&str]) {
        let record = self.home.show(&self.id);
        assert_eq!((&record["attempt"], &record["run"]), (&1.into(), &runs.into()), "{record:#}");
        let story = self.home.story(&self.id);
        assert_eq!(story.iter().filter(|name| *name == "ended").count(), runs, "{story:?}");
        assert_eq!(story.iter().filter(|name| *name == "started").count(), 1, "{story:?}");
        // The first prompt is its script.
        let heard = self.home.told_to(&self.id);
        assert!(heard[0].starts_with("prompt "), "{heard:?}");
        assert_eq!(heard[1..], *told, "{story:?}");
        assert_eq!(self.home.told().len(), 1, "one session");
        self.transcript_is_whole(&heard);
        until("the process to be gone", || (!is_alive(self.pid)).then_some(()));
        assert!(self.home.survivors(std::slice::from_ref(&self.id)).is_empty());
    }
}

#[test]
fn res_12_in_the_middle_of_a_turn() {
    let talk = Talk::working(
        &[],
        "turn\nuse 5 5\nsay before\ntouch working\nfile go\nturn\nuse 1 1\nsay after $pid\nlast turn",
    );
    talk.adopted();
    // A message is taken as before.
    let sent = talk.home.run(&["steer", "--wait", "20s", &talk.id, "a word"]).ended(0).out;
    assert_eq!(sent, "delivered to run 1\n");
    talk.home.next_daemon();
    talk.home.open("go");
    assert_eq!(talk.result(), format!("after {}\n", talk.pid));
    talk.ended(1, &["steer a word"]);
    let record = talk.home.show(&talk.id);
    assert_eq!(
        (&record["turn_count"], &record["usage"]["total"]),
        (&3.into(), &12.into()),
        "each counted once: {record:#}"
    );
    assert_eq!(record["status"], "completed");
}

#[test]
fn res_12_what_it_said_while_no_daemon_was_there_counts() {
    let talk = Talk::working(
        &[],
        "touch working\nfile go\nturn\nuse 2 3\ntool bash\ntouch said\nfile end\nsay done",
    );
    talk.home.kill_daemon();
    talk.home.open("go");
    talk.home.reached("said");
    talk.home.run(&["ls"]).ended(0);
    talk.home.open("end");
    assert_eq!(talk.result(), "done\n");
    talk.ended(1, &[]);
    let record = talk.home.show(&talk.id);
    assert_eq!(
        (&record["turn_count"], &record["tool_uses"], &record["usage"]["total"]),
        (&1.into(), &1.into(), &5.into())
    );
}

#[test]
fn steer_13_a_message_that_was_accepted_and_not_begun() {
    let home = Home::with_config(CONFIG);
    let flags = ["--background", "--json"];
    // It takes no prompt and no message before it is opened.
    let own = ["--before-open", "touch working;file open"];
    let record = home.talk_to(&flags, "await steer\nsay $steer", &own).ended(0).json();
    let id = record["id"].as_str().unwrap().to_owned();
    home.reached("working");
    let talk = Talk { pid: home.until_pid(&id), home, id };
    let sent = talk.home.run(&["steer", &talk.id, "early"]).ended(0).out;
    assert!(sent.starts_with("accepted"), "{sent}");
    assert!(!talk.home.story(&talk.id).iter().any(|name| name == "message_begun"));
    talk.adopted();
    assert_eq!(talk.home.receipts(&talk.id), ["accepted"]);
    talk.home.open("open");
    assert_eq!(talk.result(), "early\n");
    talk.ended(1, &["steer early"]);
    assert_eq!(talk.home.receipts(&talk.id), ["delivered"]);
}

#[test]
fn steer_13_a_message_that_was_begun_and_may_not_have_been_written() {
    let talk = Talk::working(&[], "touch working\nfile go\nsay done");
    {
        let _still = Suspended::new(talk.shim());
        talk.home.run(&["steer", &talk.id, "half way"]).ended(0);
        talk.has("message_begun");
        talk.home.kill_daemon();
    }
    talk.home.run(&["ls"]).ended(0);
    until("its last word", || (talk.home.receipts(&talk.id) != ["accepted"]).then_some(()));
    let receipts = talk.home.receipts(&talk.id);
    talk.home.open("go");
    assert_eq!(talk.result(), "done\n");
    // Whatever it was, the receipt says what the child has.
    if receipts == ["delivered"] {
        talk.ended(1, &["steer half way"]);
    } else {
        assert_eq!(receipts, ["returned"]);
        talk.ended(1, &[]);
    }
    assert_eq!(talk.home.receipts(&talk.id), receipts, "a last word is the last");
}

#[test]
fn steer_13_a_message_that_was_written_and_not_taken() {
    let talk = Talk::working(&[], "touch working\nfile go\nsay done");
    {
        let _still = Suspended::new(talk.pid);
        talk.home.run(&["steer", &talk.id, "on its way"]).ended(0);
        talk.has("message_begun");
        talk.home.next_daemon();
        assert_eq!(talk.home.receipts(&talk.id), ["accepted"], "nobody knows yet");
        // Once more: it is not written again by each daemon.
        talk.home.next_daemon();
    }
    until("its last word", || (talk.home.receipts(&talk.id) == ["delivered"]).then_some(()));
    talk.home.open("go");
    assert_eq!(talk.result(), "done\n");
    talk.ended(1, &["steer on its way"]);
}

#[test]
fn res_18_a_prompt_that_was_written_and_not_taken() {
    let talk = Talk::working(&["--warm"], "touch working\nsay one");
    talk.home.until_status(&talk.id, "idle");
    {
        let _still = Suspended::new(talk.pid);
        talk.home.run(&["resume", "--background", &talk.id, "say two $pid"]).ended(0);
        until("the prompt", || {
            let prompts = talk.home.story(&talk.id).into_iter().filter(|name| name == "prompted").count();
            (prompts == 2).then_some(())
        });
        talk.adopted();
        talk.home.next_daemon();
    }
    talk.home.until_status(&talk.id, "idle");
    assert_eq!(talk.home.run(&["result", &talk.id]).ended(0).out, format!("two {}\n", talk.pid));
    talk.home.run(&["stop", "--wait", &talk.id]).ended(0);
    talk.ended(2, &["prompt say two $pid"]);
}

#[test]
fn res_12_an_interrupt_that_was_carried_out_before_does_not_hold_up_the_next_one() {
    let talk = Talk::working(&[], "touch working\nfile never");
    let again = ["steer", "--wait", "20s", "--interrupt", &talk.id, "touch again\nfile never"];
    assert_eq!(talk.home.run(&again).ended(0).out, "delivered to run 1\n");
    talk.home.reached("again");
    talk.adopted();
    let last =
        talk.home.run(&["steer", "--wait", "20s", "--interrupt", &talk.id, "say at last"]).ended(0).out;
    assert_eq!(last, "delivered to run 1\n");
    assert_eq!(talk.result(), "at last\n");
    talk.ended(1, &["prompt touch again\nfile never", "prompt say at last"]);
}

#[test]
fn perm_03_a_request_that_is_open_can_be_answered_at_the_next_daemon() {
    let talk = Talk::working(&[], "touch working\nask execute make\nsay $answer");
    talk.home.until_status(&talk.id, "waiting");
    let name =
        talk.home.run(&["requests", "--json"]).ended(0).json()["items"][0]["id"].as_str().unwrap().to_owned();
    talk.adopted();
    let record = talk.home.show(&talk.id);
    assert_eq!(
        (&record["status"], &record["waiting_on"]["for"]),
        (&"waiting".into(), &"approval".into()),
        "{record:#}"
    );
    assert_eq!(talk.home.run(&["requests", "--json"]).ended(0).json()["items"].as_array().unwrap().len(), 1);
    talk.home.run(&["approve", &name]).ended(0);
    assert_eq!(talk.result(), "allow_once\n");
    talk.ended(1, &[]);
    let story = talk.home.story(&talk.id);
    assert_eq!(story.iter().filter(|name| *name == "request_opened").count(), 1, "{story:?}");
}

#[test]
fn perm_03_an_answer_that_the_child_was_not_told_is_told() {
    let talk = Talk::working(
        &[],
        "touch working\nask execute make\nsay first $answer\nask execute make\nsay second $answer",
    );
    talk.home.until_status(&talk.id, "waiting");
    {
        let _still = Suspended::new(talk.shim());
        talk.home.run(&["deny", &talk.id]).ended(0);
        assert!(talk.home.story(&talk.id).iter().any(|name| name == "request_answered"));
        talk.home.kill_daemon();
    }
    talk.home.run(&["ls"]).ended(0);
    // Told once, and not as the answer to what it asks next.
    until("the second request", || {
        let open = talk.home.run(&["requests", "--json"]).ended(0).json()["items"].clone();
        (open[0]["number"] == 2).then_some(())
    });
    talk.home.run(&["approve", &talk.id]).ended(0);
    assert_eq!(talk.result(), "second allow_once\n");
    talk.ended(1, &[]);
}

#[test]
fn res_18_a_turn_that_is_over_and_was_not_committed() {
    let talk = Talk::working(&[], "touch working\nfile go\nsay the end\ndone\ntouch over\nfile never");
    {
        let daemon = talk.home.daemon_pid().unwrap();
        let _still = Suspended::new(daemon);
        talk.home.open("go");
        talk.home.reached("over");
        kill(daemon, Signal::KILL);
        until("the daemon to be gone", || (!is_alive(daemon)).then_some(()));
    }
    assert_eq!(talk.result(), "the end\n");
    talk.ended(1, &[]);
    assert_eq!(talk.home.show(&talk.id)["status"], "completed");
}

#[test]
fn res_12_an_idle_one_stays_idle_and_takes_its_next_prompt() {
    let talk = Talk::working(&["--warm"], "touch working\nsay one");
    let before = talk.home.until_status(&talk.id, "idle");
    talk.adopted();
    let record = talk.home.show(&talk.id);
    assert_eq!(record["status"], "idle", "{record:#}");
    assert_eq!(record["retire_at"], before["retire_at"]);
    let next = talk.home.run(&["resume", &talk.id, "say two $pid"]).ended(0).out;
    assert_eq!(next, format!("two {}\n", talk.pid));
    talk.home.next_daemon();
    talk.home.run(&["stop", "--wait", &talk.id]).ended(0);
    talk.ended(2, &["prompt say two $pid"]);
    for run in ["1", "2"] {
        talk.home.run(&["result", "--run", run, &talk.id]).ended(0);
    }
}

#[test]
fn steer_13_follow_ups_that_wait_open_their_runs_once() {
    let talk = Talk::working(&["--warm"], "touch working\nfile go\nsay one");
    talk.home.run(&["steer", "--follow-up", &talk.id, "touch second\nfile go.on\nsay two"]).ended(0);
    talk.home.run(&["steer", "--follow-up", &talk.id, "say three"]).ended(0);
    talk.adopted();
    assert_eq!(talk.home.receipts(&talk.id), ["accepted", "accepted"]);
    talk.home.open("go");
    talk.home.reached("second");
    talk.home.next_daemon();
    talk.home.open("go.on");
    until("the third run", || {
        let record = talk.home.show(&talk.id);
        (record["run"] == 3 && record["status"] == "idle").then_some(())
    });
    talk.home.run(&["stop", "--wait", &talk.id]).ended(0);
    assert_eq!(talk.home.receipts(&talk.id), ["delivered", "delivered"]);
    talk.ended(3, &["prompt touch second\nfile go.on\nsay two", "prompt say three"]);
}

/// A turn that fails since the quota is used up, until then.
fn used_up(reset: &str) -> String {
    let failed =
        format!(r#"{{"type":"failed","code":"quota_exhausted","message":"used up","reset_at":"{reset}"}}"#);
    format!("on-continue say went on\nattempt 1 break {failed}\nattempt 1 file never")
}

fn in_time(text: &str) -> String {
    let date = Command::new("date").args(["-u", "-d", text, "+%FT%TZ"]).output().unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}

#[test]
fn res_18_a_parked_one_goes_on_by_itself_in_the_same_session() {
    let home = Home::with_config("[limits]\nrunning = 8\n");
    // Not all go on at once when a quota is renewed: of several, the first is soon.
    let script = used_up(&in_time("+2 sec"));
    let parked: Vec<_> = (0..8).map(|_| home.talks(&[], &script)).collect();
    let until_parked = |id: &String| {
        let record = home.until_status(id, "waiting");
        assert_eq!(record["waiting_on"]["for"], "quota", "{record:#}");
        record["waiting_on"]["until"].as_str().unwrap().to_owned()
    };
    let id = parked.iter().min_by_key(|id| until_parked(id)).unwrap();
    home.next_daemon();
    home.run(&["wait", "--timeout", "25s", id]).ended(0);
    assert_eq!(home.run(&["result", id]).ended(0).out, "went on\n");
    let record = home.show(id);
    assert_eq!((&record["run"], &record["attempt"]), (&1.into(), &2.into()), "{record:#}");
    let told = home.told_to(id);
    assert_eq!(
        told.iter().filter(|told| told.contains("quota_exhausted")).count(),
        1,
        "its task, once: {told:?}"
    );
    assert_eq!(home.told().len(), 8, "the same session");
    let story = home.story(id);
    assert_eq!(story.iter().filter(|name| *name == "ended").count(), 1, "{story:?}");
    home.run(&["stop", "--all", "--wait"]).ended(0);
}

#[test]
fn stop_23_a_parked_one_that_was_stopped_does_not_come_back() {
    let home = Home::with_config(CONFIG);
    let id = home.talks(&[], &used_up(&in_time("+1 hour")));
    let parked = home.until_status(&id, "waiting");
    home.next_daemon();
    let record = home.show(&id);
    assert_eq!((&record["status"], &record["waiting_on"]), (&parked["status"], &parked["waiting_on"]));
    home.run(&["stop", "--wait", &id]).ended(0);
    home.next_daemon();
    assert_eq!(home.show(&id)["status"], "stopped");
    assert_eq!(home.told_to(&id).len(), 1);
}

#[test]
fn stop_23_a_stop_that_was_accepted_is_carried_out_and_the_child_has_no_further_turn() {
    let home = Home::with_config("[daemon]\nterm_grace_ms = 60000\n");
    let id = home.talks(&[], "ignore-term\ndeaf\ntouch working\nfile go\nturn\ntouch turned\nfile never");
    home.reached("working");
    let talk = Talk { pid: home.until_pid(&id), home, id };
    talk.home.run(&["steer", "--follow-up", &talk.id, "say no more"]).ended(0);
    talk.home.run(&["stop", "--drop-follow-ups", &talk.id]).ended(0);
    talk.home.kill_daemon();
    std::fs::write(talk.home.path().join("config.toml"), "[daemon]\nterm_grace_ms = 200\n").unwrap();
    let record = talk.home.until_status(&talk.id, "stopped");
    assert!(!is_alive(talk.pid), "{record:#}");
    talk.ended(1, &[]);
    assert!(!talk.home.path().join("turned").exists());
    let message: Value = talk.home.messages(&talk.id)[0].clone();
    assert_eq!(
        (&message["receipt"], &message["reason"]),
        (&"returned".into(), &"stopped".into()),
        "{message:#}"
    );
    assert_eq!(talk.home.run(&["wait", &talk.id]).code, 1);
}
