//! `read`: lines of a text file. Memory is bounded whatever the file is; what was left out is said, and how to get it.

use std::io::{BufRead, BufReader, Read as _, Seek as _};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::workspace::{Refused, Want};
use super::{Kind, MAX_OUTPUT, Output, Tool, input, text};

/// The most lines of one call.
const MAX_LINES: u64 = 2000;
/// The most bytes of one line.
const MAX_LINE: usize = 2000;
/// How far is looked for a line: 512 MiB.
const MAX_SCAN: u64 = 512 << 20;
/// Up to this size all lines are counted.
const COUNTED: u64 = 16 << 20;
/// How much is looked at to tell text from other things.
const SNIFF: usize = 8 * 1024;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filePath")]
    path: String,
    #[serde(default, deserialize_with = "input::number")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "input::number")]
    limit: Option<u64>,
}

pub(super) struct Read;

impl Tool for Read {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> &'static str {
        "Read a text file. Gives at most 2000 lines and 50 KiB at a time, exactly as they are in the file (no line \
         numbers); a note in square brackets at the end says when there is more and with which offset to go on. Lines \
         over 2000 bytes are cut. Binary files are refused."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file, relative to the working directory or absolute" },
                "offset": { "type": "integer", "minimum": 1, "description": "The first line to read; lines count from 1" },
                "limit": { "type": "integer", "minimum": 1, "description": "How many lines to read" }
            },
            "required": ["path"]
        })
    }

    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn title(&self, input: &Value) -> String {
        let path = input::text(input, &["path", "file_path", "filePath"]);
        match (input::number_of(input, "offset"), input::number_of(input, "limit")) {
            (None, None) => format!("read {path}"),
            (from, None) => format!("read {path} from {}", from.unwrap_or(1).max(1)),
            (from, Some(limit)) => {
                let from = from.unwrap_or(1).max(1);
                format!("read {path} {from}-{}", from.saturating_add(limit.max(1) - 1))
            }
        }
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        cx.look(move |cx| {
            let input: Input = input::parse("read", input)?;
            let place = cx.locate(&input.path, Want::Look)?;
            let opened = cx.workspace.open_file(&place)?;
            let io = |source| Refused::Io { path: place.shown.clone(), what: "read", source };
            let mut file = opened.file;
            let mut sniffed = Vec::with_capacity(SNIFF);
            (&file).take(SNIFF as u64).read_to_end(&mut sniffed).map_err(io)?;
            if let Some(kind) = not_text(&sniffed) {
                return Err(Refused::Other(format!(
                    "{} is {kind}, {}; it is not shown as text",
                    place.shown,
                    text::size(opened.length)
                )));
            }
            file.rewind().map_err(io)?;
            let from = input.offset.unwrap_or(1).max(1);
            let limit = input.limit.unwrap_or(MAX_LINES).clamp(1, MAX_LINES);
            let cancelled = || cx.cancel.is_cancelled();
            let window =
                Window::of(BufReader::with_capacity(64 * 1024, file), from, limit, &cancelled).map_err(io)?;
            if cancelled() {
                return Err(Refused::Cancelled);
            }
            let told = window.told(&place.shown, from, opened.length);
            cx.workspace.saw(&place, opened.stamp);
            told
        })
    }
}

/// What a file is if it is no text that can be shown, by its beginning.
pub(super) fn not_text(start: &[u8]) -> Option<&'static str> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\x89PNG", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF-", "a PDF document"),
        (b"\x7fELF", "a program (ELF)"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"\x28\xb5\x2f\xfd", "a zstd archive"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\xff\xfe", "text in UTF-16 (`iconv -f utf-16 -t utf-8` makes it readable)"),
        (b"\xfe\xff", "text in UTF-16 (`iconv -f utf-16 -t utf-8` makes it readable)"),
    ];
    KINDS
        .iter()
        .find(|(magic, _)| start.starts_with(magic))
        .map(|(_, kind)| *kind)
        .or_else(|| start.contains(&0).then_some("a binary file"))
}

