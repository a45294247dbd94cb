//! Outputs that are too long for an answer: the beginning and the end are told, the whole goes to a file that the `read`
//! tool can open. Files are bounded too.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use super::{MAX_OUTPUT, text};

/// The most that is kept of one output: 64 MiB.
const MAX_FILE: u64 = 64 << 20;
/// How much of the beginning is told.
const HEAD: usize = MAX_OUTPUT / 4;
/// How much of the end is told: what went wrong usually stands there.
const TAIL: usize = MAX_OUTPUT - HEAD;

/// Where long outputs are kept.
#[derive(Debug)]
pub(super) struct Spill {
    directory: Option<PathBuf>,
}

impl Spill {
    pub(super) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    /// A text of any length, bounded.
    pub(super) fn bounded(&self, tool: &str, whole: &str) -> String {
        if whole.len() <= MAX_OUTPUT {
            return whole.to_owned();
        }
        let mut capture = Capture::new(self, tool);
        capture.push(whole.as_bytes());
        capture.told()
    }

    fn create(&self, tool: &str) -> Option<(PathBuf, File)> {
        let directory = self.directory.as_ref()?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).ok()?;
        let path = directory.join(format!("{tool}-{}.txt", uuid::Uuid::now_v7().simple()));
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        Some((path, file))
    }
}

/// An output as it comes in. Its memory is bounded.
pub(super) struct Capture {
    tool: String,
    spill: Spill,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    file: Option<(PathBuf, File)>,
    /// How much is in the file.
    kept: u64,
}

impl Capture {
    pub(super) fn new(spill: &Spill, tool: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            spill: Spill::new(spill.directory.clone()),
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            file: None,
            kept: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let before = self.total;
        self.total += bytes.len() as u64;
        if before <= MAX_OUTPUT as u64 && self.total > MAX_OUTPUT as u64 {
            self.file = self.spill.create(&self.tool);
            let (head, (first, second)) = (self.head.clone(), self.tail.as_slices());
            let (first, second) = (first.to_vec(), second.to_vec());
            for part in [head, first, second] {
                self.keep(&part);
            }
        }
        if self.file.is_some() {
            self.keep(bytes);
        }
        let (to_head, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(to_head);
        let rest = &rest[rest.len().saturating_sub(TAIL)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(TAIL);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// How many bytes have come.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some((_, file)) = &mut self.file else { return };
        let room = usize::try_from(MAX_FILE - self.kept).unwrap_or(usize::MAX);
        let part = &bytes[..bytes.len().min(room)];
        if file.write_all(part).is_ok() {
            self.kept += part.len() as u64;
        } else {
            // A full disk: what was cut is lost, and nothing else.
            self.file = None;
        }
    }

    /// What is told: all of it, or the beginning and the end with what lies between named.
    pub(super) fn told(&mut self) -> String {
        let tail = self.tail.make_contiguous();
        if self.total <= MAX_OUTPUT as u64 {
            return String::from_utf8_lossy(&[&self.head[..], tail].concat()).into_owned();
        }
        // At a line where there is one near.
        let end = self.head.iter().rposition(|&byte| byte == b'\n').filter(|&at| at + 2048 > HEAD);
        let head = &self.head[..end.map_or(self.head.len(), |at| at + 1)];
        let begin = tail.iter().take(2048).position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let tail = &tail[begin..];
        let left_out = self.total - (head.len() + tail.len()) as u64;
        let whole = match &self.file {
            Some((path, _)) if self.kept == self.total => {
                format!(
                    "the whole output is in {}; read it with offset and limit, or grep it",
                    path.display()
                )
            }
            Some((path, _)) => format!(
                "the first {} of {} are in {}",
                text::size(self.kept),
                text::size(self.total),
                path.display()
            ),
            None => String::from("the rest was not kept; ask for less at a time"),
        };
        let head = text::head(head, head.len());
        let break_line = if head.ends_with('\n') { "" } else { "\n" };
        let tail = String::from_utf8_lossy(tail);
        format!("{head}{break_line}[... {} left out here: {whole} ...]\n{tail}", text::size(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_told_whole() {
        let spill = Spill::new(None);
        let text = "ä\n".repeat(MAX_OUTPUT / 3);
        assert_eq!(spill.bounded("x", &text), text);
    }

    #[test]
    fn what_does_not_fit_is_told_from_both_ends_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill::new(Some(directory.path().join("deep/er")));
        let mut capture = Capture::new(&spill, "bash");
        let mut whole = Vec::new();
        for number in 0..40_000 {
            let line = format!("line {number}\n");
            capture.push(line.as_bytes());
            whole.extend(line.bytes());
        }
        let told = capture.told();
        assert!(told.len() < MAX_OUTPUT + 500 && told.starts_with("line 0\nline 1\n"), "{}", told.len());
        assert!(told.ends_with("line 39999\n") && told.contains("left out here"), "{told}");
        let file =
            std::fs::read_dir(directory.path().join("deep/er")).unwrap().next().unwrap().unwrap().path();
        assert!(told.contains(file.to_str().unwrap()));
        assert_eq!(std::fs::read(file).unwrap(), whole);
    }

    #[test]
    fn one_piece_longer_than_all_bounds() {
        let spill = Spill::new(None);
        let told = spill.bounded("x", &"x".repeat(1 << 20));
        assert!(told.len() < MAX_OUTPUT + 500 && told.contains("was not kept"), "{}", told.len());
    }
}
