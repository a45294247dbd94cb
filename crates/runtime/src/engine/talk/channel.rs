//! The way to a child that is spoken with: a process in a shim through its provider's codec, or a task inside the daemon.
//! Bytes and lines are known here and nowhere else.

use std::path::PathBuf;

use subagent_core::frame::Kind;
use subagent_core::frame::lines::LineSplitter;
use subagent_process::conversation::{Conversation, Part};
use subagent_process::log::LogError;
use subagent_process::{ExitWait, Graces, Shim, ShimError};
use subagent_provider::{Codec, Order, Said, WasTold};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Longest line of a child.
const LONGEST_LINE: usize = 16 << 20;
/// Most bytes that are read before others get a turn.
const MOST_AT_ONCE: usize = 512 << 10;

/// What comes from a child.
pub(super) enum Event {
    /// It said something, in order.
    Said(Vec<Said>),
    /// Its process is over.
    Exited(ExitWait),
    /// Its task is over; the text of its panic, if it panicked.
    TaskOver(Option<String>),
}

/// Why an order did not reach a child.
#[derive(Debug)]
pub(super) enum Untold {
    /// The protocol has no word for it now.
    NoWord(String),
    /// It takes no more input: nothing of the order reached it.
    Closed,
    /// It cannot be known whether it has it.
    Unknown(String),
}

/// A conversation as the log has it.
pub(super) enum Was {
    /// The child said it.
    Said(Said),
    /// It was told.
    Told(WasTold),
    /// Something is not there any more; input may be among it.
    Hole { stdin: bool },
}

pub(super) enum Channel {
    Shim(Box<ShimChannel>),
    Task(TaskChannel),
}

pub(super) struct ShimChannel {
    shim: Shim,
    codec: Box<dyn Codec>,
    log: Conversation,
    log_end: watch::Receiver<u64>,
    lines: LineSplitter,
    replies: Vec<u8>,
    broken: Option<String>,
    /// A part of what it said was not kept.
    missed: bool,
}

pub(super) struct TaskChannel {
    orders: Option<mpsc::UnboundedSender<Order>>,
    said: mpsc::UnboundedReceiver<Said>,
    work: JoinHandle<()>,
}

impl Channel {
    pub(super) fn task(
        orders: mpsc::UnboundedSender<Order>,
        said: mpsc::UnboundedReceiver<Said>,
        work: JoinHandle<()>,
    ) -> Self {
        Self::Task(TaskChannel { orders: Some(orders), said, work })
    }

    pub(super) fn shim(shim: Shim, codec: Box<dyn Codec>, dir: PathBuf) -> Self {
        let log_end = shim.log_end();
        Self::Shim(Box::new(ShimChannel {
            shim,
            codec,
            log: Conversation::open(dir),
            log_end,
            lines: LineSplitter::new(LONGEST_LINE),
            replies: Vec::new(),
            broken: None,
            missed: false,
        }))
    }

    /// What comes next. May be dropped at any await without harm.
    pub(super) async fn next(&mut self) -> Event {
        match self {
            Self::Shim(channel) => channel.next().await,
            Self::Task(channel) => channel.next().await,
        }
    }

    /// Writes what the protocol itself answered.
    pub(super) async fn flush(&mut self) {
        if let Self::Shim(channel) = self {
            let replies = std::mem::take(&mut channel.replies);
            if !replies.is_empty() {
                // A child that is gone shows as its end.
                let _ = channel.shim.write_stdin(&replies).await;
            }
        }
    }

