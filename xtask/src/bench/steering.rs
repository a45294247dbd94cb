//! From the call that steers to the child that reads it: the child is this program again, speaking in lines, and notes how
//! old each message is when it has it.

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use subagent_model::Talk;
use subagent_model::request::{SpawnRequest, SteerRequest, WaitOptions};
use subagent_runtime::Runtime;

use crate::daemon::{Daemon, caller, program};
use crate::figures::{Samples, row};
use crate::{Options, Result};

/// The argument with which this program is the child.
pub(crate) const CHILD: &str = "--steered-child";
const MESSAGES: usize = 200;

pub(crate) async fn measure(options: &Options, dir: &Path) -> Result<()> {
    let daemon = Daemon::start(options, &dir.join("steering")).await?;
    let me = std::env::current_exe()?;
    let mut request = program(&me.to_string_lossy(), &[CHILD], true);
    if let Some(exec) = &mut request.exec {
        exec.talk = Talk::Lines;
    }
    let request = SpawnRequest { prompt: String::from("listen"), ..request };
    let record = daemon.client.spawn(&caller(), request).await?.record;
    while daemon.client.get(&caller(), record.id).await?.session.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for number in 0..=MESSAGES {
        let message = if number == MESSAGES { String::from("end") } else { micros()?.to_string() };
        daemon
            .client
            .steer(&caller(), record.id, SteerRequest { message, ..SteerRequest::default() })
            .await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let reply = daemon.client.wait(&caller(), record.id, WaitOptions::default()).await?;
    let text = reply.record.result.map(|text| text.preview).unwrap_or_default();
    let mut samples = Samples::default();
    for age in text.split_whitespace() {
        samples.push(Duration::from_micros(age.parse()?));
    }
    row("steer: from the call to the child's standard input", &samples.to_string());
    daemon.end().await
}

fn micros() -> Result<u128> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())
}

/// The child: it takes messages until one says that it is the last, and answers with how old each was.
pub(crate) fn listen() -> Result<()> {
    let (input, mut output) = (std::io::stdin().lock().lines(), std::io::stdout().lock());
    let mut say = |value: serde_json::Value| -> Result<()> {
        writeln!(output, "{value}")?;
        Ok(output.flush()?)
    };
    say(serde_json::json!({"type": "hello", "version": 1, "session": "bench", "can": ["steer", "took"]}))?;
    say(serde_json::json!({"type": "ready"}))?;
    let mut ages = String::new();
    for line in input {
        let now = micros()?;
        let told: serde_json::Value = serde_json::from_str(&line?)?;
        match told["type"].as_str() {
            Some("steer") => {
                say(serde_json::json!({"type": "took", "number": told["number"]}))?;
                match told["text"].as_str().unwrap_or_default().parse::<u128>() {
                    // Writing to a string cannot fail.
                    Ok(sent) => drop(write!(ages, "{} ", now.saturating_sub(sent))),
                    Err(_) => say(serde_json::json!({"type": "done", "answer": ages}))?,
                }
            }
            Some("close") => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}
