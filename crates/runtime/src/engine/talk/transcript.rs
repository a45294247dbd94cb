//! What went both ways between a child and us, read from the log of its shim through the codec of its provider.

use std::path::PathBuf;

use subagent_core::frame::Kind;
use subagent_core::frame::lines::LineSplitter;
use subagent_process::conversation::{Conversation, Part};
use subagent_process::log::LogError;
use subagent_provider::{Codec, Job, Said, WasTold};

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

pub(super) struct Transcript {
    pub(super) codec: Box<dyn Codec>,
    log: Conversation,
    lines: LineSplitter,
    /// What the protocol itself answers, and nobody has written yet.
    pub(super) replies: Vec<u8>,
    /// Why nothing more can be heard.
    pub(super) broken: Option<String>,
    /// A part of what it said was not kept.
    pub(super) missed: bool,
    /// The last look ended before the log did.
    more: bool,
}

impl Transcript {
    pub(super) fn open(codec: Box<dyn Codec>, dir: PathBuf) -> Self {
        Self {
            codec,
            log: Conversation::open(dir),
            lines: LineSplitter::new(LONGEST_LINE),
            replies: Vec::new(),
            broken: None,
            missed: false,
            more: false,
        }
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
                            said.extend(self.hear(line.as_bytes()));
                        }
                    }
                    Part::Hole { .. } => {
                        self.lines.hole();
                        self.missed = true;
                    }
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
        said
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
    pub(super) fn recall(&mut self, job: &Job, end: u64) -> Result<Vec<(u64, Was)>, LogError> {
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
                        all.extend(told.into_iter().map(|told| (part.to, Was::Told(told))));
                    }
                }
                Part::Bytes(..) | Part::StdinClosed => {}
                Part::Hole { stdin } => {
                    self.lines.hole();
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
        Ok(all)
    }

    /// What is left of a last line that was never ended.
    pub(super) fn finish(&mut self) -> Option<Vec<Said>> {
        let rest = self.lines.finish()?;
        Some(self.hear(rest.text.as_bytes()))
    }
}
