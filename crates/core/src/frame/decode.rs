//! The incremental decoder of one segment. It never panics, never allocates from a length it has not
//! verified, and after damage goes on at the next frame that checks.

use super::{
    FRAME_HEADER_LEN, Frame, FrameError, Kind, MAX_PAYLOAD, SEGMENT_HEADER_LEN, SYNC, SegmentHeader,
    VERSION_MAJOR, read_u32, read_u64,
};

/// What the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A frame whose checksum holds.
    Frame(Frame),
    /// Bytes that are no frame; reported once the next good frame or the end is known.
    Corruption {
        /// Logical offset of the first bad byte.
        offset: u64,
        /// How many bytes were skipped.
        bytes: u64,
    },
    /// The end of the segment cuts a frame: it is still being written, or the writer was killed.
    Incomplete {
        /// Logical offset of the cut frame.
        offset: u64,
        /// How many of its bytes are there.
        bytes: u64,
    },
}

enum Candidate {
    Frame { total: usize },
    No,
    NeedMore,
}

/// Decodes one segment from chunks of any size.
///
/// Call [`push`](Self::push) with bytes and [`next_item`](Self::next_item) until it says `None`; at the
/// end of the segment call [`end`](Self::end) and drain again.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    skipped: u64,
    header_pending: bool,
    ended: bool,
}

impl Decoder {
    /// A decoder that expects a segment header; `fallback_base` is the logical offset to count from if
    /// the header is damaged.
    pub fn new(fallback_base: u64) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            offset: fallback_base,
            skipped: 0,
            header_pending: true,
            ended: false,
        }
    }

    /// A decoder for bytes that begin at a frame boundary at logical offset `offset`.
    pub fn at_frame(offset: u64) -> Self {
        Self { header_pending: false, ..Self::new(offset) }
    }

    /// Logical offset of the next byte to be looked at; what was returned lies before it.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Gives more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Says that no more bytes come.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The next item, or `None` if more bytes are needed (or everything was returned after `end`).
    ///
    /// # Errors
    ///
    /// The segment has a newer major version; nothing of it can be read.
    pub fn next_item(&mut self) -> Result<Option<Item>, FrameError> {
        if self.header_pending && !self.take_header()? {
            return Ok(None);
        }
        loop {
            match self.candidate(self.start) {
                Candidate::Frame { total } => {
                    if let Some(item) = self.take_skipped() {
                        return Ok(Some(item));
                    }
                    return Ok(Some(Item::Frame(self.take_frame(total))));
                }
                Candidate::No => {
                    let next = self.next_sync(self.start + 1);
                    self.skip_to(next);
                }
                Candidate::NeedMore if !self.ended => return Ok(None),
                Candidate::NeedMore => {
                    if let Some(next) = self.next_whole_frame(self.start + 1) {
                        self.skip_to(next);
                        continue;
                    }
                    if let Some(item) = self.take_skipped() {
                        return Ok(Some(item));
                    }
                    let bytes = (self.buffer.len() - self.start) as u64;
                    if bytes == 0 {
                        return Ok(None);
                    }
                    let offset = self.offset;
                    self.start = self.buffer.len();
                    self.offset += bytes;
                    return Ok(Some(Item::Incomplete { offset, bytes }));
                }
            }
        }
    }

    /// Takes the segment header off the front; false if it is not there yet.
    fn take_header(&mut self) -> Result<bool, FrameError> {
        if self.buffer.len() < SEGMENT_HEADER_LEN && !self.ended {
            return Ok(false);
        }
        self.header_pending = false;
        if let Some(header) = SegmentHeader::decode(&self.buffer) {
            if header.major > VERSION_MAJOR {
                return Err(FrameError::NewerVersion { found: header.major, supported: VERSION_MAJOR });
            }
            self.offset = header.base;
            self.start = SEGMENT_HEADER_LEN;
        } else if self.buffer.len() >= SEGMENT_HEADER_LEN {
            // A damaged header costs the base, not the frames. Its bytes are outside the logical
            // count, so they are reported without moving the offset.
            self.start = SEGMENT_HEADER_LEN;
            self.skipped = SEGMENT_HEADER_LEN as u64;
            self.offset += SEGMENT_HEADER_LEN as u64;
        }
        Ok(true)
    }

    fn candidate(&self, at: usize) -> Candidate {
        let rest = &self.buffer[at.min(self.buffer.len())..];
        let known = rest.len().min(SYNC.len());
        if rest[..known] != SYNC[..known] {
            return Candidate::No;
        }
        let (Some(crc), Some(len)) = (read_u32(rest, 4), read_u32(rest, 8)) else {
            return Candidate::NeedMore;
        };
        let len = len as usize;
        if len > MAX_PAYLOAD {
            return Candidate::No;
        }
        let total = FRAME_HEADER_LEN + len;
        let Some(body) = rest.get(8..total) else {
            return Candidate::NeedMore;
        };
        if crc32fast::hash(body) == crc { Candidate::Frame { total } } else { Candidate::No }
    }

    /// The next place at or after `from` where a frame may begin; the end of the buffer if there is none.
    fn next_sync(&self, from: usize) -> usize {
        let mut at = from;
        while at < self.buffer.len() {
            let rest = &self.buffer[at..];
            let known = rest.len().min(SYNC.len());
            if rest[..known] == SYNC[..known] {
                return at;
            }
            at += 1;
        }
        self.buffer.len()
    }

    fn next_whole_frame(&self, from: usize) -> Option<usize> {
        let mut at = self.next_sync(from);
        while at < self.buffer.len() {
            if matches!(self.candidate(at), Candidate::Frame { .. }) {
                return Some(at);
            }
            at = self.next_sync(at + 1);
        }
        None
    }

    fn skip_to(&mut self, at: usize) {
        let bytes = (at - self.start) as u64;
        self.skipped += bytes;
        self.offset += bytes;
        self.start = at;
    }

    fn take_skipped(&mut self) -> Option<Item> {
        if self.skipped == 0 {
            return None;
        }
        let bytes = std::mem::take(&mut self.skipped);
        Some(Item::Corruption { offset: self.offset - bytes, bytes })
    }

    fn take_frame(&mut self, total: usize) -> Frame {
        let bytes = &self.buffer[self.start..self.start + total];
        let frame = Frame {
            offset: self.offset,
            kind: Kind::from_code(bytes[12]),
            at_micros: read_u64(bytes, 13).unwrap_or(0),
            payload: bytes[FRAME_HEADER_LEN..].to_vec(),
        };
        self.start += total;
        self.offset += total as u64;
        frame
    }
}
