//! The texts that have lines of their own: diagnostic and result.

use subagent_model::SubagentRecord;

use crate::commands::outcome;
use crate::console::Console;
use crate::view::look::Paint;
use crate::view::text;

/// Most lines of the result that are shown.
const RESULT_LINES: usize = 12;

/// Prints them below the card.
pub(super) fn tell(record: &SubagentRecord, console: &Console) {
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
