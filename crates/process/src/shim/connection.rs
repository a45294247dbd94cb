//! One connection to a shim: requests go out in order and whole, events update a watched state. Sending
//! never waits for the shim; a background task moves what the socket did not take at once.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_core::frame::control::{Event, MAX_LINE, Request, ShimStatus};
use subagent_model::process::{ExitRecord, ProcessIdentity, StartFailure};
use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};

use super::handle::Started;

/// Unsent bytes above which more input waits.
const BACKLOG: usize = 256 * 1024;

/// What the events of a connection add up to.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The shim and its state when it said hello.
    pub(super) hello: Option<(ProcessIdentity, Arc<ShimStatus>)>,
    /// The last start's result.
    pub(super) started: Option<(String, Result<Started, StartFailure>)>,
    /// The last attempt's end.
    pub(super) record: Option<Arc<ExitRecord>>,
    /// The attempt whose child closed its input.
    pub(super) stdin_closed: Option<String>,
    /// The last status and how many came before it.
    pub(super) status: Option<(u64, Arc<ShimStatus>)>,
    /// The last refusal: request and reason.
    pub(super) refused: Option<(String, String)>,
    /// The connection is over.
    pub(super) lost: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    unsent: Mutex<Vec<u8>>,
    more: Notify,
    drained: Notify,
    pub(super) state: watch::Sender<State>,
    pub(super) log_end: watch::Sender<u64>,
}

impl Connection {
    /// Takes over a stream. The returned task must be spawned; it ends with the connection.
    pub(super) fn new(stream: UnixStream) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        let connection = Arc::new(Self {
            stream,
            unsent: Mutex::new(Vec::new()),
            more: Notify::new(),
            drained: Notify::new(),
            state: watch::Sender::new(State::default()),
            log_end: watch::Sender::new(0),
        });
        (Arc::clone(&connection), run(connection))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.borrow().lost
    }

    /// Sends a request, and raw bytes after it.
    pub(super) fn send(&self, request: &Request, raw: &[u8]) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(request)?;
        if bytes.len() > MAX_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the request is too long"));
        }
        bytes.push(b'\n');
        bytes.extend_from_slice(raw);
        if self.is_lost() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = 0;
        if unsent.is_empty() {
            sent = match self.stream.try_write(&bytes) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
        }
        if sent < bytes.len() {
            unsent.extend_from_slice(&bytes[sent..]);
            self.more.notify_one();
        }
        Ok(())
    }

    /// Waits until little enough is unsent.
    pub(super) async fn ready_for_more(&self) -> io::Result<()> {
        loop {
            let drained = self.drained.notified();
            if self.is_lost() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.unsent.lock().unwrap_or_else(PoisonError::into_inner).len() < BACKLOG {
                return Ok(());
            }
            drained.await;
        }
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn flush(&self) -> io::Result<()> {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = 0;
        let result = loop {
            if sent == unsent.len() {
                break Ok(());
            }
            match self.stream.try_write(&unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        unsent.drain(..sent);
        if unsent.is_empty() {
            // A large message is not kept for the next one.
            unsent.shrink_to(BACKLOG / 16);
        }
        if unsent.len() < BACKLOG {
            self.drained.notify_waiters();
        }
        result
    }

    fn take_event(&self, line: &[u8]) {
        let event = match serde_json::from_slice(line) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "unreadable event of a shim");
                return;
            }
        };
        match event {
            Event::Hello { shim, status, .. } => {
                self.log_end.send_replace(status.log_end);
                self.state.send_modify(|state| {
                    if let (Some(attempt), Some(process)) = (&status.attempt, &status.process) {
                        let started =
                            Started { process: process.clone(), started_at_micros: status.started_at_micros };
                        state.started = Some((attempt.clone(), Ok(started)));
                    }
                    state.record = status.record.as_deref().cloned().map(Arc::new);
                    state.hello = Some((shim, Arc::from(status)));
                });
            }
            Event::Started { attempt, process, started_at_micros } => {
                self.state.send_modify(|state| {
                    state.started = Some((attempt, Ok(Started { process, started_at_micros })));
                });
            }
            Event::StartFailed { attempt, failure } => {
                self.state.send_modify(|state| state.started = Some((attempt, Err(failure))));
            }
            Event::Grew { end } => {
                self.log_end.send_replace(end);
            }
            Event::StdinClosed { attempt } => {
                self.state.send_modify(|state| state.stdin_closed = Some(attempt));
            }
            Event::Exited { record, .. } => {
                self.log_end.send_replace(record.log_end);
                self.state.send_modify(|state| state.record = Some(Arc::from(record)));
            }
            Event::Status { status } => self.state.send_modify(|state| {
                let number = state.status.as_ref().map_or(0, |(number, _)| number + 1);
                state.status = Some((number, Arc::from(status)));
            }),
            Event::Refused { request, reason } => {
                tracing::debug!(request, reason, "a shim refused a request");
                self.state.send_modify(|state| state.refused = Some((request, reason)));
            }
            Event::Unknown => {}
        }
    }
}

async fn run(connection: Arc<Connection>) {
    let mut line = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let more = connection.more.notified();
        tokio::select! {
            ready = connection.stream.readable() => {
                if ready.is_err() {
                    break;
                }
                match connection.stream.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => {
                        if !take_bytes(&connection, &mut line, &buffer[..count]) {
                            break;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                }
            }
            ready = connection.stream.writable(), if connection.has_unsent() => {
                if ready.is_err() || connection.flush().is_err() {
                    // What the shim said before it died is still worth reading.
                    connection.unsent.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
            }
            () = more => {}
        }
    }
    connection.state.send_modify(|state| state.lost = true);
    connection.drained.notify_waiters();
}

/// False if the shim sent a line that no shim sends.
fn take_bytes(connection: &Connection, line: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
        if line.is_empty() {
            connection.take_event(&rest[..at]);
        } else {
            line.extend_from_slice(&rest[..at]);
            connection.take_event(line);
            line.clear();
        }
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
    line.len() <= MAX_LINE
}
