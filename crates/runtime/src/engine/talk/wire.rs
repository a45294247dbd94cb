//! What went both ways between a child and us, read from the log of its shim through the codec of its provider, and written
//! down for people on the way.

use std::collections::VecDeque;
use std::path::PathBuf;

use subagent_core::frame::Kind;
use subagent_core::frame::lines::LineSplitter;
use subagent_model::{Timestamp, What};
use subagent_process::conversation::{Conversation, Part};
use subagent_process::log::LogError;
use subagent_provider::{Codec, Job, Order, Said, WasTold};

use super::scribe::{Scribe, told_as};

/// Longest line of a child.
const LONGEST_LINE: usize = 16 << 20;
/// Most bytes that are read before others get a turn.
const MOST_AT_ONCE: usize = 64 << 10;

/// A conversation as the log has it.
pub(super) enum Was {
    /// The child said it.
    Said(Said),
    /// It was told.
    Told(WasTold),
    /// Something is not there any more; input may be among it.
    Hole { stdin: bool },
}

pub(super) struct Wire {
    pub(super) codec: Box<dyn Codec>,
    log: Conversation,
    lines: LineSplitter,
    /// What the protocol itself answers, and nobody has written yet.
    pub(super) replies: Vec<u8>,
    /// Why nothing more can be heard.
    pub(super) broken: Option<String>,
    /// A part of what it said was not kept.
    pub(super) missed: bool,
    /// It closed its output: nothing more will come.
    pub(super) over: bool,
    /// The last look ended before the log did.
    more: bool,
    pub(super) scribe: Scribe,
    /// What was written to the child and has not come back by the log yet, line by line: only orders are told of.
    given: VecDeque<Option<What>>,
    input: LineSplitter,
}

impl Wire {
    pub(super) fn open(codec: Box<dyn Codec>, dir: PathBuf, scribe: Scribe) -> Self {
        Self {
            codec,
            log: Conversation::open(dir),
            lines: LineSplitter::new(LONGEST_LINE),
            replies: Vec::new(),
            broken: None,
            missed: false,
            over: false,
            more: false,
            scribe,
            given: VecDeque::new(),
            input: LineSplitter::new(LONGEST_LINE),
        }
    }

    /// These bytes were written to the child, for this order or for none.
    pub(super) fn gave(&mut self, bytes: &[u8], order: Option<&Order>) {
        let mut what = order.and_then(told_as);
        self.given.extend(bytes.split_inclusive(|byte| *byte == b'\n').map(|_| what.take()));
    }

    /// True when the last look may have left something.
    pub(super) fn has_more(&self) -> bool {
        self.more
    }

    /// How far it was read.
    pub(super) fn position(&self) -> u64 {
        self.log.position()
    }

    /// What it said since the last look.
    pub(super) fn read(&mut self) -> Vec<Said> {
        let (mut said, mut bytes) = (Vec::new(), 0);
        self.more = true;
        while bytes < MOST_AT_ONCE {
            match self.log.next_part() {
                Ok(Some(part)) => match part.part {
                    Part::Bytes(Kind::Stdout, output) => {
                        bytes += output.len();
                        for line in self.split(&output) {
                            let heard = self.hear(line.as_bytes());
                            for said in &heard {
                                self.scribe.said(part.to, at(part.at_micros), said);
                            }
                            said.extend(heard);
                        }
                    }
                    Part::Bytes(Kind::Stdin, input) => self.came_back(part.to, at(part.at_micros), &input),
                    Part::Hole { .. } => {
                        self.lines.hole();
                        self.input.hole();
                        self.missed = true;
                        self.scribe.gap(part.to, at(part.at_micros));
                    }
                    Part::StdoutClosed => self.over = true,
                    Part::Bytes(..) | Part::StdinClosed => {}
                },
                Ok(None) => {
                    self.more = false;
                    break;
                }
                Err(error) => {
                    self.more = false;
                    self.broken = Some(format!("its log cannot be read: {error}"));
                    break;
                }
            }
        }
        self.scribe.flush();
        said
    }

