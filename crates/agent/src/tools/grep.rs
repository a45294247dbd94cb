//! `grep`: lines of files by a regular expression.

use std::fmt::Write as _;
use std::io;
use std::ops::ControlFlow;

use futures_util::future::BoxFuture;
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::walk::{Ended, Names, late, walk};
use super::workspace::{Place, Refused, Want};
use super::{Kind, MAX_OUTPUT, Output, Tool, input, text};

/// The most lines that fit in one answer, and what is taken when nothing is said.
const MAX_MATCHES: u64 = 1000;
const USUAL_MATCHES: u64 = 100;
/// The most lines around each.
const MAX_CONTEXT: u64 = 20;
/// The most bytes of a line.
const MAX_LINE: usize = 400;
/// The longest line that is searched: 16 MiB.
const MAX_HEAP: usize = 16 << 20;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    #[serde(default, alias = "directory", alias = "file_path")]
    path: Option<String>,
    #[serde(default, alias = "include")]
    glob: Option<String>,
    #[serde(default, alias = "ignoreCase", alias = "-i", deserialize_with = "input::flag")]
    ignore_case: bool,
    #[serde(default, deserialize_with = "input::flag")]
    literal: bool,
    #[serde(default, alias = "-C", deserialize_with = "input::number")]
    context: Option<u64>,
    #[serde(default, deserialize_with = "input::flag")]
    files_only: bool,
    #[serde(default, alias = "head_limit", deserialize_with = "input::number")]
    limit: Option<u64>,
}

pub(super) struct Grep;

impl Tool for Grep {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Search the lines of files for a regular expression (Rust syntax, as in ripgrep). Gives path:line:text. Binary \
         files and what ignore files (.gitignore) name are left out; a file that is named by path is always searched."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "The regular expression" },
                "path": { "type": "string", "description": "A file or directory; the working directory when absent" },
                "glob": { "type": "string", "description": "Only files that fit, such as *.rs" },
                "ignore_case": { "type": "boolean" },
                "literal": { "type": "boolean", "description": "The pattern is a plain text" },
                "context": { "type": "integer", "minimum": 0, "description": "Lines to show around each match" },
                "files_only": { "type": "boolean", "description": "Only the names of files with a match" },
                "limit": { "type": "integer", "minimum": 1, "description": "The most matches (100 when absent)" }
            },
            "required": ["pattern"]
        })
    }

    fn kind(&self) -> Kind {
        Kind::Search
    }

    fn title(&self, input: &Value) -> String {
        let pattern = input::text(input, &["pattern"]);
        let path = input::text(input, &["path", "directory", "file_path"]);
        if path.is_empty() { format!("grep {pattern}") } else { format!("grep {pattern} in {path}") }
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        cx.look(move |cx| {
            let input: Input = input::parse("grep", input)?;
            let given = input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
            let base = cx.locate(given, Want::Look)?;
            let glob = input.glob.as_deref().filter(|glob| !glob.is_empty());
            let names = glob.map(|glob| Names::new(glob, &base)).transpose()?;
            let mut search = Search::new(&input)?;
            let ended = if base.exists && !cx.workspace.is_directory(&base) {
                search.file(cx, &base)?;
                if search.full() { Ended::Enough } else { Ended::All }
            } else {
                cx.workspace.open_dir(&base)?;
                walk(cx, &base, |met| {
                    let fits = names.as_ref().is_none_or(|names| names.fit(&met.place, &base));
                    if met.directory || !fits || cx.check(&met.place).is_err() {
                        return Ok(ControlFlow::Continue(()));
                    }
                    // Links, pipes, what cannot be read: passed over.
                    if let Err(Refused::Cancelled) = search.file(cx, &met.place) {
                        return Err(Refused::Cancelled);
                    }
                    Ok(if search.full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?
            };
            Ok(search.told(ended, &base))
        })
    }
}

/// A search and what it has found so far.
struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    limit: u64,
    files_only: bool,
    found: u64,
    /// Files with lines that were too long to search.
    skipped: u64,
    text: String,
    /// Whether there was one more than is told.
    more: bool,
}

impl Search {
    fn new(input: &Input) -> Result<Self, Refused> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(input.ignore_case)
            .fixed_strings(input.literal)
            .line_terminator(Some(b'\n'))
            .size_limit(16 << 20)
            .build(&input.pattern)
            .map_err(|error| {
                Refused::Other(format!(
                    "the regular expression is not right: {error}\nTo search for a plain text, set literal"
                ))
            })?;
        let context = usize::try_from(input.context.unwrap_or(0).min(MAX_CONTEXT)).unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .before_context(if input.files_only { 0 } else { context })
            .after_context(if input.files_only { 0 } else { context })
            .heap_limit(Some(MAX_HEAP))
            .build();
        Ok(Self {
            matcher,
            searcher,
            limit: input.limit.unwrap_or(USUAL_MATCHES).clamp(1, MAX_MATCHES),
            files_only: input.files_only,
            found: 0,
            skipped: 0,
            text: String::new(),
            more: false,
        })
    }

    fn full(&self) -> bool {
        self.more
    }

    fn file(&mut self, cx: &Context, place: &Place) -> Result<(), Refused> {
        let opened = cx.workspace.open_file(place)?;
        let matcher = self.matcher.clone();
        let mut searcher = self.searcher.clone();
        let watched = Watched { file: opened.file, cx };
        let mut lines = Lines { search: self, path: &place.shown, breaks: false, here: false };
        let result = searcher.search_reader(&matcher, watched, &mut lines);
        if cx.cancel.is_cancelled() {
            return Err(Refused::Cancelled);
        }
        if result.is_err() {
            self.skipped += 1;
        }
        Ok(())
    }

    fn told(mut self, ended: Ended, base: &Place) -> String {
        let mut notes = Vec::new();
        if self.found == 0 {
            notes.push(format!(
                "no match in {}; binary files and what ignore files name were left out",
                base.shown
            ));
        }
        if self.more {
            notes.push(format!(
                "the first {} matches; there are more: narrow the pattern, the path or the glob{}",
                self.found,
                if self.limit < MAX_MATCHES && self.text.len() < MAX_OUTPUT {
                    ", or raise limit"
                } else {
                    ""
                }
            ));
        }
        if ended == Ended::Late {
            notes.push(late());
        }
        if self.skipped > 0 {
            notes.push(format!("{} files could not be searched to the end", self.skipped));
        }
        text::note(&mut self.text, &notes);
        self.text.trim_end_matches('\n').to_owned()
    }

    /// A line of the answer; false when there is no room for it.
    fn add(&mut self, path: &str, mark: char, number: Option<u64>, line: &[u8]) -> bool {
        let line = self.shortened(line);
        let number = number.unwrap_or(0);
        if self.text.len() + path.len() + line.len() + 24 > MAX_OUTPUT {
            self.more = true;
            return false;
        }
        let _ = writeln!(self.text, "{path}{mark}{number}{mark}{line}");
        true
    }

    /// A line of bounded length, around what was found in it.
    fn shortened(&self, line: &[u8]) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() <= MAX_LINE {
            return String::from_utf8_lossy(line).into_owned();
        }
        let at = self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let mut start = at.saturating_sub(MAX_LINE / 4).min(line.len() - MAX_LINE);
        while start > 0 && start + 4 > at && line[start] & 0xC0 == 0x80 {
            start -= 1;
        }
        while start < at && line[start] & 0xC0 == 0x80 {
            start += 1;
        }
        let shown = text::head(&line[start..], MAX_LINE);
        let before = if start > 0 { "[...]" } else { "" };
        let after = if start + shown.len() < line.len() { "[...]" } else { "" };
        format!("{before}{shown}{after}")
    }
}

