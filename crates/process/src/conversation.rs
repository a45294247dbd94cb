//! The conversation with a child, read back from its log: what was given to it and what it said, in order, with large
//! inputs taken from the spool. A daemon that adopts a child learns here what was written before it came. What the
//! bytes mean is the driver's business.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use subagent_core::frame::control::{ControlFrame, SPOOL_FILE};
use subagent_core::frame::{Frame, Gap, Kind};

use crate::log::{FrameLog, LogError, LogItem};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Logical offset in the log at which this begins.
    pub from: u64,
    /// Logical offset after it; a reader opened there goes on with the next one.
    pub to: u64,
    /// When it was noted, in microseconds since the epoch; 0 for a hole.
    pub at_micros: u64,
    /// What.
    pub part: Part,
}

/// What can happen in a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes of [`Kind::Stdin`], [`Kind::Stdout`] or [`Kind::Stderr`]. One message to the child is one part, whatever
    /// its size; output comes as it was read.
    Bytes(Kind, Vec<u8>),
    /// The child's input was closed, by whichever side. Nothing reached it afterwards, and what it had not read by then
    /// it may never have read.
    StdinClosed,
    /// The child closed its output: nothing more can be heard of it but its exit, which may come at once or never.
    StdoutClosed,
    /// Something is not there any more: rotation, damage, a full disk.
    Hole {
        /// Whether input may be among it, not only output.
        stdin: bool,
    },
}

/// A reader of one attempt's conversation.
#[derive(Debug)]
pub struct Conversation {
    log: FrameLog,
    spool_path: PathBuf,
    spool: Option<File>,
}

impl Conversation {
    /// Reads from the beginning. The directory may be empty yet.
    pub fn open(dir: impl Into<PathBuf>) -> Self {
        Self::open_at(dir, 0)
    }

    /// Reads from an offset that [`Said::to`] or a shim's status told.
    pub fn open_at(dir: impl Into<PathBuf>, position: u64) -> Self {
        let dir = dir.into();
        Self { spool_path: dir.join(SPOOL_FILE), log: FrameLog::open_at(dir, position), spool: None }
    }

    /// Logical offset after what was read so far, notes that are no part of the conversation included.
    pub fn position(&self) -> u64 {
        self.log.position()
    }

    /// What comes next, or `None` at the end of what is written so far; more may come later.
    pub fn next_part(&mut self) -> Result<Option<Said>, LogError> {
        loop {
            let said = match self.log.next_item()? {
                None => return Ok(None),
                Some(LogItem::Frame(frame)) => match self.part(&frame)? {
                    Some(part) => {
                        Said { from: frame.offset, to: frame.end(), at_micros: frame.at_micros, part }
                    }
                    None => continue,
                },
                Some(LogItem::Corruption { offset, bytes }) => hole(offset, offset + bytes),
                Some(LogItem::Missing { from, to }) => hole(from, to),
            };
            return Ok(Some(said));
        }
    }

    fn part(&mut self, frame: &Frame) -> io::Result<Option<Part>> {
        Ok(match frame.kind {
            Kind::Stdin | Kind::Stdout | Kind::Stderr => Some(Part::Bytes(frame.kind, frame.payload.clone())),
            // What is missing further up was found there.
            Kind::Gap => Gap::decode(&frame.payload)
                .is_none_or(|gap| gap.bytes > 0)
                .then_some(Part::Hole { stdin: false }),
            Kind::Control => match serde_json::from_slice(&frame.payload) {
                Ok(ControlFrame::StdinClosed) => Some(Part::StdinClosed),
                Ok(ControlFrame::StdoutClosed) => Some(Part::StdoutClosed),
                Ok(ControlFrame::StdinSpooled { offset, len }) => Some(match self.spooled(offset, len)? {
                    Some(bytes) => Part::Bytes(Kind::Stdin, bytes),
                    None => Part::Hole { stdin: true },
                }),
                _ => None,
            },
            Kind::Other(_) => None,
        })
    }

    /// Bytes of the spool; `None` if they are not all there.
    fn spooled(&mut self, offset: u64, len: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.spool.take() {
            Some(file) => file,
            None => match File::open(&self.spool_path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let whole =
            offset.checked_add(len).is_some_and(|end| file.metadata().is_ok_and(|file| end <= file.len()));
        let bytes = match usize::try_from(len) {
            Ok(len) if whole => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, offset)?;
                Some(bytes)
            }
            _ => None,
        };
        self.spool = Some(file);
        Ok(bytes)
    }
}

fn hole(from: u64, to: u64) -> Said {
    Said { from, to, at_micros: 0, part: Part::Hole { stdin: true } }
}
