//! The way to a child that is spoken with: a process in a shim through its provider's codec, or a task inside the daemon.
//! Bytes and lines are known here and in `wire`, and nowhere else.

use std::path::PathBuf;
use std::time::Duration;

use subagent_model::What;
use subagent_process::log::LogError;
use subagent_process::{ExitWait, Graces, Shim, ShimError};
use subagent_provider::{Codec, Job, Order, Said, WasTold};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::clock;
use super::scribe::{Scribe, told_as};
use super::until;
use super::wire::{Was, Wire};

/// What comes from a child.
pub(super) enum Event {
    /// It said something, in order.
    Said(Vec<Said>),
    /// It closed its output some time ago, and its process is not over. Told once.
    Mute,
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

pub(super) enum Channel {
    Shim(Box<ShimChannel>),
    Task(Box<TaskChannel>),
    /// The shim is gone: what it had written down can be heard, and nothing can be told.
    Past(Box<Wire>),
}

/// Bytes of the log after which the shim is told how far it was heard, if there is more to hear and if there is not. A
/// shim holds a child back only when far more is unheard.
const MARK: u64 = 1 << 20;
const LAST_MARK: u64 = 32 << 10;

pub(super) struct ShimChannel {
    shim: Shim,
    log_end: watch::Receiver<u64>,
    wire: Wire,
    /// How far the shim knows that it was heard.
    marked: u64,
    /// Until when its exit is waited for once it has closed its output.
    exit_due: Option<Instant>,
}

/// Time between the end of its output and the exit of a child: the exit tells more, and comes at once where it comes.
const EXIT_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct TaskChannel {
    scribe: Scribe,
    /// There is no log: what happens is numbered.
    happened: u64,
    orders: Option<mpsc::UnboundedSender<Order>>,
    said: mpsc::UnboundedReceiver<Said>,
    work: JoinHandle<()>,
}

impl Channel {
    pub(super) fn task(
        orders: mpsc::UnboundedSender<Order>,
        said: mpsc::UnboundedReceiver<Said>,
        work: JoinHandle<()>,
        scribe: Scribe,
    ) -> Self {
        Self::Task(Box::new(TaskChannel { scribe, happened: 0, orders: Some(orders), said, work }))
    }

    pub(super) fn shim(shim: Shim, codec: Box<dyn Codec>, dir: PathBuf, scribe: Scribe) -> Self {
        let log_end = shim.log_end();
        let wire = Wire::open(codec, dir, scribe);
        Self::Shim(Box::new(ShimChannel { shim, log_end, wire, marked: 0, exit_due: None }))
    }

    pub(super) fn past(codec: Box<dyn Codec>, dir: PathBuf, scribe: Scribe) -> Self {
        Self::Past(Box::new(Wire::open(codec, dir, scribe)))
    }

    /// The transcript.
    pub(super) fn scribe(&mut self) -> &mut Scribe {
        match self {
            Self::Shim(channel) => &mut channel.wire.scribe,
            Self::Past(wire) => &mut wire.scribe,
            Self::Task(channel) => &mut channel.scribe,
        }
    }

    /// What comes next. May be dropped at any await without harm.
    pub(super) async fn next(&mut self) -> Event {
        match self {
            Self::Shim(channel) => channel.next().await,
            Self::Task(channel) => channel.next().await,
            Self::Past(_) => std::future::pending().await,
        }
    }

    /// What it said by now. Heard before a prompt is given, it cannot be taken for a part of what that is answered with.
    pub(super) fn said_by_now(&mut self) -> Vec<Said> {
        match self {
            Self::Shim(channel) => channel.wire.read(),
            Self::Task(_) | Self::Past(_) => Vec::new(),
        }
    }

