//! `subagent gc`: releases what retention allows, and says what stays and why.

use std::time::Duration;

use clap::Args;
use subagent_model::request::{GcReply, GcRequest};
use subagent_runtime::Runtime;

use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::{number, time};

/// Release what was read and is old
///
/// First logs and whole texts go; records and previews stay longer. What is live or unread is never touched. The daemon
/// does the same by itself as the section "retention" of config.toml says; this is for doing it now.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent gc --dry-run
  subagent gc --older-than 1d
  subagent gc --older-than 0s --records")]
pub(crate) struct GcArgs {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
    /// What was read longer ago than this, instead of the time in config.toml: 12h, 7d
    #[arg(long, value_name = "DURATION", value_parser = time::parse)]
    older_than: Option<Duration>,
    /// The records too, not the logs and texts alone
    #[arg(long)]
    records: bool,
}

/// Carries it out.
pub(crate) async fn run(args: &GcArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let request = GcRequest {
        dry_run: args.dry_run,
        older_than_ms: args.older_than.map(time::millis),
        records: args.records,
    };
    let reply = session.client.gc(&session.caller, request).await?;
    if console.json {
        console.document(&reply);
        return Ok(exit::DONE);
    }
    console.rows(&rows(&reply));
    for line in summary(&reply) {
        console.note(&line);
    }
    Ok(exit::DONE)
}

/// What goes, one a row.
fn rows(reply: &GcReply) -> Vec<Vec<Cell>> {
    let row = |id: &subagent_model::SubagentId, what: &str| {
        vec![Cell::painted(&id.to_string(), Paint::Bold), Cell::plain(what)]
    };
    let records = reply.records.iter().map(|id| {
        let what = if reply.heavy.contains(id) { "record, logs and texts" } else { "record" };
        row(id, what)
    });
    let heavy = reply.heavy.iter().filter(|id| !reply.records.contains(id));
    records.chain(heavy.map(|id| row(id, "logs and texts; the record stays"))).collect()
}

/// In words: what went, and what stays and why.
fn summary(reply: &GcReply) -> Vec<String> {
    let will = if reply.dry_run { "would be released" } else { "were released" };
    let mut lines = Vec::new();
    if reply.heavy.is_empty() && reply.records.is_empty() {
        lines.push(String::from("nothing is old enough to go"));
    } else {
        lines.push(format!(
            "logs and texts of {} and {} {will}: {}",
            number::of(reply.heavy.len(), "subagent"),
            number::of(reply.records.len(), "record"),
            number::bytes(reply.bytes)
        ));
    }
    if reply.unread > 0 {
        let count = usize::try_from(reply.unread).unwrap_or(usize::MAX);
        lines.push(format!(
            "{} with an unread result stay; `subagent inbox --all` lists them",
            number::of(count, "subagent")
        ));
    }
    if !reply.unknown.is_empty() {
        lines.push(String::from("no record knows these directories of the data directory; they stay:"));
        lines.extend(reply.unknown.iter().map(|dir| format!("  {}", crate::view::text::line(dir))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::summary;
    use subagent_model::request::GcReply;

    #[test]
    fn result_33_what_is_unread_stays_and_is_said_to() {
        let reply = GcReply {
            dry_run: true,
            unread: 2,
            unknown: vec![String::from("attempts/x")],
            ..GcReply::default()
        };
        let told = summary(&reply).join("\n");
        assert!(
            told.contains("nothing is old enough") && told.contains("2 subagents with an unread result"),
            "{told}"
        );
        assert!(told.contains("attempts/x"), "{told}");
        let id: subagent_model::SubagentId = "01a22d21-9704-741f-afa1-3082d0029501".parse().unwrap();
        let done = GcReply { heavy: vec![id], bytes: 50_000_000, ..GcReply::default() };
        assert_eq!(summary(&done), ["logs and texts of 1 subagent and 0 records were released: 50 MB"]);
    }
}
