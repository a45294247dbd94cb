//! A store with very many records: start, listing and showing.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use subagent_core::run::{Birth, Command, accept};
use subagent_model::request::ListFilter;
use subagent_model::{
    BoundedText, Cause, Handle, Mode, Requester, RunNumber, SpawnSpec, SubagentId, Timestamp,
};
use subagent_runtime::Runtime;
use subagent_store::{Store, Transition};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

use crate::daemon::{Daemon, caller};
use crate::figures::{Samples, ms, row};
use crate::{Options, Result};

pub(crate) async fn measure(options: &Options, dir: &Path) -> Result<()> {
    let home = dir.join("records");
    // A daemon makes the store where it wants it.
    Daemon::start(options, &home).await?.end().await?;
    let begun = Instant::now();
    let last = seed(&home, options.records)?;
    eprintln!("    {} records written in {}", options.records, ms(begun.elapsed()));
    let mut ready = Samples::default();
    for _ in 0..5 {
        let daemon = Daemon::start(options, &home).await?;
        ready.push(daemon.ready);
        daemon.end().await?;
    }
    row(&format!("exec of a daemon to its first answer, {} records", options.records), &ready.to_string());
    let daemon = Daemon::start(options, &home).await?;
    let (mut page_of, mut show, mut by_handle) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..200 {
        let begun = Instant::now();
        let page =
            daemon.client.list(&caller(), ListFilter { limit: Some(50), ..ListFilter::default() }).await?;
        page_of.push(begun.elapsed());
        if page.items.len() != 50.min(options.records) {
            return Err(format!("a page has {} records", page.items.len()).into());
        }
        let begun = Instant::now();
        daemon.client.get(&caller(), last).await?;
        show.push(begun.elapsed());
        let begun = Instant::now();
        daemon.client.resolve("gseed0007").await?;
        by_handle.push(begun.elapsed());
    }
    row("a page of 50", &page_of.to_string());
    row("one record by id", &show.to_string());
    row("one record by handle", &by_handle.to_string());
    let rss = crate::size::resident_kib(daemon.pid())?;
    row("daemon resident with these records", &format!("{:.1} MiB", rss as f64 / 1024.0));
    daemon.end().await
}

/// Ended runs, all of them acknowledged, written through the store's own door.
fn seed(home: &Path, count: usize) -> Result<SubagentId> {
    let store = SqliteStore::open(home, &OpenOptions::default())?;
    let mut last = SubagentId::from_uuid(uuid::Uuid::now_v7());
    let at = Timestamp::from_micros(1_790_000_000_000_000);
    for chunk in 0..count.div_ceil(500) {
        let mut births = Vec::new();
        for place in 0..500.min(count - chunk * 500) {
            last = SubagentId::from_uuid(uuid::Uuid::now_v7());
            let facts = accept(birth(last, chunk * 500 + place));
            births.push(Transition::birth(last, facts, at)?);
        }
        store.commit(&births)?;
        let stop =
            Command::Stop { actor: String::from("bench"), cause: Cause::Requested, drop_follow_ups: true };
        let ack = Command::Acknowledge { run: RunNumber(1), by: Requester::from("bench") };
        for command in [stop, ack] {
            births = births.iter().map(|step| step_on(&step.state, &command, at)).collect::<Result<_>>()?;
            store.commit(&births)?;
        }
    }
    Ok(last)
}

fn step_on(
    state: &Arc<subagent_core::run::Subagent>,
    command: &Command,
    at: Timestamp,
) -> Result<Transition> {
    let facts = subagent_core::run::decide(state, command, at)?;
    Ok(Transition::step(state, facts, at)?)
}

fn birth(id: SubagentId, number: usize) -> Birth {
    let prompt = BoundedText {
        preview: format!("Look at part {number} and say what is wrong with it."),
        bytes: 60,
        sha256: None,
        truncated: false,
    };
    let spec = SpawnSpec { mode: Mode::Async, ..SpawnSpec::new("exec", prompt, "/".into()) };
    let handle = Handle(format!("gseed{number:04}"));
    Birth { id, handle, spec, parent: None, root: id, depth: 0, requester: Requester::from("bench") }
}
