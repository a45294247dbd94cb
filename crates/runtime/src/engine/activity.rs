//! What children are doing right now: momentary, lossy, never stored. Also when something was last seen of each, on a clock
//! that stands still while the machine sleeps.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subagent_core::run::Subagent;
use subagent_model::request::Activity;
use subagent_model::{RunNumber, SubagentId, Timestamp};

use super::clock;

/// Bytes of the text that is shown.
const SHOWN: usize = 512;

/// The children that were seen.
#[derive(Default)]
pub(crate) struct Activities {
    by_subagent: Mutex<HashMap<SubagentId, Seen>>,
}

#[derive(Debug, Clone)]
struct Seen {
    run: RunNumber,
    /// By the monotonic clock: a machine that slept, or a clock that was set, makes nobody look idle.
    at: Instant,
    wall: Timestamp,
    log_end: u64,
    cpu: Option<Duration>,
    tools: Vec<String>,
    text: Option<String>,
    in_turn: bool,
}

/// How long nothing was seen of a child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    /// For how long.
    pub(crate) lasts: Duration,
    /// Since when, for people.
    pub(crate) since: Timestamp,
    /// A tool is at work: its silence is no sign of anything.
    pub(crate) in_tool: bool,
}

impl Activities {
    /// How a child that is spoken with stands. With `news` it was heard or told something, which is a sign of life; a
    /// change of its record is none.
    pub(crate) fn show(
        &self,
        state: &Subagent,
        tools: Vec<String>,
        text: Option<&str>,
        in_turn: bool,
        news: bool,
    ) {
        let mut map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = map.entry(state.id).or_insert_with(|| Seen::new(state.run.number));
        if news || seen.run != state.run.number {
            seen.touch();
        }
        seen.run = state.run.number;
        seen.tools = tools;
        seen.text = text.map(|text| tail(text).to_owned());
        seen.in_turn = in_turn;
    }

    /// A look at a child from outside: how far its log has grown, and how much processor time its tree has used.
    pub(crate) fn look(&self, state: &Subagent, log_end: Option<u64>, cpu: Option<Duration>) -> Silence {
        let mut map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = map.entry(state.id).or_insert_with(|| Seen::new(state.run.number));
        let grown = log_end.is_some_and(|end| end != seen.log_end);
        let worked = cpu.is_some_and(|cpu| seen.cpu.is_none_or(|before| cpu > before + CPU_NOISE));
        if grown || worked || seen.run != state.run.number {
            seen.touch();
            seen.run = state.run.number;
            seen.log_end = log_end.unwrap_or(seen.log_end);
            seen.cpu = cpu.or(seen.cpu);
        }
        Silence { lasts: seen.at.elapsed(), since: seen.wall, in_tool: !seen.tools.is_empty() }
    }

    /// Nothing of it is running any more.
    pub(crate) fn forget(&self, id: SubagentId) {
        self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Forgets those that are not among the live ones.
    pub(crate) fn keep(&self, is_live: impl Fn(SubagentId) -> bool) {
        self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner).retain(|id, _| is_live(*id));
    }

    /// The present look at all of them, by id.
    pub(crate) fn list(&self) -> Vec<Activity> {
        let map = self.by_subagent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = map
            .iter()
            .map(|(id, seen)| Activity {
                id: *id,
                run: seen.run,
                last_seen_at: seen.wall,
                active_tools: seen.tools.clone(),
                text: seen.text.clone(),
                cpu_ms: seen.cpu.map(|cpu| u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
            })
            .collect();
        all.sort_unstable_by_key(|activity| activity.id);
        all
    }
}

/// Processor time that a process may use without doing anything, such as by a timer of its run time.
const CPU_NOISE: Duration = Duration::from_millis(10);

impl Seen {
    fn new(run: RunNumber) -> Self {
        Self {
            run,
            at: Instant::now(),
            wall: clock::now(),
            log_end: 0,
            cpu: None,
            tools: Vec::new(),
            text: None,
            in_turn: false,
        }
    }

    fn touch(&mut self) {
        self.at = Instant::now();
        self.wall = clock::now();
    }
}

/// The end of a text, whole characters only.
fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(SHOWN);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}