/// The lines that were asked for, and what is known of the rest.
#[expect(clippy::struct_excessive_bools, reason = "each is one fact that is told")]
#[derive(Default)]
struct Window {
    text: Vec<u8>,
    /// How many lines are in the text.
    lines: u64,
    /// How many lines the file has before and in the window, and after it if it was counted to the end.
    counted: u64,
    /// Whether there is more after the window.
    more: bool,
    /// Whether `counted` is all.
    to_the_end: bool,
    /// Lines that were cut.
    cut: u64,
    /// Lines that ended with a carriage return.
    returns: u64,
    /// Whether the bound of bytes ended the window.
    full: bool,
    bom: bool,
    /// Whether it was looked too far for the first line.
    gave_up: bool,
}

impl Window {
    fn of(
        mut source: impl BufRead,
        from: u64,
        limit: u64,
        cancelled: &dyn Fn() -> bool,
    ) -> std::io::Result<Self> {
        let mut window = Self::default();
        let mut scanned = 0;
        let mut line = Vec::new();
        loop {
            let number = window.counted + 1;
            let wanted = number >= from && window.lines < limit && !window.full;
            line.clear();
            let mut length = 0_u64;
            let mut ended = false;
            // One line, of which only the beginning is kept.
            while !ended {
                let chunk = source.fill_buf()?;
                if chunk.is_empty() || cancelled() {
                    break;
                }
                let end = memchr::memchr(b'\n', chunk);
                ended = end.is_some();
                let part = &chunk[..end.unwrap_or(chunk.len())];
                if wanted {
                    // One more than is shown: a carriage return at the end is no text.
                    let room = (MAX_LINE + 4).saturating_sub(line.len());
                    line.extend_from_slice(&part[..part.len().min(room)]);
                }
                length += part.len() as u64;
                let used = part.len() + usize::from(ended);
                scanned += used as u64;
                source.consume(used);
                if scanned > MAX_SCAN {
                    window.gave_up = !wanted && number <= from;
                    window.more = true;
                    if wanted {
                        window.take(&mut line, length, ended);
                    }
                    return Ok(window);
                }
            }
            if length == 0 && !ended {
                window.to_the_end = true;
                return Ok(window);
            }
            if wanted {
                if number == 1 && line.starts_with(b"\xef\xbb\xbf") {
                    line.drain(..3);
                    length -= 3;
                    window.bom = true;
                }
                window.take(&mut line, length, ended);
            } else if number >= from {
                window.more = true;
                if scanned > COUNTED {
                    return Ok(window);
                }
            }
            window.counted = number;
        }
    }

    fn take(&mut self, line: &mut Vec<u8>, length: u64, ended: bool) {
        let mut length = length;
        if ended && length == line.len() as u64 && line.last() == Some(&b'\r') {
            line.pop();
            length -= 1;
            self.returns += 1;
        }
        let mut shown = text::head(line, MAX_LINE).into_owned().into_bytes();
        if length > MAX_LINE as u64 {
            self.cut += 1;
            let rest = text::size(length - MAX_LINE as u64);
            shown.extend_from_slice(format!("[... {rest} of this line left out]").as_bytes());
        }
        if self.lines > 0 && self.text.len() + shown.len() > MAX_OUTPUT {
            self.full = true;
            self.more = true;
            return;
        }
        self.text.append(&mut shown);
        if ended {
            self.text.push(b'\n');
        }
        self.lines += 1;
    }

