//! The lines of `pi --mode rpc`, as far as they are needed. What is not known is ignored.

use serde::Deserialize;
use serde_json::{Value, json};
use subagent_model::Usage;
use subagent_provider::{Attached, with_texts};

use crate::bounds::line;

/// A command of ours.
pub(super) fn command(id: &str, kind: &str) -> Vec<u8> {
    line(&json!({ "id": id, "type": kind }))
}

/// A command of ours that says something.
pub(super) fn message(id: &str, kind: &str, text: &str, attached: &[Attached]) -> Vec<u8> {
    let mut said = json!({ "id": id, "type": kind, "message": with_texts(text, attached) });
    let images = attached.iter().filter(|file| file.is_image());
    let images: Vec<_> = images
        .map(|file| json!({ "type": "image", "data": file.base64(), "mimeType": file.about.media_type }))
        .collect();
    if !images.is_empty() {
        said["images"] = images.into();
    }
    line(&said)
}

/// The answer to a command.
#[derive(Debug, Deserialize)]
pub(super) struct Response {
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) success: bool,
    #[serde(default)]
    pub(super) data: Value,
    #[serde(default)]
    pub(super) error: Option<String>,
}

impl Response {
    /// Why it was not carried out.
    pub(super) fn why(&self) -> &str {
        self.error.as_deref().unwrap_or("it was not said why")
    }
}

/// A message of the model.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Message {
    role: String,
    content: Value,
    pub(super) usage: Spent,
    pub(super) stop_reason: String,
    #[serde(rename = "errorMessage")]
    pub(super) error: Option<String>,
}

impl Message {
    /// Reads one of the model; none where it is of somebody else.
    pub(super) fn of_model(value: &Value) -> Option<Self> {
        let message: Self = serde_json::from_value(value.clone()).ok()?;
        (message.role == "assistant").then_some(message)
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        self.parts("text")
    }

    /// What was thought before it.
    pub(super) fn thoughts(&self) -> String {
        self.parts("thinking")
    }

    fn parts(&self, kind: &str) -> String {
        text_of(&self.content, kind)
    }
}

/// The parts of this kind of a content, together.
pub(super) fn text_of(content: &Value, kind: &str) -> String {
    let parts = content.as_array().into_iter().flatten().filter(|part| part["type"] == kind);
    parts.filter_map(|part| part[kind].as_str()).collect()
}

/// Tokens and money as they stand on the wire: of a message, or of a whole session.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spent {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    #[serde(deserialize_with = "money")]
    cost: f64,
}

/// A sum, alone or with its parts.
fn money<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let sum = value.as_f64().or_else(|| value["total"].as_f64()).unwrap_or(0.0);
    Ok(if sum.is_finite() { sum.max(0.0) } else { 0.0 })
}

impl Spent {
    /// The sums of a session.
    pub(super) fn of_session(stats: &Value) -> Option<Self> {
        let tokens: Self = serde_json::from_value(stats["tokens"].clone()).ok()?;
        Some(Self {
            cost: stats["cost"].as_f64().filter(|cost| cost.is_finite()).unwrap_or(0.0).max(0.0),
            ..tokens
        })
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cost: self.cost + other.cost,
        }
    }

    /// What there is beyond `other`; never less than nothing.
    pub(super) fn beyond(self, other: Self) -> Self {
        let cost = self.cost - other.cost;
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: self.cache_read.saturating_sub(other.cache_read),
            cache_write: self.cache_write.saturating_sub(other.cache_write),
            // Sums of many small parts differ in their last digits.
            cost: if cost > 1e-9 { cost } else { 0.0 },
        }
    }

    /// The usage that it is; none where it is nothing.
    pub(super) fn usage(self) -> Option<Usage> {
        let Self { input, output, cache_read, cache_write, cost } = self;
        let nothing = self == Self::default();
        // Adding makes the total.
        let cost_usd = Some(cost);
        let used = Usage { input, output, cache_write, cache_read, total: 0, cost_usd };
        (!nothing).then(|| Usage::default().plus(used))
    }
}
