//! What the agent keeps on disk: its sessions, for another process of it to load, and all that it was told, for tests.

use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

pub(crate) struct Sessions {
    dir: Option<PathBuf>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self { dir: std::env::var_os("ACP_SESSIONS").map(PathBuf::from) }
    }

    /// It was told this.
    pub(crate) fn told(&self, message: &Value) {
        self.append("told.jsonl", &json!({"pid": std::process::id(), "told": message}));
    }

    /// A new session.
    pub(crate) fn begin(&self, session: &str) {
        if let Some(dir) = &self.dir {
            std::fs::write(dir.join(file(session)), "").expect("the directory can be written");
        }
    }

    /// A turn of a session: what it was asked, and what it said.
    pub(crate) fn keep(&self, session: &str, asked: &str, said: &[String]) {
        self.append(&file(session), &json!({"asked": asked, "said": said}));
    }

    /// The turns of a session; none where it does not exist.
    pub(crate) fn turns(&self, session: &str) -> Option<Vec<Value>> {
        let text = std::fs::read_to_string(self.dir.as_ref()?.join(file(session))).ok()?;
        Some(text.lines().map(|line| serde_json::from_str(line).expect("it was written here")).collect())
    }

    /// A session goes on under another name.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        for turn in self.turns(from).into_iter().flatten() {
            self.append(&file(to), &turn);
        }
    }

    fn append(&self, name: &str, line: &Value) {
        let Some(dir) = &self.dir else { return };
        let mut file = std::fs::OpenOptions::new();
        let mut file =
            file.create(true).append(true).open(dir.join(name)).expect("the directory can be written");
        // One write, so that several processes do not mix their lines.
        file.write_all(format!("{line}\n").as_bytes()).expect("the directory can be written");
    }
}

fn file(session: &str) -> String {
    format!("{session}.session")
}
