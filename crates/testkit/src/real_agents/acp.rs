//! The smallest client of ACP: it asks, lets the agent do what it wants, and keeps what is told.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

use crate::until::until;

/// Longest silence of an agent.
const SILENCE: Duration = Duration::from_mins(1);

/// A conversation with an agent. Dropped, its process is gone.
#[derive(Debug)]
pub struct Acp {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Value>,
    asked: u64,
    /// Text of the agent since the last question.
    pub text: String,
}

impl Acp {
    /// Starts an agent and says hello.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let (tell, said) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Ok(message) = serde_json::from_str(&line)
                    && tell.send(message).is_err()
                {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let mut acp = Self { child, input, said, asked: 0, text: String::new() };
        let hello = acp.ask("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        assert_eq!(hello.as_ref().map(|it| &it["protocolVersion"]), Ok(&json!(1)), "{hello:?}");
        acp
    }

    /// Opens a session in this directory and gives its name.
    #[track_caller]
    pub fn session(&mut self, cwd: &std::path::Path) -> String {
        let session = self.ask("session/new", &json!({"cwd": cwd, "mcpServers": []})).expect("a session");
        session["sessionId"].as_str().expect("a name").to_owned()
    }

    /// Asks for something to be done: why it ended, and what was said.
    pub fn prompt(&mut self, session: &str, prompt: &str) -> (Result<Value, Value>, String) {
        self.text.clear();
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": prompt}]});
        let answer = self.ask("session/prompt", &prompt);
        (answer.map(|answer| answer["stopReason"].clone()), self.text.clone())
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.said.recv_timeout(SILENCE).expect("the agent answers");
            match message["method"].as_str() {
                Some("session/update") => {
                    let update = &message["params"]["update"];
                    if update["sessionUpdate"] == "agent_message_chunk" {
                        self.text += update["content"]["text"].as_str().unwrap_or_default();
                    }
                }
                Some("session/request_permission") => {
                    let options = message["params"]["options"].as_array().cloned().unwrap_or_default();
                    let once =
                        options.iter().find(|it| it["kind"] == "allow_once").expect("it can be allowed");
                    let outcome = json!({"outcome": "selected", "optionId": once["optionId"]});
                    let result = json!({"outcome": outcome});
                    self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
                }
                Some(_) if !message["id"].is_null() => {
                    let error = json!({"code": -32601, "message": "not offered"});
                    self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
                }
                None if message["id"] == id => {
                    return if message["error"].is_null() {
                        Ok(message["result"].clone())
                    } else {
                        Err(message["error"].clone())
                    };
                }
                Some(_) | None => {}
            }
        }
    }

    /// Says that nothing more comes; the agent has to end.
    #[track_caller]
    pub fn end(mut self) {
        drop(self.input.take());
        let status = until("the end of the agent", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status:?}");
    }

    fn say(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is still spoken with");
        input.write_all(format!("{message}\n").as_bytes()).expect("the agent reads");
    }
}

impl Drop for Acp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
