//! The transcript as people read it, and as lines of JSON.

use std::time::Duration;

use subagent_model::{Attachment, SubagentId, Timestamp, TranscriptEntry, What};
use subagent_runtime::Runtime;

use crate::console::Console;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::text;

/// Entries of one page.
const PAGE: u32 = 500;
/// How long one look for more waits.
const LOOK: Duration = Duration::from_secs(20);
/// Most characters of what a tool was given and what came of it.
const TOOL_WIDTH: usize = 400;

/// Prints it. False when the subagent has none because it is not spoken with.
pub(super) async fn print(
    session: &Session<'_>,
    console: &Console,
    id: SubagentId,
    follow: bool,
) -> Result<bool, Failure> {
    let mut after: Option<String> = None;
    let mut shown = false;
    let wait = follow.then_some(LOOK);
    loop {
        let page = session
            .steadily(async |client| {
                client.transcript(&session.caller, id, after.as_deref(), PAGE, wait).await
            })
            .await?;
        if !page.spoken && page.items.is_empty() && !shown {
            return Ok(false);
        }
        shown |= !page.items.is_empty();
        for entry in &page.items {
            if console.json {
                console.json_line(entry);
            } else if let Some(lines) = lines_of(entry) {
                console.data(&lines);
            }
        }
        let empty = page.items.is_empty();
        after = Some(page.next);
        if console.closed() || page.ended || !follow && empty {
            break;
        }
    }
    console.flush();
    if !shown {
        console.note("nothing was said yet");
    }
    Ok(true)
}

/// A text with the names of the files that came with it.
fn with(text: &str, attached: &[Attachment]) -> String {
    let name = |file: &Attachment| format!("[{}, {}, {} bytes]", file.name, file.media_type, file.bytes);
    std::iter::once(text.to_owned()).chain(attached.iter().map(name)).collect::<Vec<_>>().join("\n")
}

/// An entry as people read it. None for what only programs care about.
fn lines_of(entry: &TranscriptEntry) -> Option<String> {
    let (label, body) = match &entry.what {
        What::Prompt { from, text, attached, .. } => (format!("prompt from {from}"), with(text, attached)),
        What::Steer { from, text, number, attached } => {
            (format!("message {number} from {from}"), with(text, attached))
        }
        What::Interrupt => (String::from("interrupted"), String::new()),
        What::Answer { key, answer, .. } => {
            (format!("answer to {}", text::line(key)), format!("{answer:?}").to_lowercase())
        }
        What::Message { text } => (String::from("message"), text.clone()),
        What::Thought { text } => (String::from("thought"), text.clone()),
        What::Tool { name, input, .. } => {
            (format!("tool {}", text::line(name)), short(input.as_deref().unwrap_or_default()))
        }
        What::ToolResult { failed, output, .. } => {
            let word = if *failed == Some(true) { "tool failed" } else { "tool done" };
            (String::from(word), short(output.as_deref().unwrap_or_default()))
        }
        What::Plan { steps } => {
            let mark = |state: &str| match state {
                "done" => "x",
                "active" => ">",
                _ => " ",
            };
            let steps: Vec<_> =
                steps.iter().map(|step| format!("[{}] {}", mark(&step.state), step.text)).collect();
            (String::from("plan"), steps.join("\n"))
        }
        What::Notice { text } => (String::from("notice"), text.clone()),
        What::Model { model } => (String::from("model"), model.clone()),
        What::Ask { subject, .. } => {
            let body = match subject {
                subagent_model::Subject::Approval { action, title, .. } => format!("{action}: {title}"),
                subagent_model::Subject::Question { text, .. } => text.clone(),
            };
            (String::from("asks"), body)
        }
        What::TookBack { .. } => (String::from("no longer asks"), String::new()),
        What::Compacted => (String::from("context shortened"), String::new()),
        What::HeldUp { until } => (
            String::from("held up by a limit"),
            until.map(|until| format!("until {until}")).unwrap_or_default(),
        ),
        What::Inner { id, title, state, .. } => {
            let parts = [state.as_deref(), title.as_deref()].into_iter().flatten().collect::<Vec<_>>();
            (format!("subagent {}", text::line(id)), parts.join(": "))
        }
        What::StopInner { id } => (format!("subagent {} is to stop", text::line(id)), String::new()),
        What::TurnEnd { error: Some(error), .. } => {
            (String::from("turn failed"), format!("{}: {}", error.code, error.message))
        }
        What::TurnEnd { end, .. } if end == "cancelled" => (String::from("turn cancelled"), String::new()),
        What::Broken { text } => (String::from("protocol broken"), text.clone()),
        What::Gap => (String::from("a part is missing here"), String::new()),
        What::Begin { .. } | What::Opened { .. } | What::Usage(_) | What::TurnEnd { .. } | What::Unknown => {
            return None;
        }
    };
    let mut lines = format!("{} {label}\n", clock(entry.at));
    for line in body.lines() {
        lines.push_str("  ");
        lines.push_str(&text::block(line));
        lines.push('\n');
    }
    Some(lines)
}

fn short(text: &str) -> String {
    let line = text::line(text);
    match line.char_indices().nth(TOOL_WIDTH) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// The time of day.
fn clock(at: Timestamp) -> String {
    let whole = at.to_string();
    whole.split_once('T').map_or_else(|| whole.clone(), |(_, time)| time.chars().take(8).collect())
}
