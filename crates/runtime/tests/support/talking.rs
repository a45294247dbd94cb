//! What tests of conversations share: requests in short, and looks at runs, receipts and what a child was told.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use subagent_model::request::{
    ResumeRequest, SpawnRequest, SteerMode, SteerReply, SteerRequest, StopRequest, WaitOptions,
};
use subagent_model::{
    ErrorCode, ExecSpec, Mode, Posted, Problem, PromptVia, Receipt, ResultFrom, RunNumber, Status,
    SubagentId, SubagentRecord, Talk,
};
use subagent_provider::{Registry, Scripted, Steering};
use subagent_provider_cli::Exec;
use subagent_runtime::{Engine, Graces, Limits, Runtime};
use subagent_store::{MemoryStore, Store};
use subagent_testkit::{talker_program, until_async};

use super::support::{World, config, me, pool, scripted};

/// A provider whose children take messages at the end of their turns only.
pub(crate) const LATE: &str = "late";
/// A provider whose children take no messages during a turn, and whose turns cannot be cancelled.
pub(crate) const MUTE: &str = "mute";

pub(crate) fn say(message: &str, mode: SteerMode) -> SteerRequest {
    SteerRequest { message: message.to_owned(), mode, ..SteerRequest::default() }
}

pub(crate) fn resume(prompt: &str) -> ResumeRequest {
    ResumeRequest { prompt: prompt.to_owned(), ..ResumeRequest::default() }
}

pub(crate) fn warm(request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { mode: Mode::Warm, ..request }
}

pub(crate) fn of(provider: &str, request: SpawnRequest) -> SpawnRequest {
    SpawnRequest { provider: provider.to_owned(), ..request }
}

/// A real process that plays the script and keeps its session in the world's directory.
pub(crate) fn talker(dir: &Path, script: &str) -> SpawnRequest {
    talker_with(dir, &[], script)
}

pub(crate) fn talker_with(dir: &Path, args: &[&str], script: &str) -> SpawnRequest {
    let sessions = dir.join("sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    let exec = ExecSpec {
        program: talker_program().to_string_lossy().into_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: Talk::Lines,
    };
    let sessions = sessions.to_string_lossy().into_owned();
    let env = BTreeMap::from([(String::from("TALKER_SESSIONS"), sessions)]);
    SpawnRequest { exec: Some(exec), env, ..of("exec", scripted(script)) }
}

/// A world with providers that can do less, and with time for what a slow machine does within the graces.
pub(crate) async fn talking_world(limits: Limits) -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let (fake, store) = (Scripted::default(), Arc::new(MemoryStore::default()));
    let engine = talking(&dir, &fake, Arc::clone(&store) as _, limits).await;
    World { engine, fake, store, dir }
}

pub(crate) async fn talking(
    dir: &tempfile::TempDir,
    fake: &Scripted,
    store: Arc<dyn Store>,
    limits: Limits,
) -> Engine {
    let late =
        fake.also(LATE, subagent_model::Capabilities { steering: Steering::AtBoundary, ..Scripted::all() });
    let mute = subagent_model::Capabilities { steering: Steering::None, interrupt: false, ..Scripted::all() };
    let plain = fake.also("plain", subagent_model::Capabilities::default());
    let registry =
        Registry::default().with(Exec).with(fake.clone()).with(late).with(fake.also(MUTE, mute)).with(plain);
    let graces = Graces { term: Duration::from_secs(3), kill: Duration::from_secs(3) };
    let config = subagent_runtime::EngineConfig { graces, ..config(dir.path(), limits) };
    Engine::start(config, store, registry, Some(pool(dir.path()))).await.unwrap()
}

impl World {
    /// The record of the subagent, as its newest run left it.
    pub(crate) async fn record(&self, id: SubagentId) -> SubagentRecord {
        self.engine.get(&me(), id).await.unwrap()
    }

    /// The record of a run once it has ended.
    pub(crate) async fn run_ended(&self, id: SubagentId, run: u32) -> SubagentRecord {
        // A follow-up opens its run a moment after the one before has ended.
        until_async("a run", || async { (self.record(id).await.run.0 >= run).then_some(()) }).await;
        let options = WaitOptions { run: Some(RunNumber(run)), timeout_ms: Some(20_000) };
        let reply = self.engine.wait(&me(), id, options).await.unwrap();
        assert!(reply.ended, "{:?}", reply.record);
        reply.record
    }

