//! Parts that stand both in requests and in records: a record of a newer version may have fields that this one does not
//! know, while in a request an unknown field is a misspelt limit, and refused.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use crate::ask::{Permissions, PolicyRule};
use crate::budget::{Budget, TreeBudget};
use crate::setup::{AgentSetup, SystemPrompt, ToolFilter};
use crate::spec::StallPolicy;

/// A part with its known fields.
pub(crate) trait Fields: DeserializeOwned {
    const FIELDS: &'static [&'static str];
    /// Refuses unknown fields deeper down.
    fn check_inner(_: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }
}

impl Fields for Budget {
    const FIELDS: &'static [&'static str] =
        &["max_turns", "grace_turns", "max_tokens", "max_cost_usd", "max_tool_calls"];
}

impl Fields for TreeBudget {
    const FIELDS: &'static [&'static str] = &["max_tokens", "max_cost_usd"];
}

impl Fields for StallPolicy {
    const FIELDS: &'static [&'static str] = &["after_ms", "kill_after_ms"];
}

impl Fields for PolicyRule {
    const FIELDS: &'static [&'static str] = &["action", "matches", "say"];
}

impl Fields for Permissions {
    const FIELDS: &'static [&'static str] = &["otherwise", "rules", "unattended", "expire_ms"];
    fn check_inner(value: &serde_json::Value) -> Result<(), String> {
        let rules = value.get("rules").and_then(serde_json::Value::as_array);
        rules.into_iter().flatten().try_for_each(check::<PolicyRule>)
    }
}

impl Fields for ToolFilter {
    const FIELDS: &'static [&'static str] = &["allow", "deny"];
}

impl Fields for SystemPrompt {
    const FIELDS: &'static [&'static str] = &["mode", "text"];
}

impl Fields for AgentSetup {
    const FIELDS: &'static [&'static str] =
        &["effort", "system_prompt", "tools", "permission_mode", "mcp_servers", "fork_of"];
    fn check_inner(value: &serde_json::Value) -> Result<(), String> {
        value.get("tools").map_or(Ok(()), check::<ToolFilter>)?;
        value.get("system_prompt").map_or(Ok(()), check::<SystemPrompt>)
    }
}

fn check<T: Fields>(value: &serde_json::Value) -> Result<(), String> {
    let unknown = value.as_object().and_then(|map| map.keys().find(|key| !T::FIELDS.contains(&key.as_str())));
    if let Some(key) = unknown {
        return Err(format!("unknown field `{key}`, expected one of: {}", T::FIELDS.join(", ")));
    }
    T::check_inner(value)
}

/// Reads a part of a request.
pub(crate) fn strict<'de, D: Deserializer<'de>, T: Fields>(deserializer: D) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    check::<T>(&value).map_err(D::Error::custom)?;
    serde_json::from_value(value).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::Fields;
    use crate::{
        AgentSetup, Budget, Permissions, PolicyRule, StallPolicy, SystemPrompt, ToolFilter, TreeBudget,
    };

    fn fields_of<T: Fields + serde::Serialize>(full: &T) {
        let value = serde_json::to_value(full).unwrap();
        let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut known = T::FIELDS.to_vec();
        keys.sort_unstable();
        known.sort_unstable();
        assert_eq!(keys, known);
    }

    #[test]
    fn the_lists_of_fields_are_the_fields() {
        let rule =
            PolicyRule { action: Some("a".into()), matches: Some("b".into()), say: crate::PolicyWord::Deny };
        fields_of(&rule);
        fields_of(&Permissions {
            otherwise: crate::PolicyWord::Deny,
            rules: vec![rule],
            unattended: true,
            expire_ms: Some(1),
        });
        fields_of(&Budget {
            max_turns: Some(1),
            grace_turns: Some(1),
            max_tokens: Some(1),
            max_cost_usd: Some(1.0),
            max_tool_calls: Some(1),
        });
        fields_of(&TreeBudget { max_tokens: Some(1), max_cost_usd: Some(1.0) });
        fields_of(&StallPolicy { after_ms: Some(1), kill_after_ms: Some(1) });
        let tools = ToolFilter { allow: Some(vec![]), deny: vec!["a".into()] };
        fields_of(&tools);
        let prompt = SystemPrompt { mode: crate::SystemPromptMode::Append, text: "a".into() };
        fields_of(&prompt);
        fields_of(&AgentSetup {
            effort: Some("a".into()),
            system_prompt: Some(prompt),
            tools,
            permission_mode: Some("a".into()),
            mcp_servers: vec![crate::McpServer {
                name: "a".into(),
                via: crate::McpTransport::Http {
                    url: "b".into(),
                    headers: std::collections::BTreeMap::default(),
                },
            }],
            fork_of: Some("a".into()),
        });
    }
}
