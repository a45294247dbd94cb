//! Files that go with prompts and messages: kept when they are accepted, handed over with them, released with the rest.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use subagent_model::request::{
    AttachRequest, GcRequest, ResumeRequest, SpawnRequest, SteerMode, SteerRequest,
};
use subagent_model::{Capabilities, ErrorCode, Mode, Status};
use subagent_provider::{Registry, Scripted, Told, ToldKind};
use subagent_runtime::{Engine, Limits, Runtime};
use subagent_store::MemoryStore;
use support::{config, me, scripted, waiting};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

struct World {
    engine: Engine,
    fake: Scripted,
    /// Where files are kept.
    attachments: std::path::PathBuf,
    dir: tempfile::TempDir,
}

async fn world(images: bool, texts: bool) -> World {
    let dir = tempfile::Builder::new().prefix("sa-").tempdir().unwrap();
    let can = Capabilities { images, texts, ..Scripted::all() };
    let fake = Scripted::named(Scripted::NAME, can);
    let registry = Registry::default().with(fake.clone());
    let store = std::sync::Arc::new(MemoryStore::default());
    let config = config(dir.path(), Limits::default());
    let attachments = config.data_dir.join("attachments");
    let engine = Engine::start(config, store as _, registry, None).await.unwrap();
    World { engine, fake, attachments, dir }
}

impl World {
    fn file(&self, name: &str, content: &[u8]) -> AttachRequest {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        AttachRequest { path: Some(path.to_str().unwrap().into()), ..AttachRequest::default() }
    }

    fn kept(&self) -> usize {
        let dirs = std::fs::read_dir(&self.attachments).unwrap().flatten();
        dirs.flat_map(|dir| std::fs::read_dir(dir.path()).unwrap()).count()
    }

    /// What came with each prompt and message: name, type and content.
    fn came(&self, kind: ToldKind) -> Vec<Vec<(String, String, Vec<u8>)>> {
        let one = |told: &Told| {
            let files = told.attached.iter();
            files
                .map(|it| (it.about.name.clone(), it.about.media_type.clone(), it.content.to_vec()))
                .collect()
        };
        self.fake.heard().iter().filter(|told| told.kind == kind).map(one).collect()
    }
}

fn row(name: &str, media_type: &str, content: &[u8]) -> (String, String, Vec<u8>) {
    (name.to_owned(), media_type.to_owned(), content.to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_with_the_prompt_the_message_and_the_next_run() {
    let world = world(true, true).await;
    let shot = world.file("shot.png", PNG);
    let request = SpawnRequest {
        attachments: vec![shot, world.file("notes.md", b"Read me.")],
        mode: Mode::Async,
        ..scripted("gate open\nsay done")
    };
    let id = world.engine.spawn(&me(), request).await.unwrap().record.id;
    world.fake.gate("open").reached().await;
    // Whatever becomes of the files of the caller.
    std::fs::write(world.dir.path().join("shot.png"), "gone").unwrap();
    let by_value = AttachRequest {
        data: Some(String::from("aGVsbG8=")),
        name: Some(String::from("it")),
        ..AttachRequest::default()
    };
    let steer = SteerRequest {
        message: String::from("and this"),
        attachments: vec![by_value],
        wait_ms: Some(20_000),
        ..SteerRequest::default()
    };
    let posted = world.engine.steer(&me(), id, steer).await.unwrap().message.unwrap();
    assert_eq!(posted.message.attachments[0].name, "it");
    world.fake.gate("open").open();
    let resume = ResumeRequest {
        prompt: String::from("say again"),
        attachments: vec![world.file("more.csv", b"a,b")],
        wait_ms: Some(20_000),
        queue: true,
        ..ResumeRequest::default()
    };
    world.engine.resume(&me(), id, resume).await.unwrap();
    subagent_testkit::until_async("the next run", || async {
        let prompts = world.fake.heard().iter().filter(|told| told.kind == ToldKind::Prompt).count();
        (prompts == 2).then_some(())
    })
    .await;
    assert_eq!(
        world.came(ToldKind::Prompt),
        [
            vec![row("shot.png", "image/png", PNG), row("notes.md", "text/markdown", b"Read me.")],
            vec![row("more.csv", "text/csv", b"a,b")],
        ]
    );
    assert_eq!(world.came(ToldKind::Steer), [vec![row("it", "text/plain", b"hello")]]);
    assert_eq!(world.kept(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_provider_does_not_take_is_refused_at_the_gate_and_nothing_is_left() {
    let with = |file: AttachRequest| SpawnRequest { attachments: vec![file], ..scripted("say done") };
    for (images, texts, file, word) in [
        (false, false, "a.png", "be given files"),
        (false, true, "a.png", "images"),
        (true, false, "a.txt", "texts"),
    ] {
        let world = world(images, texts).await;
        let content = if file.ends_with("png") { PNG } else { b"text" };
        let problem = world.engine.spawn(&me(), with(world.file(file, content))).await.unwrap_err();
        assert_eq!(problem.code, ErrorCode::NotCapable, "{problem:?}");
        assert!(problem.message.contains(word), "{problem:?}");
        assert_eq!(std::fs::read_dir(&world.attachments).unwrap().count(), 0);
    }
    // Nor by the gate of admission, nor for a message without a text.
    let world = world(true, true).await;
    world.engine.set_limits(Limits { queue: 0, running: 0, ..Limits::default() });
    let problem = world.engine.spawn(&me(), with(world.file("a.png", PNG))).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::QueueFull, "{problem:?}");
    assert_eq!(std::fs::read_dir(&world.attachments).unwrap().count(), 0);
    world.engine.set_limits(Limits::default());
    let record = world.engine.spawn(&me(), waiting(scripted("say done"))).await.unwrap().record;
    let silent = SteerRequest {
        attachments: vec![world.file("a.png", PNG)],
        mode: SteerMode::Interrupt,
        ..SteerRequest::default()
    };
    let problem = world.engine.steer(&me(), record.id, silent).await.unwrap_err();
    assert_eq!(problem.code, ErrorCode::InvalidRequest, "{problem:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn result_33_files_are_released_with_the_other_heavy_parts() {
    let world = world(true, true).await;
    let request =
        SpawnRequest { attachments: vec![world.file("a.png", PNG)], ..waiting(scripted("say done")) };
    let record = world.engine.spawn(&me(), request).await.unwrap().record;
    assert_eq!((record.status, world.kept()), (Status::Completed, 1));
    let target = subagent_runtime::AckTarget { id: record.id, run: None };
    world.engine.acknowledge(&me(), vec![target], false).await.unwrap();
    let sweep = GcRequest { older_than_ms: Some(0), ..GcRequest::default() };
    let reply = world.engine.gc(&me(), sweep).await.unwrap();
    assert_eq!((reply.heavy, reply.bytes >= PNG.len() as u64), (vec![record.id], true));
    assert_eq!(std::fs::read_dir(&world.attachments).unwrap().count(), 0);
}
