//! `subagent events`: what happened, as it was written down.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use subagent_model::{Cursor, Event, EventKind, SubagentId};
use subagent_runtime::Runtime;

use super::outcome;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::{self, Cell};

/// Events of one request.
const PAGE: u32 = 1_000;
/// The longest one request waits.
const LOOK: Duration = Duration::from_secs(30);

/// Print what happened to subagents
///
/// Every event has a number without gaps; --after goes on from one. With --json one object a line. Events that retention
/// has released are gone; the records stay longer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent events --follow
  subagent events --id k7q2mx
  subagent events --follow --after 1200 --json | jq -r 'select(.event == \"ended\").subagent'")]
pub(crate) struct EventsArgs {
    /// Go on with what happens from now on, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only what came after this number [default: all there is; with --follow from now on]
    #[arg(long, value_name = "CURSOR")]
    after: Option<u64>,
    /// Only of this subagent
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(args: &EventsArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let only = match &args.id {
        Some(name) => Some(session.client.resolve(name).await?),
        None => None,
    };
    let mut after = match args.after {
        Some(after) => Cursor(after),
        None if args.follow => session.client.health().await?.cursor,
        None => Cursor(0),
    };
    let wait = args.follow.then_some(LOOK);
    let mut names = Names::default();
    loop {
        let page =
            session.steadily(async |client| client.events(&session.caller, after, PAGE, wait).await).await?;
        for event in page.items.iter().filter(|event| only.is_none_or(|only| event.subagent == only)) {
            if console.json {
                console.json_line(event);
            } else {
                let name = names.of(&session, event).await;
                let line = rows::aligned(&[row(event, &name)], console.out.width(), console.out.colour);
                console.line(&line.concat());
            }
        }
        let stuck = page.next <= after;
        after = page.next.max(after);
        if console.closed() || !args.follow && stuck {
            return Ok(exit::DONE);
        }
        if stuck {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Handles, each looked up once.
#[derive(Default)]
struct Names(HashMap<SubagentId, String>);

impl Names {
    async fn of(&mut self, session: &Session<'_>, event: &Event) -> String {
        if let EventKind::Accepted { handle, .. } = &event.kind {
            self.0.insert(event.subagent, handle.to_string());
        }
        if let Some(known) = self.0.get(&event.subagent) {
            return known.clone();
        }
        // Its record may be gone: then its id stands for it.
        let record = session.client.get(&session.caller, event.subagent).await;
        let name = record.map_or_else(|_| event.subagent.to_string(), |record| record.handle.to_string());
        self.0.insert(event.subagent, name.clone());
        name
    }
}

fn row(event: &Event, name: &str) -> Vec<Cell> {
    vec![
        Cell::painted(&event.seq.to_string(), Paint::Dim),
        Cell::painted(&event.at.to_string(), Paint::Dim),
        Cell::painted(&format!("{name}.{}", event.kind.of_run().unwrap_or(event.run)), Paint::Bold),
        Cell::plain(event.kind.name()),
        Cell::plain(&detail(&event.kind)),
    ]
}

/// The part of an event that says most; JSON has all of it.
fn detail(kind: &EventKind) -> String {
    match kind {
        EventKind::Accepted { requester, .. } | EventKind::Resumed { requester, .. } => {
            format!("by {requester}")
        }
        EventKind::Ended { outcome, .. } => outcome::told(outcome),
        EventKind::Queued { reason } => word(reason),
        EventKind::Waiting { on, .. } => word(on),
        EventKind::StopAccepted { stop } => format!("by {}", stop.actor),
        EventKind::Claimed { attempt, .. } => format!("attempt {attempt}"),
        EventKind::AttemptEnded { reason, .. } => reason.clone(),
        EventKind::CutOff { limit } | EventKind::WrapUpAsked { limit } => outcome::limit(*limit).to_owned(),
        EventKind::RequestOpened { request, .. } => super::asked::what(request),
        EventKind::RequestAnswered { answered, .. } => {
            format!("{} by {}", super::asked::answer(&answered.answer), answered.by)
        }
        EventKind::MessageReturned { reason, .. } => reason.as_str().to_owned(),
        EventKind::Acknowledged { by, .. } => format!("by {by}"),
        _ => String::new(),
    }
}

/// What is waited for, as its tag names it.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value["for"].as_str().map(|word| format!("for {word}")).unwrap_or_default()
}
