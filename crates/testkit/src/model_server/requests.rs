//! The requests that came, and what became of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};

use super::conversation::Conversation;

/// How many are remembered.
const REMEMBERED: usize = 2_000;
/// Headers whose values are keys.
const KEYS: &[&str] = &["authorization", "x-api-key", "x-goog-api-key"];

/// A request.
#[derive(Debug, Clone, Serialize)]
pub struct Request {
    /// Counts from 1.
    pub number: usize,
    /// Milliseconds since the server began.
    pub at_ms: u64,
    /// Method.
    pub method: String,
    /// Path, without its query.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
    /// Headers, with names in lower case.
    #[serde(skip)]
    pub headers: BTreeMap<String, String>,
    /// Size of the body, unpacked.
    pub bytes: usize,
    /// The body; null when it is no JSON.
    #[serde(skip)]
    pub body: Value,
    /// What it says, when it asks for an answer.
    pub conversation: Option<Conversation>,
    /// Status of the answer, once there is one.
    pub status: Option<u16>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its answer goes on.
    Open,
    /// Its answer was sent to the end.
    Answered,
    /// The script cut the connection.
    Cut,
    /// The client left before the end.
    Left,
}

impl Request {
    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The key that it came with.
    pub fn key(&self) -> Option<&str> {
        let value = KEYS.iter().find_map(|name| self.header(name))?;
        Some(value.strip_prefix("Bearer ").unwrap_or(value))
    }

    /// The last prompt; empty when it is no such request.
    pub fn prompt(&self) -> &str {
        self.conversation.as_ref().map_or("", Conversation::prompt)
    }

    /// All of it, for people. Keys are cut short.
    pub fn document(&self) -> Value {
        let mut document = serde_json::to_value(self).unwrap_or_default();
        let headers = self.headers.iter().map(|(name, value)| {
            let shown = if KEYS.contains(&name.as_str()) {
                format!("{}...", value.chars().take(12).collect::<String>())
            } else {
                value.clone()
            };
            (name.clone(), Value::from(shown))
        });
        document["headers"] = Value::Object(headers.collect());
        document["body"] = self.body.clone();
        document
    }
}

/// All requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    requests: Vec<Request>,
    count: usize,
}

impl Log {
    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a request in and gives it its number.
    pub(super) fn add(&self, mut request: Request) -> Request {
        self.with(|kept| {
            kept.count += 1;
            request.number = kept.count;
            if kept.requests.len() == REMEMBERED {
                kept.requests.remove(0);
            }
            kept.requests.push(request.clone());
            request
        })
    }

    /// All that are remembered.
    pub(super) fn all(&self) -> Vec<Request> {
        self.with(|kept| kept.requests.clone())
    }

    /// Forgets all; numbers go on.
    pub(super) fn clear(&self) {
        self.with(|kept| kept.requests.clear());
    }

    fn change(&self, number: usize, change: impl FnOnce(&mut Request)) {
        self.with(|kept| kept.requests.iter_mut().rfind(|it| it.number == number).map(change));
    }

    /// Counts by path, and of answers that are open.
    pub(super) fn stats(&self) -> Value {
        self.with(|kept| {
            let mut paths: BTreeMap<&str, u64> = BTreeMap::new();
            for request in &kept.requests {
                *paths.entry(&request.path).or_default() += 1;
            }
            let of = |outcome| kept.requests.iter().filter(|it| it.outcome == outcome).count();
            json!({"requests": kept.requests.len(), "paths": paths, "open": of(Outcome::Open),
                "answered": of(Outcome::Answered), "cut": of(Outcome::Cut), "left": of(Outcome::Left)})
        })
    }
}

/// Notes what becomes of a request. Dropped before its end was noted, the client has left.
#[derive(Debug)]
pub(super) struct Watch {
    log: Log,
    number: usize,
    outcome: Outcome,
}

impl Watch {
    pub(super) fn new(log: &Log, number: usize) -> Self {
        Self { log: log.clone(), number, outcome: Outcome::Left }
    }

    /// The status of its answer.
    pub(super) fn status(&self, status: u16) {
        self.log.change(self.number, |request| request.status = Some(status));
    }

    /// How it ended, as far as it is up to the server.
    pub(super) fn ended(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.log.change(self.number, |request| request.outcome = self.outcome);
    }
}
