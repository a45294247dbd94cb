//! Gemini CLI: `.gemini/agents/*.md`. Its subagents spawn none.

use super::{Body, Input, Reader, Rules, common};
use crate::definition::AgentDefinition;
use crate::fields::Fields;
use crate::given::Given;
use crate::raw::Value;
use crate::words::{MAX_DURATION_MS, PromptMode};

const KEYS: &[&str] = &[
    "name",
    "display_name",
    "description",
    "kind",
    "tools",
    "model",
    "max_turns",
    "timeout_mins",
    "mcp_servers",
];

pub(super) const RULES: Rules =
    Rules { reader: read as Reader, known: KEYS, quiet: &["temperature", "color"] };

const KINDS: &[(&str, bool)] = &[("local", true), ("remote", false)];
const MINUTE_MS: u64 = 60_000;

fn read(input: &Input<'_>, fields: &mut Fields<'_>, body: Body) -> Option<AgentDefinition> {
    let name = common::name(fields, None)?;
    if fields.word(&["kind"], KINDS) == Some(false) {
        fields.refuse_about(&["kind"], "an agent elsewhere, known by its card, is not run from a file");
        return None;
    }
    let mut it = common::begin(input, fields, name, body, PromptMode::Replace)?;
    common::check_prompt(&it, fields);
    it.tools = common::tools(fields, &["tools"]);
    it.model = common::model(fields, &["model"]);
    it.limits.max_turns = fields.count32(&["max_turns"]);
    it.limits.timeout_ms = minutes(fields);
    it.mcp_servers = common::servers(fields, &["mcp_servers"]);
    it.allowed_subagents = Given::Nothing;
    Some(it)
}

/// Minutes, of which there may be parts.
fn minutes(fields: &mut Fields<'_>) -> Given<u64> {
    let most = MAX_DURATION_MS / MINUTE_MS;
    if let Some(Value::Float(_)) = fields.peek("timeout_mins").map(|node| &node.value) {
        #[expect(clippy::cast_precision_loss, reason = "a year has few minutes")]
        let minutes = fields.amount(&["timeout_mins"], most as f64);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "it was checked to be above 0 and below a year"
        )]
        return minutes.map(|minutes| (minutes * MINUTE_MS as f64) as u64);
    }
    fields.count(&["timeout_mins"], most).map(|minutes| minutes * MINUTE_MS)
}
