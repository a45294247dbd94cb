//! Taking over live children after the daemon was killed.

use std::path::Path;
use std::time::{Duration, Instant};

use subagent_model::Status;
use subagent_model::request::{ListFilter, StopRequest};
use subagent_runtime::Runtime;

use crate::daemon::{Daemon, caller, program};
use crate::figures::{ms, row};
use crate::{Options, Result};

const CHILDREN: usize = 50;

/// From exec of the new daemon to its first answer, all children adopted.
pub(crate) async fn measure(options: &Options, dir: &Path) -> Result<()> {
    let home = dir.join("adoption");
    let daemon = Daemon::start(options, &home).await?;
    for _ in 0..CHILDREN {
        daemon.client.spawn(&caller(), program("/bin/sleep", &["300"], true)).await?;
    }
    let begun = Instant::now();
    loop {
        let page = daemon
            .client
            .list(&caller(), ListFilter { live: true, limit: Some(100), ..ListFilter::default() })
            .await?;
        if page.items.iter().filter(|record| record.started_at.is_some()).count() == CHILDREN {
            break;
        }
        if begun.elapsed() > Duration::from_secs(30) {
            return Err("the children did not start within 30 s".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    daemon.kill()?;
    let daemon = Daemon::start(options, &home).await?;
    let adopted = daemon.health().await?.recovery.adopted;
    row(
        &format!("exec of a daemon to its first answer with {CHILDREN} live children adopted"),
        &format!("{} ({adopted} adopted)", ms(daemon.ready)),
    );
    let page = daemon
        .client
        .list(&caller(), ListFilter { live: true, limit: Some(100), ..ListFilter::default() })
        .await?;
    let begun = Instant::now();
    for record in &page.items {
        daemon.client.stop(&caller(), record.id, StopRequest::default()).await?;
    }
    while daemon.health().await?.running > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    row(&format!("stop of {} adopted children to all gone", page.items.len()), &ms(begun.elapsed()));
    for record in page.items {
        let record = daemon.client.get(&caller(), record.id).await?;
        if record.status != Status::Stopped {
            return Err(format!("{} is {}", record.handle, record.status).into());
        }
    }
    daemon.end().await
}
