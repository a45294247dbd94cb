//! What a person sees while a run is followed: one line that comes and goes, and above it what the child asks for.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use subagent_model::request::Activity;
use subagent_model::{RequestNumber, RequestState, SubagentId, SubagentRecord};
use subagent_runtime::Runtime;

use crate::commands::{asked, outcome};
use crate::session::Session;
use crate::view::text;

/// How often the line moves.
const TICK: Duration = Duration::from_millis(120);
/// How long one look for new output waits.
const LOOK: Duration = Duration::from_millis(800);
/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two looks where nobody watches a terminal.
const QUIET_PAUSE: Duration = Duration::from_secs(2);

/// The line; it is removed when this is dropped.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress {
    /// Begins, if a terminal is there to show it.
    pub(super) fn begin(session: &Session<'_>, record: &SubagentRecord) -> Self {
        let console = session.console;
        if !console.err.terminal || console.json {
            return Self { bar: None };
        }
        let template = if console.err.colour {
            "{spinner:.cyan} {prefix} {elapsed} {wide_msg:.dim}"
        } else {
            "{spinner} {prefix} {elapsed} {wide_msg}"
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.set_prefix(prefix(record));
        bar.enable_steady_tick(TICK);
        Self { bar: Some(bar) }
    }

    /// Says something above the line.
    pub(super) fn say(&self, session: &Session<'_>, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| session.console.note(line)),
            None => session.console.note(line),
        }
    }

    /// Keeps the line up to date for as long as it is polled. Without a terminal only what the child asks for is told:
    /// nobody would look for it, and the run waits.
    pub(super) async fn keep(&self, session: &Session<'_>, id: SubagentId) -> Infallible {
        if session.console.json {
            return std::future::pending().await;
        }
        let mut told = HashSet::new();
        let mut from = 0;
        loop {
            let record = session.client.get(&session.caller, id).await;
            if let Ok(record) = &record {
                self.tell_asked(session, record, &mut told);
            }
            let Some(bar) = &self.bar else {
                tokio::time::sleep(QUIET_PAUSE).await;
                continue;
            };
            if let Ok(record) = &record {
                bar.set_prefix(prefix(record));
            }
            match record {
                Ok(record) if speaks(&record) => {
                    bar.set_message(doing(session, &record).await);
                    tokio::time::sleep(LOOK).await;
                }
                _ => from = Self::last_words(bar, session, id, from).await,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Shows the last line that the child wrote; the position to read on from.
    async fn last_words(bar: &ProgressBar, session: &Session<'_>, id: SubagentId, from: u64) -> u64 {
        let Ok(page) = session.client.output(&session.caller, id, from, Some(LOOK)).await else {
            // The wait beside us finds the daemon again.
            tokio::time::sleep(LOOK).await;
            return from;
        };
        let said = page.parts.iter().filter(|part| part.stream == "stdout" || part.stream == "stderr");
        if let Some(line) = said.rev().find_map(|part| text::last_line(&part.text)) {
            bar.set_message(line);
        }
        page.next
    }

    /// Each open request once, with the command that answers it.
    fn tell_asked(&self, session: &Session<'_>, record: &SubagentRecord, told: &mut HashSet<RequestNumber>) {
        for request in record.requests.iter().filter(|request| request.state == RequestState::Open) {
            if told.insert(request.number) {
                let how = asked::how_to_answer(&record.handle, request);
                let line = format!("{} asks: {}; {how}", record.handle, asked::what(request));
                self.say(session, &line);
            }
        }
    }
}

/// Its output is a protocol, no text for people.
fn speaks(record: &SubagentRecord) -> bool {
    record.session.is_some() || record.turn_count > 0 || record.waiting_on.is_some()
}

/// What it is doing, in one line.
async fn doing(session: &Session<'_>, record: &SubagentRecord) -> String {
    let all = session.client.activity(&session.caller).await.unwrap_or_default();
    let seen = all.iter().find(|activity| activity.id == record.id);
    seen.map(words).unwrap_or_default()
}

/// Its tools at work, else the end of what it writes.
pub(in crate::commands) fn words(activity: &Activity) -> String {
    if activity.active_tools.is_empty() {
        return activity.text.as_deref().and_then(text::last_line).unwrap_or_default();
    }
    text::line(&activity.active_tools.join(", "))
}

fn prefix(record: &SubagentRecord) -> String {
    format!("{} {}", record.handle, outcome::standing(record, true))
}
