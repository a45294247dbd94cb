//! One conversation over a socket: bytes in, lines and raw input out, and a bounded queue of events the
//! other way. It never waits; a peer that does not read is dropped and will find the state when it
//! comes back.

use std::io;
use std::os::unix::net::UnixStream;

use subagent_core::frame::control::{Event, MAX_LINE};

use super::clock::Awake;
use super::hearing::Heard;
use super::sys;

/// Unsent bytes above which a peer counts as not reading.
const MAX_UNSENT: usize = 256 * 1024;

/// One piece of what the peer sent.
pub(crate) enum Piece {
    /// A whole control line.
    Line(Vec<u8>),
    /// Raw input bytes, as a range of the buffer given to [`Connection::next_piece`].
    Raw(std::ops::Range<usize>),
}

pub(crate) struct Connection {
    stream: UnixStream,
    line: Vec<u8>,
    raw_left: u64,
    unsent: Vec<u8>,
    sent: usize,
    /// When it was accepted.
    pub(crate) since: Awake,
    /// Log end the peer was told last.
    pub(crate) announced: u64,
    /// How far the peer has read the log, if it must hear all of it.
    pub(crate) heard: Option<Heard>,
    dead: bool,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream, since: Awake) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            line: Vec::new(),
            raw_left: 0,
            unsent: Vec::new(),
            sent: 0,
            since,
            announced: 0,
            heard: None,
            dead: false,
        })
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether the conversation is over.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead
    }

    /// Whether events wait for the peer to read.
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// Reads once into `scratch`; 0 if nothing is there or the peer is gone.
    pub(crate) fn receive(&mut self, scratch: &mut [u8]) -> usize {
        match sys::read(&self.stream, scratch) {
            Ok(0) => {
                self.dead = true;
                0
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.dead = true;
                0
            }
        }
    }

    /// The next `len` bytes are raw input.
    pub(crate) fn expect_raw(&mut self, len: u64) {
        self.raw_left = len;
    }

    /// Takes the next piece from `bytes[*at..]`, moving `at`; `None` when all was taken.
    pub(crate) fn next_piece(&mut self, bytes: &[u8], at: &mut usize) -> Option<Piece> {
        let rest = &bytes[*at..];
        if rest.is_empty() || self.dead {
            return None;
        }
        if self.raw_left > 0 {
            let count = usize::try_from(self.raw_left).unwrap_or(usize::MAX).min(rest.len());
            let start = *at;
            self.raw_left -= count as u64;
            *at += count;
            return Some(Piece::Raw(start..start + count));
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let taken = &rest[..end.unwrap_or(rest.len())];
        if self.line.len() + taken.len() > MAX_LINE {
            self.dead = true;
            return None;
        }
        self.line.extend_from_slice(taken);
        *at += taken.len() + usize::from(end.is_some());
        end.map(|_| Piece::Line(std::mem::take(&mut self.line)))
    }

    /// Queues an event and sends what the peer takes at once.
    pub(crate) fn send(&mut self, event: &Event) {
        if self.dead {
            return;
        }
        if serde_json::to_writer(&mut self.unsent, event).is_err() {
            self.dead = true;
            return;
        }
        self.unsent.push(b'\n');
        self.flush();
    }

    /// Sends what the peer takes.
    pub(crate) fn flush(&mut self) {
        while self.has_unsent() && !self.dead {
            match sys::write(&self.stream, &self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.dead = true,
            }
        }
        if !self.has_unsent() {
            self.unsent.clear();
            self.sent = 0;
            if self.unsent.capacity() > 16 * 1024 {
                self.unsent = Vec::new();
            }
        } else if self.unsent.len() - self.sent > MAX_UNSENT {
            self.dead = true;
        }
    }
}