    /// Writes what the protocol itself answered.
    pub(super) async fn flush(&mut self) {
        if let Self::Shim(channel) = self {
            let replies = std::mem::take(&mut channel.wire.replies);
            if !replies.is_empty() {
                channel.wire.gave(&replies, None);
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
            channel.wire.gave(bytes, None);
            let _ = channel.shim.write_stdin(bytes).await;
        }
    }

    /// Gives an order to the child.
    pub(super) async fn tell(&mut self, order: &Order) -> Result<(), Untold> {
        match self {
            Self::Shim(channel) => {
                let bytes = channel.wire.codec.tell(order).map_err(Untold::NoWord)?;
                // Noted before: its echo in the log can be faster than the answer of the shim.
                channel.wire.gave(&bytes, Some(order));
                channel.shim.write_stdin(&bytes).await.map_err(|error| match error {
                    ShimError::StdinClosed => Untold::Closed,
                    error => Untold::Unknown(error.to_string()),
                })
            }
            Self::Task(channel) => {
                let orders = channel.orders.as_ref().ok_or(Untold::Closed)?;
                orders.send(order.clone()).map_err(|_| Untold::Closed)?;
                if let Some(what) = told_as(order) {
                    channel.happened += 1;
                    channel.scribe.told(channel.happened, clock::now(), what);
                    channel.scribe.flush();
                }
                Ok(())
            }
            Self::Past(_) => Err(Untold::Closed),
        }
    }

    /// The child says itself when it has a message.
    pub(super) fn acknowledges(&self) -> bool {
        match self {
            Self::Shim(channel) => channel.wire.codec.acknowledges(),
            Self::Past(wire) => wire.codec.acknowledges(),
            Self::Task(_) => true,
        }
    }

    /// It is closing, and will say when it has.
    pub(super) fn is_closing(&self) -> bool {
        match self {
            Self::Shim(channel) => channel.wire.codec.is_closing(),
            Self::Task(_) | Self::Past(_) => false,
        }
    }

    /// Ends its input.
    pub(super) fn close(&mut self) {
        match self {
            // Gone already shows as its end.
            Self::Shim(channel) => drop(channel.shim.close_stdin()),
            Self::Task(channel) => channel.orders = None,
            Self::Past(_) => {}
        }
    }

    /// Ends it from outside; its end comes as an event.
    pub(super) fn end(&mut self, graces: Graces) {
        match self {
            Self::Shim(channel) => drop(channel.shim.stop(graces)),
            Self::Task(channel) => channel.work.abort(),
            Self::Past(_) => {}
        }
    }

    /// Whether a part of what the child said could not be heard, since the last time.
    pub(super) fn take_missed(&mut self) -> bool {
        match self {
            Self::Shim(channel) => std::mem::take(&mut channel.wire.missed),
            Self::Past(wire) => std::mem::take(&mut wire.missed),
            Self::Task(_) => false,
        }
    }

    /// Where the log ends.
    pub(super) fn position(&self) -> Option<u64> {
        match self {
            Self::Shim(channel) => Some(channel.wire.position()),
            Self::Past(wire) => Some(wire.position()),
            Self::Task(_) => None,
        }
    }

    /// Where the log ends, what nobody has read yet included.
    pub(super) fn end_position(&self) -> u64 {
        match self {
            Self::Shim(channel) => (*channel.log_end.borrow()).max(channel.wire.position()),
            Self::Past(wire) => wire.position(),
            Self::Task(_) => 0,
        }
    }

    pub(super) fn as_shim(&self) -> Option<&Shim> {
        match self {
            Self::Shim(channel) => Some(&channel.shim),
            Self::Task(_) | Self::Past(_) => None,
        }
    }

    /// Reads everything that went both ways before, in order, and rebuilds the codec by it.
    pub(super) fn recall(
        &mut self,
        job: &Job,
        words: impl Fn(&WasTold) -> What,
    ) -> Result<Vec<(u64, Was)>, LogError> {
        match self {
            Self::Shim(channel) => {
                let end = *channel.log_end.borrow();
                // Until it has caught up, little is added to what it has to hear.
                channel.mark(0);
                let all = channel.wire.recall(job, end, words);
                channel.mark(channel.wire.position());
                all
            }
            Self::Past(wire) => {
                let mut all = wire.recall(job, u64::MAX, words)?;
                let rest = wire.finish().unwrap_or_default();
                let at = wire.position();
                all.extend(rest.into_iter().map(|said| (at, Was::Said(said))));
                Ok(all)
            }
            Self::Task(_) => Ok(Vec::new()),
        }
    }

    /// The bytes with which the conversation begins.
    pub(super) fn open(&mut self, job: &Job) -> Vec<u8> {
        match self {
            Self::Shim(channel) => channel.wire.codec.open(job),
            Self::Task(_) | Self::Past(_) => Vec::new(),
        }
    }
}

impl ShimChannel {
    /// What was heard need not be kept for us. A shim that is gone shows as its end.
    fn mark(&mut self, position: u64) {
        self.marked = position;
        let _ = self.shim.heard(position);
    }

    fn mark_progress(&mut self) {
        let position = self.wire.position();
        let unmarked = position - self.marked.min(position);
        if unmarked >= if self.wire.has_more() { MARK } else { LAST_MARK } {
            self.mark(position);
        }
    }

    async fn next(&mut self) -> Event {
        loop {
            // One that never stops speaking does not keep the thread to itself. Nothing is in hand here.
            if self.wire.has_more() {
                tokio::task::yield_now().await;
            }
            let said = self.wire.read();
            self.mark_progress();
            // What the protocol answers by itself is written by whoever drives this.
            if !said.is_empty() || !self.wire.replies.is_empty() {
                return Event::Said(said);
            }
            if let Some(why) = self.wire.broken.take() {
                return Event::Said(vec![Said::Broken(why)]);
            }
            if self.wire.has_more() {
                continue;
            }
            let read = self.wire.position();
            let grown = async {
                let grown = self.log_end.wait_for(|end| *end > read).await.is_ok();
                if !grown {
                    std::future::pending::<()>().await;
                }
            };
            if std::mem::take(&mut self.wire.over) {
                self.exit_due = Some(Instant::now() + EXIT_WITHIN);
            }
            tokio::select! {
                biased;
                () = grown => {}
                () = until(self.exit_due) => {
                    self.exit_due = None;
                    return Event::Mute;
                }
                end = self.shim.exit() => {
                    // Its last words are in the log by now.
                    let before = self.wire.position();
                    let said = self.wire.read();
                    if !said.is_empty() {
                        return Event::Said(said);
                    }
                    if self.wire.position() > before {
                        continue;
                    }
                    return self.wire.finish().map_or(Event::Exited(end), Event::Said);
                }
            }
        }
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
                for said in &said {
                    self.happened += 1;
                    self.scribe.said(self.happened, clock::now(), said);
                }
                self.scribe.flush();
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
