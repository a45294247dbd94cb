//! Telling observers: a task and a bounded queue for each, so that none waits for another and the writer waits for none.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_model::{Cursor, Requester};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::contain::contained;
use crate::inbox::{INBOX, Inbox, Told};
use crate::info::{EndInfo, Notice, StartInfo};
use crate::ledger::{Committed, Ledger, RunView};
use crate::observer::Observer;

/// The running observers. Dropping it lets each come to the end of its queue, as long as the executor lives.
pub struct Dispatch {
    ledger: Mutex<Ledger>,
    listeners: Vec<Listener>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// The writer's end of one observer. What it asks of foreign code it has asked before.
struct Listener {
    name: Arc<str>,
    owner: Option<Requester>,
    events: bool,
    inbox: Arc<Inbox>,
}

/// The observer's own end.
struct Teller {
    name: Arc<str>,
    observer: Arc<dyn Observer>,
    deadline: Duration,
    events: bool,
    inbox: Arc<Inbox>,
}

impl Dispatch {
    /// Starts a task for each of `observers` on `executor`, whose clock must run. `head` is the position that the log
    /// has reached; transcripts lie below `data_dir`.
    pub fn start(
        observers: &[Arc<dyn Observer>],
        data_dir: PathBuf,
        head: Cursor,
        executor: &Handle,
    ) -> Self {
        let mut listeners = Vec::with_capacity(observers.len());
        let mut tasks = Vec::with_capacity(observers.len());
        for observer in observers {
            let name: Arc<str> = Arc::from(observer.name());
            let events = observer.events();
            let inbox = Arc::new(Inbox::new(INBOX, head));
            let teller = Teller {
                name: Arc::clone(&name),
                observer: Arc::clone(observer),
                deadline: observer.deadline(),
                events,
                inbox: Arc::clone(&inbox),
            };
            tasks.push(executor.spawn(teller.run()));
            listeners.push(Listener { name, owner: observer.owner(), events, inbox });
        }
        Self { ledger: Mutex::new(Ledger::new(data_dir)), listeners, tasks: Mutex::new(tasks) }
    }

    /// True when there is nobody to tell: then nothing needs to be made for it.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Tells a committed event. `view` is called only if it starts or ends its run. Never waits for an observer. Events
    /// come in the order of their commits.
    pub fn committed(&self, committed: Committed, view: impl FnOnce() -> RunView) {
        if self.is_empty() {
            return;
        }
        // Held while publishing: the order of the ledger is the order that is told.
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish(&Arc::new(ledger.take(committed, view)));
    }

    /// Puts a notice of a ledger into the queue of everyone whom it concerns. Never waits.
    pub fn publish(&self, notice: &Arc<Notice>) {
        for listener in &self.listeners {
            let is_its_own = listener.owner.as_ref().is_none_or(|owner| *owner == notice.requester);
            if is_its_own && (listener.events || notice.start.is_some() || notice.end.is_some()) {
                listener.inbox.put(notice);
            } else {
                listener.inbox.skip(notice);
            }
        }
    }

    /// Takes nothing more in and lets the observers come to the end of their queues, for at most `bound`. What is not
    /// told by then is given up.
    pub async fn drain(&self, bound: Duration) {
        self.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async {
            for task in &mut tasks {
                if let Err(error) = task.await {
                    tracing::error!(%error, "the task of an observer failed");
                }
            }
        };
        if tokio::time::timeout(bound, all).await.is_ok() {
            return;
        }
        for (task, listener) in tasks.iter().zip(&self.listeners) {
            if !task.is_finished() {
                task.abort();
                let left = listener.inbox.len();
                tracing::warn!(observer = %listener.name, left, "an observer was given up at the shutdown");
            }
        }
    }

    fn close(&self) {
        for listener in &self.listeners {
            listener.inbox.close();
        }
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        self.close();
    }
}

impl Teller {
    async fn run(self) {
        while let Some(told) = self.inbox.take().await {
            match told {
                Told::Notice { notice, left_out } => self.tell(&notice, left_out.as_deref()).await,
                Told::Lag { missed, resume_after } => {
                    tracing::warn!(observer = %self.name, missed, %resume_after, "an observer fell behind");
                    self.call("on_lag", async { self.observer.on_lag(missed, resume_after).await }).await;
                }
            }
            // A long queue of quick calls must leave room for others on the same thread.
            tokio::task::consume_budget().await;
        }
    }

    async fn tell(&self, notice: &Notice, left_out: Option<&StartInfo>) {
        let start: Option<&StartInfo> = notice.start.as_deref().or(left_out);
        let end: Option<&EndInfo> = notice.end.as_deref();
        if let Some(start) = start {
            self.call("on_start", async { self.observer.on_start(start).await }).await;
        }
        if self.events {
            self.call("on_event", async { self.observer.on_event(&notice.event).await }).await;
        }
        if let Some(end) = end {
            self.call("on_end", async { self.observer.on_end(end).await }).await;
        }
    }

    async fn call(&self, what: &'static str, call: impl Future<Output = ()> + Send) {
        if let Err(failure) = contained(call, self.deadline).await {
            tracing::warn!(observer = %self.name, call = what, %failure, "a call of an observer failed");
        }
    }
}
