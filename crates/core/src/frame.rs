//! The frame log of an attempt: a checksummed, append-only record of everything that went to and came
//! from the child. This module holds the format, the encoder and the incremental decoder; [`control`]
//! holds the shim's messages and [`lines`] the splitter for JSON lines. Files, sockets and rotation
//! are the business of the shim and of the readers, not of this module.
//!
//! A segment is a header (magic, version, logical base) followed by frames. Logical offsets count
//! frame bytes only, so a position survives rotation:
//!
//! ```text
//! header  magic 8 | major u16 | minor u16 | base u64 | crc32 of the 20 bytes before
//! frame   sync 4 | crc32 of the rest | len u32 | kind u8 | micros since epoch u64 | payload
//! ```
//!
//! All numbers are little-endian.

pub mod control;
mod decode;
pub mod lines;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, Item};

/// First bytes of every segment.
pub const MAGIC: [u8; 8] = *b"SUBAGFL\n";
/// Major version of the format; a reader refuses a newer one.
pub const VERSION_MAJOR: u16 = 1;
/// Minor version of the format; a reader accepts a newer one.
pub const VERSION_MINOR: u16 = 0;
/// Length of a segment's header in bytes.
pub const SEGMENT_HEADER_LEN: usize = 24;
/// Length of a frame without its payload in bytes.
pub const FRAME_HEADER_LEN: usize = 21;
/// Largest payload of one frame in bytes.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// First bytes of every frame; the first one never occurs in UTF-8 text.
pub const SYNC: [u8; 4] = [0xF5, 0x5A, 0xA5, 0x1E];

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes of the child's standard output.
    Stdout,
    /// Bytes of the child's standard error.
    Stderr,
    /// Bytes given to the child's standard input.
    Stdin,
    /// A [`control::ControlFrame`] as JSON text.
    Control,
    /// Output was dropped; the payload is a [`Gap`].
    Gap,
    /// A kind of a newer version; skip it.
    Other(u8),
}

impl Kind {
    /// The byte on disk.
    pub fn code(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Stdin => 3,
            Self::Control => 4,
            Self::Gap => 5,
            Self::Other(code) => code,
        }
    }

    /// The kind of a byte on disk.
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Stdout,
            2 => Self::Stderr,
            3 => Self::Stdin,
            4 => Self::Control,
            5 => Self::Gap,
            other => Self::Other(other),
        }
    }
}

/// One frame of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Logical offset of the frame's first byte.
    pub offset: u64,
    /// What it holds.
    pub kind: Kind,
    /// When it was written, in microseconds since the epoch.
    pub at_micros: u64,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Logical offset of the byte after this frame.
    pub fn end(&self) -> u64 {
        self.offset + (FRAME_HEADER_LEN + self.payload.len()) as u64
    }
}

/// Content of a gap frame: output bytes that are not in the log. Those that could not be written are missing where the
/// frame stands; those that were deleted with the oldest segment are missing further up, where a reader finds that out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Bytes that are missing here. Logs of the first version count those that were deleted further up as well.
    pub bytes: u64,
    /// Bytes dropped since the attempt began, here and further up.
    pub total: u64,
}

impl Gap {
    /// The payload of a gap frame.
    pub fn encode(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.bytes.to_le_bytes());
        out[8..].copy_from_slice(&self.total.to_le_bytes());
        out
    }

    /// Reads the payload of a gap frame; `None` if it is too short.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        Some(Self { bytes: read_u64(payload, 0)?, total: read_u64(payload, 8)? })
    }
}

/// Why a segment cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The segment was written by a newer version in a format this one does not know.
    #[error("frame log has format version {found}, this program reads up to {supported}")]
    NewerVersion {
        /// Major version of the segment.
        found: u16,
        /// Newest major version known here.
        supported: u16,
    },
}

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Logical offset of the segment's first frame.
    pub base: u64,
}

impl SegmentHeader {
    /// A header of this version.
    pub fn new(base: u64) -> Self {
        Self { major: VERSION_MAJOR, minor: VERSION_MINOR, base }
    }

    /// The bytes on disk.
    pub fn encode(self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut out = [0; SEGMENT_HEADER_LEN];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.major.to_le_bytes());
        out[10..12].copy_from_slice(&self.minor.to_le_bytes());
        out[12..20].copy_from_slice(&self.base.to_le_bytes());
        let crc = crc32fast::hash(&out[..20]);
        out[20..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header; `None` if it is short, damaged, or no header at all.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SEGMENT_HEADER_LEN)?;
        if bytes[..8] != MAGIC || read_u32(bytes, 20)? != crc32fast::hash(&bytes[..20]) {
            return None;
        }
        Some(Self {
            major: u16::from_le_bytes([bytes[8], bytes[9]]),
            minor: u16::from_le_bytes([bytes[10], bytes[11]]),
            base: read_u64(bytes, 12)?,
        })
    }
}

/// The bytes that precede `payload` on disk. `payload` must not exceed [`MAX_PAYLOAD`]; a longer one
/// would be unreadable, so the caller splits.
pub fn frame_header(kind: Kind, at_micros: u64, payload: &[u8]) -> [u8; FRAME_HEADER_LEN] {
    debug_assert!(payload.len() <= MAX_PAYLOAD);
    let mut out = [0; FRAME_HEADER_LEN];
    out[..4].copy_from_slice(&SYNC);
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out[8..12].copy_from_slice(&len.to_le_bytes());
    out[12] = kind.code();
    out[13..21].copy_from_slice(&at_micros.to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&out[8..]);
    crc.update(payload);
    out[4..8].copy_from_slice(&crc.finalize().to_le_bytes());
    out
}

/// Appends whole frames for `payload`, split at [`MAX_PAYLOAD`]; an empty payload makes one frame.
pub fn encode_into(out: &mut Vec<u8>, kind: Kind, at_micros: u64, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (head, tail) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        out.extend_from_slice(&frame_header(kind, at_micros, head));
        out.extend_from_slice(head);
        rest = tail;
        if rest.is_empty() {
            return;
        }
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