    /// Writes bytes as they are.
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        if let Self::Shim(channel) = self
            && !bytes.is_empty()
        {
            let _ = channel.shim.write_stdin(bytes).await;
        }
    }

    /// Gives an order to the child.
    pub(super) async fn tell(&mut self, order: &Order) -> Result<(), Untold> {
        match self {
            Self::Shim(channel) => {
                let bytes = channel.codec.tell(order).map_err(Untold::NoWord)?;
                channel.shim.write_stdin(&bytes).await.map_err(|error| match error {
                    ShimError::StdinClosed => Untold::Closed,
                    error => Untold::Unknown(error.to_string()),
                })
            }
            Self::Task(channel) => {
                let orders = channel.orders.as_ref().ok_or(Untold::Closed)?;
                orders.send(order.clone()).map_err(|_| Untold::Closed)
            }
        }
    }

    /// The child says itself when it has a message.
    pub(super) fn acknowledges(&self) -> bool {
        match self {
            Self::Shim(channel) => channel.codec.acknowledges(),
            Self::Task(_) => true,
        }
    }

    /// Ends its input.
    pub(super) fn close(&mut self) {
        match self {
            // Gone already shows as its end.
            Self::Shim(channel) => drop(channel.shim.close_stdin()),
            Self::Task(channel) => channel.orders = None,
        }
    }

    /// Ends it from outside; its end comes as an event.
    pub(super) fn end(&mut self, graces: Graces) {
        match self {
            Self::Shim(channel) => drop(channel.shim.stop(graces)),
            Self::Task(channel) => channel.work.abort(),
        }
    }

    /// Whether a part of what the child said could not be heard, since the last time.
    pub(super) fn take_missed(&mut self) -> bool {
        match self {
            Self::Shim(channel) => std::mem::take(&mut channel.missed),
            Self::Task(_) => false,
        }
    }

    /// Where the log ends.
    pub(super) fn position(&self) -> Option<u64> {
        match self {
            Self::Shim(channel) => Some(channel.log.position()),
            Self::Task(_) => None,
        }
    }

    /// Where the log ends, what nobody has read yet included.
    pub(super) fn end_position(&self) -> u64 {
        match self {
            Self::Shim(channel) => (*channel.log_end.borrow()).max(channel.log.position()),
            Self::Task(_) => 0,
        }
    }

    pub(super) fn as_shim(&self) -> Option<&Shim> {
        match self {
            Self::Shim(channel) => Some(&channel.shim),
            Self::Task(_) => None,
        }
    }

    /// Reads everything that went both ways before, in order, and rebuilds the codec by it.
    pub(super) fn recall(&mut self, job: &subagent_provider::Job) -> Result<Vec<(u64, Was)>, LogError> {
        match self {
            Self::Shim(channel) => channel.recall(job),
            Self::Task(_) => Ok(Vec::new()),
        }
    }

    /// The bytes with which the conversation begins.
    pub(super) fn open(&mut self, job: &subagent_provider::Job) -> Vec<u8> {
        match self {
            Self::Shim(channel) => channel.codec.open(job),
            Self::Task(_) => Vec::new(),
        }
    }
}

impl ShimChannel {
    async fn next(&mut self) -> Event {
        loop {
            let said = self.read();
            if !said.is_empty() {
                return Event::Said(said);
            }
            if let Some(why) = self.broken.take() {
                return Event::Said(vec![Said::Broken(why)]);
            }
            let read = self.log.position();
            let grown = async {
                let grown = self.log_end.wait_for(|end| *end > read).await.is_ok();
                if !grown {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = grown => {}
                end = self.shim.exit() => {
                    // Its last words are in the log by now.
                    let said = self.read();
                    if !said.is_empty() {
                        return Event::Said(said);
                    }
                    return match self.lines.finish() {
                        Some(line) => Event::Said(self.hear(line.text.as_bytes())),
                        None => Event::Exited(end),
                    };
                }
            }
        }
    }

    /// What it said since the last look.
    fn read(&mut self) -> Vec<Said> {
        let (mut said, mut bytes) = (Vec::new(), 0);
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
                Ok(None) => break,
                Err(error) => {
                    self.broken = Some(format!("its log cannot be read: {error}"));
                    break;
                }
            }
        }
        said
    }

    fn split(&mut self, output: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        self.lines.push(output, |line| lines.push(line.text));
        lines
    }

    fn hear(&mut self, line: &[u8]) -> Vec<Said> {
        let heard = self.codec.hear(line);
        self.replies.extend(heard.reply);
        heard.said
    }

    fn recall(&mut self, job: &subagent_provider::Job) -> Result<Vec<(u64, Was)>, LogError> {
        // What it began with is written down like the rest.
        let opening = self.codec.open(job);
        let mut begun = false;
        let end = *self.log_end.borrow();
        let mut all = Vec::new();
        let mut written = LineSplitter::new(LONGEST_LINE);
        while self.log.position() < end {
            let Some(part) = self.log.next_part()? else { break };
            match part.part {
                Part::Bytes(Kind::Stdout, output) => {
                    for line in self.split(&output) {
                        // Replies were given when it was said.
                        let said = self.codec.hear(line.as_bytes()).said;
                        all.extend(said.into_iter().map(|said| (part.to, Was::Said(said))));
                    }
                }
                Part::Bytes(Kind::Stdin, input) => {
                    begun = true;
                    let mut lines = Vec::new();
                    written.push(&input, |line| lines.push(line.text));
                    for line in lines {
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
                    }
                    all.push((part.to, Was::Hole { stdin }));
                }
            }
        }
        // Whoever started it was gone before the first word.
        if !begun {
            self.replies.splice(0..0, opening);
        }
        Ok(all)
    }
}

impl TaskChannel {
    async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            Some(first) = self.said.recv() => {
                let mut said = vec![first];
                while let Ok(more) = self.said.try_recv() {
                    said.push(more);
                }
                Event::Said(said)
            }
            over = &mut self.work => match over {
                Err(error) if error.is_panic() => {
                    Event::TaskOver(Some(super::super::attempt::panic_text(&*error.into_panic())))
                }
                Ok(()) | Err(_) => Event::TaskOver(None),
            },
        }
    }
}

impl Drop for TaskChannel {
    fn drop(&mut self) {
        self.work.abort();
    }
}
