//! What a thousand subscribers of the event stream cost those who work.

use std::path::Path;
use std::time::{Duration, Instant};

use subagent_runtime::Runtime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::daemon::{Daemon, caller, trivial};
use crate::figures::{Samples, row};
use crate::{Options, Result};

const SUBSCRIBERS: usize = 900;
const CHILDREN: usize = 200;

pub(crate) async fn measure(options: &Options, dir: &Path) -> Result<()> {
    let daemon = Daemon::start(options, &dir.join("subscribers")).await?;
    let alone = spawn_many(&daemon).await?;
    let mut readers = Vec::new();
    for number in 0..SUBSCRIBERS {
        let mut stream = UnixStream::connect(daemon.client.socket()).await?;
        let request = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        // Every tenth reads what it gets; the rest never do.
        readers.push(tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            if number % 10 == 0 {
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
            } else {
                tokio::time::sleep(Duration::from_mins(10)).await;
            }
            drop(stream);
        }));
    }
    let before = resident(daemon.pid())?;
    let with = spawn_many(&daemon).await?;
    let after = resident(daemon.pid())?;
    for reader in readers {
        reader.abort();
    }
    row("a durable child alone, spawn to result", &alone.to_string());
    row(&format!("the same with {SUBSCRIBERS} subscribers, one in ten reading"), &with.to_string());
    let each = after.saturating_sub(before) * 1024 / SUBSCRIBERS as u64;
    row("memory for each subscriber while they lag", &format!("{each} bytes more than before"));
    daemon.end().await
}

async fn spawn_many(daemon: &Daemon) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..CHILDREN {
        let begun = Instant::now();
        daemon.client.spawn(&caller(), trivial(true)).await?;
        samples.push(begun.elapsed());
    }
    Ok(samples)
}

/// Resident memory in KiB.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0))
}
