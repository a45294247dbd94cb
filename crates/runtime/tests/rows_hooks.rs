//! Rows of hooks inside the process: observers only see, gates decide. Each test is named by its row.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use subagent_model::request::{
    ListFilter, ResumeRequest, SpawnRequest, SteerMode, SteerRequest, StopRequest,
};
use subagent_model::{Budget, ErrorCode, Event, Mark, Mode, Requester, Status};
use subagent_runtime::hooks::{
    EndAsk, EndDecision, EndInfo, Gate, Hooks, Observer, OnFailure, SpawnAsk, SpawnDecision, StartInfo,
};
use subagent_runtime::{Caller, Limits, Runtime, Shutdown};
use subagent_testkit::{until, until_async};
use support::{World, me, scripted, shell, waiting, world_with};

/// What an observer does beside writing down.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Good,
    Panics,
    Hangs,
}

struct Recorder {
    manner: Manner,
    owner: Option<Requester>,
    told: Mutex<Vec<String>>,
    ends: Mutex<Vec<EndInfo>>,
}

impl Recorder {
    fn new(manner: Manner) -> Arc<Self> {
        Self::of(manner, None)
    }

    fn of(manner: Manner, owner: Option<Requester>) -> Arc<Self> {
        Arc::new(Self { manner, owner, told: Mutex::default(), ends: Mutex::default() })
    }

    async fn note(&self, what: String) {
        self.told.lock().unwrap().push(what);
        match self.manner {
            Manner::Good => {}
            Manner::Panics => panic!("on purpose"),
            Manner::Hangs => std::future::pending().await,
        }
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    fn until_told(&self, count: usize) -> Vec<String> {
        until("notices", || Some(self.told()).filter(|told| told.len() >= count))
    }
}

#[async_trait]
impl Observer for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }
    fn deadline(&self) -> Duration {
        Duration::from_millis(10)
    }
    fn owner(&self) -> Option<Requester> {
        self.owner.clone()
    }
    fn events(&self) -> bool {
        false
    }
    async fn on_start(&self, start: &StartInfo) {
        let word = if start.started { "start" } else { "never" };
        self.note(format!("{word} {}.{}", start.facts.handle, start.facts.run)).await;
    }
    async fn on_event(&self, event: &Event) {
        self.note(format!("{}", event.seq)).await;
    }
    async fn on_end(&self, end: &EndInfo) {
        self.ends.lock().unwrap().push(end.clone());
        self.note(format!("end {}.{}", end.facts.handle, end.facts.run)).await;
    }
}

async fn observed(observers: &[&Arc<Recorder>]) -> World {
    let hooks = observers.iter().fold(Hooks::default(), |hooks, observer| {
        hooks.with_observer(Arc::clone(observer) as Arc<dyn Observer>)
    });
    world_with(Limits { running: 1, ..Limits::default() }, |config| config.hooks = hooks).await
}

