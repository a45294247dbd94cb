//! The transcript of a conversation: what is said and told, put into the form of the model, each thing once. After a change
//! of daemons the raw log is read again from its beginning; what stands in the file already is known by its place.

use std::io::{self, BufRead as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use subagent_model::transcript::Step;
use subagent_model::{
    Attachment, AttemptNumber, RunNumber, SubagentId, TRANSCRIPT_VERSION, Timestamp, TranscriptEntry, What,
};
use subagent_provider::{Attached, Order, PlanState, Said, TurnEnd};

use super::super::inners::{LiveInners, status_of};
use super::super::transcripts::Transcripts;

/// Most bytes that wait for the disk.
const MOST_HELD: usize = 4 << 20;
/// Most bytes of thoughts and of streamed text that are put together.
const MOST_JOINED: usize = 1 << 20;

/// The writer of one attempt's transcript.
pub(super) struct Scribe {
    sink: Transcripts,
    /// Where those who ask are told of inner subagents.
    inners: LiveInners,
    path: PathBuf,
    subagent: SubagentId,
    provider: String,
    attempt: AttemptNumber,
    /// The run that entries belong to from now on.
    pub(super) run: RunNumber,
    /// The place of the newest entry, written now or by an earlier daemon.
    place: (u64, u32),
    /// The place of the last entry in the file when it was taken over: nothing up to it is written again.
    written: Option<(u64, u32)>,
    held: Vec<u8>,
    lost: bool,
    streamed: String,
    thought: String,
    /// The last message of the turn: an answer that is named again is no second one.
    message: Option<String>,
}

impl Scribe {
    pub(super) fn new(
        (sink, inners): (Transcripts, LiveInners),
        path: PathBuf,
        subagent: SubagentId,
        provider: &str,
        attempt: AttemptNumber,
        run: RunNumber,
    ) -> Self {
        inners.begin((subagent, attempt));
        Self {
            sink,
            inners,
            path,
            subagent,
            provider: provider.to_owned(),
            attempt,
            run,
            place: (0, 0),
            written: None,
            held: Vec::new(),
            lost: false,
            streamed: String::new(),
            thought: String::new(),
            message: None,
        }
    }

    /// Goes on with the file of an earlier daemon. Half a line at its end is cut off.
    pub(super) fn take_over(&mut self) {
        match last_place(&self.path) {
            Ok(written) => self.written = written,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "a transcript cannot be read");
            }
        }
    }

    /// The child said it: `position` is the offset after its frame.
    pub(super) fn said(&mut self, position: u64, at: Timestamp, said: &Said) {
        match said {
            Said::Delta(text) => return join(&mut self.streamed, text),
            Said::Thought(text) => return join(&mut self.thought, text),
            _ => {}
        }
        self.put_thought(position, at);
        if let Said::Inner(inner) = said {
            self.inners.hear((self.subagent, self.attempt), at, inner);
        }
        match said {
            Said::Message(text) => {
                self.streamed.clear();
                self.put_message(position, at, text.clone());
            }
            Said::Done(end) => {
                let streamed = std::mem::take(&mut self.streamed);
                self.put_message(position, at, streamed);
                if let TurnEnd::Finished { answer: Some(answer), .. } = end
                    && self.message.as_ref() != Some(answer)
                {
                    self.put_message(position, at, answer.clone());
                }
                self.message = None;
                self.put(position, at, turn_end(end));
            }
            other => {
                if let Some(what) = what_of(other) {
                    self.put(position, at, what);
                }
            }
        }
    }

    /// It was told to the child.
    pub(super) fn told(&mut self, position: u64, at: Timestamp, what: What) {
        self.put_thought(position, at);
        self.put(position, at, what);
    }

    /// A part is missing.
    pub(super) fn gap(&mut self, position: u64, at: Timestamp) {
        self.put(position, at, What::Gap);
    }

    fn put_thought(&mut self, position: u64, at: Timestamp) {
        let text = std::mem::take(&mut self.thought);
        if !text.trim().is_empty() {
            self.put(position, at, What::Thought { text });
        }
    }

    fn put_message(&mut self, position: u64, at: Timestamp, text: String) {
        if !text.trim().is_empty() {
            self.message = Some(text.clone());
            self.put(position, at, What::Message { text });
        }
    }

    fn put(&mut self, position: u64, at: Timestamp, what: What) {
        if self.place == (0, 0) && self.written.is_none() {
            let provider = self.provider.clone();
            let begin = What::Begin { version: TRANSCRIPT_VERSION, subagent: self.subagent, provider };
            self.write((0, 0), at, begin);
        }
        // A log that is read anew has the same places.
        self.place = if position > self.place.0 { (position, 1) } else { (self.place.0, self.place.1 + 1) };
        if self.written.is_some_and(|written| self.place <= written) {
            return;
        }
        if std::mem::take(&mut self.lost) {
            self.write(self.place, at, What::Gap);
        }
        self.write(self.place, at, what);
    }

    fn write(&mut self, log: (u64, u32), at: Timestamp, what: What) {
        if self.held.len() > MOST_HELD {
            self.lost = true;
            return;
        }
        let entry = TranscriptEntry { at, run: self.run, attempt: self.attempt, log, what };
        // Strings and numbers can always be written.
        let _ = serde_json::to_writer(&mut self.held, &entry);
        self.held.push(b'\n');
    }

    /// Gives what there is to the file.
    pub(super) fn flush(&mut self) {
        if !self.held.is_empty()
            && let Err(back) = self.sink.append(&self.path, std::mem::take(&mut self.held))
        {
            self.held = back;
        }
    }

    /// Gives what there is to the file, and waits until it is there.
    pub(super) async fn settle(&mut self) {
        self.flush();
        if self.place != (0, 0) {
            self.sink.settled(&self.path).await;
        }
    }
}

