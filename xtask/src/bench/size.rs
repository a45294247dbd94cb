//! How much memory an idle daemon and a shim hold.

use std::path::Path;
use std::time::Duration;

use subagent_runtime::Runtime;

use crate::daemon::{Daemon, caller, program, trivial};
use crate::figures::row;
use crate::{Options, Result};

pub(crate) async fn measure(options: &Options, dir: &Path) -> Result<()> {
    let daemon = Daemon::start(options, &dir.join("size")).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let fresh = resident_kib(daemon.pid())?;
    for _ in 0..100 {
        let reply = daemon.client.spawn(&caller(), trivial(true)).await?;
        daemon.client.ack(&caller(), vec![reply.record.id], true).await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = resident_kib(daemon.pid())?;
    let figure =
        format!("{:.1} MiB fresh, {:.1} MiB after 100 children", fresh as f64 / 1024.0, used as f64 / 1024.0);
    row("daemon resident, idle", &figure);
    let record = daemon.client.spawn(&caller(), program("/bin/sleep", &["300"], true)).await?.record;
    let shim = loop {
        let record = daemon.client.get(&caller(), record.id).await?;
        if let Some(process) = record.attempts.last().and_then(|facts| facts.process.as_ref()) {
            break parent_of(process.pid)?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let rollup = std::fs::read_to_string(format!("/proc/{shim}/smaps_rollup"))?;
    let (rss, anonymous) = (field(&rollup, "Rss:")?, field(&rollup, "Anonymous:")?);
    row("shim with a live child, resident (private anonymous)", &format!("{rss} KiB ({anonymous} KiB)"));
    daemon.end().await
}

/// Resident size of a process.
pub(crate) fn resident_kib(pid: u32) -> Result<u64> {
    field(&std::fs::read_to_string(format!("/proc/{pid}/status"))?, "VmRSS:")
}

fn parent_of(pid: impl std::fmt::Display) -> Result<u64> {
    field(&std::fs::read_to_string(format!("/proc/{pid}/status"))?, "PPid:")
}

fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no {name}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
