//! RES-18: the daemon is killed at random moments while eight talkers are spoken with at random. Afterwards the events and
//! the sessions of the children must agree: nothing that was acknowledged is lost, and nothing happened twice.
//!
//! `SUBAGENT_TEST_LONG=1` kills it 200 times; `SUBAGENT_TEST_SEED` repeats a failure as far as time allows.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use subagent_client::Client;
use subagent_model::request::{ResumeRequest, SpawnRequest, SteerMode, SteerRequest, StopRequest};
use subagent_model::{ErrorCode, ExecSpec, Mode, Problem, PromptVia, ResultFrom, SubagentId, Talk};
use subagent_runtime::Runtime;
use subagent_testkit::home::{is_alive, kill};
use subagent_testkit::{Home, until};

const CONFIG: &str = "[limits]\nrunning = 6\nidle = 1000\n[daemon]\nterm_grace_ms = 200\n";
const TALKERS: usize = 8;

/// A generator of a fixed sequence (xorshift, Marsaglia 2003).
#[derive(Clone)]
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// What was acknowledged to one caller.
#[derive(Default)]
struct Acknowledged {
    spawned: Vec<SubagentId>,
    /// By subagent: the texts of messages and of resumes.
    sent: Vec<(SubagentId, String)>,
    resumed: Vec<(SubagentId, u64)>,
    stopped: Vec<(SubagentId, u64)>,
}

/// One that speaks with one talker at a time.
struct Speaker {
    number: usize,
    client: Client,
    sequence: Sequence,
    spec: ExecSpec,
    cwd: String,
    current: Option<SubagentId>,
    texts: u64,
    acknowledged: Acknowledged,
}

impl Speaker {
    /// A text that nobody else says, now or later.
    fn text(&mut self) -> String {
        self.texts += 1;
        format!("text-{}-{}-", self.number, self.texts)
    }

    fn prompt(&mut self) -> String {
        let (before, after) = (self.sequence.next(60), self.sequence.next(60));
        format!("sleep {before}\nsay {}\nturn\nsleep {after}", self.text())
    }

    /// Speaks until the daemon is gone.
    async fn speak(&mut self) {
        while self.say_something().await {
            tokio::time::sleep(Duration::from_micros(self.sequence.next(15_000))).await;
        }
    }

    /// False once the daemon did not answer; whether it heard the last thing is not known then.
    async fn say_something(&mut self) -> bool {
        let Some(id) = self.current else { return self.spawn().await };
        let said = match self.sequence.next(16) {
            0 => {
                self.current = None;
                return self.stop(id).await;
            }
            1..3 => {
                self.current = None;
                return true;
            }
            3..9 => SteerMode::Steer,
            9..11 => SteerMode::Interrupt,
            11..14 => SteerMode::FollowUp,
            _ => return self.resume(id).await,
        };
        let message = if said == SteerMode::Steer { self.text() } else { self.prompt() };
        let request = SteerRequest { message: message.clone(), mode: said, ..SteerRequest::default() };
        let reply = self.client.steer(&Home::caller(), id, request).await;
        heard(reply, |_| self.acknowledged.sent.push((id, message)))
    }

    async fn spawn(&mut self) -> bool {
        let mode = if self.sequence.next(2) == 0 { Mode::Warm } else { Mode::Async };
        let request = SpawnRequest {
            prompt: self.prompt(),
            provider: String::from("exec"),
            exec: Some(self.spec.clone()),
            mode,
            cwd: Some(self.cwd.clone().into()),
            env: BTreeMap::from([(String::from("PATH"), String::from("/usr/bin:/bin"))]),
            durable: true,
            ..SpawnRequest::default()
        };
        let reply = self.client.spawn(&Home::caller(), request).await;
        heard(reply, |reply| {
            self.current = Some(reply.record.id);
            self.acknowledged.spawned.push(reply.record.id);
        })
    }

    async fn resume(&mut self, id: SubagentId) -> bool {
        let prompt = self.prompt();
        let request = ResumeRequest { prompt: prompt.clone(), ..ResumeRequest::default() };
        let reply = self.client.resume(&Home::caller(), id, request).await;
        heard(reply, |reply| {
            let run = reply.run.expect("it was not to wait").0;
            self.acknowledged.resumed.push((id, run.into()));
        })
    }

    async fn stop(&mut self, id: SubagentId) -> bool {
        let reply = self.client.stop(&Home::caller(), id, StopRequest::default()).await;
        heard(reply, |reply| {
            let record = reply.record;
            if reply.accepted && record.stop.is_some() {
                self.acknowledged.stopped.push((id, record.run.0.into()));
            }
        })
    }
}

