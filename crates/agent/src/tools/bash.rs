//! `bash`: a command in a process group of its own, with nothing on its input, a bound on its time and its output. What
//! it leaves in the background goes on, is told, and ends with the session.
//!
//! A command goes where its user may go: the directories of a session do not hold it. That takes a sandbox around the
//! whole agent.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::context::Context;
use super::groups::{Group, How};
use super::spill::Capture;
use super::workspace::Refused;
use super::{Kind, Output, Tool, input, text};

/// How long a command may take when nothing is said.
const USUAL: u64 = 120;
/// The longest time that can be asked for.
const LONGEST: u64 = 3600;
/// How long a command that is ended may take for it.
const GRACE: Duration = Duration::from_secs(1);
/// How long output is waited for after the end of a command: as long as some comes, and not longer than the second.
const DRAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "cmd")]
    command: Words,
    #[serde(default, alias = "timeout_seconds", deserialize_with = "input::number")]
    timeout: Option<u64>,
}

/// A line, or its words: some models send an array.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Line(String),
    Array(Vec<String>),
}

/// The command line of an input, as it is checked and carried out.
pub(super) fn command_of(input: &Value) -> Option<String> {
    let command = input.get("command").or_else(|| input.get("cmd"))?;
    match serde_json::from_value::<Words>(command.clone()).ok()? {
        Words::Line(line) => Some(line),
        Words::Array(words) => Some(line_of(&words)),
    }
}

/// `["bash", "-lc", "x"]` means the line `x`; other words are quoted.
fn line_of(words: &[String]) -> String {
    if let [shell, flag, line] = words
        && matches!(shell.rsplit('/').next(), Some("bash" | "sh"))
        && matches!(flag.as_str(), "-c" | "-lc")
    {
        return line.clone();
    }
    let quoted: Vec<_> = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    quoted.join(" ")
}

pub(super) struct Bash;

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Run a shell command in the working directory. Standard output and error come together, in order; of a long \
         output the beginning and the end, the whole in a file. Nothing can be typed into the command. It is ended after \
         timeout seconds (120 when absent). What is started with & goes on after the command; its output is not shown, \
         so send it to a file."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "description": "The command line" },
                "timeout": { "type": "integer", "minimum": 1, "description": "Seconds it may take, at most 3600" }
            },
            "required": ["command"]
        })
    }

    fn kind(&self) -> Kind {
        Kind::Execute
    }

    fn title(&self, input: &Value) -> String {
        command_of(input).unwrap_or_default()
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            match run(input, cx).await {
                Ok(output) => output,
                Err(refused) => Output::failed(refused.to_string()),
            }
        })
    }
}

/// Why a command is over.
enum Over {
    Ended,
    Late,
    Cancelled,
}

async fn run(input: Value, cx: &Context) -> Result<Output, Refused> {
    let input: Input = input::parse("bash", input)?;
    let line = match input.command {
        Words::Line(line) => line,
        Words::Array(words) => line_of(&words),
    };
    if line.trim().is_empty() {
        return Err(Refused::Other(String::from("the command is empty")));
    }
    if line.contains('\0') {
        return Err(Refused::Other(String::from("the command has a null character")));
    }
    let seconds = input.timeout.unwrap_or(USUAL).clamp(1, LONGEST);
    let failed = |source| Refused::Io { path: shell().to_owned(), what: "start", source };
    let (mut group, pipe) = start(&line, cx).map_err(failed)?;
    let capture = Arc::new(Mutex::new(Capture::new(&cx.spill, "bash")));
    let mut drained = tokio::spawn(drain(pipe, Arc::clone(&capture)));

    let over = tokio::select! {
        () = group.leader_ended() => Over::Ended,
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Over::Late,
        () = cx.cancel.cancelled() => Over::Cancelled,
    };
    if !matches!(over, Over::Ended) {
        group.end(GRACE).await;
    }
    let open = settle(&mut drained, &capture).await;
    let how = group.how();
    let mut told = capture.lock().unwrap_or_else(PoisonError::into_inner).told();
    let mut notes = Vec::new();
    match over {
        Over::Ended => match how {
            Some(How::Code(0)) => {}
            Some(How::Code(code)) => notes.push(format!("exit code {code}")),
            Some(How::Signal(signal)) => notes.push(format!("ended by signal {signal}")),
            None => notes.push(String::from("it is not known how it ended")),
        },
        Over::Late => notes.push(format!(
            "timed out after {seconds} s: the command and what it had started were ended. Give a longer timeout, or send \
             it to the background with its output in a file"
        )),
        Over::Cancelled => notes.push(String::from("cancelled: the command and what it had started were ended")),
    }
    if group.is_alive() {
        if matches!(over, Over::Ended) {
            let number = group.number();
            notes.push(format!(
                "something goes on in the background; `kill -- -{number}` ends it, and it ends with this session{}",
                if open { ". What it still writes to its output is not shown" } else { "" }
            ));
        } else {
            notes.push(String::from("something of it cannot be ended at the moment"));
        }
        cx.groups.keep(group);
    } else {
        group.reap();
    }
    let failed = !matches!((&over, how), (Over::Ended, Some(How::Code(0))));
    if told.is_empty() && notes.is_empty() {
        return Ok(Output::done("[no output]"));
    }
    text::note(&mut told, &notes);
    Ok(Output { text: told, failed })
}

fn start(line: &str, cx: &Context) -> io::Result<(Group, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(shell());
    command
        .arg("-c")
        .arg(line)
        .env_clear()
        .envs(cx.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(cx.workspace.directory())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let child = command.spawn()?;
    // The command holds the other ends of the pipe as long as it is there.
    drop(command);
    Ok((Group::of(child), reader.into()))
}

fn shell() -> &'static str {
    if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" }
}

/// Takes what comes until nobody can write any more. It goes on after the call, so that what runs in the background is
/// not ended by a closed pipe.
async fn drain(pipe: OwnedFd, capture: Arc<Mutex<Capture>>) {
    let Ok(mut pipe) = tokio::net::unix::pipe::Receiver::from_owned_fd(pipe) else { return };
    let mut buffer = vec![0; 32 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        capture.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
    }
}

/// Waits for the rest of the output; true when somebody still holds the pipe.
async fn settle(drained: &mut tokio::task::JoinHandle<()>, capture: &Mutex<Capture>) -> bool {
    let total = || capture.lock().unwrap_or_else(PoisonError::into_inner).total();
    let until = tokio::time::Instant::now() + DRAIN.1;
    let mut before = total();
    loop {
        if tokio::time::timeout(DRAIN.0, &mut *drained).await.is_ok() {
            return false;
        }
        let now = total();
        if now == before || tokio::time::Instant::now() > until {
            return true;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_line() {
        let line = |value: Value| command_of(&json!({ "command": value })).unwrap();
        assert_eq!(line(json!("ls -l")), "ls -l");
        assert_eq!(line(json!(["bash", "-lc", "ls | wc"])), "ls | wc");
        assert_eq!(line(json!(["echo", "it's; rm"])), "'echo' 'it'\\''s; rm'");
        assert!(command_of(&json!({})).is_none());
    }
}
