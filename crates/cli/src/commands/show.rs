//! `subagent show`: everything that is known of one subagent.

use clap::Args;
use subagent_model::request::ListFilter;
use subagent_model::{ActivityOn, AttemptFacts, ExitFacts, Quality, QueueReason, SubagentRecord};
use subagent_runtime::Runtime;

use super::outcome;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::{text, time};

/// Most lines of the result that are shown.
const RESULT_LINES: usize = 12;

/// Show everything that is known of a subagent
///
/// Status and its reason, times, attempts with their processes, exit facts, the error with its diagnostic, and the
/// beginning of the result. Looking is no acknowledgement: the result stays in the inbox.
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
    let id = session.client.resolve(&args.id).await?;
    let record = session.client.get(id).await?;
    let position = session.client.queue_position(id).await?;
    if console.json {
        let mut document = serde_json::to_value(&record).unwrap_or_default();
        if let (Some(position), Some(fields)) = (position, document.as_object_mut()) {
            fields.insert(String::from("queue_position"), position.into());
        }
        console.document(&document);
        return Ok(exit::DONE);
    }
    let filter = ListFilter { parent: Some(id), limit: Some(100), ..ListFilter::default() };
    let children = session.client.list(filter).await?.items;
    console.rows(&card(&record, position, &children, console));
    tell_texts(&record, console);
    Ok(exit::DONE)
}

/// The named facts, one a row.
fn card(
    record: &SubagentRecord,
    position: Option<u64>,
    children: &[SubagentRecord],
    console: &Console,
) -> Vec<Vec<Cell>> {
    let mut rows = vec![vec![
        Cell::painted(record.handle.as_str(), Paint::Bold),
        outcome::status_cell(record.status, console),
    ]];
    let mut say = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push(vec![Cell::painted(name, Paint::Dim), Cell::plain(&value)]);
        }
    };
    let some = |value: Option<String>| value.unwrap_or_default();
    say("id", record.id.to_string());
    say("description", record.description.clone());
    say("type", format!("{}, driven by {}", record.agent_type, record.provider));
    let told = match record.mode {
        subagent_model::Mode::Sync => "sync: the caller waits",
        subagent_model::Mode::Async => "async: its requester is told of the end",
        subagent_model::Mode::Detached => "detached: nobody is told of the end",
    };
    say("mode", if record.durable { told.to_owned() } else { format!("{told}; ends with the daemon") });
    say("requested by", record.requested_by.to_string());
    say("parent", some(record.parent.map(|parent| parent.to_string())));
    if record.root != record.id {
        say("root", format!("{}, {} above", record.root, record.depth));
    }
    let young: Vec<_> = children.iter().map(|child| format!("{} {}", child.handle, child.status)).collect();
    say("children", young.join(", "));
    say(
        "labels",
        record.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "),
    );
    say("directory", record.cwd.to_string());
    say("queued for", some(record.queued_for.as_ref().map(|reason| queued_for(reason, position))));
    say("waiting for", some(record.waiting_on.as_ref().map(waiting_on)));
    say("created", time::moment(record.created_at));
    say("started", some(record.started_at.map(time::moment)));
    say("completed", some(record.completed_at.map(time::moment)));
    say("exited", some(record.exited_at.filter(|at| Some(*at) != record.completed_at).map(time::moment)));
    say("took", some(outcome::took(record).map(time::human)));
    if record.run.0 > 1 {
        say("run", record.run.to_string());
    }
    for earlier in &record.earlier_runs {
        say(&format!("run {}", earlier.run), outcome::told(&earlier.outcome));
    }
    for facts in &record.attempts {
        say(&format!("attempt {}", facts.attempt), attempt(facts));
    }
    let stop = record.stop.as_ref();
    say(
        "stop",
        some(
            stop.map(|stop| format!("by {} ({}), {}", stop.actor, word(&stop.cause), time::moment(stop.at))),
        ),
    );
    say("end", some(record.end_reason.clone()));
    if let Some(quality) = record.quality.filter(|quality| *quality != Quality::Ok) {
        say("quality", word(&quality));
    }
    say("notes", outcome::marks(record));
    if record.turn_count > 0 || record.tool_uses > 0 {
        let most = record.max_turns.map(|most| format!(" of {most}")).unwrap_or_default();
        say("work", format!("{} turns{most}, {} tool calls", record.turn_count, record.tool_uses));
    }
    if let Some(usage) = &record.usage {
        let cost = usage.cost_usd.map(|cost| format!(", {cost:.4} USD")).unwrap_or_default();
        say("tokens", format!("{} ({} in, {} out){cost}", usage.total, usage.input, usage.output));
    }
    say("raw logs", some(record.transcript.clone()));
    if record.status.is_final() && record.mode.is_delivered() {
        say("delivery", String::from(if record.consumed { "consumed" } else { "not consumed yet" }));
    }
    rows
}

/// The serialised word of a value.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', " ")
}

fn queued_for(reason: &QueueReason, position: Option<u64>) -> String {
    let place = match position {
        None => String::new(),
        Some(0) => String::from("; it is next"),
        Some(1) => String::from("; 1 run starts before it"),
        Some(before) => format!("; {before} runs start before it"),
    };
    match reason {
        QueueReason::Capacity => format!("a free slot{place}"),
        QueueReason::Retry { at } => {
            format!("another try in {}{place}", time::human(at.since(time::now())))
        }
    }
}

fn waiting_on(on: &ActivityOn) -> String {
    match on {
        ActivityOn::Children => String::from("its children"),
        ActivityOn::Approval => String::from("an approval"),
        ActivityOn::Question => String::from("an answer"),
        ActivityOn::Quota { until } => format!("its quota, until {until}"),
    }
}

fn attempt(facts: &AttemptFacts) -> String {
    let process = facts.process.as_ref().map(|process| format!("process {}", process.pid));
    let exit = facts.exit.as_ref().map(exited);
    let parts = [process, exit, facts.ended.clone()];
    let told = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    if told.is_empty() { String::from("no process") } else { told }
}

fn exited(exit: &ExitFacts) -> String {
    let code = exit.code.map(|code| format!("exit code {code}"));
    let signal = exit.signal.map(|signal| format!("signal {signal}"));
    code.into_iter().chain(signal).collect::<Vec<_>>().join(", ")
}

/// The texts that have lines of their own: diagnostic and result.
fn tell_texts(record: &SubagentRecord, console: &Console) {
    let title = |title: String| console.line(&format!("\n{}", Paint::Dim.on(&title, console.out.colour)));
    if let Some(error) = &record.error {
        title(format!("error {}", error.code));
        console.line(&format!("  {}", text::line(&error.message)));
        for line in text::block(error.detail.as_deref().unwrap_or_default()).trim_end().lines() {
            console.line(&format!("  {line}"));
        }
        let again = if error.retryable { "asking again may help; " } else { "" };
        console.line(&format!("  {again}what to do: {}", error.code.remedy()));
    }
    let Some(result) = &record.result else { return };
    title(format!("result, {} bytes", result.bytes));
    if result.is_blank() {
        console.line(&format!("  {}", outcome::NO_OUTPUT));
        return;
    }
    let cleaned = text::block(&result.preview);
    let lines: Vec<_> = cleaned.lines().collect();
    for line in lines.iter().take(RESULT_LINES) {
        console.line(&format!("  {line}"));
    }
    if result.truncated || lines.len() > RESULT_LINES {
        console.line(&format!("  ... all of it: subagent result {} --full", record.handle));
    }
}
