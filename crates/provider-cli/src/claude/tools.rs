//! Which tools a child may use. What it must not use is refused when it wants to, before anybody is asked: a tool may come
//! from a server that was not known when it was started.

use subagent_model::SpawnSpec;

use super::asks::QUESTION;

/// Its way into and out of plan mode. Nobody is there who could look at the plan, whatever the user's own settings allow.
const PLAN_MODE: [&str; 2] = ["EnterPlanMode", "ExitPlanMode"];
/// The tool by which it gives an answer that fits a schema.
const STRUCTURED: &str = "StructuredOutput";

/// The tools that a child may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tools {
    only: Option<Vec<String>>,
    never: Vec<String>,
}

impl Tools {
    pub(super) fn of(spec: &SpawnSpec) -> Self {
        let filter = &spec.setup.tools;
        let mut never = filter.deny.clone();
        never.extend(PLAN_MODE.map(str::to_owned));
        let plans = spec.setup.permission_mode.as_deref() == Some("plan");
        if spec.permissions.unattended || plans {
            never.push(QUESTION.to_owned());
        }
        Self { only: filter.allow.clone(), never }
    }

    /// The only ones of its own, where they are chosen.
    pub(super) fn only(&self) -> Option<&[String]> {
        self.only.as_deref()
    }

    /// The ones that it is never to use, as Claude Code names them.
    pub(super) fn never(&self) -> &[String] {
        &self.never
    }

    /// Whether it may use this one. Rules about how a tool is used are held by Claude Code itself.
    pub(super) fn allow(&self, tool: &str) -> bool {
        let names = |rule: &String| {
            let whole_server = rule.starts_with("mcp__") && tool.starts_with(&format!("{rule}__"));
            rule == tool || whole_server
        };
        let listed = self.only.as_ref().is_none_or(|only| tool == STRUCTURED || only.iter().any(names));
        listed && !self.never.iter().any(names)
    }
}
