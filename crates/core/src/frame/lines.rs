//! A bounded splitter for the JSON lines a child prints. It holds at most one line of the cap's size;
//! an overlong line is skipped and counted, invalid UTF-8 is replaced and counted. It knows nothing
//! about what the lines mean.

/// One line, without its line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The text.
    pub text: String,
    /// Whether bytes that are not UTF-8 were replaced.
    pub lossy: bool,
}

/// What the splitter could not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineFaults {
    /// Lines over the cap.
    pub overlong_lines: u64,
    /// Bytes of those lines, and of lines that a hole is in.
    pub overlong_bytes: u64,
    /// Lines with bytes that are not UTF-8.
    pub lossy_lines: u64,
}

/// Splits a byte stream into lines.
#[derive(Debug)]
pub struct LineSplitter {
    cap: usize,
    buffer: Vec<u8>,
    skipping: bool,
    faults: LineFaults,
}

impl LineSplitter {
    /// A splitter that keeps lines of at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { cap, buffer: Vec::new(), skipping: false, faults: LineFaults::default() }
    }

    /// What was skipped or replaced so far.
    pub fn faults(&self) -> LineFaults {
        self.faults
    }

    /// Takes bytes and hands every finished line to `each`. Empty lines are handed over as well.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Line)) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.take(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(line) = self.line_end() {
                each(line);
            }
        }
        self.take(rest);
    }

    /// A part of the stream is not there: what was begun before it has no end, and what follows up to the next line end has
    /// no beginning. Neither is a line, nor are the two together.
    pub fn hole(&mut self) {
        self.faults.overlong_bytes += self.buffer.len() as u64;
        self.buffer = Vec::new();
        self.skipping = true;
    }

    /// The last line if the stream ended without a line end.
    pub fn finish(&mut self) -> Option<Line> {
        if self.buffer.is_empty() && !self.skipping {
            return None;
        }
        self.line_end()
    }

    fn take(&mut self, bytes: &[u8]) {
        if !self.skipping && self.buffer.len() + bytes.len() > self.cap {
            self.skipping = true;
            self.faults.overlong_lines += 1;
            self.faults.overlong_bytes += self.buffer.len() as u64;
            self.buffer = Vec::new();
        }
        if self.skipping {
            self.faults.overlong_bytes += bytes.len() as u64;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    fn line_end(&mut self) -> Option<Line> {
        if std::mem::take(&mut self.skipping) {
            return None;
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        let line = match String::from_utf8(std::mem::take(&mut self.buffer)) {
            Ok(text) => Line { text, lossy: false },
            Err(error) => {
                self.faults.lossy_lines += 1;
                Line { text: String::from_utf8_lossy(error.as_bytes()).into_owned(), lossy: true }
            }
        };
        Some(line)
    }
}
