//! HTTP as any program may speak it: requests written by hand to the daemon's socket, and its stream of events. What the
//! project's own client does for its callers, this leaves out on purpose.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use subagent_model::{ErrorCode, Problem};

/// Longest silence of a daemon that a test sits through.
const SILENCE: Duration = Duration::from_secs(30);

/// A requester at a socket. Every request has a connection of its own.
#[derive(Debug, Clone)]
pub struct Http {
    socket: PathBuf,
    requester: Option<String>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Head, in lower case, with its lines.
    pub head: String,
    /// Body without its framing.
    pub body: Vec<u8>,
}

impl Reply {
    /// The JSON document that it is.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// An answer without a document must have this status.
    #[track_caller]
    pub fn with_status(&self, status: u16) {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
    }

    /// The document of an answer that must have this status.
    #[track_caller]
    pub fn with(&self, status: u16) -> Value {
        self.with_status(status);
        self.json()
    }

    /// The problem of a refusal with this code: the status must be the code's own, and a hint must be there.
    #[track_caller]
    pub fn refused(&self, code: ErrorCode) -> Problem {
        let text = String::from_utf8_lossy(&self.body);
        let problem: Problem = serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{}: no problem ({error}): {text}", self.status));
        assert_eq!(problem.code, code, "{text}");
        assert_eq!(self.status, code.http_status(), "{text}");
        assert!(self.head.contains("content-type: application/json"), "{}", self.head);
        assert!(problem.hint.as_ref().is_some_and(|hint| !hint.is_empty()), "{text}");
        assert!(!problem.message.is_empty(), "{text}");
        problem
    }
}

impl Http {
    /// A caller that names itself not.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), requester: None }
    }

    /// The same socket, as this requester.
    #[must_use]
    pub fn requester(&self, name: &str) -> Self {
        Self { requester: Some(name.to_owned()), ..self.clone() }
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request and leaves its answer to the caller.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).expect("the daemon accepts");
        stream.set_read_timeout(Some(SILENCE)).expect("a timeout can be set");
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: subagent\r\nconnection: close\r\n");
        if let Some(name) = &self.requester {
            head.extend(["x-subagent-requester: ", name, "\r\n"]);
        }
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if !body.is_empty() {
            head.extend(["content-length: ", &body.len().to_string(), "\r\n"]);
        }
        head += "\r\n";
        // A refusal may come before the whole request was read; then the rest is not wanted.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        stream
    }

    /// Sends a request and reads its answer.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut reader = BufReader::new(self.open(method, path, headers, body));
        let (status, head) = read_head(&mut reader);
        let mut body = Vec::new();
        if head.contains("transfer-encoding: chunked") {
            Chunked::new(reader).read_to_end(&mut body).expect("a whole body");
        } else {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: u64 = length.map_or(0, |length| length.trim().parse().expect("a number"));
            // What is left unread of a refused request resets the connection behind the answer.
            reader.take(length).read_to_end(&mut body).expect("a whole body");
            assert_eq!(body.len() as u64, length, "the body was cut short");
        }
        Reply { status, head, body }
    }

    /// Reads.
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    /// Reads a page of events: `query` stands behind the path.
    pub fn event_page(&self, query: &str) -> Reply {
        self.send("GET", &format!("/v1/events{query}"), &[("accept", "application/json")], b"")
    }

    /// Sends a document.
    pub fn post(&self, path: &str, document: &Value) -> Reply {
        self.document("POST", path, &[], document)
    }

    /// Sends a document with a key, so that sending it twice makes nothing twice.
    pub fn post_with_key(&self, path: &str, key: &str, document: &Value) -> Reply {
        self.document("POST", path, &[("idempotency-key", key)], document)
    }

    /// Puts a document in place of what is there.
    pub fn put(&self, path: &str, document: &Value) -> Reply {
        self.document("PUT", path, &[], document)
    }

    /// Takes something away.
    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], b"")
    }

    fn document(&self, method: &str, path: &str, headers: &[(&str, &str)], document: &Value) -> Reply {
        let body = serde_json::to_vec(document).expect("JSON");
        let headers: Vec<_> = [("content-type", "application/json")].iter().chain(headers).copied().collect();
        self.send(method, path, &headers, &body)
    }

    /// Subscribes to events: `query` stands behind the path, `last` is the position of a subscriber that comes back.
    pub fn events(&self, query: &str, last: Option<u64>) -> Events {
        let last = last.map(|last| last.to_string());
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        Events::new(self.open("GET", &format!("/v1/events{query}"), &headers, b""))
    }
}

fn read_head(reader: &mut impl BufRead) -> (u16, String) {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).expect("an answer comes");
        assert!(read > 0, "the connection ended within the head: {head:?}");
        if line.trim_end().is_empty() {
            break;
        }
        head += &line.to_ascii_lowercase();
    }
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head:?}")), head)
}

/// A body in chunks (RFC 9112, 7.1).
#[derive(Debug)]
struct Chunked<R> {
    inner: R,
    left: u64,
    ended: bool,
}

impl<R: BufRead> Chunked<R> {
    fn new(inner: R) -> Self {
        Self { inner, left: 0, ended: false }
    }
}

impl<R: BufRead> Read for Chunked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if self.left == 0 {
            let mut line = String::new();
            if self.inner.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.left = u64::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            if self.left == 0 {
                self.ended = true;
                return Ok(0);
            }
        }
        let read = (&mut self.inner).take(self.left).read(buffer)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        if self.left == 0 {
            self.inner.read_exact(&mut [0; 2])?;
        }
        Ok(read)
    }
}

/// One event of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Its position.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// What it says.
    pub data: Value,
}

/// A subscriber. Nothing is read before it is asked for an event.
#[derive(Debug)]
pub struct Events {
    stream: Option<UnixStream>,
    lines: Option<BufReader<Chunked<BufReader<UnixStream>>>>,
}

impl Events {
    fn new(stream: UnixStream) -> Self {
        Self { stream: Some(stream), lines: None }
    }

    /// The next whole event; `None` once the daemon has gone.
    pub fn next_event(&mut self) -> Option<Told> {
        if let Some(stream) = self.stream.take() {
            let mut reader = BufReader::new(stream);
            let (status, head) = read_head(&mut reader);
            assert_eq!(status, 200, "{head}");
            assert!(head.contains("content-type: text/event-stream"), "{head}");
            self.lines = Some(BufReader::new(Chunked::new(reader)));
        }
        let lines = self.lines.as_mut()?;
        let (mut id, mut name, mut data) = (None, String::new(), String::new());
        loop {
            let mut line = String::new();
            match lines.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("waited {SILENCE:?} in vain for an event")
                }
                // A part of an event that a killed daemon left is none.
                Err(_) => return None,
            }
            match line.trim_end_matches(['\r', '\n']).split_once(':') {
                None if data.is_empty() => {}
                None => {
                    let data = serde_json::from_str(&data).expect("an event is JSON");
                    return Some(Told { id: id.expect("an event has an id"), name, data });
                }
                Some(("id", value)) => id = value.trim().parse().ok(),
                Some(("event", value)) => value.trim().clone_into(&mut name),
                Some(("data", value)) => data += value.trim_start(),
                // A comment that keeps the connection alive.
                Some(_) => {}
            }
        }
    }

    /// Events up to and with the one at this position.
    pub fn through(&mut self, last: u64) -> Vec<Told> {
        let mut told: Vec<Told> = Vec::new();
        while told.last().is_none_or(|event| event.id < last) {
            told.push(self.next_event().expect("the daemon serves on"));
        }
        told
    }
}
