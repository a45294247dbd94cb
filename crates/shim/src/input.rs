//! The child's input in pipe mode. A message is noted in the log and given to the child whole, or neither, so that a
//! daemon that comes later can read in the log what was given. Bytes go to the pipe while it takes them; the rest waits
//! in a spool file, so memory stays bounded and a child that does not read delays nobody.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use subagent_core::frame::Kind;
use subagent_core::frame::control::{ControlFrame, SPOOL_FILE};

use super::log::LogWriter;
use super::sys;

/// Messages up to this size are copied into the log; larger ones live in the spool only.
const INLINE: u64 = 16 * 1024;

/// The message that is being received.
#[derive(Default)]
struct Incoming {
    len: u64,
    left: u64,
    /// What has come of it, if it belongs into the log. A larger one is in the spool behind the whole messages.
    held: Vec<u8>,
}

pub(crate) struct Input {
    pipe: Option<OwnedFd>,
    spool: Option<File>,
    spool_path: PathBuf,
    /// Bytes of the spool that belong to whole messages.
    spooled: u64,
    fed: u64,
    incoming: Incoming,
    close_when_fed: bool,
    closed_by_child: bool,
}

impl Input {
    pub(crate) fn new(pipe: OwnedFd, dir: &Path) -> Self {
        Self {
            pipe: Some(pipe),
            spool: None,
            spool_path: dir.join(SPOOL_FILE),
            spooled: 0,
            fed: 0,
            incoming: Incoming::default(),
            close_when_fed: false,
            closed_by_child: false,
        }
    }

    /// The pipe, if it is open and bytes wait for it.
    pub(crate) fn waiting_pipe(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref().filter(|_| self.fed < self.spooled)
    }

    /// The open pipe.
    pub(crate) fn pipe(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref()
    }

    /// Whether further input still has a way to the child.
    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some() && !self.close_when_fed
    }

    /// Bytes accepted and not yet read by the child: in the spool, and in the pipe where the system tells.
    pub(crate) fn pending(&self) -> u64 {
        self.spooled - self.fed + self.pipe.as_ref().map_or(0, sys::unread)
    }

    /// True once after the child closed its end.
    pub(crate) fn take_closed_by_child(&mut self) -> bool {
        std::mem::take(&mut self.closed_by_child)
    }

    /// A message of `len` bytes begins. What came of one before that was cut off by the loss of its sender is
    /// forgotten.
    pub(crate) fn begin(&mut self, len: u64, log: &mut LogWriter) {
        self.forget_incoming(log);
        self.incoming = Incoming { len, left: len, held: Vec::new() };
    }

    /// Takes a part of the message.
    pub(crate) fn accept(&mut self, bytes: &[u8], log: &mut LogWriter) {
        if !self.is_open() {
            return;
        }
        let Some(left) = self.incoming.left.checked_sub(bytes.len() as u64) else {
            return;
        };
        self.incoming.left = left;
        if self.incoming.len > INLINE {
            if let Err(error) = self.append(bytes) {
                log.note_error(&error);
                self.lost(log);
            } else if left == 0 {
                self.release_spooled(log);
            }
        } else if left > 0 {
            self.incoming.held.extend_from_slice(bytes);
        } else if self.incoming.held.is_empty() {
            self.give(bytes, log);
        } else {
            let mut whole = std::mem::take(&mut self.incoming.held);
            whole.extend_from_slice(bytes);
            self.give(&whole, log);
        }
    }

    /// Moves waiting bytes into the pipe.
    pub(crate) fn feed(&mut self, scratch: &mut [u8], log: &mut LogWriter) {
        while let (Some(pipe), Some(spool)) = (&self.pipe, &self.spool) {
            // Behind the whole messages there may be a part of one that is still coming.
            let waiting = usize::try_from(self.spooled - self.fed).unwrap_or(usize::MAX);
            if waiting == 0 {
                break;
            }
            let most = waiting.min(scratch.len());
            let count = match sys::read_at(spool, &mut scratch[..most], self.fed) {
                Ok(0) => return self.lost(log),
                Ok(count) => count,
                Err(error) => {
                    log.note_error(&error);
                    return self.lost(log);
                }
            };
            match sys::write(pipe, &scratch[..count]) {
                Ok(written) => {
                    self.fed += written as u64;
                    if written < count {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.lost(log),
            }
        }
        self.close_if_fed(log);
    }

    /// Closes the input once everything accepted so far was taken.
    pub(crate) fn close_when_fed(&mut self, log: &mut LogWriter) {
        self.close_when_fed = true;
        self.close_if_fed(log);
    }

    /// Closes the input at once; what was not taken is lost.
    pub(crate) fn close(&mut self, log: &mut LogWriter) {
        if self.pipe.take().is_some() {
            self.fed = self.spooled;
            log.control(&ControlFrame::StdinClosed);
        }
    }

    /// The child's end is gone, or nothing more can be given to it.
    pub(crate) fn lost(&mut self, log: &mut LogWriter) {
        self.closed_by_child |= self.pipe.is_some();
        self.close(log);
    }

    /// Gives a whole small message.
    fn give(&mut self, bytes: &[u8], log: &mut LogWriter) {
        // What cannot be noted is not given.
        if !log.note_first(Kind::Stdin, bytes) {
            return self.lost(log);
        }
        let mut rest = bytes;
        if let (true, Some(pipe)) = (self.fed == self.spooled, &self.pipe) {
            match sys::write(pipe, bytes) {
                Ok(count) => rest = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return self.lost(log),
            }
        }
        if rest.is_empty() {
            return;
        }
        match self.append(rest) {
            Ok(()) => self.spooled += rest.len() as u64,
            Err(error) => {
                log.note_error(&error);
                self.lost(log);
            }
        }
    }

    /// Lets a whole large message, which is in the spool by now, go to the child.
    fn release_spooled(&mut self, log: &mut LogWriter) {
        let len = self.incoming.len;
        let note = ControlFrame::StdinSpooled { offset: self.spooled, len };
        if serde_json::to_vec(&note).is_ok_and(|text| log.note_first(Kind::Control, &text)) {
            self.spooled += len;
        } else {
            self.lost(log);
        }
    }

    fn forget_incoming(&mut self, log: &mut LogWriter) {
        let unfinished = self.incoming.left > 0 && self.incoming.len > INLINE;
        if let (true, Some(spool)) = (unfinished, &self.spool)
            && let Err(error) = spool.set_len(self.spooled)
        {
            // The next message would land behind the remains of this one.
            log.note_error(&error);
            self.lost(log);
        }
    }

    fn close_if_fed(&mut self, log: &mut LogWriter) {
        if self.close_when_fed && self.fed == self.spooled {
            self.close(log);
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.spool.is_none() {
            let file =
                OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.spool_path)?;
            self.spool = Some(file);
        }
        match &self.spool {
            Some(file) => sys::write_all_vectored(file, [bytes, &[], &[]]),
            None => Ok(()),
        }
    }
}
