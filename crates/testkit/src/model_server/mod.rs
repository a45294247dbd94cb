//! A model that is played from a script, over real HTTP on this machine's own address: real agents run against it, without
//! a key and without a network, and do exactly what a test asks for.
//!
//! It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini `generateContent`, streamed and
//! whole. `GET /_log`, `/_log/NUMBER` and `/_stats` tell what came, `/_reset` forgets it, `POST /_gates/NAME` opens a gate.
//!
//! # Scripts
//!
//! The last prompt is the script, unless a rule of the test gives another. Directives in it are
//!
//! | Directive | What the model does |
//! |---|---|
//! | `[[write:PATH\|TEXT]]` | calls the agent's tool that writes a file |
//! | `[[sh:COMMAND]]` | calls the agent's tool that runs a command |
//! | `[[call:TOOL\|JSON]]` | calls this tool with these arguments, or with free text |
//! | `[[together]]` | makes all those calls at once, not one after the other |
//! | `[[say:TEXT]]` | says this at the end, and what it has seen |
//! | `[[exactly:TEXT]]`, `[[empty]]` | says this and nothing else; says nothing |
//! | `[[echo]]` | says also what the last tool gave back |
//! | `[[think:TEXT]]` | reasons aloud before |
//! | `[[slow:N]]`, `[[slow:N*MS]]` | says N words first, with 200 or MS milliseconds between them |
//! | `[[drip:N]]`, `[[drip:N*MS]]` | speaks in pieces of N letters, with 50 or MS milliseconds between them |
//! | `[[delay:MS]]`, `[[gate:NAME]]` | waits before the next call, or before the end when no call follows |
//! | `[[status:CODE]]` | the request fails with this status |
//! | `[[quota:SECONDS]]` | fails since the quota is used up, which is renewed after so long |
//! | `[[retry-after:SECONDS]]` | what a failure says of trying again |
//! | `[[mute]]` | takes the request and never answers |
//! | `[[hang]]` | begins to speak, and nothing more comes |
//! | `[[drop]]` | begins to speak, and the connection is cut |
//! | `[[error:KIND]]` | begins to speak, and the stream says that it failed |
//! | `[[garbage]]` | speaks, and sends something that is no event |
//! | `[[stop:length]]`, `[[stop:refusal]]` | ends for this reason |
//! | `[[usage:IN,OUT,CACHED,STORED,REASONING]]` | claims this usage with each answer |
//!
//! A tool in a namespace is called `NAMESPACE.TOOL`. `{{FIELD}}` in a call is what an earlier result says that is a JSON
//! object with this field. Prompts of children that an agent starts are scripts as well.
//!
//! `status`, `quota`, `mute`, `hang`, `drop`, `error` and `garbage` take a count: `[[status:429*2]]` fails twice for this
//! prompt and then works. Calls are carried out one a request. The last answer tells what the server saw:
//! `FAKE-OK users=2 results=1 first='...'` are the prompts of the conversation, the results since the last one, and how the
//! first one begins, so that a test sees from the answer alone whether a conversation was really resumed.

mod answer;
mod conversation;
mod directives;
mod gate;
mod prompts;
mod requests;
mod rules;
mod script;
mod serve;
mod tools;
mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use axum::serve::ListenerExt;
use tokio::sync::oneshot;

pub use answer::{Answer, Call, Failure, Hold, Piece, Reply, Stop, Usage};
pub use conversation::{Conversation, Format, Tool};
pub use gate::Gate;
pub use requests::{Outcome, Request};
pub use rules::When;

use crate::until::until;
use requests::Log;
use serve::Shared;

/// What is said where nothing else is asked for.
pub const SAYS: &str = "FAKE-OK";

/// A server, on a thread of its own, so that tests with and without an asynchronous runtime use it alike. Dropped, it is
/// gone with all its connections.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// A server at any free port.
    pub fn start() -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), SAYS).expect("a free port")
    }

    /// A server at this address, that says `say` where nothing else is asked for.
    pub fn start_at(address: SocketAddr, say: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            log: Log::default(),
            rules: rules::Rules::default(),
            memory: script::Memory::default(),
            say: say.to_owned(),
            seed: format!("{:04x}", address.port()),
            begun: Instant::now(),
        });
        let router = serve::router(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel();
        // Small events are to be seen when they are sent.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let thread = std::thread::Builder::new().name("model-server".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = axum::serve(listener, router) => {}
                }
            });
        })?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it is, without a path: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far, of any kind.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.all()
    }

    /// The requests so far that ask the model for something.
    pub fn conversations(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.conversation.is_some()).collect()
    }

    /// Waits, without an asynchronous runtime, for a request that fits.
    pub fn wait_for(&self, what: &str, fits: impl Fn(&Request) -> bool) -> Request {
        until(what, || self.requests().into_iter().find(|request| fits(request)))
    }

    /// A rule for requests that fit. Rules are tried in the order in which they were made, before any script.
    pub fn when(&self, fits: impl Fn(&Request) -> bool + Send + Sync + 'static) -> When<'_> {
        When::new(&self.shared.rules, fits)
    }

    /// The gate that `[[gate:NAME]]` waits at.
    pub fn gate(&self, name: &str) -> Gate {
        self.shared.memory.gate(name)
    }

    /// Forgets the requests and how often what failed, and opens all gates. Rules stay.
    pub fn reset(&self) {
        self.shared.log.clear();
        self.shared.memory.reset();
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
