//! `subagent show`: everything that is known of one subagent.

mod card;
mod texts;
mod words;

use clap::Args;
use subagent_model::Status;
use subagent_model::request::{ListFilter, QueuePlace};
use subagent_runtime::Runtime;

use self::card::Around;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;

/// Most children that are named.
const CHILDREN: u32 = 100;

/// Show everything that is known of a subagent
///
/// Status and its reason, what it asks for and how to answer, the agents that run inside of it, runs, attempts with their processes, budget and use,
/// messages, standing answers, exit facts, the error with its diagnostic, and the beginning of the result. Looking is no
/// acknowledgement: the result stays in the inbox.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent show k7q2mx
  subagent show k7q2mx --json | jq .status")]
pub(crate) struct ShowArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
}

/// Carries it out.
pub(crate) async fn run(args: &ShowArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let (client, caller) = (&session.client, &session.caller);
    let id = client.resolve(&args.id).await?;
    let record = client.get(caller, id).await?;
    let place = match record.status {
        Status::Queued => client.queue_place(caller, id).await?,
        _ => QueuePlace::default(),
    };
    // A daemon of an earlier version does not tell it.
    let usage = client.usage(caller, id).await.ok();
    let inner = client.inner(caller, id).await.map(|list| list.items).unwrap_or_default();
    if console.json {
        let mut document = serde_json::to_value(&record).unwrap_or_default();
        if let Some(fields) = document.as_object_mut() {
            fields.extend(place.ahead.map(|ahead| (String::from("queue_position"), ahead.into())));
            fields.extend(place.held_by.map(|held| (String::from("queue_held_by"), held.into())));
            let below = usage.and_then(|report| serde_json::to_value(report.below?).ok());
            fields.extend(below.map(|below| (String::from("usage_below"), below)));
            let inner = serde_json::to_value(&inner).ok().filter(|_| !inner.is_empty());
            fields.extend(inner.map(|inner| (String::from("inner"), inner)));
        }
        console.document(&document);
        return Ok(exit::DONE);
    }
    let filter = ListFilter { parent: Some(id), limit: Some(CHILDREN), ..ListFilter::default() };
    let children = client.list(caller, filter).await?.items;
    // A look that fails shows nothing; the record is what counts.
    let seen = client.activity(caller).await.unwrap_or_default();
    let activity = seen.into_iter().find(|activity| activity.id == id);
    console.rows(&card::card(&record, &Around { place, children, activity, usage, inner }, console));
    texts::tell(&record, console);
    Ok(exit::DONE)
}
