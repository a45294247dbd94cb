//! From a stop to an empty process tree.

use std::path::Path;
use std::time::Instant;

use subagent_model::request::{StopRequest, WaitOptions};
use subagent_runtime::Runtime;

use crate::daemon::{Daemon, caller, program};
use crate::figures::{Samples, row};
use crate::{Options, Result};

/// A tree with a grandchild in a session of its own, and a child that nobody answers for.
const TREE: &str = "setsid sleep 300 & (sleep 300 &) ; sleep 300";

pub(crate) async fn measure(options: &Options, dir: &Path) -> Result<()> {
    let daemon = Daemon::start(options, &dir.join("stop")).await?;
    let mut samples = Samples::default();
    for _ in 0..50 {
        let record = daemon.client.spawn(&caller(), program("/bin/sh", &["-c", TREE], true)).await?.record;
        while daemon.client.output(&caller(), record.id, 0, None).await?.attempt.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        // Until the shell has made its tree.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let begun = Instant::now();
        daemon.client.stop(&caller(), record.id, StopRequest::default()).await?;
        let reply = daemon.client.wait(&caller(), record.id, WaitOptions::default()).await?;
        samples.push(begun.elapsed());
        if !reply.ended {
            return Err("a stopped tree did not go".into());
        }
    }
    row("stop of a tree of four processes to none left", &samples.to_string());
    daemon.end().await
}
