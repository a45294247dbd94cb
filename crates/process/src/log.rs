//! Reading an attempt's frame log, live or finished, across rotation. Positions are logical offsets, which
//! survive rotation; writing is the shim's business, meaning is the provider's.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use subagent_core::frame::control::{segment_index, segment_name};
use subagent_core::frame::{
    Decoder, FRAME_HEADER_LEN, Frame, FrameError, Gap, Item, Kind, MAX_PAYLOAD, SEGMENT_HEADER_LEN,
    SegmentHeader,
};

/// Bytes read from a segment at once.
const CHUNK: usize = 128 * 1024;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A file cannot be read.
    #[error("cannot read the frame log")]
    Io(#[from] io::Error),
    /// The log is of a newer version.
    #[error(transparent)]
    Format(#[from] FrameError),
}

/// What a reader finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogItem {
    /// A frame.
    Frame(Frame),
    /// Damaged bytes were skipped.
    Corruption {
        /// Logical offset of the first bad byte.
        offset: u64,
        /// How many bytes were skipped.
        bytes: u64,
    },
    /// This part of the log was deleted by rotation. Its output bytes are counted in later gap frames and
    /// in the exit record.
    Missing {
        /// Logical offset of the first missing byte.
        from: u64,
        /// Logical offset of the first byte that is there again.
        to: u64,
    },
}

#[derive(Debug)]
struct Open {
    index: u32,
    file: File,
    decoder: Decoder,
    ended: bool,
}

/// A reader of one attempt's log.
#[derive(Debug)]
pub struct FrameLog {
    dir: PathBuf,
    position: u64,
    open: Option<Open>,
    /// Segments after this index are yet to be read.
    after: Option<u32>,
    buffer: Vec<u8>,
}

impl FrameLog {
    /// Reads the log in an attempt's directory from its beginning. The directory may be empty yet.
    pub fn open(dir: impl Into<PathBuf>) -> Self {
        Self::open_at(dir, 0)
    }

    /// Reads from a logical offset at which a frame begins, as [`position`](Self::position) tells.
    pub fn open_at(dir: impl Into<PathBuf>, position: u64) -> Self {
        Self { dir: dir.into(), position, open: None, after: None, buffer: vec![0; CHUNK] }
    }

    /// Logical offset after the last item returned.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next item, or `None` at the end of what is written so far; more may come later. A frame that is
    /// still being written is not an error.
    pub fn next_item(&mut self) -> Result<Option<LogItem>, LogError> {
        loop {
            let Some(open) = &mut self.open else {
                match self.open_next()? {
                    Opened::Nothing => return Ok(None),
                    Opened::Missing(item) => return Ok(Some(item)),
                    Opened::Segment => continue,
                }
            };
            match open.decoder.next_item()? {
                Some(Item::Frame(frame)) => {
                    if frame.end() <= self.position {
                        // Before the offset asked for.
                        continue;
                    }
                    self.position = frame.end();
                    return Ok(Some(LogItem::Frame(frame)));
                }
                Some(Item::Corruption { offset, bytes }) => {
                    if offset + bytes <= self.position {
                        continue;
                    }
                    self.position = offset + bytes;
                    return Ok(Some(LogItem::Corruption { offset, bytes }));
                }
                // Cut off by a death of the shim, with a later segment: impossible but for damage.
                Some(Item::Incomplete { offset, bytes }) => {
                    return Ok(Some(LogItem::Corruption { offset, bytes }));
                }
                None if open.ended => {
                    self.after = Some(open.index);
                    self.open = None;
                    continue;
                }
                None => {}
            }
            let count = open.file.read(&mut self.buffer)?;
            if count > 0 {
                open.decoder.push(&self.buffer[..count]);
                continue;
            }
            // At the end of a segment: if a later one exists, this one is finished.
            let index = open.index;
            if self.segments()?.last().is_none_or(|(last, _)| *last <= index) {
                return Ok(None);
            }
            if let Some(open) = &mut self.open {
                // Written between the last read and the rotation.
                let count = open.file.read(&mut self.buffer)?;
                if count > 0 {
                    open.decoder.push(&self.buffer[..count]);
                } else {
                    open.decoder.end();
                    open.ended = true;
                }
            }
        }
    }

