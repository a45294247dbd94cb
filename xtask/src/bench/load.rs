//! What one child costs, and how many go through.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use subagent_client::Client;
use subagent_model::Status;
use subagent_runtime::Runtime;

use crate::daemon::{Daemon, caller, trivial};
use crate::figures::{Samples, row};
use crate::floor::Floor;
use crate::{Options, Result};

/// Asks for one trivial child, waits for its result, and consumes it without waiting for that.
async fn one(client: &Client, durable: bool) -> Result<Duration> {
    let begun = Instant::now();
    let reply = client.spawn(&caller(), trivial(durable)).await?;
    let took = begun.elapsed();
    if !reply.ended || reply.record.status != Status::Completed {
        return Err(
            format!("a child did not end well: {:?} {:?}", reply.record.status, reply.record.error).into()
        );
    }
    client.ack(&caller(), vec![reply.record.id], true).await?;
    Ok(took)
}

/// Spawn to result, one after another, on a warm daemon.
pub(crate) async fn latency(options: &Options, dir: &Path, floor: &Floor) -> Result<()> {
    let daemon = Daemon::start(options, &dir.join("latency")).await?;
    for (durable, word, base) in
        [(true, "durable", floor.durable.median()), (false, "not durable", floor.spawn.median())]
    {
        let mut samples = Samples::default();
        for round in 0..550 {
            let took = one(&daemon.client, durable).await?;
            if round >= 50 {
                samples.push(took);
            }
        }
        let ratio = samples.median().as_secs_f64() / base.as_secs_f64();
        row(&format!("spawn to result, {word}"), &format!("{samples}; {ratio:.2} x its floor"));
    }
    daemon.end().await
}

/// Children a second.
pub(crate) async fn throughput(options: &Options, dir: &Path) -> Result<()> {
    let daemon = Daemon::start(options, &dir.join("throughput")).await?;
    run(&daemon, 200, 16, true).await?;
    for durable in [true, false] {
        for (count, width) in [(500, 1), (500, 16), (options.many, 1), (options.many, 16)] {
            let took = run(&daemon, count, width, durable).await?;
            let word = if durable { "durable" } else { "not durable" };
            let rate = count as f64 / took.as_secs_f64();
            row(&format!("{count} children, {width} at once, {word}"), &format!("{rate:.0} a second"));
        }
    }
    let rss = crate::size::resident_kib(daemon.pid())?;
    row("daemon resident after that", &format!("{:.1} MiB", rss as f64 / 1024.0));
    daemon.end().await
}

async fn run(daemon: &Daemon, count: usize, width: usize, durable: bool) -> Result<Duration> {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let workers: Vec<_> = (0..width)
        .map(|_| {
            let (next, client) = (Arc::clone(&next), daemon.client.clone());
            tokio::spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    one(&client, durable).await.map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(begun.elapsed())
}
