//! `subagent status`: how the daemon stands. It starts none.

use std::collections::BTreeMap;

use clap::Args;
use subagent_model::request::{Health, ListFilter, RecoverySummary};
use subagent_model::{ErrorCode, Status};
use subagent_runtime::Runtime;

use super::ls;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::{text, time};

/// Show how the daemon stands
///
/// Starts none: exit code 6 says that there is none, which is no fault, since every other command starts it on demand.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent status
  subagent status --json | jq .recovery")]
pub(crate) struct StatusArgs {}

/// Carries it out.
pub(crate) async fn run(_: &StatusArgs, console: &Console) -> Result<u8, Failure> {
    let Some(session) = Session::existing(console).await? else {
        let paths = crate::paths::Paths::find()?;
        let message = format!("no daemon is running for {}", paths.data.display());
        return Err(Failure::new(ErrorCode::DaemonUnreachable, message)
            .hint("Any command that needs it starts it, for example `subagent ls`."));
    };
    let health = session.client.health().await?;
    let counts = counts(&session).await?;
    if console.json {
        let mut document = serde_json::to_value(&health).unwrap_or_default();
        if let Some(fields) = document.as_object_mut() {
            fields.insert(String::from("socket"), session.client.socket().display().to_string().into());
            fields.insert(String::from("data_dir"), session.paths.data.display().to_string().into());
            fields.insert(String::from("statuses"), serde_json::to_value(&counts).unwrap_or_default());
        }
        console.document(&document);
        return Ok(exit::DONE);
    }
    console.rows(&card(&health, &counts, &session));
    Ok(exit::DONE)
}

/// How many are live, by status.
async fn counts(session: &Session<'_>) -> Result<BTreeMap<&'static str, usize>, Failure> {
    let filter = ListFilter { live: true, ..ListFilter::default() };
    let live = ls::pages(session, &filter, u32::MAX).await?.items;
    let all = Status::ALL.into_iter().filter(|status| !status.is_final());
    let count = |status| live.iter().filter(|record| record.status == status).count();
    Ok(all.map(|status| (status.as_str(), count(status))).collect())
}

fn card(health: &Health, counts: &BTreeMap<&'static str, usize>, session: &Session<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let mut say =
        |name: &str, value: String| rows.push(vec![Cell::painted(name, Paint::Dim), Cell::plain(&value)]);
    let state = match (&health.degraded, health.draining) {
        (_, true) => String::from("shutting down; it takes no new work"),
        (Some(reason), _) => format!("takes no new work: {}", text::line(reason)),
        (None, false) => String::from("serving"),
    };
    say("daemon", state);
    say("version", health.version.clone());
    say("process", format!("{}, since {}", health.pid, time::moment(health.started_at)));
    say("socket", session.client.socket().display().to_string());
    say("data", session.paths.data.display().to_string());
    say("slots", format!("{} of {} in use", health.running, health.running_limit));
    for status in Status::ALL.into_iter().filter(|status| !status.is_final()) {
        let count = counts.get(status.as_str()).copied().unwrap_or(0);
        if count > 0 || !matches!(status, Status::Stopping) {
            say(status.as_str(), count.to_string());
        }
    }
    say("unconsumed", format!("{} (all requesters)", health.unconsumed));
    say("containment", health.containment.clone());
    if !health.refused.is_empty() {
        say("refused", refused(&health.refused));
    }
    for (name, value) in recovery(&health.recovery) {
        say(name, value);
    }
    rows
}

/// Refused runs by code, since the daemon started.
fn refused(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(code, count)| format!("{count} {code}")).collect::<Vec<_>>().join(", ")
}

/// What the last start of the daemon found, as far as there was anything.
pub(super) fn recovery(found: &RecoverySummary) -> Vec<(&'static str, String)> {
    let counts = [
        ("adopted", found.adopted),
        ("ended meanwhile", found.settled),
        ("tried again", found.requeued),
        ("stops carried out", found.stopping),
        ("lost", found.lost),
        ("damaged records", found.damaged),
    ];
    let told: Vec<_> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let mut lines = Vec::new();
    if !told.is_empty() {
        lines.push(("at its start", told.join(", ")));
    }
    if !found.orphans.is_empty() {
        lines.push(("orphans", found.orphans.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn queue_11_refusals_are_shown_by_code() {
        let counts = [(String::from("spawn_rate"), 2), (String::from("queue_full"), 1)].into();
        assert_eq!(refused(&counts), "1 queue_full, 2 spawn_rate");
    }
}