    pub(crate) async fn steer(&self, id: SubagentId, message: &str) -> Result<SteerReply, Problem> {
        self.engine.steer(&me(), id, say(message, SteerMode::Steer)).await
    }

    pub(crate) async fn follow_up(&self, id: SubagentId, message: &str) -> Result<SteerReply, Problem> {
        self.engine.steer(&me(), id, say(message, SteerMode::FollowUp)).await
    }

    /// Cancels the turn, with or without a message.
    pub(crate) async fn interrupt(&self, id: SubagentId, message: &str) -> Result<SteerReply, Problem> {
        self.engine.steer(&me(), id, say(message, SteerMode::Interrupt)).await
    }

    pub(crate) async fn stop(&self, id: SubagentId) -> subagent_model::request::StopReply {
        self.engine.stop(&me(), id, StopRequest::default()).await.unwrap()
    }

    pub(crate) async fn posted(&self, id: SubagentId) -> Vec<Posted> {
        self.engine.messages(&me(), id).await.unwrap().items
    }

    /// The receipt of a message once it has its last word.
    pub(crate) async fn last_word(&self, id: SubagentId, number: u64) -> Receipt {
        until_async("the last word of a message", || async {
            let posted = self.posted(id).await;
            let receipt = posted.iter().find(|posted| posted.message.number.0 == number)?.receipt;
            (receipt != Receipt::Accepted).then_some(receipt)
        })
        .await
    }

    /// The prompts and messages that a subagent was told, in words.
    pub(crate) fn told(&self, id: SubagentId) -> Vec<String> {
        let mut told = self.fake.heard_by(id);
        told.retain(|words| words.starts_with("prompt ") || words.starts_with("steer "));
        told
    }

    /// Waits until so many prompts reached the child.
    pub(crate) async fn until_prompted(&self, id: SubagentId, many: usize) {
        until_async("a prompt", || async {
            let told = self.told(id);
            (told.iter().filter(|words| words.starts_with("prompt ")).count() >= many).then_some(())
        })
        .await;
    }

    /// Waits until the process of the child has written this.
    pub(crate) async fn until_said(&self, id: SubagentId, text: &str) {
        until_async("words of a child", || async {
            let log = self.engine.output(&me(), id, 0, None).await.unwrap();
            log.parts.iter().any(|part| part.stream == "stdout" && part.text.contains(text)).then_some(())
        })
        .await;
    }

    /// How many children of this subagent began.
    pub(crate) fn launched(&self, id: SubagentId) -> usize {
        self.fake.launches().iter().filter(|launched| launched.key.subagent == id).count()
    }

    /// Closed, and nothing of it is left that holds a slot.
    pub(crate) async fn until_quiet(&self, id: SubagentId) {
        assert!(self.engine.gone(&me(), id, Duration::from_secs(20)).await.unwrap());
        until_async("free slots", || async {
            (self.engine.health().await.unwrap().running == 0).then_some(())
        })
        .await;
    }

    /// How often a kind of event happened to a subagent.
    pub(crate) fn count(&self, id: SubagentId, kind: &str) -> usize {
        self.all_kinds(id).iter().filter(|known| **known == kind).count()
    }
}

pub(crate) fn preview(record: &SubagentRecord) -> &str {
    record.result.as_ref().map_or("", |text| text.preview.as_str())
}

pub(crate) fn is_delivered_in(receipt: Receipt, wanted: u32) -> bool {
    matches!(receipt, Receipt::Delivered { run, .. } if run == RunNumber(wanted))
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(reply: Result<T, Problem>, code: ErrorCode) -> Problem {
    let problem = reply.unwrap_err();
    assert_eq!(problem.code, code, "{problem:?}");
    problem
}

#[track_caller]
pub(crate) fn ended_as(record: &SubagentRecord, status: Status, text: &str) {
    assert_eq!((record.status, preview(record)), (status, text), "{record:?}");
}
