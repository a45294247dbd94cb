//! A client of the agent in this process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_agent::acp::{Options, serve};
use subagent_agent::endpoint::config::{AgentConfig, Endpoint};
use subagent_agent::session::Mode;
use subagent_agent::wire::Wire;
use subagent_testkit::ModelServer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

/// Longest wait for a line.
const PATIENCE: Duration = Duration::from_secs(20);

/// The key of the endpoint in all tests.
pub(crate) const KEY: &str = "sk-secret-0123456789";

/// Directories of one test.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) model: ModelServer,
    pub(crate) config: AgentConfig,
    pub(crate) mode: Mode,
}

impl World {
    pub(crate) fn new(kind: Wire) -> Self {
        // It makes a runtime of its own, which is not done within another one.
        let model = std::thread::spawn(ModelServer::start).join().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let url = match kind {
            Wire::Chat => format!("{}/v1", model.url()),
            Wire::Messages => model.url(),
            Wire::Gemini => format!("{}/v1beta", model.url()),
        };
        let endpoint = Endpoint {
            kind,
            url: Some(url),
            key_env: Some("TEST_KEY".into()),
            key_file: None,
            key_keyring: None,
            silence_seconds: None,
        };
        let mut config = AgentConfig { model: Some("test/fake-model".into()), ..AgentConfig::default() };
        config.endpoints.insert("test".into(), endpoint);
        Self { dir, model, config, mode: Mode::Free }
    }

    pub(crate) fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn sessions(&self) -> std::path::PathBuf {
        self.dir.path().join("sessions")
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }

    /// An agent, and a client that has said hello.
    pub(crate) async fn client(&self) -> Client {
        let options = Options {
            sessions: self.sessions(),
            spill: self.dir.path().join("spill"),
            config: self.config.clone(),
            model: None,
            mode: self.mode,
            environment: Arc::new(|name| (name == "TEST_KEY").then(|| KEY.to_owned())),
            for_commands: vec![("PATH".into(), "/usr/bin:/bin".into())],
            hidden: vec![],
            nested: None,
        };
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let served = tokio::spawn(async move { serve(options, input, output).await });
        let (read, write) = tokio::io::split(ours);
        let mut client =
            Client { write, lines: BufReader::new(read).lines(), id: 0, updates: vec![], served };
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}});
        assert_eq!(client.call("initialize", hello).await.unwrap()["protocolVersion"], 1);
        client
    }
}

/// A client.
pub(crate) struct Client {
    write: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    id: u64,
    /// What was told, in order.
    pub(crate) updates: Vec<Value>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Client {
    pub(crate) async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request and does not wait.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.id += 1;
        let id = self.id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub(crate) async fn line(&mut self) -> Value {
        let line =
            tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("a line in time").unwrap();
        serde_json::from_str(&line.expect("the agent is there")).unwrap()
    }

    /// Reads until this request is answered.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let mut line = self.line().await;
            if line["id"] == id && line.get("method").is_none() {
                return match line.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(line["result"].take()),
                };
            }
            self.updates.push(line);
        }
    }

    /// Reads until there is such an update.
    pub(crate) async fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..10_000 {
            let line = self.line().await;
            self.updates.push(line.clone());
            if fits(&line) {
                return line;
            }
        }
        panic!("never: {what}");
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// A new session, with what only this agent is told.
    pub(crate) async fn session(&mut self, cwd: &Path, own: Value) -> String {
        let params = json!({"cwd": cwd, "mcpServers": [], "_meta": {"subagent": own}});
        self.call("session/new", params).await.unwrap()["sessionId"].as_str().unwrap().to_owned()
    }

    /// A prompt to its end: the reason, and the last message.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> Result<(String, String), Value> {
        self.updates.clear();
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let answer = self.call("session/prompt", params).await?;
        Ok((answer["stopReason"].as_str().unwrap().to_owned(), self.last_message()))
    }

    /// The text of the last message.
    pub(crate) fn last_message(&self) -> String {
        let chunks = self.of("agent_message_chunk");
        let last = chunks.last().map(|chunk| chunk["messageId"].clone());
        chunks
            .iter()
            .filter(|chunk| Some(&chunk["messageId"]) == last.as_ref())
            .filter_map(|chunk| chunk["content"]["text"].as_str())
            .collect()
    }

    /// The updates of a kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<Value> {
        let updates = self.updates.iter().map(|line| &line["params"]["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).cloned().collect()
    }

    /// Ends the input, and waits for the agent.
    pub(crate) async fn end(mut self) {
        self.write.shutdown().await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, self.served).await.expect("the agent ends");
        ended.unwrap().unwrap();
    }
}
