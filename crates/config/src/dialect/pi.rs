//! pi: `.pi/agents/*.md`, as its example extension and the packages built on it write them. They have different names for
//! the same fields; all are accepted.

use super::{Body, Input, Reader, Rules, common};
use crate::definition::{AgentDefinition, Limits};
use crate::fields::Fields;
use crate::given::Given;
use crate::words::{ContextStart, Isolation, MAX_DURATION_MS, MemoryScope, PromptMode, Visibility};

const KEYS: &[&str] = &[
    "name",
    "display_name",
    "package",
    "aliases",
    "description",
    "prompt_mode",
    "system_prompt_mode",
    "tools",
    "disallowed_tools",
    "model",
    "thinking",
    "effort",
    "max_turns",
    "turn_budget",
    "timeout_ms",
    "skills",
    "memory",
    "run_in_background",
    "async",
    "isolation",
    "inherit_context",
    "default_context",
    "inherit_project_context",
    "allowed_subagents",
    "max_subagent_depth",
    "enabled",
];

const QUIET: &[&str] = &[
    "color",
    "fallback_models",
    "tool_timeout_ms",
    "skill_path",
    "inherit_skills",
    "isolated",
    "extensions",
    "permissions",
];

pub(super) const RULES: Rules = Rules { reader: read as Reader, known: KEYS, quiet: QUIET };

const ISOLATIONS: &[(&str, Option<Isolation>)] = &[("worktree", Some(Isolation::Worktree)), ("off", None)];

fn read(input: &Input<'_>, fields: &mut Fields<'_>, body: Body) -> Option<AgentDefinition> {
    let mut name = common::name(fields, Some(input.stem))?;
    if let Some(package) = fields.text(&["package"]) {
        match crate::AgentName::new(&format!("{package}.{name}")) {
            Ok(whole) => name = whole,
            Err(error) => fields.refuse_about(&["package"], error.to_string()),
        }
    }
    let mode = fields.word(&["prompt_mode", "system_prompt_mode"], PromptMode::WORDS);
    let mut it = common::begin(input, fields, name, body, mode.unwrap_or(PromptMode::Append))?;
    common::check_prompt(&it, fields);
    it.aliases = common::aliases(fields);
    it.tools = common::tools(fields, &["tools"]);
    it.disallowed_tools = common::tools(fields, &["disallowed_tools"]);
    it.model = common::model(fields, &["model"]);
    it.effort = common::effort(fields, &["thinking", "effort"]);
    it.limits = limits(fields);
    it.skills = super::own::skills(fields, &["skills"]);
    it.memory = fields.given_word(&["memory"], MemoryScope::WORDS);
    it.background = fields.switch(&["run_in_background", "async"]);
    it.isolation = match fields.given_word(&["isolation"], ISOLATIONS) {
        Given::Value(Some(isolation)) => Given::Value(isolation),
        Given::Value(None) | Given::Nothing => Given::Nothing,
        Given::Omitted => Given::Omitted,
    };
    it.context.instructions = fields.switch(&["inherit_project_context"]);
    let inherits = fields.switch(&["inherit_context"]);
    let start = inherits.map(|it| if it { ContextStart::Fork } else { ContextStart::Fresh });
    it.context.start = fields.word(&["default_context"], ContextStart::WORDS).or(start);
    it.allowed_subagents = common::types(fields, &["allowed_subagents"]);
    it.max_depth = common::depth(fields, &["max_subagent_depth"]);
    if fields.switch(&["enabled"]) == Some(false) {
        it.visibility = Visibility::Disabled;
    }
    Some(it)
}

fn limits(fields: &mut Fields<'_>) -> Limits {
    let mut limits = Limits {
        max_turns: fields.count32(&["max_turns"]),
        timeout_ms: fields.count(&["timeout_ms"], MAX_DURATION_MS),
        ..Limits::default()
    };
    if let Some(mut budget) = fields.table(&["turn_budget"]) {
        limits.max_turns = limits.max_turns.or(budget.count32(&["max_turns"]));
        limits.grace_turns = budget.count32(&["grace_turns"]);
        super::permission::strict(&mut budget);
        fields.absorb(budget);
    }
    limits
}