/// What a status may refuse; anything else is a fault.
const REFUSALS: [ErrorCode; 5] = [
    ErrorCode::NoOpenTurn,
    ErrorCode::StillRunning,
    ErrorCode::NotResumable,
    ErrorCode::MailboxFull,
    ErrorCode::IllegalTransition,
];

/// True when the daemon answered.
#[track_caller]
fn heard<T>(reply: Result<T, Problem>, accepted: impl FnOnce(T)) -> bool {
    match reply {
        Ok(reply) => accepted(reply),
        Err(problem) if problem.code == ErrorCode::DaemonUnreachable => return false,
        Err(problem) => assert!(REFUSALS.contains(&problem.code), "{problem:?}"),
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn res_18_kills_at_random_moments_of_many_conversations_lose_and_double_nothing() {
    let long = std::env::var_os("SUBAGENT_TEST_LONG").is_some();
    let rounds = if long { 200 } else { 25 };
    let seed =
        std::env::var("SUBAGENT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0xba5e_u64);
    println!("seed {seed}");
    let home = Home::with_config(CONFIG);
    home.run(&["ls"]).ended(0);
    let mut sequence = Sequence(seed);
    let mut speakers: Vec<_> = (0..TALKERS).map(|number| speaker(&home, number, &mut sequence)).collect();
    for _ in 0..rounds {
        let daemon = home.daemon_pid().expect("a daemon serves");
        let life = Duration::from_micros(10_000 + sequence.next(120_000));
        let dies = async {
            tokio::time::sleep(life).await;
            kill(daemon, rustix::process::Signal::KILL);
        };
        ((), speakers) = tokio::join!(dies, speak_all(speakers));
        until("the daemon to be gone", || (!is_alive(daemon)).then_some(()));
        home.run(&["ls"]).ended(0);
    }
    settle(&home);
    let acknowledged: Vec<_> = speakers.into_iter().map(|speaker| speaker.acknowledged).collect();
    let spawned: usize = acknowledged.iter().map(|one| one.spawned.len()).sum();
    let sent: usize = acknowledged.iter().map(|one| one.sent.len()).sum();
    assert!(spawned > 20 && sent > 40, "they must have spoken: {spawned} spawned, {sent} messages");
    check(&home, &acknowledged);
}

fn speaker(home: &Home, number: usize, sequence: &mut Sequence) -> Speaker {
    let talker = home.talker();
    Speaker {
        number,
        client: home.client(),
        sequence: Sequence(sequence.next(u64::MAX) | 1),
        spec: ExecSpec {
            program: talker[0].clone(),
            args: talker[1..].to_vec(),
            prompt_via: PromptVia::Stdin,
            result: ResultFrom::WholeOutput,
            talk: Talk::Lines,
        },
        cwd: home.path().to_str().unwrap().to_owned(),
        current: None,
        texts: 0,
        acknowledged: Acknowledged::default(),
    }
}

/// All of them side by side, until each has lost the daemon.
async fn speak_all(speakers: Vec<Speaker>) -> Vec<Speaker> {
    let speak = |mut speaker: Speaker| async move {
        speaker.speak().await;
        speaker
    };
    let speaking: Vec<_> = speakers.into_iter().map(|speaker| tokio::spawn(speak(speaker))).collect();
    let mut spoken = Vec::new();
    for speaker in speaking {
        spoken.push(speaker.await.unwrap());
    }
    spoken
}

/// Every open run moves on to its end by itself; then what is idle is stopped.
fn settle(home: &Home) {
    let begun = std::time::Instant::now();
    loop {
        let page = home.run(&["ls", "--json"]).ended(0).json();
        let ended = ["completed", "stopped", "error", "lost"];
        let rests = |record: &Value| match record["status"].as_str().unwrap() {
            "idle" => record.get("pending_messages").is_none(),
            status => ended.contains(&status),
        };
        let items = page["items"].as_array().unwrap();
        let moving: Vec<_> = items.iter().filter(|record| !rests(record)).collect();
        if moving.is_empty() {
            break;
        }
        if begun.elapsed() > Duration::from_secs(20) {
            let id = moving[0]["id"].as_str().unwrap();
            let story = home.run(&["events", "--json", "--id", id]).out;
            panic!("{} do not move on, as {:#}: {story}", moving.len(), moving[0]);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    home.run(&["stop", "--all", "--wait"]).ended(0);
}

/// What the events say of one subagent.
#[derive(Default)]
struct Story {
    opened: BTreeSet<u64>,
    ends: BTreeMap<u64, Vec<String>>,
    stops: BTreeSet<u64>,
    posted: BTreeMap<u64, String>,
    last_words: BTreeMap<u64, Vec<String>>,
    first_prompt: String,
    prompts: Vec<(u64, String)>,
    processes: BTreeMap<u64, BTreeSet<String>>,
    attempts_ended: usize,
}

fn stories(home: &Home) -> BTreeMap<String, Story> {
    let mut stories = BTreeMap::<String, Story>::new();
    for event in home.all_events() {
        let story = stories.entry(event["subagent"].as_str().unwrap().to_owned()).or_default();
        let run = event["run"].as_u64().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let number = || event["number"].as_u64().unwrap();
        match event["event"].as_str().unwrap() {
            "accepted" => {
                story.opened.insert(run);
                story.first_prompt = text(&event["spec"]["prompt"]["preview"]);
            }
            "resumed" => {
                assert!(story.opened.insert(run), "a run was opened twice: {event:#}");
                story.prompts.push((run, text(&event["prompt"]["preview"])));
                // A follow-up has its last word with the run that it opens.
                if let Some(number) = event["message"].as_u64() {
                    story.last_words.entry(number).or_default().push(String::from("opened"));
                }
            }
            "ended" => story.ends.entry(run).or_default().push(text(&event["outcome"]["status"])),
            "stop_accepted" => drop(story.stops.insert(run)),
            "message_posted" => {
                let message = &event["message"];
                story.posted.insert(message["number"].as_u64().unwrap(), text(&message["text"]));
            }
            "message_delivered" => {
                story.last_words.entry(number()).or_default().push(String::from("delivered"));
            }
            "message_returned" => {
                story.last_words.entry(number()).or_default().push(text(&event["reason"]));
            }
            "started" => {
                let attempt = event["attempt"].as_u64().unwrap();
                story.processes.entry(attempt).or_default().insert(event["process"].to_string());
            }
            "attempt_ended" => story.attempts_ended += 1,
            _ => {}
        }
    }
    stories
}

fn check(home: &Home, acknowledged: &[Acknowledged]) {
    let stories = stories(home);
    let told: Vec<String> =
        home.told().into_values().flatten().map(|told| told["text"].as_str().unwrap().to_owned()).collect();
    let count = |text: &str| told.iter().filter(|told| *told == text).count();
    let mut delivered = 0;
    for (id, story) in &stories {
        let all = || home.run(&["events", "--json", "--id", id]).out;
        // Each run ended once, and as it had to.
        assert_eq!(story.ends.keys().copied().collect::<BTreeSet<_>>(), story.opened, "{id}: {}", all());
        for (run, ends) in &story.ends {
            let expected = if story.stops.contains(run) { "stopped" } else { "completed" };
            assert_eq!(*ends, [expected], "{id} run {run}: {}", all());
        }
        // No attempt was lost, and none had two processes.
        assert_eq!(story.attempts_ended, 0, "{id}: {}", all());
        assert!(story.processes.values().all(|processes| processes.len() == 1), "{id}: {}", all());
        // Each prompt was given once.
        let prompts = std::iter::once((1, story.first_prompt.clone())).chain(story.prompts.iter().cloned());
        for (run, prompt) in prompts {
            let many = count(&prompt);
            let may_be_missing = story.stops.contains(&run);
            assert!(
                many == 1 || (many == 0 && may_be_missing),
                "{id} run {run}: {many} times {prompt:?}: {}",
                all()
            );
        }
        // Each message has one last word, and it is true.
        for (number, text) in &story.posted {
            let many = count(text);
            match story
                .last_words
                .get(number)
                .map(|words| words.iter().map(String::as_str).collect::<Vec<_>>())
                .as_deref()
            {
                Some(["delivered"]) => {
                    delivered += 1;
                    assert_eq!(many, 1, "{id}: {text:?} is delivered: {}", all());
                }
                // What was to open a run that was stopped, and what nobody knows.
                Some(["opened" | "unknown"]) => {
                    assert!(many <= 1, "{id}: {many} times {text:?}: {}", all());
                }
                Some([reason]) => assert_eq!(many, 0, "{id}: {text:?} came back, {reason}: {}", all()),
                other => panic!("{id}: message {number} {text:?}: {other:?}: {}", all()),
            }
        }
    }
    assert!(delivered > 10, "only {delivered} messages were delivered");
    // What was acknowledged is there.
    for one in acknowledged {
        for id in &one.spawned {
            assert!(stories.contains_key(&id.to_string()), "{id} was lost");
        }
        for (id, text) in &one.sent {
            assert!(
                stories[&id.to_string()].posted.values().any(|posted| posted == text),
                "{id}: {text} was lost"
            );
        }
        for (id, run) in &one.resumed {
            assert!(stories[&id.to_string()].opened.contains(run), "{id}: run {run} was lost");
        }
        for (id, run) in &one.stopped {
            assert!(stories[&id.to_string()].stops.contains(run), "{id}: the stop of run {run} was lost");
        }
    }
    let ids: Vec<_> = stories.into_keys().collect();
    until("all processes to be gone", || home.survivors(&ids).is_empty().then_some(()));
}