    /// Opens the first segment that holds the position, or the first after it.
    fn open_next(&mut self) -> Result<Opened, LogError> {
        let segments = self.segments()?;
        let mut wanted = None;
        for (index, path) in segments {
            if self.after.is_some_and(|after| index <= after) {
                continue;
            }
            let Some((file, base)) = open_segment(&path)? else {
                continue;
            };
            if base.is_some_and(|base| base > self.position) && wanted.is_some() {
                break;
            }
            wanted = Some((index, file, base));
            if self.after.is_some() || base.is_some_and(|base| base > self.position) {
                // Reading on: segments come in order, one after the other.
                break;
            }
        }
        let Some((index, mut file, base)) = wanted else {
            return Ok(Opened::Nothing);
        };
        let start = base.unwrap_or(self.position);
        let decoder = if start < self.position && base.is_some() {
            file.seek(SeekFrom::Start(SEGMENT_HEADER_LEN as u64 + (self.position - start)))?;
            Decoder::at_frame(self.position)
        } else {
            file.seek(SeekFrom::Start(0))?;
            Decoder::new(self.position)
        };
        self.open = Some(Open { index, file, decoder, ended: false });
        if start > self.position {
            let from = self.position;
            self.position = start;
            return Ok(Opened::Missing(LogItem::Missing { from, to: start }));
        }
        Ok(Opened::Segment)
    }

    fn segments(&self) -> io::Result<Vec<(u32, PathBuf)>> {
        segments(&self.dir)
    }
}

fn segments(dir: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        if let Some(index) = entry?.file_name().to_str().and_then(segment_index) {
            found.push((index, dir.join(segment_name(index))));
        }
    }
    found.sort_unstable_by_key(|(index, _)| *index);
    Ok(found)
}

/// The last whole frame of a log, found from its end without reading all of it.
pub(crate) fn last_frame(dir: &Path) -> Result<Option<Frame>, LogError> {
    for (_, path) in segments(dir)?.iter().rev() {
        let Some((mut file, _)) = open_segment(path)? else {
            continue;
        };
        let length = file.metadata()?.len();
        // Room for the longest frame and one more, so that the last one is whole.
        let window = 2 * (FRAME_HEADER_LEN + MAX_PAYLOAD) as u64;
        let start = length.saturating_sub(window).max(SEGMENT_HEADER_LEN as u64);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(window).read_to_end(&mut bytes)?;
        let mut decoder = Decoder::at_frame(start);
        decoder.push(&bytes);
        decoder.end();
        let mut last = None;
        while let Some(item) = decoder.next_item()? {
            if let Item::Frame(frame) = item {
                last = Some(frame);
            }
        }
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}

enum Opened {
    Nothing,
    Missing(LogItem),
    Segment,
}

/// Opens a segment and reads its base; `None` if it was deleted meanwhile or has no header yet.
fn open_segment(path: &Path) -> Result<Option<(File, Option<u64>)>, LogError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut header = [0; SEGMENT_HEADER_LEN];
    let mut filled = 0;
    while filled < header.len() {
        match file.read(&mut header[filled..])? {
            0 => return Ok(None),
            count => filled += count,
        }
    }
    Ok(Some((file, SegmentHeader::decode(&header).map(|header| header.base))))
}

/// The beginning and the end of one stream, and what lies between as a count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamText {
    /// First bytes.
    pub head: Vec<u8>,
    /// Last bytes that are not in `head`.
    pub tail: Vec<u8>,
    /// Bytes of this stream in the log, shown or not.
    pub logged: u64,
    /// Bytes between head and tail that are in the log and were left out here.
    pub omitted: u64,
    /// Bytes of any stream dropped before they could be read (rotation, full disk), as far as the log
    /// tells.
    pub dropped: u64,
    /// Damaged bytes skipped.
    pub damaged: u64,
}

/// Reads one stream of an attempt: at most `head` bytes from its beginning and `tail` from its end.
pub fn read_stream(dir: &Path, kind: Kind, head: usize, tail: usize) -> Result<StreamText, LogError> {
    let mut log = FrameLog::open(dir);
    let mut out = StreamText::default();
    let mut last: VecDeque<u8> = VecDeque::new();
    // What comes after a gap is no part of the beginning.
    let mut head = head;
    while let Some(item) = log.next_item()? {
        match item {
            LogItem::Frame(frame) if frame.kind == kind => {
                out.logged += frame.payload.len() as u64;
                let room = head.saturating_sub(out.head.len()).min(frame.payload.len());
                let (first, rest) = frame.payload.split_at(room);
                out.head.extend_from_slice(first);
                let rest = &rest[rest.len().saturating_sub(tail)..];
                last.extend(rest);
                let surplus = last.len().saturating_sub(tail);
                last.drain(..surplus);
            }
            LogItem::Frame(frame) if frame.kind == Kind::Gap => {
                out.dropped = out.dropped.max(Gap::decode(&frame.payload).map_or(0, |gap| gap.total));
                head = head.min(out.head.len());
            }
            LogItem::Corruption { bytes, .. } => out.damaged += bytes,
            LogItem::Missing { .. } => head = head.min(out.head.len()),
            LogItem::Frame(_) => {}
        }
    }
    out.tail = last.into();
    out.omitted = out.logged - (out.head.len() + out.tail.len()) as u64;
    Ok(out)
}
