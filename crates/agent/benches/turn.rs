//! What the loop itself costs: turns with a tool that does nothing, against raw calls of the same model. The difference of
//! the two, divided by the turns, is the loop's own: decisions, journal with its flushes, news.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use subagent_agent::conversation::{Call, Message};
use subagent_agent::endpoint::config::{AgentConfig, Choice, Endpoint, ModelFacts};
use subagent_agent::endpoint::{HttpModel, Model};
use subagent_agent::fact::{End, Header, VERSION};
use subagent_agent::journal::Journal;
use subagent_agent::session::{Host, Means, Mode, News, Permit, Session};
use subagent_agent::tools::{Context, Kind, Output, Settings, Tool, Toolbox};
use subagent_agent::turn::Rules;
use subagent_agent::wire::{Ask, Wire};
use subagent_testkit::ModelServer;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Turns with a call; one more answers.
const TURNS: usize = 20;

fn main() {
    divan::main();
}

struct Noop;

impl Tool for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn description(&self) -> &'static str {
        "Does nothing."
    }

    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }

    fn kind(&self) -> Kind {
        Kind::Other
    }

    fn title(&self, _: &Value) -> String {
        String::from("noop")
    }

    fn call<'a>(&'a self, _: Value, _: &'a Context) -> BoxFuture<'a, Output> {
        Box::pin(async { Output::done("nothing") })
    }
}

struct Deaf;

impl Host for Deaf {
    fn news(&self, _: News) {}

    fn permit<'a>(&'a self, _: &'a Call, _: &'a str, _: Kind) -> BoxFuture<'a, Permit> {
        Box::pin(async { Permit::Yes })
    }
}

struct World {
    runtime: Runtime,
    server: ModelServer,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, server: ModelServer::start(), dir: tempfile::tempdir().unwrap() }
    }

    fn choice(&self) -> Choice {
        let mut config = AgentConfig::default();
        let url = Some(format!("{}/v1", self.server.url()));
        let endpoint = Endpoint {
            kind: Wire::Chat,
            url,
            key_env: None,
            key_file: None,
            key_keyring: None,
            silence_seconds: None,
        };
        config.endpoints.insert("e".into(), endpoint);
        config.choose(Some("e/m"), &|_: &str| None).unwrap()
    }

    fn toolbox(&self) -> Toolbox {
        let roots: Vec<PathBuf> = vec![self.dir.path().to_owned()];
        Toolbox::open(Settings { roots, own: vec![Arc::new(Noop)], ..Settings::default() }).unwrap()
    }
}

fn script() -> String {
    "[[call:noop|{}]] ".repeat(TURNS)
}

/// The same number of calls of the model, with a conversation of the same length.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn raw_calls(bencher: divan::Bencher<'_, '_>) {
    let world = World::new();
    let model = HttpModel::new(world.choice(), None);
    let specs = world.toolbox().specs();
    let mut messages = vec![Message::User(script())];
    bencher.bench_local(|| {
        messages.truncate(1);
        world.runtime.block_on(async {
            for number in 0..=TURNS {
                let ask = Ask {
                    model: "m",
                    system: "s",
                    messages: &messages,
                    tools: &specs,
                    answer_only: false,
                    schema: None,
                    effort: None,
                    max_output: None,
                    number: number as u64,
                };
                let reply = model.ask(ask, &mut |_| {}).await.unwrap().reply;
                let results = reply.calls.iter().map(|call| subagent_agent::conversation::CallResult {
                    call: call.id.clone(),
                    tool: call.tool.clone(),
                    text: "nothing".into(),
                    failed: false,
                });
                let results = results.collect();
                messages.extend([Message::Assistant(reply), Message::Results(results)]);
            }
        });
    });
}

/// The whole loop.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn turns(bencher: divan::Bencher<'_, '_>) {
    let world = World::new();
    let model: Arc<dyn Model> = Arc::new(HttpModel::new(world.choice(), None));
    bencher
        .with_inputs(|| {
            let id = uuid::Uuid::now_v7().to_string();
            let header = Header {
                format: Header::FORMAT.into(),
                version: VERSION,
                id,
                cwd: "/".into(),
                system: "s".into(),
                at: 0,
            };
            let journal = Journal::create(&world.dir.path().join("sessions"), header).unwrap();
            let means = Means {
                model: Arc::clone(&model),
                model_name: "m".into(),
                facts: ModelFacts::default(),
                effort: None,
                rules: Rules::default(),
                tools: Arc::new(world.toolbox()),
                mode: Mode::Free,
            };
            let (_, steers) = mpsc::unbounded_channel();
            Session::new(journal, &[], means, Arc::new(Deaf), steers)
        })
        .bench_local_values(|mut session| {
            let cancel = CancellationToken::new();
            let end = world.runtime.block_on(session.prompt(script(), None, &cancel)).unwrap();
            assert_eq!(end, End::Finished { truncated: false });
        });
}
