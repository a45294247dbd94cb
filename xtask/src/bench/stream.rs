//! How fast the output of a child passes through: 200 MB of JSON lines, said to a daemon that understands each of them and
//! writes the transcript, beside the same bytes as the plain output of a program. And what memory that takes.

use std::io::{BufRead as _, BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use subagent_model::Talk;
use subagent_model::request::SpawnRequest;
use subagent_runtime::Runtime;

use crate::daemon::{Daemon, caller, program};
use crate::figures::row;
use crate::subscribers::resident;
use crate::{Options, Result};

/// The argument with which this program is the child.
pub(crate) const CHILD: &str = "--talkative-child";
/// Bytes of one text.
const TEXT: usize = 1_000;
/// All that is said.
const BYTES: usize = 200 << 20;

pub(crate) async fn measure(options: &Options, dir: &Path) -> Result<()> {
    let daemon = Daemon::start(options, &dir.join("stream")).await?;
    let me = std::env::current_exe()?;
    for (talk, what) in
        [(Talk::None, "as the plain output of a program"), (Talk::Lines, "as JSON lines that are understood")]
    {
        let mut request = program(&me.to_string_lossy(), &[CHILD], true);
        if let Some(exec) = &mut request.exec {
            exec.talk = talk;
        }
        let request = SpawnRequest { prompt: String::from("speak"), wait_ms: Some(300_000), ..request };
        let before = resident(daemon.pid())?;
        let pid = daemon.pid();
        let watch = tokio::spawn(async move {
            loop {
                MOST.fetch_max(resident(pid).unwrap_or(0), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let begun = Instant::now();
        let reply = daemon.client.spawn(&caller(), request).await?;
        let took = begun.elapsed();
        watch.abort();
        let grown = MOST.swap(0, Ordering::Relaxed).saturating_sub(before) >> 10;
        let rate = (BYTES >> 20) as f64 / took.as_secs_f64();
        let status = reply.record.status;
        let evidence = serde_json::to_string(&reply.record.quality)?;
        row(
            &format!("200 MB {what}"),
            &format!("{rate:.0} MB/s, {grown} MiB more memory, {status}, {evidence}"),
        );
    }
    daemon.end().await
}

/// The most memory that was seen, in KiB.
static MOST: AtomicU64 = AtomicU64::new(0);

/// The child: it waits for its prompt, says its many lines, and ends.
pub(crate) fn speak() -> Result<()> {
    let mut input = std::io::stdin().lock().lines();
    let mut output = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    writeln!(output, "{{\"type\":\"hello\",\"version\":1,\"can\":[]}}\n{{\"type\":\"ready\"}}")?;
    output.flush()?;
    // Our hello, and the prompt; a program that is not spoken with gets its prompt alone.
    for line in input.by_ref().take(2) {
        if !line?.contains("\"hello\"") {
            break;
        }
    }
    let line = format!("{{\"type\":\"delta\",\"text\":\"{}\"}}\n", "x".repeat(TEXT));
    for _ in 0..BYTES / line.len() {
        output.write_all(line.as_bytes())?;
    }
    writeln!(output, "{{\"type\":\"done\",\"answer\":\"spoken\"}}")?;
    output.flush()?;
    Ok(())
}
