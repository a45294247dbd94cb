//! What a server answered, as text for the model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use super::super::spill::Spill;
use super::super::text;

/// The answer as text, bounded.
pub(super) fn told(result: &CallToolResult, spill: &Spill) -> String {
    let mut parts: Vec<String> = result.content.iter().map(block).filter(|part| !part.is_empty()).collect();
    if parts.is_empty()
        && let Some(value) = &result.structured_content
    {
        parts.push(value.to_string());
    }
    if parts.is_empty() {
        return String::from("[no output]");
    }
    spill.bounded("mcp", &parts.join("\n"))
}

fn block(block: &ContentBlock) -> String {
    let kind = |kind: Option<&str>| text::one_line(kind.unwrap_or("data"), 60);
    match block {
        ContentBlock::Text(part) => part.text.clone(),
        ContentBlock::Image(part) => unseen("image", &kind(Some(&part.mime_type)), part.data.len()),
        ContentBlock::Audio(part) => unseen("sound", &kind(Some(&part.mime_type)), part.data.len()),
        ContentBlock::Resource(part) => match &part.resource {
            ResourceContents::TextResourceContents { uri, text: whole, .. } => {
                format!("[{}]\n{whole}", text::one_line(uri, 200))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                unseen(&text::one_line(uri, 200), &kind(mime_type.as_deref()), blob.len())
            }
            _ => String::from("[something that cannot be shown]"),
        },
        ContentBlock::ResourceLink(link) => {
            format!("[{}: {}]", text::one_line(&link.name, 100), text::one_line(&link.uri, 200))
        }
        _ => String::from("[something that cannot be shown]"),
    }
}

/// Something that is no text; sizes are of base64.
fn unseen(what: &str, kind: &str, length: usize) -> String {
    format!("[{what}, {kind}, {}: not shown]", text::size(length as u64 / 4 * 3))
}
