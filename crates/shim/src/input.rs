//! The child's input in pipe mode. Bytes go to the pipe while it takes them; the rest waits in a spool
//! file, so memory stays bounded and a child that does not read delays nobody.

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

pub(crate) struct Input {
    pipe: Option<OwnedFd>,
    spool: Option<File>,
    spool_path: PathBuf,
    spooled: u64,
    fed: u64,
    inline: bool,
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
            inline: true,
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

    /// Bytes accepted and not yet in the pipe.
    pub(crate) fn pending(&self) -> u64 {
        self.spooled - self.fed
    }

    /// True once after the child closed its end.
    pub(crate) fn take_closed_by_child(&mut self) -> bool {
        std::mem::take(&mut self.closed_by_child)
    }

    /// A message of `len` bytes begins.
    pub(crate) fn begin(&mut self, len: u64, log: &mut LogWriter) {
        self.inline = len <= INLINE;
        if !self.inline && self.pipe.is_some() {
            log.control(&ControlFrame::StdinSpooled { offset: self.spooled, len });
        }
    }

    /// Takes a part of the message.
    pub(crate) fn accept(&mut self, bytes: &[u8], log: &mut LogWriter) {
        let Some(pipe) = &self.pipe else {
            return;
        };
        if self.close_when_fed {
            return;
        }
        let mut rest = bytes;
        if self.inline {
            log.stream(Kind::Stdin, bytes);
            if self.fed == self.spooled {
                match sys::write(pipe, bytes) {
                    Ok(count) => rest = &bytes[count..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return self.lost(),
                }
            }
        }
        if rest.is_empty() {
            return;
        }
        if let Err(error) = self.spool(rest) {
            log.note_error(&error);
            self.lost();
        }
    }

    /// Moves waiting bytes into the pipe.
    pub(crate) fn feed(&mut self, scratch: &mut [u8], log: &mut LogWriter) {
        while let (Some(pipe), Some(spool)) = (&self.pipe, &self.spool) {
            if self.fed == self.spooled {
                break;
            }
            let count = match sys::read_at(spool, scratch, self.fed) {
                Ok(0) => return self.lost(),
                Ok(count) => count,
                Err(error) => {
                    log.note_error(&error);
                    return self.lost();
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
                Err(_) => return self.lost(),
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

    /// The child's end is gone.
    pub(crate) fn lost(&mut self) {
        self.closed_by_child = self.pipe.take().is_some();
        self.fed = self.spooled;
    }

    fn close_if_fed(&mut self, log: &mut LogWriter) {
        if self.close_when_fed && self.fed == self.spooled {
            self.close(log);
        }
    }

    fn spool(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.spool.is_none() {
            let file =
                OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.spool_path)?;
            self.spool = Some(file);
        }
        if let Some(file) = &self.spool {
            sys::write_all_vectored(file, [bytes, &[], &[]])?;
            self.spooled += bytes.len() as u64;
        }
        Ok(())
    }
}