    fn told(self, path: &str, from: u64, length: u64) -> Result<String, Refused> {
        if self.lines == 0 {
            if length == 0 || (self.to_the_end && self.counted == 0) {
                return Ok(String::from("[the file is empty]"));
            }
            return Err(Refused::Other(if self.gave_up || !self.to_the_end {
                format!(
                    "line {from} of {path} lies more than {} into the file ({}); use `grep`, or `tail` and `cut` in \
                     `bash`",
                    text::size(MAX_SCAN),
                    text::size(length)
                )
            } else {
                format!("{path} has {} lines; there is no line {from}", self.counted)
            }));
        }
        let mut told = String::from_utf8_lossy(&self.text).replace('\0', "\u{2400}");
        let mut notes = Vec::new();
        let last = from + self.lines - 1;
        if self.more {
            let of = if self.to_the_end {
                format!("{} lines", self.counted)
            } else {
                format!("a file of {}", text::size(length))
            };
            notes.push(format!("lines {from}-{last} of {of}; go on with offset={}", last + 1));
        } else if from > 1 {
            notes.push(format!("lines {from}-{last}; the file ends here"));
        }
        if self.cut > 0 {
            notes.push(format!(
                "{} long lines were cut; `grep` or `cut` in `bash` shows parts of them",
                self.cut
            ));
        }
        if told.contains('\u{fffd}') {
            notes.push(String::from("\u{fffd} stands for bytes that are not UTF-8"));
        }
        if self.returns > 0 {
            notes.push(String::from("lines end with CR LF, which `edit` keeps"));
        }
        if self.bom {
            notes.push(String::from("the file begins with a byte order mark, which `edit` keeps"));
        }
        text::note(&mut told, &notes);
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &[u8], from: u64, limit: u64) -> Window {
        // Small pieces, so that lines are put together.
        Window::of(BufReader::with_capacity(7, text), from, limit, &|| false).unwrap()
    }

    fn told(text: &[u8], from: u64, limit: u64) -> String {
        window(text, from, limit)
            .told("f", from, text.len() as u64)
            .unwrap_or_else(|refused| refused.to_string())
    }

    #[test]
    fn lines_are_told_as_they_are() {
        assert_eq!(told(b"a\nb\nlast", 1, 9), "a\nb\nlast");
        assert_eq!(told(b"a\n\n\n", 1, 9), "a\n\n\n");
        assert_eq!(told(b"", 1, 9), "[the file is empty]");
        assert_eq!(told(b"\n", 1, 9), "\n");
    }

    #[test]
    fn a_range_says_how_to_go_on() {
        let text = b"1\n2\n3\n4\n5\n";
        assert_eq!(told(text, 2, 2), "2\n3\n[lines 2-3 of 5 lines; go on with offset=4]");
        assert_eq!(told(text, 4, 9), "4\n5\n[lines 4-5; the file ends here]");
        assert_eq!(told(text, 6, 1), "f has 5 lines; there is no line 6");
        assert_eq!(told(text, u64::MAX, 1), format!("f has 5 lines; there is no line {}", u64::MAX));
    }

    #[test]
    fn the_bound_of_bytes_holds_and_lines_stay_whole() {
        let text = "x".repeat(1000) + "\n";
        let told = told(text.repeat(200).as_bytes(), 1, 2000);
        assert!(told.len() < MAX_OUTPUT + 200, "{}", told.len());
        assert!(
            told.ends_with("[lines 1-51 of 200 lines; go on with offset=52]"),
            "{}",
            &told[told.len() - 90..]
        );
    }

    #[test]
    fn long_lines_are_cut_at_a_character() {
        let told = told(format!("{}\nshort\n", "ä".repeat(3000)).as_bytes(), 1, 9);
        assert!(
            told.starts_with(&("ä".repeat(1000) + "[... 3.9 KiB of this line left out]\nshort\n")),
            "{told}"
        );
        assert!(told.ends_with("shows parts of them]"), "{told}");
    }

    #[test]
    fn line_ends_marks_and_strange_bytes_are_named() {
        let said = told(b"\xef\xbb\xbfa\r\nb\xff\r\n", 1, 9);
        assert!(said.starts_with("a\nb\u{fffd}\n["), "{said}");
        for part in ["CR LF", "byte order mark", "not UTF-8"] {
            assert!(said.contains(part), "{said}");
        }
        // A carriage return within a line is text.
        assert_eq!(told(b"a\rb\n", 1, 9), "a\rb\n");
    }

    #[test]
    fn other_things_than_text_are_named() {
        assert_eq!(not_text(b"\x89PNG\r\n"), Some("a PNG image"));
        assert_eq!(not_text(b"abc\0"), Some("a binary file"));
        assert_eq!(not_text("größe".as_bytes()), None);
    }
}
