//! The rule of pairs: which committed event is told as the start of its run, and which as its end. Pure; feeding it and
//! telling what it says is the shell's.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use subagent_model::{
    AttemptNumber, Event, EventKind, Outcome, Requester, RunNumber, SubagentId, SubagentRecord,
};

use crate::info::{EndInfo, Notice, RunFacts, StartInfo};

/// How many ends the ledger remembers, so that none is told twice. A committed log repeats none; this is for callers that
/// read a part of it again.
pub const REMEMBERED_ENDS: usize = 4096;

type Run = (SubagentId, RunNumber);

/// An event as it was committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The event.
    pub event: Event,
    /// Who asked for its run.
    pub requester: Requester,
    /// True when it is in the durable log; false for subagents that live in memory only.
    pub logged: bool,
}

/// A run as it stands with the event, for the events that start or end it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// The record of that run.
    pub record: SubagentRecord,
    /// What the child said last.
    pub last_message: Option<Arc<str>>,
    /// How often gates made the run go on.
    pub continuations: u32,
}

/// Which runs were told as started and as ended.
///
/// Of every run the first `started` is the start, whatever attempt it is of (`woken` for a run in a process that lives
/// already), and the first `ended` the end. A run that ends without a known start gets both from its end, so that no end
/// comes alone: it never started, or it started under an earlier daemon. What is known here is known for one daemon.
#[derive(Debug)]
pub struct Ledger {
    data_dir: PathBuf,
    open: HashMap<Run, Arc<StartInfo>>,
    over: HashSet<Run>,
    order: VecDeque<Run>,
}

impl Ledger {
    /// A ledger that knows of no run. Transcripts lie below `data_dir`.
    pub fn new(data_dir: PathBuf) -> Self {
        Self { data_dir, open: HashMap::new(), over: HashSet::new(), order: VecDeque::new() }
    }

    /// Takes the next event in. `view` is called only if the event starts or ends its run.
    pub fn take(&mut self, committed: Committed, view: impl FnOnce() -> RunView) -> Notice {
        let Committed { event, requester, logged } = committed;
        let run = (event.subagent, event.run);
        let is_over = self.over.contains(&run);
        let (start, end) = match &event.kind {
            EventKind::Started { attempt, .. } | EventKind::Woken { attempt }
                if !is_over && !self.open.contains_key(&run) =>
            {
                let start = Arc::new(self.start(&event, *attempt, &view()));
                self.open.insert(run, Arc::clone(&start));
                (Some(start), None)
            }
            EventKind::Ended { outcome, completed_at, marks, quality, late_error, .. } if !is_over => {
                let view = view();
                let told = self.open.remove(&run);
                let start = told.clone().unwrap_or_else(|| Arc::new(self.unseen_start(&event, &view)));
                let error = match outcome {
                    Outcome::Error { error } => Some(error.clone()),
                    _ => late_error.clone(),
                };
                let end = Arc::new(EndInfo {
                    facts: RunFacts::of(&view.record, &self.data_dir),
                    started: start.started,
                    start: Arc::clone(&start),
                    at: *completed_at,
                    status: outcome.status(),
                    quality: *quality,
                    marks: marks.clone(),
                    end_reason: view.record.end_reason,
                    error,
                    last_assistant_message: view.last_message.filter(|text| !text.trim().is_empty()),
                    continuations: view.continuations,
                });
                self.remember(run);
                (told.is_none().then_some(start), Some(end))
            }
            _ => (None, None),
        };
        Notice { event, requester, logged, start, end }
    }

    fn start(&self, event: &Event, attempt: AttemptNumber, view: &RunView) -> StartInfo {
        let facts = RunFacts { attempt, ..RunFacts::of(&view.record, &self.data_dir) };
        StartInfo { facts, at: event.at, started: true }
    }

    /// The start of a run of which only the end was seen.
    fn unseen_start(&self, event: &Event, view: &RunView) -> StartInfo {
        let started_at = view.record.started_at;
        StartInfo {
            facts: RunFacts::of(&view.record, &self.data_dir),
            at: started_at.unwrap_or(event.at),
            started: started_at.is_some(),
        }
    }

    fn remember(&mut self, run: Run) {
        self.over.insert(run);
        self.order.push_back(run);
        if self.order.len() > REMEMBERED_ENDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.over.remove(&oldest);
        }
    }
}