/// Takes the lines of one file.
struct Lines<'a> {
    search: &'a mut Search,
    path: &'a str,
    /// Whether lines lie between this and what was told before.
    breaks: bool,
    /// Whether something of this file was told.
    here: bool,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let search = &mut *self.search;
        if search.found == search.limit {
            search.more = true;
            return Ok(false);
        }
        if search.files_only {
            if search.text.len() + self.path.len() > MAX_OUTPUT {
                search.more = true;
                return Ok(false);
            }
            search.text.push_str(self.path);
            search.text.push('\n');
            search.found += 1;
            return Ok(false);
        }
        self.separate();
        let search = &mut *self.search;
        if !search.add(self.path, ':', found.line_number(), found.bytes()) {
            return Ok(false);
        }
        search.found += 1;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        // After the last match that is told, its own context still comes.
        if self.search.found == self.search.limit && *around.kind() != SinkContextKind::After {
            return Ok(true);
        }
        self.separate();
        Ok(self.search.add(self.path, '-', around.line_number(), around.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.breaks = true;
        Ok(true)
    }
}

impl Lines<'_> {
    /// Parts that do not follow on each other are set apart.
    fn separate(&mut self) {
        if self.breaks && self.here && self.search.found < self.search.limit {
            self.search.text.push_str("--\n");
        }
        self.breaks = false;
        self.here = true;
    }
}

/// A file whose reading ends with the call.
struct Watched<'a> {
    file: std::fs::File,
    cx: &'a Context,
}

impl io::Read for Watched<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.cx.cancel.is_cancelled() {
            return Ok(0);
        }
        self.file.read(into)
    }
}
