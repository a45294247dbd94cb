//! How much of what an agent says is kept and passed on. All of it is bounded: an agent can be wrong about anything.

use serde_json::Value;
use subagent_model::text::cut_at_boundary;

/// Names that are given back to the agent: what is longer is not taken.
pub(super) const NAME_BYTES: usize = 1024;
/// Titles, and headlines of failures.
pub(super) const TITLE_BYTES: usize = 4 * 1024;
/// Details, questions, inputs and outputs of tools.
pub(super) const DETAIL_BYTES: usize = 16 * 1024;
/// One message of the agent.
pub(super) const MESSAGE_BYTES: usize = 4 << 20;

/// At most `most` bytes of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    cut_at_boundary(text, most).to_owned()
}

/// A name that can be given back.
pub(super) fn name(value: Option<&Value>) -> Option<String> {
    let name = value?.as_str()?;
    (!name.is_empty() && name.len() <= NAME_BYTES).then(|| name.to_owned())
}

/// A text field, cut; none where it is absent, blank or no text.
pub(super) fn text(value: &Value, field: &str, most: usize) -> Option<String> {
    let text = value.get(field)?.as_str()?;
    (!text.trim().is_empty()).then(|| cut(text, most))
}

/// A value as people read it: a text as it is, anything else as JSON. None where there is nothing in it.
pub(super) fn as_text(value: &Value, most: usize) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(fields) if fields.is_empty() => None,
        Value::String(text) => Some(cut(text, most)),
        other => Some(cut(&other.to_string(), most)),
    }
}

/// The elements of a list; none where it is no list.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