    /// What was written stands in the log now, in its place between the lines of the child.
    fn came_back(&mut self, position: u64, at: Timestamp, input: &[u8]) {
        let mut lines = 0;
        self.input.push(input, |_| lines += 1);
        for what in self.given.drain(..lines.min(self.given.len())).flatten() {
            self.scribe.told(position, at, what);
        }
    }

    fn split(&mut self, output: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let before = self.lines.faults().overlong_lines;
        self.lines.push(output, |line| lines.push(line.text));
        if self.lines.faults().overlong_lines > before {
            self.broken = Some(format!("it said a line of more than {} MiB", LONGEST_LINE >> 20));
        }
        lines
    }

    pub(super) fn hear(&mut self, line: &[u8]) -> Vec<Said> {
        let heard = self.codec.hear(line);
        self.replies.extend(heard.reply);
        heard.said
    }

    /// Reads everything that went both ways before `end`, in order, and rebuilds the codec by it.
    /// The log does not name the `words` of what was told.
    pub(super) fn recall(
        &mut self,
        job: &Job,
        end: u64,
        words: impl Fn(&WasTold) -> What,
    ) -> Result<Vec<(u64, Was)>, LogError> {
        self.scribe.take_over();
        // What it began with is written down like the rest.
        let opening = self.codec.open(job);
        let mut begun = false;
        // Replies that were due, and are not in the log: whoever owed them was gone before they were written.
        let mut owed: Vec<Vec<u8>> = Vec::new();
        let mut all = Vec::new();
        let mut written = LineSplitter::new(LONGEST_LINE);
        while self.log.position() < end {
            let Some(part) = self.log.next_part()? else { break };
            match part.part {
                Part::Bytes(Kind::Stdout, output) => {
                    for line in self.split(&output) {
                        let heard = self.codec.hear(line.as_bytes());
                        let when = at(part.at_micros);
                        for said in &heard.said {
                            self.scribe.said(part.to, when, said);
                        }
                        let replies = heard.reply.split_inclusive(|byte| *byte == b'\n');
                        owed.extend(replies.map(<[u8]>::to_vec));
                        all.extend(heard.said.into_iter().map(|said| (part.to, Was::Said(said))));
                    }
                }
                Part::Bytes(Kind::Stdin, input) => {
                    begun = true;
                    let mut lines = Vec::new();
                    written.push(&input, |line| lines.push(line.text));
                    for line in lines {
                        let is_it =
                            |reply: &Vec<u8>| reply.trim_ascii_end() == line.as_bytes().trim_ascii_end();
                        if let Some(given) = owed.iter().position(is_it) {
                            owed.remove(given);
                        }
                        let told = self.codec.recall(line.as_bytes());
                        for what in told.iter().map(&words) {
                            self.scribe.told(part.to, at(part.at_micros), what);
                        }
                        all.extend(told.into_iter().map(|told| (part.to, Was::Told(told))));
                    }
                }
                Part::StdoutClosed => self.over = true,
                Part::Bytes(..) | Part::StdinClosed => {}
                Part::Hole { stdin } => {
                    self.lines.hole();
                    self.scribe.gap(part.to, at(part.at_micros));
                    if stdin {
                        begun = true;
                        written.hole();
                        // They may be what is lost, and none is given twice.
                        owed.clear();
                    }
                    all.push((part.to, Was::Hole { stdin }));
                }
            }
        }
        // Whoever started it was gone before the first word.
        if !begun {
            self.replies.splice(0..0, opening);
        }
        self.replies.extend(owed.into_iter().flatten());
        self.scribe.flush();
        Ok(all)
    }

    /// What is left of a last line that was never ended.
    pub(super) fn finish(&mut self) -> Option<Vec<Said>> {
        let rest = self.lines.finish()?;
        let heard = self.hear(rest.text.as_bytes());
        let position = self.log.position();
        for said in &heard {
            self.scribe.said(position, super::super::clock::now(), said);
        }
        self.scribe.flush();
        Some(heard)
    }
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(0))
}
