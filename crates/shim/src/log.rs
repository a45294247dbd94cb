//! The writer of an attempt's frame log. It bounds the log on disk: the first segment is kept for ever,
//! later ones form a ring of which the oldest is deleted. It never fails its caller: what cannot be
//! written is dropped, counted, and noted in the log as soon as that works again.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use subagent_core::frame::control::{ControlFrame, segment_name};
use subagent_core::frame::{
    FRAME_HEADER_LEN, Gap, Kind, MAX_PAYLOAD, SEGMENT_HEADER_LEN, SegmentHeader, frame_header,
};

use super::sys;

/// Below this a log would rotate with every other frame.
const MIN_LIMIT: u64 = 256 * 1024;
/// Share of the first segment.
const FIRST_SHARE: u64 = 4;
/// Share of each segment of the ring.
const RING_SHARE: u64 = 8;

#[derive(Clone, Copy, Default)]
struct Segment {
    index: u32,
    /// Bytes on disk.
    size: u64,
    /// Bytes of the child's output among them.
    output: u64,
}

pub(crate) struct LogWriter {
    dir: PathBuf,
    file: File,
    current: Segment,
    /// Finished segments of the ring, oldest first; the first segment is never among them.
    ring: VecDeque<Segment>,
    /// Bytes of the first segment once it is finished.
    first: u64,
    limit: u64,
    end: u64,
    dropped: u64,
    noted: u64,
    /// What could not be written since the last note: it is missing right here.
    missing: u64,
    error: Option<i32>,
}

impl LogWriter {
    /// Creates the log. An existing one is refused: an attempt never runs twice.
    pub(crate) fn create(dir: &Path, limit: u64) -> io::Result<Self> {
        let file = match create_segment(dir, 0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(dir)?;
                create_segment(dir, 0)?
            }
            other => other?,
        };
        let mut log = Self {
            dir: dir.to_owned(),
            file,
            current: Segment::default(),
            ring: VecDeque::new(),
            first: 0,
            limit: limit.max(MIN_LIMIT),
            end: 0,
            dropped: 0,
            noted: 0,
            missing: 0,
            error: None,
        };
        sys::write_all_vectored(&log.file, [&SegmentHeader::new(0).encode(), &[], &[]])?;
        log.current.size = SEGMENT_HEADER_LEN as u64;
        Ok(log)
    }

    /// Bound of the log on disk, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Logical end of the log.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Output bytes that are not in the log any more.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The first error met.
    pub(crate) fn error(&self) -> Option<i32> {
        self.error
    }

    /// Notes an error of something that belongs to the log (the spool).
    pub(crate) fn note_error(&mut self, error: &io::Error) {
        self.error.get_or_insert(sys::errno(error));
    }

    /// Appends what must not take effect without being in the log; false if it cannot be. Old output is given up for
    /// it.
    pub(crate) fn note_first(&mut self, kind: Kind, payload: &[u8]) -> bool {
        self.note_gap();
        let Err(error) = self.append(kind, payload, 0) else {
            return true;
        };
        self.note_error(&error);
        self.free_space();
        self.append(kind, payload, 0).is_ok()
    }

    /// Appends bytes the child wrote.
    pub(crate) fn stream(&mut self, kind: Kind, bytes: &[u8]) {
        for part in bytes.chunks(MAX_PAYLOAD) {
            self.note_gap();
            if let Err(error) = self.append(kind, part, part.len() as u64) {
                self.note_error(&error);
                self.dropped += part.len() as u64;
                self.missing += part.len() as u64;
            }
        }
    }

    /// Appends a note about the attempt.
    pub(crate) fn control(&mut self, note: &ControlFrame) {
        let Ok(text) = serde_json::to_vec(note) else {
            return;
        };
        self.note_gap();
        if let Err(error) = self.append(Kind::Control, &text, 0) {
            self.note_error(&error);
        }
    }

    /// Deletes what can be missed most, for a full disk: the oldest segments of the ring.
    pub(crate) fn free_space(&mut self) {
        while self.drop_oldest() {}
    }

    /// Makes the log durable, as far as possible.
    pub(crate) fn sync(&self) {
        // The exit record counts; a log that cannot be synced is still read after anything but a power cut.
        let _ = self.file.sync_data();
    }

    fn note_gap(&mut self) {
        if self.dropped == self.noted {
            return;
        }
        let gap = Gap { bytes: self.missing, total: self.dropped };
        if self.append(Kind::Gap, &gap.encode(), 0).is_ok() {
            self.noted = gap.total;
            self.missing -= gap.bytes;
        }
    }

    fn append(&mut self, kind: Kind, payload: &[u8], output: u64) -> io::Result<()> {
        let length = (FRAME_HEADER_LEN + payload.len()) as u64;
        let share = if self.current.index == 0 { FIRST_SHARE } else { RING_SHARE };
        let full = self.current.size + length > (self.limit / share);
        if full && self.current.size > SEGMENT_HEADER_LEN as u64 {
            self.rotate()?;
        }
        let header = frame_header(kind, sys::now_micros(), payload);
        if let Err(error) = sys::write_all_vectored(&self.file, [&header, payload, &[]]) {
            // Cut off what was written of it. If that fails too, readers resynchronise.
            let _ = self.file.set_len(self.current.size);
            return Err(error);
        }
        self.current.size += length;
        self.current.output += output;
        self.end += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let index = self.current.index + 1;
        // Room for the next segment is made before it exists, so the bound holds at every moment.
        while self.on_disk() + self.limit / RING_SHARE > self.limit && self.drop_oldest() {}
        let file = create_segment(&self.dir, index)?;
        let header = SegmentHeader::new(self.end).encode();
        if let Err(error) = sys::write_all_vectored(&file, [&header, &[], &[]]) {
            let _ = std::fs::remove_file(self.dir.join(segment_name(index)));
            return Err(error);
        }
        if self.current.index == 0 {
            self.first = self.current.size;
        } else {
            self.ring.push_back(self.current);
        }
        self.file = file;
        self.current = Segment { index, size: SEGMENT_HEADER_LEN as u64, output: 0 };
        self.note_gap();
        Ok(())
    }

    fn on_disk(&self) -> u64 {
        self.first + self.current.size + self.ring.iter().map(|segment| segment.size).sum::<u64>()
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.ring.pop_front() else {
            return false;
        };
        if std::fs::remove_file(self.dir.join(segment_name(oldest.index))).is_ok() {
            self.dropped += oldest.output;
        }
        true
    }
}

fn create_segment(dir: &Path, index: u32) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(dir.join(segment_name(index)))
}