/// SM-09, HOOK-01 and HOOK-03.
#[tokio::test(flavor = "multi_thread")]
async fn hook_03_every_run_has_one_start_and_one_end_whatever_other_observers_do() {
    let (good, panics, hangs) =
        (Recorder::new(Manner::Good), Recorder::new(Manner::Panics), Recorder::new(Manner::Hangs));
    let world = observed(&[&panics, &hangs, &good]).await;
    let mut wanted = Vec::new();
    for request in [
        scripted("say x"),
        scripted("panic x"),
        scripted("refuse x"),
        shell("true"),
        SpawnRequest { durable: false, ..scripted("say x") },
        SpawnRequest { mode: Mode::Detached, ..shell("exit 3") },
    ] {
        let handle = world.engine.spawn(&me(), waiting(request)).await.unwrap().record.handle;
        wanted.extend([format!("start {handle}.1"), format!("end {handle}.1")]);
    }
    // One that never starts.
    let blocker = world.engine.spawn(&me(), scripted("gate a\nsay x")).await.unwrap().record;
    world.fake.gate("a").reached().await;
    let queued = world.engine.spawn(&me(), scripted("say never")).await.unwrap().record;
    world.engine.stop(&me(), queued.id, StopRequest::default()).await.unwrap();
    world.fake.gate("a").open();
    world.ended(blocker.id).await;
    wanted.push(format!("start {}.1", blocker.handle));
    wanted.extend([format!("never {}.1", queued.handle), format!("end {}.1", queued.handle)]);
    wanted.push(format!("end {}.1", blocker.handle));
    // Two runs of one process.
    let warm = SpawnRequest { mode: Mode::Warm, ..waiting(scripted("say one")) };
    let warm = world.engine.spawn(&me(), warm).await.unwrap().record;
    let two =
        ResumeRequest { prompt: String::from("say two"), wait_ms: Some(20_000), ..ResumeRequest::default() };
    assert!(world.engine.resume(&me(), warm.id, two).await.unwrap().ended);
    for run in [1, 2] {
        wanted.extend([format!("start {}.{run}", warm.handle), format!("end {}.{run}", warm.handle)]);
    }
    for observer in [&good, &panics, &hangs] {
        assert_eq!(observer.until_told(wanted.len()), wanted);
    }
    let ends = good.ends.lock().unwrap();
    let last = ends.last().unwrap();
    assert_eq!(last.last_assistant_message.as_deref(), Some("two"));
    assert_eq!((last.status, last.facts.attempt.0, last.start.started), (Status::Completed, 1, true));
    assert!(ends.iter().filter(|end| end.last_assistant_message.as_deref() == Some("")).count() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_08_an_observer_of_one_owner_sees_its_runs_alone() {
    let mine = Recorder::of(Manner::Good, Some(me().requester));
    let all = Recorder::new(Manner::Good);
    let world = observed(&[&mine, &all]).await;
    let other = Caller { requester: Requester::from("user:other") };
    let theirs = world.engine.spawn(&other, waiting(scripted("say x"))).await.unwrap().record.handle;
    let own = world.engine.spawn(&me(), waiting(scripted("say x"))).await.unwrap().record.handle;
    let (own, theirs) = (
        [format!("start {own}.1"), format!("end {own}.1")],
        [format!("start {theirs}.1"), format!("end {theirs}.1")],
    );
    assert_eq!(all.until_told(4), [theirs.clone(), own.clone()].concat());
    assert_eq!(mine.until_told(2), own);
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_06_the_last_ends_are_told_before_a_shutdown_returns() {
    let observer = Recorder::new(Manner::Good);
    let world = observed(&[&observer]).await;
    let running = world.engine.spawn(&me(), shell("exec sleep 60")).await.unwrap().record;
    world.until_started(running.id).await;
    let queued = world.engine.spawn(&me(), shell("true")).await.unwrap().record;
    world.engine.shutdown(Shutdown::Stop { within: Duration::from_secs(10) }).await;
    let told = observer.told();
    for record in [running, queued] {
        assert!(told.contains(&format!("end {}.1", record.handle)), "{told:?}");
    }
}

/// Says no to what is about this word, at the spawn; wants more of every answer, at the end.
struct Strict {
    deadline: Duration,
    hangs: bool,
    panics: bool,
    on_failure: OnFailure,
    more: bool,
    asked: Mutex<Vec<String>>,
}

impl Default for Strict {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(20),
            hangs: false,
            panics: false,
            on_failure: OnFailure::default(),
            more: false,
            asked: Mutex::default(),
        }
    }
}

impl Strict {
    async fn fail(&self) {
        assert!(!self.panics, "on purpose");
        if self.hangs {
            std::future::pending::<()>().await;
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Gate for Strict {
    fn name(&self) -> &'static str {
        "strict"
    }
    fn deadline(&self) -> Duration {
        self.deadline
    }
    fn on_failure(&self) -> OnFailure {
        self.on_failure.clone()
    }
    async fn at_spawn(&self, ask: &SpawnAsk) -> SpawnDecision {
        let prompt = &ask.spec.prompt.preview;
        let next = if ask.resumes.is_some() { "next" } else { "first" };
        self.asked.lock().unwrap().push(format!("{next} {prompt}"));
        self.fail().await;
        if prompt.contains("forbidden") {
            return SpawnDecision::Deny { reason: String::from("not here") };
        }
        SpawnDecision::Allow
    }
    async fn at_end(&self, ask: &EndAsk) -> EndDecision {
        let said = ask.last_assistant_message.as_deref().unwrap_or_default();
        self.asked.lock().unwrap().push(format!("end {} {said}", ask.continuations));
        self.fail().await;
        if self.more {
            return EndDecision::Continue { reason: String::from("more of it") };
        }
        EndDecision::Allow
    }
}

async fn gated(gate: Strict) -> (World, Arc<Strict>) {
    let gate = Arc::new(gate);
    let hooks = Hooks::default().with_gate(Arc::clone(&gate) as Arc<dyn Gate>);
    (world_with(Limits::default(), |config| config.hooks = hooks).await, gate)
}

fn resume(prompt: &str) -> ResumeRequest {
    ResumeRequest { prompt: prompt.to_owned(), ..ResumeRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_09_a_gate_denies_every_way_to_a_run_and_nothing_is_used() {
    let (world, gate) = gated(Strict::default()).await;
    let denied = |problem: subagent_model::Problem| {
        assert_eq!(problem.code, ErrorCode::GateDenied);
        assert_eq!(problem.message, "strict: not here");
    };
    denied(world.engine.spawn(&me(), scripted("say forbidden")).await.unwrap_err());
    assert!(world.all_events().is_empty());
    assert!(world.engine.list(&me(), ListFilter::default()).await.unwrap().items.is_empty());
    let first = world.engine.spawn(&me(), waiting(scripted("say fine"))).await.unwrap().record;
    let warm = SpawnRequest { mode: Mode::Warm, ..waiting(scripted("say idle")) };
    let warm = world.engine.spawn(&me(), warm).await.unwrap().record;
    let events = world.all_events().len();
    for id in [first.id, warm.id] {
        denied(world.engine.resume(&me(), id, resume("say forbidden")).await.unwrap_err());
        for mode in [SteerMode::FollowUp, SteerMode::Auto] {
            let message = String::from("say forbidden");
            let message = SteerRequest { message, mode, ..SteerRequest::default() };
            denied(world.engine.steer(&me(), id, message).await.unwrap_err());
        }
    }
    // Spoken to while it is idle, any message is a next run.
    let message = SteerRequest { message: String::from("say forbidden"), ..SteerRequest::default() };
    denied(world.engine.steer(&me(), warm.id, message).await.unwrap_err());
    assert_eq!((world.all_events().len(), world.fake.launches().len()), (events, 2));
    let next = ResumeRequest { wait_ms: Some(20_000), ..resume("say two") };
    assert_eq!(world.engine.resume(&me(), first.id, next).await.unwrap().record.status, Status::Completed);
    let asked = gate.asked();
    let begins: Vec<_> = asked.iter().filter(|asked| !asked.starts_with("end")).map(String::as_str).collect();
    assert_eq!(begins[..3], ["first say forbidden", "first say fine", "first say idle"]);
    assert_eq!(begins.last(), Some(&"next say two"));
}

/// HOOK-09 and HOOK-10.
#[tokio::test(flavor = "multi_thread")]
async fn hook_10_a_gate_makes_a_run_go_on_eight_times_and_no_more() {
    let (world, gate) = gated(Strict { more: true, ..Strict::default() }).await;
    let record = world.engine.spawn(&me(), waiting(scripted("say fine"))).await.unwrap().record;
    assert_eq!(
        (record.status, record.result.unwrap().preview.as_str()),
        (Status::Completed, "heard: more of it")
    );
    assert_eq!(record.marks, [Mark::GateUnheard]);
    let asked = gate.asked();
    assert_eq!(asked[1], "end 0 fine");
    assert_eq!((asked.len(), asked[8].as_str()), (9, "end 7 heard: more of it"), "{asked:?}");
    let told = world.fake.heard_by(record.id);
    assert_eq!(told.iter().filter(|told| *told == "prompt more of it").count(), 8);
    let nudges = world.all_kinds(record.id).into_iter().filter(|kind| *kind == "nudged").count();
    assert_eq!((nudges, world.notices(record.id).await), (8, 1));
    // What it is made to do counts against its budget.
    let budget = Budget { max_turns: Some(2), grace_turns: Some(0), ..Budget::default() };
    let works = "on-continue turn\non-continue turn\non-continue turn\non-continue gate never\nsay partly";
    let request = SpawnRequest { budget, ..waiting(scripted(works)) };
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    assert_eq!((record.status, record.result.unwrap().preview.as_str()), (Status::Aborted, "partly"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_09_a_stopped_run_stays_stopped_whatever_a_gate_thinks() {
    let (world, gate) = gated(Strict { more: true, hangs: false, ..Strict::default() }).await;
    let id = world.spawn(scripted("say partly\ngate never")).await;
    world.fake.gate("never").reached().await;
    world.engine.stop(&me(), id, StopRequest::default()).await.unwrap();
    assert_eq!(world.ended(id).await.status, Status::Stopped);
    assert!(gate.asked().iter().all(|asked| !asked.starts_with("end")), "{:?}", gate.asked());
    let failed = world.engine.spawn(&me(), waiting(scripted("refuse no"))).await.unwrap().record;
    assert_eq!(failed.status, Status::Error, "a failure is no end that more can be wanted of");
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_16_a_gate_that_fails_gives_its_default() {
    let deny = SpawnDecision::Deny { reason: String::from("nobody looked") };
    for (hangs, panics) in [(true, false), (false, true)] {
        let failing = || Strict { deadline: Duration::from_millis(50), hangs, panics, ..Strict::default() };
        let (world, gate) = gated(failing()).await;
        let record = world.engine.spawn(&me(), waiting(scripted("say fine"))).await.unwrap().record;
        assert_eq!((record.status, gate.asked().len()), (Status::Completed, 2), "open: as if it had allowed");
        let closed = OnFailure { at_spawn: deny.clone(), at_end: EndDecision::Allow };
        let (world, _) = gated(Strict { on_failure: closed, ..failing() }).await;
        let problem = world.engine.spawn(&me(), scripted("say fine")).await.unwrap_err();
        assert_eq!(
            (problem.code, problem.message.as_str()),
            (ErrorCode::GateDenied, "strict: nobody looked")
        );
    }
}

/// A gate that takes its time holds up its own run alone, and not the stop of it.
#[tokio::test(flavor = "multi_thread")]
async fn hook_09_a_slow_gate_holds_up_its_own_run_alone() {
    let gate = Arc::new(Slow::default());
    let hooks = Hooks::default().with_gate(Arc::clone(&gate) as Arc<dyn Gate>);
    let world = world_with(Limits::default(), |config| config.hooks = hooks).await;
    let slow = world.spawn(scripted("say slow")).await;
    until_async("the question", || async { (*gate.asked.lock().unwrap()).then_some(()) }).await;
    let other = world.engine.spawn(&me(), waiting(shell("echo other"))).await.unwrap().record;
    assert_eq!((other.status, world.status(slow).await), (Status::Completed, Status::Running));
    world.engine.stop(&me(), slow, StopRequest::default()).await.unwrap();
    let record = world.ended(slow).await;
    assert_eq!((record.status, record.result.unwrap().preview.as_str()), (Status::Stopped, "slow"));
}

#[derive(Default)]
struct Slow {
    asked: Mutex<bool>,
}

#[async_trait]
impl Gate for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn deadline(&self) -> Duration {
        Duration::from_mins(10)
    }
    async fn at_end(&self, _: &EndAsk) -> EndDecision {
        *self.asked.lock().unwrap() = true;
        std::future::pending().await
    }
}
