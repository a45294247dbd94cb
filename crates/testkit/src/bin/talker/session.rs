//! What a session holds: one file of JSON lines with everything that the agent was told, which outlives its process.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// One session. Without a directory it is kept in this process only.
pub(crate) struct Session {
    name: String,
    dir: Option<PathBuf>,
    held: Vec<Value>,
}

impl Session {
    /// Begins one, or continues the one of this name; `Err` with the name when there is none.
    pub(crate) fn open(name: Option<&str>) -> Result<Self, String> {
        let dir = std::env::var_os("TALKER_SESSIONS").map(PathBuf::from);
        let Some(name) = name else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
            let session = Self { name: format!("talker-{}-{now}", std::process::id()), dir, held: vec![] };
            session.append("");
            return Ok(session);
        };
        let text =
            dir.as_ref().and_then(|dir| std::fs::read_to_string(dir.join(format!("{name}.jsonl"))).ok());
        let text = text.ok_or_else(|| name.to_owned())?;
        // A line that was cut off by the end of the process holds nothing.
        let held = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { name: name.to_owned(), dir, held })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Keeps what the agent was told.
    pub(crate) fn keep(&mut self, told: Value) {
        self.append(&format!("{told}\n"));
        self.held.push(told);
    }

    /// True when it holds no prompt.
    pub(crate) fn is_new(&self) -> bool {
        !self.held.iter().any(|told| told["type"] == "prompt")
    }

    /// All of it in words, a line each.
    pub(crate) fn recital(&self) -> String {
        let words = |told: &Value| match told["type"].as_str()? {
            "prompt" | "steer" => Some(format!("{} {}", told["type"].as_str()?, told["text"].as_str()?)),
            _ => None,
        };
        self.held.iter().filter_map(words).collect::<Vec<_>>().join("\n")
    }

    /// The lines for a prompt that is no script. Keeping others takes their place.
    pub(crate) fn on_continue(&self) -> String {
        let kept = self.held.iter().rev().find_map(|told| told["on_continue"].as_str());
        kept.unwrap_or_default().to_owned()
    }

    fn append(&self, text: &str) {
        let Some(dir) = &self.dir else { return };
        let path = dir.join(format!("{}.jsonl", self.name));
        let mut file =
            OpenOptions::new().create(true).append(true).open(path).expect("the session can be kept");
        file.write_all(text.as_bytes()).expect("the session can be kept");
    }
}