impl Drop for Scribe {
    /// Nobody listens to the child any more.
    fn drop(&mut self) {
        self.inners.forget((self.subagent, self.attempt));
    }
}

fn join(text: &mut String, part: &str) {
    let room = MOST_JOINED.saturating_sub(text.len());
    text.push_str(subagent_model::text::cut_at_boundary(part, room));
}

/// The place of the last whole line. What comes after it is cut off.
fn last_place(path: &Path) -> io::Result<Option<(u64, u32)>> {
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
    let (mut last, mut end) = (None, 0);
    let mut line = Vec::new();
    {
        let mut reader = io::BufReader::new(&mut file);
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            if let Ok(entry) = serde_json::from_slice::<Placed>(&line) {
                last = Some(entry.log);
            }
            end += read as u64;
        }
    }
    if file.seek(SeekFrom::End(0))? > end {
        file.set_len(end)?;
    }
    Ok(last)
}

#[derive(serde::Deserialize)]
struct Placed {
    log: (u64, u32),
}

/// Files by what the record says of them.
fn about(attached: Vec<Attached>) -> Vec<Attachment> {
    attached.into_iter().map(|file| file.about).collect()
}

/// An order as the transcript has it.
pub(super) fn told_as(order: &Order) -> Option<What> {
    Some(match order.clone() {
        Order::Prompt { number, from, text, attached } => {
            What::Prompt { number, from, text, attached: about(attached) }
        }
        Order::Steer { number, from, text, attached } => {
            What::Steer { number, from, text, attached: about(attached) }
        }
        Order::Interrupt => What::Interrupt,
        Order::Answer { key, answer, reason, .. } => What::Answer { key, answer, reason },
        Order::StopInner { key } => What::StopInner { id: key },
        Order::Close => return None,
    })
}

fn what_of(said: &Said) -> Option<What> {
    Some(match said.clone() {
        Said::Opened { session } => What::Opened { session },
        Said::ToolStarted { id, name, input } => What::Tool { id, name, input },
        Said::ToolEnded { id, failed, output } => What::ToolResult { id, failed, output },
        Said::Plan(steps) => {
            let word = |state| match state {
                PlanState::Pending => "pending",
                PlanState::Active => "active",
                PlanState::Done => "done",
            };
            let steps =
                steps.into_iter().map(|step| Step { text: step.text, state: word(step.state).into() });
            What::Plan { steps: steps.collect() }
        }
        Said::Notice(text) => What::Notice { text },
        Said::Denied(what) => What::Notice { text: format!("denied: {what}") },
        Said::Model(model) => What::Model { model },
        Said::Asked(ask) => What::Ask { key: ask.key, subject: ask.subject },
        Said::TookBack { key } => What::TookBack { key },
        Said::Used(usage) => What::Usage(usage),
        Said::Compacted => What::Compacted,
        Said::HeldUp { until } => What::HeldUp { until },
        Said::Inner(inner) => What::Inner {
            id: inner.id,
            parent: inner.parent,
            title: inner.title,
            state: inner.state.map(|state| status_of(state).as_str().to_owned()),
        },
        Said::Broken(text) => What::Broken { text },
        Said::Delta(_)
        | Said::Thought(_)
        | Said::Message(_)
        | Said::Models(_)
        | Said::Done(_)
        | Said::Turn { .. }
        | Said::Took(_)
        | Said::Declined(_)
        | Said::Closed
        | Said::Background { .. } => return None,
    })
}

fn turn_end(end: &TurnEnd) -> What {
    let (word, error) = match end {
        TurnEnd::Finished { .. } => ("finished", None),
        TurnEnd::Cancelled => ("cancelled", None),
        TurnEnd::CutOff(_) => ("cut_off", None),
        TurnEnd::Failed(error) => ("failed", Some(error.clone())),
    };
    What::TurnEnd { end: word.to_owned(), error }
}
