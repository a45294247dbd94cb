//! What a person sees while a foreground run works: one line that comes and goes.

use std::convert::Infallible;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use subagent_model::{SubagentId, SubagentRecord};
use subagent_runtime::Runtime;

use crate::session::Session;
use crate::view::{look, text};

/// How often the line moves.
const TICK: Duration = Duration::from_millis(120);
/// How long one look for new output waits.
const LOOK: Duration = Duration::from_millis(800);
/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

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

    /// Keeps the line up to date for as long as it is polled.
    pub(super) async fn keep(&self, session: &Session<'_>, id: SubagentId) -> Infallible {
        let Some(bar) = &self.bar else { return std::future::pending().await };
        let mut from = 0;
        loop {
            if let Ok(record) = session.client.get(id).await {
                bar.set_prefix(prefix(&record));
            }
            match session.client.output(id, from, Some(LOOK)).await {
                Ok(page) => {
                    from = page.next;
                    let said =
                        page.parts.iter().filter(|part| part.stream == "stdout" || part.stream == "stderr");
                    if let Some(line) = said.rev().find_map(|part| text::last_line(&part.text)) {
                        bar.set_message(line);
                    }
                }
                // The wait beside us finds the daemon again.
                Err(_) => tokio::time::sleep(LOOK).await,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn prefix(record: &SubagentRecord) -> String {
    format!("{} {}", record.handle, look::word(record.status, true))
}
