//! `subagent logs`: the transcript of a child that is spoken with, or what a child wrote, as its raw log holds it.

mod transcript;

use std::time::Duration;

use clap::Args;
use subagent_model::request::LogPart;
use subagent_runtime::Runtime;

use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::text::{self, Cleaner};

/// How long one look for more waits.
const LOOK: Duration = Duration::from_secs(20);
/// The pause after a look that came back early with nothing.
const PAUSE: Duration = Duration::from_millis(50);

/// Print what a subagent said and did
///
/// Of an agent, its transcript: prompts, messages, tools, questions, of all its runs. Of any other program, what it
/// wrote: standard output to standard output and error output to standard error, of the newest attempt. Works while it
/// runs and long after.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent logs k7q2mx
  subagent logs -f k7q2mx
  subagent logs --raw k7q2mx | jq -r 'select(.stream == \"stderr\").text'")]
pub(crate) struct LogsArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
    /// Go on until the run has ended
    #[arg(short, long)]
    follow: bool,
    /// What went over its pipes, byte for byte: one JSON object for each piece, with stream and time
    #[arg(long)]
    raw: bool,
}

/// Carries it out.
pub(crate) async fn run(args: &LogsArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    if !args.raw && transcript::print(&session, console, id, args.follow).await? {
        return Ok(exit::DONE);
    }
    let mut printer =
        Printer { console, raw: args.raw || console.json, out: Cleaner::default(), err: Cleaner::default() };
    let mut from = 0;
    let mut attempt = None;
    let wait = args.follow.then_some(LOOK);
    loop {
        let page =
            session.steadily(async |client| client.output(&session.caller, id, from, wait).await).await?;
        if attempt.is_some() && page.attempt != attempt {
            // The log of the next attempt begins at its own beginning.
            console.note("--- a new attempt ---");
            (attempt, from) = (page.attempt, 0);
            continue;
        }
        attempt = page.attempt.or(attempt);
        page.parts.iter().for_each(|part| printer.print(part));
        let stuck = page.next == from;
        from = page.next;
        if console.closed() || page.ended && page.parts.is_empty() || !args.follow && stuck {
            break;
        }
        if page.parts.is_empty() && stuck {
            tokio::time::sleep(PAUSE).await;
        }
    }
    console.flush();
    if attempt.is_none() {
        console.note("it never started, so it wrote nothing");
    }
    Ok(exit::DONE)
}

struct Printer<'a> {
    console: &'a Console,
    raw: bool,
    out: Cleaner,
    err: Cleaner,
}

impl Printer<'_> {
    fn print(&mut self, part: &LogPart) {
        if self.raw {
            self.console.json_line(part);
            return;
        }
        match part.stream.as_str() {
            "stdout" if self.console.out.terminal => self.console.data(&self.out.clean(&part.text)),
            "stdout" => self.console.data(&part.text),
            "stderr" if self.console.err.terminal => self.console.childs_error(&self.err.clean(&part.text)),
            "stderr" => self.console.childs_error(&part.text),
            "gap" | "damage" => {
                self.console.note(&format!("--- {}: {} ---", part.stream, text::line(&part.text)));
            }
            // What was written to it is not what it wrote.
            _ => {}
        }
    }
}
